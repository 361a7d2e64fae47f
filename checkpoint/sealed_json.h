// JSON files that say by themselves whether they are whole: the first line holds a SHA-256 over every byte after it. MANIFEST and the small
// files by which writers find each other have this form. Owns the seal and strict reading; knows no file's fields.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/io.h"

namespace spillway::checkpoint {

using Json = nlohmann::json;

inline constexpr size_t kSealBytes = 78;  // the first line; the digest is over what comes after it

struct SealedText {
  std::string text;    // the file's content
  std::string sha256;  // hex
};

// `object` has at least one key. INVALID_ARGUMENT when a string in it is not UTF-8.
absl::StatusOr<SealedText> SealJson(const Json& object);
// The object, its key "sha256" included. DATA_LOSS, beginning with `what`, when the digest does not match or it is no flat enough JSON.
absl::StatusOr<Json> UnsealJson(absl::string_view what, absl::string_view text, std::string* sha256 = nullptr);

// Replaces `path` by a sealed file, at once to every reader; `temporary` lies in the same directory and is this writer's own.
// With `durable` it survives power loss when this returns.
absl::Status WriteSealed(Io* io, const std::string& path, const std::string& temporary, const Json& object, bool durable);
// The same into `file`, which is open at `temporary`.
absl::Status WriteSealed(Io* io, const std::string& path, const std::string& temporary, File* file, const Json& object, bool durable);
// A sealed file of at most 64 KiB times `members` + 1. NOT_FOUND; DATA_LOSS.
absl::StatusOr<Json> ReadSealed(Io* io, const std::string& path, int64_t members = 0);

bool IsHexDigest(absl::string_view text);  // 64 lower-case hex digits

// Reads one field after the other and remembers what was wrong first; a key that is not asked for is an error too. Errors are DATA_LOSS.
class Fields {
 public:
  Fields(const Json& object, absl::string_view what, std::string where = "");
  std::string Text(const char* key);
  int64_t Integer(const char* key, int64_t low, int64_t high);
  const Json* Get(const char* key);  // nullptr when absent or something was wrong before
  void Fail(absl::string_view what_is_wrong);
  absl::Status Finish();

 private:
  const Json& object_;
  const std::string what_, where_;
  size_t asked_ = 0;
  absl::Status status_;
};

}  // namespace spillway::checkpoint
