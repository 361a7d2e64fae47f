// A folder of a test's own, gone at the end of its scope.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "absl/strings/string_view.h"
#include "base/files.h"

namespace spillway {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(JoinPath(::testing::TempDir(), "spillway-test-XXXXXX")) {
    if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot create " << path_;
  }
  ~TemporaryFolder() { EXPECT_TRUE(RemoveTree(path_).ok()) << path_; }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string File(absl::string_view name) const { return JoinPath(path_, name); }

 private:
  std::string path_;
};

}  // namespace spillway
