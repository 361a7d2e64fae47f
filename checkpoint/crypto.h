// What encryption at rest is made of: 256-bit keys that are wiped from memory, HKDF-SHA256 and AES-256-GCM, both of OpenSSL's libcrypto.
// Owns no format: container, manifest and KEY say what is derived and sealed (docs/reference/checkpoint-format.md, "Encryption").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::checkpoint {

class SecretKey {
 public:
  static constexpr size_t kBytes = 32;

  SecretKey() : bytes_{} {}
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;
  ~SecretKey();  // wipes

  // From the system's generator. UNAVAILABLE when that gives nothing.
  static absl::StatusOr<SecretKey> Random();
  // Exactly 32 bytes.
  static SecretKey Of(absl::string_view bytes);

  uint8_t* data() { return bytes_.data(); }
  absl::string_view view() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::array<uint8_t, kBytes> bytes_;
};

using Salt = std::array<uint8_t, 32>;
using Commitment = std::array<uint8_t, 32>;  // differs for another key, and gives nothing of the key away
using Tag = std::array<uint8_t, 16>;
using Nonce = std::array<uint8_t, 12>;

template <size_t n>
absl::string_view ViewOf(const std::array<uint8_t, n>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), n};
}

absl::StatusOr<Salt> RandomSalt();

struct DerivedKey {
  SecretKey key;
  Commitment commitment;
};

void Wipe(void* data, size_t bytes);

// HKDF-SHA256, 64 bytes: key, then commitment. A key is derived for one salt and one purpose, so nonces may count from 0 under it.
DerivedKey Derive(const SecretKey& from, const Salt& salt, absl::string_view purpose);
// HKDF-SHA256 as in RFC 5869, at most 255 x 32 bytes.
std::string Hkdf(absl::string_view secret, absl::string_view salt, absl::string_view info, size_t bytes);
// 64 hex digits that name a data key without giving it away.
std::string DataKeyId(const SecretKey& data_key);

// 11 bytes counter, most significant first, and 1 for the last of its stream, 0 for the others.
Nonce NonceOf(uint64_t counter, bool last);

// AES-256-GCM under one key. One thread at a time.
class Gcm {
 public:
  explicit Gcm(const SecretKey& key);
  ~Gcm();
  Gcm(Gcm&& other) noexcept;
  Gcm& operator=(Gcm&& other) noexcept;

  Gcm ForAnotherThread() const { return Gcm(key_); }

  // `out` has room for `bytes`, at most 1 GiB, and may be `in`.
  void Seal(const Nonce& nonce, absl::string_view associated, const void* in, size_t bytes, void* out, Tag* tag) const;
  // False: not what was sealed under this key, nonce and associated data; then `out` is wiped.
  [[nodiscard]] bool Open(const Nonce& nonce, absl::string_view associated, const void* in, size_t bytes, void* out, const Tag& tag) const;

 private:
  SecretKey key_;
  void* context_;
};

}  // namespace spillway::checkpoint
