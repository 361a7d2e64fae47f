// How hostile the world is, for a day: storms that alternate with lulls. Faults: chances that the parts ask for as they go; Rates: disasters per hour
// that the injector brings (fault_injector.h). Both hold while a storm lasts; in a lull the world is calm and what mends is mended.
//
// Drawn from the seed, swarm-wise: each seed gets a random few, at random strengths, so that rare combinations are as likely as common ones.
// A plan is also a text ("latency_ms_max=420,lost=0.2,storms=30+45"): what is not said is calm. A failing seed's plan is made smaller in that form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/rng.h"
#include "scheduler/core/core.h"

namespace spillway::sim {

// A calm world: everything works, nothing takes long.
struct Faults {
  // Network: a frame takes 1 .. latency_ms_max; a stream's frame may come twice, late (after younger ones), or never.
  int64_t latency_ms_max = 20;
  double duplicated = 0, reordered = 0, lost = 0;
  // Nodes.
  double worker_dies = 0;  // at each output
  double staging_fails = 0, launch_fails = 0;
  int64_t staging_ms_max = 500;
  double late_write = 0;  // a checkpoint cut off by its writer's death lands all the same, later
  double look_fails = 0;  // the store does not answer a question
  // Cloud.
  bool reclaims = false;  // the spot market takes machines back
  double refuses = 0, throttles = 0, request_lost = 0, reply_lost = 0, never_boots = 0, bill_unknown = 0;
  double twins = 0;         // a request makes two machines of one name
  double list_omits = 0;    // a listing lacks a machine that lives (each with this chance)
  double list_revives = 0;  // a listing shows a machine alive that has ended (each)
  int64_t api_ms_max = 300, boot_ms_max = 40'000, shutdown_ms_max = 2'000, list_lag_ms_max = 0;
  // Users: a request or its answer is lost.
  double asks_in_vain = 0;
  // Scheduler.
  int64_t commit_ms_max = 2;
};

struct Rates {  // per hour; of each node or of the whole
  double stream_breaks = 0, link_cuts = 0, link_flaps = 0, machine_dies = 0, worker_dies = 0, worker_pauses = 0, supervisor_dies = 0, machine_freezes = 0;
  double disk_lost = 0;  // a share of machine deaths
  double all_links_cut = 0, swizzles = 0, store_cut = 0, damage = 0, cloud_cut = 0, strays = 0;
  double scheduler_dies = 0, engine_stalls = 0, disk_full = 0, clock_set = 0;
  double drains = 0, preempts = 0, cancels = 0, pauses = 0, updates = 0;
  int64_t cut_ms_max = 60'000, outage_ms_max = 30'000, freeze_ms_max = 60'000, pause_ms_max = 30'000, stall_ms_max = 30'000;
};

// Minutes after the day began.
struct Storm {
  int64_t begin_min = 0, minutes = 0;
  bool operator==(const Storm&) const = default;
};

struct FaultPlan {
  Faults faults;
  Rates rates;
  std::vector<Storm> storms;  // in order, apart
  int64_t day_min = 60;       // jobs are submitted until then; what is left must come to its end in the calm that follows
  int64_t rate_ppm_max = 0;   // of machines' clocks
  bool power_losses = false;  // the scheduler's disk forgets what was not synced, with torn writes; else only its process dies
  int64_t static_nodes = 3;
  int64_t jobs = 5;        // so many are kept under way in a storm, and a third of them in a lull
  int64_t jobs_max = 400;  // of the day
  bool spot = false, lingering_notice = false;
  int64_t spot_mean_ms = 3'600'000;
  core::Policy policy;

  static FaultPlan Draw(uint64_t seed);
  // Every number of a plan with its name and what it is in a calm world: visit(name, value, calm) with int64_t*, double* or bool* (storms apart).
  template <typename Visit>
  void EachNumber(Visit&& visit);

  std::string ToText() const;
  // Takes over what the text says, the rest stays. INVALID_ARGUMENT names the word at fault and the nearest name there is.
  absl::Status Read(absl::string_view text);
};

template <typename Visit>
void FaultPlan::EachNumber(Visit&& visit) {
  static const FaultPlan kCalm;
  const auto fault = [&](const char* name, auto member) { visit(name, &(faults.*member), kCalm.faults.*member); };
  const auto rate = [&](const char* name, auto member) { visit(name, &(rates.*member), kCalm.rates.*member); };
  const auto number = [&](const char* name, auto member) { visit(name, &(this->*member), kCalm.*member); };
  const auto policy_of = [&](const char* name, auto member) { visit(name, &(policy.*member), kCalm.policy.*member); };

  fault("latency_ms_max", &Faults::latency_ms_max), fault("duplicated", &Faults::duplicated);
  fault("reordered", &Faults::reordered), fault("lost", &Faults::lost);
  fault("worker_dies", &Faults::worker_dies), fault("staging_fails", &Faults::staging_fails);
  fault("launch_fails", &Faults::launch_fails), fault("staging_ms_max", &Faults::staging_ms_max);
  fault("late_write", &Faults::late_write), fault("look_fails", &Faults::look_fails);
  fault("reclaims", &Faults::reclaims), fault("refuses", &Faults::refuses);
  fault("throttles", &Faults::throttles), fault("request_lost", &Faults::request_lost);
  fault("reply_lost", &Faults::reply_lost), fault("never_boots", &Faults::never_boots);
  fault("bill_unknown", &Faults::bill_unknown), fault("twins", &Faults::twins);
  fault("list_omits", &Faults::list_omits), fault("list_revives", &Faults::list_revives);
  fault("api_ms_max", &Faults::api_ms_max), fault("boot_ms_max", &Faults::boot_ms_max);
  fault("shutdown_ms_max", &Faults::shutdown_ms_max), fault("list_lag_ms_max", &Faults::list_lag_ms_max);
  fault("asks_in_vain", &Faults::asks_in_vain), fault("commit_ms_max", &Faults::commit_ms_max);

  rate("stream_breaks/h", &Rates::stream_breaks), rate("link_cuts/h", &Rates::link_cuts);
  rate("link_flaps/h", &Rates::link_flaps), rate("machine_dies/h", &Rates::machine_dies);
  rate("worker_dies/h", &Rates::worker_dies), rate("worker_pauses/h", &Rates::worker_pauses);
  rate("supervisor_dies/h", &Rates::supervisor_dies), rate("machine_freezes/h", &Rates::machine_freezes);
  rate("disk_lost", &Rates::disk_lost), rate("all_links_cut/h", &Rates::all_links_cut);
  rate("swizzles/h", &Rates::swizzles), rate("store_cut/h", &Rates::store_cut);
  rate("damage/h", &Rates::damage), rate("cloud_cut/h", &Rates::cloud_cut);
  rate("strays/h", &Rates::strays), rate("scheduler_dies/h", &Rates::scheduler_dies);
  rate("engine_stalls/h", &Rates::engine_stalls), rate("disk_full/h", &Rates::disk_full);
  rate("clock_set/h", &Rates::clock_set), rate("drains/h", &Rates::drains);
  rate("preempts/h", &Rates::preempts), rate("cancels/h", &Rates::cancels);
  rate("pauses/h", &Rates::pauses), rate("updates/h", &Rates::updates);
  rate("cut_ms_max", &Rates::cut_ms_max), rate("outage_ms_max", &Rates::outage_ms_max);
  rate("freeze_ms_max", &Rates::freeze_ms_max), rate("pause_ms_max", &Rates::pause_ms_max);
  rate("stall_ms_max", &Rates::stall_ms_max);

  number("day_min", &FaultPlan::day_min), number("rate_ppm_max", &FaultPlan::rate_ppm_max);
  number("power_losses", &FaultPlan::power_losses), number("static_nodes", &FaultPlan::static_nodes);
  number("jobs", &FaultPlan::jobs), number("jobs_max", &FaultPlan::jobs_max);
  number("spot", &FaultPlan::spot), number("lingering_notice", &FaultPlan::lingering_notice);
  number("spot_mean_ms", &FaultPlan::spot_mean_ms);
  policy_of("lease_ms", &core::Policy::lease_ms), policy_of("silence_ms", &core::Policy::silence_ms);
  policy_of("renew_every_ms", &core::Policy::renew_every_ms);
}

}  // namespace spillway::sim
