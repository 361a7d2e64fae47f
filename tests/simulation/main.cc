// The tests of the simulation, and the simulation by hand:
//   simulation_test --seed=S [--trace]          one seed; with its trace
//   simulation_test --seeds=N [--first=F]       N seeds from F on; exit code 1 when one breaks a promise
// Anything else is GoogleTest's.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "tests/simulation/seeds.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

int RunOne(uint64_t seed, bool traced) {
  SaySeedOnAbort(seed);
  std::string trace;
  SimOptions options;
  options.seed = seed;
  options.trace = traced ? &trace : nullptr;
  const SimResult result = RunWatched(std::move(options));
  fputs(trace.c_str(), stdout);
  for (const auto& [situation, times] : result.reached) printf("%8lld  %s\n", static_cast<long long>(times), situation.c_str());
  printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), result.plan.c_str());
  printf("%lld jobs, %lld turns, %lld steps, %.2f simulated hours, chain %s\n", static_cast<long long>(result.jobs), static_cast<long long>(result.turns),
         static_cast<long long>(result.steps), static_cast<double>(result.simulated_ms) / 3.6e6, result.chain_hash.c_str());
  printf("%s\n", result.failure.empty() ? "every promise held" : ("BROKEN " + result.failure).c_str());
  return result.failure.empty() ? 0 : 1;
}

int RunMany(uint64_t first, int64_t count) {
  const SeedsResult all = RunSeeds(first, count, Hooks(), 10, true);
  for (const auto& [situation, times] : all.reached) printf("%8lld  %s\n", static_cast<long long>(times), situation.c_str());
  printf("%s%lld seeds, %lld broke a promise; %lld jobs, %lld turns, %.0f simulated hours\n", all.report.c_str(), static_cast<long long>(all.seeds),
         static_cast<long long>(all.failed), static_cast<long long>(all.jobs), static_cast<long long>(all.turns),
         static_cast<double>(all.simulated_ms) / 3.6e6);
  return all.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace spillway::sim

int main(int argc, char** argv) {
  spillway::SetLogLevel(spillway::LogLevel::kError);  // a storm makes thousands of warnings; traces say more
  int64_t seed = -1, seeds = -1, first = 1;
  bool traced = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    const auto number = [&](absl::string_view prefix, int64_t* into) { return absl::ConsumePrefix(&word, prefix) && absl::SimpleAtoi(word, into); };
    if (absl::string_view(argv[i]) == "--trace")
      traced = true;
    else if (number("--seed=", &seed) || number("--seeds=", &seeds) || number("--first=", &first))
      continue;
  }
  if (seed >= 0) return spillway::sim::RunOne(static_cast<uint64_t>(seed), traced);
  if (seeds >= 0) return spillway::sim::RunMany(static_cast<uint64_t>(first), seeds);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
