#include "scheduler/auth/token.h"

#include <openssl/crypto.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/status_macros.h"

namespace spillway::auth {
namespace {

constexpr size_t kTokenFileBytesMax = 4'096;
constexpr size_t kTokenBytesMin = 16;

}  // namespace

absl::StatusOr<std::string> LoadOrCreateToken(const std::string& path, absl::string_view what) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return ErrnoStatus(errno, path);
    const std::string token = NewToken();
    RETURN_IF_ERROR(WriteFileDurably(path, token + "\n", 0600));
    return token;
  }
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": no file; the ", what, " stands in one"));
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": others can read this ", what, "; run: chmod 600 ", path));
  }
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kTokenFileBytesMax));
  const std::string token(absl::StripAsciiWhitespace(content));
  if (token.size() < kTokenBytesMin) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a ", what, " has at least ", kTokenBytesMin, " characters; delete the file to have a new one made"));
  }
  return token;
}

absl::Status TokenGuard::Check(absl::string_view authorization) const {
  if (authorization.empty())
    return absl::UnauthenticatedError("no token: every call needs `authorization: Bearer TOKEN` (SPILLWAY_TOKEN, or tokens/user in SPILLWAY_HOME)");
  const bool equal = authorization.size() == expected_.size() && CRYPTO_memcmp(authorization.data(), expected_.data(), expected_.size()) == 0;
  if (!equal) return absl::UnauthenticatedError("wrong token");
  return absl::OkStatus();
}

}  // namespace spillway::auth
