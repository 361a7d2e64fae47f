// The primitives give what the standards say, and refuse what was not sealed with them.
#include "checkpoint/crypto.h"

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "base/status_matchers.h"

namespace spillway::checkpoint {
namespace {

std::string Bytes(absl::string_view hex) { return *FromHex(hex); }

// RFC 5869, appendix A.1 and A.3.
TEST(Crypto, HkdfIsThatOfTheRfc) {
  EXPECT_EQ(HexOf(Hkdf(std::string(22, '\x0b'), Bytes("000102030405060708090a0b0c"), Bytes("f0f1f2f3f4f5f6f7f8f9"), 42)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
  EXPECT_EQ(HexOf(Hkdf(std::string(22, '\x0b'), "", "", 42)), "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

// The GCM specification's test cases 14 and 16.
TEST(Crypto, GcmIsThatOfTheSpecification) {
  Tag tag;
  std::string out(16, '\0');
  Gcm(SecretKey()).Seal(Nonce{}, "", std::string(16, '\0').data(), 16, out.data(), &tag);
  EXPECT_EQ(HexOf(out), "cea7403d4d606b6e074ec5d3baf39d18");
  EXPECT_EQ(HexOf(ViewOf(tag)), "d0d1c8a799996bf0265b98b5d48ab919");

  const std::string plain = Bytes("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
  const SecretKey key = SecretKey::Of(Bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"));
  Nonce nonce;
  const std::string iv = Bytes("cafebabefacedbaddecaf888");
  std::copy(iv.begin(), iv.end(), nonce.begin());
  out.resize(plain.size());
  Gcm(key).Seal(nonce, Bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2"), plain.data(), plain.size(), out.data(), &tag);
  EXPECT_EQ(HexOf(out), "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662");
  EXPECT_EQ(HexOf(ViewOf(tag)), "76fc6ece0f4e1768cddf8853bb2d551b");
}

TEST(Crypto, OpensInPlaceAndWipesWhatIsNotAuthentic) {
  ASSERT_OK_AND_ASSIGN(const SecretKey key, SecretKey::Random());
  const Gcm gcm(key);
  const std::string plain = "what nobody else is to read";
  std::string sealed(plain.size(), '\0');
  Tag tag;
  gcm.Seal(NonceOf(7, true), "head", plain.data(), plain.size(), sealed.data(), &tag);
  auto opened = [&](const Gcm& by, const Nonce& nonce, absl::string_view associated, Tag with) {
    std::string data = sealed;
    const bool authentic = by.Open(nonce, associated, data.data(), data.size(), data.data(), with);
    EXPECT_EQ(data, authentic ? plain : std::string(plain.size(), '\0'));
    return authentic;
  };
  EXPECT_TRUE(opened(gcm, NonceOf(7, true), "head", tag));
  EXPECT_FALSE(opened(gcm, NonceOf(7, false), "head", tag));
  EXPECT_FALSE(opened(gcm, NonceOf(8, true), "head", tag));
  EXPECT_FALSE(opened(gcm, NonceOf(7, true), "hear", tag));
  ASSERT_OK_AND_ASSIGN(const SecretKey other, SecretKey::Random());
  EXPECT_FALSE(opened(Gcm(other), NonceOf(7, true), "head", tag));
  Tag bent = tag;
  bent[15] ^= 1;
  EXPECT_FALSE(opened(gcm, NonceOf(7, true), "head", bent));
}

TEST(Crypto, NoncesCountMostSignificantByteFirst) {
  EXPECT_EQ(HexOf(ViewOf(NonceOf(0x0102030405060708, false))), "000000010203040506070800");
  EXPECT_EQ(HexOf(ViewOf(NonceOf(0, true))), "000000000000000000000001");
}

TEST(Crypto, KeysOfOneSecretDifferBySaltAndPurpose) {
  ASSERT_OK_AND_ASSIGN(const SecretKey secret, SecretKey::Random());
  ASSERT_OK_AND_ASSIGN(const Salt salt, RandomSalt());
  ASSERT_OK_AND_ASSIGN(const Salt other, RandomSalt());
  const DerivedKey derived = Derive(secret, salt, "purpose");
  EXPECT_EQ(derived.key.view(), Derive(secret, salt, "purpose").key.view());
  EXPECT_EQ(derived.commitment, Derive(secret, salt, "purpose").commitment);
  EXPECT_NE(derived.key.view(), ViewOf(derived.commitment));
  EXPECT_NE(derived.key.view(), Derive(secret, salt, "porpoise").key.view());
  EXPECT_NE(derived.key.view(), Derive(secret, other, "purpose").key.view());
  EXPECT_EQ(DataKeyId(secret).size(), 64u);
  EXPECT_NE(DataKeyId(secret), HexOf(secret.view()));
}

}  // namespace
}  // namespace spillway::checkpoint
