#include "checkpoint/key_file.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/layout.h"

namespace spillway::checkpoint {
namespace {

constexpr char kFormat[] = "spillway-checkpoint-key";
constexpr char kPurpose[] = "spillway wrap v1";
constexpr size_t kWrappedBytes = SecretKey::kBytes + sizeof(Tag);

std::string PathIn(const std::string& directory) { return JoinPath(directory, kKeyFileName); }
std::string TemporaryIn(const std::string& directory) { return PathIn(directory) + ".tmp"; }

absl::StatusOr<KeyWrap> Wrap(const SecretKey& data_key, const std::string& data_key_id, const SecretKey& user_key) {
  KeyWrap wrap;
  ASSIGN_OR_RETURN(wrap.salt, RandomSalt());
  const DerivedKey derived = Derive(user_key, wrap.salt, kPurpose);
  wrap.check = derived.commitment;
  wrap.wrapped.resize(SecretKey::kBytes);
  Tag tag;
  Gcm(derived.key).Seal(NonceOf(0, true), data_key_id, data_key.view().data(), SecretKey::kBytes, wrap.wrapped.data(), &tag);
  absl::StrAppend(&wrap.wrapped, ViewOf(tag));
  return wrap;
}

template <size_t n>
bool TakeHex(Fields* fields, const char* key, std::array<uint8_t, n>* out) {
  const std::string hex = fields->Text(key);
  const auto bytes = FromHex(hex);
  if (!bytes.ok() || bytes->size() != n || HexOf(*bytes) != hex) {
    fields->Fail(absl::StrCat("\"", key, "\" is not ", 2 * n, " lower-case hex digits"));
    return false;
  }
  std::memcpy(out->data(), bytes->data(), n);
  return true;
}

}  // namespace

absl::StatusOr<KeyFile> WrapKey(const SecretKey& data_key, const SecretKey& user_key) {
  KeyFile file{DataKeyId(data_key), {}};
  ASSIGN_OR_RETURN(file.wraps.emplace_back(), Wrap(data_key, file.data_key_id, user_key));
  return file;
}

absl::StatusOr<SecretKey> UnwrapKey(const KeyFile& file, const SecretKey& user_key) {
  for (const KeyWrap& wrap : file.wraps) {
    const DerivedKey derived = Derive(user_key, wrap.salt, kPurpose);
    if (derived.commitment != wrap.check) continue;
    Tag tag;
    std::memcpy(tag.data(), wrap.wrapped.data() + SecretKey::kBytes, tag.size());
    SecretKey data_key;
    if (!Gcm(derived.key).Open(NonceOf(0, true), file.data_key_id, wrap.wrapped.data(), SecretKey::kBytes, data_key.data(), tag) ||
        DataKeyId(data_key) != file.data_key_id) {
      return absl::DataLossError("the wrapped key was altered");
    }
    return data_key;
  }
  return absl::UnauthenticatedError(
      absl::StrCat("wrong key: ", file.wraps.size() == 1 ? "the data key is" : absl::StrCat("each of ", file.wraps.size(), " wraps of the data key is"),
                   " for another one"));
}

Json KeyFileJson(const KeyFile& file) {
  Json json = {{"format", kFormat}, {"version", kKeyFileVersion}, {"data_key", file.data_key_id}, {"wraps", Json::array()}};
  for (const KeyWrap& wrap : file.wraps) {
    json["wraps"].push_back({{"salt", HexOf(ViewOf(wrap.salt))}, {"check", HexOf(ViewOf(wrap.check))}, {"wrapped", HexOf(wrap.wrapped)}});
  }
  return json;
}

absl::StatusOr<KeyFile> KeyFileOf(const Json& json, absl::string_view what) {
  Fields top(json, what);
  KeyFile file;
  top.Text("sha256");
  if (top.Text("format") != kFormat) top.Fail(absl::StrCat("\"format\" is not ", kFormat));
  const int64_t version = top.Integer("version", 1, INT64_MAX);
  if (version > kKeyFileVersion) {
    return absl::UnimplementedError(absl::StrCat(what, ": version ", version, "; this library reads version ", kKeyFileVersion));
  }
  file.data_key_id = top.Text("data_key");
  if (!IsHexDigest(file.data_key_id)) top.Fail("\"data_key\" is not 64 lower-case hex digits");
  const Json* wraps = top.Get("wraps");
  RETURN_IF_ERROR(top.Finish());
  if (!wraps->is_array() || wraps->empty() || wraps->size() > kWrapsMax) {
    return absl::DataLossError(absl::StrCat(what, ": \"wraps\" is not an array of 1 to ", kWrapsMax));
  }
  for (const Json& item : *wraps) {
    Fields fields(item, what, absl::StrCat("wraps[", file.wraps.size(), "]"));
    KeyWrap wrap;
    std::array<uint8_t, kWrappedBytes> wrapped;
    TakeHex(&fields, "salt", &wrap.salt);
    TakeHex(&fields, "check", &wrap.check);
    if (TakeHex(&fields, "wrapped", &wrapped)) wrap.wrapped = std::string(ViewOf(wrapped));
    RETURN_IF_ERROR(fields.Finish());
    file.wraps.push_back(std::move(wrap));
  }
  return file;
}

absl::Status WriteKeyFile(Io* io, const std::string& directory, const KeyFile& file) {
  return WriteSealed(io, PathIn(directory), TemporaryIn(directory), KeyFileJson(file), /*durable=*/true);
}

absl::StatusOr<KeyFile> ReadKeyFile(Io* io, const std::string& directory) {
  const std::string path = PathIn(directory);
  ASSIGN_OR_RETURN(const Json json, ReadSealed(io, path));
  return KeyFileOf(json, path);
}

namespace {

absl::StatusOr<KeyFile> ReadKeyFileOf(Io* io, const std::string& directory, const Manifest& manifest) {
  auto file = ReadKeyFile(io, directory);
  if (absl::IsNotFound(file.status())) return absl::DataLossError(absl::StrCat(PathIn(directory), " is not there, and the checkpoint is encrypted"));
  if (!file.ok()) return file.status();
  if (file->data_key_id != manifest.encryption->data_key_id) {
    return absl::DataLossError(absl::StrCat(PathIn(directory), " holds another data key than the one its manifest names: it is of another run"));
  }
  return file;
}

absl::Status InDirectory(const std::string& directory, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(directory, ": ", status.message()));
}

}  // namespace

absl::Status CheckKeyFile(Io* io, const std::string& directory, const Manifest& manifest) {
  return manifest.encryption ? ReadKeyFileOf(io, directory, manifest).status() : absl::OkStatus();
}

absl::StatusOr<std::optional<SecretKey>> Unlock(Io* io, const std::string& directory, const SecretKey* user_key, Manifest* manifest) {
  if (!manifest->encryption && user_key == nullptr) return std::nullopt;
  if (user_key == nullptr) return absl::UnauthenticatedError(absl::StrCat(directory, " is encrypted, and no key is given"));
  if (!manifest->encryption) {
    return absl::UnauthenticatedError(absl::StrCat(directory, " is not encrypted, and a key is given; restore it without the key if it is to be trusted"));
  }
  ASSIGN_OR_RETURN(const KeyFile file, ReadKeyFileOf(io, directory, *manifest));
  auto data_key = UnwrapKey(file, *user_key);
  if (!data_key.ok()) return InDirectory(PathIn(directory), data_key.status());
  if (const absl::Status opened = OpenMetadata(manifest, *data_key); !opened.ok()) return InDirectory(JoinPath(directory, kManifestName), opened);
  return *std::move(data_key);
}

namespace {

// What KEY is to hold; nothing where that is done already.
absl::StatusOr<std::optional<KeyFile>> Rewrapped(Io* io, const std::string& directory, const Manifest& manifest, const SecretKey& from, const SecretKey& to,
                                                 bool keep) {
  ASSIGN_OR_RETURN(KeyFile file, ReadKeyFileOf(io, directory, manifest));
  const auto data_key = UnwrapKey(file, from);
  if (absl::IsUnauthenticated(data_key.status()) && UnwrapKey(file, to).ok()) return std::nullopt;
  if (!data_key.ok()) return InDirectory(PathIn(directory), data_key.status());
  if (keep && UnwrapKey(file, to).ok()) return std::nullopt;
  if (!keep) file.wraps.clear();
  if (file.wraps.size() >= kWrapsMax) {
    return absl::ResourceExhaustedError(absl::StrCat(PathIn(directory), " holds ", kWrapsMax, " wraps already; leave the old ones out once"));
  }
  ASSIGN_OR_RETURN(KeyWrap wrap, Wrap(*data_key, file.data_key_id, to));
  file.wraps.insert(file.wraps.begin(), std::move(wrap));
  return file;
}

}  // namespace

absl::Status RewrapKey(const std::string& directory, const SecretKey& from, const SecretKey& to, bool keep, Io* io) {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(directory, nullptr, io));
  if (!manifest.encryption) return absl::FailedPreconditionError(absl::StrCat(directory, " is not encrypted"));
  const std::string path = PathIn(directory);
  const std::string temporary = TemporaryIn(directory);
  ASSIGN_OR_RETURN(const std::optional<KeyFile> wanted, Rewrapped(io, directory, manifest, from, to, keep));
  if (!wanted) return absl::OkStatus();
  // Two at once would write into each other's file and drop each other's wraps: one after the other, and what the first has left is read again.
  ASSIGN_OR_RETURN(const std::unique_ptr<File> locked, io->CreateAlone(temporary));
  auto again = Rewrapped(io, directory, manifest, from, to, keep);
  if (again.ok() && *again) return WriteSealed(io, path, temporary, locked.get(), KeyFileJson(**again), /*durable=*/true);
  const absl::Status removed = io->RemoveTree(temporary);
  return again.ok() ? removed : again.status();
}

}  // namespace spillway::checkpoint
