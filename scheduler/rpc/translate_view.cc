#include "scheduler/rpc/translate_view.h"

#include <bitset>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace spillway::rpc {

v1::AttemptKey KeyOf(const AttemptId& attempt) {
  v1::AttemptKey key;
  key.set_job_id(attempt.job);
  key.set_task_index(attempt.index);
  key.set_attempt(attempt.number);
  return key;
}

v1::Checkpoint CheckpointView(const TaskId& task, const core::CheckpointRef& checkpoint) {
  v1::Checkpoint view;
  *view.mutable_attempt() = KeyOf({task.job, task.index, checkpoint.attempt});
  view.set_step(checkpoint.step);
  view.set_path(checkpoint.path);
  view.set_manifest_sha256(checkpoint.manifest_sha256);
  view.set_bytes(checkpoint.bytes);
  view.set_registered_utc_ms(checkpoint.registered_ms);
  view.set_sealed(checkpoint.sealed);
  return view;
}

v1::Attempt AttemptView(const TaskId& task, const core::Attempt& attempt) {
  v1::Attempt view;
  *view.mutable_key() = KeyOf({task.job, task.index, attempt.number});
  view.set_state(static_cast<v1::AttemptState>(attempt.state));
  if (!attempt.members.empty()) view.set_node_id(attempt.members[0].node);
  view.set_node_name(absl::StrJoin(attempt.node_names, ","));
  if (core::IsGang(attempt)) {
    for (size_t i = 0; i < attempt.members.size(); ++i) {
      v1::Attempt::Member* member = view.add_members();
      member->set_node_id(attempt.members[i].node);
      if (i < attempt.node_names.size()) member->set_node_name(attempt.node_names[i]);
      member->set_state(static_cast<v1::AttemptState>(core::StateOf(attempt, attempt.members[i])));
    }
  }
  view.set_market(static_cast<v1::Market>(attempt.market));
  view.set_offered_utc_ms(attempt.offered_ms);
  view.set_started_utc_ms(attempt.started_ms);
  view.set_ended_utc_ms(attempt.ended_ms);
  view.set_from_step(attempt.from_step);
  view.set_to_step(attempt.to_step);
  view.set_end_cause(static_cast<v1::EndCause>(attempt.cause));
  view.set_initiator(static_cast<v1::Initiator>(attempt.initiator));
  view.set_detail(attempt.detail);
  view.set_saved_step(attempt.saved_step);
  view.set_placement_reason(core::DescribePlace(attempt.place));
  view.set_price_micros_per_hour(attempt.price_micros_per_hour);
  return view;
}

v1::Task TaskView(const core::Task& task) {
  v1::Task view;
  view.set_job_id(task.id.job);
  view.set_task_index(task.id.index);
  view.set_state(static_cast<v1::TaskState>(task.state));
  view.set_hold_reason(static_cast<v1::HoldReason>(task.hold));
  for (const core::Attempt& attempt : task.history) *view.add_attempts() = AttemptView(task.id, attempt);
  if (task.attempt) *view.add_attempts() = AttemptView(task.id, *task.attempt);
  view.set_attempts_total(task.attempts);
  if (task.checkpoint) *view.mutable_checkpoint() = CheckpointView(task.id, *task.checkpoint);
  view.set_not_before_utc_ms(task.not_before_ms);
  return view;
}

v1::Progress ProgressView(const core::Progress& progress) {
  v1::Progress view;
  view.set_step(progress.step);
  view.set_total(progress.total);
  for (const auto& [name, value] : progress.metrics) (*view.mutable_metrics())[name] = value;
  view.set_reported_utc_ms(progress.at_ms);
  return view;
}

v1::Job JobView(const core::Job& job) {
  v1::Job view;
  view.set_job_id(job.id);
  view.set_uid(job.uid);
  view.set_name(job.name);
  view.set_owner(job.owner);
  view.set_state(std::string(Name(core::FoldState(job))));
  view.set_priority(job.priority);
  view.set_submitted_utc_ms(job.submitted_ms);
  view.set_ended_utc_ms(job.ended_ms);
  v1::TaskCounts* counts = view.mutable_counts();
  counts->set_queued(job.counts.queued);
  counts->set_held(job.counts.held);
  counts->set_active(job.counts.active);
  counts->set_succeeded(job.counts.succeeded);
  counts->set_failed(job.counts.failed);
  counts->set_cancelled(job.counts.cancelled);
  view.set_cost_micros(job.charged_micros);
  view.set_reserved_micros(job.reserved_micros);
  view.set_paused(job.paused);
  view.set_end_cause(static_cast<v1::EndCause>(job.cause));
  view.set_end_detail(job.detail);
  view.set_task_count(job.task_count);
  view.set_parallel(job.parallel);
  view.set_deadline_utc_ms(job.deadline_ms);
  return view;
}

v1::Resources ResourcesView(const core::Capacity& capacity) {
  v1::Resources view;
  view.set_cpu_milli(capacity.cpu_milli);
  view.set_memory_bytes(capacity.memory_bytes);
  view.set_disk_bytes(capacity.disk_bytes);
  if (capacity.gpu_count > 0 || !capacity.gpu_model.empty()) {
    v1::Accelerator* gpu = view.add_accelerators();
    gpu->set_model(capacity.gpu_model);
    gpu->set_count(static_cast<int32_t>(capacity.gpu_count));
    gpu->set_memory_bytes(capacity.gpu_memory_bytes);
    gpu->set_simulated(capacity.gpu_simulated);
  }
  return view;
}

NodeUse UseOfNode(const core::State& state, const core::Soft& soft, const core::Node& node) {
  NodeUse use;
  use.free = node.capacity;
  if (auto it = state.index.on_node.find(node.id); it != state.index.on_node.end()) {
    for (const AttemptId& attempt : it->second) {
      use.attempts.push_back(attempt);
      const core::Job* job = core::FindJob(state, attempt.job);
      if (job == nullptr) continue;
      const core::Shape& shape = core::ShapeOf(state, *job);
      use.free.cpu_milli -= shape.cpu_milli;
      use.free.memory_bytes -= shape.memory_bytes;
      use.free.disk_bytes -= shape.disk_bytes;
      use.free.gpu_count -= shape.gpu_count;
    }
  }
  if (auto it = soft.leases.find(node.id); it != soft.leases.end()) {
    use.connected = it->second.session != 0;
    use.last_seen_ms = it->second.heard_ms;
  }
  return use;
}

v1::Node NodeView(const core::Node& node, const NodeUse& use) {
  v1::Node view;
  view.set_node_id(node.id);
  view.set_name(node.name);
  view.set_provider(node.provider);
  view.set_instance_id(node.instance_id);
  view.set_state(static_cast<v1::NodeState>(node.state));
  view.set_market(static_cast<v1::Market>(node.market));
  view.set_zone(node.zone);
  view.set_region(node.region);
  *view.mutable_total() = ResourcesView(node.capacity);
  *view.mutable_free() = ResourcesView(use.free);
  view.set_price_micros_per_hour(node.price_micros_per_hour);
  view.set_connected(use.connected);
  view.set_last_seen_utc_ms(use.last_seen_ms);
  view.set_requested_utc_ms(node.requested_ms);
  view.set_ready_utc_ms(node.ready_ms);
  view.set_gone_utc_ms(node.gone_ms);
  view.set_reason(node.reason);
  for (const AttemptId& attempt : use.attempts) *view.add_attempts() = KeyOf(attempt);
  view.set_cordoned(node.cordoned);
  view.set_isolation(node.isolation);
  view.set_charged_micros(node.charged_micros);
  return view;
}

v1::Offer OfferView(const core::Offer& offer) {
  v1::Offer view;
  view.set_provider(offer.provider);
  view.set_name(offer.name);
  view.set_market(static_cast<v1::Market>(offer.market));
  view.set_instance_type(offer.instance_type);
  view.set_zone(offer.zone);
  view.set_region(offer.region);
  *view.mutable_resources() = ResourcesView(offer.capacity);
  view.set_price_micros_per_hour(offer.price_micros_per_hour);
  view.set_billing_increment_ms(offer.billing.increment_ms);
  view.set_billing_minimum_ms(offer.billing.minimum_ms);
  view.set_notice_ms(offer.notice_ms);
  view.set_capacity(offer.available);
  view.set_backoff_until_utc_ms(offer.backoff_until_ms);
  view.set_backoff_reason(offer.backoff_reason);
  view.set_preemptions(offer.preemptions);
  return view;
}

v1::Reservation ReservationView(const core::Reservation& reservation) {
  v1::Reservation view;
  view.set_name(reservation.name);
  for (const std::string& node : reservation.nodes) view.add_nodes(node);
  view.set_from_utc_ms(reservation.from_ms);
  view.set_to_utc_ms(reservation.to_ms);
  view.set_price_micros_per_hour(reservation.price_micros_per_hour);
  return view;
}

v1::Charge ChargeView(const core::Charge& charge) {
  v1::Charge view;
  view.set_charge_id(charge.id);
  view.set_node_id(charge.node);
  if (charge.attempt.job != 0) *view.mutable_attempt() = KeyOf(charge.attempt);
  view.set_kind(charge.kind);
  view.set_market(static_cast<v1::Market>(charge.market));
  view.set_from_utc_ms(charge.from_ms);
  view.set_to_utc_ms(charge.to_ms);
  view.set_amount_micros(charge.amount_micros);
  return view;
}

}  // namespace spillway::rpc
