#include "client/act.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace spillway::client {

int ActOnJobs::Run(Context& context) const {
  ASSIGN_OR_FAIL(context, Api* const api, context.connect());
  std::vector<JobTasks> targets;
  if (tasks_too) {
    ASSIGN_OR_FAIL(context, targets, ResolveJobTasks(*api, jobs, false));
  } else {
    ASSIGN_OR_FAIL(context, const std::vector<JobId> ids, ResolveJobs(*api, jobs, false));
    for (const JobId id : ids) targets.push_back({id, {}});
  }
  if (targets.empty()) {
    *context.err << "spillway: no job waits or runs\n";
    return kExitOk;
  }
  if (targets.size() > 1 && !question.empty()) OR_FAIL(context, context.Confirm(absl::StrCat(question, " ", targets.size(), " jobs?")));
  int code = kExitOk;
  for (const JobTasks& target : targets) {
    const auto response = call(*api, target);
    if (!response.ok()) {
      const std::string about = target.ToString();
      const absl::string_view said = response.status().message();
      code = std::max(
          code, context.Fail(absl::StartsWith(said, about) ? response.status() : absl::Status(response.status().code(), absl::StrCat(about, ": ", said))));
      if (code == kExitUnreachable) return code;
    } else if (context.json) {
      *context.out << ToJson(*response, true);
    } else {
      const bool several = target.tasks.size() > 1 || (target.tasks.size() == 1 && target.tasks[0].last > target.tasks[0].first);
      const std::string all_done = several ? absl::StrCat(done, " ", Counted(response->tasks_affected(), "task", "tasks")) : done;
      *context.out << target.ToString() << ": " << (response->message().empty() ? all_done : Printable(response->message(), 400)) << '\n';
    }
  }
  return code;
}

}  // namespace spillway::client
