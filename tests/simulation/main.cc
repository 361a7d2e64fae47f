// The tests of the simulation, and the simulation by hand:
//   simulation_test --seed=S [--trace]          one seed; with its trace
//   simulation_test --seeds=N [--first=F]       N seeds from F on; exit code 1 when one breaks a promise
//   simulation_test --shrink --seed=S           a failing seed's plan made as small as it goes, and the command that repeats it
// each with [--plan=TEXT] instead of the plan that the seed draws, or [--over=TEXT] over it (sim/faults.h), and [--bug=NAME] for a planted one.
// Anything else is GoogleTest's.
#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/text.h"
#include "tests/simulation/bugs.h"
#include "tests/simulation/shrink.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

constexpr int64_t kShrinkTriesMax = 1'000;

struct Flags {
  int64_t seed = -1, seeds = -1, first = 1;
  bool trace = false, shrink = false, help = false;
  std::optional<std::string> plan;
  std::string over, bug;
};

SimOptions OptionsOf(uint64_t seed, const RunSetup& setup) {
  SimOptions options;
  options.seed = seed;
  options.hooks = setup.hooks;
  options.bias = setup.bias;
  return options;
}

int RunOne(uint64_t seed, const RunSetup& setup, bool traced) {
  SaySeedOnAbort(seed, setup.flags);
  std::string trace;
  SimOptions options = OptionsOf(seed, setup);
  options.trace = traced ? &trace : nullptr;
  const SimResult result = RunWatched(std::move(options));
  fputs(trace.c_str(), stdout);
  for (const auto& [situation, times] : result.reached) printf("%8lld  %s\n", static_cast<long long>(times), situation.c_str());
  printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), result.plan.ToText().c_str());
  printf("%lld jobs, %lld turns, %lld steps, %.2f simulated hours, chain %s\n", static_cast<long long>(result.jobs), static_cast<long long>(result.turns),
         static_cast<long long>(result.steps), static_cast<double>(result.simulated_ms) / 3.6e6, result.chain_hash.c_str());
  printf("%s\n", result.failure.empty() ? "every promise held" : ("BROKEN " + result.failure).c_str());
  return result.failure.empty() ? 0 : 1;
}

int RunMany(uint64_t first, int64_t count, const RunSetup& setup) {
  const SeedsResult all = RunSeeds(first, count, setup, 10, true);
  for (const auto& [situation, times] : all.reached) printf("%8lld  %s\n", static_cast<long long>(times), situation.c_str());
  printf("%s%lld seeds, %lld broke a promise; %lld jobs, %lld turns, %.0f simulated hours\n", all.report.c_str(), static_cast<long long>(all.seeds),
         static_cast<long long>(all.failed), static_cast<long long>(all.jobs), static_cast<long long>(all.turns),
         static_cast<double>(all.simulated_ms) / 3.6e6);
  return all.failed == 0 ? 0 : 1;
}

int ShrinkOne(uint64_t seed, const RunSetup& setup, const std::string& bug_flag) {
  FaultPlan plan = FaultPlan::Draw(seed);
  if (setup.bias) setup.bias(&plan);
  const auto run = [&](const FaultPlan& tried) { return RunPlan(seed, tried, setup.hooks); };
  Trial whole = run(plan);
  if (whole.failure.empty()) {
    printf("seed %llu breaks no promise: nothing to make smaller\n", static_cast<unsigned long long>(seed));
    return 2;
  }
  const Shrunk small = Shrink(plan, std::move(whole), kShrinkTriesMax, run);
  printf("after %lld runs, %lld of %lld faults are left, %zu of %zu storms:\n  %s\n", static_cast<long long>(small.tries),
         static_cast<long long>(FaultsIn(small.plan)), static_cast<long long>(FaultsIn(plan)), small.plan.storms.size(), plan.storms.size(),
         small.trial.failure.c_str());
  printf("repeat with: %s\n", HowToRepeat(seed, absl::StrCat("--plan=", small.plan.ToText(), bug_flag.empty() ? "" : " ", bug_flag)).c_str());
  return 1;
}

// Refused with a word of why; nullopt: it is not ours, or nonsense.
std::optional<RunSetup> SetupOf(const Flags& flags) {
  RunSetup setup;
  if (!flags.bug.empty()) {
    const Bug* bug = FindBug(flags.bug);
    if (bug == nullptr) {
      std::vector<std::string> names;
      for (const Bug& known : AllBugs()) names.push_back(known.name);
      const std::string nearest = NearestName(flags.bug, names);
      fprintf(stderr, "no bug is called %s%s\n", flags.bug.c_str(), nearest.empty() ? "" : ("; did you mean " + nearest + "?").c_str());
      return std::nullopt;
    }
    setup = SetupOf(*bug);
  }
  if (!flags.plan && flags.over.empty()) return setup;
  const std::string text = flags.plan ? *flags.plan : flags.over;
  FaultPlan tried;
  if (const absl::Status read = tried.Read(text); !read.ok() && flags.plan) {
    fprintf(stderr, "%s\n", std::string(read.message()).c_str());
    return std::nullopt;
  }
  const auto before = setup.bias;
  setup.bias = [text, whole = flags.plan.has_value(), before](FaultPlan* plan) {
    if (whole) *plan = FaultPlan();
    if (!whole && before) before(plan);
    CHECK(plan->Read(text).ok()) << text;
  };
  absl::StrAppend(&setup.flags, setup.flags.empty() ? "" : " ", flags.plan ? "--plan=" : "--over=", text);
  return setup;
}

// False: GoogleTest's.
bool ParseFlags(int argc, char** argv, Flags* flags) {
  bool ours = false;
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    const auto number = [&](absl::string_view prefix, int64_t* into) { return absl::ConsumePrefix(&word, prefix) && absl::SimpleAtoi(word, into); };
    if (word == "--trace") {
      flags->trace = true;
    } else if (word == "--shrink") {
      flags->shrink = true;
    } else if (absl::ConsumePrefix(&word, "--plan=")) {
      flags->plan = std::string(word);
    } else if (absl::ConsumePrefix(&word, "--over=")) {
      flags->over = std::string(word);
    } else if (absl::ConsumePrefix(&word, "--bug=")) {
      flags->bug = std::string(word);
    } else if (number("--seed=", &flags->seed) || number("--seeds=", &flags->seeds) || number("--first=", &flags->first)) {
      ours = true;
    }
  }
  return ours;
}

int Run(const Flags& flags) {
  const std::optional<RunSetup> setup = SetupOf(flags);
  if (!setup) return 2;
  const uint64_t seed = static_cast<uint64_t>(flags.seed);
  if (flags.seeds >= 0) return RunMany(static_cast<uint64_t>(flags.first), flags.seeds, *setup);
  if (flags.shrink) return ShrinkOne(seed, *setup, flags.bug.empty() ? "" : absl::StrCat("--bug=", flags.bug));
  return RunOne(seed, *setup, flags.trace);
}

}  // namespace
}  // namespace spillway::sim

int main(int argc, char** argv) {
  spillway::SetLogLevel(spillway::LogLevel::kError);  // a storm makes thousands of warnings; traces say more
  spillway::sim::SetProgram(argv[0]);
  spillway::sim::Flags flags;
  if (spillway::sim::ParseFlags(argc, argv, &flags)) return spillway::sim::Run(flags);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
