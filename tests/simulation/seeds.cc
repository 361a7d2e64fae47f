#include "tests/simulation/seeds.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <cstdio>

#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

char last_words[256];

void OnAbort(int) {
  (void)!write(STDERR_FILENO, last_words, strlen(last_words));
  signal(SIGABRT, SIG_DFL);
  raise(SIGABRT);
}

}  // namespace

std::string HowToRepeat(uint64_t seed) { return absl::StrCat("build/tests/simulation_test --seed=", seed, " --trace"); }

void SaySeedOnAbort(uint64_t seed) {
  snprintf(last_words, sizeof last_words, "seed %llu died. Repeat with: %s\n", static_cast<unsigned long long>(seed), HowToRepeat(seed).c_str());
  signal(SIGABRT, OnAbort);
}

SeedsResult RunSeeds(uint64_t first, int64_t count, const Hooks& hooks, int64_t failures_max, bool dots) {
  SeedsResult all;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count) && all.failed < failures_max; ++seed) {
    SaySeedOnAbort(seed);
    SimOptions options;
    options.seed = seed;
    options.hooks = hooks;
    const SimResult result = RunWatched(std::move(options));
    ++all.seeds;
    all.jobs += result.jobs;
    all.turns += result.turns;
    all.steps += result.steps;
    all.simulated_ms += result.simulated_ms;
    for (const auto& [situation, times] : result.reached) all.reached[situation] += times;
    if (!result.failure.empty()) {
      if (all.failed++ == 0) all.first_failed = seed;
      absl::StrAppend(&all.report, "seed ", seed, " broke a promise ", result.failure, "\n  repeat with: ", HowToRepeat(seed), "\n  ", result.plan, "\n");
    }
    if (dots)
      fprintf(stderr, "seed %llu: %s, %lld jobs, %lld turns, %lld steps, %.1f h\n", static_cast<unsigned long long>(seed),
              result.failure.empty() ? "ok" : "BROKEN", static_cast<long long>(result.jobs), static_cast<long long>(result.turns),
              static_cast<long long>(result.steps), static_cast<double>(result.simulated_ms) / 3.6e6);
  }
  signal(SIGABRT, SIG_DFL);
  return all;
}

}  // namespace spillway::sim
