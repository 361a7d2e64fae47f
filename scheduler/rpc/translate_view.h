// What the core and the store know, as the wire shows it. Pure: values in, messages out. Owns no wording but that of events.
#pragma once

#include <vector>

#include "scheduler/core/core.h"
#include "spillway/v1/billing_service.pb.h"
#include "spillway/v1/fleet_service.pb.h"
#include "spillway/v1/job_service.pb.h"

namespace spillway::rpc {

v1::AttemptKey KeyOf(const AttemptId& attempt);
v1::Checkpoint CheckpointView(const TaskId& task, const core::CheckpointRef& checkpoint);
v1::Attempt AttemptView(const TaskId& task, const core::Attempt& attempt);
v1::Task TaskView(const core::Task& task);
v1::Progress ProgressView(const core::Progress& progress);
// Without spec and tasks.
v1::Job JobView(const core::Job& job);

v1::Resources ResourcesView(const core::Capacity& capacity);
// `lease` may be null: no session since the restart. `living` are the node's attempts and their shapes' sum is subtracted for `free`.
struct NodeUse {
  std::vector<AttemptId> attempts;
  core::Capacity free;
  bool connected = false;
  int64_t last_seen_ms = 0;
  int64_t charged_micros = 0;  // with what has accrued since the newest charge
};
v1::Node NodeView(const core::Node& node, const NodeUse& use);
NodeUse UseOfNode(const core::State& state, const core::Soft& soft, const core::Node& node);
v1::Offer OfferView(const core::Offer& offer);
v1::Reservation ReservationView(const core::Reservation& reservation);
v1::Charge ChargeView(const core::Charge& charge);

// One event for people; several core events say nothing to them (bookkeeping) and give false.
bool EventView(const core::Event& event, int64_t seq, int64_t now_ms, v1::Event* view);

}  // namespace spillway::rpc
