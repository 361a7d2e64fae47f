#include "tests/simulation/bugs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace spillway::sim {
namespace {

const char kLivesOn[] = "is durable and it lives on", kAfterItsEnd[] = "after its end was durable", kWhile[] = " while ";
const char kNotEnded[] = "not everything has ended", kStandsStill[] = "stands still", kBillsOn[] = "bills on";
const char kLostThoughThere[] = "whose supervisor lives on";

// Three hours, two of them a storm: what shows at all shows in it.
const char kShortDay[] = "day_min=180,storms=0+120,jobs=8";

}  // namespace

const std::vector<Bug>& AllBugs() {
  static const std::vector<Bug> kBugs = {
      {"reply-before-commit",
       "replies and orders do not wait for their turn to be durable",
       [](Hooks* hooks) { hooks->reply_before_commit = true; },
       ",scheduler_dies/h=20,commit_ms_max=1000",
       {"is not durable", "without a durable offer", "needs a spec that was never stored"}},
      {"acks-early",
       "reports are acknowledged before they are durable",
       [](Hooks* hooks) { hooks->acks_early = true; },
       ",scheduler_dies/h=30,commit_ms_max=3000",
       {kNotEnded, kStandsStill, "the seal of", kLostThoughThere}},
      {"fencing-ignored",
       "a report of an old attempt counts for the living one",
       [](Hooks* hooks) { hooks->fencing_ignored = true; },
       ",link_cuts/h=8,cut_ms_max=900000,spot=1",
       {"which it never published so", "did not do its steps", "begin", kLivesOn, kAfterItsEnd}},
      {"stops-dropped", "nodes never hear of a stop", [](Hooks* hooks) { hooks->drop_stops = true; }, "", {kNotEnded, kStandsStill}},
      {"offers-dropped", "nodes do not hear of an offer within a session", [](Hooks* hooks) { hooks->drop_offers = true; }, "", {kNotEnded, kStandsStill}},
      {"seals-dropped", "no seal is answered", [](Hooks* hooks) { hooks->drop_seals = true; }, "", {kNotEnded, kStandsStill}},
      {"seals-blind", "a seal answers without a look into the store", [](Hooks* hooks) { hooks->seal_blindly = true; }, "", {"missed step"}},
      {"seals-take-damage",
       "a seal registers what is newest, whole or not",
       [](Hooks* hooks) { hooks->seal_takes_damaged = true; },
       ",damage/h=20,supervisor_dies/h=3",
       {"which is damaged"}},
      {"terminations-dropped", "instances are not ended", [](Hooks* hooks) { hooks->drop_terminates = true; }, "", {kNotEnded, kBillsOn}},
      {"termination-is-end",
       "an instance whose end was asked for counts as ended",
       [](Hooks* hooks) { hooks->terminate_is_end = true; },
       ",shutdown_ms_max=60000,link_cuts/h=8,cut_ms_max=600000,spot=1",
       {kLivesOn, kAfterItsEnd, kWhile, "stands in the books of"}},
      {"absence-is-end",
       "what a listing lacks counts as ended, however young it is",
       [](Hooks* hooks) { hooks->absent_is_gone = true; },
       ",list_lag_ms_max=40000,boot_ms_max=1000",
       {kLivesOn, kAfterItsEnd, kWhile, "stands in the books of"}},
      {"orphans-unseen",
       "instances that nobody knows are never seen",
       [](Hooks* hooks) { hooks->orphans_unseen = true; },
       ",strays/h=2",
       {"is nobody's and bills on", "nobody's books"}},
      {"orphans-late",
       "instances that nobody knows are seen after half an hour",
       [](Hooks* hooks) { hooks->orphans_late = true; },
       ",strays/h=2",
       {"is nobody's and bills on", "nobody's books"}},
      {"requests-renamed",
       "a repeated submission is a new one",
       [](Hooks* hooks) { hooks->new_request_ids = true; },
       ",asks_in_vain=0.5",
       {"was accepted twice"}},
      {"requests-forgotten",
       "a submission's id does not survive a restart",
       [](Hooks* hooks) { hooks->before_commit = [](store::Batch* batch) { batch->requests.clear(); }; },
       ",asks_in_vain=0.5,scheduler_dies/h=20",
       {"was accepted twice", "are not what the events give"}},
      {"charged-twice",
       "a second is charged twice",
       [](Hooks* hooks) {
         hooks->before_commit = [](store::Batch* batch) {
           for (core::Charge& charge : batch->charges) {
             if (charge.kind == "run" && charge.to_ms - charge.from_ms > 60'000) charge.from_ms -= 1'000;
           }
         };
       },
       "",
       {"but it was charged until"}},
      {"charge-dropped",
       "the last charge of an ended attempt is not written",
       [](Hooks* hooks) {
         hooks->before_commit = [](store::Batch* batch) {
           for (const core::Event& event : batch->events) {
             if (std::holds_alternative<core::AttemptEnded>(event) && !batch->charges.empty()) return batch->charges.pop_back();
           }
         };
       },
       "",
       {"follows charge", "its charges add up to"}},
      {"grace-forgotten",
       "a static node counts as lost before its lease is surely over",
       [](Hooks* hooks) { hooks->policy = [](core::Policy* policy) { policy->lease_grace_ms = -10'000; }; },
       ",link_cuts/h=8,cut_ms_max=1800000,lease_ms=120000,silence_ms=40000",
       {"its lease runs on", kLivesOn, kAfterItsEnd}},
      {"disk-not-synced",
       "a commit is told to the disk and not waited for",
       [](Hooks* hooks) { hooks->unsynced = true; },
       ",power_losses=1,scheduler_dies/h=20",
       {"became durable", "is not durable", "without a durable offer", "does not load", "does not open", "are not what"}},
      {"lease-from-receipt",
       "the lease is counted from when its acknowledgement came",
       [](Hooks* hooks) { hooks->node.lease_from_receipt = true; },
       ",link_flaps/h=12,cut_ms_max=1800000,lease_ms=120000,silence_ms=40000",
       {kLivesOn, kAfterItsEnd, "its lease runs on"}},
      {"lease-not-obeyed",
       "the supervisor lets attempts run on when the lease is over",
       [](Hooks* hooks) { hooks->node.lease_not_obeyed = true; },
       ",link_cuts/h=8,cut_ms_max=1800000,lease_ms=120000,silence_ms=40000",
       {kLivesOn, kAfterItsEnd, kWhile}},
      {"told-before-gone",
       "an attempt counts as ended when it was killed, not when it is gone",
       [](Hooks* hooks) { hooks->node.told_before_gone = true; },
       ",preempts/h=15",
       {kLivesOn, kWhile, "still holds it", "still lives"}},
      {"given-up-started",
       "what was given up while it was staged is started all the same",
       [](Hooks* hooks) { hooks->node.starts_given_up = true; },
       ",staging_ms_max=60000,cancels/h=6,preempts/h=15",
       {kAfterItsEnd, "began a second time", "still holds it"}},
      {"reports-not-saved",
       "a worker's numbered reports do not outlive it",
       [](Hooks* hooks) { hooks->node.reports_not_saved = true; },
       ",worker_dies/h=6,link_cuts/h=8",
       {kNotEnded, kStandsStill, "missed step", "was sealed", kLostThoughThere}},
      {"events-acked-early",
       "the supervisor's events are acked before what follows from them is saved",
       [](Hooks* hooks) { hooks->node.events_acked_early = true; },
       ",worker_dies=0.003,worker_dies/h=6",
       {kNotEnded, kStandsStill, "began a second time", kLostThoughThere}},
  };
  return kBugs;
}

namespace {

std::vector<Bug>& Found() {
  static std::vector<Bug> all = AllBugs();
  return all;
}

}  // namespace

void AddToFind(const std::vector<Bug>& more) { Found().insert(Found().end(), more.begin(), more.end()); }

const Bug* FindBug(const std::string& name) {
  for (const Bug& bug : Found()) {
    if (name == bug.name) return &bug;
  }
  return nullptr;
}

RunSetup SetupOf(const Bug& bug) {
  RunSetup setup;
  bug.plant(&setup.hooks);
  setup.bias = [&bug](FaultPlan* plan) { CHECK(plan->Read(absl::StrCat(kShortDay, bug.weather)).ok()) << bug.name; };
  setup.flags = absl::StrCat("--bug=", bug.name);
  return setup;
}

std::string WhyNotCaught(const Bug& bug, int64_t seeds_max) {
  // In a process of its own, and so is whatever it leaves awake.
  const std::string said = RunApart([&] { return RunSeeds(1, seeds_max, SetupOf(bug), 1, false).report; });
  if (said.empty()) return absl::StrCat(bug.what, ", and ", seeds_max, " seeds did not notice");
  const auto names_it = [&](const char* broken) { return said.find(broken) != std::string::npos; };
  if (std::any_of(bug.breaks.begin(), bug.breaks.end(), names_it)) return "";
  return absl::StrCat(bug.what, ", and another promise broke: ", said);
}

std::string TestNameOf(const ::testing::TestParamInfo<Bug>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void PrintTo(const Bug& bug, std::ostream* out) { *out << bug.name; }

}  // namespace spillway::sim
