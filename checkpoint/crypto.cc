#include "checkpoint/crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/rand.h>

#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/sha256.h"

namespace spillway::checkpoint {
namespace {

constexpr size_t kBytesMax = 1 << 30;  // OpenSSL counts in int

// Fetched once: OpenSSL 3 looks an algorithm up anew for every EVP_aes_256_gcm().
const EVP_CIPHER* Aes256Gcm() {
  static const EVP_CIPHER* const cipher = [] {
    const EVP_CIPHER* fetched = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
    CHECK(fetched != nullptr) << "OpenSSL offers no AES-256-GCM";
    return fetched;
  }();
  return cipher;
}

EVP_KDF* HkdfAlgorithm() {
  static EVP_KDF* const kdf = [] {
    EVP_KDF* fetched = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
    CHECK(fetched != nullptr) << "OpenSSL offers no HKDF";
    return fetched;
  }();
  return kdf;
}

absl::Status FillRandom(uint8_t* out, size_t bytes) {
  if (RAND_priv_bytes(out, static_cast<int>(bytes)) == 1) return absl::OkStatus();
  return absl::UnavailableError("the system gives no random bytes for a key");
}

const unsigned char* Bytes(absl::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

}  // namespace

SecretKey::~SecretKey() { Wipe(bytes_.data(), bytes_.size()); }

absl::StatusOr<SecretKey> SecretKey::Random() {
  SecretKey key;
  const absl::Status filled = FillRandom(key.data(), kBytes);
  if (!filled.ok()) return filled;
  return key;
}

SecretKey SecretKey::Of(absl::string_view bytes) {
  CHECK(bytes.size() == kBytes);
  SecretKey key;
  std::memcpy(key.data(), bytes.data(), kBytes);
  return key;
}

void Wipe(void* data, size_t bytes) { OPENSSL_cleanse(data, bytes); }

absl::StatusOr<Salt> RandomSalt() {
  Salt salt;
  const absl::Status filled = FillRandom(salt.data(), salt.size());
  if (!filled.ok()) return filled;
  return salt;
}

std::string Hkdf(absl::string_view secret, absl::string_view salt, absl::string_view info, size_t bytes) {
  std::string out(bytes, '\0');
  EVP_KDF_CTX* context = EVP_KDF_CTX_new(HkdfAlgorithm());
  char digest[] = "SHA256";
  auto octets = [](const char* name, absl::string_view text) { return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size()); };
  const OSSL_PARAM parameters[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0), octets(OSSL_KDF_PARAM_KEY, secret),
                                   octets(OSSL_KDF_PARAM_SALT, salt), octets(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  CHECK(context != nullptr && EVP_KDF_derive(context, reinterpret_cast<unsigned char*>(out.data()), out.size(), parameters) == 1) << "HKDF failed";
  EVP_KDF_CTX_free(context);
  return out;
}

DerivedKey Derive(const SecretKey& from, const Salt& salt, absl::string_view purpose) {
  DerivedKey derived;
  std::string bytes = Hkdf(from.view(), ViewOf(salt), purpose, SecretKey::kBytes + derived.commitment.size());
  std::memcpy(derived.key.data(), bytes.data(), SecretKey::kBytes);
  std::memcpy(derived.commitment.data(), bytes.data() + SecretKey::kBytes, derived.commitment.size());
  Wipe(bytes.data(), bytes.size());
  return derived;
}

std::string DataKeyId(const SecretKey& data_key) { return HexOf(Hkdf(data_key.view(), "", "spillway data key id v1", 32)); }

Nonce NonceOf(uint64_t counter, bool last) {
  Nonce nonce{};
  for (int i = 0; i < 8; ++i) nonce[static_cast<size_t>(10 - i)] = static_cast<uint8_t>(counter >> (8 * i));
  nonce[11] = last ? 1 : 0;
  return nonce;
}

Gcm::Gcm(const SecretKey& key) : key_(key), context_(EVP_CIPHER_CTX_new()) { CHECK(context_ != nullptr); }

Gcm::~Gcm() { EVP_CIPHER_CTX_free(static_cast<EVP_CIPHER_CTX*>(context_)); }  // wipes its key schedule

Gcm::Gcm(Gcm&& other) noexcept : key_(other.key_), context_(std::exchange(other.context_, nullptr)) {}

Gcm& Gcm::operator=(Gcm&& other) noexcept {
  key_ = other.key_;
  std::swap(context_, other.context_);
  return *this;
}

void Gcm::Seal(const Nonce& nonce, absl::string_view associated, const void* in, size_t bytes, void* out, Tag* tag) const {
  CHECK(bytes <= kBytesMax && associated.size() <= kBytesMax);
  auto* context = static_cast<EVP_CIPHER_CTX*>(context_);
  auto* to = static_cast<unsigned char*>(out);
  unsigned char nothing[1];
  int n = 0;
  CHECK(EVP_EncryptInit_ex2(context, Aes256Gcm(), Bytes(key_.view()), nonce.data(), nullptr) == 1 &&
        EVP_EncryptUpdate(context, nullptr, &n, Bytes(associated), static_cast<int>(associated.size())) == 1 &&
        EVP_EncryptUpdate(context, to, &n, static_cast<const unsigned char*>(in), static_cast<int>(bytes)) == 1 && static_cast<size_t>(n) == bytes &&
        EVP_EncryptFinal_ex(context, nothing, &n) == 1 && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag->size()), tag->data()) == 1)
      << "AES-256-GCM failed";
}

bool Gcm::Open(const Nonce& nonce, absl::string_view associated, const void* in, size_t bytes, void* out, const Tag& tag) const {
  CHECK(bytes <= kBytesMax && associated.size() <= kBytesMax);
  auto* context = static_cast<EVP_CIPHER_CTX*>(context_);
  auto* to = static_cast<unsigned char*>(out);
  unsigned char nothing[1];
  int n = 0;
  CHECK(EVP_DecryptInit_ex2(context, Aes256Gcm(), Bytes(key_.view()), nonce.data(), nullptr) == 1 &&
        EVP_DecryptUpdate(context, nullptr, &n, Bytes(associated), static_cast<int>(associated.size())) == 1 &&
        EVP_DecryptUpdate(context, to, &n, static_cast<const unsigned char*>(in), static_cast<int>(bytes)) == 1 &&
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(tag.size()), const_cast<uint8_t*>(tag.data())) == 1)
      << "AES-256-GCM failed";
  if (EVP_DecryptFinal_ex(context, nothing, &n) == 1) return true;
  Wipe(out, bytes);
  return false;
}

}  // namespace spillway::checkpoint
