// spillway-supervisor: owns the user's processes of one node. Wiring only.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "worker/supervisor/process_tree.h"
#include "worker/supervisor/recovery.h"
#include "worker/supervisor/server.h"
#include "worker/supervisor/socket_folder.h"

namespace spillway::supervisor {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitOwned = 3;  // another supervisor owns this home
constexpr int64_t kLeftoversTimeoutMs = 10'000;
constexpr rlim_t kOpenFilesMax = 65'536;

constexpr char kUsage[] =
    "usage: spillway-supervisor --home DIR --socket PATH [--containment auto|cgroup|reaper] [--idle-exit 10m]\n"
    "Owns the processes of one node's attempts. Started by spillway-worker; outlives it.\n"
    "  --home         supervisor.journal and supervisor.pid\n"
    "  --socket       where the worker connects (at most 107 bytes; sockets of jobs are made beside it)\n"
    "  --containment  auto: a cgroup v2 for each attempt where one is writable, else a reaper process for each\n"
    "  --idle-exit    leave after this long without a worker and without attempts; 0: never\n"
    "\nExamples:\n"
    "  spillway-supervisor --home ~/.spillway/nodes/gpu-3 --socket /run/spillway/gpu-3.sock\n"
    "      as the worker of this node starts it\n"
    "  spillway-supervisor --home /tmp/node --socket /tmp/node.sock --containment reaper --idle-exit 0\n"
    "      without cgroups, to look into; stays until SIGTERM, which stops its attempts\n";

struct Flags {
  std::string home, socket, containment = "auto";
  int64_t idle_exit_ms = 10 * 60'000;
};

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  std::map<std::string, std::string> values = {{"--home", ""}, {"--socket", ""}, {"--containment", "auto"}, {"--idle-exit", "10m"}};
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    const size_t equals = name.find('=');
    std::string value;
    if (equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (!values.contains(name)) {
      const std::string nearest = NearestName(name, names);
      return absl::InvalidArgumentError(absl::StrCat("unknown flag ", Printable(name), nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
    }
    if (equals == std::string::npos) {
      if (++i == argc) return absl::InvalidArgumentError(absl::StrCat(name, " needs a value"));
      value = argv[i];
    }
    values[name] = value;
  }
  Flags flags;
  flags.home = values["--home"];
  flags.socket = values["--socket"];
  flags.containment = values["--containment"];
  if (flags.home.empty() || flags.socket.empty()) return absl::InvalidArgumentError("--home and --socket are required");
  if (flags.containment != "auto" && flags.containment != "cgroup" && flags.containment != "reaper") {
    return absl::InvalidArgumentError(absl::StrCat("--containment: '", Printable(flags.containment), "' is not auto, cgroup or reaper"));
  }
  ASSIGN_OR_RETURN(flags.idle_exit_ms, ParseDurationMs(values["--idle-exit"]));
  flags.home = AbsolutePath(flags.home);
  flags.socket = AbsolutePath(flags.socket);
  return flags;
}

// One supervisor a home. The lock is the process's own: children do not inherit it, and it ends with this process however that ends.
// The descriptor, to stay open as long as the process lives.
absl::StatusOr<int> LockHome(const std::string& path, const std::string& home) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd, F_SETLK, &lock) != 0) {
    const int error = errno;
    close(fd);
    if (error == EAGAIN || error == EACCES) return absl::AlreadyExistsError(absl::StrCat("another supervisor owns ", home));
    return ErrnoStatus(error, absl::StrCat("cannot lock ", path));
  }
  return fd;
}

// Over what an earlier life wrote and only then cut off: that takes no space on a full disk, and no reader finds nothing.
absl::Status WritePid(int fd, const std::string& path) {
  const std::string text = absl::StrCat(getpid(), "\n");
  const auto bytes = static_cast<ssize_t>(text.size());
  if (pwrite(fd, text.data(), text.size(), 0) != bytes || ftruncate(fd, bytes) != 0) return ErrnoStatus(errno, absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

absl::StatusOr<int> BlockSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t all;
  sigemptyset(&all);
  for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGRTMIN}) sigaddset(&all, number);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  sigdelset(&all, SIGRTMIN);  // the reapers'
  const int fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return ErrnoStatus(errno, "cannot make a signalfd");
  return fd;
}

void PrepareProcess() {
  umask(077);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  RememberLimitsForChildren();
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = std::min(files.rlim_max, kOpenFilesMax);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  // The kernel should take a job first. Refused without privilege, and then nothing is lost.
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd >= 0) {
    (void)!write(fd, "-900", 4);
    close(fd);
  }
}

// Sockets and notice files that a killed predecessor left beside its own socket.
void RemoveStaleFiles(const std::string& socket) {
  const size_t slash = socket.rfind('/');
  const std::string folder = socket.substr(0, slash), name = socket.substr(slash + 1);
  const auto names = ListDirectory(folder.empty() ? "/" : folder);
  if (!names.ok()) return;
  for (const std::string& other : *names) {
    if (absl::StartsWith(other, absl::StrCat(name, ".j")) || absl::StartsWith(other, absl::StrCat(name, ".n"))) unlink(JoinPath(folder, other).c_str());
  }
}

absl::Status Run(const Flags& flags) {
  PrepareProcess();
  ASSIGN_OR_RETURN(const int signal_fd, BlockSignals());
  RETURN_IF_ERROR(MakeDirectories(flags.home, 0700));
  const std::string pid_path = JoinPath(flags.home, "supervisor.pid"), journal_path = JoinPath(flags.home, "supervisor.journal");
  ASSIGN_OR_RETURN(const int pid_fd, LockHome(pid_path, flags.home));
  const std::string home_id = HomeId(flags.home);

  std::unique_ptr<CgroupPool> cgroups;
  std::string reaper_because = "as asked";
  if (flags.containment != "reaper") {
    auto opened = CgroupPool::Open(home_id);
    if (opened.ok()) {
      cgroups = std::move(*opened);
    } else if (flags.containment == "cgroup") {
      return opened.status();
    } else {
      reaper_because = std::string(opened.status().message());
      LOG(INFO) << reaper_because << "; each attempt runs under a reaper";
    }
  }
  // What was left is killed first: that must not wait for a disk on which something can be written.
  const absl::Status named = WritePid(pid_fd, pid_path);
  ASSIGN_OR_RETURN(JournalContent before, Journal::Read(journal_path));
  if (before.skipped_lines > 0) LOG(WARNING) << before.skipped_lines << " lines of the journal make no sense and were skipped";
  RETURN_IF_ERROR(KillLeftovers(before, home_id, cgroups.get(), kLeftoversTimeoutMs));
  RETURN_IF_ERROR(named);
  ASSIGN_OR_RETURN(const std::unique_ptr<Journal> journal, Journal::Open(journal_path, &before));
  ASSIGN_OR_RETURN(const SocketFolder folder, SocketFolder::Take(flags.socket));
  RemoveStaleFiles(flags.socket);
  if (const int left = folder.RemoveLeftOnes(kSocketFolderUnusedMs); left > 0)
    LOG(INFO) << "removed the folders of " << left << " supervisors that were killed";

  RealClock clock;
  ASSIGN_OR_RETURN(const std::unique_ptr<EventLoop> loop, EventLoop::Create());
  EventQueue events;
  Supervisor supervisor({loop.get(), &events, journal.get(), cgroups.get(), &clock, home_id, flags.socket, JoinPath(flags.home, "secrets"),
                         cgroups == nullptr ? reaper_because : ""});
  supervisor.Adopt(before);
  ASSIGN_OR_RETURN(const std::unique_ptr<Server> server, Server::Listen(flags.socket, loop.get(), &events, &supervisor));
  RETURN_IF_ERROR(loop->Watch(signal_fd, EPOLLIN, [&](uint32_t) {
    signalfd_siginfo info;
    while (read(signal_fd, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT) supervisor.AskToLeave();
    }
    supervisor.ReapChildren();
  }));
  LOG(INFO) << "owns " << flags.home << (cgroups != nullptr ? ", cgroups" : ", reapers") << ", " << before.entries.size() << " ends owed";

  int64_t idle_since_ms = clock.NowSteadyMs();
  while (true) {
    const bool idle = supervisor.living() == 0 && !server->has_worker();
    if (!idle) idle_since_ms = 0;
    if (idle && idle_since_ms == 0) idle_since_ms = clock.NowSteadyMs();
    int64_t due = supervisor.NextDueMs();
    if (idle && flags.idle_exit_ms > 0) {
      due = std::min(due, idle_since_ms + flags.idle_exit_ms);
      if (clock.NowSteadyMs() >= idle_since_ms + flags.idle_exit_ms) break;
    }
    if (supervisor.leaving() && supervisor.living() == 0) break;
    RETURN_IF_ERROR(loop->RunOnce(due, [&] { supervisor.OnTime(); }));
    server->Flush();
  }
  LOG(INFO) << "leaves, " << events.size() << " events not taken";
  return absl::OkStatus();
}

}  // namespace
}  // namespace spillway::supervisor

int main(int argc, char** argv) {
  using namespace spillway;
  using namespace spillway::supervisor;
  SetLogProgram("supervisor");
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--help" || word == "-h") return fputs(kUsage, stdout), 0;
    if (word == "--version") return puts("spillway-supervisor 0.1.0"), 0;
  }
  const auto flags = ParseFlags(argc, argv);
  if (!flags.ok()) {
    fprintf(stderr, "spillway-supervisor: %s\n%s", std::string(flags.status().message()).c_str(), kUsage);
    return kExitUsage;
  }
  const absl::Status status = Run(*flags);
  if (status.ok()) return 0;
  LOG(ERROR) << status.ToString();
  return absl::IsAlreadyExists(status) ? kExitOwned : 1;
}
