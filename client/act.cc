#include "client/act.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/targets.h"

namespace spillway::client {

int ActOnJobs::Run(Context& context) const {
  ASSIGN_OR_FAIL(context, Api* const api, context.connect());
  ASSIGN_OR_FAIL(context, const std::vector<JobId> ids, ResolveJobs(*api, jobs, false));
  if (ids.empty()) {
    *context.err << "spillway: no job waits or runs\n";
    return kExitOk;
  }
  if (ids.size() > 1 && !question.empty()) OR_FAIL(context, context.Confirm(absl::StrCat(question, " ", ids.size(), " jobs?")));
  int code = kExitOk;
  for (const JobId id : ids) {
    const auto response = call(*api, id);
    if (!response.ok()) {
      const std::string about = absl::StrCat("job ", id);
      const absl::string_view said = response.status().message();
      code = std::max(
          code, context.Fail(absl::StartsWith(said, about) ? response.status() : absl::Status(response.status().code(), absl::StrCat(about, ": ", said))));
      if (code == kExitUnreachable) return code;
    } else if (context.json) {
      *context.out << ToJson(*response, true);
    } else {
      *context.out << "job " << id << ": " << (response->message().empty() ? done : Printable(response->message(), 400)) << '\n';
    }
  }
  return code;
}

}  // namespace spillway::client
