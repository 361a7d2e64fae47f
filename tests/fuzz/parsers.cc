#include "tests/fuzz/parsers.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "checkpoint/chunk_cipher.h"
#include "checkpoint/container.h"
#include "checkpoint/key_file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"

namespace spillway::checkpoint {
namespace {

constexpr size_t kFirstLineBytes = 78;  // of a sealed file
constexpr size_t kPreambleBytes = 64;   // of a container
constexpr size_t kAlign = 4096;

// Not an assert of a test framework: libFuzzer and the plain driver both see a process that ends here.
void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

bool TryManifest(absl::string_view text) {
  const auto manifest = DecodeManifest(text);
  if (!manifest.ok()) return false;
  const auto encoded = EncodeManifest(*manifest);
  Require(encoded.ok(), "a manifest that was read cannot be written");
  const auto again = DecodeManifest(encoded->text);
  Require(again.ok() && *again == *manifest, "a manifest is another one after it was written again");
  if (manifest->encryption) {
    Manifest opened = *manifest;
    Require(!OpenMetadata(&opened, SecretKey()).ok(), "a manifest was sealed by nobody");
  }
  return true;
}

template <typename T>
void PutAt(std::string* bytes, size_t at, T value) {
  std::memcpy(bytes->data() + at, &value, sizeof(value));
}

template <typename T>
T At(absl::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

bool TryContainerHeader(absl::string_view region) {
  const int64_t file_bytes = region.size() < kPreambleBytes ? 0 : At<int64_t>(region, 32);
  const auto header = DecodeHeaderRegion(region, file_bytes);
  if (!header.ok()) return false;
  Require(EncodeHeaderRegion(*header) == region, "a container header is another one after it was written again");
  return true;
}

bool SameTensors(const SafetensorsHeader& a, const SafetensorsHeader& b) {
  if (a.tensors.size() != b.tensors.size() || a.metadata != b.metadata) return false;
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const SafetensorsEntry &x = a.tensors[i], &y = b.tensors[i];
    if (x.name != y.name || x.dtype != y.dtype || x.shape != y.shape || x.begin != y.begin || x.end != y.end) return false;
  }
  return true;
}

}  // namespace

bool FuzzManifest(absl::string_view bytes) {
  const bool as_it_is = TryManifest(bytes);
  const absl::string_view rest = bytes.size() < kFirstLineBytes ? bytes : bytes.substr(kFirstLineBytes);
  return TryManifest(absl::StrCat("{\"sha256\":\"", HexOf(Sha256Of(rest)), "\",\n", rest)) || as_it_is;
}

namespace {

// The digests put right. `version` 0: as it is.
bool TryRegion(absl::string_view bytes, uint32_t version, bool (*attempt)(absl::string_view region)) {
  std::string region(bytes);
  // The body is as long as the preamble says, or whatever there is.
  auto body_bytes = At<int64_t>(region, 16);
  if (body_bytes < 0 || body_bytes > static_cast<int64_t>(region.size() - kPreambleBytes)) body_bytes = static_cast<int64_t>(region.size() - kPreambleBytes);
  region.resize((kPreambleBytes + static_cast<size_t>(body_bytes) + kAlign - 1) / kAlign * kAlign, '\0');
  if (version != 0) PutAt<uint32_t>(&region, 8, version);
  PutAt<int64_t>(&region, 16, body_bytes);
  PutAt<int64_t>(&region, 24, static_cast<int64_t>(region.size()));
  PutAt(&region, 40, Xxh3Of(region.data() + kPreambleBytes, static_cast<size_t>(body_bytes)));
  PutAt(&region, 56, Xxh3Short(region.data(), 56));
  return attempt(region);
}

// And what comes after the header: a foreign key is refused, and where the commitment is made to match it, nothing opens.
bool TryEncryptedHeader(absl::string_view region) {
  if (!TryContainerHeader(region)) return false;
  auto header = DecodeHeaderRegion(region, At<int64_t>(region, 32));
  if (!header.ok() || !header->encryption) return false;
  const SecretKey key;
  const ContainerIdentity identity{header->rank, header->world_size, header->step, header->chunk_bytes};
  Require(!ChunkCipher::Of(key, *header->encryption, identity, header->ChunkCount()).ok(), "a container is of a key that nobody had");
  header->encryption->commitment = Derive(key, header->encryption->salt, "spillway container v1").commitment;
  const auto cipher = ChunkCipher::Of(key, *header->encryption, identity, header->ChunkCount());
  Require(cipher.ok(), "a key that is committed to is refused");
  for (const TensorEntry& entry : header->tensors) {
    Require(entry.tags.size() == entry.chunks.size(), "a chunk has no tag");
    if (entry.tags.empty()) continue;
    std::string chunk(64, 'x');
    Require(!cipher->Open(entry.first_chunk, entry.tags[0], chunk.data(), chunk.size(), chunk.data()) && chunk == std::string(64, '\0'), "garbage was opened");
    break;
  }
  return true;
}

bool TryKeyFile(absl::string_view text) {
  const auto json = UnsealJson("KEY", text);
  if (!json.ok()) return false;
  const auto file = KeyFileOf(*json, "KEY");
  if (!file.ok()) return false;
  const auto sealed = SealJson(KeyFileJson(*file));
  Require(sealed.ok(), "a key file that was read cannot be written");
  const auto again_json = UnsealJson("KEY", sealed->text);
  Require(again_json.ok(), "a key file that was written cannot be read");
  const auto again = KeyFileOf(*again_json, "KEY");
  Require(again.ok() && *again == *file, "a key file is another one after it was written again");
  Require(!UnwrapKey(*file, SecretKey()).ok(), "a data key was wrapped by nobody");
  return true;
}

}  // namespace

bool FuzzContainerHeader(absl::string_view bytes) {
  const bool as_it_is = TryContainerHeader(bytes);
  if (bytes.size() < kPreambleBytes) return as_it_is;
  return TryRegion(bytes, 0, TryContainerHeader) || as_it_is;
}

bool FuzzEncryptedHeader(absl::string_view bytes) {
  if (bytes.size() < kPreambleBytes) return TryEncryptedHeader(bytes);
  return TryRegion(bytes, kContainerVersionEncrypted, TryEncryptedHeader);
}

bool FuzzKeyFile(absl::string_view bytes) {
  const bool as_it_is = TryKeyFile(bytes);
  const absl::string_view rest = bytes.size() < kFirstLineBytes ? bytes : bytes.substr(kFirstLineBytes);
  return TryKeyFile(absl::StrCat("{\"sha256\":\"", HexOf(Sha256Of(rest)), "\",\n", rest)) || as_it_is;
}

bool FuzzSafetensorsHeader(absl::string_view bytes) {
  if (bytes.size() < 8) return false;
  const auto header = DecodeSafetensorsHeader(bytes.substr(8), At<int64_t>(bytes, 0));
  if (!header.ok()) return false;
  const std::string written = EncodeSafetensorsHeader(*header);
  const auto again = DecodeSafetensorsHeader(absl::string_view(written).substr(8), At<int64_t>(bytes, 0));
  Require(again.ok() && SameTensors(*again, *header), "a safetensors header is another one after it was written again");
  return true;
}

const std::vector<FuzzTarget>& FuzzTargets() {
  static const auto* const targets = new std::vector<FuzzTarget>{{"manifest", FuzzManifest},
                                                                 {"container_header", FuzzContainerHeader},
                                                                 {"encrypted_header", FuzzEncryptedHeader},
                                                                 {"key_file", FuzzKeyFile},
                                                                 {"safetensors_header", FuzzSafetensorsHeader}};
  return *targets;
}

}  // namespace spillway::checkpoint
