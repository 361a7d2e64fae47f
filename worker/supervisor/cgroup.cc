#include "worker/supervisor/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/status_macros.h"

namespace spillway::supervisor {
namespace {

constexpr size_t kIdleMax = 64;
constexpr absl::string_view kFolderPrefix = "spillway-";

bool WriteTo(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return ok;
}

std::string ReadSmall(const std::string& path) { return ReadFile(path, 1 << 20).value_or(""); }

// The number after `name` in lines of "name number".
int64_t NumberAfter(absl::string_view text, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t value = 0;
    if (absl::StartsWith(line, absl::StrCat(name, " ")) && absl::SimpleAtoi(line.substr(name.size() + 1), &value)) return value;
  }
  return 0;
}

struct Mount {
  std::string path, type, options;
};

std::vector<Mount> CgroupMounts() {
  std::vector<Mount> mounts;
  // /proc has no size to stat, so it is read here; a mount table is small.
  for (const absl::string_view line : absl::StrSplit(ReadSmall("/proc/self/mounts"), '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    if (fields.size() >= 4 && absl::StartsWith(fields[2], "cgroup")) mounts.push_back({fields[1], fields[2], fields[3]});
  }
  return mounts;
}

// Our own folder in a hierarchy: "0::/x" names v2, "7:memory:/x" a v1 controller.
std::string OwnFolder(absl::string_view controller) {
  for (const absl::string_view line : absl::StrSplit(ReadSmall("/proc/self/cgroup"), '\n')) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    const std::vector<std::string> names = absl::StrSplit(fields[1], ',');
    for (const std::string& name : names) {
      if (name == controller && (controller.empty() ? fields[0] == "0" : true)) return fields[2] == "/" ? "" : fields[2];
    }
  }
  return "";
}

// Creates `name` under our own cgroup, else under the mount's root. "" when neither may be written.
std::string MakeUnder(const std::string& mount, const std::string& own, const std::string& name, std::string& tried) {
  for (const std::string& parent : {absl::StrCat(mount, own), mount}) {
    const std::string path = JoinPath(parent, name);
    if (mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) {
      if (access(JoinPath(path, "cgroup.procs").c_str(), W_OK) == 0) return path;
    }
    absl::StrAppend(&tried, tried.empty() ? "" : ", ", path, ": ", strerror(errno));
    if (own.empty()) break;
  }
  return "";
}

void RemoveBelow(const std::string& folder) {
  const auto names = ListDirectory(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string path = JoinPath(folder, name);
    struct stat info;
    if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
    RemoveBelow(path);
    rmdir(path.c_str());
  }
}

void KillProcessesIn(const std::string& folder) {
  for (const absl::string_view line : absl::StrSplit(ReadSmall(JoinPath(folder, "cgroup.procs")), '\n')) {
    int pid = 0;
    if (absl::SimpleAtoi(line, &pid) && pid > 1) kill(pid, SIGKILL);
  }
  const auto names = ListDirectory(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    struct stat info;
    const std::string path = JoinPath(folder, name);
    if (lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) KillProcessesIn(path);
  }
}

// A supervisor holds a lock on its folder as long as it lives. Folders of the dead (a machine or container that ended at once) are removed, so that
// they do not pile up; whoever holds its lock, or has a process in it, is left alone.
void RemoveFoldersOfTheDead(const std::string& parent, absl::string_view own_name, const std::vector<std::string>& v1_parents) {
  const auto names = ListDirectory(parent);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (name == own_name || !absl::StartsWith(name, kFolderPrefix)) continue;
    const std::string path = JoinPath(parent, name);
    const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && absl::StrContains(ReadSmall(JoinPath(path, "cgroup.events")), "populated 0")) {
      RemoveBelow(path);
      rmdir(path.c_str());
      for (const std::string& v1 : v1_parents) {
        RemoveBelow(JoinPath(v1, name));
        rmdir(JoinPath(v1, name).c_str());
      }
    }
    close(fd);
  }
}

std::string ParentOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

std::string Pread(int fd) {
  char buffer[256];
  const ssize_t n = pread(fd, buffer, sizeof buffer, 0);
  return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : std::string();
}

}  // namespace

// ---- one cgroup ----

Cgroup::~Cgroup() {
  for (const int fd : {folder_fd_, events_fd_, kill_fd_}) {
    if (fd >= 0) close(fd);
  }
  for (const int fd : join_fds_) close(fd);
}

bool Cgroup::Populated() const {
  // An unreadable file proves nothing: only "populated 0" means empty.
  return !absl::StrContains(Pread(events_fd_), "populated 0");
}

std::vector<int64_t> Cgroup::Processes() const {
  std::vector<int64_t> pids;
  for (const absl::string_view line : absl::StrSplit(ReadSmall(JoinPath(path_, "cgroup.procs")), '\n')) {
    int64_t pid = 0;
    if (absl::SimpleAtoi(line, &pid)) pids.push_back(pid);
  }
  return pids;
}

void Cgroup::Kill() {
  killed_ = true;
  if (kill_fd_ >= 0 && pwrite(kill_fd_, "1", 1, 0) == 1) return;
  KillProcessesIn(path_);
}

int64_t Cgroup::OutOfMemoryKills() const {
  if (!memory_v1_.empty()) return NumberAfter(ReadSmall(JoinPath(memory_v1_, "memory.oom_control")), "oom_kill") - oom_kills_before_;
  if (memory_v2_) return NumberAfter(ReadSmall(JoinPath(path_, "memory.events")), "oom_kill") - oom_kills_before_;
  return 0;
}

int64_t Cgroup::ForksRefused() const {
  if (!pids_enforced_) return 0;
  return NumberAfter(ReadSmall(JoinPath(pids_v1_.empty() ? path_ : pids_v1_, "pids.events")), "max") - forks_refused_before_;
}

int64_t Cgroup::MemoryPeakBytes() const {
  int64_t peak = 0;
  const std::string file = !memory_v1_.empty() ? JoinPath(memory_v1_, "memory.max_usage_in_bytes") : memory_v2_ ? JoinPath(path_, "memory.peak") : "";
  if (file.empty() || !absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadSmall(file)), &peak)) return 0;
  return peak;
}

// ---- the pool ----

absl::StatusOr<std::unique_ptr<CgroupPool>> CgroupPool::Open(const std::string& home_id) {
  const std::string name = absl::StrCat(kFolderPrefix, home_id);
  std::unique_ptr<CgroupPool> pool(new CgroupPool);
  std::string tried, ignored;
  for (const Mount& mount : CgroupMounts()) {
    const std::vector<std::string> options = absl::StrSplit(mount.options, ',');
    const auto has = [&](absl::string_view option) {
      for (const std::string& o : options) {
        if (o == option) return true;
      }
      return false;
    };
    if (mount.type == "cgroup2" && pool->parent_.empty()) pool->parent_ = MakeUnder(mount.path, OwnFolder(""), name, tried);
    if (mount.type == "cgroup" && has("memory") && pool->memory_v1_.empty()) pool->memory_v1_ = MakeUnder(mount.path, OwnFolder("memory"), name, ignored);
    if (mount.type == "cgroup" && has("cpu") && pool->cpu_v1_.empty()) pool->cpu_v1_ = MakeUnder(mount.path, OwnFolder("cpu"), name, ignored);
    if (mount.type == "cgroup" && has("pids") && pool->pids_v1_.empty()) pool->pids_v1_ = MakeUnder(mount.path, OwnFolder("pids"), name, ignored);
  }
  if (pool->parent_.empty()) return absl::UnavailableError(absl::StrCat("no writable cgroup v2 (", tried.empty() ? "no cgroup2 mount" : tried, ")"));
  RETURN_IF_ERROR(pool->LockFolder());
  std::vector<std::string> v1_parents;
  for (const std::string* v1 : {&pool->memory_v1_, &pool->pids_v1_, &pool->cpu_v1_}) {
    if (!v1->empty()) v1_parents.push_back(ParentOf(*v1));
  }
  RemoveFoldersOfTheDead(ParentOf(pool->parent_), name, v1_parents);
  const std::string controllers = absl::StrCat(" ", absl::StripAsciiWhitespace(ReadSmall(JoinPath(pool->parent_, "cgroup.controllers"))), " ");
  const std::string control = JoinPath(pool->parent_, "cgroup.subtree_control");
  pool->memory_v2_ = absl::StrContains(controllers, " memory ") && WriteTo(control, "+memory");
  pool->pids_v2_ = absl::StrContains(controllers, " pids ") && WriteTo(control, "+pids");
  pool->cpu_v2_ = absl::StrContains(controllers, " cpu ") && WriteTo(control, "+cpu");
  // Folders of an earlier life; recovery has emptied them.
  RemoveBelow(pool->parent_);
  if (!pool->memory_v1_.empty()) RemoveBelow(pool->memory_v1_);
  if (!pool->pids_v1_.empty()) RemoveBelow(pool->pids_v1_);
  if (!pool->cpu_v1_.empty()) RemoveBelow(pool->cpu_v1_);
  RETURN_IF_ERROR(pool->ProbeCloneInto());
  return pool;
}

// Another supervisor that just looked for folders of the dead may have taken ours away before it was locked.
absl::Status CgroupPool::LockFolder() {
  for (int tries = 0; tries < 100; ++tries) {
    if (mkdir(parent_.c_str(), 0755) != 0 && errno != EEXIST) break;
    lock_fd_ = open(parent_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock_fd_ < 0) continue;
    struct stat held, named;
    if (flock(lock_fd_, LOCK_EX) == 0 && fstat(lock_fd_, &held) == 0 && stat(parent_.c_str(), &named) == 0 && held.st_ino == named.st_ino)
      return absl::OkStatus();
    close(lock_fd_);
    lock_fd_ = -1;
  }
  return ErrnoStatus(errno, absl::StrCat("cannot lock the cgroup ", parent_));
}

// Can a child be born in a cgroup, and live? Old kernels cannot, and where our own cgroup was once killed and used again, new ones kill it.
absl::Status CgroupPool::ProbeCloneInto() {
  ASSIGN_OR_RETURN(std::unique_ptr<Cgroup> cgroup, Take({}));
  clone_args args = {};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<uint64_t>(cgroup->folder_fd_);
  const long pid = syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) _exit(0);
  int status = 0;
  clone_into_ = pid > 0 && waitpid(static_cast<pid_t>(pid), &status, 0) == pid && WIFEXITED(status);
  cgroup->killed_ = true;  // its clone_into_ was set before this was known
  GiveBack(std::move(cgroup));
  return absl::OkStatus();
}

CgroupPool::~CgroupPool() {
  idle_.clear();
  for (const std::string& folder : {parent_, memory_v1_, pids_v1_, cpu_v1_}) {
    if (folder.empty()) continue;
    RemoveBelow(folder);
    rmdir(folder.c_str());
  }
  if (lock_fd_ >= 0) close(lock_fd_);
}

absl::StatusOr<std::unique_ptr<Cgroup>> CgroupPool::Take(const Limits& limits) {
  std::unique_ptr<Cgroup> cgroup;
  if (!idle_.empty()) {
    cgroup = std::move(idle_.back());
    idle_.pop_back();
  } else {
    cgroup.reset(new Cgroup);
    // A folder that could not be emptied keeps its name; the next number is free.
    do {
      cgroup->path_ = JoinPath(parent_, absl::StrCat("a", next_++));
    } while (mkdir(cgroup->path_.c_str(), 0755) != 0 && errno == EEXIST);
    cgroup->folder_fd_ = open(cgroup->path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cgroup->events_fd_ = open(JoinPath(cgroup->path_, "cgroup.events").c_str(), O_RDONLY | O_CLOEXEC);
    if (cgroup->folder_fd_ < 0 || cgroup->events_fd_ < 0) return ErrnoStatus(errno, absl::StrCat("cannot use the cgroup ", cgroup->path_));
    cgroup->clone_into_ = clone_into_;
    cgroup->kill_fd_ = open(JoinPath(cgroup->path_, "cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC);
  }
  Apply(limits, *cgroup);
  return cgroup;
}

void CgroupPool::Apply(const Limits& limits, Cgroup& cgroup) {
  const std::string name = cgroup.path_.substr(cgroup.path_.rfind('/') + 1);
  const auto join_v1 = [&](const std::string& parent, const char* file, int64_t value, std::string& folder) {
    folder = JoinPath(parent, name);
    if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return false;
    const int fd = open(JoinPath(folder, "cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || !WriteTo(JoinPath(folder, file), absl::StrCat(value))) {
      if (fd >= 0) close(fd);
      return false;
    }
    cgroup.join_fds_.push_back(fd);
    return true;
  };
  if (memory_v2_) {
    cgroup.memory_v2_ = true;
    cgroup.oom_kills_before_ = NumberAfter(ReadSmall(JoinPath(cgroup.path_, "memory.events")), "oom_kill");
    const bool ok = WriteTo(JoinPath(cgroup.path_, "memory.max"), limits.memory_bytes > 0 ? absl::StrCat(limits.memory_bytes) : "max");
    cgroup.memory_enforced_ = ok && limits.memory_bytes > 0;
  } else if (!memory_v1_.empty() && limits.memory_bytes > 0) {
    cgroup.memory_enforced_ = join_v1(memory_v1_, "memory.limit_in_bytes", limits.memory_bytes, cgroup.memory_v1_);
    cgroup.oom_kills_before_ = NumberAfter(ReadSmall(JoinPath(cgroup.memory_v1_, "memory.oom_control")), "oom_kill");
  }
  // Thousands of processes of one tree count no more than a tree of one process that asked for as many cpus.
  const int64_t cpu_milli = limits.cpu_milli > 0 ? std::min<int64_t>(limits.cpu_milli, 256'000) : 1'000;
  if (cpu_v2_) {
    WriteTo(JoinPath(cgroup.path_, "cpu.weight"), absl::StrCat(std::clamp<int64_t>(cpu_milli / 10, 1, 10'000)));
  } else if (!cpu_v1_.empty()) {
    join_v1(cpu_v1_, "cpu.shares", std::max<int64_t>(2, cpu_milli * 1'024 / 1'000), cgroup.cpu_v1_);
  }
  if (pids_v2_) {
    const bool ok = WriteTo(JoinPath(cgroup.path_, "pids.max"), limits.pids_max > 0 ? absl::StrCat(limits.pids_max) : "max");
    cgroup.pids_enforced_ = ok && limits.pids_max > 0;
    cgroup.forks_refused_before_ = NumberAfter(ReadSmall(JoinPath(cgroup.path_, "pids.events")), "max");
  } else if (!pids_v1_.empty() && limits.pids_max > 0) {
    cgroup.pids_enforced_ = join_v1(pids_v1_, "pids.max", limits.pids_max, cgroup.pids_v1_);
    cgroup.forks_refused_before_ = NumberAfter(ReadSmall(JoinPath(cgroup.pids_v1_, "pids.events")), "max");
  }
}

void CgroupPool::GiveBack(std::unique_ptr<Cgroup> cgroup) {
  for (const int fd : cgroup->join_fds_) close(fd);
  cgroup->join_fds_.clear();
  for (std::string* folder : {&cgroup->memory_v1_, &cgroup->pids_v1_, &cgroup->cpu_v1_}) {
    if (!folder->empty()) rmdir(folder->c_str());
    folder->clear();
  }
  cgroup->memory_enforced_ = cgroup->pids_enforced_ = false;
  // A job that ran as root may have made folders of its own below, or frozen its cgroup.
  struct stat info;
  if (fstat(cgroup->folder_fd_, &info) == 0 && info.st_nlink > 2) RemoveBelow(cgroup->path_);
  WriteTo(JoinPath(cgroup->path_, "cgroup.freeze"), "0");
  if (idle_.size() < kIdleMax && !cgroup->killed_) {
    idle_.push_back(std::move(cgroup));
    return;
  }
  const std::string path = cgroup->path_;
  cgroup.reset();
  rmdir(path.c_str());
}

bool CgroupPool::KillAll() {
  if (!WriteTo(JoinPath(parent_, "cgroup.kill"), "1")) KillProcessesIn(parent_);
  return absl::StrContains(ReadSmall(JoinPath(parent_, "cgroup.events")), "populated 0");
}

}  // namespace spillway::supervisor
