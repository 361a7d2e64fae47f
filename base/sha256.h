// SHA-256 (OpenSSL) and hex.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void Update(absl::string_view bytes);
  Sha256Digest Finish();  // once

 private:
  void* context_;
};

Sha256Digest Sha256Of(absl::string_view bytes);
std::string HexOf(absl::string_view bytes);
std::string HexOf(const Sha256Digest& digest);
absl::StatusOr<std::string> FromHex(absl::string_view hex);

}  // namespace spillway
