#include "checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "checkpoint/layout.h"

namespace spillway::checkpoint {
namespace {

using Json = nlohmann::json;

// The first line is {"sha256":"<64 hex digits>", and the digest covers every byte after it.
constexpr absl::string_view kOpening = "{\"sha256\":\"";
constexpr absl::string_view kClosing = "\",\n";
constexpr size_t kHexBytes = 64;
constexpr size_t kFirstLineBytes = 11 + kHexBytes + 3;
constexpr char kFormat[] = "spillway-checkpoint";
constexpr int kDepthMax = 8;

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(absl::StrCat("manifest: ", what)); }

bool IsHexDigest(absl::string_view text) {
  return text.size() == kHexBytes && std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

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

// Reads one field after the other and remembers what was wrong first; a key that is not asked for is an error too.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) Fail("is not an object");
  }
  std::string Text(const char* key) {
    const Json* value = Get(key);
    if (value == nullptr) return "";
    if (value->is_string()) return value->get<std::string>();
    Fail(absl::StrCat("\"", key, "\" is not a string"));
    return "";
  }
  int64_t Integer(const char* key, int64_t low, int64_t high) {
    const Json* value = Get(key);
    if (value == nullptr) return low;
    const bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX) : value->is_number_integer();
    if (fits && value->get<int64_t>() >= low && value->get<int64_t>() <= high) return value->get<int64_t>();
    Fail(absl::StrCat("\"", key, "\" is not an integer from ", low, " to ", high));
    return low;
  }
  const Json* Get(const char* key) {
    if (!status_.ok()) return nullptr;
    ++asked_;
    auto it = object_.find(key);
    if (it != object_.end()) return &*it;
    Fail(absl::StrCat("lacks \"", key, "\""));
    return nullptr;
  }
  void Fail(absl::string_view what) {
    if (status_.ok()) status_ = Damaged(absl::StrCat(where_, where_.empty() ? "" : " ", what));
  }
  absl::Status Finish() {
    if (status_.ok() && object_.size() != asked_) Fail("has keys that version 1 does not know");
    return status_;
  }

 private:
  const Json& object_;
  const std::string where_;
  size_t asked_ = 0;
  absl::Status status_;
};

// Nesting outside strings, so that a hostile file cannot make the parser build a tower.
bool TooDeep(absl::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDepthMax) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

absl::StatusOr<Manifest> FromJson(const Json& json) {
  Manifest m;
  Fields top(json, "");
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
    Fields fields(*parent, "parent");
    m.parent = CheckpointRef{fields.Integer("attempt", 1, INT64_MAX), fields.Integer("step", 0, kStepMax)};
    RETURN_IF_ERROR(fields.Finish());
  }
  if (!files->is_array()) return Damaged("\"files\" is not an array");
  for (const Json& item : *files) {
    Fields fields(item, absl::StrCat("files[", m.files.size(), "]"));
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
  std::string body;
  try {
    body = json.dump(1);
  } catch (const Json::exception&) {  // the only one dump throws: a text that is not UTF-8
    return absl::InvalidArgumentError("manifest: job_uid and metadata must be UTF-8");
  }
  body.erase(0, 2);  // "{\n": the first line below takes its place
  body += '\n';
  EncodedManifest encoded;
  encoded.sha256 = HexOf(Sha256Of(body));
  encoded.text = absl::StrCat(kOpening, encoded.sha256, kClosing, body);
  if (encoded.text.size() > limits::kManifestBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the manifest would have ", encoded.text.size(), " bytes; at most ", limits::kManifestBytesMax));
  }
  return encoded;
}

absl::StatusOr<Manifest> DecodeManifest(absl::string_view text, std::string* sha256) {
  if (text.size() > limits::kManifestBytesMax) return Damaged("too large");
  if (text.size() < kFirstLineBytes || !absl::StartsWith(text, kOpening) || text.substr(kOpening.size() + kHexBytes, 3) != kClosing) {
    return Damaged("it does not begin with its digest");
  }
  const absl::string_view digest = text.substr(kOpening.size(), kHexBytes);
  if (HexOf(Sha256Of(text.substr(kFirstLineBytes))) != digest) return Damaged("its digest does not match");
  if (TooDeep(text)) return Damaged("nested too deeply");
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Damaged("not JSON");
  ASSIGN_OR_RETURN(Manifest manifest, FromJson(json));
  if (sha256 != nullptr) *sha256 = std::string(digest);
  return manifest;
}

}  // namespace spillway::checkpoint
