// Frames: every struct comes back as it went, hostile bytes are refused, packets join.
#include "worker/frames/frames.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "base/rng.h"
#include "base/status_matchers.h"
#include "worker/frames/packets.h"

namespace spillway::frames {
namespace {

Start FullStart() {
  Start start;
  start.attempt = {"c0ffee/5.17@3", {5, 17, 3}};
  start.argv = {"./train", "", "--lr", std::string(70'000, 'x')};
  start.env = {"A=1", "B=", "C=x=y"};
  start.cwd = "/tmp";
  start.log_path = "/tmp/log";
  start.socket_path = "/tmp/s";
  start.notice_path = "/tmp/n";
  start.stop_signal = 10;
  start.grace_ms = 0;
  start.max_duration_ms = 7;
  start.memory_bytes = int64_t{1} << 40;
  start.pids_max = 9;
  start.log_bytes_max = 11;
  start.lease_bound = false;
  start.rlimits = {{7, 1024, -1}};
  start.tag = std::string("\0\1\xff", 3);
  return start;
}

std::vector<ToSupervisor> Commands() {
  return {{0, Hello{3, "worker"}},
          {1, FullStart()},
          {0, Renew{123456, 600'000}},
          {2, Notice{99, Initiator::kProvider, "notice"}},
          {3, Stop{"k", EndCause::kPreempted, Initiator::kScheduler, "preempted", "by 7", 0, 55}},
          {4, Kill{"k", EndCause::kFenced, Initiator::kNode, "x"}},
          {5, List{}},
          {0, Ack{~uint64_t{0}}},
          {6, Shutdown{}}};
}

std::vector<FromSupervisor> Answers() {
  ExitFacts facts;
  facts.exited = true;
  facts.exit_code = -1;
  facts.stop_cause = EndCause::kTimeout;
  facts.stop_detail = "x";
  facts.lease_lapsed = true;
  facts.leftovers_killed = 4;
  Inventory inventory;
  inventory.boot_id = "b";
  inventory.items.resize(3);
  inventory.items[1] = {{"k", {1, 2, 3}}, AttemptState::kStopping, 77, 88, {5, 9, {{"loss", -1.5}}}, 2, EndCause::kMoved, 9, "/l", 10, "tag"};
  inventory.more = true;
  inventory.pids_limits = true;
  inventory.reaper_because = "no cgroups";
  const AttemptRef attempt{"c/1.0@1", {1, 0, 1}};
  return {inventory,
          Reply{8, 5, "no"},
          Event{1, attempt, 5, Started{4, 5, "/cg", true, false}},
          Event{2, attempt, 5, Progress{1, -1, {{"a", 0.1}, {"b", 1e300}}}},
          Event{3, attempt, 5, Checkpoint{7, "p", "{}"}},
          Event{4, attempt, 5, Stopping{EndCause::kBudget, Initiator::kScheduler, "budget", 9}},
          Event{5, attempt, 5, Exited{facts}}};
}

TEST(Frames, CommandsComeBack) {
  for (const ToSupervisor& command : Commands()) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes, Encode(command));
    ASSERT_OK_AND_ASSIGN(const ToSupervisor back, DecodeToSupervisor(bytes));
    EXPECT_EQ(back.request, command.request);
    EXPECT_EQ(back.what.index(), command.what.index());
    EXPECT_EQ(*Encode(back), bytes);
  }
  ASSERT_OK_AND_ASSIGN(const ToSupervisor back, DecodeToSupervisor(*Encode(ToSupervisor{1, FullStart()})));
  const auto& start = std::get<Start>(back.what);
  EXPECT_EQ(start.attempt, FullStart().attempt);
  EXPECT_EQ(start.argv, FullStart().argv);
  EXPECT_EQ(start.env, FullStart().env);
  EXPECT_EQ(start.grace_ms, 0);
  EXPECT_FALSE(start.lease_bound);
  EXPECT_EQ(start.rlimits.at(0).hard, -1);
  EXPECT_EQ(start.tag, FullStart().tag);
}

TEST(Frames, AnswersComeBack) {
  for (const FromSupervisor& answer : Answers()) {
    ASSERT_OK_AND_ASSIGN(const std::string bytes, Encode(answer));
    ASSERT_OK_AND_ASSIGN(const FromSupervisor back, DecodeFromSupervisor(bytes));
    EXPECT_EQ(back.index(), answer.index());
    EXPECT_EQ(*Encode(back), bytes);
  }
  const FromSupervisor answer = Answers()[3];
  ASSERT_OK_AND_ASSIGN(const FromSupervisor back, DecodeFromSupervisor(*Encode(answer)));
  EXPECT_EQ(std::get<Progress>(std::get<Event>(back).what).metrics, std::get<Progress>(std::get<Event>(answer).what).metrics);
}

TEST(Frames, UnknownFieldsAreSkippedAndOtherFormatsRefused) {
  std::string bytes = *Encode(ToSupervisor{3, Stop{"key"}});
  bytes += std::string(
      "\xfa\x01\x03"
      "abc",
      6);  // field 31, three bytes
  ASSERT_OK_AND_ASSIGN(const ToSupervisor back, DecodeToSupervisor(bytes));
  EXPECT_EQ(std::get<Stop>(back.what).key, "key");
  bytes[0] = 2;
  EXPECT_THAT(DecodeToSupervisor(bytes).status(), StatusIs(absl::StatusCode::kFailedPrecondition, testing::HasSubstr("format 2")));
  EXPECT_FALSE(DecodeToSupervisor(*Encode(Answers()[1])).ok());
  EXPECT_FALSE(DecodeFromSupervisor(*Encode(Commands()[1])).ok());
  EXPECT_FALSE(DecodeExit(*Encode(Answers()[2])).ok());
  EXPECT_OK(DecodeExit(EncodeExit({"k", {}}, ExitFacts{}, 3)));
}

TEST(Frames, TooLargeIsRefusedOnBothSides) {
  Start start = FullStart();
  start.argv.push_back(std::string(limits::kSupervisorFrameBytesMax, 'x'));
  EXPECT_THAT(Encode(ToSupervisor{1, start}).status(), StatusIs(absl::StatusCode::kInvalidArgument, testing::_));
  EXPECT_FALSE(DecodeToSupervisor(std::string(limits::kSupervisorFrameBytesMax + 1, '\1')).ok());
  std::string many = {1, 2};  // START
  std::string fields;
  for (int i = 0; i < 5'000; ++i) fields += std::string("\x12\x00", 2);  // an empty word of argv
  many += "\x22";                                                        // envelope body
  many += static_cast<char>((fields.size() & 0x7f) | 0x80);
  many += static_cast<char>(fields.size() >> 7);
  many += fields;
  EXPECT_FALSE(DecodeToSupervisor(many).ok()) << "more words than kArgvCountMax";
}

// A whole frame cut anywhere, with any byte changed, or random from the start: an error or a frame, never a crash (run under ASan too).
TEST(Frames, HostileBytes) {
  Rng rng(20240611);
  std::vector<std::string> seeds;
  for (const auto& command : Commands()) seeds.push_back(*Encode(command));
  for (const auto& answer : Answers()) seeds.push_back(*Encode(answer));
  int refused = 0;
  const auto try_it = [&](const std::string& bytes) {
    refused += !DecodeToSupervisor(bytes).ok();
    refused += !DecodeFromSupervisor(bytes).ok();
  };
  for (const std::string& seed : seeds) {
    for (size_t cut = 0; cut < std::min<size_t>(seed.size(), 300); ++cut) try_it(seed.substr(0, cut));
    for (int i = 0; i < 500; ++i) {
      std::string bytes = seed.substr(0, 2'000);
      for (uint64_t flips = 1 + rng.Below(4); flips > 0; --flips) bytes[rng.Below(bytes.size())] = static_cast<char>(rng.Next());
      try_it(bytes);
    }
  }
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes(2 + rng.Below(60), '\0');
    for (char& c : bytes) c = static_cast<char>(rng.Next());
    bytes[0] = 1;
    bytes[1] = static_cast<char>(rng.Chance(0.5) ? 1 + rng.Below(9) : 65 + rng.Below(7));
    try_it(bytes);
  }
  EXPECT_GT(refused, 1'000);
}

TEST(Frames, ValidateNamesTheField) {
  EXPECT_OK(Validate(FullStart()));
  const auto refused = [](auto change) {
    Start start = FullStart();
    change(start);
    return std::string(Validate(start).message());
  };
  EXPECT_THAT(refused([](Start& s) { s.attempt.key = "a b"; }), testing::HasSubstr("attempt.key"));
  EXPECT_THAT(refused([](Start& s) { s.attempt.key = std::string(201, 'k'); }), testing::HasSubstr("attempt.key"));
  EXPECT_THAT(refused([](Start& s) { s.argv.clear(); }), testing::HasSubstr("argv"));
  EXPECT_THAT(refused([](Start& s) { s.argv[1] = std::string("a\0b", 3); }), testing::HasSubstr("NUL"));
  EXPECT_THAT(refused([](Start& s) { s.env[0] = "SECRETVALUE"; }), testing::HasSubstr("NAME=VALUE"));
  EXPECT_THAT(refused([](Start& s) { s.cwd = "tmp"; }), testing::HasSubstr("cwd"));
  EXPECT_THAT(refused([](Start& s) { s.socket_path = "/" + std::string(107, 's'); }), testing::HasSubstr("socket_path: longer than 107"));
  EXPECT_THAT(refused([](Start& s) { s.grace_ms = -1; }), testing::HasSubstr("grace_ms"));
  EXPECT_THAT(refused([](Start& s) { s.stop_signal = 0; }), testing::HasSubstr("stop_signal"));
  EXPECT_THAT(refused([](Start& s) { s.tag = std::string(kTagBytesMax + 1, 't'); }), testing::HasSubstr("tag"));
}

TEST(Packets, SplitAndJoin) {
  for (const size_t size : {size_t{2}, kPacketBytesMax - 1, kPacketBytesMax, 3 * kPacketBytesMax + 5}) {
    std::string frame(size, '\0');
    for (size_t i = 0; i < size; ++i) frame[i] = static_cast<char>(i * 31);
    PacketJoiner joiner;
    size_t offset = 0;
    std::optional<std::string> whole;
    while (offset < frame.size()) {
      const std::string packet = TakePacket(frame, offset);
      EXPECT_LE(packet.size(), kPacketBytesMax);
      ASSERT_OK_AND_ASSIGN(whole, joiner.Add(packet));
      EXPECT_EQ(whole.has_value(), offset == frame.size());
    }
    EXPECT_EQ(whole.value_or(""), frame);
  }
  PacketJoiner joiner;
  EXPECT_FALSE(joiner.Add("").ok());
  EXPECT_FALSE(joiner.Add("x").ok());
  const std::string more = std::string(1, '\1') + std::string(kPacketBytesMax - 1, 'a');
  absl::Status status;
  for (int i = 0; i < 32 && status.ok(); ++i) status = joiner.Add(more).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "frame too long"));
}

}  // namespace
}  // namespace spillway::frames
