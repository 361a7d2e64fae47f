#include "checkpoint/sealed_json.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "checkpoint/layout.h"

namespace spillway::checkpoint {
namespace {

// The first line is {"sha256":"<64 hex digits>", and the digest covers every byte after it.
constexpr absl::string_view kOpening = "{\"sha256\":\"";
constexpr absl::string_view kClosing = "\",\n";
constexpr size_t kHexBytes = 64;
static_assert(kSealBytes == 11 + kHexBytes + 3);
constexpr int kDepthMax = 8;
constexpr int64_t kSmallBytesMax = 64 << 10;

absl::Status Damaged(absl::string_view what, absl::string_view how) { return absl::DataLossError(absl::StrCat(what, ": ", how)); }

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

}  // namespace

bool IsHexDigest(absl::string_view text) {
  return text.size() == kHexBytes && std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

absl::StatusOr<SealedText> SealJson(const Json& object) {
  std::string body;
  try {
    body = object.dump(1);
  } catch (const Json::exception&) {  // the only one dump throws: a text that is not UTF-8
    return absl::InvalidArgumentError("a text is not UTF-8");
  }
  body.erase(0, 2);  // "{\n": the first line below takes its place
  body += '\n';
  SealedText sealed;
  sealed.sha256 = HexOf(Sha256Of(body));
  sealed.text = absl::StrCat(kOpening, sealed.sha256, kClosing, body);
  return sealed;
}

absl::StatusOr<Json> UnsealJson(absl::string_view what, absl::string_view text, std::string* sha256) {
  if (text.size() < kSealBytes || !absl::StartsWith(text, kOpening) || text.substr(kOpening.size() + kHexBytes, 3) != kClosing) {
    return Damaged(what, "it does not begin with its digest");
  }
  const absl::string_view digest = text.substr(kOpening.size(), kHexBytes);
  if (HexOf(Sha256Of(text.substr(kSealBytes))) != digest) return Damaged(what, "its digest does not match");
  if (TooDeep(text)) return Damaged(what, "nested too deeply");
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Damaged(what, "not JSON");
  if (sha256 != nullptr) *sha256 = std::string(digest);
  return json;
}

absl::Status WriteSealed(Io* io, const std::string& path, const std::string& temporary, const Json& object, bool durable) {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file, io->Create(temporary));
  return WriteSealed(io, path, temporary, file.get(), object, durable);
}

absl::Status WriteSealed(Io* io, const std::string& path, const std::string& temporary, File* file, const Json& object, bool durable) {
  ASSIGN_OR_RETURN(const SealedText sealed, SealJson(object));
  RETURN_IF_ERROR(file->WriteAt(sealed.text.data(), sealed.text.size(), 0));
  if (durable) RETURN_IF_ERROR(file->Sync());
  RETURN_IF_ERROR(io->RenameReplace(temporary, path));
  return durable ? io->SyncDirectory(ParentOf(path)) : absl::OkStatus();
}

absl::StatusOr<Json> ReadSealed(Io* io, const std::string& path, int64_t members) {
  auto text = ReadWhole(io, path, kSmallBytesMax * (members + 1));
  if (absl::IsInvalidArgument(text.status()) || absl::IsOutOfRange(text.status())) return absl::DataLossError(text.status().message());
  if (!text.ok()) return text.status();
  return UnsealJson(path, *text);
}

Fields::Fields(const Json& object, absl::string_view what, std::string where) : object_(object), what_(what), where_(std::move(where)) {
  if (!object.is_object()) Fail("is not an object");
}

std::string Fields::Text(const char* key) {
  const Json* value = Get(key);
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  Fail(absl::StrCat("\"", key, "\" is not a string"));
  return "";
}

int64_t Fields::Integer(const char* key, int64_t low, int64_t high) {
  const Json* value = Get(key);
  if (value == nullptr) return low;
  const bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX) : value->is_number_integer();
  if (fits && value->get<int64_t>() >= low && value->get<int64_t>() <= high) return value->get<int64_t>();
  Fail(absl::StrCat("\"", key, "\" is not an integer from ", low, " to ", high));
  return low;
}

const Json* Fields::Get(const char* key) {
  if (!status_.ok()) return nullptr;
  ++asked_;
  auto it = object_.find(key);
  if (it != object_.end()) return &*it;
  Fail(absl::StrCat("lacks \"", key, "\""));
  return nullptr;
}

void Fields::Fail(absl::string_view what_is_wrong) {
  if (status_.ok()) status_ = Damaged(what_, absl::StrCat(where_, where_.empty() ? "" : " ", what_is_wrong));
}

absl::Status Fields::Finish() {
  if (status_.ok() && object_.size() != asked_) Fail("has keys that this version does not know");
  return status_;
}

}  // namespace spillway::checkpoint
