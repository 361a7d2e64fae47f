// The hand-written bytes: round trips of every type, equality with protobuf's own idea of them, and hostile input.
#include "scheduler/store/codec.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/message_differencer.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/sha256.h"
#include "base/status_matchers.h"
#include "scheduler/store/schema.h"
#include "scheduler/store/store.h"
#include "spillway/store/v1/event.pb.h"
#include "spillway/store/v1/row.pb.h"
#include "tests/support/random_values.h"

namespace spillway::store {
namespace {

namespace pb = ::spillway::store::v1;
using ::spillway::testing::RandomFields;

// Encodes random values and has protobuf parse, re-serialize and compare; then decodes and encodes again.
template <typename T, typename Message>
void RoundTrips() {
  Rng rng(7);
  RandomFields random(&rng);
  for (int i = 0; i < 200; ++i) {
    const T value = random.Make<T>();
    const std::string bytes = Encode(value);
    ASSERT_OK_AND_ASSIGN(const T again, Decode<T>(bytes));
    ASSERT_EQ(Encode(again), bytes);
    ASSERT_TRUE(again == value);

    Message message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    ASSERT_TRUE(message.GetReflection()->GetUnknownFields(message).empty()) << message.ShortDebugString();
    // What protobuf writes of it reads as the same value.
    ASSERT_OK_AND_ASSIGN(const T through, Decode<T>(message.SerializeAsString()));
    ASSERT_TRUE(through == value) << message.ShortDebugString();
  }
}

// Every field and enum value of a file's messages, as "Message.field=number:type" in order.
std::string FormOf(const google::protobuf::FileDescriptor* file) {
  std::vector<std::string> lines;
  const std::function<void(const google::protobuf::Descriptor*)> add = [&](const google::protobuf::Descriptor* message) {
    for (int i = 0; i < message->field_count(); ++i) {
      const google::protobuf::FieldDescriptor* field = message->field(i);
      const std::string type = field->message_type() != nullptr ? std::string(field->message_type()->full_name()) : std::string(field->type_name());
      lines.push_back(absl::StrCat(message->full_name(), ".", field->name(), "=", field->number(), ":", field->is_repeated() ? "repeated " : "", type));
    }
    for (int i = 0; i < message->nested_type_count(); ++i) add(message->nested_type(i));
  };
  for (int i = 0; i < file->message_type_count(); ++i) add(file->message_type(i));
  for (int i = 0; i < file->enum_type_count(); ++i) {
    for (int k = 0; k < file->enum_type(i)->value_count(); ++k) {
      lines.push_back(absl::StrCat(file->enum_type(i)->value(k)->full_name(), "=", file->enum_type(i)->value(k)->number()));
    }
  }
  return absl::StrJoin(lines, "\n");
}

// A program that does not know a field drops it: one from before arrays would start tasks that were cancelled, and more than `parallel` at once. So
// whoever changes the form of rows or events adds a migration (scheduler/store/schema.cc; it may have no statement), by which older programs
// refuse the file, and puts the digest that this test shows beside its number.
TEST(Form, ChangesOnlyWithTheSchemaVersion) {
  const std::string form = absl::StrCat(FormOf(pb::Job::descriptor()->file()), "\n", FormOf(pb::Event::descriptor()->file()));
  EXPECT_EQ(absl::StrCat(SchemaVersion(), ": ", HexOf(Sha256Of(form))), "4: d309ff4f278d7b63b672d1231f64676fe94b6c115117a667505eb4566de2ed0e");
}

TEST(CodecTest, EveryRowReadsAsTheProtobufMessageThatDescribesIt) {
  RoundTrips<core::Shape, pb::Shape>();
  RoundTrips<core::Capacity, pb::Capacity>();
  RoundTrips<core::RetryPolicy, pb::RetryPolicy>();
  RoundTrips<core::CheckpointRef, pb::CheckpointRef>();
  RoundTrips<core::StopRequest, pb::StopRequest>();
  RoundTrips<core::PlaceReason, pb::PlaceReason>();
  RoundTrips<core::Member, pb::Member>();
  RoundTrips<core::Attempt, pb::Attempt>();
  RoundTrips<core::Task, pb::Task>();
  RoundTrips<core::TaskCounts, pb::TaskCounts>();
  RoundTrips<core::Job, pb::Job>();
  RoundTrips<core::BillingRule, pb::BillingRule>();
  RoundTrips<core::Node, pb::Node>();
  RoundTrips<core::Offer, pb::Offer>();
  RoundTrips<core::ProviderInfo, pb::ProviderInfo>();
  RoundTrips<core::Reservation, pb::Reservation>();
  RoundTrips<core::Charge, pb::Charge>();
  RoundTrips<core::RequestRecord, pb::RequestRecord>();
  RoundTrips<core::Meta, pb::Meta>();
}

TEST(CodecTest, FieldsMeanTheSameToProtobuf) {
  core::Task task;
  task.id = {5, 17};
  task.state = TaskState::kActive;
  task.attempt.emplace();
  task.attempt->number = 3;
  task.attempt->state = AttemptState::kRunning;
  task.attempt->members = {{.node = 9, .devices = 0b1011}};
  task.attempt->stop = core::StopRequest{.cause = EndCause::kPreempted, .grace_ms = 30'000};
  pb::Task message;
  ASSERT_TRUE(message.ParseFromString(Encode(task)));
  EXPECT_EQ(message.job(), 5);
  EXPECT_EQ(message.index(), 17);
  EXPECT_EQ(message.state(), spillway::v1::ACTIVE);
  EXPECT_EQ(message.attempt().number(), 3);
  EXPECT_EQ(message.attempt().state(), spillway::v1::RUNNING);
  ASSERT_EQ(message.attempt().members_size(), 1);
  EXPECT_EQ(message.attempt().members(0).devices(), 0b1011u);
  EXPECT_EQ(message.attempt().stop().cause(), spillway::v1::PREEMPTED);
  EXPECT_FALSE(message.has_checkpoint());

  core::Charge charge{.id = 4, .node = 2, .attempt = {5, 17, 3}, .kind = "run", .market = Market::kSpot, .from_ms = 10, .to_ms = 20, .amount_micros = -7};
  pb::Charge charge_message;
  ASSERT_TRUE(charge_message.ParseFromString(Encode(charge)));
  EXPECT_EQ(charge_message.attempt(), 3);
  EXPECT_EQ(charge_message.kind(), "run");
  EXPECT_EQ(charge_message.market(), spillway::v1::SPOT);
  EXPECT_EQ(charge_message.amount_micros(), -7);
}

TEST(CodecTest, EveryKindOfEventRoundTripsAndReadsAsProtobuf) {
  Rng rng(11);
  RandomFields random(&rng);
  for (size_t kind = 0; kind < std::variant_size_v<core::Event>; ++kind) {
    for (int i = 0; i < 20; ++i) {
      const std::vector<core::Event> events = {random.MakeEvent(kind), random.MakeEvent(kind)};
      const std::string bytes = EncodeEvents(events);
      ASSERT_OK_AND_ASSIGN(const std::vector<core::Event> again, DecodeEvents(bytes));
      ASSERT_EQ(again.size(), 2u);
      ASSERT_EQ(again[0].index(), kind);
      ASSERT_EQ(EncodeEvents(again), bytes);
      pb::EventBatch message;
      ASSERT_TRUE(message.ParseFromString(bytes));
      ASSERT_EQ(message.events(0).event_case(), static_cast<int>(kind + 1));
      std::string text;
      ASSERT_EQ(message.ShortDebugString().find("unknown"), std::string::npos);
      const auto through = DecodeEvents(message.SerializeAsString());
      ASSERT_OK(through);
      ASSERT_EQ(EncodeEvents(*through), bytes);
    }
  }
}

TEST(CodecTest, AnEventWhoseFieldsAreAllZeroKeepsItsKind) {
  const std::string bytes = EncodeEvents({core::RequestsForgotten{}, core::AttemptStarted{}});
  ASSERT_OK_AND_ASSIGN(const auto events, DecodeEvents(bytes));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<core::RequestsForgotten>(events[0]));
  EXPECT_TRUE(std::holds_alternative<core::AttemptStarted>(events[1]));
}

TEST(CodecTest, ZerosAreLeftOutAndAbsentReadsAsZeroNotAsTheDefault) {
  core::Job job;
  job.priority = 0;
  job.task_count = 0;
  job.retry = {0, 0, 0};
  EXPECT_EQ(Encode(job), "");
  ASSERT_OK_AND_ASSIGN(const core::Job again, Decode<core::Job>(""));
  EXPECT_EQ(again.priority, 0);
  EXPECT_EQ(again.task_count, 0);
  EXPECT_EQ(again.retry.preempted, 0);
}

TEST(CodecTest, UnknownFieldsAreSkipped) {
  core::Member member{.node = 9, .devices = 3, .stopped = true};
  std::string bytes;
  AppendBytesField(&bytes, 77, "from a newer version");
  bytes += Encode(member);
  AppendFixed64Field(&bytes, 78, 5);
  AppendFixed32Field(&bytes, 79, 5);
  ASSERT_OK_AND_ASSIGN(const core::Member again, Decode<core::Member>(bytes));
  EXPECT_TRUE(again == member);
}

TEST(CodecTest, FieldsInAnyOrderAndTheLastOneWins) {
  std::string bytes;
  AppendVarintField(&bytes, 3, 1);
  AppendZigZagField(&bytes, 1, 4);
  AppendVarintField(&bytes, 2, 6);
  AppendZigZagField(&bytes, 1, 5);
  ASSERT_OK_AND_ASSIGN(const core::Member member, Decode<core::Member>(bytes));
  EXPECT_TRUE((member == core::Member{.node = 5, .devices = 6, .stopped = true}));
}

TEST(CodecTest, NumbersOfAListAreReadPackedAndSingle) {
  std::string bytes;
  AppendZigZagField(&bytes, 1, 7);
  AppendBytesField(&bytes, 1, std::string("\x02\x04", 2));  // 1, 2
  ASSERT_OK_AND_ASSIGN(const core::RequestRecord record, Decode<core::RequestRecord>(bytes));
  EXPECT_THAT(record.jobs, ::testing::ElementsAre(7, 1, 2));
}

TEST(CodecTest, AnEventKindOfANewerVersionIsRefusedNotSkipped) {
  std::string event, bytes;
  AppendBytesField(&event, 4000, "");
  AppendBytesField(&bytes, 1, event);
  EXPECT_THAT(DecodeEvents(bytes), StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("event kind 4000")));
  bytes.clear();
  AppendBytesField(&bytes, 1, "");
  EXPECT_THAT(DecodeEvents(bytes), StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
}

TEST(CodecTest, CutShortIsDataLoss) {
  Rng rng(3);
  RandomFields random(&rng);
  core::Node node = random.Make<core::Node>();
  node.name = "n";
  node.charged_micros = 300;  // two bytes at the end
  const std::string bytes = Encode(node);
  EXPECT_THAT(Decode<core::Node>(absl::string_view(bytes).substr(0, bytes.size() - 1)),
              StatusIs(absl::StatusCode::kDataLoss, ::testing::HasSubstr("malformed")));
}

core::State RandomState(Rng* rng) {
  RandomFields random(rng);
  core::State state;
  state.meta = random.Make<core::Meta>();
  for (int64_t id = 1; id <= 4; ++id) {
    core::LiveJob& live = state.jobs[id];
    live.job = random.Make<core::Job>();
    live.job.id = id;
    live.job.shape_id = id;
    live.job.next_index = live.job.task_count = 3;  // no queued tasks beyond the exceptions
    for (int64_t index = 0; index < 3; ++index) {
      core::Task task = random.Make<core::Task>();
      task.id = {id, index};
      if (task.attempt) {
        for (core::Member& member : task.attempt->members) member.stopped = true;  // indexes of what runs are not the codec's business
      }
      live.tasks[index] = task;
    }
    core::Node node = random.Make<core::Node>();
    node.id = id;
    state.nodes[id] = node;
    state.shapes[id] = random.Make<core::Shape>();
    core::Offer offer = random.Make<core::Offer>();
    state.offers[{offer.provider, offer.name}] = offer;
    state.requests["request " + std::to_string(id)] = random.Make<core::RequestRecord>();
  }
  return state;
}

TEST(CodecTest, TheWholeStateRoundTripsByteForByte) {
  Rng rng(5);
  for (int i = 0; i < 50; ++i) {
    const core::State state = RandomState(&rng);
    const std::string bytes = EncodeState(state);
    ASSERT_OK_AND_ASSIGN(const core::State again, DecodeState(bytes));
    ASSERT_EQ(EncodeState(again), bytes);
    pb::StateRecord message;
    ASSERT_TRUE(message.ParseFromString(bytes));
    ASSERT_EQ(message.jobs_size(), 4);
    ASSERT_EQ(message.jobs(2).tasks_size(), 3);
    ASSERT_EQ(message.shapes_size(), 4);
  }
}

TEST(CodecTest, WhatIsNamedAndNotThereIsDataLoss) {
  Rng rng(7);
  core::State state = RandomState(&rng);
  core::Task& task = state.jobs[2].tasks[0];
  task.attempt.emplace().number = 4;
  task.attempt->members.push_back({.node = 77});
  EXPECT_THAT(DecodeState(EncodeState(state)), StatusIs(absl::StatusCode::kDataLoss, ::testing::HasSubstr("attempt 2.0@4 lives on node 77, which does not")));
  task.attempt->members[0].stopped = true;
  EXPECT_OK(DecodeState(EncodeState(state)));
  state.shapes.erase(3);
  EXPECT_THAT(DecodeState(EncodeState(state)), StatusIs(absl::StatusCode::kDataLoss, ::testing::HasSubstr("job 3 has the shape 3, which does not exist")));
}

TEST(CodecTest, GarbageNeverCrashes) {
  Rng rng(13);
  RandomFields random(&rng);
  int accepted = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::string bytes;
    const bool is_state = i % 3 == 0;
    if (is_state) {
      bytes = EncodeState(RandomState(&rng));
    } else {
      bytes = EncodeEvents({random.MakeEvent(), random.MakeEvent()});
    }
    for (uint64_t n = rng.Between(1, 6); n > 0 && !bytes.empty(); --n) {
      const size_t at = rng.Below(bytes.size());
      switch (rng.Below(4)) {
        case 0: bytes[at] = static_cast<char>(rng.Next()); break;
        case 1: bytes[at] ^= static_cast<char>(1 << rng.Below(8)); break;
        case 2: bytes.erase(at, rng.Below(8)); break;
        default: bytes.insert(at, 1, static_cast<char>(rng.Next())); break;
      }
    }
    if (is_state) {
      // Rebuilding indexes from nonsense is not the codec's business: read the message alone.
      accepted += Decode<core::Meta>(bytes).ok();
      accepted += Decode<core::Task>(bytes).ok();
      accepted += Decode<core::Node>(bytes).ok();
    } else {
      accepted += DecodeEvents(bytes).ok();
    }
  }
  // Some mutations hit text only; were none accepted, the test would be mutating too much to reach deep.
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace spillway::store
