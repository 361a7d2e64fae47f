// What start-up and providers say, and what operators and Decide order about nodes: every refusal and every outcome.
#include "scheduler/core/admit_internal.h"
#include "tests/core/world.h"

namespace spillway::core {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Code = absl::StatusCode;

class AdmitProviders : public ::testing::Test {
 protected:
  AdmitProviders() {
    world_.Configure({Cloud()});
    world_.Do(OffersListed{"cloud", {spot_}});
  }
  // A job and the node REQUESTED for it.
  NodeId Requested() {
    job_ = world_.SubmitJob(Gpus(1));
    world_.Turn();
    return world_.NodesIn(NodeState::kRequested).at(0);
  }
  NodeId Running() {
    const NodeId node = Requested();
    world_.Boot(node);
    world_.Turn();
    world_.Start(world_.Living({job_, 0}));
    return node;
  }
  const Offer& offer() { return world_.state.offers.at({"cloud", "sp"}); }
  const Offer spot_ = MakeOffer("cloud", "sp", Market::kSpot, 3'600'000, Box(8, 1));
  World world_;
  JobId job_ = 0;
};

TEST_F(AdmitProviders, ConfigureKeepsTheClusterAndRefusesAnother) {
  EXPECT_THAT(world_.Try(Configure{"cluster-2", {}, {}}), StatusIs(Code::kFailedPrecondition, HasSubstr("cluster-1")));
  EXPECT_THAT(world_.Try(Configure{"cluster-1", {Cloud(), Cloud()}, {}}), StatusIs(Code::kInvalidArgument, HasSubstr("two are called cloud")));
  EXPECT_THAT(world_.Try(Configure{"cluster-1", {ProviderInfo()}, {}}), StatusIs(Code::kInvalidArgument, HasSubstr("no name")));
  EXPECT_THAT(world_.Try(Configure{"cluster-1", {}, {{"r", {}, -1, 0, 0}}}), StatusIs(Code::kInvalidArgument, HasSubstr("negative")));
  EXPECT_THAT(world_.Try(Configure{"cluster-1", {}, {{"r", {}, 1, 0, 0}, {"r", {}, 1, 0, 0}}}),
              StatusIs(Code::kInvalidArgument, HasSubstr("two are called r")));
  world_.Configure({Cloud()});
  EXPECT_TRUE(world_.changes.Empty()) << "the same again";
}

TEST_F(AdmitProviders, BadListsAreRefusedWhole) {
  const auto with = [this](auto change) {
    Offer offer = spot_;
    change(&offer);
    return OffersListed{"cloud", {offer}};
  };
  EXPECT_THAT(world_.Try(OffersListed{"nobody", {}}), StatusIs(Code::kNotFound, HasSubstr("nobody")));
  EXPECT_THAT(world_.Try(with([](Offer* offer) { offer->name.clear(); })), StatusIs(Code::kInvalidArgument, HasSubstr("no name")));
  EXPECT_THAT(world_.Try(with([](Offer* offer) { offer->provider = "other"; })), StatusIs(Code::kInvalidArgument, HasSubstr("belongs to other")));
  EXPECT_THAT(world_.Try(with([](Offer* offer) { offer->market = Market::kUnspecified; })), StatusIs(Code::kInvalidArgument, HasSubstr("market")));
  EXPECT_THAT(world_.Try(with([](Offer* offer) { offer->price_micros_per_hour = -1; })), StatusIs(Code::kInvalidArgument, HasSubstr("price")));
  EXPECT_THAT(world_.Try(with([](Offer* offer) { offer->billing.increment_ms = 0; })), StatusIs(Code::kInvalidArgument, HasSubstr("billing")));
  EXPECT_THAT(world_.Try(with([](Offer* offer) { offer->capacity.gpu_count = 65; })), StatusIs(Code::kInvalidArgument, HasSubstr("capacity")));
  EXPECT_THAT(world_.Try(OffersListed{"cloud", {spot_, spot_}}), StatusIs(Code::kInvalidArgument, HasSubstr("two offers")));
}

TEST_F(AdmitProviders, NewListKeepsWhatWasLearned) {
  world_.Do(InstanceRefused{Requested(), InstanceRefused::Code::kCapacity, "none left", 0});
  EXPECT_EQ(offer().refusals, 1);
  world_.Do(OffersListed{"cloud", {spot_}});
  EXPECT_TRUE(world_.changes.Empty());
  world_.Do(OffersListed{"cloud", {}});
  EXPECT_TRUE(offer().withdrawn);
  Offer dearer = spot_;
  dearer.price_micros_per_hour = 9'000'000;
  dearer.refusals = 77;
  world_.Do(OffersListed{"cloud", {dearer}});
  EXPECT_FALSE(offer().withdrawn);
  EXPECT_EQ(offer().price_micros_per_hour, 9'000'000);
  EXPECT_EQ(offer().refusals, 1);
  EXPECT_EQ(offer().backoff_reason, "none left");
}

TEST_F(AdmitProviders, RefusalsBackOffLongerEachTimeAndSuccessForgetsThem) {
  for (int64_t want : {10, 20, 40, 80, 160, 300, 300}) {
    const NodeId node = Requested();
    world_.Do(InstanceRefused{node, InstanceRefused::Code::kCapacity, "none left", 0});
    EXPECT_EQ(world_.gone_nodes[node].state, NodeState::kReleased);
    EXPECT_EQ(world_.gone_nodes[node].charged_micros, 0);
    EXPECT_EQ(offer().backoff_until_ms, world_.now_ms + want * kSecond);
    EXPECT_THAT(Only<RequestNode>(world_.Turn()), IsEmpty());
    world_.Do(Cancel{job_});
    EXPECT_EQ(NextDeadlineMs(world_.state, world_.soft, world_.policy, world_.now_ms), INT64_MAX) << "nobody waits";
    world_.Advance(want * kSecond);
  }
  world_.Boot(Requested());
  EXPECT_EQ(offer().refusals, 0);
}

TEST_F(AdmitProviders, ProviderMaySayWhenToAskAgainAndRejectionsLastLong) {
  world_.Do(InstanceRefused{Requested(), InstanceRefused::Code::kThrottled, "slow down", 1'234});
  EXPECT_EQ(offer().backoff_until_ms, world_.now_ms + 1'234);
  world_.Advance(2 * kSecond);
  world_.Do(InstanceRefused{(world_.Turn(), world_.NodesIn(NodeState::kRequested).at(0)), InstanceRefused::Code::kRejected, "no such type", 0});
  EXPECT_GT(offer().backoff_until_ms, world_.now_ms + 10 * kMinute);
}

TEST_F(AdmitProviders, CreationOfANodeThatIsNotWantedAnyMoreIsEndedByTheEffect) {
  const NodeId node = Requested();
  world_.Do(ReleaseNode{node, "no longer needed"});
  world_.Do(InstanceCreated{node, "i-1"});
  EXPECT_EQ(world_.node(node).state, NodeState::kReleasing);
  EXPECT_EQ(world_.node(node).instance_id, "i-1");
  EXPECT_THAT(Effects(world_.state, &world_.changes), SizeIs(1)) << "terminate, now that it has an id";
  world_.Advance(kSecond);
  world_.Do(InstanceGone{node, false, "", -1});
  EXPECT_EQ(world_.gone_nodes[node].state, NodeState::kReleased);
  EXPECT_EQ(world_.gone_nodes[node].charged_micros, 1'000) << "it billed for a second";
}

TEST_F(AdmitProviders, CreatedAnswersAreChecked) {
  const NodeId node = Requested();
  EXPECT_THAT(world_.Try(InstanceCreated{node, ""}), StatusIs(Code::kInvalidArgument, HasSubstr("instance_id")));
  EXPECT_THAT(world_.Try(InstanceCreated{999, "i"}), StatusIs(Code::kNotFound, HasSubstr("no node 999")));
  world_.Do(InstanceCreated{node, "i-1"});
  world_.Do(InstanceCreated{node, "i-1"});
  EXPECT_TRUE(world_.changes.Empty());
  EXPECT_THAT(world_.Try(InstanceCreated{node, "i-2"}), StatusIs(Code::kFailedPrecondition, HasSubstr("is instance i-1 already")));
  world_.Do(InstanceRefused{node, InstanceRefused::Code::kCapacity, "", 0});
  EXPECT_TRUE(world_.changes.Empty()) << "too late to be refused";
}

// --- listings ---

InstanceListing ListingOf(World& world, std::vector<InstanceListing::Instance> instances) { return {"cloud", world.now_ms, std::move(instances)}; }

TEST_F(AdmitProviders, ListingFindsOrphansOnce) {
  world_.Do(
      ListingOf(world_, {{"i-77", "stray", true, false, "", -1, -1}, {"i-78", "stray", true, false, "", -1, -1}, {"i-79", "dead", false, false, "", 5, -1}}));
  ASSERT_THAT(world_.state.nodes, SizeIs(2));
  for (const auto& [id, node] : world_.state.nodes) {
    EXPECT_EQ(node.state, NodeState::kReleasing);
    EXPECT_TRUE(node.owned);
    EXPECT_THAT(node.reason, HasSubstr("orphan"));
  }
  EXPECT_THAT(Effects(world_.state, nullptr), SizeIs(2));
  world_.Do(ListingOf(world_, {{"i-77", "stray", true, false, "", -1, -1}, {"i-78", "stray", true, false, "", -1, -1}}));
  EXPECT_THAT(world_.state.nodes, SizeIs(2));
  world_.Do(ListingOf(world_, {{"i-77", "stray", false, false, "", 55, -1}, {"i-78", "stray", true, false, "", -1, -1}}));
  EXPECT_EQ(world_.gone_nodes.begin()->second.charged_micros, 55) << "what it cost is known by the provider alone";
}

TEST_F(AdmitProviders, ListingAnswersForCreateAndForNotice) {
  const NodeId node = Requested();
  world_.Do(ListingOf(world_, {{"i-1", world_.node(node).name, true, false, "", -1, -1}}));
  EXPECT_EQ(world_.node(node).state, NodeState::kBooting);
  world_.Boot(node);
  world_.Do(ListingOf(world_, {{"i-1", "", true, false, "", -1, 30'000}}));
  EXPECT_EQ(world_.node(node).state, NodeState::kDraining);
  EXPECT_EQ(world_.node(node).notice_deadline_ms, world_.now_ms + 30'000);
}

TEST_F(AdmitProviders, AbsenceProvesTheEndOnlyOfWhatMustHaveBeenThere) {
  const NodeId node = Running();
  InstanceListing empty = ListingOf(world_, {});
  world_.Do(empty);
  EXPECT_TRUE(world_.state.nodes.contains(node)) << "created a moment ago: the listing may be older";
  world_.Advance(kListingGraceMs + 1);
  world_.Do(empty);
  EXPECT_TRUE(world_.state.nodes.contains(node)) << "the listing began before";
  empty.asked_ms = world_.now_ms;
  empty.doubt_ms = 2;
  world_.Do(empty);
  EXPECT_TRUE(world_.state.nodes.contains(node)) << "less may have passed than the clock says";
  empty.doubt_ms = 0;
  world_.Do(empty);
  EXPECT_EQ(world_.gone_nodes[node].state, NodeState::kLost);
  EXPECT_EQ(world_.task({job_, 0}).history.back().cause, EndCause::kNodeLost);
  const NodeId asked_for = (world_.Seal({job_, 0, 1}), world_.Advance(kMinute), world_.Turn(), world_.NodesIn(NodeState::kRequested).at(0));
  world_.Advance(10 * kMinute - 1);
  world_.Do(ListingOf(world_, {}));
  EXPECT_TRUE(world_.state.nodes.contains(asked_for)) << "its creation may still be on the way";
}

TEST_F(AdmitProviders, ReleasedRequestThatNeverAppearedIsOver) {
  const NodeId node = Requested();
  world_.Do(ReleaseNode{node, "x"});
  world_.Advance(kListingGraceMs + 1);
  world_.Do(ListingOf(world_, {}));
  EXPECT_EQ(world_.gone_nodes[node].state, NodeState::kReleased);
}

TEST_F(AdmitProviders, DeadInTheListingEndsItsAttempts) {
  const NodeId node = Running();
  world_.Advance(kSecond);
  world_.Do(ListingOf(world_, {{"i-1", "", false, true, "reclaimed", 4'000, -1}}));
  EXPECT_EQ(world_.gone_nodes[node].charged_micros, 4'000);
  EXPECT_EQ(world_.task({job_, 0}).history.back().cause, EndCause::kPreempted);
  EXPECT_EQ(offer().preemptions, 1);
  EXPECT_EQ(offer().last_preempted_ms, world_.now_ms);
  EXPECT_EQ(offer().exposure_ms, kSecond);
}

TEST_F(AdmitProviders, NoticedNodeCountsOnePreemptionHoweverItEnds) {
  const NodeId node = Running();
  world_.Do(NodeNotice{node, 30'000, "cloud"});
  EXPECT_EQ(offer().preemptions, 1) << "the pool is avoided from the notice on";
  world_.Do(InstanceGone{node, true, "reclaimed", -1});
  EXPECT_EQ(offer().preemptions, 1);
  EXPECT_EQ(world_.task({job_, 0}).history.back().cause, EndCause::kPreempted);
}

// --- orders about nodes ---

TEST_F(AdmitProviders, NothingIsReleasedUnderALivingAttemptExceptAsAFence) {
  const NodeId node = Running();
  EXPECT_THAT(world_.Try(ReleaseNode{node, "idle"}), StatusIs(Code::kFailedPrecondition, HasSubstr("attempts live")));
  EXPECT_THAT(world_.Try(ReleaseNode{99, "idle"}), StatusIs(Code::kNotFound, HasSubstr("99")));
  const NodeId rack = world_.Register("rack-1", Box(1));
  EXPECT_THAT(world_.Try(ReleaseNode{rack, "idle"}), StatusIs(Code::kFailedPrecondition, HasSubstr("not ours")));
  EXPECT_THAT(world_.Try(DeclareLost{node, ""}), StatusIs(Code::kFailedPrecondition, HasSubstr("can testify")));
  EXPECT_THAT(world_.Try(DeclareLost{99, ""}), StatusIs(Code::kNotFound, HasSubstr("99")));
  world_.Do(ReleaseNode{node, kReasonSilent});
  EXPECT_EQ(world_.node(node).state, NodeState::kReleasing);
  EXPECT_EQ(world_.task({job_, 0}).state, TaskState::kActive) << "only the provider's word ends it";
  world_.Do(InstanceGone{node, false, "terminated", -1});
  EXPECT_EQ(world_.gone_nodes[node].state, NodeState::kReleased);
  EXPECT_EQ(world_.task({job_, 0}).history.back().cause, EndCause::kNodeLost);
}

TEST_F(AdmitProviders, CordonDrainUncordon) {
  const NodeId rack = world_.Register("rack-1", Box(8, 1));
  const JobId job = world_.SubmitJob(Cpu());
  world_.Turn();
  world_.Do(CordonNode{rack, true});
  world_.Do(CordonNode{rack, true});
  EXPECT_TRUE(world_.changes.Empty());
  EXPECT_EQ(world_.Do(DrainNode{rack, 7'000}).affected, 1);
  EXPECT_EQ(world_.task({job, 0}).attempt->stop->cause, EndCause::kMoved);
  EXPECT_EQ(world_.task({job, 0}).attempt->stop->grace_ms, 7'000);
  EXPECT_EQ(world_.node(rack).state, NodeState::kDraining);
  world_.Do(CordonNode{rack, false});
  EXPECT_EQ(world_.node(rack).state, NodeState::kReady);
  EXPECT_FALSE(world_.node(rack).cordoned);
  EXPECT_THAT(world_.Try(CordonNode{99, true}), StatusIs(Code::kNotFound, HasSubstr("99")));
  EXPECT_THAT(world_.Try(DrainNode{99}), StatusIs(Code::kNotFound, HasSubstr("99")));
  world_.Do(CordonNode{rack, true});
  EXPECT_THAT(world_.Try(DrainNode{Requested()}), StatusIs(Code::kFailedPrecondition, HasSubstr("REQUESTED")));
}

TEST_F(AdmitProviders, PlaceIsLookedAtAgain) {
  const NodeId rack = world_.Register("rack-1", Box(8, 2));
  const JobId job = world_.SubmitJob(Gpus(1));
  const auto place = [&](uint64_t devices, NodeId node, TaskIndex index = 0) { return world_.Try(Place{{job, index}, {{node, devices, false}}, {}}); };
  EXPECT_THAT(place(0b1, 99), StatusIs(Code::kNotFound, HasSubstr("99")));
  EXPECT_THAT(place(0b11, rack), StatusIs(Code::kFailedPrecondition, HasSubstr("devices")));
  EXPECT_THAT(place(0b100, rack), StatusIs(Code::kFailedPrecondition, HasSubstr("devices")));
  EXPECT_THAT(place(0b1, rack, 5), StatusIs(Code::kFailedPrecondition, HasSubstr("not the next")));
  EXPECT_THAT(world_.Try(Place{{job, 0}, {}, {}}), StatusIs(Code::kFailedPrecondition, HasSubstr("needs 1 nodes")));
  world_.Do(CordonNode{rack, true});
  EXPECT_THAT(place(0b1, rack), StatusIs(Code::kFailedPrecondition, HasSubstr("cordoned")));
  world_.Do(CordonNode{rack, false});
  EXPECT_THAT(place(0b10, rack), IsOk());
  EXPECT_THAT(place(0b1, rack), StatusIs(Code::kFailedPrecondition, HasSubstr("ACTIVE")));
  const JobId second = world_.SubmitJob(Gpus(1));
  EXPECT_THAT(world_.Try(Place{{second, 0}, {{rack, 0b10, false}}, {}}), StatusIs(Code::kFailedPrecondition, HasSubstr("devices")));
  world_.Start({job, 0, 1});
  world_.End({job, 0, 1}, EndCause::kStagingFailed, Initiator::kNode);
  EXPECT_THAT(place(0b10, rack), StatusIs(Code::kFailedPrecondition, HasSubstr("not sealed")));
  world_.Seal({job, 0, 1});
  EXPECT_THAT(place(0b10, rack), StatusIs(Code::kFailedPrecondition, HasSubstr("backs off")));
  world_.Advance(kMinute);
  world_.Do(NodeNotice{rack, kMinute, "x"});
  EXPECT_THAT(place(0b10, rack), StatusIs(Code::kFailedPrecondition, HasSubstr("DRAINING")));
  Shape picky = Gpus(1);
  picky.node_names = {"rack-9"};
  const NodeId other = world_.Register("rack-2", Box(8, 2));
  world_.Register("rack-9", Box(8, 2));
  const JobId third = world_.SubmitJob(picky);
  EXPECT_THAT(world_.Try(Place{{third, 0}, {{other, 1, false}}, {}}), StatusIs(Code::kFailedPrecondition, HasSubstr("placement.nodes allows: rack-9")));
}

TEST_F(AdmitProviders, RequestIsLookedAtAgain) {
  const JobId job = world_.SubmitJob(Gpus(1));
  const auto request = [&](const std::string& name) { return world_.Try(RequestNode{{"cloud", name}, {job, 0}, {}}); };
  EXPECT_THAT(request("nothing"), StatusIs(Code::kNotFound, HasSubstr("cloud/nothing")));
  EXPECT_THAT(world_.Try(RequestNode{{"cloud", "sp"}, {99, 0}, {}}), StatusIs(Code::kFailedPrecondition, HasSubstr("does not wait")));
  Offer none = spot_;
  none.available = 0;
  world_.Do(OffersListed{"cloud", {none}});
  EXPECT_THAT(request("sp"), StatusIs(Code::kFailedPrecondition, HasSubstr("no capacity")));
  world_.Do(OffersListed{"cloud", {}});
  EXPECT_THAT(request("sp"), StatusIs(Code::kFailedPrecondition, HasSubstr("withdrawn")));
  world_.Do(OffersListed{"cloud", {spot_}});
  world_.Configure({Cloud("cloud", 1)});
  EXPECT_THAT(request("sp"), IsOk());
  EXPECT_THAT(request("sp"), StatusIs(Code::kFailedPrecondition, HasSubstr("max_nodes")));
  ProviderInfo frozen = Cloud();
  frozen.can_create = false;
  world_.Configure({frozen});
  EXPECT_THAT(request("sp"), StatusIs(Code::kFailedPrecondition, HasSubstr("creates no nodes")));
}

TEST_F(AdmitProviders, ListedCapacityShrinksWithEachRequest) {
  Offer two = spot_;
  two.available = 2;
  world_.Do(OffersListed{"cloud", {two}});
  for (int i = 0; i < 4; ++i) world_.SubmitJob(Gpus(1));
  EXPECT_THAT(Only<RequestNode>(world_.Turn()), SizeIs(2));
  EXPECT_EQ(offer().available, 0);
}

TEST_F(AdmitProviders, StopsOfStrangersAndFencesOfThePatientAreRefused) {
  EXPECT_THAT(world_.Try(StopAttempt{{9, 0, 1}, {}}), StatusIs(Code::kFailedPrecondition, HasSubstr("does not live")));
  EXPECT_THAT(world_.Try(FenceAttempt{{9, 0, 1}, 1, ""}), StatusIs(Code::kFailedPrecondition, HasSubstr("does not live")));
  Running();
  EXPECT_THAT(world_.Try(FenceAttempt{{job_, 0, 1}, world_.NodeOf({job_, 0, 1}), ""}), StatusIs(Code::kFailedPrecondition, HasSubstr("waits for the lease")));
}

}  // namespace
}  // namespace spillway::core
