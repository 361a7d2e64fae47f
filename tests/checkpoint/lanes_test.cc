// Pieces of work shared out among threads: each once, none after an error, a buffer for each lane.
#include "checkpoint/lanes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_matchers.h"

namespace spillway::checkpoint {
namespace {

TEST(LanesTest, EveryPieceIsDoneOnceAndNoLaneDoesTwoAtATime) {
  const Lanes lanes(1000, 4096);
  EXPECT_EQ(lanes.count(), kLanesMax);
  std::vector<std::atomic<int>> done(1000), busy(kLanesMax);
  std::atomic<int64_t> begun = 0;
  EXPECT_OK(lanes.Run([&](int lane, int64_t piece) {
    ++begun;
    EXPECT_EQ(busy[static_cast<size_t>(lane)].fetch_add(1), 0);
    std::memset(lanes.buffer(lane), lane, 4096);
    ++done[static_cast<size_t>(piece)];
    for (int i = 0; i < 4096; ++i) EXPECT_EQ(lanes.buffer(lane)[i], lane);
    --busy[static_cast<size_t>(lane)];
    return absl::OkStatus();
  }));
  EXPECT_EQ(begun, 1000);
  for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
}

TEST(LanesTest, NoMoreLanesThanPiecesAndMemoryForTheirBuffers) {
  EXPECT_EQ(Lanes(0, 1 << 20).count(), 1);
  EXPECT_EQ(Lanes(3, 1 << 20).count(), 3);
  EXPECT_EQ(Lanes(100, 1 << 20).count(), kLanesMax);
  EXPECT_EQ(Lanes(100, 32 << 20).count(), 2);
  EXPECT_EQ(Lanes(100, 128 << 20).count(), 1);
  EXPECT_OK(Lanes(0, 4096).Run([](int, int64_t) { return absl::InternalError("there is nothing to do"); }));
}

TEST(LanesTest, BuffersBeginAtAPageAndDoNotOverlap) {
  const Lanes lanes(8, 5000);
  for (int lane = 0; lane < lanes.count(); ++lane) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(lanes.buffer(lane)) % 4096, 0u);
    EXPECT_GE(lanes.buffer(lane) - lanes.buffer(0), lane * 5000);
  }
}

TEST(LanesTest, AfterAnErrorNothingBegins) {
  Mutex mutex;
  std::set<int64_t> begun;
  const absl::Status status = Lanes(1000, 4096).Run([&](int, int64_t piece) {
    MutexLock lock(&mutex);
    begun.insert(piece);
    return piece < 10 ? absl::OkStatus() : absl::DataLossError(absl::StrCat("piece ", piece));
  });
  // Whoever came to the disk first: of the pieces that failed the first is told.
  EXPECT_EQ(status, absl::DataLossError("piece 10"));
  EXPECT_LE(begun.size(), 10u + kLanesMax);
  EXPECT_EQ(*begun.rbegin(), static_cast<int64_t>(begun.size()) - 1) << "begun in their order";
}

}  // namespace
}  // namespace spillway::checkpoint
