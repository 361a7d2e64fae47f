#include "worker/supervisor/tree_use.h"

#include <unistd.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"

namespace spillway::supervisor {
namespace {

// /proc/PID/statm: size, resident, shared, ... in pages.
int64_t ResidentBytes(pid_t pid) {
  const std::string text = ReadFile(absl::StrCat("/proc/", pid, "/statm"), 4096).value_or("");
  const std::vector<absl::string_view> fields = absl::StrSplit(text, ' ');
  int64_t pages = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &pages)) return 0;
  return pages * sysconf(_SC_PAGESIZE);
}

// The line "Pss: N kB".
int64_t ProportionalBytes(pid_t pid) {
  const std::string text = ReadFile(absl::StrCat("/proc/", pid, "/smaps_rollup"), 64 << 10).value_or("");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "Pss:")) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kib = 0;
    return words.size() >= 2 && absl::SimpleAtoi(words[1], &kib) ? kib * 1024 : 0;
  }
  return 0;
}

}  // namespace

TreeUse UseOf(const std::set<pid_t>& processes, int64_t memory_bytes_max) {
  TreeUse use;
  use.processes = static_cast<int64_t>(processes.size());
  if (memory_bytes_max <= 0) return use;
  for (const pid_t pid : processes) use.memory_bytes += ResidentBytes(pid);
  if (use.memory_bytes <= memory_bytes_max) return use;
  use.memory_bytes = 0;
  for (const pid_t pid : processes) use.memory_bytes += ProportionalBytes(pid);
  return use;
}

}  // namespace spillway::supervisor
