// SHA-256 by OpenSSL's EVP interface (which picks the processor's SHA instructions), and hex.
#include "base/sha256.h"

#include <openssl/evp.h>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace spillway {
namespace {

// Fetched once: OpenSSL 3 looks the algorithm up anew for every EVP_sha256(), which costs more than hashing a short record.
const EVP_MD* Algorithm() {
  static const EVP_MD* const algorithm = [] {
    const EVP_MD* fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    CHECK(fetched != nullptr) << "OpenSSL offers no SHA-256";
    return fetched;
  }();
  return algorithm;
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  CHECK(context_ != nullptr && EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_), Algorithm(), nullptr) == 1);
}

Sha256::~Sha256() { EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_)); }

void Sha256::Update(absl::string_view bytes) {
  CHECK(context_ != nullptr && EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned int size = 0;
  CHECK(context_ != nullptr && EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), digest.data(), &size) == 1 && size == digest.size());
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
  context_ = nullptr;
  return digest;
}

Sha256Digest Sha256Of(absl::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

std::string HexOf(absl::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex(bytes.size() * 2, '0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    hex[2 * i] = kDigits[byte >> 4];
    hex[2 * i + 1] = kDigits[byte & 15];
  }
  return hex;
}

std::string HexOf(const Sha256Digest& digest) { return HexOf(absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size())); }

absl::StatusOr<std::string> FromHex(absl::string_view hex) {
  if (hex.size() % 2 != 0) return absl::InvalidArgumentError(absl::StrCat("hex text has an odd number of digits: ", hex.size()));
  std::string bytes(hex.size() / 2, '\0');
  for (size_t i = 0; i < hex.size(); ++i) {
    const int value = HexValue(hex[i]);
    if (value < 0) return absl::InvalidArgumentError(absl::StrCat("not a hex digit at position ", i));
    bytes[i / 2] = static_cast<char>(static_cast<unsigned char>(bytes[i / 2]) << 4 | value);
  }
  return bytes;
}

}  // namespace spillway
