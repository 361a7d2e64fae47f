// What one session is sent, frame by frame, without a network.
#include "scheduler/rpc/session_outbox.h"

#include "base/status_matchers.h"
#include "scheduler/rpc/translate_session.h"
#include "spillway/v1/job_spec.pb.h"

namespace spillway::rpc {
namespace {

using ::testing::HasSubstr;

engine::OfferOrder OfferOf(JobId job, const std::string& digest = "digest") {
  engine::OfferOrder order;
  order.node = 1;
  order.attempt = {job, 0, 1};
  order.spec_digest = digest;
  order.job_name = "train";
  order.devices = {0, 3};
  order.log_path = "x.log";
  return order;
}
engine::StopOrder StopOf(JobId job) {
  engine::StopOrder order;
  order.attempt = {job, 0, 1};
  order.stop = {EndCause::kCancelled, Initiator::kUser, 30'000, 0, "because"};
  return order;
}

struct Fixture {
  explicit Fixture(size_t frame_bytes_max = 4 << 20, size_t orders_max = 1'000) {
    SessionOutbox::Options options;
    options.spec_of = [this](const std::string& digest) -> absl::StatusOr<std::string> {
      ++look_ups;
      if (digest == "absent") return absl::NotFoundError("there is no spec with this digest");
      if (digest == "names secrets") {
        v1::JobSpec spec;
        spec.add_secrets("A");
        spec.add_secrets("GONE");
        return spec.SerializeAsString();
      }
      return "spec of " + digest + std::string(spec_bytes, '.');
    };
    options.secrets_of = [](const std::vector<std::string>& names) {
      EXPECT_THAT(names, ::testing::ElementsAre("A", "GONE"));
      return std::map<std::string, std::string>{{"A", "value"}};
    };
    options.store_url = "file:/store";
    options.frame_bytes_max = frame_bytes_max;
    options.orders_max = orders_max;
    outbox.emplace(std::move(options));
  }
  v1::SchedulerFrame Next() {
    EXPECT_FALSE(outbox->Empty());
    auto frame = outbox->NextFrame();
    EXPECT_OK(frame);
    return frame.value_or(v1::SchedulerFrame());
  }
  size_t spec_bytes = 0;
  int look_ups = 0;
  std::optional<SessionOutbox> outbox;
};

TEST(SessionOutbox, AnOfferHasTheSecretsThatItsSpecNamesAlsoWhenTheSpecWasSentBefore) {
  Fixture f;
  ASSERT_OK(f.outbox->Offer(OfferOf(1, "names secrets")));
  ASSERT_OK(f.outbox->Offer(OfferOf(2)));
  ASSERT_OK(f.outbox->Offer(OfferOf(3, "names secrets")));
  const v1::SchedulerFrame frame = f.Next();
  ASSERT_EQ(frame.offers_size(), 3);
  EXPECT_EQ(f.look_ups, 2);
  for (const int i : {0, 2}) {
    EXPECT_EQ(frame.offers(i).secrets_size(), 1);
    EXPECT_EQ(frame.offers(i).secrets().at("A"), "value");
  }
  EXPECT_EQ(frame.offers(1).secrets_size(), 0);
}

TEST(SessionOutbox, WhatGathersTravelsInOneFrame) {
  Fixture f;
  EXPECT_TRUE(f.outbox->Empty());
  ASSERT_OK(f.outbox->Offer(OfferOf(1)));
  ASSERT_OK(f.outbox->Offer(OfferOf(2)));
  ASSERT_OK(f.outbox->Stop(StopOf(3)));
  ASSERT_OK(f.outbox->Forget({4, 0, 1}));
  f.outbox->AckReports(7);
  f.outbox->AckRenewal(3);
  f.outbox->AckRenewal(2);  // late: the newest counts
  const v1::SchedulerFrame frame = f.Next();
  ASSERT_EQ(frame.offers_size(), 2);
  EXPECT_EQ(frame.offers(0).attempt().job_id(), 1);
  EXPECT_EQ(frame.offers(0).devices(1), 3);
  ASSERT_EQ(frame.stops_size(), 1);
  EXPECT_EQ(frame.stops(0).cause(), v1::CANCELLED);
  EXPECT_EQ(frame.stops(0).initiator(), v1::BY_USER);
  EXPECT_EQ(frame.stops(0).grace_ms(), 30'000);
  EXPECT_EQ(frame.stops(0).reason(), "because");
  ASSERT_EQ(frame.forget_size(), 1);
  EXPECT_EQ(frame.report_ack(), 7);
  EXPECT_EQ(frame.renewal_ack(), 3);
  EXPECT_TRUE(f.outbox->Empty());
}

TEST(SessionOutbox, ASpecIsSentOnceASession) {
  Fixture f;
  ASSERT_OK(f.outbox->Offer(OfferOf(1)));
  ASSERT_OK(f.outbox->Offer(OfferOf(2)));
  ASSERT_OK(f.outbox->Offer(OfferOf(3, "other")));
  const v1::SchedulerFrame first = f.Next();
  ASSERT_EQ(first.specs_size(), 2);
  EXPECT_EQ(first.specs(0).digest(), "digest");
  EXPECT_EQ(first.specs(0).spec(), "spec of digest");
  ASSERT_OK(f.outbox->Offer(OfferOf(4)));
  EXPECT_EQ(f.Next().specs_size(), 0);
  EXPECT_EQ(f.look_ups, 2);
}

TEST(SessionOutbox, LargeSpecsAreSpreadOverFramesAndNothingOvertakes) {
  Fixture f(2'000);
  f.spec_bytes = 900;
  for (JobId job = 1; job <= 5; ++job) ASSERT_OK(f.outbox->Offer(OfferOf(job, "digest-" + std::to_string(job))));
  ASSERT_OK(f.outbox->Stop(StopOf(5)));
  ASSERT_OK(f.outbox->Forget({9, 0, 1}));
  std::vector<JobId> offered;
  while (!f.outbox->Empty()) {
    const v1::SchedulerFrame frame = f.Next();
    EXPECT_LE(frame.ByteSizeLong(), 2'500u);
    EXPECT_EQ(frame.specs_size(), frame.offers_size());
    for (const auto& offer : frame.offers()) offered.push_back(offer.attempt().job_id());
    if (frame.stops_size() + frame.forget_size() > 0) {
      EXPECT_EQ(offered.size(), 5u) << "a stop before its offer";
    }
  }
  EXPECT_THAT(offered, ::testing::ElementsAre(1, 2, 3, 4, 5));
}

TEST(SessionOutbox, ASpecLargerThanAFrameGoesAlone) {
  Fixture f(500);
  f.spec_bytes = 5'000;
  ASSERT_OK(f.outbox->Offer(OfferOf(1, "a")));
  ASSERT_OK(f.outbox->Offer(OfferOf(2, "b")));
  EXPECT_EQ(f.Next().offers_size(), 1);
  EXPECT_EQ(f.Next().offers_size(), 1);
  EXPECT_TRUE(f.outbox->Empty());
}

TEST(SessionOutbox, AWelcomeThatIsTooLargeTellsTheRestLaterAndWantsItLater) {
  Fixture f(1'500);
  f.spec_bytes = 900;
  engine::WelcomeOrder order;
  order.node = 1;
  order.cluster_uuid = "cluster";
  order.lease_ms = 600'000;
  order.wanted = {{100, 0, 1}};  // in the node's inventory
  order.report_ack = 12;
  for (JobId job = 1; job <= 4; ++job) {
    order.offers.push_back(OfferOf(job, "digest-" + std::to_string(job)));
    order.wanted.push_back({job, 0, 1});
  }
  order.stops = {StopOf(100)};
  ASSERT_OK(f.outbox->Welcome(order));
  const v1::SchedulerFrame first = f.Next();
  ASSERT_TRUE(first.has_welcome());
  const v1::Welcome& welcome = first.welcome();
  EXPECT_EQ(welcome.cluster_uuid(), "cluster");
  EXPECT_EQ(welcome.store_url(), "file:/store");
  EXPECT_EQ(welcome.lease_ms(), 600'000);
  EXPECT_EQ(welcome.report_ack(), 12);
  EXPECT_EQ(welcome.stops_size(), 1);
  ASSERT_EQ(welcome.offers_size(), 1);
  EXPECT_EQ(welcome.specs_size(), 1);
  ASSERT_EQ(welcome.wanted_size(), 2) << "what is wanted, not there and not offered would be reported lost";
  EXPECT_EQ(welcome.wanted(0).job_id(), 100);
  EXPECT_EQ(welcome.wanted(1).job_id(), 1);
  EXPECT_EQ(first.offers_size(), 0);
  std::vector<JobId> later;
  while (!f.outbox->Empty()) {
    const v1::SchedulerFrame frame = f.Next();
    for (const auto& offer : frame.offers()) later.push_back(offer.attempt().job_id());
  }
  EXPECT_THAT(later, ::testing::ElementsAre(2, 3, 4));
}

TEST(SessionOutbox, IsBounded) {
  Fixture f(4 << 20, 10);
  for (JobId job = 1; job <= 5; ++job) ASSERT_OK(f.outbox->Offer(OfferOf(job)));
  for (JobId job = 1; job <= 5; ++job) ASSERT_OK(f.outbox->Stop(StopOf(job)));
  EXPECT_THAT(f.outbox->Offer(OfferOf(6)), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("10 orders wait")));
  EXPECT_THAT(f.outbox->Stop(StopOf(6)), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("10 orders wait")));
  EXPECT_THAT(f.outbox->Forget({6, 0, 1}), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("10 orders wait")));
  f.Next();
  EXPECT_OK(f.outbox->Offer(OfferOf(6)));
}

TEST(SessionOutbox, AGoodbyeIsTheLastWordAndKeepsTheAcknowledgements) {
  Fixture f;
  ASSERT_OK(f.outbox->Offer(OfferOf(1)));
  f.outbox->AckReports(5);
  f.outbox->AckRenewal(6);
  v1::Goodbye goodbye;
  goodbye.set_code("SHUTDOWN");
  f.outbox->SayGoodbye(goodbye);
  const v1::SchedulerFrame frame = f.Next();
  EXPECT_EQ(frame.goodbye().code(), "SHUTDOWN");
  EXPECT_EQ(frame.offers_size(), 0);
  EXPECT_EQ(frame.report_ack(), 5);
  EXPECT_EQ(frame.renewal_ack(), 6);
  EXPECT_TRUE(f.outbox->Empty());
}

TEST(SessionOutbox, ASpecThatCannotBeReadEndsTheSessionWithItsReason) {
  Fixture f;
  ASSERT_OK(f.outbox->Offer(OfferOf(1, "absent")));
  EXPECT_THAT(f.outbox->NextFrame(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("no spec")));
}

}  // namespace
}  // namespace spillway::rpc
