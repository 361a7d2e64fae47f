#include "checkpoint/manifest.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "checkpoint/layout.h"
#include "checkpoint/sealed_json.h"

namespace spillway::checkpoint {
namespace {

constexpr char kFormat[] = "spillway-checkpoint";
constexpr char kCipher[] = "AES-256-GCM";
constexpr char kPurpose[] = "spillway manifest v1";

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(absl::StrCat("manifest: ", what)); }

absl::Status CheckRanges(const Manifest& m) {
  auto bad = [](absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat("manifest: ", what)); };
  if (m.attempt < 1) return bad(absl::StrCat("attempt ", m.attempt, "; want 1 or more"));
  if (m.step < 0 || m.step > kStepMax) return bad(absl::StrCat("step ", m.step, "; want 0 to ", kStepMax));
  if (m.parent && (m.parent->attempt < 1 || m.parent->step < 0 || m.parent->step > kStepMax)) return bad("impossible parent");
  if (m.world_size < 1 || m.world_size > kWorldSizeMax) return bad(absl::StrCat("world_size ", m.world_size, "; want 1 to ", kWorldSizeMax));
  if (m.files.size() != static_cast<size_t>(m.world_size)) return bad(absl::StrCat(m.files.size(), " files for world_size ", m.world_size));
  for (size_t i = 0; i < m.files.size(); ++i) {
    const ManifestFile& file = m.files[i];
    if (file.name != RankFileName(static_cast<int>(i))) return bad(absl::StrCat("file ", i, " is named \"", Printable(file.name), "\""));
    if (file.bytes < 0 || !IsHexDigest(file.header_sha256)) return bad(absl::StrCat("impossible size or digest of ", file.name));
  }
  return absl::OkStatus();
}

// Lower-case hex of `bytes` bytes, or of at least `bytes` when `open_ended`.
std::string TakeHex(Fields* fields, const char* key, size_t bytes, bool open_ended = false) {
  const std::string hex = fields->Text(key);
  auto decoded = FromHex(hex);
  if (decoded.ok() && HexOf(*decoded) == hex && (decoded->size() == bytes || (open_ended && decoded->size() > bytes))) return *std::move(decoded);
  fields->Fail(absl::StrCat("\"", key, "\" is not ", open_ended ? "at least " : "", 2 * bytes, " lower-case hex digits"));
  return std::string(bytes, '\0');
}

absl::StatusOr<ManifestEncryption> EncryptionFromJson(const Json& json) {
  ManifestEncryption encryption;
  Fields fields(json, "manifest", "encryption");
  if (fields.Text("cipher") != kCipher) fields.Fail(absl::StrCat("\"cipher\" is not ", kCipher));
  encryption.data_key_id = HexOf(TakeHex(&fields, "data_key", 32));
  const std::string salt = TakeHex(&fields, "salt", sizeof(Salt)), commitment = TakeHex(&fields, "commitment", sizeof(Commitment));
  encryption.sealed_metadata = TakeHex(&fields, "metadata", sizeof(Tag), /*open_ended=*/true);
  RETURN_IF_ERROR(fields.Finish());
  std::memcpy(encryption.salt.data(), salt.data(), salt.size());
  std::memcpy(encryption.commitment.data(), commitment.data(), commitment.size());
  return encryption;
}

absl::Status TakeMetadata(const Json& json, Metadata* metadata) {
  if (!json.is_object()) return Damaged("\"metadata\" is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return Damaged(absl::StrCat("metadata \"", Printable(key), "\" is not a string"));
    (*metadata)[key] = value.get<std::string>();
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> FromJson(const Json& json) {
  Manifest m;
  Fields top(json, "manifest");
  top.Text("sha256");
  if (top.Text("format") != kFormat) top.Fail("\"format\" is not spillway-checkpoint");
  const int64_t version = top.Integer("version", 1, INT64_MAX);
  if (version > kManifestVersionEncrypted) {
    return absl::UnimplementedError(
        absl::StrCat("manifest version ", version, "; this library reads versions ", kManifestVersion, " and ", kManifestVersionEncrypted));
  }
  m.job_uid = top.Text("job_uid");
  m.attempt = top.Integer("attempt", 1, INT64_MAX);
  m.step = top.Integer("step", 0, kStepMax);
  m.world_size = static_cast<int>(top.Integer("world_size", 1, kWorldSizeMax));
  m.library_version = top.Text("library_version");
  m.created = top.Text("created");
  const Json* parent = top.Get("parent");
  const Json* files = top.Get("files");
  const Json* metadata = top.Get("metadata");
  const Json* encryption = version == kManifestVersionEncrypted ? top.Get("encryption") : nullptr;
  RETURN_IF_ERROR(top.Finish());

  if (!parent->is_null()) {
    Fields fields(*parent, "manifest", "parent");
    m.parent = CheckpointRef{fields.Integer("attempt", 1, INT64_MAX), fields.Integer("step", 0, kStepMax)};
    RETURN_IF_ERROR(fields.Finish());
  }
  if (!files->is_array()) return Damaged("\"files\" is not an array");
  for (const Json& item : *files) {
    Fields fields(item, "manifest", absl::StrCat("files[", m.files.size(), "]"));
    ManifestFile file;
    file.name = fields.Text("name");
    file.bytes = fields.Integer("bytes", 0, INT64_MAX);
    file.header_sha256 = fields.Text("header_sha256");
    RETURN_IF_ERROR(fields.Finish());
    m.files.push_back(std::move(file));
  }
  RETURN_IF_ERROR(TakeMetadata(*metadata, &m.metadata));
  if (encryption != nullptr) {
    ASSIGN_OR_RETURN(m.encryption, EncryptionFromJson(*encryption));
    if (!m.metadata.empty()) return Damaged("an encrypted one has metadata in the clear");
  }
  const absl::Status ranges = CheckRanges(m);
  if (!ranges.ok()) return absl::DataLossError(ranges.message());
  return m;
}

}  // namespace

int64_t Manifest::Bytes() const {
  int64_t total = 0;
  for (const ManifestFile& file : files) {
    if (__builtin_add_overflow(total, file.bytes, &total)) return INT64_MAX;
  }
  return total;
}

namespace {

Json ToJson(const Manifest& m) {
  Json json = {{"format", kFormat},       {"version", kManifestVersion}, {"job_uid", m.job_uid},      {"attempt", m.attempt},
               {"step", m.step},          {"world_size", m.world_size},  {"created", m.created},      {"library_version", m.library_version},
               {"parent", Json(nullptr)}, {"files", Json::array()},      {"metadata", Json::object()}};
  if (m.parent) json["parent"] = {{"attempt", m.parent->attempt}, {"step", m.parent->step}};
  for (const ManifestFile& file : m.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"header_sha256", file.header_sha256}});
  }
  if (!m.encryption) {
    for (const auto& [key, value] : m.metadata) json["metadata"][key] = value;
    return json;
  }
  const ManifestEncryption& e = *m.encryption;
  json["version"] = kManifestVersionEncrypted;
  json["encryption"] = {{"cipher", kCipher},
                        {"data_key", e.data_key_id},
                        {"salt", HexOf(ViewOf(e.salt))},
                        {"commitment", HexOf(ViewOf(e.commitment))},
                        {"metadata", HexOf(e.sealed_metadata)}};
  return json;
}

// What the seal of the metadata is bound to: the file after its first line, as it would be with no sealed metadata in it.
absl::StatusOr<std::string> AssociatedOf(const Manifest& m) {
  Json json = ToJson(m);
  json["encryption"]["metadata"] = "";
  ASSIGN_OR_RETURN(const SealedText sealed, SealJson(json));
  return sealed.text.substr(kSealBytes);
}

absl::Status NotUtf8() { return absl::InvalidArgumentError("manifest: job_uid and metadata must be UTF-8"); }

}  // namespace

absl::StatusOr<EncodedManifest> EncodeManifest(const Manifest& m) {
  RETURN_IF_ERROR(CheckRanges(m));
  auto sealed = SealJson(ToJson(m));
  if (!sealed.ok()) return NotUtf8();
  EncodedManifest encoded{std::move(sealed->text), std::move(sealed->sha256)};
  if (encoded.text.size() > limits::kManifestBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the manifest would have ", encoded.text.size(), " bytes; at most ", limits::kManifestBytesMax));
  }
  return encoded;
}

absl::StatusOr<Manifest> DecodeManifest(absl::string_view text, std::string* sha256) {
  if (text.size() > limits::kManifestBytesMax) return Damaged("too large");
  std::string digest;
  ASSIGN_OR_RETURN(const Json json, UnsealJson("manifest", text, &digest));
  ASSIGN_OR_RETURN(Manifest manifest, FromJson(json));
  if (sha256 != nullptr) *sha256 = std::move(digest);
  return manifest;
}

absl::Status SealMetadata(Manifest* m, const SecretKey& data_key) {
  ManifestEncryption encryption{.data_key_id = DataKeyId(data_key)};
  ASSIGN_OR_RETURN(encryption.salt, RandomSalt());
  const DerivedKey derived = Derive(data_key, encryption.salt, kPurpose);
  encryption.commitment = derived.commitment;
  Json json = Json::object();
  for (const auto& [key, value] : m->metadata) json[key] = value;
  std::string plain;
  try {
    plain = json.dump();
  } catch (const Json::exception&) {
    return NotUtf8();
  }
  if (plain.size() > limits::kManifestBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the metadata has ", plain.size(), " bytes; at most ", limits::kManifestBytesMax));
  }
  m->encryption = std::move(encryption);
  const auto associated = AssociatedOf(*m);
  if (!associated.ok()) return NotUtf8();
  Tag tag;
  std::string& sealed = m->encryption->sealed_metadata;
  sealed.resize(plain.size());
  Gcm(derived.key).Seal(NonceOf(0, true), *associated, plain.data(), plain.size(), sealed.data(), &tag);
  absl::StrAppend(&sealed, ViewOf(tag));
  return absl::OkStatus();
}

absl::Status OpenMetadata(Manifest* m, const SecretKey& data_key) {
  const ManifestEncryption& encryption = *m->encryption;
  const DerivedKey derived = Derive(data_key, encryption.salt, kPurpose);
  if (derived.commitment != encryption.commitment) return Damaged("it is encrypted under another data key: of another run");
  ASSIGN_OR_RETURN(const std::string associated, AssociatedOf(*m));
  std::string plain = encryption.sealed_metadata;
  Tag tag;
  std::memcpy(tag.data(), plain.data() + plain.size() - tag.size(), tag.size());
  plain.resize(plain.size() - tag.size());
  if (!Gcm(derived.key).Open(NonceOf(0, true), associated, plain.data(), plain.size(), plain.data(), tag)) {
    return Damaged("it was altered: what it says is not what was sealed under the data key");
  }
  const Json json = Json::parse(plain, nullptr, /*allow_exceptions=*/false);
  m->metadata.clear();
  return TakeMetadata(json, &m->metadata);
}

}  // namespace spillway::checkpoint
