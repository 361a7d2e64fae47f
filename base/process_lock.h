// One process at a time: flock(2) on a file that names its holder. The lock ends with the process, however that ends; but for a moment longer with a child
// that it was starting when it was killed, which has the descriptor until its exec. Whoever comes next waits for that moment, and for nothing else.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace spillway {

// The descriptor: keep it open as long as the lock is to be held. The file is made where it is absent, and stays for ever.
// FAILED_PRECONDITION when a living process has it: `taken`, and which one that is.
absl::StatusOr<int> LockFile(const std::string& path, const std::string& taken);

}  // namespace spillway
