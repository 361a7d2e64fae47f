#include "worker/session_wire.h"

#include <algorithm>

namespace spillway::worker {
namespace {

template <typename Proto, typename Word>
Proto ToWord(Word word) {
  return static_cast<Proto>(static_cast<int>(word));
}

void Set(const AttemptId& attempt, v1::AttemptKey* out) {
  out->set_job_id(attempt.job);
  out->set_task_index(attempt.index);
  out->set_attempt(attempt.number);
}

AttemptId Get(const v1::AttemptKey& key) { return {key.job_id(), key.task_index(), key.attempt()}; }

void Set(const NodeResources& resources, v1::Resources* out) {
  out->set_cpu_milli(resources.cpu_milli);
  out->set_memory_bytes(resources.memory_bytes);
  out->set_disk_bytes(resources.disk_bytes);
  for (const Accelerator& accelerator : resources.accelerators) {
    v1::Accelerator* one = out->add_accelerators();
    one->set_model(accelerator.model);
    one->set_count(static_cast<int32_t>(accelerator.count));
    one->set_memory_bytes(accelerator.memory_bytes);
    one->set_simulated(accelerator.simulated);
  }
}

NodeResources Get(const v1::Resources& resources) {
  NodeResources out{resources.cpu_milli(), resources.memory_bytes(), resources.disk_bytes(), {}};
  for (const v1::Accelerator& one : resources.accelerators()) out.accelerators.push_back({one.model(), one.count(), one.memory_bytes(), one.simulated()});
  return out;
}

void Set(const Hello& hello, v1::Hello* out) {
  out->set_protocol(kProtocol);
  out->set_node_name(hello.node_name);
  out->set_provider(hello.provider);
  out->set_instance_id(hello.instance_id);
  out->set_boot_id(hello.boot_id);
  Set(hello.resources, out->mutable_resources());
  out->set_zone(hello.zone);
  out->set_region(hello.region);
  out->set_market(ToWord<v1::Market>(hello.market));
  out->set_isolation(hello.isolation);
  for (const InventoryItem& item : hello.inventory) {
    v1::InventoryItem* one = out->add_inventory();
    Set(item.attempt, one->mutable_attempt());
    one->set_state(ToWord<v1::AttemptState>(item.state));
  }
  out->set_worker_version(hello.worker_version);
  out->set_cluster_uuid(hello.cluster_uuid);
  out->set_node_id(hello.node_id);
}

Hello Get(const v1::Hello& hello) {
  Hello out;
  out.node_name = hello.node_name();
  out.provider = hello.provider();
  out.instance_id = hello.instance_id();
  out.boot_id = hello.boot_id();
  out.resources = Get(hello.resources());
  out.zone = hello.zone();
  out.region = hello.region();
  out.market = WordFromNumber<Market>(hello.market());
  out.isolation = hello.isolation();
  for (const v1::InventoryItem& item : hello.inventory()) out.inventory.push_back({Get(item.attempt()), WordFromNumber<AttemptState>(item.state())});
  out.worker_version = hello.worker_version();
  out.cluster_uuid = hello.cluster_uuid();
  out.node_id = hello.node_id();
  return out;
}

void Set(const Report& report, v1::Report* out) {
  out->set_seq(report.seq);
  Set(report.attempt, out->mutable_attempt());
  switch (report.kind) {
    case Report::Kind::kAccepted: out->mutable_accepted()->set_rendezvous(report.rendezvous); break;
    case Report::Kind::kStarted: out->mutable_started(); break;
    case Report::Kind::kCheckpoint: {
      v1::CheckpointReport* checkpoint = out->mutable_checkpoint();
      checkpoint->set_step(report.checkpoint.step);
      checkpoint->set_path(report.checkpoint.path);
      checkpoint->set_manifest_sha256(report.checkpoint.manifest_sha256);
      checkpoint->set_bytes(report.checkpoint.bytes);
      break;
    }
    case Report::Kind::kEnded: {
      v1::Ended* ended = out->mutable_ended();
      ended->set_cause(ToWord<v1::EndCause>(report.end.cause));
      ended->set_initiator(ToWord<v1::Initiator>(report.end.initiator));
      ended->set_detail(report.end.detail);
      ended->set_last_step(report.end.last_step);
      ended->set_total_steps(report.end.total_steps);
      ended->set_log_bytes(report.end.log_bytes);
      ended->set_run_ms(report.end.run_ms);
      break;
    }
  }
}

Report Get(const v1::Report& report) {
  Report out;
  out.seq = report.seq();
  out.attempt = Get(report.attempt());
  if (report.has_accepted()) out.rendezvous = report.accepted().rendezvous();
  if (report.has_started()) out.kind = Report::Kind::kStarted;
  if (report.has_checkpoint()) {
    const v1::CheckpointReport& checkpoint = report.checkpoint();
    out.kind = Report::Kind::kCheckpoint;
    out.checkpoint = {checkpoint.step(), checkpoint.path(), checkpoint.manifest_sha256(), checkpoint.bytes()};
  }
  if (report.has_ended()) {
    const v1::Ended& ended = report.ended();
    out.kind = Report::Kind::kEnded;
    out.end = {WordFromNumber<EndCause>(ended.cause()),
               WordFromNumber<Initiator>(ended.initiator()),
               ended.detail(),
               ended.last_step(),
               ended.total_steps(),
               ended.log_bytes(),
               ended.run_ms()};
  }
  return out;
}

void Set(const Offer& offer, v1::SchedulerFrame::Offer* out) {
  Set(offer.attempt, out->mutable_attempt());
  out->set_spec_digest(offer.spec_digest);
  out->set_job_uid(offer.job_uid);
  out->set_job_name(offer.job_name);
  out->set_checkpoint_dir(offer.checkpoint_dir);
  out->set_resume_from(offer.resume_from);
  out->set_resume_step(offer.resume_step);
  for (const int device : offer.devices) out->add_devices(device);
  out->set_log_path(offer.log_path);
  out->set_rank(static_cast<int32_t>(offer.rank));
  out->set_members(static_cast<int32_t>(offer.members));
  out->set_node_list(offer.node_list);
  out->set_rendezvous(offer.rendezvous);
  out->mutable_secrets()->insert(offer.secrets.begin(), offer.secrets.end());
}

Offer Get(const v1::SchedulerFrame::Offer& offer) {
  Offer out;
  out.attempt = Get(offer.attempt());
  out.spec_digest = offer.spec_digest();
  out.job_uid = offer.job_uid();
  out.job_name = offer.job_name();
  out.checkpoint_dir = offer.checkpoint_dir();
  out.resume_from = offer.resume_from();
  out.resume_step = offer.resume_step();
  out.devices.assign(offer.devices().begin(), offer.devices().end());
  out.log_path = offer.log_path();
  out.rank = offer.rank();
  out.members = std::max(1, offer.members());
  out.node_list = offer.node_list();
  out.rendezvous = offer.rendezvous();
  out.secrets.insert(offer.secrets().begin(), offer.secrets().end());
  return out;
}

void Set(const Stop& stop, v1::Stop* out) {
  Set(stop.attempt, out->mutable_attempt());
  out->set_cause(ToWord<v1::EndCause>(stop.cause));
  out->set_initiator(ToWord<v1::Initiator>(stop.initiator));
  out->set_grace_ms(stop.grace_ms);
  out->set_reason(stop.reason);
}

Stop Get(const v1::Stop& stop) {
  return {Get(stop.attempt()), WordFromNumber<EndCause>(stop.cause()), WordFromNumber<Initiator>(stop.initiator()), stop.grace_ms(), stop.reason()};
}

void Set(const SpecData& spec, v1::SpecData* out) {
  out->set_digest(spec.digest);
  out->set_spec(spec.spec);
}

void Set(const Welcome& welcome, v1::Welcome* out) {
  out->set_cluster_uuid(welcome.cluster_uuid);
  out->set_incarnation(welcome.incarnation);
  out->set_node_id(welcome.node_id);
  out->set_lease_ms(welcome.lease_ms);
  out->set_renew_every_ms(welcome.renew_every_ms);
  out->set_store_url(welcome.store_url);
  out->set_report_ack(welcome.report_ack);
  for (const AttemptId& attempt : welcome.wanted) Set(attempt, out->add_wanted());
  for (const Offer& offer : welcome.offers) Set(offer, out->add_offers());
  for (const Stop& stop : welcome.stops) Set(stop, out->add_stops());
  for (const SpecData& spec : welcome.specs) Set(spec, out->add_specs());
}

Welcome Get(const v1::Welcome& welcome) {
  Welcome out;
  out.cluster_uuid = welcome.cluster_uuid();
  out.incarnation = welcome.incarnation();
  out.node_id = welcome.node_id();
  out.lease_ms = welcome.lease_ms();
  out.renew_every_ms = welcome.renew_every_ms();
  out.store_url = welcome.store_url();
  out.report_ack = welcome.report_ack();
  for (const v1::AttemptKey& attempt : welcome.wanted()) out.wanted.push_back(Get(attempt));
  for (const auto& offer : welcome.offers()) out.offers.push_back(Get(offer));
  for (const v1::Stop& stop : welcome.stops()) out.stops.push_back(Get(stop));
  for (const v1::SpecData& spec : welcome.specs()) out.specs.push_back({spec.digest(), spec.spec()});
  return out;
}

}  // namespace

v1::WorkerFrame ToProto(const WorkerFrame& frame) {
  v1::WorkerFrame out;
  if (frame.hello) Set(*frame.hello, out.mutable_hello());
  out.set_renewal(frame.renewal);
  for (const Report& report : frame.reports) Set(report, out.add_reports());
  for (const ProgressReport& progress : frame.progress) {
    v1::ProgressReport* one = out.add_progress();
    Set(progress.attempt, one->mutable_attempt());
    one->set_step(progress.step);
    one->set_total(progress.total);
    for (const auto& [name, value] : progress.metrics) (*one->mutable_metrics())[name] = value;
  }
  if (frame.notice) {
    out.mutable_notice()->set_in_ms(frame.notice->in_ms);
    out.mutable_notice()->set_source(frame.notice->source);
    out.mutable_notice()->set_advisory(frame.notice->advisory);
  }
  return out;
}

WorkerFrame FromProto(const v1::WorkerFrame& frame) {
  WorkerFrame out;
  if (frame.has_hello()) out.hello = Get(frame.hello());
  out.renewal = frame.renewal();
  for (const v1::Report& report : frame.reports()) out.reports.push_back(Get(report));
  for (const v1::ProgressReport& progress : frame.progress()) {
    ProgressReport one{Get(progress.attempt()), progress.step(), progress.total(), {}};
    for (const auto& [name, value] : progress.metrics()) one.metrics.emplace_back(name, value);
    out.progress.push_back(std::move(one));
  }
  if (frame.has_notice()) out.notice = NodeNotice{frame.notice().in_ms(), frame.notice().source(), frame.notice().advisory()};
  return out;
}

v1::SchedulerFrame ToProto(const SchedulerFrame& frame) {
  v1::SchedulerFrame out;
  if (frame.welcome) Set(*frame.welcome, out.mutable_welcome());
  out.set_renewal_ack(frame.renewal_ack);
  out.set_report_ack(frame.report_ack);
  for (const Offer& offer : frame.offers) Set(offer, out.add_offers());
  for (const Stop& stop : frame.stops) Set(stop, out.add_stops());
  if (frame.goodbye) {
    out.mutable_goodbye()->set_code(frame.goodbye->code);
    out.mutable_goodbye()->set_message(frame.goodbye->message);
    out.mutable_goodbye()->set_come_back(frame.goodbye->come_back);
  }
  for (const SpecData& spec : frame.specs) Set(spec, out.add_specs());
  for (const AttemptId& attempt : frame.forget) Set(attempt, out.add_forget());
  return out;
}

SchedulerFrame FromProto(const v1::SchedulerFrame& frame) {
  SchedulerFrame out;
  if (frame.has_welcome()) out.welcome = Get(frame.welcome());
  out.renewal_ack = frame.renewal_ack();
  out.report_ack = frame.report_ack();
  for (const auto& offer : frame.offers()) out.offers.push_back(Get(offer));
  for (const v1::Stop& stop : frame.stops()) out.stops.push_back(Get(stop));
  if (frame.has_goodbye()) out.goodbye = Goodbye{frame.goodbye().code(), frame.goodbye().message(), frame.goodbye().come_back()};
  for (const v1::SpecData& spec : frame.specs()) out.specs.push_back({spec.digest(), spec.spec()});
  for (const v1::AttemptKey& attempt : frame.forget()) out.forget.push_back(Get(attempt));
  return out;
}

}  // namespace spillway::worker
