#include "checkpoint/container.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/layout.h"

namespace spillway::checkpoint {
namespace {

// Preamble: magic 8, version 4, flags 4, body bytes 8, data offset 8, file bytes 8, XXH3-128 of the body 16, XXH3-64 of all before 8.
constexpr char kMagic[8] = {'S', 'P', 'W', 'Y', 'C', 'K', 'P', 'T'};
constexpr int64_t kPreambleBytes = 64;
constexpr size_t kPreambleDigestAt = 56;
constexpr int64_t kSpareBytes = 1 << 20;         // for MANIFEST and the directories
constexpr int64_t kDirectBytesMin = 16ll << 20;  // a smaller file gains nothing from passing by the page cache

int64_t RoundUp(int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

int64_t ChunkCount(int64_t bytes, uint32_t chunk_bytes) { return (bytes + chunk_bytes - 1) / chunk_bytes; }

template <typename T>
void Put(std::string* out, T value) {
  static_assert(std::endian::native == std::endian::little, "the format is little-endian and written as it lies in memory");
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Bounded reading: past the end everything is zero and ok() false.
class Cursor {
 public:
  explicit Cursor(absl::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T Take() {
    T value{};
    absl::string_view bytes = TakeBytes(sizeof(T));
    if (ok_) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  absl::string_view TakeBytes(size_t n) {
    if (!ok_ || n > rest_.size()) {
      ok_ = false;
      return {};
    }
    absl::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }
  size_t left() const { return rest_.size(); }
  bool ok() const { return ok_; }

 private:
  absl::string_view rest_;
  bool ok_ = true;
};

absl::Status Damaged(absl::string_view what) { return absl::DataLossError(absl::StrCat("container header: ", what)); }

int64_t EntryBytes(const TensorEntry& entry) {
  return 4 + static_cast<int64_t>(entry.name.size()) + 24 * static_cast<int64_t>(entry.slice.global.size()) + 20 +
         16 * static_cast<int64_t>(entry.chunks.size() + entry.tags.size());
}

constexpr int64_t kBodyFixedBytes = 24;   // rank 4, world 4, step 8, chunk bytes 4, tensors 4
constexpr int64_t kEncryptionBytes = 64;  // salt 32, commitment 32

ContainerIdentity IdentityOf(const ContainerHeader& header) { return {header.rank, header.world_size, header.step, header.chunk_bytes}; }

std::string EncodeBody(const ContainerHeader& header) {
  std::string body;
  Put<uint32_t>(&body, static_cast<uint32_t>(header.rank));
  Put<uint32_t>(&body, static_cast<uint32_t>(header.world_size));
  Put<int64_t>(&body, header.step);
  Put<uint32_t>(&body, header.chunk_bytes);
  Put<uint32_t>(&body, static_cast<uint32_t>(header.tensors.size()));
  if (header.encryption) absl::StrAppend(&body, ViewOf(header.encryption->salt), ViewOf(header.encryption->commitment));
  for (const TensorEntry& entry : header.tensors) {
    Put<uint16_t>(&body, static_cast<uint16_t>(entry.name.size()));
    Put<uint8_t>(&body, static_cast<uint8_t>(entry.dtype));
    Put<uint8_t>(&body, static_cast<uint8_t>(entry.slice.global.size()));
    body += entry.name;
    for (size_t d = 0; d < entry.slice.global.size(); ++d) {
      Put<int64_t>(&body, entry.slice.global[d]);
      Put<int64_t>(&body, entry.slice.offset[d]);
      Put<int64_t>(&body, entry.slice.extent[d]);
    }
    Put<int64_t>(&body, entry.byte_offset);
    Put<int64_t>(&body, entry.byte_length);
    Put<uint32_t>(&body, static_cast<uint32_t>(entry.chunks.size()));
    for (const ChunkDigest& digest : entry.chunks) absl::StrAppend(&body, ViewOf(digest));
    for (const Tag& tag : entry.tags) absl::StrAppend(&body, ViewOf(tag));
  }
  return body;
}

absl::StatusOr<TensorEntry> DecodeEntry(Cursor* in, uint32_t chunk_bytes, bool encrypted) {
  TensorEntry entry;
  const auto name_bytes = in->Take<uint16_t>();
  entry.dtype = static_cast<DType>(in->Take<uint8_t>());
  const auto dims = in->Take<uint8_t>();
  if (dims > kDimsMax) return Damaged("too many dimensions");
  entry.name = std::string(in->TakeBytes(name_bytes));
  for (int d = 0; d < dims; ++d) {
    entry.slice.global.push_back(in->Take<int64_t>());
    entry.slice.offset.push_back(in->Take<int64_t>());
    entry.slice.extent.push_back(in->Take<int64_t>());
  }
  entry.byte_offset = in->Take<int64_t>();
  entry.byte_length = in->Take<int64_t>();
  const auto chunks = in->Take<uint32_t>();
  if (!in->ok() || chunks > in->left() / (sizeof(ChunkDigest) + (encrypted ? sizeof(Tag) : 0))) return Damaged("it ends inside a tensor");
  Slice checked;
  const absl::Status valid = CheckTensor(entry.name, entry.dtype, entry.slice.extent, entry.slice, entry.byte_length, &checked);
  if (!valid.ok()) return Damaged(valid.message());
  if (ChunkCount(entry.byte_length, chunk_bytes) != chunks) return Damaged("a chunk count does not match its tensor");
  entry.chunks.resize(chunks);
  for (ChunkDigest& digest : entry.chunks) std::memcpy(digest.data(), in->TakeBytes(digest.size()).data(), digest.size());
  entry.tags.resize(encrypted ? chunks : 0);
  for (Tag& tag : entry.tags) std::memcpy(tag.data(), in->TakeBytes(tag.size()).data(), tag.size());
  return entry;
}

// As many bytes as the chunk has from `begin` on.
size_t ChunkBytes(const TensorEntry& entry, int64_t begin, uint32_t chunk_bytes) {
  return static_cast<size_t>(std::min<int64_t>(chunk_bytes, entry.byte_length - begin));
}

bool IsAligned(const void* data, int64_t alignment) { return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) == 0; }

// Whether the disk takes from or puts to these bytes by itself. The last chunk of most tensors is not a whole number of blocks.
bool FitsDirect(const void* data, size_t bytes, int64_t alignment) {
  return alignment == 1 || (IsAligned(data, alignment) && bytes % static_cast<size_t>(kAlignment) == 0);
}

bool AllZero(const char* data, size_t bytes) {
  return std::all_of(data, data + bytes, [](char c) { return c == 0; });
}

}  // namespace

int64_t ContainerHeader::ChunkCount() const { return tensors.empty() ? 0 : tensors.back().first_chunk + static_cast<int64_t>(tensors.back().chunks.size()); }

size_t ContainerHeader::EntryOfChunk(int64_t chunk) const {
  // The last that begins there or before: an empty one begins where the next does.
  const auto after = std::upper_bound(tensors.begin(), tensors.end(), chunk, [](int64_t at, const TensorEntry& entry) { return at < entry.first_chunk; });
  return static_cast<size_t>(after - tensors.begin()) - 1;
}

const TensorEntry* ContainerHeader::Find(absl::string_view name) const {
  for (const TensorEntry& entry : tensors) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::StatusOr<ContainerHeader> LayOut(int rank, int world_size, int64_t step, const std::vector<TensorView>& tensors, uint32_t chunk_bytes,
                                       const std::optional<EncryptionBlock>& encryption) {
  if (world_size < 1 || world_size > kWorldSizeMax || rank < 0 || rank >= world_size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", world_size, "; want 0 <= rank < world size <= ", kWorldSizeMax));
  }
  if (step < 0 || step > kStepMax) return absl::InvalidArgumentError(absl::StrCat("step ", step, "; want 0 to ", kStepMax));
  if (chunk_bytes < kAlignment || chunk_bytes > kChunkBytesMax || !std::has_single_bit(chunk_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("chunk of ", chunk_bytes, " bytes; want a power of two from 4096 to ", kChunkBytesMax));
  }
  if (tensors.size() > limits::kTensorsMax) {
    return absl::InvalidArgumentError(absl::StrCat(tensors.size(), " tensors; at most ", limits::kTensorsMax, " in one container"));
  }
  ContainerHeader header{.rank = rank, .world_size = world_size, .step = step, .chunk_bytes = chunk_bytes};
  header.encryption = encryption;
  int64_t body_bytes = kBodyFixedBytes + (encryption ? kEncryptionBytes : 0);
  std::set<absl::string_view> names;
  for (const TensorView& view : tensors) {
    TensorEntry entry{.name = view.name, .dtype = view.dtype};
    RETURN_IF_ERROR(CheckTensor(view.name, view.dtype, view.shape, view.slice, view.bytes, &entry.slice));
    if (!names.insert(view.name).second) return absl::InvalidArgumentError(absl::StrCat("tensor \"", Printable(view.name), "\" is given twice"));
    entry.byte_length = view.bytes;
    const int64_t chunks = ChunkCount(view.bytes, chunk_bytes);
    if (chunks > kHeaderBytesMax / 16) return absl::InvalidArgumentError(absl::StrCat("tensor \"", Printable(view.name), "\" is too large"));
    entry.first_chunk = header.ChunkCount();
    entry.chunks.resize(static_cast<size_t>(chunks));
    entry.tags.resize(encryption ? entry.chunks.size() : 0);
    body_bytes += EntryBytes(entry);
    header.tensors.push_back(std::move(entry));
  }
  header.data_offset = RoundUp(kPreambleBytes + body_bytes);
  if (header.data_offset > kHeaderBytesMax) return absl::InvalidArgumentError("the container's header would exceed 256 MiB");
  int64_t at = header.data_offset;
  for (TensorEntry& entry : header.tensors) {
    entry.byte_offset = at;
    if (__builtin_add_overflow(at, RoundUp(entry.byte_length), &at)) return absl::InvalidArgumentError("the container would exceed 2^63 bytes");
  }
  header.file_bytes = at;
  return header;
}

std::string EncodeHeaderRegion(const ContainerHeader& header) {
  const std::string body = EncodeBody(header);
  std::string region(kMagic, sizeof(kMagic));
  Put<uint32_t>(&region, header.encryption ? kContainerVersionEncrypted : kContainerVersion);
  Put<uint32_t>(&region, 0);
  Put<int64_t>(&region, static_cast<int64_t>(body.size()));
  Put<int64_t>(&region, header.data_offset);
  Put<int64_t>(&region, header.file_bytes);
  const ChunkDigest digest = Xxh3Of(body.data(), body.size());
  absl::StrAppend(&region, ViewOf(digest));
  Put<uint64_t>(&region, Xxh3Short(region.data(), region.size()));
  region += body;
  region.resize(static_cast<size_t>(header.data_offset), '\0');
  return region;
}

namespace {

struct Preamble {
  bool encrypted;
  int64_t body_bytes, data_offset, file_bytes;
  ChunkDigest body_digest;
};

absl::StatusOr<Preamble> DecodePreamble(absl::string_view bytes, int64_t file_bytes) {
  if (bytes.size() < static_cast<size_t>(kPreambleBytes)) return Damaged("shorter than its preamble");
  Cursor in(bytes.substr(0, kPreambleBytes));
  if (in.TakeBytes(sizeof(kMagic)) != absl::string_view(kMagic, sizeof(kMagic))) return Damaged("wrong magic: not a container, or not finished");
  const auto version = in.Take<uint32_t>();
  const auto flags = in.Take<uint32_t>();
  Preamble preamble;
  preamble.body_bytes = in.Take<int64_t>();
  preamble.data_offset = in.Take<int64_t>();
  preamble.file_bytes = in.Take<int64_t>();
  std::memcpy(preamble.body_digest.data(), in.TakeBytes(sizeof(ChunkDigest)).data(), sizeof(ChunkDigest));
  if (in.Take<uint64_t>() != Xxh3Short(bytes.data(), kPreambleDigestAt)) return Damaged("the preamble's digest does not match");
  if (version != kContainerVersion && version != kContainerVersionEncrypted) {
    return absl::UnimplementedError(
        absl::StrCat("container version ", version, "; this library reads versions ", kContainerVersion, " and ", kContainerVersionEncrypted));
  }
  preamble.encrypted = version == kContainerVersionEncrypted;
  if (flags != 0) return absl::UnimplementedError(absl::StrCat("container flags ", flags, " are not known to this library"));
  if (preamble.file_bytes != file_bytes) return Damaged(absl::StrCat("the file has ", file_bytes, " bytes, its header says ", preamble.file_bytes));
  if (preamble.body_bytes < kBodyFixedBytes || preamble.body_bytes > kHeaderBytesMax || preamble.data_offset != RoundUp(kPreambleBytes + preamble.body_bytes) ||
      preamble.data_offset > file_bytes) {
    return Damaged("impossible sizes");
  }
  return preamble;
}

}  // namespace

absl::StatusOr<ContainerHeader> DecodeHeaderRegion(absl::string_view region, int64_t file_bytes) {
  ASSIGN_OR_RETURN(const Preamble preamble, DecodePreamble(region, file_bytes));
  if (region.size() != static_cast<size_t>(preamble.data_offset)) return Damaged("its region has another size");
  const absl::string_view body = region.substr(kPreambleBytes, static_cast<size_t>(preamble.body_bytes));
  if (Xxh3Of(body.data(), body.size()) != preamble.body_digest) return Damaged("the digest does not match");
  const absl::string_view padding = region.substr(kPreambleBytes + body.size());
  if (!AllZero(padding.data(), padding.size())) return Damaged("its padding is not zero");

  Cursor in(body);
  ContainerHeader header;
  const auto rank = in.Take<uint32_t>();
  const auto world_size = in.Take<uint32_t>();
  header.step = in.Take<int64_t>();
  header.chunk_bytes = in.Take<uint32_t>();
  const auto count = in.Take<uint32_t>();
  if (!in.ok() || world_size < 1 || world_size > kWorldSizeMax || rank >= world_size) return Damaged("impossible rank or world size");
  if (header.step < 0 || header.step > kStepMax) return Damaged("impossible step");
  if (header.chunk_bytes < kAlignment || header.chunk_bytes > kChunkBytesMax || !std::has_single_bit(header.chunk_bytes)) {
    return Damaged("impossible chunk size");
  }
  if (count > limits::kTensorsMax || count > in.left() / 24) return Damaged("impossible number of tensors");
  header.rank = static_cast<int>(rank);
  header.world_size = static_cast<int>(world_size);
  header.data_offset = preamble.data_offset;
  header.file_bytes = file_bytes;
  if (preamble.encrypted) {
    const absl::string_view salt = in.TakeBytes(sizeof(Salt)), commitment = in.TakeBytes(sizeof(Commitment));
    if (!in.ok()) return Damaged("it ends inside its encryption block");
    header.encryption.emplace();
    std::memcpy(header.encryption->salt.data(), salt.data(), salt.size());
    std::memcpy(header.encryption->commitment.data(), commitment.data(), commitment.size());
  }
  // Segments follow each other in order without gaps, so that every byte of the file is accounted for.
  std::set<std::string> names;
  int64_t at = header.data_offset;
  for (uint32_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(TensorEntry entry, DecodeEntry(&in, header.chunk_bytes, preamble.encrypted));
    entry.first_chunk = header.ChunkCount();
    if (entry.byte_offset != at || entry.byte_length > file_bytes - at) return Damaged("a segment is out of place");
    if (!names.insert(entry.name).second) return Damaged("a tensor is named twice");
    at += RoundUp(entry.byte_length);
    header.tensors.push_back(std::move(entry));
  }
  if (in.left() != 0 || at != file_bytes) return Damaged("bytes are left over");
  return header;
}

absl::StatusOr<ContainerFile> WriteContainer(Io* io, const std::string& path, int rank, int world_size, int64_t step, const std::vector<TensorView>& tensors,
                                             uint32_t chunk_bytes, const SecretKey* data_key, bool read_back) {
  std::optional<EncryptionBlock> block;
  if (data_key != nullptr) {
    ASSIGN_OR_RETURN(block, ChunkCipher::NewBlock(*data_key));
  }
  ASSIGN_OR_RETURN(ContainerHeader header, LayOut(rank, world_size, step, tensors, chunk_bytes, block));
  const Lanes lanes(header.ChunkCount(), chunk_bytes);
  std::vector<ChunkCipher> ciphers;
  for (int lane = 0; block && lane < lanes.count(); ++lane) {
    ASSIGN_OR_RETURN(ChunkCipher cipher, ChunkCipher::Of(*data_key, *block, IdentityOf(header), header.ChunkCount()));
    ciphers.push_back(std::move(cipher));
  }
  // Told before anything is written, with figures. What a quota allows only the allocation finds out.
  const auto free_bytes = io->FreeBytes(ParentOf(path));
  if (free_bytes.ok() && *free_bytes < header.file_bytes + kSpareBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no space left for ", path, ": it has ", FormatBytes(header.file_bytes), ", the disk ", FormatBytes(*free_bytes)));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<File> file, io->Create(path));
  RETURN_IF_ERROR(file->Allocate(header.file_bytes));  // a full disk shows here, before any byte is written
  const int64_t alignment = header.file_bytes >= kDirectBytesMin ? file->PreferDirect() : 1;
  RETURN_IF_ERROR(lanes.Run([&](int lane, int64_t chunk) -> absl::Status {
    const size_t i = header.EntryOfChunk(chunk);
    TensorEntry& entry = header.tensors[i];
    const auto c = static_cast<size_t>(chunk - entry.first_chunk);
    const int64_t at = static_cast<int64_t>(c) * chunk_bytes;
    const size_t bytes = ChunkBytes(entry, at, chunk_bytes);
    const auto padded = static_cast<size_t>(RoundUp(static_cast<int64_t>(bytes)));
    const char* stored = static_cast<const char*>(tensors[i].data) + at;
    char* const buffer = lanes.buffer(lane);
    if (block) {
      ciphers[static_cast<size_t>(lane)].Seal(chunk, stored, bytes, buffer, &entry.tags[c]);
      stored = buffer;
    }
    entry.chunks[c] = Xxh3Of(stored, bytes);
    size_t written = bytes;
    if (!FitsDirect(stored, bytes, alignment)) {
      if (stored != buffer) std::memcpy(buffer, stored, bytes);
      std::memset(buffer + bytes, 0, padded - bytes);
      stored = buffer;
      written = padded;
    }
    RETURN_IF_ERROR(file->WriteAt(stored, written, entry.byte_offset + at));
    if (!read_back) return absl::OkStatus();
    RETURN_IF_ERROR(file->ReadAt(buffer, padded, entry.byte_offset + at));
    if (Xxh3Of(buffer, bytes) == entry.chunks[c] && AllZero(buffer + bytes, padded - bytes)) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(path, ": tensor \"", Printable(entry.name), "\", bytes from ", at, ": the disk gives back something else than was written"));
  }));
  // The header comes last: a file that was cut short has no magic.
  const std::string region = EncodeHeaderRegion(header);
  RETURN_IF_ERROR(file->WriteAt(region.data(), region.size(), 0));
  RETURN_IF_ERROR(file->Sync());
  return ContainerFile{header.file_bytes, HexOf(Sha256Of(region))};
}

absl::StatusOr<ContainerReader> ContainerReader::Open(Io* io, const std::string& path, const ContainerFile* expected, const SecretKey* data_key) {
  ContainerReader reader;
  reader.path_ = path;
  ASSIGN_OR_RETURN(reader.file_, io->Open(path));
  ASSIGN_OR_RETURN(reader.identity_.bytes, reader.file_->Bytes());
  auto in_file = [&](const absl::Status& status) { return absl::Status(status.code(), absl::StrCat(path, ": ", status.message())); };
  if (expected != nullptr && expected->bytes != reader.identity_.bytes) {
    return absl::DataLossError(absl::StrCat(path, " has ", reader.identity_.bytes, " bytes, the manifest says ", expected->bytes));
  }
  std::string region(static_cast<size_t>(std::min(kPreambleBytes, reader.identity_.bytes)), '\0');
  RETURN_IF_ERROR(reader.file_->ReadAt(region.data(), region.size(), 0));
  auto preamble = DecodePreamble(region, reader.identity_.bytes);
  if (!preamble.ok()) return in_file(preamble.status());
  region.resize(static_cast<size_t>(preamble->data_offset));
  RETURN_IF_ERROR(reader.file_->ReadAt(region.data(), region.size(), 0));
  auto header = DecodeHeaderRegion(region, reader.identity_.bytes);
  if (!header.ok()) return in_file(header.status());
  reader.header_ = *std::move(header);
  reader.identity_.header_sha256 = HexOf(Sha256Of(region));
  if (expected != nullptr && expected->header_sha256 != reader.identity_.header_sha256) {
    return absl::DataLossError(absl::StrCat(path, ": its header is not the one the manifest names"));
  }
  if (reader.identity_.bytes >= kDirectBytesMin) reader.alignment_ = reader.file_->PreferDirect();
  if (data_key == nullptr) return reader;
  if (!reader.header_.encryption) return absl::DataLossError(absl::StrCat(path, ": it is not encrypted, and there is a key"));
  auto cipher = ChunkCipher::Of(*data_key, *reader.header_.encryption, IdentityOf(reader.header_), reader.header_.ChunkCount());
  if (!cipher.ok()) return in_file(cipher.status());
  reader.cipher_.emplace(*std::move(cipher));
  return reader;
}

absl::Status ContainerReader::CheckChunk(const ChunkCipher* cipher, const TensorEntry& entry, size_t chunk, char* data, size_t bytes, char* out) const {
  const int64_t begin = static_cast<int64_t>(chunk) * header_.chunk_bytes;
  auto bad = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(path_, ": tensor \"", Printable(entry.name), "\", bytes from ", begin, ": ", what));
  };
  if (Xxh3Of(data, bytes) != entry.chunks[chunk]) return bad("the digest does not match");
  if (cipher == nullptr) {
    if (out != data) std::memcpy(out, data, bytes);
    return absl::OkStatus();
  }
  const int64_t number = entry.first_chunk + static_cast<int64_t>(chunk);
  if (cipher->Open(number, entry.tags[chunk], data, bytes, out)) return absl::OkStatus();
  std::string ciphertext(bytes, '\0');  // once more: what was in `data` may be gone
  RETURN_IF_ERROR(file_->ReadAt(ciphertext.data(), bytes, entry.byte_offset + begin));
  return bad(absl::StrCat("chunk ", number, " of the container ", cipher->WhyNot(number, entry.tags[chunk], ciphertext)));
}

std::vector<ChunkCipher> ContainerReader::CiphersFor(const Lanes& lanes) const {
  std::vector<ChunkCipher> ciphers;
  for (int lane = 0; cipher_ && lane < lanes.count(); ++lane) ciphers.push_back(cipher_->ForAnotherThread());
  return ciphers;
}

absl::Status ContainerReader::ReadTensors(const std::vector<Wanted>& wanted) const {
  if (header_.encryption && !cipher_) return absl::UnauthenticatedError(absl::StrCat(path_, " is encrypted, and no key is given"));
  if (wanted.empty()) return absl::OkStatus();
  PieceNumbers chunks;
  for (const Wanted& one : wanted) chunks.Add(static_cast<int64_t>(one.entry->chunks.size()));
  const Lanes lanes(chunks.count(), header_.chunk_bytes);
  const std::vector<ChunkCipher> ciphers = CiphersFor(lanes);
  return lanes.Run([&](int lane, int64_t piece) -> absl::Status {
    const auto [i, chunk] = chunks.Of(piece);
    const TensorEntry& entry = *wanted[i].entry;
    const auto c = static_cast<size_t>(chunk);
    const int64_t begin = static_cast<int64_t>(c) * header_.chunk_bytes;
    const size_t bytes = ChunkBytes(entry, begin, header_.chunk_bytes);
    char* const out = static_cast<char*>(wanted[i].out) + begin;
    const bool straight = FitsDirect(out, bytes, alignment_);
    char* const at = straight ? out : lanes.buffer(lane);
    RETURN_IF_ERROR(file_->ReadAt(at, straight ? bytes : static_cast<size_t>(RoundUp(static_cast<int64_t>(bytes))), entry.byte_offset + begin));
    return CheckChunk(cipher_ ? &ciphers[static_cast<size_t>(lane)] : nullptr, entry, c, at, bytes, out);
  });
}

absl::Status ContainerReader::VerifyAll() const {
  const Lanes lanes(header_.ChunkCount(), header_.chunk_bytes);
  const std::vector<ChunkCipher> ciphers = CiphersFor(lanes);
  return lanes.Run([&](int lane, int64_t chunk) -> absl::Status {
    const TensorEntry& entry = header_.tensors[header_.EntryOfChunk(chunk)];
    const auto c = static_cast<size_t>(chunk - entry.first_chunk);
    const int64_t begin = static_cast<int64_t>(c) * header_.chunk_bytes;
    const size_t bytes = ChunkBytes(entry, begin, header_.chunk_bytes);
    // The last chunk brings its padding along: chunk_bytes is a multiple of the alignment, so both fit.
    const auto padded = static_cast<size_t>(RoundUp(static_cast<int64_t>(bytes)));
    char* const buffer = lanes.buffer(lane);
    RETURN_IF_ERROR(file_->ReadAt(buffer, padded, entry.byte_offset + begin));
    RETURN_IF_ERROR(CheckChunk(cipher_ ? &ciphers[static_cast<size_t>(lane)] : nullptr, entry, c, buffer, bytes, buffer));
    if (AllZero(buffer + bytes, padded - bytes)) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(path_, ": the padding after tensor \"", Printable(entry.name), "\" is not zero"));
  });
}

}  // namespace spillway::checkpoint
