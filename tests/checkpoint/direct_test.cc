// What passes by the page cache: a disk that takes nothing but whole blocks at aligned places in memory gets nothing else of what is large, and the
// bytes are the same as without; a disk that gives back something else than was written is found while the checkpoint is being saved.
#include <atomic>
#include <cstring>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "tests/checkpoint/forwarding_io.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

constexpr int64_t kBlock = 4096;

// The real file system, which says what it was asked for past the page cache, and can lie.
class BlockIo final : public ForwardingIo {
 public:
  explicit BlockIo(int64_t alignment) : alignment_(alignment) {}
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override { return Wrap(RealIo()->Create(path)); }
  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override { return Wrap(RealIo()->Open(path)); }

  std::atomic<int64_t> direct = 0, misfits = 0;
  std::atomic<int64_t> bad_offset = -1;  // the byte there comes back flipped

 private:
  class BlockFile final : public File {
   public:
    BlockFile(BlockIo* io, std::unique_ptr<File> file) : io_(io), file_(std::move(file)) {}
    int64_t PreferDirect() override {
      if (io_->alignment_ > 1) file_->PreferDirect();
      prefers_ = true;
      return io_->alignment_;
    }
    absl::Status WriteAt(const void* data, size_t bytes, int64_t offset) override {
      Count(data, bytes, offset);
      return file_->WriteAt(data, bytes, offset);
    }
    absl::Status ReadAt(void* data, size_t bytes, int64_t offset) override {
      Count(data, bytes, offset);
      RETURN_IF_ERROR(file_->ReadAt(data, bytes, offset));
      const int64_t bad = io_->bad_offset - offset;
      if (bad >= 0 && bad < static_cast<int64_t>(bytes)) static_cast<char*>(data)[bad] ^= 1;
      return absl::OkStatus();
    }
    absl::Status Allocate(int64_t bytes) override { return file_->Allocate(bytes); }
    absl::Status Sync() override { return file_->Sync(); }
    absl::StatusOr<int64_t> Bytes() override { return file_->Bytes(); }

   private:
    void Count(const void* data, size_t bytes, int64_t offset) {
      if (!prefers_ || offset == 0) return;  // the header is small
      ++io_->direct;
      if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(io_->alignment_) != 0 || bytes % kBlock != 0 || offset % kBlock != 0) ++io_->misfits;
    }
    BlockIo* const io_;
    const std::unique_ptr<File> file_;
    bool prefers_ = false;
  };
  absl::StatusOr<std::unique_ptr<File>> Wrap(absl::StatusOr<std::unique_ptr<File>> file) {
    if (!file.ok()) return file.status();
    return std::make_unique<BlockFile>(this, *std::move(file));
  }

  const int64_t alignment_;
};

// Tensors of 20 MiB together that begin and end anywhere.
struct LargeState {
  std::vector<uint8_t> memory = std::vector<uint8_t>((24 << 20) + kBlock, 1);
  struct Place {
    const char* name;
    size_t offset, bytes;
  };
  static constexpr Place kPlaces[] = {{"a", 1, 9'000'001}, {"empty", 5, 0}, {"b", 9'500'033, 11}, {"c", 10 << 20, 9 << 20}, {"d", 20'000'063, 3 << 20}};

  // At a page, so that "c" is where a disk could put it by itself.
  uint8_t* base() { return reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory.data()) + kBlock - 1) / kBlock * kBlock); }
  const uint8_t* base() const { return const_cast<LargeState*>(this)->base(); }

  static LargeState Filled() {
    LargeState state;
    Rng rng(7);
    for (uint8_t& byte : state.memory) byte = static_cast<uint8_t>(rng.Next());
    return state;
  }
  std::vector<TensorView> Views() const {
    std::vector<TensorView> views;
    for (const Place& p : kPlaces) views.push_back({p.name, DType::kU8, {static_cast<int64_t>(p.bytes)}, base() + p.offset, static_cast<int64_t>(p.bytes)});
    return views;
  }
  std::vector<TensorTarget> Targets() {
    std::vector<TensorTarget> targets;
    for (const Place& p : kPlaces) targets.push_back({p.name, DType::kU8, {static_cast<int64_t>(p.bytes)}, base() + p.offset, static_cast<int64_t>(p.bytes)});
    return targets;
  }
  bool SameTensors(const LargeState& other) const {
    return std::all_of(std::begin(kPlaces), std::end(kPlaces),
                       [&](const Place& p) { return std::memcmp(base() + p.offset, other.base() + p.offset, p.bytes) == 0; });
  }
};

class DirectTest : public ::testing::TestWithParam<bool> {
 protected:
  DirectTest() {
    if (GetParam()) key_ = KeyOf('k');
  }
  const SecretKey* key() const { return key_ ? &*key_ : nullptr; }
  absl::StatusOr<CommittedCheckpoint> Save(Io* io, const std::string& name, int64_t step = 1) {
    WriterOptions options = OptionsFor(folder_.path() + "/" + name, 1, io);
    options.chunk_bytes = kChunkBytesDefault;
    options.key = key_;
    ASSIGN_OR_RETURN(Writer writer, Writer::Open(options));
    return writer.Save(step, state_.Views());
  }
  absl::Status RestoreInto(LargeState* into, const std::string& path, Io* io) { return Restore(path, into->Targets(), io, key()).status(); }

  TemporaryFolder folder_;
  std::optional<SecretKey> key_;
  const LargeState state_ = LargeState::Filled();
};

TEST_P(DirectTest, ADiskThatTakesWholeBlocksGetsNothingElse) {
  BlockIo blocks(kBlock), plain(1);
  ASSERT_OK_AND_ASSIGN(const CommittedCheckpoint direct, Save(&blocks, "direct"));
  EXPECT_GE(blocks.direct, 2 * 20) << "each chunk written and read back";
  EXPECT_EQ(blocks.misfits, 0);
  ASSERT_OK_AND_ASSIGN(const CommittedCheckpoint other, Save(&plain, "plain"));
  if (!key_) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadFile(direct.path + "/" + RankFileName(0)));
    ASSERT_OK_AND_ASSIGN(const std::string others, ReadFile(other.path + "/" + RankFileName(0)));
    EXPECT_TRUE(others == bytes);
  }
  for (const std::string& path : {direct.path, other.path}) {
    for (Io* io : std::initializer_list<Io*>{&blocks, &plain, RealIo()}) {
      LargeState back;
      EXPECT_OK(RestoreInto(&back, path, io));
      EXPECT_TRUE(back.SameTensors(state_));
      EXPECT_OK(Verify(path, VerifyLevel::kFull, "", io, key()).status());
    }
  }
  EXPECT_EQ(blocks.misfits, 0);
}

TEST_P(DirectTest, AlignedMemoryIsFilledInPlaceAndNothingBesideIt) {
  ASSERT_OK_AND_ASSIGN(const CommittedCheckpoint saved, Save(RealIo(), "a"));
  LargeState back;
  ASSERT_OK(RestoreInto(&back, saved.path, RealIo()));
  std::vector<bool> inside(24 << 20);
  for (const LargeState::Place& p : LargeState::kPlaces) std::fill_n(inside.begin() + static_cast<int64_t>(p.offset), p.bytes, true);
  for (size_t i = 0; i < inside.size(); ++i) ASSERT_TRUE(inside[i] || back.base()[i] == 1) << i;
}

TEST_P(DirectTest, ADiskThatGivesBackSomethingElseIsFoundWhileSaving) {
  for (int64_t bad : {int64_t{4096}, int64_t{9'000'000}, int64_t{9'011'000}}) {  // the first byte, some byte, padding
    BlockIo io(kBlock);
    io.bad_offset = bad;
    const auto saved = Save(&io, "bad");
    EXPECT_TRUE(absl::IsDataLoss(saved.status())) << saved.status();
    EXPECT_TRUE(absl::StrContains(saved.status().message(), "something else than was written")) << saved.status();
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<StepEntry> steps, ListCommitted(folder_.path() + "/bad"));
  EXPECT_TRUE(steps.empty());
  EXPECT_EQ(Drafts(folder_.path() + "/bad"), 0);
}

INSTANTIATE_TEST_SUITE_P(PlainAndEncrypted, DirectTest, ::testing::Bool());

}  // namespace
}  // namespace spillway::checkpoint
