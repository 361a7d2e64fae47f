// Starting programs without copying the caller: vfork, so that the cost does not grow with the caller's memory.
// Owns everything between vfork and exec. Never runs a shell, not even for a script without a "#!" line.
//
// The child borrows the caller's memory until exec. So all signals are blocked in the calling thread first (a handler of ours must
// not run in the child), everything the child needs is laid out before, and the child makes system calls only.
#include "base/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <queue>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway {
namespace {

enum Stage : int { kSession, kParentSignal, kFolder, kDescriptors, kExec };

// What the child tells through the pipe when it cannot become the program. Nothing comes when exec succeeds.
struct Failure {
  int stage;
  int error;
};

// All that the child reads. Descriptors are 3 or more, so that duplicating one onto 0, 1 or 2 never overwrites another.
struct ChildPlan {
  const char* const* files;  // to try in order, null-terminated
  char* const* argv;
  char* const* env;
  const char* cwd;  // null keeps
  int stdin_fd = -1;
  int stdout_fd = -1;  // -1 inherits
  int stderr_fd = -1;
  int report_fd = -1;
  bool new_session = false;
  bool die_with_parent = false;
  pid_t parent = 0;
};

class OwnedFd {
 public:
  OwnedFd() = default;
  ~OwnedFd() { Reset(-1); }
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  int get() const { return fd_; }
  void Reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  // Takes `fd`, moved above the standard descriptors when the caller runs with one of those closed.
  bool TakeAboveStandard(int fd) {
    if (fd >= 0 && fd <= STDERR_FILENO) {
      Reset(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
      const int error = errno;
      close(fd);
      errno = error;
    } else {
      Reset(fd);
    }
    return fd_ >= 0;
  }

 private:
  int fd_ = -1;
};

[[noreturn]] void Fail(const ChildPlan& plan, Stage stage) {
  const Failure failure = {stage, errno};
  [[maybe_unused]] const ssize_t written = write(plan.report_fd, &failure, sizeof(failure));
  _exit(127);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  if (plan.new_session && setsid() < 0) Fail(plan, kSession);
  if (plan.die_with_parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail(plan, kParentSignal);
    if (getppid() != plan.parent) _exit(127);  // it died before the request stood
  }
  if (plan.cwd != nullptr && chdir(plan.cwd) != 0) Fail(plan, kFolder);
  if (dup2(plan.stdin_fd, STDIN_FILENO) < 0) Fail(plan, kDescriptors);
  if (plan.stdout_fd >= 0 && dup2(plan.stdout_fd, STDOUT_FILENO) < 0) Fail(plan, kDescriptors);
  if (plan.stderr_fd >= 0 && dup2(plan.stderr_fd, STDERR_FILENO) < 0) Fail(plan, kDescriptors);

  // Ours are close-on-exec already; this catches what we inherited ourselves. A kernel before 5.11 refuses, and those stay open.
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);

  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &by_default, nullptr);  // refused for KILL and STOP, harmlessly
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  // Like execvp: a folder of PATH that has no such file is passed over; that one had it but refused it is remembered.
  int error = ENOENT;
  for (const char* const* file = plan.files; *file != nullptr; ++file) {
    execve(*file, plan.argv, plan.env);
    if (errno == ENOENT || errno == ENOTDIR) continue;
    error = errno;
    if (errno != EACCES) break;
  }
  errno = error;
  Fail(plan, kExec);
}

// Alone in its function: nothing of the caller's frame lives across the vfork.
__attribute__((noinline)) pid_t VforkAndRun(const ChildPlan& plan) {
  const pid_t pid = vfork();
  if (pid == 0) RunChild(plan);
  return pid;
}

absl::Status CheckText(const std::string& text, absl::string_view what) {
  if (text.find('\0') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " contains a zero byte: ", Printable(text)));
}

absl::Status CheckOptions(const SpawnOptions& options) {
  if (options.argv.empty() || options.argv[0].empty()) return absl::InvalidArgumentError("argv is empty: there is no program to start");
  for (const std::string& argument : options.argv) RETURN_IF_ERROR(CheckText(argument, "an argument"));
  if (options.env.has_value()) {
    for (const std::string& entry : *options.env) {
      const size_t equals = entry.find('=');
      if (equals == std::string::npos || equals == 0) {
        // The value may be secret: only what stands for a name is shown.
        return absl::InvalidArgumentError(absl::StrCat("environment entry without a name: '", Printable(entry.substr(0, equals), 32), "'"));
      }
      if (entry.find('\0') != std::string::npos) {
        return absl::InvalidArgumentError(absl::StrCat("environment entry contains a zero byte: ", Printable(entry.substr(0, equals), 64)));
      }
    }
  }
  RETURN_IF_ERROR(CheckText(options.cwd, "the working folder"));
  RETURN_IF_ERROR(CheckText(options.stdout_path, "the path for standard output"));
  return CheckText(options.stderr_path, "the path for standard error");
}

std::vector<std::string> FilesToTry(const std::string& program) {
  if (program.find('/') != std::string::npos) return {program};
  const char* path = getenv("PATH");
  std::vector<std::string> files;
  for (absl::string_view folder : absl::StrSplit(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", ':')) {
    files.push_back(JoinPath(folder.empty() ? "." : folder, program));
  }
  return files;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::Status OpenForAppending(const std::string& path, OwnedFd* fd) {
  if (fd->TakeAboveStandard(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600))) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("cannot open ", path));
}

absl::Status StatusOfFailure(const Failure& failure, const SpawnOptions& options) {
  switch (failure.stage) {
    case kSession: return ErrnoStatus(failure.error, "cannot start a session");
    case kParentSignal: return ErrnoStatus(failure.error, "cannot ask for the parent's death signal");
    case kFolder: return ErrnoStatus(failure.error, absl::StrCat("cannot enter folder ", options.cwd));
    case kDescriptors: return ErrnoStatus(failure.error, "cannot set up the standard descriptors");
    default: return ErrnoStatus(failure.error, absl::StrCat("cannot start ", Printable(options.argv[0])));
  }
}

void Reap(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<pid_t> SpawnHere(const SpawnOptions& options) {
  const std::vector<std::string> files = FilesToTry(options.argv[0]);
  const std::vector<char*> file_pointers = Pointers(files);
  const std::vector<char*> argv = Pointers(options.argv);
  std::vector<char*> env;
  if (options.env.has_value()) env = Pointers(*options.env);

  OwnedFd null_fd, stdout_fd, stderr_fd, report_read, report_write;
  if (!null_fd.TakeAboveStandard(open("/dev/null", O_RDONLY | O_CLOEXEC))) return ErrnoStatus(errno, "cannot open /dev/null");
  if (!options.stdout_path.empty()) RETURN_IF_ERROR(OpenForAppending(options.stdout_path, &stdout_fd));
  const bool shared = !options.stderr_path.empty() && options.stderr_path == options.stdout_path;
  if (!options.stderr_path.empty() && !shared) RETURN_IF_ERROR(OpenForAppending(options.stderr_path, &stderr_fd));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot create a pipe");
  const bool read_ok = report_read.TakeAboveStandard(ends[0]);
  const bool write_ok = report_write.TakeAboveStandard(ends[1]);
  if (!read_ok || !write_ok) return ErrnoStatus(errno, "cannot create a pipe");

  ChildPlan plan;
  plan.files = file_pointers.data();
  plan.argv = argv.data();
  plan.env = options.env.has_value() ? env.data() : environ;
  plan.cwd = options.cwd.empty() ? nullptr : options.cwd.c_str();
  plan.stdin_fd = null_fd.get();
  plan.stdout_fd = stdout_fd.get();
  plan.stderr_fd = shared ? stdout_fd.get() : stderr_fd.get();
  plan.report_fd = report_write.get();
  plan.new_session = options.new_session;
  plan.die_with_parent = options.die_with_parent;
  plan.parent = getpid();

  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = VforkAndRun(plan);
  const int vfork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoStatus(vfork_error, absl::StrCat("cannot start ", Printable(options.argv[0])));

  report_write.Reset(-1);
  Failure failure;
  ssize_t n;
  do {
    n = read(report_read.get(), &failure, sizeof(failure));
  } while (n < 0 && errno == EINTR);
  if (n == 0) return pid;
  Reap(pid);
  if (n != sizeof(failure)) return absl::InternalError(absl::StrCat("cannot start ", Printable(options.argv[0]), ": no word from the child"));
  return StatusOfFailure(failure, options);
}

// PR_SET_PDEATHSIG means the death of the thread that forked. This thread starts such children and lives as long as the process.
class LastingThread {
 public:
  static LastingThread& Instance() {
    static auto* const instance = new LastingThread;
    return *instance;
  }

  absl::StatusOr<pid_t> Spawn(const SpawnOptions& options) {
    Request request{&options, {}};
    std::future<absl::StatusOr<pid_t>> result = request.result.get_future();
    {
      MutexLock lock(&mutex_);
      requests_.push(&request);
    }
    arrived_.Signal();
    return result.get();
  }

 private:
  struct Request {
    const SpawnOptions* options;
    std::promise<absl::StatusOr<pid_t>> result;
  };

  LastingThread() {
    // It must never be the one a signal is delivered to: programs choose their signal threads themselves.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { Run(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  [[noreturn]] void Run() {
    while (true) {
      Request* request;
      {
        MutexLock lock(&mutex_);
        while (requests_.empty()) arrived_.Wait(&mutex_);
        request = requests_.front();
        requests_.pop();
      }
      // Moved out first: once the value is set, the waiting caller may leave and take the request with it.
      std::promise<absl::StatusOr<pid_t>> result = std::move(request->result);
      result.set_value(SpawnHere(*request->options));
    }
  }

  Mutex mutex_;
  CondVar arrived_;
  std::queue<Request*> requests_ ABSL_GUARDED_BY(mutex_);
};

// The fields of /proc/PID/stat from the third (state) on. The second, the name in parentheses, may contain anything.
absl::StatusOr<std::vector<std::string>> StatFields(pid_t pid) {
  const absl::StatusOr<std::string> text = ReadFile(absl::StrCat("/proc/", pid, "/stat"), 64 << 10);
  const size_t end = text.ok() ? text->rfind(')') : std::string::npos;
  std::vector<std::string> fields;
  if (end != std::string::npos) fields = absl::StrSplit(absl::string_view(*text).substr(end + 1), ' ', absl::SkipEmpty());
  if (fields.size() < 20) return absl::NotFoundError(absl::StrCat("there is no process ", pid));
  return fields;
}

absl::StatusOr<int64_t> StartTicksOf(const std::vector<std::string>& fields, pid_t pid) {
  int64_t ticks;
  if (!absl::SimpleAtoi(fields[19], &ticks)) return absl::InternalError(absl::StrCat("unreadable start time of process ", pid));
  return ticks;
}

}  // namespace

absl::StatusOr<pid_t> Spawn(const SpawnOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  return options.die_with_parent ? LastingThread::Instance().Spawn(options) : SpawnHere(options);
}

absl::StatusOr<int64_t> ProcessStartTicks(pid_t pid) {
  ASSIGN_OR_RETURN(const std::vector<std::string> fields, StatFields(pid));
  return StartTicksOf(fields, pid);
}

bool ProcessAlive(pid_t pid, int64_t start_ticks) {
  const auto fields = StatFields(pid);
  if (!fields.ok() || (*fields)[0] == "Z" || (*fields)[0] == "X") return false;
  const auto ticks = StartTicksOf(*fields, pid);
  return ticks.ok() && *ticks == start_ticks;
}

std::string ExecutableFolder() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));
  CHECK(n > 0 && n < static_cast<ssize_t>(sizeof(path))) << "cannot read /proc/self/exe: errno " << errno;
  const absl::string_view text(path, static_cast<size_t>(n));
  return text.rfind('/') == 0 ? "/" : std::string(text.substr(0, text.rfind('/')));
}

}  // namespace spillway
