#include "tests/simulation/shrink.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/simulation/seeds.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

// Numbers that are no faults: the size of the world, made smaller in its own way.
bool IsSize(absl::string_view name) { return name == "day_min" || name == "static_nodes" || name == "jobs" || name == "jobs_max"; }

std::vector<std::string> NamesOfFaults(FaultPlan plan) {
  std::vector<std::string> names;
  plan.EachNumber([&](const char* name, const auto* value, const auto& calm) {
    if (!IsSize(name) && *value != calm) names.push_back(name);
  });
  return names;
}

FaultPlan Without(FaultPlan plan, const std::set<std::string>& names) {
  plan.EachNumber([&](const char* name, auto* value, const auto& calm) {
    if (names.count(name) > 0) *value = calm;
  });
  return plan;
}

class Shrinker {
 public:
  Shrinker(Shrunk begin, int64_t tries_max, const std::function<Trial(const FaultPlan&)>& run) : best_(std::move(begin)), tries_max_(tries_max), run_(run) {}

  Shrunk Run() {
    CutTheDay();
    for (bool smaller = true; smaller && best_.tries < tries_max_;) {
      smaller = DropFaults();
      smaller = DropStorms() || smaller;
      smaller = ShortenStorms() || smaller;
      smaller = ShrinkTheWorld() || smaller;
    }
    return std::move(best_);
  }

 private:
  bool Try(const FaultPlan& plan) {
    if (best_.tries >= tries_max_) return false;
    ++best_.tries;
    Trial trial = run_(plan);
    if (trial.failure.empty()) return false;
    best_.plan = plan;
    best_.trial = std::move(trial);
    CutTheDay();
    return true;
  }

  // What would have come after the failure had no part in it.
  void CutTheDay() {
    if (best_.trial.failed_ms <= 0) return;
    const int64_t failed_min = best_.trial.failed_ms / 60'000 + 1;
    FaultPlan& plan = best_.plan;
    if (failed_min >= plan.day_min) return;
    plan.day_min = failed_min;
    std::vector<Storm> storms;
    for (Storm storm : plan.storms) {
      storm.minutes = std::min(storm.minutes, failed_min - storm.begin_min);
      if (storm.minutes > 0) storms.push_back(storm);
    }
    plan.storms = std::move(storms);
  }

  // Halves, quarters, ... , one by one.
  bool DropFaults() {
    bool dropped = false;
    std::vector<std::string> names = NamesOfFaults(best_.plan);
    for (size_t part = (names.size() + 1) / 2; part > 0; part = part == 1 ? 0 : (part + 1) / 2) {
      for (size_t at = 0; at < names.size();) {
        const size_t end = std::min(names.size(), at + part);
        if (Try(Without(best_.plan, {names.begin() + static_cast<long>(at), names.begin() + static_cast<long>(end)}))) {
          dropped = true;
          names.erase(names.begin() + static_cast<long>(at), names.begin() + static_cast<long>(end));
        } else {
          at = end;
        }
      }
    }
    return dropped;
  }

  bool DropStorms() {
    bool dropped = false;
    for (size_t i = 0; i < best_.plan.storms.size();) {
      FaultPlan plan = best_.plan;
      plan.storms.erase(plan.storms.begin() + static_cast<long>(i));
      if (Try(plan)) {
        dropped = true;
      } else {
        ++i;
      }
    }
    return dropped;
  }

  bool ShortenStorms() {
    bool shortened = false;
    for (size_t i = 0; i < best_.plan.storms.size(); ++i) {
      while (i < best_.plan.storms.size() && best_.plan.storms[i].minutes > 1) {
        FaultPlan plan = best_.plan, later = best_.plan;
        Storm& storm = plan.storms[i];
        storm.minutes /= 2;
        Storm& late = later.storms[i];
        late.begin_min += late.minutes - late.minutes / 2;
        late.minutes /= 2;
        if (!Try(plan) && !Try(later)) break;
        shortened = true;
      }
    }
    return shortened;
  }

  bool ShrinkTheWorld() {
    bool smaller = false;
    const auto halve = [&](int64_t FaultPlan::*size, int64_t least) {
      while (best_.plan.*size > least) {
        FaultPlan plan = best_.plan;
        plan.*size = std::max(least, plan.*size / 2);
        if (!Try(plan)) return;
        smaller = true;
      }
    };
    const int64_t storms_end = best_.plan.storms.empty() ? 1 : best_.plan.storms.back().begin_min + best_.plan.storms.back().minutes;
    halve(&FaultPlan::day_min, storms_end);
    halve(&FaultPlan::static_nodes, 1);
    halve(&FaultPlan::jobs, 1);
    halve(&FaultPlan::jobs_max, 1);
    return smaller;
  }

  Shrunk best_;
  const int64_t tries_max_;
  const std::function<Trial(const FaultPlan&)>& run_;
};

}  // namespace

Shrunk Shrink(FaultPlan plan, Trial trial, int64_t tries_max, const std::function<Trial(const FaultPlan&)>& run) {
  return Shrinker({std::move(plan), std::move(trial), 0}, tries_max, run).Run();
}

Trial RunPlan(uint64_t seed, const FaultPlan& plan, const Hooks& hooks) {
  const std::string said = RunApart([&] {
    SimOptions options;
    options.seed = seed;
    options.plan = plan;
    options.hooks = hooks;
    const SimResult result = RunWatched(std::move(options));
    return absl::StrCat(result.failed_ms, " ", result.failure);
  });
  if (said == kDiedOfAssertion) return {said, 0};
  const std::pair<std::string, std::string> parts = absl::StrSplit(said, absl::MaxSplits(' ', 1));
  Trial trial{parts.second, 0};
  if (!absl::SimpleAtoi(parts.first, &trial.failed_ms)) trial.failure = said;
  return trial;
}

int64_t FaultsIn(const FaultPlan& plan) { return static_cast<int64_t>(NamesOfFaults(plan).size()); }

}  // namespace spillway::sim
