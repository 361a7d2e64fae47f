#include "client/local_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace spillway::client {
namespace {

constexpr size_t kLogTailBytes = 2'000;

// The file name of the executable; one that was replaced by an upgrade is still ours.
std::string ProgramOf(pid_t pid) {
  char path[PATH_MAX];
  const ssize_t n = readlink(absl::StrCat("/proc/", pid, "/exe").c_str(), path, sizeof(path));
  if (n <= 0) return "";
  absl::string_view text(path, static_cast<size_t>(n));
  absl::ConsumeSuffix(&text, " (deleted)");
  return std::string(text.substr(text.rfind('/') + 1));
}

// The supervisor holds a lock on its own pid file as long as it lives.
bool HoldsLock(pid_t pid, const std::string& file) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool held = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid == pid;
  close(fd);
  return held;
}

// From the start of the process to the writing of the file; nullopt when there is none. Two wall-clock readings of one machine: some seconds of doubt.
std::optional<int64_t> WrittenAfterStartMs(int64_t start_ticks, const std::string& file) {
  struct stat written;
  if (stat(file.c_str(), &written) != 0) return std::nullopt;
  RealClock clock;
  const int64_t age_ms = clock.NowSteadyMs() - start_ticks * 1000 / sysconf(_SC_CLK_TCK);
  return static_cast<int64_t>(written.st_mtim.tv_sec) * 1000 - (clock.NowUtcMs() - age_ms);
}

constexpr int64_t kDoubtMs = 5'000;

bool OlderThanFile(int64_t start_ticks, const std::string& file) {
  const std::optional<int64_t> after_ms = WrittenAfterStartMs(start_ticks, file);
  return after_ms.has_value() && *after_ms >= -kDoubtMs;
}

std::vector<std::string> ArgumentsOf(const LocalProcess& process) {
  const auto text = ReadFile(absl::StrCat("/proc/", process.pid, "/cmdline"));
  if (!text.ok()) return {};
  return absl::StrSplit(*text, '\0');
}

int64_t SizeOf(const std::string& file) {
  struct stat info;
  return stat(file.c_str(), &info) == 0 ? info.st_size : 0;
}

// Each program of ours holds one of these open as long as it lives, in the folder that is its home.
constexpr const char* kLocks[] = {"run/spillwayd.lock", "worker.lock", "supervisor.pid"};

std::string Canonical(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? AbsolutePath(path) : std::string(resolved);
}

std::string LinkOf(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t n = readlink(path.c_str(), target, sizeof(target));
  return n <= 0 ? "" : std::string(target, static_cast<size_t>(n));
}

// Whether the process works for `home`; nullopt when nothing says for whom it does.
std::optional<bool> WorksFor(pid_t pid, const std::string& home) {
  const std::string wanted = Canonical(home);
  const std::string open_files = absl::StrCat("/proc/", pid, "/fd");
  for (const std::string& fd : ListDirectory(open_files).value_or(std::vector<std::string>{})) {
    const std::string file = LinkOf(JoinPath(open_files, fd));
    for (const char* lock : kLocks) {
      if (absl::EndsWith(file, absl::StrCat("/", lock))) return file == JoinPath(wanted, lock);
    }
  }
  const std::string said = ValueOfOption(LocalProcess{pid, 0, 0}, "--home");
  if (said.empty()) return std::nullopt;
  return Canonical(said[0] == '/' ? said : JoinPath(LinkOf(absl::StrCat("/proc/", pid, "/cwd")), said)) == wanted;
}

std::optional<LocalProcess> NamedBy(const std::string& pid_file, const std::string& program, const std::string& home) {
  const auto text = ReadFile(pid_file, 4096);
  if (!text.ok()) return std::nullopt;
  const std::vector<std::string> words = absl::StrSplit(*text, absl::ByAnyChar(" \n\t"), absl::SkipEmpty());
  LocalProcess process;
  if (words.empty() || !absl::SimpleAtoi(words[0], &process.pid) || process.pid <= 1) return std::nullopt;
  const auto ticks = ProcessStartTicks(process.pid);
  if (!ticks.ok()) return std::nullopt;
  process.start_ticks = *ticks;
  int64_t recorded = 0;
  const bool same =
      words.size() > 1 && absl::SimpleAtoi(words[1], &recorded) ? recorded == *ticks : HoldsLock(process.pid, pid_file) || OlderThanFile(*ticks, pid_file);
  if (!same || !StillAlive(process) || ProgramOf(process.pid) != program || !WorksFor(process.pid, home).value_or(true)) return std::nullopt;
  return process;
}

// Whoever killed `up` half way left a program without a pid file.
std::optional<LocalProcess> StartedFor(const std::string& home, const std::string& program) {
  const auto names = ListDirectory("/proc");
  if (!names.ok()) return std::nullopt;
  for (const std::string& name : *names) {
    LocalProcess process;
    if (!absl::SimpleAtoi(name, &process.pid) || ProgramOf(process.pid) != program) continue;
    const auto ticks = ProcessStartTicks(process.pid);
    if (!ticks.ok()) continue;
    process.start_ticks = *ticks;
    if (WorksFor(process.pid, home).value_or(false) && StillAlive(process)) return process;
  }
  return std::nullopt;
}

}  // namespace

std::optional<LocalProcess> FindProcess(const std::string& pid_file, const std::string& program, const std::string& home) {
  if (const auto named = NamedBy(pid_file, program, home); named.has_value()) return named;
  return StartedFor(home, program);
}

absl::StatusOr<LocalProcess> StartProcess(const std::string& program, const std::vector<std::string>& arguments, const std::string& log_file,
                                          const std::string& pid_file, bool foreground) {
  SpawnOptions options;
  const std::string path = JoinPath(ExecutableFolder(), program);
  if (!PathExists(path)) return absl::NotFoundError(absl::StrCat(program, " is not beside this program (", path, ")"));
  options.argv = {path};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  if (!foreground) {
    options.new_session = true;
    options.cwd = "/";
    options.stdout_path = options.stderr_path = log_file;
  }
  LocalProcess process;
  process.log_from = SizeOf(log_file);
  ASSIGN_OR_RETURN(process.pid, Spawn(options));
  const auto ticks = ProcessStartTicks(process.pid);
  if (!ticks.ok()) return absl::UnavailableError(absl::StrCat(program, " ended at once", LogTail(log_file, process.log_from)));
  process.start_ticks = *ticks;
  if (!pid_file.empty()) RETURN_IF_ERROR(WritePidFile(pid_file, process));
  return process;
}

absl::Status WritePidFile(const std::string& pid_file, const LocalProcess& process) {
  return WriteFileAtomically(pid_file, absl::StrCat(process.pid, " ", process.start_ticks, "\n"), 0600);
}

bool StillAlive(const LocalProcess& process) { return ProcessAlive(process.pid, process.start_ticks); }

bool HasArgument(const LocalProcess& process, const std::string& argument) {
  const std::vector<std::string> words = ArgumentsOf(process);
  return std::find(words.begin(), words.end(), argument) != words.end();
}

std::string ValueOfOption(const LocalProcess& process, const std::string& option) {
  const std::vector<std::string> words = ArgumentsOf(process);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option) return i + 1 < words.size() ? words[i + 1] : "";
    if (absl::StartsWith(words[i], option + "=")) return words[i].substr(option.size() + 1);
  }
  return "";
}

bool ChangedSinceStart(const LocalProcess& process, const std::string& file) { return WrittenAfterStartMs(process.start_ticks, file).value_or(0) > kDoubtMs; }

bool IsStopped(const LocalProcess& process) {
  const auto text = ReadFile(absl::StrCat("/proc/", process.pid, "/stat"), 4096);
  const size_t name_end = text.ok() ? text->rfind(") ") : std::string::npos;
  if (name_end == std::string::npos || name_end + 2 >= text->size()) return false;
  const char state = (*text)[name_end + 2];
  return (state == 'T' || state == 't') && StillAlive(process);
}

void AskToEnd(const LocalProcess& process) {
  if (!StillAlive(process)) return;
  kill(process.pid, SIGTERM);
  if (IsStopped(process)) kill(process.pid, SIGCONT);
}

void KillNow(const LocalProcess& process) {
  if (StillAlive(process)) kill(process.pid, SIGKILL);
}

std::string LogTail(const std::string& log_file, int64_t from) {
  const auto text = ReadFile(log_file);
  if (!text.ok()) return "";
  absl::string_view tail = absl::StripTrailingAsciiWhitespace(*text);
  if (static_cast<size_t>(from) < text->size()) tail.remove_prefix(std::min(tail.size(), static_cast<size_t>(from)));
  if (tail.empty() || static_cast<size_t>(from) == text->size()) return absl::StrCat("; its log is ", log_file);
  std::string out = absl::StrCat("; its log ", log_file, " ends so:");
  if (tail.size() > kLogTailBytes) tail.remove_prefix(tail.size() - kLogTailBytes);
  std::vector<std::string> lines = absl::StrSplit(tail, '\n');
  for (size_t i = lines.size() > 5 ? lines.size() - 5 : 0; i < lines.size(); ++i) absl::StrAppend(&out, "\n  ", Printable(lines[i], 400));
  return out;
}

}  // namespace spillway::client
