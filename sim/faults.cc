#include "sim/faults.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/text.h"

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
  // Three digits, so that a plan's text says all there is.
  double Log(double low, double high) { return std::strtod(absl::StrFormat("%.3g", low * std::pow(high / low, rng_.Unit())).c_str(), nullptr); }
  Rng rng_;
};

// A storm somewhere in each equal part of the day, so that lulls lie between them.
std::vector<Storm> DrawStorms(Swarm* swarm, int64_t day_min) {
  std::vector<Storm> storms;
  const int64_t count = swarm->Between(3, 6), part_min = day_min / count;
  for (int64_t i = 0; i < count; ++i) {
    Storm storm;
    storm.minutes = swarm->Between(10, 60);
    storm.begin_min = i * part_min + swarm->Between(i == 0 ? 0 : 5, part_min - storm.minutes - 5);
    storms.push_back(storm);
  }
  return storms;
}

}  // namespace

FaultPlan FaultPlan::Draw(uint64_t seed) {
  Swarm swarm(Rng(seed).Fork(1).Next());
  FaultPlan plan;
  plan.day_min = 24 * 60;
  plan.storms = DrawStorms(&swarm, plan.day_min);

  Faults& f = plan.faults;
  f.latency_ms_max = swarm.Ms(20, 50, 8'000);
  f.duplicated = swarm.Chance(0.01, 0.5);
  f.reordered = swarm.Chance(0.01, 0.3);
  f.lost = swarm.Chance(0.005, 0.3);
  f.reclaims = true;
  f.asks_in_vain = swarm.Chance(0.05, 0.6);
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
  f.twins = swarm.Coin() ? swarm.Chance(0.02, 0.3) : 0;
  f.list_omits = swarm.Coin(0.3) ? swarm.Chance(0.001, 0.05) : 0;
  f.list_revives = swarm.Coin() ? swarm.Chance(0.01, 0.5) : 0;
  f.api_ms_max = swarm.Ms(300, 500, 10'000);
  f.boot_ms_max = swarm.Ms(40'000, 60'000, 500'000);
  f.shutdown_ms_max = swarm.Ms(2'000, 5'000, 90'000);
  f.list_lag_ms_max = swarm.Ms(0, 1'000, 40'000);
  f.commit_ms_max = swarm.Ms(2, 5, 3'000);

  Rates& r = plan.rates;
  r.stream_breaks = swarm.Chance(0.5, 20);
  r.link_cuts = swarm.Chance(0.3, 8);
  r.link_flaps = swarm.Chance(0.1, 3);
  r.machine_dies = swarm.Chance(0.1, 2);
  r.worker_dies = swarm.Chance(0.2, 6);
  r.worker_pauses = swarm.Chance(0.2, 6);
  r.supervisor_dies = swarm.Chance(0.1, 3);
  r.machine_freezes = swarm.Coin(0.3) ? swarm.Chance(0.1, 3) : 0;
  r.disk_lost = swarm.Chance(0.1, 0.5);
  r.all_links_cut = swarm.Chance(0.1, 2);
  r.swizzles = swarm.Chance(0.2, 3);
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
  r.outage_ms_max = swarm.Ms(5'000, 1'000, swarm.Coin(0.2) ? 7'200'000 : 1'500'000);
  r.freeze_ms_max = swarm.Ms(60'000, 1'000, 1'800'000);
  r.pause_ms_max = swarm.Ms(30'000, 1'000, 900'000);
  r.stall_ms_max = swarm.Ms(5'000, 1'000, 120'000);

  plan.rate_ppm_max = swarm.Coin() ? swarm.Between(100, 10'000) : 0;
  plan.power_losses = swarm.Coin(0.4);
  plan.static_nodes = swarm.Between(1, 5);
  plan.jobs = swarm.Between(3, 12);
  plan.spot = swarm.Coin(0.8);
  plan.lingering_notice = swarm.Coin(0.2);
  plan.spot_mean_ms = swarm.Ms(3'600'000, 300'000, 7'200'000);
  if (swarm.Coin(0.3)) {
    // A short lease: more of them lapse.
    plan.policy.lease_ms = swarm.Between(120, 300) * 1'000;
    plan.policy.silence_ms = 40'000;
  }
  r.pauses = swarm.Chance(0.2, 6);
  r.updates = swarm.Chance(0.5, 15);
  return plan;
}

// ---- as text ----

namespace {

// Appends "name=value" where it is not calm.
struct Writer {
  std::string* text;
  template <typename T>
  void operator()(const char* name, const T* value, const T& calm) {
    if (*value == calm) return;
    if constexpr (std::is_same_v<T, double>) {
      Append(name, absl::StrFormat("%.3g", *value));
    } else {
      Append(name, absl::StrCat(static_cast<int64_t>(*value)));
    }
  }
  void Append(const char* name, const std::string& value) { absl::StrAppend(text, text->empty() ? "" : ",", name, "=", value); }
};

struct Setter {
  absl::string_view name, value;
  std::vector<std::string>* names;
  bool found = false, good = false;
  template <typename T>
  void operator()(const char* known, T* into, const T&) {
    names->push_back(known);
    if (name != known) return;
    found = true;
    if constexpr (std::is_same_v<T, double>) {
      good = absl::SimpleAtod(value, into) && *into >= 0;
    } else if constexpr (std::is_same_v<T, bool>) {
      good = value == "0" || value == "1";
      *into = value == "1";
    } else {
      good = absl::SimpleAtoi(value, into) && *into >= 0;
    }
  }
};

bool ParseStorm(absl::string_view text, Storm* storm) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('+', 1));
  return absl::SimpleAtoi(parts.first, &storm->begin_min) && absl::SimpleAtoi(parts.second, &storm->minutes) && storm->begin_min >= 0 && storm->minutes > 0;
}

}  // namespace

std::string FaultPlan::ToText() const {
  std::string text;
  FaultPlan copy = *this;
  copy.EachNumber(Writer{&text});
  if (storms.empty()) return text;
  absl::StrAppend(&text, text.empty() ? "" : ",", "storms=");
  for (size_t i = 0; i < storms.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : "/", storms[i].begin_min, "+", storms[i].minutes);
  return text;
}

absl::Status FaultPlan::Read(absl::string_view text) {
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
    const auto bad = [&](absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat("plan: ", word, ": ", why)); };
    if (parts.first == "storms") {
      storms.clear();
      for (const absl::string_view one : absl::StrSplit(parts.second, '/', absl::SkipEmpty())) {
        Storm storm;
        if (!ParseStorm(one, &storm)) return bad("a storm is BEGIN+MINUTES");
        if (!storms.empty() && storm.begin_min < storms.back().begin_min + storms.back().minutes) return bad("storms come one after the other");
        storms.push_back(storm);
      }
      continue;
    }
    std::vector<std::string> names;
    Setter setter{parts.first, parts.second, &names};
    EachNumber(setter);
    if (setter.found && !setter.good) return bad("not such a value");
    if (setter.found) continue;
    names.push_back("storms");
    const std::string nearest = NearestName(parts.first, names);
    return bad(nearest.empty() ? "no such name" : absl::StrCat("no such name; did you mean ", nearest, "?"));
  }
  if (!storms.empty() && storms.back().begin_min + storms.back().minutes > day_min) {
    return absl::InvalidArgumentError("plan: storms: the last one ends after the day (day_min)");
  }
  return absl::OkStatus();
}

}  // namespace spillway::sim
