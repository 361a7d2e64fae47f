// Saves that go on beside the training: what was there when Save returned is what is committed, whatever the training does meanwhile.
#include "checkpoint/background.h"

#include <latch>

#include "tests/checkpoint/fault_io.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

constexpr int64_t kOneCopy = 2 << 20;  // a huge page, which a sample fits in

class BackgroundTest : public ::testing::Test {
 protected:
  std::string Directory() const { return folder_.path() + "/run"; }
  std::unique_ptr<BackgroundWriter> Open(int64_t memory_bytes_max = INT64_MAX, Io* io = RealIo()) {
    auto opened = BackgroundWriter::Open(OptionsFor(Directory(), 1, io), memory_bytes_max);
    EXPECT_OK(opened);
    return *std::move(opened);
  }
  // How many calls to the file system opening a writer takes: the next one is a save's.
  int64_t CallsToOpen() {
    FaultIo io;
    EXPECT_OK(Writer::Open(OptionsFor(folder_.path() + "/other", 1, &io)));
    return io.calls();
  }
  void ExpectCommitted(const BackgroundWriter::Ended& ended, int64_t step) {
    EXPECT_EQ(ended.step, step);
    ASSERT_OK(ended.saved);
    EXPECT_EQ(ended.saved->step, step);
    SampleState back;
    EXPECT_OK(Restore(ended.saved->path, back.Targets()));
    EXPECT_EQ(back, StateOf(step));
  }

  TemporaryFolder folder_;
};

TEST_F(BackgroundTest, WhatWasThereWhenSaveReturnedIsCommitted) {
  std::latch gate(1);
  FaultIo io(FaultIo::Fault::kHook, CallsToOpen() + 1);
  io.set_hook([&] { gate.wait(); });
  const auto saver = Open(INT64_MAX, &io);
  SampleState state = StateOf(1);
  ASSERT_OK(saver->Save(1, state.Views()));
  state = StateOf(2);  // before a byte of the first is written
  ASSERT_OK(saver->Save(2, state.Views(), {{"loss", "0.5"}}));
  state = StateOf(3);
  EXPECT_TRUE(saver->busy());
  EXPECT_TRUE(saver->Collect().empty());
  gate.count_down();
  const auto ended = saver->Drain();
  ASSERT_EQ(ended.size(), 2u);
  ExpectCommitted(ended[0], 1);
  ExpectCommitted(ended[1], 2);
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, ReadManifest(ended[1].saved->path));
  EXPECT_EQ(manifest.metadata.at("loss"), "0.5");
  EXPECT_FALSE(saver->busy());
  EXPECT_TRUE(saver->Drain().empty()) << "each is told once";
}

TEST_F(BackgroundTest, SaveWaitsWhereMemoryForAnotherCopyWouldBeTooMuch) {
  const auto saver = Open(2 * kOneCopy - 1);
  ASSERT_OK(saver->Save(1, StateOf(1).Views()));
  ASSERT_OK(saver->Save(2, StateOf(2).Views()));
  const auto first = saver->Collect();
  ASSERT_GE(first.size(), 1u) << "there was one copy, so the first had to be written";
  ExpectCommitted(first[0], 1);
  for (int64_t step = 3; step < 8; ++step) ASSERT_OK(saver->Save(step, StateOf(step).Views()));
  saver->Drain();
  SampleState back;
  ASSERT_OK_AND_ASSIGN(const Restored newest, RestoreNewest(Directory(), back.Targets()));
  EXPECT_EQ(newest.checkpoint.step, 7);
  EXPECT_EQ(back, StateOf(7));
}

TEST_F(BackgroundTest, WithoutMemoryForACopyItIsWrittenInPlaceInItsTurn) {
  const auto saver = Open(kOneCopy);
  std::vector<uint8_t> large(kOneCopy + 1, 5);
  ASSERT_OK(saver->Save(1, StateOf(1).Views()));
  ASSERT_OK(saver->Save(2, {{"large", DType::kU8, {kOneCopy + 1}, large.data(), kOneCopy + 1}}));
  EXPECT_FALSE(saver->busy());
  const auto ended = saver->Collect();
  ASSERT_EQ(ended.size(), 2u);
  ExpectCommitted(ended[0], 1);
  ASSERT_OK(ended[1].saved);
  std::vector<uint8_t> back(large.size());
  EXPECT_OK(Restore(ended[1].saved->path, {{"large", DType::kU8, {kOneCopy + 1}, back.data(), kOneCopy + 1}}));
  EXPECT_EQ(back, large);
}

TEST_F(BackgroundTest, ASaveThatFailsIsToldInItsTurnAndTheNextOneWorks) {
  FaultIo io(FaultIo::Fault::kErrorOnce, CallsToOpen() + 5);
  const auto saver = Open(INT64_MAX, &io);
  ASSERT_OK(saver->Save(1, StateOf(1).Views()));
  ASSERT_OK(saver->Save(2, StateOf(2).Views()));
  const auto ended = saver->Drain();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0].step, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(ended[0].saved.status())) << ended[0].saved.status();
  ExpectCommitted(ended[1], 2);
}

TEST_F(BackgroundTest, TensorsThatAreNotWhatTheySayAreRefusedAtOnce) {
  const auto saver = Open();
  const float value = 1;
  EXPECT_TRUE(absl::IsInvalidArgument(saver->Save(1, {{"w", DType::kF32, {2}, &value, 4}})));
  EXPECT_TRUE(saver->Drain().empty());
  ASSERT_OK(saver->Save(1, StateOf(1).Views()));
  ExpectCommitted(saver->Drain().at(0), 1);
}

TEST_F(BackgroundTest, TheEndOfItWritesWhatWasAskedFor) {
  Open()->Save(1, StateOf(1).Views()).IgnoreError();
  SampleState back;
  ASSERT_OK(RestoreNewest(Directory(), back.Targets()));
  EXPECT_EQ(back, StateOf(1));
}

}  // namespace
}  // namespace spillway::checkpoint
