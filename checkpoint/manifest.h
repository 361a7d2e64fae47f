// MANIFEST: the small JSON file, written last, that makes a directory a checkpoint. It names every container with its size and digest
// and carries a SHA-256 over itself. That of an encrypted checkpoint keeps its metadata sealed under the data key, with everything else it says
// as associated data: one seal that authenticates all of it, and through the containers' digests all names, shapes and tags.
// Owns that text form, strictly: whatever this code would not have written is refused.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/crypto.h"

namespace spillway::checkpoint {

inline constexpr char kLibraryVersion[] = "0.1.0";
inline constexpr int kManifestVersion = 1;           // plain
inline constexpr int kManifestVersionEncrypted = 2;  // with `encryption`

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

struct ManifestEncryption {
  std::string data_key_id;
  Salt salt{};
  Commitment commitment{};
  std::string sealed_metadata;  // ciphertext and tag
  bool operator==(const ManifestEncryption&) const = default;
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
  Metadata metadata;    // of an encrypted one: empty until OpenMetadata
  std::optional<ManifestEncryption> encryption;
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

// Seals metadata and all else under the data key: the last thing done to a manifest before it is encoded.
absl::Status SealMetadata(Manifest* manifest, const SecretKey& data_key);
// Authenticates an encrypted manifest and fills in its metadata. DATA_LOSS: it was altered, or is of another data key.
absl::Status OpenMetadata(Manifest* manifest, const SecretKey& data_key);

}  // namespace spillway::checkpoint
