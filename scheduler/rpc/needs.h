// Which jobs the specs of one submission wait for: what a person wrote (`after: [12, prepare]`) becomes what the core understands.
// A name means the job of the same submission, else the newest job called so. Owns the look-up; whether it still holds when it is admitted is the core's
// to say.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/core/command.h"
#include "scheduler/store/reader.h"
#include "spec/validate.h"
#include "spillway/v1/job_service.pb.h"

namespace spillway::rpc {

struct NamedNeed {
  std::string field;  // "specs[2].after[0]"
  std::string text;   // "12", "prepare"
  bool any = false;
};
// By spec; empty when none of them waits for another job.
std::vector<std::vector<NamedNeed>> NeedsNamedIn(const v1::SubmitRequest& request);

// Sets `needs` of each job anew. What is not there becomes a violation. Blocks.
absl::Status ResolveNeeds(const std::vector<std::vector<NamedNeed>>& named, store::Reader* reader, std::vector<core::NewJob>* jobs,
                          std::vector<spec::Violation>* violations);

}  // namespace spillway::rpc
