#include "checkpoint/manifest.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "checkpoint/layout.h"
#include "checkpoint/sealed_json.h"

namespace spillway::checkpoint {
namespace {

constexpr char kFormat[] = "spillway-checkpoint";

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

absl::StatusOr<Manifest> FromJson(const Json& json) {
  Manifest m;
  Fields top(json, "manifest");
  top.Text("sha256");
  if (top.Text("format") != kFormat) top.Fail("\"format\" is not spillway-checkpoint");
  const int64_t version = top.Integer("version", 1, INT64_MAX);
  if (version > kManifestVersion) {
    return absl::UnimplementedError(absl::StrCat("manifest version ", version, "; this library reads version ", kManifestVersion));
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
  if (!metadata->is_object()) return Damaged("\"metadata\" is not an object");
  for (const auto& [key, value] : metadata->items()) {
    if (!value.is_string()) return Damaged(absl::StrCat("metadata \"", Printable(key), "\" is not a string"));
    m.metadata[key] = value.get<std::string>();
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

absl::StatusOr<EncodedManifest> EncodeManifest(const Manifest& m) {
  RETURN_IF_ERROR(CheckRanges(m));
  Json json = {{"format", kFormat},       {"version", kManifestVersion}, {"job_uid", m.job_uid},      {"attempt", m.attempt},
               {"step", m.step},          {"world_size", m.world_size},  {"created", m.created},      {"library_version", m.library_version},
               {"parent", Json(nullptr)}, {"files", Json::array()},      {"metadata", Json::object()}};
  if (m.parent) json["parent"] = {{"attempt", m.parent->attempt}, {"step", m.parent->step}};
  for (const ManifestFile& file : m.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"header_sha256", file.header_sha256}});
  }
  for (const auto& [key, value] : m.metadata) json["metadata"][key] = value;
  auto sealed = SealJson(json);
  if (!sealed.ok()) return absl::InvalidArgumentError("manifest: job_uid and metadata must be UTF-8");
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

}  // namespace spillway::checkpoint
