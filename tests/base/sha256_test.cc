#include "base/sha256.h"

#include "base/status_matchers.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;

TEST(Sha256Test, KnownDigests) {
  // FIPS 180-2's examples.
  EXPECT_EQ(HexOf(Sha256Of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HexOf(Sha256Of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(HexOf(Sha256Of(std::string(1'000'000, 'a'))), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, PiecesAreAsGoodAsTheWhole) {
  Sha256 hash;
  for (int i = 0; i < 1'000; ++i) hash.Update(std::string(1'000, 'a'));
  hash.Update("");
  EXPECT_EQ(hash.Finish(), Sha256Of(std::string(1'000'000, 'a')));
}

TEST(Sha256DeathTest, ADigestIsFinishedOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Sha256 hash;
  hash.Finish();
  EXPECT_DEATH(hash.Finish(), "CHECK failed");
  EXPECT_DEATH(hash.Update("x"), "CHECK failed");
}

TEST(HexTest, BytesGoThereAndBack) {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  ASSERT_OK_AND_ASSIGN(const std::string back, FromHex(HexOf(all)));
  EXPECT_EQ(back, all);
  EXPECT_EQ(HexOf(absl::string_view("\x00\xff\x1a", 3)), "00ff1a");
  ASSERT_OK_AND_ASSIGN(const std::string upper, FromHex("DEADbeef"));
  EXPECT_EQ(upper, "\xde\xad\xbe\xef");
  ASSERT_OK_AND_ASSIGN(const std::string empty, FromHex(""));
  EXPECT_EQ(empty, "");
}

TEST(HexTest, WhatIsNoHexIsRefusedWithItsPlace) {
  EXPECT_THAT(FromHex("abc"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("odd")));
  EXPECT_THAT(FromHex("00g0"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("position 2")));
  EXPECT_THAT(FromHex("0 "), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("position 1")));
}

}  // namespace
}  // namespace spillway
