// Where the user's key comes from: a file, an inherited descriptor, or what a command prints (for a key management service). It is 64 hex digits
// and perhaps the end of a line. Whatever is wrong is UNAUTHENTICATED and says what to do. The key is in no message, and only its own
// buffer, which is wiped, ever holds its text.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/crypto.h"

namespace spillway::checkpoint {

inline constexpr char kKeyFileVariable[] = "SPILLWAY_CHECKPOINT_KEY_FILE";        // a path
inline constexpr char kKeyFdVariable[] = "SPILLWAY_CHECKPOINT_KEY_FD";            // a number
inline constexpr char kKeyCommandVariable[] = "SPILLWAY_CHECKPOINT_KEY_COMMAND";  // a JSON array of strings: no shell
inline constexpr int64_t kKeyCommandMsMax = 60'000;

// A regular file of this user that nobody else may read or write.
absl::StatusOr<SecretKey> KeyFromFile(const std::string& path);
// Read to its end once a process, and remembered: a pipe gives what it holds only once.
absl::StatusOr<SecretKey> KeyFromDescriptor(int fd);
// argv[0] is looked up in PATH. Its standard error is this process's. It is killed after `wait_ms`.
absl::StatusOr<SecretKey> KeyFromCommand(const std::vector<std::string>& argv, int64_t wait_ms = kKeyCommandMsMax);

// From the one of the three variables that is set (an empty one is not); nullopt when none is. `lookup` gives nullptr for one that is not.
absl::StatusOr<std::optional<SecretKey>> KeyFromEnvironment();
absl::StatusOr<std::optional<SecretKey>> KeyFrom(const std::function<const char*(const char*)>& lookup);

}  // namespace spillway::checkpoint
