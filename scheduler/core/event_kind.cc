// The names of the events, in the order of the variant.
#include <array>

#include "scheduler/core/event.h"

namespace spillway::core {

const char* EventKind(const Event& event) {
  static constexpr std::array kKinds = {"configured",
                                        "job_submitted",
                                        "request_recorded",
                                        "requests_forgotten",
                                        "job_cancel_requested",
                                        "attempt_offered",
                                        "attempt_accepted",
                                        "attempt_started",
                                        "attempt_stop_requested",
                                        "attempt_ended",
                                        "checkpoint_registered",
                                        "attempt_sealed",
                                        "node_requested",
                                        "node_created",
                                        "node_create_refused",
                                        "node_registered",
                                        "node_noticed",
                                        "node_cordoned",
                                        "node_drain_started",
                                        "node_release_requested",
                                        "orphan_adopted",
                                        "node_gone",
                                        "offers_updated",
                                        "reports_taken",
                                        "job_released",
                                        "job_failed",
                                        "job_paused",
                                        "job_resumed",
                                        "job_updated",
                                        "tasks_cancel_requested",
                                        "member_accepted",
                                        "member_started",
                                        "member_ended",
                                        "restored"};
  static_assert(kKinds.size() == std::variant_size_v<Event>);
  return kKinds[event.index()];
}

}  // namespace spillway::core
