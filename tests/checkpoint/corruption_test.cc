// A thousand random injuries to the newest checkpoint, plain and encrypted: each is detected, without a key too, and the restore is bit for
// bit the newest or the one before it.
#include <map>

#include "absl/strings/str_cat.h"
#include "tests/checkpoint/ranks.h"

namespace spillway::checkpoint {
namespace {

class CorruptionTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    // Of two processes, so that there are containers to take for each other.
    const std::vector<int> saved = RunTwoInTurns([&](int rank, Turns* turns) {
      WriterOptions options = JointOptions(attempt_, rank, turns);
      if (encrypted()) options.key = key_;
      auto writer = Writer::Open(options);
      if (!writer.ok()) return 1;
      for (int64_t step : {10, 20}) {
        if (!writer->Save(step, HalfOf(StateOf(step), rank)).ok()) return 2;
      }
      return 0;
    });
    ASSERT_EQ(saved, (std::vector<int>{0, 0}));
    newest_ = StepDirectory(attempt_, 20);
    if (encrypted()) names_.push_back("KEY");
    for (const std::string& name : names_) {
      ASSERT_OK_AND_ASSIGN(pristine_[name], ReadFile(newest_ + "/" + name));
    }
  }

  bool encrypted() const { return GetParam(); }

  std::vector<std::string> names_ = {"MANIFEST", "rank-00000.bin", "rank-00001.bin"};
  const SecretKey key_ = KeyOf('c');

  // `earlier` is the same file of the step before, `other` another file of this step.
  std::string Injured(std::string bytes, const std::string& earlier, const std::string& other) {
    auto place = [&] { return rng_.Below(bytes.size()); };
    switch (rng_.Below(11)) {
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
      case 6: bytes = other; break;    // or of another process
      case 7: {                        // spliced: the beginning of one, the rest of the other
        const size_t cut = std::min(place(), earlier.size());
        bytes = bytes.substr(0, cut) + earlier.substr(cut);
        break;
      }
      case 8: bytes = bytes.substr(0, place()) + bytes; break;  // something in front
      case 9: {                                                 // two stretches that changed places
        const size_t length = std::min<size_t>(1 + rng_.Below(4096), bytes.size() / 2);
        const size_t a = rng_.Below(bytes.size() - 2 * length + 1), b = a + length + rng_.Below(bytes.size() - a - 2 * length + 1);
        for (size_t i = 0; i < length; ++i) std::swap(bytes[a + i], bytes[b + i]);
        break;
      }
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

TEST_P(CorruptionTest, AThousandInjuriesAreDetectedAndOvercome) {
  int done = 0, fell_back = 0;
  while (done < 1000) {
    const std::string name = names_[rng_.Chance(0.4) ? 0 : 1 + rng_.Below(names_.size() - 1)];
    const std::string& other = pristine_[names_[name == names_[1] ? 2 : 1]];
    ASSERT_OK_AND_ASSIGN(const std::string earlier, ReadFile(absl::StrCat(StepDirectory(attempt_, 10), "/", name)));
    const bool removed = rng_.Chance(0.05);
    const std::string bad = Injured(pristine_[name], earlier, other);
    if (!removed && bad == pristine_[name]) continue;  // zeros over zeros, equal stretches
    ASSERT_OK(removed ? RemoveTree(newest_ + "/" + name) : WriteFileAtomically(newest_ + "/" + name, bad));
    ++done;

    EXPECT_FALSE(Verify(newest_, VerifyLevel::kFull).ok()) << name;
    ASSERT_OK_AND_ASSIGN(const ScanResult scan, ScanAttempt(attempt_, {.newest_only = true}));
    ASSERT_EQ(scan.committed.size(), 1u);
    EXPECT_EQ(scan.committed[0].step, 10);
    ASSERT_EQ(scan.bad.size(), 1u);
    EXPECT_EQ(scan.bad[0].path, newest_);
    SampleState state;
    ASSERT_OK_AND_ASSIGN(const Restored restored, RestoreNewest(newest_, state.Targets(), "", RealIo(), encrypted() ? &key_ : nullptr));
    EXPECT_EQ(state, StateOf(restored.checkpoint.step)) << name;
    EXPECT_EQ(restored.skipped.size(), restored.checkpoint.step == 10 ? 1u : 0u);
    fell_back += restored.checkpoint.step == 10;  // otherwise only padding was hit, which holds nothing
    ASSERT_OK(WriteFileAtomically(newest_ + "/" + name, pristine_[name]));
  }
  EXPECT_GT(fell_back, 700);
  EXPECT_OK(Verify(newest_, VerifyLevel::kFull).status());
}

INSTANTIATE_TEST_SUITE_P(, CorruptionTest, ::testing::Bool(), [](const auto& info) { return info.param ? "Encrypted" : "Plain"; });

}  // namespace
}  // namespace spillway::checkpoint
