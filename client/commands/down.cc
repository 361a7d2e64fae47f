#include <unistd.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "client/commands/commands.h"
#include "client/commands/stop_local.h"
#include "client/local_processes.h"

namespace spillway::client {
namespace {

constexpr int64_t kPollMs = 50;
constexpr int64_t kProgramTimeoutMs = 30'000;          // scheduler, worker: then SIGKILL, which they survive by design
constexpr int64_t kSupervisorTimeoutMs = 10 * 60'000;  // jobs have their own grace; a supervisor is never killed over them

// A program that `up` starts, and how it is ended.
struct LocalProgram {
  std::string pid_file, program, home, what;
  int64_t timeout_ms = kProgramTimeoutMs;
  bool kill = true;  // when the timeout is over
};

LocalProgram Scheduler(const HomePaths& paths) { return {paths.scheduler_pid, "spillwayd", paths.home, "the scheduler"}; }
LocalProgram Worker(const HomePaths& paths, const std::string& node) {
  return {paths.WorkerPid(node), "spillway-worker", paths.NodeHome(node), absl::StrCat("the worker of ", node)};
}
LocalProgram Supervisor(const HomePaths& paths, const std::string& node) {
  return {paths.SupervisorPid(node), "spillway-supervisor", paths.NodeHome(node), absl::StrCat("the supervisor of ", node), kSupervisorTimeoutMs, false};
}

std::optional<LocalProcess> Find(const LocalProgram& program) { return FindProcess(program.pid_file, program.program, program.home); }

// True when it ran and has ended. Says so to `said` (null: to nobody).
bool Stop(Context& context, const LocalProgram& program, std::ostream* said, bool* stuck) {
  const auto process = Find(program);
  if (!process.has_value()) return false;
  AskToEnd(*process);
  const int64_t end_ms = context.clock->NowSteadyMs() + program.timeout_ms;
  while (StillAlive(*process) && context.clock->NowSteadyMs() < end_ms) context.sleep_ms(kPollMs);
  if (StillAlive(*process) && program.kill) {
    KillNow(*process);
    const int64_t killed_ms = context.clock->NowSteadyMs() + 5'000;
    while (StillAlive(*process) && context.clock->NowSteadyMs() < killed_ms) context.sleep_ms(kPollMs);
  }
  if (StillAlive(*process)) {
    *context.err << "spillway: " << program.what << " (pid " << process->pid << ") has not ended yet\n";
    *stuck = true;
    return false;
  }
  if (said != nullptr) *said << "stopped " << program.what << " (pid " << process->pid << ")\n" << std::flush;
  return true;
}

class Down final : public Verb {
 public:
  std::string Name() const override { return "down"; }
  std::string Summary() const override { return "stop what `spillway up` started"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway down", "running jobs get their grace to save; `up` goes on with them"},
            {"spillway down --keep-jobs", "stop the scheduler and the worker, let running jobs run"}};
  }
  void Define(VerbBuilder& builder) override { builder.Flag("--keep-jobs", &keep_jobs_, "leave running jobs alone; the next `up` finds them again"); }
  int Run(Context& context) override {
    const HomePaths paths(context.home);
    if (!context.server_flag.empty())
      return context.Fail(absl::InvalidArgumentError("--server names a scheduler that runs elsewhere; `down` stops that of SPILLWAY_HOME on this machine"));
    if (!PathExists(paths.home)) {
      *context.out << "nothing runs in " << paths.home << '\n';
      return kExitOk;
    }
    ASSIGN_OR_FAIL(context, const int lock, LockHome(paths));
    const int code = StopLocal(context, paths, keep_jobs_);
    close(lock);
    return code;
  }

 private:
  bool keep_jobs_ = false;
};

}  // namespace

int StopLocal(Context& context, const HomePaths& paths, bool keep_jobs) {
  bool stuck = false;
  int stopped = 0;
  if (Stop(context, Scheduler(paths), context.out, &stuck)) ++stopped;
  for (const std::string& node : LocalNodes(paths)) {
    if (Stop(context, Worker(paths, node), context.out, &stuck)) ++stopped;
  }
  for (const std::string& node : LocalNodes(paths)) {
    if (!keep_jobs) {
      if (Stop(context, Supervisor(paths, node), context.out, &stuck)) ++stopped;
    } else if (Find(Supervisor(paths, node)).has_value()) {
      *context.out << "the supervisor of " << node << " and its jobs go on\n";
    }
  }
  if (stuck) return kExitRefused;
  // The ports stay: where the configuration leaves them open, the next life takes the same ones, and nodes elsewhere find it again.
  unlink(paths.scheduler_pid.c_str());
  for (const std::string& node : LocalNodes(paths)) unlink(paths.WorkerPid(node).c_str());
  if (stopped == 0) *context.out << "nothing ran in " << paths.home << '\n';
  return kExitOk;
}

void Undo(Context& context, const HomePaths& paths, const Begun& begun) {
  bool stuck = false;
  if (begun.scheduler) {
    Stop(context, Scheduler(paths), nullptr, &stuck);
    if (!stuck) unlink(paths.scheduler_pid.c_str());
  }
  for (const std::string& node : begun.workers) {
    Stop(context, Worker(paths, node), nullptr, &stuck);
    unlink(paths.WorkerPid(node).c_str());
  }
  for (const std::string& node : begun.supervisors) Stop(context, Supervisor(paths, node), nullptr, &stuck);
  for (const std::string& node : begun.homes) {
    if (!stuck) (void)RemoveTree(paths.NodeHome(node));  // made a moment ago; a rest of it is no harm
  }
  if (begun.config) unlink(paths.config.c_str());
}

std::unique_ptr<Verb> MakeDown() { return std::make_unique<Down>(); }

}  // namespace spillway::client
