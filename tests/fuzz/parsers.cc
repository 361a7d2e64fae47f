#include "tests/fuzz/parsers.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "checkpoint/container.h"
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

bool FuzzContainerHeader(absl::string_view bytes) {
  const bool as_it_is = TryContainerHeader(bytes);
  if (bytes.size() < kPreambleBytes) return as_it_is;
  std::string region(bytes);
  // The body is as long as the preamble says, or whatever there is.
  auto body_bytes = At<int64_t>(region, 16);
  if (body_bytes < 0 || body_bytes > static_cast<int64_t>(region.size() - kPreambleBytes)) body_bytes = static_cast<int64_t>(region.size() - kPreambleBytes);
  region.resize((kPreambleBytes + static_cast<size_t>(body_bytes) + kAlign - 1) / kAlign * kAlign, '\0');
  PutAt<int64_t>(&region, 16, body_bytes);
  PutAt<int64_t>(&region, 24, static_cast<int64_t>(region.size()));
  PutAt(&region, 40, Xxh3Of(region.data() + kPreambleBytes, static_cast<size_t>(body_bytes)));
  PutAt(&region, 56, Xxh3Short(region.data(), 56));
  return TryContainerHeader(region) || as_it_is;
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
  static const auto* const targets =
      new std::vector<FuzzTarget>{{"manifest", FuzzManifest}, {"container_header", FuzzContainerHeader}, {"safetensors_header", FuzzSafetensorsHeader}};
  return *targets;
}

}  // namespace spillway::checkpoint
