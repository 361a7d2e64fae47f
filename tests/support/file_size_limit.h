// A disk that has room for so many bytes of a file and no more: a write across the limit is cut off there, the next one fails (EFBIG). For this process,
// within a scope.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include "base/log.h"

namespace spillway {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(int64_t bytes) {
    handler_ = signal(SIGXFSZ, SIG_IGN);
    CHECK(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(bytes);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int) = SIG_DFL;
};

}  // namespace spillway
