#include "playground/machine_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "playground/worker_command.h"

namespace spillway::playground {
namespace {

constexpr int64_t kConsoleBytesMax = 64LL << 20;

int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

bool HasMarker(const std::string& environ_path, const std::string& entry) {
  absl::StatusOr<std::string> environment = ReadFile(environ_path, 4u << 20);
  if (!environment.ok()) return false;
  for (absl::string_view variable : absl::StrSplit(*environment, '\0')) {
    if (variable == entry) return true;
  }
  return false;
}

}  // namespace

std::string MachineRunner::DiskOf(const std::string& id) const { return absl::StrCat(options_.home, "/instances/", id); }
std::string MachineRunner::ConsoleOf(const std::string& id) const { return absl::StrCat(options_.home, "/consoles/", id, ".log"); }
std::string MachineRunner::EndFileOf(const std::string& id) const { return absl::StrCat(options_.home, "/ends/", id); }

absl::Status MachineRunner::Prepare() {
  for (const char* folder : {"instances", "consoles", "ends"}) RETURN_IF_ERROR(MakeDirectories(JoinPath(options_.home, folder), 0700));
  return absl::OkStatus();
}

absl::StatusOr<MachineRunner::Machine> MachineRunner::Start(const Instance& instance, const std::string& metadata_url, const std::string& marker) {
  const std::string disk = DiskOf(instance.id);
  ASSIGN_OR_RETURN(const std::vector<std::string> worker, WorkerArgv(instance, {disk, metadata_url, options_.worker_path}));
  RETURN_IF_ERROR(RemoveTree(disk));
  RETURN_IF_ERROR(MakeDirectories(disk, 0700));
  RETURN_IF_ERROR(RemoveTree(EndFileOf(instance.id)));
  SpawnOptions spawn;
  spawn.argv = {options_.program_path, "instance-init", "--end-file", EndFileOf(instance.id), "--"};
  spawn.argv.insert(spawn.argv.end(), worker.begin(), worker.end());
  spawn.env = WorkerEnvironment(instance, options_.environment, marker);
  spawn.cwd = disk;
  spawn.stdout_path = ConsoleOf(instance.id);
  spawn.stderr_path = spawn.stdout_path;
  spawn.new_session = true;
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(spawn));
  absl::StatusOr<int64_t> start_ticks = ProcessStartTicks(pid);  // still there as a zombie at worst: it is our child
  if (!start_ticks.ok()) return start_ticks.status();
  return Machine{pid, *start_ticks};
}

absl::StatusOr<int> MachineRunner::Watch(pid_t pid, int64_t start_ticks) {
  const int fd = PidfdOpen(pid);
  if (fd < 0) return errno == ESRCH ? absl::NotFoundError(absl::StrCat("no process ", pid)) : ErrnoStatus(errno, "pidfd_open");
  // Only now, with the pid held, is a look at its start time proof of which process the descriptor means.
  if (ProcessAlive(pid, start_ticks)) return fd;
  close(fd);
  return absl::NotFoundError(absl::StrCat("process ", pid, " has ended"));
}

void MachineRunner::Kill(int watch_fd, bool hard) { syscall(SYS_pidfd_send_signal, watch_fd, hard ? SIGKILL : SIGTERM, nullptr, 0); }

void MachineRunner::Reap(pid_t pid) {
  while (waitpid(pid, nullptr, WNOHANG) < 0 && errno == EINTR) {
  }
}

std::optional<MachineEnd> MachineRunner::EndOf(const std::string& id) const {
  absl::StatusOr<std::string> content = ReadFile(EndFileOf(id), 4096);
  if (!content.ok()) return std::nullopt;
  const std::vector<std::string> words = absl::StrSplit(*content, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  MachineEnd end;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &end.steady_ms) || !absl::SimpleAtoi(words[1], &end.exit_status)) return std::nullopt;
  return end;
}

int MachineRunner::KillLeftovers(const std::string& marker) {
  const std::string entry = absl::StrCat(kMarkerVariable, "=", marker);
  int killed = 0;
  for (bool found = true; found;) {  // what it forked meanwhile is found in the next round
    found = false;
    absl::StatusOr<std::vector<std::string>> names = ListDirectory("/proc");
    if (!names.ok()) return killed;
    for (const std::string& name : *names) {
      int pid = 0;
      if (!absl::SimpleAtoi(name, &pid) || pid == getpid() || !HasMarker(absl::StrCat("/proc/", name, "/environ"), entry)) continue;
      const int fd = PidfdOpen(pid);
      if (fd < 0) continue;
      if (HasMarker(absl::StrCat("/proc/", name, "/environ"), entry)) {
        Kill(fd, /*hard=*/true);
        pollfd ended{fd, POLLIN, 0};
        poll(&ended, 1, 1'000);
        Reap(pid);
        found = true;
        ++killed;
      }
      close(fd);
    }
  }
  return killed;
}

absl::Status MachineRunner::Bury(const std::string& id) {
  RETURN_IF_ERROR(RemoveTree(DiskOf(id)));
  return RemoveTree(EndFileOf(id));
}

absl::StatusOr<std::string> MachineRunner::ConsoleTail(const std::string& id, size_t bytes) const {
  const std::string path = ConsoleOf(id);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  const off_t size = lseek(fd, 0, SEEK_END);
  const off_t from = size > static_cast<off_t>(bytes) ? size - static_cast<off_t>(bytes) : 0;
  std::string tail(static_cast<size_t>(size - from), '\0');
  const ssize_t n = pread(fd, tail.data(), tail.size(), from);
  close(fd);
  if (n < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
  tail.resize(static_cast<size_t>(n));
  return tail;
}

void MachineRunner::CutConsoles() {
  const std::string folder = JoinPath(options_.home, "consoles");
  absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(folder, name);
    struct stat info {};
    // The writers append (O_APPEND), so they go on from the new end.
    if (stat(path.c_str(), &info) == 0 && info.st_size > kConsoleBytesMax && truncate(path.c_str(), 0) != 0) {
      LOG(WARNING) << "cannot cut " << path << ": " << ErrnoStatus(errno, "truncate");
    }
  }
}

}  // namespace spillway::playground
