// Files with the durability said in the name. Errors carry the path and errno's text; ENOSPC is RESOURCE_EXHAUSTED.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

absl::Status ErrnoStatus(int error, absl::string_view what);

// INVALID_ARGUMENT when the file is larger than `limit_bytes`; NOT_FOUND when absent.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t limit_bytes = 64u << 20);
// Temporary file, fsync, rename, fsync of the directory: after OK the new content survives power loss; before it, the old one does.
absl::Status WriteFileDurably(const std::string& path, absl::string_view content, int mode = 0644);
// The same without any sync: atomic to readers, not to power loss.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view content, int mode = 0644);
absl::Status FsyncDirectory(const std::string& path);
absl::Status MakeDirectories(const std::string& path, int mode = 0755);           // like mkdir -p
absl::Status RemoveTree(const std::string& path);                                 // like rm -rf; never follows a symbolic link; absent is OK
absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);  // names, sorted, without . and ..
// The files in it, then it: a folder of ours, removed in bounded time whatever another put there (at most `files_max` entries are tried). Goes on past what
// it cannot remove and tells of the first. Never follows a symbolic link, never goes deeper; absent is OK.
absl::Status RemoveFolderOfFiles(const std::string& path, int64_t files_max);
bool PathExists(const std::string& path);
absl::Status WriteAll(int fd, absl::string_view content, const std::string& path);  // `path` for the error
std::string FolderOf(absl::string_view path);                                       // "a/b" -> "a", "b" -> ".", "/b" -> "/"
std::string JoinPath(absl::string_view a, absl::string_view b);
// `~/x` with HOME; anything else unchanged.
std::string ExpandHome(absl::string_view path);
std::string AbsolutePath(absl::string_view path);
// SPILLWAY_HOME, or ~/.spillway.
std::string SpillwayHome();

}  // namespace spillway
