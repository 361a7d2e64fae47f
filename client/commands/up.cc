#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "client/commands/commands.h"
#include "client/commands/stop_local.h"
#include "client/local_home.h"
#include "client/local_processes.h"
#include "client/node_lookup.h"
#include "spec/resource_list.h"
#include "spec/utf8.h"

namespace spillway::client {
namespace {

constexpr int64_t kStartTimeoutMs = 30'000;
constexpr int64_t kCallTimeoutMs = 5'000;
constexpr int64_t kPollMs = 50;
constexpr int64_t kLocalNodesMax = 16;
constexpr int64_t kStoppedMs = 1'000;  // a moment of it may be a debugger that has just attached

// Set by the signals that end `up --foreground`.
volatile sig_atomic_t stop_asked = 0;
void AskStop(int) { stop_asked = 1; }

class Up final : public Verb {
 public:
  std::string Name() const override { return "up"; }
  std::string Summary() const override { return "start a scheduler and a local worker on this machine"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {
        {"spillway up", "in SPILLWAY_HOME (~/.spillway); does nothing when it is up already"},
        {"spillway up --reserved-nodes 2 --resources cpus=1,memory=2GB,gpu=H100:1:80GB:simulated", "two local nodes with declared devices, to try things out"},
        {"spillway up --no-worker", "the scheduler alone: nodes join from elsewhere"},
        {"spillway up --foreground", "stay here until interrupted, then stop everything"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Flag("--foreground", &foreground_, "stay in the foreground; an interrupt stops everything");
    builder.Flag("--no-worker", &no_worker_, "no local node");
    builder.Option("--reserved-nodes", &nodes_asked_, "N", "local nodes; default: as many as this home has, at first 1");
    builder.Option("--resources", &resources_, "LIST",
                   "what each local node declares, such as cpus=2,memory=8GB,gpu=H100:1:80GB:simulated; default: as last time, at first what the machine has");
    builder.Option("--port", &port_, "PORT", "for a new home: where users reach the scheduler (7070); 0: any free port, shown and kept in run/user.port");
  }
  int Run(Context& context) override {
    OR_FAIL(context, Start(context));
    return foreground_ ? Stay(context) : kExitOk;
  }

 private:
  absl::Status Start(Context& context) {
    const HomePaths paths(context.home);
    if (!context.server_flag.empty())
      return absl::InvalidArgumentError("--server names a scheduler that runs elsewhere; `up` starts that of SPILLWAY_HOME, a new one where --port says");
    nodes_ = nodes_asked_.value_or(std::clamp<int64_t>(static_cast<int64_t>(LocalNodes(paths).size()), 1, kLocalNodesMax));
    if (nodes_ < 1 || nodes_ > kLocalNodesMax)
      return absl::InvalidArgumentError(absl::StrCat("--reserved-nodes: ", nodes_, " is outside 1 to ", kLocalNodesMax));
    if (no_worker_ && nodes_asked_) return absl::InvalidArgumentError("--reserved-nodes says how many local nodes, and --no-worker that there are none");
    if (no_worker_ && !resources_.empty()) return absl::InvalidArgumentError("--resources is for the local node, and --no-worker says there is none");
    if (port_.value_or(0) < 0 || port_.value_or(0) > 65'535)
      return absl::InvalidArgumentError(absl::StrCat("--port: ", *port_, " is outside 0 (any free port) to 65535"));
    // Nodes are told where the store is.
    if (!spec::IsUtf8(paths.home)) return absl::InvalidArgumentError(absl::StrCat("SPILLWAY_HOME: `", Printable(paths.home), "` is not UTF-8 text"));
    // The worker would find it too, after everything else had been started.
    if (!resources_.empty()) RETURN_IF_ERROR(spec::ParseResourceList(resources_).status());
    ASSIGN_OR_RETURN(begun_.config, PrepareHome(paths, port_));
    const auto lock = LockHome(paths);
    absl::Status started = lock.status();
    if (started.ok()) started = CheckWhatRuns(paths);
    if (started.ok()) started = StartAll(context, paths);
    if (!lock.ok()) return started;  // whoever has it works with what is there
    if (!started.ok()) Undo(context, paths, begun_);
    close(*lock);
    return started;
  }

  // A flag that is read at a start says nothing to a node that runs: refused before anything is started, never ignored.
  absl::Status CheckWhatRuns(const HomePaths& paths) const {
    constexpr char kHow[] = "; first `spillway down` (running jobs save, stop, and go on after the next `up`)";
    std::vector<std::string> names;
    std::string whole_machine;
    for (const std::string& node : LocalNodes(paths)) {
      const auto worker = FindProcess(paths.WorkerPid(node), "spillway-worker", paths.NodeHome(node));
      if (!worker.has_value()) continue;
      names.push_back(node);
      const std::string declared = ValueOfOption(*worker, "--resources");
      if (declared.empty()) whole_machine = node;
      if (!resources_.empty() && declared != resources_) {
        return absl::FailedPreconditionError(absl::StrCat("--resources is read when a node starts, and ", node, " runs already with ",
                                                          declared.empty() ? "what the machine has" : absl::StrCat("`", Printable(declared, 200), "`"), kHow));
      }
    }
    const std::string running = absl::StrCat(absl::StrJoin(names, ", "), names.size() == 1 ? " runs already" : " run already");
    if (no_worker_ && !names.empty()) return absl::FailedPreconditionError(absl::StrCat("--no-worker: ", running, kHow));
    if (!nodes_asked_.has_value()) return absl::OkStatus();
    for (const std::string& name : names) {
      int64_t number = 0;
      if (absl::SimpleAtoi(absl::StripPrefix(name, "local-"), &number) && number > nodes_)
        return absl::FailedPreconditionError(absl::StrCat("--reserved-nodes ", nodes_, ": ", running, kHow));
    }
    if (!whole_machine.empty() && static_cast<int64_t>(names.size()) < nodes_) {
      return absl::FailedPreconditionError(absl::StrCat("--reserved-nodes ", nodes_, ": ", whole_machine,
                                                        " runs already and declares all the machine has, so another would promise it twice", kHow));
    }
    return absl::OkStatus();
  }

  absl::Status StartAll(Context& context, const HomePaths& paths) {
    ASSIGN_OR_RETURN(const std::string token, ReadTokenFile(paths.user_token));
    ASSIGN_OR_RETURN(bool scheduler_started, StartScheduler(paths));
    ASSIGN_OR_RETURN(const std::unique_ptr<Api> api, AwaitScheduler(context, paths, token, &scheduler_started));
    if (!scheduler_started) NoteWhatItHasNotRead(context, paths);
    if (const std::string other = context.environment("SPILLWAY_SERVER"); !other.empty() && other != server_) {
      *context.err << context.Painted("warning: ", Colour::kYellow) << "SPILLWAY_SERVER is " << Printable(other, 100)
                   << ": the other verbs speak to that scheduler, not to this one\n";
    }
    if (!no_worker_) {
      for (int64_t i = 1; i <= nodes_; ++i) RETURN_IF_ERROR(StartWorker(context, paths, *api, absl::StrCat("local-", i)));
      for (int64_t i = 1; i <= nodes_ && !resources_.empty(); ++i) RETURN_IF_ERROR(KeepResources(paths.NodeHome(absl::StrCat("local-", i))));
    }
    ASSIGN_OR_RETURN(const v1::ServerInfo info, api->GetServerInfo());
    ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, ListAllNodes(*api, false));
    const int64_t connected = std::count_if(nodes.nodes().begin(), nodes.nodes().end(), [](const v1::Node& node) { return node.connected(); });
    *context.out << "scheduler " << info.version() << (scheduler_started ? " is up at " : " was up already at ") << server_ << ", cluster "
                 << info.cluster_uuid() << '\n'
                 << Counted(connected, "node", "nodes") << " connected, " << Counted(info.active_tasks(), "task runs", "tasks run") << ", "
                 << Counted(info.queued_tasks(), "waits", "wait") << '\n'
                 << "home " << paths.home << " (log run/spillwayd.log)\n\n"
                 << "next: spillway run -- echo hello\n"
                 << "      spillway nodes; spillway queue\n"
                 << "      spillway down\n"
                 << std::flush;
    return absl::OkStatus();
  }

  void NoteWhatItHasNotRead(Context& context, const HomePaths& paths) const {
    if (ChangedSinceStart(scheduler_, paths.config)) {
      *context.err << context.Painted("warning: ", Colour::kYellow) << paths.config
                   << " was changed after the scheduler had started, which reads it at its start: `spillway down` and `spillway up` make it count\n";
    }
    if (foreground_) *context.err << "spillway: the scheduler writes to " << paths.scheduler_log << ", not here; an interrupt here stops it too\n";
  }

  // False when it ran already.
  absl::StatusOr<bool> StartScheduler(const HomePaths& paths) {
    if (const auto running = FindProcess(paths.scheduler_pid, "spillwayd", paths.home); running.has_value()) {
      scheduler_ = *running;
      return false;
    }
    // It writes its pid file itself, and only when it holds the home: ours may turn out to be the second.
    ASSIGN_OR_RETURN(scheduler_, StartProcess("spillwayd", {"--home", paths.home}, paths.scheduler_log, "", foreground_));
    begun_.scheduler = true;
    return true;
  }

  // Whoever started it: when the one we started finds that another holds the home, that one will do.
  absl::StatusOr<std::unique_ptr<Api>> AwaitScheduler(Context& context, const HomePaths& paths, const std::string& token, bool* started) {
    const int64_t end_ms = context.clock->NowSteadyMs() + kStartTimeoutMs;
    absl::Status last = absl::UnavailableError("it has not said on which port it listens");
    while (context.clock->NowSteadyMs() < end_ms) {
      if (!StillAlive(scheduler_)) {
        const auto other = FindProcess(paths.scheduler_pid, "spillwayd", paths.home);
        if (!other.has_value()) return EndedWhileStarting(paths);
        scheduler_ = *other;
        *started = begun_.scheduler = begun_.config = false;
      }
      RETURN_IF_ERROR(CheckNotStopped(context, scheduler_, "spillwayd", "jobs run on meanwhile, until their node's lease ends"));
      if (stopped_since_ms_ != 0) {
        context.sleep_ms(kPollMs);
        continue;
      }
      // Until the one we started has written its pid, the ports are an earlier life's.
      const bool holds_home = !*started || HoldsHome(paths);
      const auto address = ReadPortFile(paths.user_port);
      if (holds_home && absl::IsInvalidArgument(address.status())) return address.status();
      if (holds_home && address.ok()) {
        server_ = *address;
        ASSIGN_OR_RETURN(std::unique_ptr<Api> api, context.dial(server_, token, kCallTimeoutMs));
        last = api->GetServerInfo().status();
        if (last.ok()) return api;
        if (!absl::IsUnavailable(last)) return last;
      }
      context.sleep_ms(kPollMs);
    }
    // It may have much to read: it goes on, and the next `up` finds it.
    begun_.scheduler = begun_.config = false;
    return absl::UnavailableError(absl::StrCat("spillwayd runs (pid ", scheduler_.pid, ") but has not answered for ", HumanDuration(kStartTimeoutMs), ": ",
                                               last.message(), "; `spillway up` waits again, `spillway down` ends it",
                                               LogTail(paths.scheduler_log, scheduler_.log_from)));
  }

  absl::Status EndedWhileStarting(const HomePaths& paths) const {
    std::string why = absl::StrCat("spillwayd ended while starting", foreground_ ? "" : LogTail(paths.scheduler_log, scheduler_.log_from));
    int status = 0;
    // What it refuses is in its configuration, all else is the machine's doing.
    if (waitpid(scheduler_.pid, &status, WNOHANG) == scheduler_.pid && WIFEXITED(status) && WEXITSTATUS(status) == kExitUsage) {
      return absl::InvalidArgumentError(why);
    }
    if (absl::StrContains(why, "cannot listen on") && begun_.config) absl::StrAppend(&why, "\n`spillway up --port 0` takes a free port");
    return absl::UnavailableError(why);
  }

  // One that is stopped answers nobody, however long one waits.
  absl::Status CheckNotStopped(Context& context, const LocalProcess& process, absl::string_view what, absl::string_view meanwhile) {
    if (!IsStopped(process)) {
      stopped_since_ms_ = 0;
      return absl::OkStatus();
    }
    const int64_t now_ms = context.clock->NowSteadyMs();
    if (stopped_since_ms_ == 0) stopped_since_ms_ = now_ms;
    if (now_ms - stopped_since_ms_ < kStoppedMs) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(what, " (pid ", process.pid, ") is stopped (SIGSTOP, a terminal or a debugger) and answers nobody: `kill -CONT ",
                                               process.pid, "` lets it go on, `spillway down` ends it; ", meanwhile));
  }

  bool HoldsHome(const HomePaths& paths) const {
    return absl::StripAsciiWhitespace(ReadFile(paths.scheduler_pid, 64).value_or("")) == absl::StrCat(scheduler_.pid);
  }

  absl::Status StartWorker(Context& context, const HomePaths& paths, Api& api, const std::string& node) {
    ASSIGN_OR_RETURN(const std::string server, ReadPortFile(paths.worker_port));
    std::optional<LocalProcess> worker = FindProcess(paths.WorkerPid(node), "spillway-worker", paths.NodeHome(node));
    if (worker.has_value() && !HasArgument(*worker, server)) {
      // The scheduler came back at another port. A worker may end at any time: its supervisor keeps the jobs for the next one.
      AskToEnd(*worker);
      const int64_t end_ms = context.clock->NowSteadyMs() + kStartTimeoutMs;
      while (StillAlive(*worker) && context.clock->NowSteadyMs() < end_ms) context.sleep_ms(kPollMs);
      worker.reset();
    }
    if (!worker.has_value()) {
      if (!PathExists(paths.NodeHome(node))) begun_.homes.push_back(node);
      RETURN_IF_ERROR(MakeDirectories(paths.NodeHome(node), 0700));
      std::vector<std::string> arguments = {"--home", paths.NodeHome(node), "--server", server,     "--token-file", paths.worker_token, "--node-name",
                                            node,     "--provider",         "static",   "--market", "reserved"};
      ASSIGN_OR_RETURN(const std::string resources, ResourcesOf(paths.NodeHome(node)));
      if (!resources.empty()) arguments.insert(arguments.end(), {"--resources", resources});
      if (!FindProcess(paths.SupervisorPid(node), "spillway-supervisor", paths.NodeHome(node)).has_value()) begun_.supervisors.push_back(node);
      begun_.workers.push_back(node);
      ASSIGN_OR_RETURN(worker, StartProcess("spillway-worker", arguments, paths.WorkerLog(node), paths.WorkerPid(node), foreground_));
    }
    const int64_t end_ms = context.clock->NowSteadyMs() + kStartTimeoutMs;
    while (context.clock->NowSteadyMs() < end_ms) {
      if (!StillAlive(*worker))
        return absl::UnavailableError(
            absl::StrCat("the worker of ", node, " ended while starting", foreground_ ? "" : LogTail(paths.WorkerLog(node), worker->log_from)));
      RETURN_IF_ERROR(CheckNotStopped(context, *worker, absl::StrCat("the worker of ", node), "its jobs run on meanwhile"));
      ASSIGN_OR_RETURN(const v1::ListNodesResponse nodes, ListAllNodes(api, false));
      for (const v1::Node& each : nodes.nodes()) {
        if (each.name() == node && each.connected()) return absl::OkStatus();
      }
      context.sleep_ms(kPollMs);
    }
    return absl::UnavailableError(absl::StrCat("the worker of ", node, " runs (pid ", worker->pid, ") but has no session with the scheduler",
                                               LogTail(paths.WorkerLog(node), worker->log_from)));
  }

  // What a node declared once it declares again, so that its jobs still fit after `down` and `up`.
  absl::StatusOr<std::string> ResourcesOf(const std::string& node_home) const {
    if (!resources_.empty()) return resources_;
    const auto before = ReadFile(JoinPath(node_home, "resources"), 4096);
    if (before.ok()) {
      const std::string text(absl::StripAsciiWhitespace(*before));
      RETURN_IF_ERROR(spec::ParseResourceList(text, JoinPath(node_home, "resources")).status());
      return text;
    }
    if (!absl::IsNotFound(before.status())) return before.status();
    return nodes_ > 1 ? ShareOfMachine() : "";
  }

  // Only once a worker has taken them: a mistyped list must not be the default of the next `up`.
  absl::Status KeepResources(const std::string& node_home) const { return WriteFileAtomically(JoinPath(node_home, "resources"), resources_ + "\n", 0600); }

  // Several nodes on one machine must not all declare the whole of it.
  std::string ShareOfMachine() const {
    const int64_t cpu_milli = std::max<int64_t>(100, sysconf(_SC_NPROCESSORS_ONLN) * 1000 / nodes_);
    const int64_t memory_mb = (sysconf(_SC_PHYS_PAGES) / 1024) * (sysconf(_SC_PAGE_SIZE) / 1024) / nodes_;
    std::string cpus = absl::StrCat(cpu_milli / 1000, ".", absl::StrCat(1000 + cpu_milli % 1000).substr(1));
    return absl::StrCat("cpus=", cpus, ",memory=", memory_mb, "MB");
  }

  int Stay(Context& context) {
    struct sigaction action = {};
    action.sa_handler = AskStop;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
    const HomePaths paths(context.home);
    while (stop_asked == 0 && StillAlive(scheduler_)) context.sleep_ms(200);
    const bool died = stop_asked == 0;
    const int stopped = StopLocal(context, paths, false);
    if (died) return context.Fail(absl::UnavailableError("spillwayd ended by itself"));
    return stopped;
  }

  bool foreground_ = false, no_worker_ = false;
  std::optional<int64_t> nodes_asked_, port_;
  int64_t nodes_ = 0;
  Begun begun_;
  int64_t stopped_since_ms_ = 0;
  std::string resources_;
  LocalProcess scheduler_;
  std::string server_;
};

}  // namespace

std::unique_ptr<Verb> MakeUp() { return std::make_unique<Up>(); }

}  // namespace spillway::client
