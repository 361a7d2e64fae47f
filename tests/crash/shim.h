// A program's file calls, counted and failing at the k-th: the test's end of the shim that is preloaded into it (io_shim.c).
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "tests/crash/io_shim.h"

namespace spillway {

inline const char* IoShimModeName(IoShimMode mode) {
  static const char* const kNames[] = {"Counts", "Dies", "ErrorOnce", "ErrorStays", "FullOnce", "FullStays"};
  return kNames[mode];
}

class Shim {
 public:
  // Calls of `program` (its file name) that change files below `folder` count.
  Shim(const std::string& folder, const std::string& program) : Shim(folder, program, folder + ".shim") {}
  Shim(const std::string& folder, const std::string& program, const std::string& path) : folder_(folder), program_(program), path_(path) {
    const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, sizeof(IoShimControl)) == 0) << path_;
    void* mapped = mmap(nullptr, sizeof(IoShimControl), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(mapped != MAP_FAILED);
    control_ = static_cast<IoShimControl*>(mapped);
  }
  ~Shim() {
    munmap(control_, sizeof(IoShimControl));
    if (!kept_) unlink(path_.c_str());
  }
  Shim(const Shim&) = delete;
  Shim& operator=(const Shim&) = delete;

  // This program's own, when main.cc has started it under one.
  static Shim*& Own() {
    static Shim* own = nullptr;
    return own;
  }
  // The control block stays for whoever opens it next.
  void Keep() { kept_ = true; }

  // The k-th call from now on, from 1.
  void FailAt(int64_t k, IoShimMode mode) {
    control_->struck = 0;
    control_->what[0] = '\0';
    control_->mode = mode;
    control_->at = control_->calls + k;
  }
  void Disarm() { control_->at = 0; }
  bool struck() const { return control_->struck != 0; }
  std::string what() const { return control_->what; }
  const std::string& folder() const { return folder_; }

  // What a program needs in its environment.
  std::vector<std::pair<std::string, std::string>> Variables() const {
    // A sanitized program brings a runtime that wants to be the first library; it may be the second.
    return {{"LD_PRELOAD", SPILLWAY_IO_SHIM},
            {"SPILLWAY_SHIM_CONTROL", path_},
            {"SPILLWAY_SHIM_FOLDER", folder_},
            {"SPILLWAY_SHIM_PROGRAM", program_},
            {"ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0"}};
  }

 private:
  const std::string folder_, program_, path_;
  bool kept_ = false;
  IoShimControl* control_ = nullptr;
};

}  // namespace spillway
