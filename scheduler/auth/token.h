// Bearer tokens: made once, kept in a file only its owner can read, compared in constant time. Never logged.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::auth {

// The token in `path`; a new random one (0600, durable) when the file is absent.
// PERMISSION_DENIED when others than the owner can read the file. `what` is what errors call it.
absl::StatusOr<std::string> LoadOrCreateToken(const std::string& path, absl::string_view what = "token");

// Checks the value of an `authorization` header. UNAUTHENTICATED says what is missing, never what was expected.
class TokenGuard {
 public:
  explicit TokenGuard(std::string token) : expected_("Bearer " + token) {}
  absl::Status Check(absl::string_view authorization) const;

 private:
  std::string expected_;
};

}  // namespace spillway::auth
