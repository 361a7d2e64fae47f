// The seam between this library and the file system: every call that can fail on a disk passes here, so that a test can make any of
// them fail, or end the process, in its place. A file is read and written by several threads at a time. Errors carry the path; a full disk is RESOURCE_EXHAUSTED.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace spillway::checkpoint {

class File {
 public:
  virtual ~File() = default;                                                         // closes
  virtual absl::Status WriteAt(const void* data, size_t bytes, int64_t offset) = 0;  // all bytes or an error
  virtual absl::Status ReadAt(void* data, size_t bytes, int64_t offset) = 0;         // all bytes; OUT_OF_RANGE past the end
  virtual absl::Status Allocate(int64_t bytes) = 0;                                  // sets the size, reserving the space where the file system can
  // From now on what is aligned passes by the page cache, straight between memory and disk, where the file system can: then the alignment
  // of memory that this takes (offsets and sizes: 4096), otherwise 1. Everything else goes on as before.
  virtual int64_t PreferDirect() { return 1; }
  virtual absl::Status Sync() = 0;  // fdatasync
  virtual absl::StatusOr<int64_t> Bytes() = 0;
};

class Io {
 public:
  virtual ~Io() = default;
  virtual absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) = 0;  // for writing and reading; replaces a leftover
  virtual absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) = 0;    // for reading; NOT_FOUND
  virtual absl::Status MakeDirectory(const std::string& path) = 0;                    // one level; present already is OK
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  virtual absl::Status RenameNoReplace(const std::string& from, const std::string& to) = 0;  // ALREADY_EXISTS
  virtual absl::Status RenameReplace(const std::string& from, const std::string& to) = 0;
  virtual absl::Status RemoveTree(const std::string& path) = 0;                        // absent is OK
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;  // names, sorted; NOT_FOUND
  virtual absl::StatusOr<bool> Exists(const std::string& path) = 0;
  // As Create, for a file that several processes may want to make at once: one after the other has it, until it closes it. Waits.
  virtual absl::StatusOr<std::unique_ptr<File>> CreateAlone(const std::string& path) { return absl::UnimplementedError("files are not locked here"); }
  // What a process may still write to the file system of `path`, which exists. A quota is not in it. UNIMPLEMENTED: nobody knows.
  virtual absl::StatusOr<int64_t> FreeBytes(const std::string& path) { return absl::UnimplementedError("free space is not known"); }
};

// The real file system. Lives for ever.
Io* RealIo();

// At most `bytes_max` bytes of a file; INVALID_ARGUMENT when it is larger.
absl::StatusOr<std::string> ReadWhole(Io* io, const std::string& path, int64_t bytes_max);
// Makes the directory and the parents it lacks, each entry durable in its parent.
absl::Status MakeDirectoriesDurably(Io* io, const std::string& path);

}  // namespace spillway::checkpoint
