#include "sim/network.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway::sim {
namespace {

struct Ends : NodeEnd, SchedulerEnd {
  std::vector<int64_t> renewals, acks;
  std::string broken_at_node;
  int opened = 0, broken_at_scheduler = 0;

  void StreamOpened(StreamId) override { ++opened; }
  void StreamFrame(StreamId, const worker::WorkerFrame& frame) override { renewals.push_back(frame.renewal); }
  void StreamBroken(StreamId) override { ++broken_at_scheduler; }
  void StreamFrame(StreamId, const worker::SchedulerFrame& frame) override { acks.push_back(frame.renewal_ack); }
  void StreamBroken(StreamId, const std::string& why) override { broken_at_node = why; }
};

class NetworkTest : public ::testing::Test {
 protected:
  NetworkTest() {
    faults.latency_ms_max = 1'000;  // so that only the rule keeps frames in order
    network.Listen(&ends);
    stream = network.Dial("n", &ends);
  }
  void Up(int64_t renewal) {
    worker::WorkerFrame frame;
    frame.renewal = renewal;
    network.SendUp(stream, std::move(frame));
  }
  void Down(int64_t ack) {
    worker::SchedulerFrame frame;
    frame.renewal_ack = ack;
    network.SendDown(stream, std::move(frame));
  }
  void Pass(int64_t ms) { world.RunUntil(world.now_ms() + ms); }

  World world{3};
  Faults faults;
  Network network{&world, &faults};
  Ends ends;
  StreamId stream = 0;
};

TEST_F(NetworkTest, FramesOfAStreamKeepTheirOrder) {
  std::vector<int64_t> sent;
  for (int64_t i = 1; i <= 50; ++i) {
    Up(i);
    sent.push_back(i);
    Pass(10);
  }
  Pass(5'000);
  EXPECT_EQ(ends.opened, 1);
  EXPECT_EQ(ends.renewals, sent);
  for (const int64_t i : sent) Down(i);
  Pass(5'000);
  EXPECT_EQ(ends.acks, sent);
}

TEST_F(NetworkTest, ABrokenStreamLosesWhatIsInFlightAndBothEndsLearn) {
  Pass(2'000);
  Up(1);
  Down(2);
  network.BreakStreams("n");
  Pass(60'000);
  EXPECT_TRUE(ends.renewals.empty());
  EXPECT_TRUE(ends.acks.empty());
  EXPECT_EQ(ends.broken_at_node, "the stream broke");
  EXPECT_EQ(ends.broken_at_scheduler, 1);
  Up(3);
  Pass(2'000);
  EXPECT_TRUE(ends.renewals.empty());
}

TEST_F(NetworkTest, ACutDelaysOneWayUntilItIsMended) {
  Pass(2'000);
  network.Cut("n", false, true);
  Up(1);
  Down(2);
  Pass(5'000);
  EXPECT_EQ(ends.renewals, std::vector<int64_t>{1});
  EXPECT_TRUE(ends.acks.empty());
  network.Mend("n");
  Pass(2'000);
  EXPECT_EQ(ends.acks, std::vector<int64_t>{2});
  EXPECT_EQ(ends.broken_at_node, "");
}

TEST_F(NetworkTest, ALongCutBreaksTheStreamAtBothEnds) {
  Pass(2'000);
  network.Cut("n", true, false);
  Pass(100'000);
  EXPECT_EQ(ends.broken_at_node, "keepalive timed out");
  EXPECT_EQ(ends.broken_at_scheduler, 1);
}

TEST_F(NetworkTest, WhatWasSaidBeforeHangingUpArrives) {
  Pass(2'000);
  Up(1);
  network.CloseByNode(stream);
  Pass(5'000);
  EXPECT_EQ(ends.renewals, std::vector<int64_t>{1});
  EXPECT_EQ(ends.broken_at_scheduler, 1);
  EXPECT_EQ(ends.broken_at_node, "");
}

TEST_F(NetworkTest, NobodyListens) {
  Pass(2'000);
  network.Listen(nullptr);
  Pass(2'000);
  EXPECT_EQ(ends.broken_at_node, "the scheduler's process died");
  network.Dial("n", &ends);
  Pass(3'000);
  EXPECT_EQ(ends.broken_at_node, "connection refused");
  EXPECT_EQ(ends.opened, 1);
}

TEST_F(NetworkTest, APowerCutIsNoticedByKeepaliveOnly) {
  Pass(2'000);
  network.NodeDied(&ends, true);
  Pass(19'000);
  EXPECT_EQ(ends.broken_at_scheduler, 0);
  Pass(25'000);
  EXPECT_EQ(ends.broken_at_scheduler, 1);
}

TEST_F(NetworkTest, FramesComeTwiceWhenAsked) {
  faults.duplicated = 1.0;
  Pass(2'000);
  Up(1);
  Pass(3'000);
  EXPECT_EQ(ends.renewals, (std::vector<int64_t>{1, 1}));
}

}  // namespace
}  // namespace spillway::sim
