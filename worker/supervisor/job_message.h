// One datagram of a job's SPILLWAY_SOCKET, understood. Pure; what a job writes is hostile until proven otherwise.
#pragma once

#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/frames/frames.h"

namespace spillway::supervisor {

struct Completed {};

using JobMessage = std::variant<frames::Progress, frames::Checkpoint, Completed>;

// {"type":"progress","step":120,"total":1000,"metrics":{"loss":1.9}}   step >= 0; total and metrics may be absent; metrics are finite numbers,
//                                                                       at most limits::kMetricsPerProgressMax
// {"type":"checkpoint","step":120,"path":"...", ...}                    step >= 0; everything else is passed on as it is
// {"type":"completed"}
// Other keys are ignored. INVALID_ARGUMENT says what is wrong; more than limits::kSocketMessageBytesMax is refused.
absl::StatusOr<JobMessage> ParseJobMessage(absl::string_view datagram);

}  // namespace spillway::supervisor
