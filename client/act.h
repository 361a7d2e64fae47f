// One action on each of the jobs that somebody named, or on some of their tasks: all the others too where one is refused, and the worst exit code at the end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/targets.h"
#include "client/verb.h"

namespace spillway::client {

struct ActOnJobs {
  std::vector<std::string> jobs;  // as written: 5, 1-9, last, all, a name
  std::string question;           // "Cancel": asked first where several jobs are meant; empty: nobody is asked
  std::string done;               // what is said where the answer has no words of its own
  std::function<absl::StatusOr<v1::JobActionResponse>(Api&, const JobTasks&)> call;
  bool tasks_too = false;  // else a task is refused

  int Run(Context& context) const;
};

}  // namespace spillway::client
