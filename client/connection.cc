#include "client/connection.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"
#include "base/status_macros.h"

namespace spillway::client {
namespace {

absl::StatusOr<std::string> FindServer(const std::string& flag, const std::string& home, const Environment& environment) {
  if (!flag.empty()) return flag;
  if (std::string named = environment("SPILLWAY_SERVER"); !named.empty()) return named;
  auto port = ReadFile(JoinPath(home, "run/user.port"), 4096);
  if (absl::IsNotFound(port.status())) return std::string(kDefaultServer);
  RETURN_IF_ERROR(port.status());
  const std::string text(absl::StripAsciiWhitespace(*port));
  return absl::StrContains(text, ':') ? text : absl::StrCat("127.0.0.1:", text);
}

absl::StatusOr<std::string> FindToken(const std::string& home, const Environment& environment) {
  if (std::string token = environment("SPILLWAY_TOKEN"); !token.empty()) return token;
  if (const std::string file = environment("SPILLWAY_TOKEN_FILE"); !file.empty()) return ReadTokenFile(ExpandHome(file));
  auto token = ReadTokenFile(JoinPath(home, "tokens/user"));
  if (absl::IsNotFound(token.status())) return std::string();
  return token;
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
  ASSIGN_OR_RETURN(connection.server, FindServer(server_flag, home, environment));
  ASSIGN_OR_RETURN(connection.token, FindToken(home, environment));
  return connection;
}

absl::StatusOr<std::string> ReadTokenFile(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("token file ", path));
  if ((info.st_mode & 0077) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat("token file %s has mode %04o: others may use it; run chmod 600 %s", path, info.st_mode & 07777, path));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 4096));
  const std::string token(absl::StripAsciiWhitespace(text));
  if (token.empty()) return absl::InvalidArgumentError(absl::StrCat("token file ", path, " is empty"));
  return token;
}

bool IsLoopback(absl::string_view server) {
  const absl::string_view host = server.substr(0, server.rfind(':'));
  // Only an address: a name may begin with 127. and lead anywhere.
  const bool address = host.find_first_not_of("0123456789.") == absl::string_view::npos;
  return host == "localhost" || host == "[::1]" || (address && absl::StartsWith(host, "127."));
}

}  // namespace spillway::client
