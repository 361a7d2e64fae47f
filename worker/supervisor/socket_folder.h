// The folder of a supervisor's sockets, /run/spillway/<hash of home> or the like: a path so short that a socket's name still fits. Locked by its supervisor
// for as long as that lives and removed when it leaves. A supervisor that was killed and never followed (its machine's instance was taken) removes nothing:
// the next one that starts on this machine does. Any other folder, one that a person named, is left alone.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace spillway::supervisor {

inline constexpr int64_t kSocketFolderUnusedMs = 10 * 60'000;

class SocketFolder {
 public:
  // Makes and locks the folder of `socket_path`.
  static absl::StatusOr<SocketFolder> Take(const std::string& socket_path);
  SocketFolder(SocketFolder&& other) noexcept;
  SocketFolder& operator=(SocketFolder&&) = delete;
  ~SocketFolder();  // gone, unless something else stands in it

  // Removes the folders beside this one that nobody has locked, that no socket is bound in, and that nothing was changed in for `unused_ms`.
  // How many those were.
  int RemoveLeftOnes(int64_t unused_ms) const;

 private:
  SocketFolder(std::string folder, int fd) : folder_(std::move(folder)), fd_(fd) {}
  std::string folder_;  // "" where it is none of ours
  int fd_ = -1;
};

}  // namespace spillway::supervisor
