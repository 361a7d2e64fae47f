#include "sim/faults.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace spillway::sim {
namespace {

// Half of the swarm goes without; the rest gets a strength between low and high, small ones as likely as large ones.
class Swarm {
 public:
  explicit Swarm(uint64_t seed) : rng_(seed) {}
  bool Coin(double chance = 0.5) { return rng_.Chance(chance); }
  double Chance(double low, double high) { return Coin() ? Log(low, high) : 0; }
  int64_t Ms(int64_t calm, int64_t low, int64_t high) { return Coin() ? static_cast<int64_t>(Log(static_cast<double>(low), static_cast<double>(high))) : calm; }
  int64_t Between(int64_t low, int64_t high) { return rng_.Between(low, high); }

 private:
  double Log(double low, double high) { return low * std::pow(high / low, rng_.Unit()); }
  Rng rng_;
};

}  // namespace

FaultPlan FaultPlan::Draw(uint64_t seed) {
  Swarm swarm(Rng(seed).Fork(1).Next());
  FaultPlan plan;
  plan.storm_ms = swarm.Between(60, 240) * 60'000;

  Faults& f = plan.faults;
  f.latency_ms_max = swarm.Ms(20, 50, 8'000);
  f.reclaims = true;
  f.asks_in_vain = swarm.Chance(0.05, 0.6);
  f.duplicated = swarm.Chance(0.01, 0.4);
  f.worker_dies = swarm.Chance(0.0001, 0.003);
  f.staging_fails = swarm.Chance(0.01, 0.3);
  f.launch_fails = swarm.Chance(0.01, 0.2);
  f.staging_ms_max = swarm.Ms(500, 1'000, 60'000);
  f.late_write = swarm.Chance(0.1, 1.0);
  f.look_fails = swarm.Chance(0.01, 0.5);
  f.refuses = swarm.Chance(0.05, 0.7);
  f.throttles = swarm.Chance(0.02, 0.4);
  f.request_lost = swarm.Chance(0.02, 0.3);
  f.reply_lost = swarm.Chance(0.02, 0.3);
  f.never_boots = swarm.Chance(0.05, 0.4);
  f.bill_unknown = swarm.Chance(0.1, 1.0);
  f.api_ms_max = swarm.Ms(300, 500, 10'000);
  f.boot_ms_max = swarm.Ms(40'000, 60'000, 500'000);
  f.shutdown_ms_max = swarm.Ms(2'000, 5'000, 90'000);
  f.list_lag_ms_max = swarm.Ms(0, 1'000, 40'000);
  f.commit_ms_max = swarm.Ms(2, 5, 3'000);

  Rates& r = plan.rates;
  r.stream_breaks = swarm.Chance(0.5, 20);
  r.link_cuts = swarm.Chance(0.3, 8);
  r.machine_dies = swarm.Chance(0.1, 2);
  r.worker_dies = swarm.Chance(0.2, 6);
  r.supervisor_dies = swarm.Chance(0.1, 3);
  r.machine_freezes = swarm.Coin(0.3) ? swarm.Chance(0.1, 3) : 0;
  r.disk_lost = swarm.Chance(0.1, 0.8);  // a share of machine deaths
  r.all_links_cut = swarm.Chance(0.1, 2);
  r.store_cut = swarm.Chance(0.2, 4);
  r.damage = swarm.Coin(0.4) ? swarm.Chance(0.5, 20) : 0;
  r.cloud_cut = swarm.Chance(0.2, 3);
  r.strays = swarm.Coin(0.4) ? swarm.Chance(0.1, 2) : 0;
  r.scheduler_dies = swarm.Chance(0.5, 30);
  r.engine_stalls = swarm.Chance(0.2, 6);
  r.disk_full = swarm.Chance(0.1, 3);
  r.clock_set = swarm.Coin(0.3) ? swarm.Chance(0.1, 1) : 0;
  r.drains = swarm.Chance(0.2, 3);
  r.preempts = swarm.Chance(0.5, 15);
  r.cancels = swarm.Chance(0.2, 6);
  r.cut_ms_max = swarm.Ms(60'000, 5'000, 1'800'000);
  r.outage_ms_max = swarm.Ms(5'000, 1'000, 1'500'000);
  r.freeze_ms_max = swarm.Ms(60'000, 1'000, 1'800'000);
  r.stall_ms_max = swarm.Ms(5'000, 1'000, 120'000);

  plan.rate_ppm_max = swarm.Coin() ? swarm.Between(100, 5'000) : 0;
  plan.power_losses = swarm.Coin(0.4);
  plan.static_nodes = swarm.Between(1, 5);
  plan.jobs = swarm.Between(6, 24);
  plan.spot = swarm.Coin(0.8);
  plan.lingering_notice = swarm.Coin(0.2);
  plan.spot_mean_ms = swarm.Ms(3'600'000, 300'000, 7'200'000);
  if (swarm.Coin(0.3)) {
    // A short lease: more of them lapse.
    plan.policy.lease_ms = swarm.Between(120, 300) * 1'000;
    plan.policy.silence_ms = 40'000;
  }
  return plan;
}

std::string FaultPlan::ToString() const {
  std::string text = absl::StrCat("storm ", storm_ms / 60'000, " min, ", static_nodes, " static nodes, ", jobs, " jobs, lease ", policy.lease_ms / 1'000, " s");
  const auto add = [&](const char* name, double value) {
    if (value > 0) absl::StrAppend(&text, ", ", name, " ", value);
  };
  const Faults& f = faults;
  add("latency_ms_max", static_cast<double>(f.latency_ms_max)), add("duplicated", f.duplicated), add("worker_dies", f.worker_dies),
      add("staging_fails", f.staging_fails);
  add("launch_fails", f.launch_fails), add("late_write", f.late_write), add("look_fails", f.look_fails), add("refuses", f.refuses),
      add("throttles", f.throttles);
  add("request_lost", f.request_lost), add("reply_lost", f.reply_lost), add("never_boots", f.never_boots),
      add("list_lag_ms_max", static_cast<double>(f.list_lag_ms_max));
  add("commit_ms_max", static_cast<double>(f.commit_ms_max));
  const Rates& r = rates;
  add("stream_breaks/h", r.stream_breaks), add("link_cuts/h", r.link_cuts), add("machine_dies/h", r.machine_dies), add("worker_dies/h", r.worker_dies);
  add("supervisor_dies/h", r.supervisor_dies), add("machine_freezes/h", r.machine_freezes), add("all_links_cut/h", r.all_links_cut),
      add("store_cut/h", r.store_cut);
  add("damage/h", r.damage), add("cloud_cut/h", r.cloud_cut), add("strays/h", r.strays), add("scheduler_dies/h", r.scheduler_dies),
      add("engine_stalls/h", r.engine_stalls);
  add("disk_full/h", r.disk_full), add("clock_set/h", r.clock_set), add("drains/h", r.drains), add("preempts/h", r.preempts), add("cancels/h", r.cancels);
  add("rate_ppm_max", static_cast<double>(rate_ppm_max)), add("power_losses", power_losses ? 1 : 0);
  return text;
}

}  // namespace spillway::sim
