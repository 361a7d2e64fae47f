#include "checkpoint/manifest.h"

#include "absl/strings/str_replace.h"
#include "base/sha256.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

Manifest Sample() {
  Manifest m;
  m.job_uid = "uid-7";
  m.attempt = 3;
  m.step = 120;
  m.parent = CheckpointRef{2, 80};
  m.world_size = 2;
  m.files = {{"rank-00000.bin", 8192, std::string(64, 'a')}, {"rank-00001.bin", 4096, std::string(64, '0')}};
  m.created = "2026-12-24T08:00:00Z";
  m.metadata = {{"lr", "0.001"}, {"text", "quote \" and\nnewline ü"}};
  return m;
}

// The same content under a digest that matches: what the digest does not stop must be stopped by the checks.
std::string Resealed(const std::string& text) {
  const std::string body = text.substr(78);
  return "{\"sha256\":\"" + HexOf(Sha256Of(body)) + "\",\n" + body;
}

TEST(Manifest, DecodingUndoesEncoding) {
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(Sample()));
  std::string sha256;
  ASSERT_OK_AND_ASSIGN(const Manifest back, DecodeManifest(encoded.text, &sha256));
  EXPECT_EQ(back, Sample());
  EXPECT_EQ(sha256, encoded.sha256);
  EXPECT_EQ(back.Bytes(), 12288);
  Manifest first = Sample();
  first.parent.reset();
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded_first, EncodeManifest(first));
  ASSERT_OK_AND_ASSIGN(const Manifest back_first, DecodeManifest(encoded_first.text));
  EXPECT_EQ(back_first, first);
}

// docs/reference/checkpoint-format.md: `tail -c +79 MANIFEST | sha256sum` gives the digest of the first line.
TEST(Manifest, HasTheBytesOfVersionOne) {
  Manifest m;
  m.files = {{"rank-00000.bin", 4096, std::string(64, 'f')}};
  m.library_version = "0.1.0";
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(m));
  EXPECT_EQ(encoded.text, "{\"sha256\":\"" + encoded.sha256 + "\",\n" +
                              R"( "attempt": 1,
 "created": "",
 "files": [
  {
   "bytes": 4096,
   "header_sha256": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
   "name": "rank-00000.bin"
  }
 ],
 "format": "spillway-checkpoint",
 "job_uid": "",
 "library_version": "0.1.0",
 "metadata": {},
 "parent": null,
 "step": 0,
 "version": 1,
 "world_size": 1
}
)");
  EXPECT_EQ(HexOf(Sha256Of(encoded.text.substr(78))), encoded.sha256);
}

TEST(Manifest, EveryChangedByteIsNoticed) {
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(Sample()));
  for (size_t i = 0; i < encoded.text.size(); ++i) {
    std::string bad = encoded.text;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(bad).status())) << "byte " << i;
    EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(encoded.text.substr(0, i)).status())) << "cut at " << i;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(encoded.text + " ").status()));
}

TEST(Manifest, RefusesWhatItWouldNotHaveWritten) {
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(Sample()));
  const std::pair<const char*, const char*> edits[] = {
      {"\"attempt\": 3", "\"attempt\": 0"},
      {"\"attempt\": 3", "\"attempt\": 3.5"},
      {"\"attempt\": 3", "\"attempt\": 18446744073709551615"},
      {"\"step\": 120", "\"step\": -1"},
      {"\"step\": 120", "\"step\": \"120\""},
      {"\"step\": 120", "\"step\": 1000000000000"},
      {"\"world_size\": 2", "\"world_size\": 3"},
      {"\"bytes\": 8192", "\"bytes\": -8192"},
      {"rank-00001.bin", "../../etc/passwd"},
      {"rank-00001.bin", "rank-00000.bin"},
      {"\"job_uid\"", "\"job_uid2\""},
      {"\"lr\": \"0.001\"", "\"lr\": 0.001"},
      {"spillway-checkpoint", "something"},
      {"\"files\": [", "\"extra\": 1, \"files\": ["},
      {"\"header_sha256\": \"0", "\"header_sha256\": \"X"},
  };
  for (const auto& [from, to] : edits) {
    const std::string bad = Resealed(absl::StrReplaceAll(encoded.text, {{from, to}}));
    ASSERT_NE(bad, encoded.text) << from;
    EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(bad).status())) << from << " -> " << to << ": " << DecodeManifest(bad).status();
  }
  const std::string later = Resealed(absl::StrReplaceAll(encoded.text, {{"\"version\": 1", "\"version\": 3"}}));
  EXPECT_THAT(DecodeManifest(later).status(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("version 3")));
  const std::string bare = Resealed(absl::StrReplaceAll(encoded.text, {{"\"version\": 1", "\"version\": 2"}}));
  EXPECT_THAT(DecodeManifest(bare).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("lacks \"encryption\"")));
}

TEST(Manifest, SurvivesTowersAndGarbageUnderAMatchingDigest) {
  const std::string opening(78, ' ');
  EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(Resealed(opening + "\"a\":" + std::string(1'000'000, '['))).status()));
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(Sample()));
  Rng rng(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bad = encoded.text;
    for (int n = 1 + static_cast<int>(rng.Below(4)); n > 0; --n) bad[78 + rng.Below(bad.size() - 78)] = static_cast<char>(rng.Below(256));
    DecodeManifest(Resealed(bad)).status().IgnoreError();  // any answer will do; a crash or a sanitizer's word will not
  }
}

TEST(EncryptedManifest, HidesMetadataAndGivesItBack) {
  const SecretKey key = KeyOf('d');
  Manifest m = Sample();
  ASSERT_OK(SealMetadata(&m, key));
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(m));
  EXPECT_THAT(encoded.text, HasSubstr("\"metadata\": {}"));
  EXPECT_THAT(encoded.text, HasSubstr("\"version\": 2"));
  EXPECT_THAT(encoded.text, ::testing::Not(HasSubstr("0.001")));
  ASSERT_OK_AND_ASSIGN(Manifest back, DecodeManifest(encoded.text));
  EXPECT_TRUE(back.metadata.empty());
  ASSERT_OK(OpenMetadata(&back, key));
  EXPECT_EQ(back, m);
  EXPECT_EQ(back.metadata, Sample().metadata);
  // Without a key it can be written again as it is.
  ASSERT_OK_AND_ASSIGN(const Manifest locked, DecodeManifest(encoded.text));
  ASSERT_OK_AND_ASSIGN(const EncodedManifest again, EncodeManifest(locked));
  EXPECT_EQ(again.text, encoded.text);
}

// docs/reference/checkpoint-format.md gives the derivation and the associated data.
TEST(EncryptedManifest, IsSealedAsTheDocumentSays) {
  const SecretKey key = KeyOf('d');
  Manifest m = Sample();
  ASSERT_OK(SealMetadata(&m, key));
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(m));
  const std::string derived = Hkdf(key.view(), ViewOf(m.encryption->salt), "spillway manifest v1", 64);
  EXPECT_EQ(derived.substr(32), ViewOf(m.encryption->commitment));
  EXPECT_EQ(m.encryption->data_key_id, HexOf(Hkdf(key.view(), "", "spillway data key id v1", 32)));
  std::string sealed = m.encryption->sealed_metadata;
  const std::string associated = absl::StrReplaceAll(encoded.text.substr(78), {{HexOf(sealed), ""}});
  Tag tag;
  std::copy(sealed.end() - 16, sealed.end(), tag.begin());
  sealed.resize(sealed.size() - 16);
  ASSERT_TRUE(Gcm(SecretKey::Of(derived.substr(0, 32))).Open(NonceOf(0, true), associated, sealed.data(), sealed.size(), sealed.data(), tag));
  EXPECT_EQ(sealed, "{\"lr\":\"0.001\",\"text\":\"quote \\\" and\\nnewline \xc3\xbc\"}");
}

// Who can make the SHA-256 match but has no key changes nothing that it says.
TEST(EncryptedManifest, WhatItSaysIsAuthenticated) {
  const SecretKey key = KeyOf('d');
  Manifest m = Sample();
  ASSERT_OK(SealMetadata(&m, key));
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(m));
  const std::pair<std::string, std::string> edits[] = {
      {"\"attempt\": 3", "\"attempt\": 4"},
      {"\"step\": 120", "\"step\": 121"},
      {"\"step\": 80", "\"step\": 81"},
      {"\"bytes\": 8192", "\"bytes\": 12288"},
      {std::string(64, 'a'), std::string(64, 'b')},
      {"uid-7", "uid-8"},
      {"2026-12-24", "2026-12-25"},
      {"\"metadata\": \"", "\"metadata\": \"00"},
      {m.encryption->data_key_id, std::string(64, 'e')},
  };
  for (const auto& [from, to] : edits) {
    const std::string bad = Resealed(absl::StrReplaceAll(encoded.text, {{from, to}}));
    ASSERT_NE(bad, encoded.text) << from;
    ASSERT_OK_AND_ASSIGN(Manifest manifest, DecodeManifest(bad));
    EXPECT_THAT(OpenMetadata(&manifest, key), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("it was altered"))) << from;
    EXPECT_TRUE(manifest.metadata.empty());
  }
  Manifest other = Sample();
  ASSERT_OK(SealMetadata(&other, KeyOf('e')));
  EXPECT_THAT(OpenMetadata(&other, key), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("under another data key")));
}

TEST(EncryptedManifest, RefusesWhatItWouldNotHaveWritten) {
  Manifest m = Sample();
  ASSERT_OK(SealMetadata(&m, KeyOf('d')));
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(m));
  const std::string salt = HexOf(ViewOf(m.encryption->salt));
  const std::pair<std::string, std::string> edits[] = {
      {"\"metadata\": {}", "\"metadata\": {\"a\": \"b\"}"},
      {"AES-256-GCM", "AES-256-CBC"},
      {salt, salt.substr(2)},
      {salt, "GG" + salt.substr(2)},
      {HexOf(m.encryption->sealed_metadata), std::string(30, '0')},
      {"\"version\": 2", "\"version\": 1"},
      {"\"cipher\"", "\"extra\": 1, \"cipher\""},
  };
  for (const auto& [from, to] : edits) {
    const std::string bad = Resealed(absl::StrReplaceAll(encoded.text, {{from, to}}));
    ASSERT_NE(bad, encoded.text) << from;
    EXPECT_TRUE(absl::IsDataLoss(DecodeManifest(bad).status())) << from << " -> " << to << ": " << DecodeManifest(bad).status();
  }
}

TEST(Manifest, RefusesToWriteWhatItCouldNotRead) {
  Manifest m = Sample();
  m.metadata["bad"] = "\xff\xfe";
  EXPECT_THAT(EncodeManifest(m).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
  m = Sample();
  m.files.pop_back();
  EXPECT_THAT(EncodeManifest(m).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 files for world_size 2")));
}

}  // namespace
}  // namespace spillway::checkpoint
