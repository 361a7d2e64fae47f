#include "checkpoint/container.h"

#include <cstring>

#include "base/sha256.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

class ContainerTest : public ::testing::Test {
 protected:
  std::string Path() const { return folder_.path() + "/rank-00000.bin"; }
  TemporaryFolder folder_;
};

TEST_F(ContainerTest, GivesBackWhatItWasGiven) {
  const SampleState state = SampleState::Of(1);
  ASSERT_OK_AND_ASSIGN(const ContainerFile written, WriteContainer(RealIo(), Path(), 0, 1, 120, state.Views(), 4096));
  ASSERT_OK_AND_ASSIGN(const ContainerReader reader, ContainerReader::Open(RealIo(), Path(), &written));
  EXPECT_OK(reader.VerifyAll());
  EXPECT_EQ(reader.header().step, 120);
  ASSERT_EQ(reader.header().tensors.size(), 3u);
  SampleState back;
  EXPECT_OK(reader.ReadTensor(reader.header().tensors[0], back.weights.data()));
  EXPECT_OK(reader.ReadTensor(reader.header().tensors[1], back.rng.data()));
  EXPECT_EQ(back, state);
}

// Every segment on 4 KiB, the size a multiple of it, chunks of the size asked for.
TEST_F(ContainerTest, AlignsItsSegments) {
  const SampleState state = SampleState::Of(1);
  ASSERT_OK_AND_ASSIGN(const ContainerHeader header, LayOut(0, 1, 0, state.Views(), 4096));
  EXPECT_EQ(header.data_offset, 4096);
  EXPECT_EQ(header.tensors[0].byte_offset, 4096);
  EXPECT_EQ(header.tensors[0].chunks.size(), 5u);  // 18,000 bytes
  EXPECT_EQ(header.tensors[1].byte_offset, 4096 + 20480);
  EXPECT_EQ(header.tensors[2].byte_offset, 4096 + 20480 + 4096);
  EXPECT_EQ(header.tensors[2].chunks.size(), 0u);
  EXPECT_EQ(header.file_bytes, 4096 + 20480 + 4096);
}

// docs/reference/checkpoint-format.md gives these bytes. A change here is a new version of the format, not a new expectation.
TEST_F(ContainerTest, HasTheBytesOfVersionOne) {
  const float values[2] = {1.0f, -2.0f};
  ASSERT_OK_AND_ASSIGN(const ContainerFile written, WriteContainer(RealIo(), Path(), 0, 1, 7, {{"w", DType::kF32, {2}, values, 8}}));
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(Path()));
  ASSERT_EQ(bytes.size(), 8192u);
  EXPECT_EQ(HexOf(bytes.substr(0, 40)),
            "53505759434b5054"
            "01000000"
            "00000000"
            "5900000000000000"
            "0010000000000000"
            "0020000000000000");
  EXPECT_EQ(HexOf(bytes.substr(64, 24)),
            "00000000"
            "01000000"
            "0700000000000000"
            "00001000"
            "01000000");
  EXPECT_EQ(HexOf(bytes.substr(88, 5)),
            "0100"
            "01"
            "01"
            "77");
  EXPECT_EQ(HexOf(bytes.substr(93, 24)),
            "0200000000000000"
            "0000000000000000"
            "0200000000000000");
  EXPECT_EQ(HexOf(bytes.substr(117, 20)),
            "0010000000000000"
            "0800000000000000"
            "01000000");
  EXPECT_EQ(HexOf(bytes.substr(4096, 8)), "0000803f000000c0");
  EXPECT_EQ(written.header_sha256, HexOf(Sha256Of(bytes.substr(0, 4096))));
  EXPECT_EQ(HexOf(Sha256Of(bytes)), "26861d3d039a3e6329aed03f9de992dde2447c39435f9f06b87b2775f9db8c4e");
}

TEST_F(ContainerTest, RefusesTensorsThatCannotBe) {
  const float x[4] = {};
  auto refused = [&](const TensorView& view) { return LayOut(0, 1, 0, {view}).status(); };
  EXPECT_THAT(refused({"", DType::kF32, {1}, x, 4}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("without a name")));
  EXPECT_THAT(refused({"w", DType::kF32, {3}, x, 4}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 bytes given, f32[3] has 12")));
  EXPECT_THAT(refused({"w", DType::kF32, {-1}, x, 4}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("impossible shape")));
  EXPECT_THAT(refused({"w", static_cast<DType>(99), {1}, x, 4}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dtype code 99")));
  EXPECT_THAT(refused({"w", DType::kF64, {int64_t{1} << 61}, x, 4}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("bytes given")));
  EXPECT_THAT(refused({std::string(2000, 'n'), DType::kF32, {1}, x, 4}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("longer than")));
  EXPECT_THAT(refused({"w", DType::kF32, {2}, x, 8, Slice{{4}, {3}, {2}}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("leaves shape [4]")));
  EXPECT_THAT(refused({"w", DType::kF32, {1}, x, 4, Slice{{4}, {2}, {2}}}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not the slice's")));
  EXPECT_THAT(LayOut(0, 1, 0, {{"w", DType::kF32, {1}, x, 4}, {"w", DType::kF32, {1}, x, 4}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("given twice")));
  EXPECT_FALSE(LayOut(1, 1, 0, {}).ok());
  EXPECT_FALSE(LayOut(0, 1, kStepMax + 1, {}).ok());
  EXPECT_FALSE(LayOut(0, 1, 0, {}, 5000).ok());
}

TEST_F(ContainerTest, KeepsScalarsAndSlices) {
  const double scalar = 3.5;
  const int32_t part[6] = {1, 2, 3, 4, 5, 6};
  const std::vector<TensorView> tensors = {{"lr", DType::kF64, {}, &scalar, 8}, {"embedding", DType::kI32, {2, 3}, part, 24, Slice{{8, 3}, {4, 0}, {2, 3}}}};
  ASSERT_OK(WriteContainer(RealIo(), Path(), 2, 4, 9, tensors).status());
  ASSERT_OK_AND_ASSIGN(const ContainerReader reader, ContainerReader::Open(RealIo(), Path()));
  EXPECT_EQ(reader.header().rank, 2);
  EXPECT_EQ(reader.header().world_size, 4);
  ASSERT_NE(reader.header().Find("embedding"), nullptr);
  EXPECT_EQ(reader.header().Find("embedding")->slice, (Slice{{8, 3}, {4, 0}, {2, 3}}));
  double back = 0;
  EXPECT_OK(reader.ReadTensor(*reader.header().Find("lr"), &back));
  EXPECT_EQ(back, scalar);
  EXPECT_EQ(reader.header().Find("lw"), nullptr);
}

TEST_F(ContainerTest, SaysWhyALaterVersionCannotBeRead) {
  const SampleState state = SampleState::Of(1);
  ASSERT_OK(WriteContainer(RealIo(), Path(), 0, 1, 1, state.Views()).status());
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(Path()));
  bytes[8] = 3;
  const uint64_t digest = Xxh3Short(bytes.data(), 56);
  std::memcpy(bytes.data() + 56, &digest, 8);
  ASSERT_OK(WriteFileAtomically(Path(), bytes));
  EXPECT_THAT(ContainerReader::Open(RealIo(), Path()).status(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("version 3")));
}

// Digests stop accidents; here they are made to match, so that the checks behind them must hold alone. Nothing may crash or over-read.
TEST_F(ContainerTest, SurvivesHostileHeadersWithMatchingDigests) {
  const SampleState state = SampleState::Of(1);
  ASSERT_OK_AND_ASSIGN(ContainerHeader header, LayOut(0, 1, 5, state.Views(), 4096));
  const std::string good = EncodeHeaderRegion(header);
  ASSERT_OK(DecodeHeaderRegion(good, header.file_bytes).status());
  uint64_t body_bytes = 0;
  std::memcpy(&body_bytes, good.data() + 16, 8);
  Rng rng(7);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bad = good;
    for (int flips = 1 + static_cast<int>(rng.Below(3)); flips > 0; --flips) {
      // Mostly whole fields of the preamble's sizes and the body, at their edges.
      const size_t at = rng.Chance(0.2) ? 16 + rng.Below(24) : 64 + rng.Below(body_bytes);
      bad[at] = static_cast<char>(rng.Chance(0.5) ? (rng.Chance(0.5) ? 0xff : 0x7f) : rng.Below(256));
    }
    const ChunkDigest body = Xxh3Of(bad.data() + 64, body_bytes);
    std::memcpy(bad.data() + 40, body.data(), 16);
    const uint64_t preamble = Xxh3Short(bad.data(), 56);
    std::memcpy(bad.data() + 56, &preamble, 8);
    refused += !DecodeHeaderRegion(bad, header.file_bytes).ok();
  }
  EXPECT_GT(refused, 1000);  // the rest changed a digest, a name or a dtype of the same width
}

TEST_F(ContainerTest, SurvivesGarbage) {
  Rng rng(11);
  for (int round = 0; round < 500; ++round) {
    std::string garbage(rng.Below(10'000), '\0');
    for (char& c : garbage) c = static_cast<char>(rng.Below(256));
    if (rng.Chance(0.5) && garbage.size() > 8) garbage.replace(0, 8, "SPWYCKPT");
    ASSERT_OK(WriteFileAtomically(Path(), garbage));
    EXPECT_TRUE(absl::IsDataLoss(ContainerReader::Open(RealIo(), Path()).status()));
  }
}

}  // namespace
}  // namespace spillway::checkpoint
