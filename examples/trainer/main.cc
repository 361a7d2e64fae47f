// spillway-train: the reference trainer. Parses flags, listens for stop signals, runs.
#include <signal.h>

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "checkpoint/run_env.h"
#include "examples/trainer/options.h"
#include "examples/trainer/run_state.h"
#include "examples/trainer/train.h"

namespace spillway::trainer {
namespace {

volatile sig_atomic_t stop_signal = 0;

void OnSignal(int signal) { stop_signal = signal; }

void ListenForStop() {
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  for (int signal : {SIGTERM, SIGINT}) ::sigaction(signal, &action, nullptr);
}

int Fail(const absl::Status& status) {
  std::cerr << "spillway-train: " << status.message() << std::endl;
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

int Main(const std::vector<std::string>& arguments) {
  auto options = ParseOptions(arguments);
  if (!options.ok()) {
    std::cerr << "spillway-train: " << options.status().message() << "\nspillway-train --help shows the flags" << std::endl;
    return 2;
  }
  if (options->help) {
    std::cout << Usage();
    return 0;
  }
  if (!options->hash.empty()) {
    auto hash = HashOnDisk(options->hash);
    if (!hash.ok()) return Fail(hash.status());
    std::cout << "weights sha256 " << *hash << std::endl;
    return 0;
  }
  if (const char* nodes = std::getenv("SPILLWAY_NUM_NODES"); nodes != nullptr && *nodes != 0 && absl::string_view(nodes) != "1") {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("it trains on one node, and this job has ", nodes, " (resources.nodes); examples/gang/train.py shows how to train on several")));
  }
  ListenForStop();
  auto env = checkpoint::RunEnv::FromEnvironment();
  if (!env.ok()) return Fail(env.status());
  RealClock clock;
  auto run = Run::Prepare(
      *options, *env, [] { return static_cast<int>(stop_signal); }, &clock, &std::cout);
  if (!run.ok()) return Fail(run.status());
  auto code = run->ToTheEnd();
  if (!code.ok()) return Fail(code.status());
  return *code;
}

}  // namespace
}  // namespace spillway::trainer

int main(int argc, char** argv) { return spillway::trainer::Main(std::vector<std::string>(argv + 1, argv + argc)); }
