// KEY: beside an encrypted checkpoint's MANIFEST, the data key it is encrypted under, wrapped by a key that the user holds. It is not under the
// manifest's digest, so that wrapping it anew (rotation) leaves a checkpoint what the scheduler has registered. Owns that file and the
// way from the user's key to the data key; docs/reference/checkpoint-format.md gives the bytes.
//
// Whatever is wrong with the user's key is UNAUTHENTICATED: nobody falls back from it, and nobody takes it for "there is no checkpoint".
// Whatever is wrong with the file is DATA_LOSS.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/crypto.h"
#include "checkpoint/io.h"
#include "checkpoint/manifest.h"
#include "checkpoint/sealed_json.h"

namespace spillway::checkpoint {

inline constexpr int kKeyFileVersion = 1;
inline constexpr size_t kWrapsMax = 8;

// The data key, for one user key.
struct KeyWrap {
  Salt salt{};
  Commitment check{};   // differs for another user key
  std::string wrapped;  // 32 bytes and a tag
  bool operator==(const KeyWrap&) const = default;
};

struct KeyFile {
  std::string data_key_id;
  std::vector<KeyWrap> wraps;  // 1 to kWrapsMax, the newest first
  bool operator==(const KeyFile&) const = default;
};

absl::StatusOr<KeyFile> WrapKey(const SecretKey& data_key, const SecretKey& user_key);
// UNAUTHENTICATED: no wrap is for this user key. DATA_LOSS: the one that is was altered.
absl::StatusOr<SecretKey> UnwrapKey(const KeyFile& file, const SecretKey& user_key);

Json KeyFileJson(const KeyFile& file);
// `json` as UnsealJson gives it. DATA_LOSS; UNIMPLEMENTED for a later version.
absl::StatusOr<KeyFile> KeyFileOf(const Json& json, absl::string_view what);

// In the step directory or stage `directory`: at once to every reader, durable when it returns.
absl::Status WriteKeyFile(Io* io, const std::string& directory, const KeyFile& file);
// NOT_FOUND; DATA_LOSS.
absl::StatusOr<KeyFile> ReadKeyFile(Io* io, const std::string& directory);
// Without any key: KEY is there and whole and of the data key that the manifest names. DATA_LOSS otherwise; OK for a plain manifest.
absl::Status CheckKeyFile(Io* io, const std::string& directory, const Manifest& manifest);

// From the user's key, or none, to the data key, or none, of a checkpoint whose manifest was read without one; its metadata is opened
// and the manifest authenticated. UNAUTHENTICATED too when the one is encrypted and there is no key, and when there is a key and it is
// not encrypted: whoever has a key takes nothing that could have been put there without it.
absl::StatusOr<std::optional<SecretKey>> Unlock(Io* io, const std::string& directory, const SecretKey* user_key, Manifest* manifest);

// Wraps a checkpoint's data key for `to`, who can open it from then on; `from` can no longer, unless `keep` says that all wraps stay. The
// containers are not touched. OK without a change where that is done already. FAILED_PRECONDITION: not encrypted.
// RESOURCE_EXHAUSTED: with `keep`, kWrapsMax wraps are there. Several at once, of this process and of others, come one after the other.
absl::Status RewrapKey(const std::string& directory, const SecretKey& from, const SecretKey& to, bool keep = false, Io* io = RealIo());

}  // namespace spillway::checkpoint
