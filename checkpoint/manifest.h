// MANIFEST: the small JSON file, written last, that makes a directory a checkpoint. It names every container with its size and digest
// and carries a SHA-256 over itself. Owns that text form, strictly: whatever this code would not have written is refused.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::checkpoint {

inline constexpr char kLibraryVersion[] = "0.1.0";
inline constexpr int kManifestVersion = 1;

// A checkpoint of the same task, independent of where it lies.
struct CheckpointRef {
  int64_t attempt = 0;
  int64_t step = 0;
  auto operator<=>(const CheckpointRef&) const = default;
};

using Metadata = std::map<std::string, std::string>;  // UTF-8

struct ManifestFile {
  std::string name;  // rank-00000.bin
  int64_t bytes = 0;
  std::string header_sha256;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::string job_uid;  // "" outside Spillway
  int64_t attempt = 1;
  int64_t step = 0;
  std::optional<CheckpointRef> parent;  // what the attempt resumed from; the same in all its checkpoints
  int world_size = 1;
  std::vector<ManifestFile> files;  // one a rank, in order
  std::string library_version = kLibraryVersion;
  std::string created;  // RFC 3339, UTC; for people
  Metadata metadata;
  bool operator==(const Manifest&) const = default;

  int64_t Bytes() const;  // of all containers
};

struct EncodedManifest {
  std::string text;    // the file's content
  std::string sha256;  // hex; what is reported as manifest_sha256
};

// INVALID_ARGUMENT when a text is not UTF-8, a number is out of range or the result exceeds limits::kManifestBytesMax.
absl::StatusOr<EncodedManifest> EncodeManifest(const Manifest& manifest);
// DATA_LOSS when the digest does not match or the content is not a manifest; UNIMPLEMENTED for a later version.
absl::StatusOr<Manifest> DecodeManifest(absl::string_view text, std::string* sha256 = nullptr);

}  // namespace spillway::checkpoint
