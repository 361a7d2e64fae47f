#include <sys/stat.h>

#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

class WriterTest : public ::testing::Test {
 protected:
  std::string Attempt(int64_t n = 1) { return *AttemptDirectory(folder_.path(), kCluster, {5, 0, n}); }
  TemporaryFolder folder_;
};

TEST_F(WriterTest, SaysWhatItCommitted) {
  ManualClock clock(1'798'099'200'000);
  WriterOptions options = OptionsFor(Attempt(3), 3);
  options.clock = &clock;
  options.parent = CheckpointRef{2, 80};
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(options));
  ASSERT_OK_AND_ASSIGN(const CommittedCheckpoint saved, writer.Save(120, SampleState::Of(1).Views(), {{"lr", "0.1"}}));
  EXPECT_EQ(saved.path, Attempt(3) + "/step-000000000120");
  EXPECT_EQ(saved.ref(), (CheckpointRef{3, 120}));
  std::string sha256;
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, ReadManifest(saved.path, &sha256));
  EXPECT_EQ(saved.manifest_sha256, sha256);
  EXPECT_EQ(saved.bytes, manifest.Bytes());
  EXPECT_EQ(manifest.job_uid, "job-uid-1");
  EXPECT_EQ(manifest.parent, (CheckpointRef{2, 80}));
  EXPECT_EQ(manifest.created, "2026-12-24T08:00:00Z");
  EXPECT_EQ(manifest.metadata, (Metadata{{"lr", "0.1"}}));
  ASSERT_OK_AND_ASSIGN(const std::string latest, ReadFile(Attempt(3) + "/LATEST"));
  EXPECT_EQ(latest, "step-000000000120\n");
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListDirectory(Attempt(3)));
  EXPECT_EQ(names, (std::vector<std::string>{"LATEST", "step-000000000120"}));
}

TEST_F(WriterTest, NeverReplacesAGoodCheckpoint) {
  MustSave(Attempt(), 10);
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Attempt())));
  EXPECT_THAT(writer.Save(10, SampleState::Of(99).Views()), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("committed already")));
  SampleState state;
  ASSERT_OK(Restore(Attempt() + "/step-000000000010", state.Targets()).status());
  EXPECT_EQ(state, StateOf(10));
}

TEST_F(WriterTest, PutsADamagedCheckpointAsideAndKeepsIt) {
  const CommittedCheckpoint saved = MustSave(Attempt(), 10);
  ASSERT_OK(WriteFileAtomically(saved.path + "/MANIFEST", "damaged"));
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Attempt())));
  ASSERT_OK(writer.Save(10, StateOf(10).Views()).status());
  SampleState state;
  ASSERT_OK(Restore(saved.path, state.Targets()).status());
  EXPECT_EQ(state, StateOf(10));
  ASSERT_OK_AND_ASSIGN(const std::string aside, ReadFile(Attempt() + "/.damaged-step-000000000010.1/MANIFEST"));
  EXPECT_EQ(aside, "damaged");
}

TEST_F(WriterTest, RefusesBadInputWithoutATrace) {
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Attempt())));
  const float x = 0;
  EXPECT_FALSE(writer.Save(1, {{"w", DType::kF32, {2}, &x, 4}}).ok());
  EXPECT_FALSE(writer.Save(-1, {}).ok());
  EXPECT_FALSE(writer.Save(1, {}, {{"bad", "\xff"}}).ok());
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListDirectory(Attempt()));
  EXPECT_TRUE(names.empty());
}

TEST_F(WriterTest, NoticesWhenTheDiskDoesNotGiveBackWhatItTook) {
  // A disk that loses one byte of the container between the write and the reading back.
  class LossyFile final : public File {
   public:
    explicit LossyFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
    absl::Status WriteAt(const void* data, size_t bytes, int64_t offset) override {
      std::string copy(static_cast<const char*>(data), bytes);
      if (offset == 8192 && bytes > 100) copy[100] = static_cast<char>(copy[100] ^ 4);
      return file_->WriteAt(copy.data(), bytes, offset);
    }
    absl::Status ReadAt(void* data, size_t bytes, int64_t offset) override { return file_->ReadAt(data, bytes, offset); }
    absl::Status Allocate(int64_t bytes) override { return file_->Allocate(bytes); }
    absl::Status Sync() override { return file_->Sync(); }
    absl::StatusOr<int64_t> Bytes() override { return file_->Bytes(); }

   private:
    std::unique_ptr<File> file_;
  };
  class LossyDisk final : public Io {
   public:
    absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
      auto file = RealIo()->Create(path);
      if (!file.ok()) return file.status();
      return std::make_unique<LossyFile>(*std::move(file));
    }
    absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path) override { return RealIo()->Open(path); }
    absl::Status MakeDirectory(const std::string& path) override { return RealIo()->MakeDirectory(path); }
    absl::Status SyncDirectory(const std::string& path) override { return RealIo()->SyncDirectory(path); }
    absl::Status RenameNoReplace(const std::string& from, const std::string& to) override { return RealIo()->RenameNoReplace(from, to); }
    absl::Status RenameReplace(const std::string& from, const std::string& to) override { return RealIo()->RenameReplace(from, to); }
    absl::Status RemoveTree(const std::string& path) override { return RealIo()->RemoveTree(path); }
    absl::StatusOr<std::vector<std::string>> List(const std::string& path) override { return RealIo()->List(path); }
    absl::StatusOr<bool> Exists(const std::string& path) override { return RealIo()->Exists(path); }
  } disk;
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Attempt(), 1, &disk)));
  EXPECT_TRUE(absl::IsDataLoss(writer.Save(1, SampleState::Of(1).Views()).status()));
  ASSERT_OK_AND_ASSIGN(const ScanResult scan, ScanAttempt(Attempt()));
  EXPECT_TRUE(scan.committed.empty());
}

// A 4 x 6 matrix and a replicated scalar: two processes save rows, any number load columns.
TEST_F(WriterTest, SeveralProcessesMakeOneCheckpointAndAnyNumberReadsIt) {
  std::vector<int32_t> all(24);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  const double lr = 0.25;
  std::vector<ManifestFile> files;
  std::vector<Writer> writers;
  for (int rank = 0; rank < 2; ++rank) {
    WriterOptions options = OptionsFor(Attempt());
    options.rank = rank;
    options.world_size = 2;
    ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(options));
    const Slice rows{{4, 6}, {2 * rank, 0}, {2, 6}};
    ASSERT_OK_AND_ASSIGN(ManifestFile file, writer.Stage(7, {{"m", DType::kI32, {2, 6}, all.data() + 12 * rank, 48, rows}, {"lr", DType::kF64, {}, &lr, 8}}));
    files.push_back(file);
    writers.push_back(std::move(writer));
  }
  ASSERT_OK_AND_ASSIGN(const std::vector<StepEntry> before, ListCommitted(Attempt()));
  EXPECT_TRUE(before.empty());
  EXPECT_THAT(writers[1].Commit(7, files), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("rank 0")));
  EXPECT_FALSE(writers[0].Commit(7, {files[1], files[0]}).ok());
  ASSERT_OK_AND_ASSIGN(const CommittedCheckpoint saved, writers[0].Commit(7, files));
  EXPECT_OK(Verify(saved.path, VerifyLevel::kFull).status());

  for (int readers : {1, 2, 3, 6}) {
    for (int reader = 0; reader < readers; ++reader) {
      const int64_t columns = 6 / readers, first = reader * columns;
      std::vector<int32_t> part(static_cast<size_t>(4 * columns), -1);
      double back = 0;
      ASSERT_OK(Restore(saved.path, {{"m", DType::kI32, {4, columns}, part.data(), 16 * columns, Slice{{4, 6}, {0, first}, {4, columns}}},
                                     {"lr", DType::kF64, {}, &back, 8}})
                    .status());
      EXPECT_EQ(back, lr);
      for (int64_t r = 0; r < 4; ++r) {
        for (int64_t c = 0; c < columns; ++c) EXPECT_EQ(part[static_cast<size_t>(r * columns + c)], r * 6 + first + c);
      }
    }
  }
}

TEST_F(WriterTest, AnAbandonedStepLeavesNothing) {
  WriterOptions options = OptionsFor(Attempt());
  options.world_size = 2;
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(options));
  ASSERT_OK(writer.Stage(7, SampleState::Of(1).Views()).status());
  ASSERT_OK(writer.Abandon(7));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListDirectory(Attempt()));
  EXPECT_TRUE(names.empty());
}

TEST_F(WriterTest, TakesItsOptionsFromTheEnvironment) {
  unsetenv("SPILLWAY_CHECKPOINT_DIR");
  EXPECT_THAT(WriterOptions::FromEnvironment().status(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("SPILLWAY_CHECKPOINT_DIR")));
  setenv("SPILLWAY_CHECKPOINT_DIR", Attempt(4).c_str(), 1);
  setenv("SPILLWAY_ATTEMPT", "4", 1);
  setenv("SPILLWAY_JOB_UID", "uid", 1);
  setenv("SPILLWAY_RESUME_FROM", (Attempt(2) + "/step-000000000080").c_str(), 1);
  const auto options = WriterOptions::FromEnvironment();
  for (const char* name : {"SPILLWAY_CHECKPOINT_DIR", "SPILLWAY_ATTEMPT", "SPILLWAY_JOB_UID", "SPILLWAY_RESUME_FROM"}) unsetenv(name);
  ASSERT_OK(options.status());
  EXPECT_EQ(options->directory, Attempt(4));
  EXPECT_EQ(options->attempt, 4);
  EXPECT_EQ(options->job_uid, "uid");
  EXPECT_EQ(options->parent, (CheckpointRef{2, 80}));
}

}  // namespace
}  // namespace spillway::checkpoint
