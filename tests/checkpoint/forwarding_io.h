// The real file system, for a test that puts something else in the place of one or two of its calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/io.h"

namespace spillway::checkpoint {

class ForwardingIo : public Io {
 public:
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override { return RealIo()->Create(path); }
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override { return RealIo()->Open(path); }
  absl::Status MakeDirectory(const std::string& path) override { return RealIo()->MakeDirectory(path); }
  absl::Status SyncDirectory(const std::string& path) override { return RealIo()->SyncDirectory(path); }
  absl::Status RenameNoReplace(const std::string& from, const std::string& to) override { return RealIo()->RenameNoReplace(from, to); }
  absl::Status RenameReplace(const std::string& from, const std::string& to) override { return RealIo()->RenameReplace(from, to); }
  absl::Status RemoveTree(const std::string& path) override { return RealIo()->RemoveTree(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override { return RealIo()->List(path); }
  absl::StatusOr<bool> Exists(const std::string& path) override { return RealIo()->Exists(path); }
};

}  // namespace spillway::checkpoint
