// A thousand random injuries to the newest checkpoint: each is detected, and the restore is bit for bit the newest or the one before it.
#include <map>

#include "absl/strings/str_cat.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

class CorruptionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int64_t step : {10, 20}) MustSave(attempt_, step);
    newest_ = StepDirectory(attempt_, 20);
    for (const char* name : {"MANIFEST", "rank-00000.bin"}) {
      ASSERT_OK_AND_ASSIGN(pristine_[name], ReadFile(newest_ + "/" + name));
    }
  }

  std::string Injured(std::string bytes, const std::string& earlier) {
    auto place = [&] { return rng_.Below(bytes.size()); };
    switch (rng_.Below(7)) {
      case 0: bytes[place()] ^= static_cast<char>(1u << rng_.Below(8)); break;                // a bit
      case 1: bytes.resize(place()); break;                                                   // cut short
      case 2: bytes.append(1 + rng_.Below(5000), static_cast<char>(rng_.Below(256))); break;  // grown
      case 3:
        for (size_t at = place(), n = 0; n < 64 && at < bytes.size(); ++at, ++n) bytes[at] = static_cast<char>(rng_.Below(256));
        break;
      case 4:
        std::fill_n(bytes.begin() + static_cast<int64_t>(place() / 4096 * 4096), std::min<size_t>(bytes.size() % 4096 + 1, 512), '\0');
        break;                         // a lost sector
      case 5: bytes = earlier; break;  // the file of another step
      default: bytes.clear(); break;
    }
    return bytes;
  }

  TemporaryFolder folder_;
  const std::string attempt_ = *AttemptDirectory(folder_.path(), kCluster, {5, 0, 1});
  std::string newest_;
  std::map<std::string, std::string> pristine_;
  Rng rng_{20240601};
};

TEST_F(CorruptionTest, AThousandInjuriesAreDetectedAndOvercome) {
  int done = 0, fell_back = 0;
  while (done < 1000) {
    const std::string name = rng_.Chance(0.5) ? "MANIFEST" : "rank-00000.bin";
    ASSERT_OK_AND_ASSIGN(const std::string earlier, ReadFile(absl::StrCat(StepDirectory(attempt_, 10), "/", name)));
    const bool removed = rng_.Chance(0.05);
    const std::string bad = Injured(pristine_[name], earlier);
    if (!removed && bad == pristine_[name]) continue;  // zeros over zeros
    ASSERT_OK(removed ? RemoveTree(newest_ + "/" + name) : WriteFileAtomically(newest_ + "/" + name, bad));
    ++done;

    EXPECT_FALSE(Verify(newest_, VerifyLevel::kFull).ok()) << name;
    ASSERT_OK_AND_ASSIGN(const ScanResult scan, ScanAttempt(attempt_, {.newest_only = true}));
    ASSERT_EQ(scan.committed.size(), 1u);
    EXPECT_EQ(scan.committed[0].step, 10);
    ASSERT_EQ(scan.bad.size(), 1u);
    EXPECT_EQ(scan.bad[0].path, newest_);
    SampleState state;
    ASSERT_OK_AND_ASSIGN(const Restored restored, RestoreNewest(newest_, state.Targets()));
    EXPECT_EQ(state, StateOf(restored.checkpoint.step)) << name;
    EXPECT_EQ(restored.skipped.size(), restored.checkpoint.step == 10 ? 1u : 0u);
    fell_back += restored.checkpoint.step == 10;  // otherwise only padding was hit, which holds nothing
    ASSERT_OK(WriteFileAtomically(newest_ + "/" + name, pristine_[name]));
  }
  EXPECT_GT(fell_back, 850);
  EXPECT_OK(Verify(newest_, VerifyLevel::kFull).status());
}

}  // namespace
}  // namespace spillway::checkpoint
