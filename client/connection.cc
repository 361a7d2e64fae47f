#include "client/connection.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::client {
namespace {

constexpr char kNewToken[] = "; put it back, or remove it between `spillway down` and `spillway up`: a new one is made";

// `own_token`: the token is that of this home's scheduler, so nobody else gets to see it.
absl::StatusOr<std::string> FindServer(const std::string& flag, const std::string& home, bool own_token, const Environment& environment) {
  if (!flag.empty()) return flag;
  if (std::string named = environment("SPILLWAY_SERVER"); !named.empty()) return named;
  auto address = ReadPortFile(JoinPath(home, "run/user.port"));
  if (!absl::IsNotFound(address.status())) return address;
  if (!own_token) return std::string(kDefaultServer);
  return absl::UnavailableError(
      absl::StrCat("the scheduler of ", home,
                   " is not there (it has no run/user.port); start it with `spillway up`, or say with --server where else this home's token is meant for"));
}

std::string OwnTokenPath(const std::string& home) { return JoinPath(home, "tokens/user"); }

absl::Status FindToken(const std::string& home, const Environment& environment, Connection* connection) {
  if (connection->token = environment("SPILLWAY_TOKEN"); !connection->token.empty()) {
    connection->token_source = "SPILLWAY_TOKEN";
    return absl::OkStatus();
  }
  const std::string named = environment("SPILLWAY_TOKEN_FILE");
  const std::string path = named.empty() ? OwnTokenPath(home) : ExpandHome(named);
  auto token = ReadTokenFile(path);
  if (named.empty() && absl::IsNotFound(token.status())) return absl::OkStatus();
  RETURN_IF_ERROR(token.status());
  connection->token = *std::move(token);
  connection->token_source = path;
  return absl::OkStatus();
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
}

absl::StatusOr<Connection> FindConnection(const std::string& server_flag, const std::string& home, const Environment& environment) {
  Connection connection;
  RETURN_IF_ERROR(FindToken(home, environment, &connection));
  ASSIGN_OR_RETURN(connection.server, FindServer(server_flag, home, connection.token_source == OwnTokenPath(home), environment));
  return connection;
}

absl::StatusOr<std::string> ReadPortFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path, 4096));
  const absl::string_view text = absl::StripAsciiWhitespace(content);
  const size_t colon = text.rfind(':');
  const absl::string_view host = colon == absl::string_view::npos ? "127.0.0.1" : text.substr(0, colon);
  const bool plain = std::all_of(host.begin(), host.end(), [](char c) { return c > ' ' && c <= '~'; });
  int port = 0;
  if (host.empty() || !plain || !absl::SimpleAtoi(text.substr(colon == absl::string_view::npos ? 0 : colon + 1), &port) || port < 1 || port > 65'535) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " holds `", Printable(text, 40), "`, which is no port; `spillway down` and `spillway up` write it anew, --server does without it"));
  }
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("token file ", path));
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat("token file ", path, " is no file"));
  if ((info.st_mode & 0077) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat("token file %s has mode %04o: others may use it; run chmod 600 %s", path, info.st_mode & 07777, path));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 4096));
  const std::string token(absl::StripAsciiWhitespace(text));
  if (token.empty()) return absl::InvalidArgumentError(absl::StrCat("token file ", path, " is empty", kNewToken));
  for (const char c : token) {
    if (c <= ' ' || c > '~') return absl::InvalidArgumentError(absl::StrCat("token file ", path, " holds something else than one token", kNewToken));
  }
  return token;
}

bool IsLoopback(absl::string_view server) {
  const absl::string_view host = server.substr(0, server.rfind(':'));
  // Only an address: a name may begin with 127. and lead anywhere.
  const bool address = host.find_first_not_of("0123456789.") == absl::string_view::npos;
  return host == "localhost" || host == "[::1]" || (address && absl::StartsWith(host, "127."));
}

}  // namespace spillway::client
