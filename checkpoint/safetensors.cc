#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "checkpoint/sealed_json.h"

namespace spillway::checkpoint {
namespace {

constexpr char kMetadataKey[] = "__metadata__";
constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr size_t kLengthBytes = 8;

struct DTypeRow {
  DType dtype;
  absl::string_view name;
};

constexpr DTypeRow kDTypes[] = {
    {DType::kF32, "F32"}, {DType::kF16, "F16"},   {DType::kBF16, "BF16"},      {DType::kF64, "F64"},        {DType::kI8, "I8"},   {DType::kU8, "U8"},
    {DType::kI16, "I16"}, {DType::kU16, "U16"},   {DType::kI32, "I32"},        {DType::kU32, "U32"},        {DType::kI64, "I64"}, {DType::kU64, "U64"},
    {DType::kC64, "C64"}, {DType::kBool, "BOOL"}, {DType::kF8E4M3, "F8_E4M3"}, {DType::kF8E5M2, "F8_E5M2"},
};

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(absl::StrCat("safetensors header: ", what)); }

// Reads the one shape that a header can have and refuses everything else where it stands, so that no tree is built from a hostile file:
//   {"<name>": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {"<key>": "<text>", ...}}
class HeaderParser final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Refuse("null"); }
  bool boolean(bool) override { return Refuse("a boolean"); }
  bool number_float(number_float_t, const string_t&) override { return Refuse("a number with a fraction"); }
  bool binary(binary_t&) override { return Refuse("binary data"); }

  bool number_integer(number_integer_t value) override { return value < 0 ? Refuse("a negative number") : Number(static_cast<uint64_t>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Number(value); }

  bool string(string_t& value) override {
    if (at_ == At::kMetadata) {
      header_.metadata[key_] = value;
      return true;
    }
    if (at_ != At::kTensor || key_ != "dtype") return Refuse("a text");
    for (const DTypeRow& row : kDTypes) {
      if (row.name != value) continue;
      tensor_.dtype = row.dtype;
      return true;
    }
    return Fail(absl::StrCat("tensor \"", Printable(tensor_.name), "\" has the unknown dtype ", Printable(value, 40)));
  }

  bool start_object(std::size_t) override {
    if (at_ == At::kOutside && !done_) {
      at_ = At::kTop;
    } else if (at_ == At::kTop) {
      at_ = key_ == kMetadataKey ? At::kMetadata : At::kTensor;
      tensor_ = {.name = key_};
      given_.clear();
    } else {
      return Refuse("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (at_ == At::kTop) {
      if (!names_.insert(value).second) return Fail(absl::StrCat("\"", Printable(value), "\" is given twice"));
    } else if (at_ == At::kMetadata) {
      if (header_.metadata.count(value) > 0) return Fail(absl::StrCat("metadata \"", Printable(value), "\" is given twice"));
    } else if (value != "dtype" && value != "shape" && value != "data_offsets") {
      return Fail(absl::StrCat("tensor \"", Printable(tensor_.name), "\" has the unknown key \"", Printable(value, 40), "\""));
    } else if (!given_.insert(value).second) {
      return Fail(absl::StrCat("tensor \"", Printable(tensor_.name), "\" has \"", value, "\" twice"));
    }
    key_ = value;
    return true;
  }

  bool end_object() override {
    if (at_ == At::kTop) {
      at_ = At::kOutside;
      done_ = true;
      return true;
    }
    if (at_ == At::kTensor) {
      if (given_.size() != 3) return Fail(absl::StrCat("tensor \"", Printable(tensor_.name), "\" lacks dtype, shape or data_offsets"));
      if (header_.tensors.size() >= limits::kTensorsMax) return Fail(absl::StrCat("more than ", limits::kTensorsMax, " tensors"));
      header_.tensors.push_back(std::move(tensor_));
    }
    at_ = At::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (at_ != At::kTensor || key_ == "dtype") return Refuse("an array");
    at_ = At::kArray;
    numbers_.clear();
    return true;
  }

  bool end_array() override {
    at_ = At::kTensor;
    if (key_ == "shape") {
      tensor_.shape = numbers_;
      return true;
    }
    if (numbers_.size() != 2) return Fail(absl::StrCat("tensor \"", Printable(tensor_.name), "\" has ", numbers_.size(), " data_offsets; want 2"));
    tensor_.begin = numbers_[0];
    tensor_.end = numbers_[1];
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override { return Fail(absl::StrCat("not JSON at byte ", position)); }

  const absl::Status& status() const { return status_; }
  SafetensorsHeader Take() { return std::move(header_); }

 private:
  enum class At { kOutside, kTop, kMetadata, kTensor, kArray };

  bool Number(uint64_t value) {
    if (at_ != At::kArray) return Refuse("a number");
    if (value > static_cast<uint64_t>(INT64_MAX)) return Refuse("a number beyond 2^63");
    if (key_ == "shape" && numbers_.size() >= kDimsMax)
      return Fail(absl::StrCat("tensor \"", Printable(tensor_.name), "\" has more than ", kDimsMax, " dimensions"));
    if (key_ == "data_offsets" && numbers_.size() >= 2) return Refuse("a third offset");
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool Refuse(absl::string_view what) {
    return Fail(absl::StrCat(what, " where none belongs",
                             at_ == At::kTensor || at_ == At::kArray ? absl::StrCat(", in tensor \"", Printable(tensor_.name), "\"") : ""));
  }
  bool Fail(absl::string_view what) {
    if (status_.ok()) status_ = Damaged(what);
    return false;
  }

  SafetensorsHeader header_;
  At at_ = At::kOutside;
  bool done_ = false;
  std::string key_;
  SafetensorsEntry tensor_;
  std::set<std::string> names_, given_;
  std::vector<int64_t> numbers_;
  absl::Status status_;
};

// A file that appears whole under its name or not at all, and never replaces one.
class NewFile {
 public:
  static absl::StatusOr<NewFile> Create(Io* io, const std::string& path) {
    ASSIGN_OR_RETURN(const bool taken, io->Exists(path));
    if (taken) return absl::AlreadyExistsError(absl::StrCat(path, " exists"));
    NewFile file;
    file.io_ = io;
    file.path_ = path;
    ASSIGN_OR_RETURN(file.file_, io->Create(path + ".tmp"));
    return file;
  }
  absl::Status Append(const void* data, int64_t bytes) {
    RETURN_IF_ERROR(file_->WriteAt(data, static_cast<size_t>(bytes), at_));
    at_ += bytes;
    return absl::OkStatus();
  }
  absl::Status Commit() {
    RETURN_IF_ERROR(file_->Sync());
    file_.reset();
    RETURN_IF_ERROR(io_->RenameNoReplace(path_ + ".tmp", path_));
    return io_->SyncDirectory(ParentOf(path_));
  }
  void Discard() { io_->RemoveTree(path_ + ".tmp").IgnoreError(); }
  int64_t bytes() const { return at_; }

 private:
  Io* io_ = nullptr;
  std::string path_;
  std::unique_ptr<File> file_;
  int64_t at_ = 0;
};

absl::StatusOr<int64_t> BytesOf(const StoredTensor& tensor) {
  int64_t bytes = 0;
  const auto elements = ElementsOf(tensor.shape);
  if (!elements || __builtin_mul_overflow(*elements, DTypeBytes(tensor.dtype), &bytes)) {
    return absl::DataLossError(absl::StrCat("tensor \"", Printable(tensor.name), "\" has an impossible shape"));
  }
  return bytes;
}

absl::StatusOr<ExportedFile> ExportOne(const Reader& reader, const std::vector<StoredTensor>& tensors, const std::string& path, Io* io) {
  SafetensorsHeader header{.metadata = reader.manifest().metadata};
  int64_t at = 0;
  for (const StoredTensor& tensor : tensors) {
    ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(tensor));
    header.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, at, at + bytes});
    at += bytes;
  }
  const std::string beginning = EncodeSafetensorsHeader(header);
  if (static_cast<int64_t>(beginning.size()) > kSafetensorsHeaderBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": its header would have ", beginning.size(), " bytes; readers take at most ", kSafetensorsHeaderBytesMax));
  }
  ASSIGN_OR_RETURN(NewFile file, NewFile::Create(io, path));
  const absl::Status written = [&]() -> absl::Status {
    RETURN_IF_ERROR(file.Append(beginning.data(), static_cast<int64_t>(beginning.size())));
    std::string buffer;
    for (const SafetensorsEntry& entry : header.tensors) {
      buffer.resize(static_cast<size_t>(entry.end - entry.begin));
      RETURN_IF_ERROR(reader.Read({entry.name, entry.dtype, entry.shape, buffer.data(), entry.end - entry.begin}));
      RETURN_IF_ERROR(file.Append(buffer.data(), entry.end - entry.begin));
    }
    return file.Commit();
  }();
  if (!written.ok()) {
    file.Discard();
    return written;
  }
  return ExportedFile{path, file.bytes(), static_cast<int64_t>(tensors.size())};
}

absl::Status WriteIndex(const std::string& path, const Json& weight_map, int64_t total_bytes, Io* io) {
  const std::string text = Json({{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}}).dump(2) + "\n";
  ASSIGN_OR_RETURN(NewFile file, NewFile::Create(io, path));
  absl::Status written = file.Append(text.data(), static_cast<int64_t>(text.size()));
  if (written.ok()) written = file.Commit();
  if (!written.ok()) file.Discard();
  return written;
}

absl::Status LoadFile(const std::string& path, Io* io, LoadedSafetensors* loaded) {
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, io->Open(path));
  ASSIGN_OR_RETURN(const int64_t bytes, file->Bytes());
  auto damaged = [&](absl::string_view what) { return absl::DataLossError(absl::StrCat(path, ": ", what)); };
  uint64_t header_bytes = 0;
  if (bytes < static_cast<int64_t>(kLengthBytes)) return damaged("shorter than the length of its header");
  RETURN_IF_ERROR(file->ReadAt(&header_bytes, kLengthBytes, 0));
  const int64_t rest = bytes - static_cast<int64_t>(kLengthBytes);
  if (header_bytes > static_cast<uint64_t>(std::min(rest, kSafetensorsHeaderBytesMax))) {
    return damaged(absl::StrCat("a header of ", header_bytes, " bytes in a file of ", bytes));
  }
  std::string json(static_cast<size_t>(header_bytes), '\0');
  RETURN_IF_ERROR(file->ReadAt(json.data(), json.size(), kLengthBytes));
  const int64_t data_offset = static_cast<int64_t>(kLengthBytes + header_bytes);
  auto header = DecodeSafetensorsHeader(json, bytes - data_offset);
  if (!header.ok()) return damaged(header.status().message());
  for (const SafetensorsEntry& entry : header->tensors) {
    std::string& buffer = loaded->bytes.emplace_back(static_cast<size_t>(entry.end - entry.begin), '\0');
    RETURN_IF_ERROR(file->ReadAt(buffer.data(), buffer.size(), data_offset + entry.begin));
    loaded->tensors.push_back({entry.name, entry.dtype, entry.shape, nullptr, entry.end - entry.begin});
  }
  for (const auto& [key, value] : header->metadata) loaded->metadata.insert({key, value});
  return absl::OkStatus();
}

// The files that an index names, in its own directory and nowhere else.
absl::StatusOr<std::set<std::string>> FilesOfIndex(const std::string& path, Io* io) {
  ASSIGN_OR_RETURN(const std::string text, ReadWhole(io, path, kSafetensorsHeaderBytesMax));
  const Json json = Json::parse(
      text.begin(), text.end(), [](int depth, Json::parse_event_t, Json&) { return depth <= 3; }, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    return absl::DataLossError(absl::StrCat(path, ": not an index: no \"weight_map\""));
  }
  std::set<std::string> files;
  for (const auto& [tensor, file] : json["weight_map"].items()) {
    if (!file.is_string()) return absl::DataLossError(absl::StrCat(path, ": tensor \"", Printable(tensor), "\" names no file"));
    const std::string name = file.get<std::string>();
    if (name.empty() || name == "." || name == ".." || absl::StrContains(name, '/') || absl::StrContains(name, '\0')) {
      return absl::DataLossError(absl::StrCat(path, ": \"", Printable(name), "\" is not the name of a file beside it"));
    }
    files.insert(name);
  }
  return files;
}

}  // namespace

absl::string_view SafetensorsDType(DType dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.dtype == dtype) return row.name;
  }
  return "";
}

std::string EncodeSafetensorsHeader(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json[kMetadataKey] = header.metadata;
  for (const SafetensorsEntry& entry : header.tensors) {
    json[entry.name] = {{"dtype", std::string(SafetensorsDType(entry.dtype))}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t bytes = text.size();
  std::string beginning(reinterpret_cast<const char*>(&bytes), kLengthBytes);
  return beginning + text;
}

absl::StatusOr<SafetensorsHeader> DecodeSafetensorsHeader(absl::string_view json, int64_t data_bytes) {
  if (static_cast<int64_t>(json.size()) > kSafetensorsHeaderBytesMax) return Damaged("longer than 100 MB");
  if (!absl::StartsWith(json, "{")) return Damaged("it does not begin with {");
  HeaderParser parser;
  if (!Json::sax_parse(json.begin(), json.end(), &parser)) return parser.status().ok() ? Damaged("not JSON") : parser.status();
  SafetensorsHeader header = parser.Take();
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name); });
  int64_t at = 0;
  for (const SafetensorsEntry& entry : header.tensors) {
    if (entry.begin != at || entry.end < at) {
      return Damaged(absl::StrCat("tensor \"", Printable(entry.name), "\" has the bytes ", entry.begin, " to ", entry.end, "; want them to start at ", at));
    }
    Slice whole;
    const absl::Status fits = CheckTensor(entry.name, entry.dtype, entry.shape, std::nullopt, entry.end - entry.begin, &whole);
    if (!fits.ok()) return Damaged(fits.message());
    at = entry.end;
  }
  if (at != data_bytes) return Damaged(absl::StrCat("its tensors end at byte ", at, " of ", data_bytes));
  return header;
}

absl::StatusOr<std::vector<ExportedFile>> ExportSafetensors(const std::string& checkpoint, const std::string& target, int64_t shard_bytes, Io* io,
                                                            const SecretKey* key) {
  if (shard_bytes < 0) return absl::InvalidArgumentError(absl::StrCat("files of ", shard_bytes, " bytes; want 1 or more, or 0 for one file"));
  ASSIGN_OR_RETURN(const Reader reader, Reader::Open(checkpoint, io, key));
  std::vector<StoredTensor> tensors = reader.Tensors();
  for (const StoredTensor& tensor : tensors) {
    if (SafetensorsDType(tensor.dtype).empty()) {
      return absl::UnimplementedError(
          absl::StrCat("tensor \"", Printable(tensor.name), "\" is ", DTypeName(tensor.dtype), ", which safetensors does not have"));
    }
    if (tensor.name == kMetadataKey) return absl::UnimplementedError(absl::StrCat("a tensor named ", kMetadataKey, " cannot be written as safetensors"));
  }
  // The widest types first, as the reference writer does, so that every tensor starts at a multiple of its own element.
  std::stable_sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) { return DTypeBytes(a.dtype) > DTypeBytes(b.dtype); });
  const std::string path = AbsolutePath(target);
  std::vector<ExportedFile> files;
  if (shard_bytes == 0) {
    ASSIGN_OR_RETURN(files.emplace_back(), ExportOne(reader, tensors, path, io));
    return files;
  }
  std::vector<std::vector<StoredTensor>> shards;
  int64_t in_shard = 0, total = 0;
  for (StoredTensor& tensor : tensors) {
    ASSIGN_OR_RETURN(const int64_t bytes, BytesOf(tensor));
    if (shards.empty() || (in_shard + bytes > shard_bytes && !shards.back().empty())) {
      shards.emplace_back();
      in_shard = 0;
    }
    in_shard += bytes;
    total += bytes;
    shards.back().push_back(std::move(tensor));
  }
  if (shards.empty()) shards.emplace_back();
  RETURN_IF_ERROR(MakeDirectoriesDurably(io, path));
  const std::string index = JoinPath(path, kIndexName);
  ASSIGN_OR_RETURN(const bool taken, io->Exists(index));
  if (taken) return absl::AlreadyExistsError(absl::StrCat(index, " exists"));
  Json weight_map = Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, shards.size());
    for (const StoredTensor& tensor : shards[i]) weight_map[tensor.name] = name;
    ASSIGN_OR_RETURN(files.emplace_back(), ExportOne(reader, shards[i], JoinPath(path, name), io));
  }
  // The index comes last: whoever sees it sees all that it names.
  RETURN_IF_ERROR(WriteIndex(index, weight_map, total, io));
  return files;
}

absl::StatusOr<LoadedSafetensors> LoadSafetensors(const std::string& source, Io* io) {
  std::string path = AbsolutePath(source);
  if (const auto names = io->List(path); names.ok()) {  // a directory
    path = JoinPath(path, kIndexName);
    ASSIGN_OR_RETURN(const bool there, io->Exists(path));
    if (!there) return absl::NotFoundError(absl::StrCat(source, " is a directory without ", kIndexName, "; name the .safetensors file"));
  }
  std::set<std::string> files{NameOf(path)};
  if (absl::EndsWith(path, ".index.json")) {
    ASSIGN_OR_RETURN(files, FilesOfIndex(path, io));
  }
  LoadedSafetensors loaded;
  for (const std::string& name : files) RETURN_IF_ERROR(LoadFile(JoinPath(ParentOf(path), name), io, &loaded));
  for (size_t i = 0; i < loaded.tensors.size(); ++i) loaded.tensors[i].data = loaded.bytes[i].data();  // now that none of them moves any more
  return loaded;
}

}  // namespace spillway::checkpoint
