#include "worker/supervisor/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/files.h"

namespace spillway::supervisor {
namespace {

// An environment longer than this is searched only so far; the mark stands near its end, so this is as long as execve allows in practice.
constexpr size_t kEnvironmentBytesMax = 4 << 20;

std::string ReadProc(pid_t pid, const char* name, size_t limit) {
  std::string text;
  const int fd = open(absl::StrCat("/proc/", pid, "/", name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char buffer[16 << 10];
  ssize_t n;
  while (text.size() < limit && (n = read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(n));
  close(fd);
  return text;
}

void EachProcess(const std::function<void(pid_t)>& visit) {
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    int pid = 0;
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && absl::SimpleAtoi(entry->d_name, &pid)) visit(pid);
  }
  closedir(folder);
}

}  // namespace

std::string HomeId(const std::string& home) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const unsigned char c : AbsolutePath(home)) hash = (hash ^ c) * 1099511628211u;
  return absl::StrFormat("%012x", hash & 0xffffffffffffu);
}

std::map<pid_t, pid_t> Parents() {
  std::map<pid_t, pid_t> parents;
  EachProcess([&](pid_t pid) {
    const std::string stat = ReadProc(pid, "stat", 4096);
    // "PID (NAME) STATE PPID ...": the name may hold anything, so look from its last parenthesis.
    const size_t close = stat.rfind(')');
    char state = 0;
    int parent = 0;
    if (close == std::string::npos || sscanf(stat.c_str() + close + 1, " %c %d", &state, &parent) != 2) return;
    if (state != 'Z' && state != 'X') parents.emplace(pid, parent);
  });
  return parents;
}

std::set<pid_t> DescendantsOf(pid_t root, const std::map<pid_t, pid_t>& parents) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& [pid, parent] : parents) children.emplace(parent, pid);
  std::set<pid_t> found;
  std::vector<pid_t> open = {root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (auto [it, end] = children.equal_range(parent); it != end; ++it) {
      if (it->second != root && found.insert(it->second).second) open.push_back(it->second);
    }
  }
  return found;
}

std::set<pid_t> MarkedWith(absl::string_view prefix) {
  const std::string wanted = absl::StrCat(kMarkName, "=", prefix);
  std::set<pid_t> found;
  const pid_t self = getpid();
  EachProcess([&](pid_t pid) {
    if (pid == self) return;
    const std::string environment = ReadProc(pid, "environ", kEnvironmentBytesMax);  // empty for a zombie or another user's process
    for (size_t at = environment.find(wanted); at != std::string::npos; at = environment.find(wanted, at + 1)) {
      if (at == 0 || environment[at - 1] == '\0') {
        found.insert(pid);
        return;
      }
    }
  });
  return found;
}

std::set<pid_t> KillDescendantsOfSelf() {
  std::set<pid_t> descendants = DescendantsOf(getpid(), Parents());
  for (const pid_t pid : descendants) kill(pid, SIGKILL);
  return descendants;
}

}  // namespace spillway::supervisor
