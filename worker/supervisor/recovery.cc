#include "worker/supervisor/recovery.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/subprocess.h"
#include "worker/supervisor/process_tree.h"

namespace spillway::supervisor {
namespace {

// Journaled processes that still are who they were, and all below them.
void AddJournaled(const JournalContent& journal, std::set<pid_t>& found) {
  std::set<pid_t> roots;
  for (const JournalEntry& entry : journal.entries) {
    if (entry.exited) continue;
    for (const auto& [pid, ticks] : entry.processes) {
      if (ProcessAlive(static_cast<pid_t>(pid), ticks)) roots.insert(static_cast<pid_t>(pid));
    }
  }
  if (roots.empty()) return;
  const auto parents = Parents();
  for (const pid_t root : roots) {
    found.insert(root);
    found.merge(DescendantsOf(root, parents));
  }
}

}  // namespace

absl::Status KillLeftovers(const JournalContent& journal, const std::string& home_id, CgroupPool* pool, int64_t timeout_ms) {
  RealClock clock;
  const int64_t deadline = clock.NowSteadyMs() + timeout_ms;
  int clean_looks = 0;
  while (true) {
    std::set<pid_t> found = MarkedWith(absl::StrCat(home_id, "/"));
    AddJournaled(journal, found);
    found.erase(getpid());
    found.erase(1);
    for (const pid_t pid : found) kill(pid, SIGKILL);
    const bool empty = pool == nullptr || pool->KillAll();
    // Twice: a process may have forked behind the first look's back.
    clean_looks = found.empty() && empty ? clean_looks + 1 : 0;
    if (clean_looks == 2) return absl::OkStatus();
    if (clock.NowSteadyMs() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("leftovers of an earlier life would not die", found.empty() ? "" : absl::StrCat(", process ", *found.begin())));
    }
    const timespec pause = {0, 2'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace spillway::supervisor
