#include <sys/stat.h>

#include "checkpoint/checkpoint.h"
#include "tests/checkpoint/forwarding_io.h"
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
  EXPECT_EQ(names, (std::vector<std::string>{"ATTEMPT", "LATEST", "step-000000000120"}));
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
  EXPECT_EQ(names, (std::vector<std::string>{"ATTEMPT"}));
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
  class LossyDisk final : public ForwardingIo {
   public:
    absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
      auto file = RealIo()->Create(path);
      if (!file.ok()) return file.status();
      return std::make_unique<LossyFile>(*std::move(file));
    }
  } disk;
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(OptionsFor(Attempt(), 1, &disk)));
  EXPECT_TRUE(absl::IsDataLoss(writer.Save(1, SampleState::Of(1).Views()).status()));
  ASSERT_OK_AND_ASSIGN(const ScanResult scan, ScanAttempt(Attempt()));
  EXPECT_TRUE(scan.committed.empty());
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
