// The checkpoints in tests/checkpoint/golden were written once, by version 0.1.0: a3 plain, a4 encrypted. They must be readable for ever, and as
// long as the format's version is 1 the same content gives the same bytes. format_test.py reads both by the document alone.
#include <stdlib.h>

#include "absl/strings/str_cat.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

struct GoldenState {
  std::vector<float> weights = std::vector<float>(12);
  std::vector<int16_t> big = std::vector<int16_t>(3000);
  std::vector<uint64_t> rng = {0x0123456789abcdef, 0xfedcba9876543210};
  double lr = 0.001;
  uint8_t nothing = 0;

  static GoldenState Filled() {
    GoldenState state;
    for (size_t i = 0; i < state.weights.size(); ++i) state.weights[i] = static_cast<float>(i) * 0.5f - 1.0f;
    for (size_t i = 0; i < state.big.size(); ++i) state.big[i] = static_cast<int16_t>(i * 7 - 9000);
    return state;
  }
  // Rank 0 has three rows of the weights, rank 1 one; both have the learning rate.
  std::vector<TensorView> Of(int rank) const {
    const TensorView lr_view{"lr", DType::kF64, {}, &lr, 8};
    if (rank == 0) {
      return {{"model/weights", DType::kF32, {3, 3}, weights.data(), 36, Slice{{4, 3}, {0, 0}, {3, 3}}},
              lr_view,
              {"model/big", DType::kI16, {3000}, big.data(), 6000}};
    }
    return {lr_view,
            {"model/weights", DType::kF32, {1, 3}, weights.data() + 9, 12, Slice{{4, 3}, {3, 0}, {1, 3}}},
            {"state/rng", DType::kU64, {2}, rng.data(), 16},
            {"state/nothing", DType::kU8, {0}, &nothing, 0}};
  }
};

std::string Golden(const std::string& step) {
  const char* source = getenv("SPILLWAY_SOURCE");
  return absl::StrCat(source == nullptr ? "." : source, "/tests/checkpoint/golden/", kCluster, "/5/0/", step);
}

std::string GoldenStep() { return Golden("a3/step-000000000120"); }
std::string GoldenEncryptedStep() { return Golden("a4/step-000000000160"); }

SecretKey GoldenKey() {
  SecretKey key;
  for (size_t i = 0; i < SecretKey::kBytes; ++i) key.data()[i] = static_cast<uint8_t>(i);
  return key;
}

void ExpectReadable(const std::string& step, const SecretKey* key, const CheckpointRef& parent) {
  ASSERT_OK(Verify(step, VerifyLevel::kFull, "uid-5").status());
  ASSERT_OK(Verify(step, VerifyLevel::kFull, "uid-5", RealIo(), key).status());
  GoldenState state;
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, Restore(step,
                                                        {{"model/weights", DType::kF32, {4, 3}, state.weights.data(), 48},
                                                         {"model/big", DType::kI16, {3000}, state.big.data(), 6000},
                                                         {"state/rng", DType::kU64, {2}, state.rng.data(), 16},
                                                         {"lr", DType::kF64, {}, &state.lr, 8}},
                                                        RealIo(), key));
  const GoldenState expected = GoldenState::Filled();
  EXPECT_EQ(state.weights, expected.weights);
  EXPECT_EQ(state.big, expected.big);
  EXPECT_EQ(state.rng, expected.rng);
  EXPECT_EQ(state.lr, expected.lr);
  EXPECT_EQ(manifest.parent, parent);
  EXPECT_EQ(manifest.metadata, (Metadata{{"loss", "0.5"}, {"note", "gr\xc3\xbc\xc3\x9f"}}));
}

TEST(Golden, IsReadable) { ExpectReadable(GoldenStep(), nullptr, {2, 80}); }

TEST(Golden, TheEncryptedOneIsReadable) {
  const SecretKey key = GoldenKey();
  ExpectReadable(GoldenEncryptedStep(), &key, {3, 120});
}

TEST(Golden, TheSameContentGivesTheSameBytes) {
  TemporaryFolder folder;
  const GoldenState state = GoldenState::Filled();
  Manifest manifest{.job_uid = "uid-5", .attempt = 3, .step = 120, .parent = CheckpointRef{2, 80}, .world_size = 2};
  manifest.library_version = "0.1.0";
  manifest.created = "2026-12-24T08:00:00Z";
  manifest.metadata = {{"loss", "0.5"}, {"note", "gr\xc3\xbc\xc3\x9f"}};
  for (int rank = 0; rank < 2; ++rank) {
    const std::string name = RankFileName(rank);
    ASSERT_OK_AND_ASSIGN(const ContainerFile file, WriteContainer(RealIo(), folder.path() + "/" + name, rank, 2, 120, state.Of(rank), 4096));
    manifest.files.push_back({name, file.bytes, file.header_sha256});
    ASSERT_OK_AND_ASSIGN(const std::string now, ReadFile(folder.path() + "/" + name));
    ASSERT_OK_AND_ASSIGN(const std::string then, ReadFile(GoldenStep() + "/" + name));
    EXPECT_TRUE(now == then) << name;
  }
  ASSERT_OK_AND_ASSIGN(const EncodedManifest encoded, EncodeManifest(manifest));
  ASSERT_OK_AND_ASSIGN(const std::string then, ReadFile(GoldenStep() + "/MANIFEST"));
  EXPECT_EQ(encoded.text, then);
}

}  // namespace
}  // namespace spillway::checkpoint
