#include "tests/simulation/seeds.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

char last_words[4096];
std::string program = "simulation_test";

void OnAbort(int) {
  (void)!write(STDERR_FILENO, last_words, strlen(last_words));
  signal(SIGABRT, SIG_DFL);
  raise(SIGABRT);
}

}  // namespace

const char kDiedOfAssertion[] = "an assertion of the product";

void SetProgram(const char* argv0) {
  const std::string path = argv0;
  program = path.substr(path.rfind('/') + 1);
}

std::string Program() { return absl::StrCat("build/tests/", program); }

std::string HowToRepeat(uint64_t seed, const std::string& flags) {
  return absl::StrCat(Program(), " --seed=", seed, flags.empty() ? "" : " ", flags, " --trace");
}

void SaySeedOnAbort(uint64_t seed, const std::string& flags) {
  snprintf(last_words, sizeof last_words, "seed %llu died. Repeat with: %s\n", static_cast<unsigned long long>(seed), HowToRepeat(seed, flags).c_str());
  signal(SIGABRT, OnAbort);
}

std::string RunApart(const std::function<std::string()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string said = work();
    for (size_t at = 0; at < said.size();) {
      const ssize_t n = write(ends[1], said.data() + at, said.size() - at);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) said.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? kDiedOfAssertion : said;
}

SeedsResult RunSeeds(uint64_t first, int64_t count, const RunSetup& setup, int64_t failures_max, bool dots) {
  SeedsResult all;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(count) && all.failed < failures_max; ++seed) {
    SaySeedOnAbort(seed, setup.flags);
    SimOptions options;
    options.seed = seed;
    options.hooks = setup.hooks;
    options.bias = setup.bias;
    const SimResult result = RunWatched(std::move(options));
    ++all.seeds;
    all.jobs += result.jobs;
    all.turns += result.turns;
    all.steps += result.steps;
    all.simulated_ms += result.simulated_ms;
    for (const auto& [situation, times] : result.reached) all.reached[situation] += times;
    if (!result.failure.empty()) {
      if (all.failed++ == 0) all.first_failed = seed;
      absl::StrAppend(&all.report, "seed ", seed, " broke a promise ", result.failure, "\n  repeat with: ", HowToRepeat(seed, setup.flags),
                      "\n  make it smaller with: ", Program(), " --shrink --seed=", seed, setup.flags.empty() ? "" : " ", setup.flags, "\n  ",
                      result.plan.ToText(), "\n");
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
