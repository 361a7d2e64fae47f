#include "sim/scheduler_edge.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"

namespace spillway::sim {
namespace {

core::NodeHello HelloOf(const worker::Hello& hello) {
  core::NodeHello out;
  out.name = hello.node_name;
  out.provider = hello.provider;
  out.instance_id = hello.instance_id;
  out.boot_id = hello.boot_id;
  out.zone = hello.zone;
  out.region = hello.region;
  out.isolation = hello.isolation;
  out.cluster_uuid = hello.cluster_uuid;
  out.market = hello.market;
  out.capacity.cpu_milli = hello.resources.cpu_milli;
  out.capacity.memory_bytes = hello.resources.memory_bytes;
  out.capacity.disk_bytes = hello.resources.disk_bytes;
  for (const worker::Accelerator& gpu : hello.resources.accelerators) {
    out.capacity.gpu_model = gpu.model;
    out.capacity.gpu_count = gpu.count;
    out.capacity.gpu_memory_bytes = gpu.memory_bytes;
    out.capacity.gpu_simulated = gpu.simulated;
  }
  for (const worker::InventoryItem& item : hello.inventory) out.inventory.push_back({item.attempt, item.state});
  return out;
}

core::Report ReportOf(const worker::Report& report) {
  core::Report out;
  out.seq = report.seq;
  out.attempt = report.attempt;
  out.kind = static_cast<core::Report::Kind>(report.kind);
  out.rendezvous = report.rendezvous;
  if (report.kind == worker::Report::Kind::kCheckpoint) {
    out.checkpoint.attempt = report.attempt.number;
    out.checkpoint.step = report.checkpoint.step;
    out.checkpoint.path = report.checkpoint.path;
    out.checkpoint.manifest_sha256 = report.checkpoint.manifest_sha256;
    out.checkpoint.bytes = report.checkpoint.bytes;
  } else if (report.kind == worker::Report::Kind::kEnded) {
    out.cause = report.end.cause;
    out.initiator = report.end.initiator;
    out.detail = report.end.detail;
    out.last_step = report.end.last_step;
  }
  return out;
}

worker::Offer OfferOf(const engine::OfferOrder& order) {
  worker::Offer offer;
  offer.attempt = order.attempt;
  offer.spec_digest = order.spec_digest;
  offer.job_uid = order.job_uid;
  offer.job_name = order.job_name;
  offer.checkpoint_dir = order.checkpoint_dir;
  offer.resume_from = order.resume_path;
  offer.resume_step = order.resume_step;
  offer.devices = order.devices;
  offer.log_path = order.log_path;
  offer.rank = order.rank;
  offer.members = std::max<int64_t>(1, static_cast<int64_t>(order.node_names.size()));
  offer.node_list = absl::StrJoin(order.node_names, ",");
  offer.rendezvous = order.rendezvous;
  return offer;
}

worker::Stop StopOf(const engine::StopOrder& order) { return {order.attempt, order.stop.cause, order.stop.initiator, order.stop.grace_ms, order.stop.reason}; }

}  // namespace

// ---- from the streams ----

void SchedulerEdge::StreamOpened(StreamId stream) {
  by_stream_[stream] = next_session_;
  sessions_[next_session_++].stream = stream;
}

void SchedulerEdge::StreamFrame(StreamId stream, const worker::WorkerFrame& frame) {
  const auto known = by_stream_.find(stream);
  if (known == by_stream_.end()) return;
  const int64_t number = known->second;
  Session& session = sessions_.at(number);
  if (frame.hello.has_value() == session.greeted) return End(number, session.greeted ? "a second hello in one session" : "the first frame must be a hello");
  if (frame.hello) {
    session.greeted = true;
    host_->Enqueue([this, number, hello = HelloOf(*frame.hello)](engine::Engine* engine) {
      if (!engine->Hello(number, hello).ok()) End(number, "busy");
    });
  }
  host_->Enqueue([number, renewal = frame.renewal](engine::Engine* engine) { engine->Heard(number, renewal); });
  for (const worker::ProgressReport& said : frame.progress) {
    core::Progress progress;
    progress.step = said.step;
    progress.total = said.total;
    host_->Enqueue([number, attempt = said.attempt, progress](engine::Engine* engine) { engine->Progressed(number, attempt, progress); });
  }
  if (!frame.reports.empty()) {
    std::vector<core::Report> reports;
    for (const worker::Report& report : frame.reports) reports.push_back(ReportOf(report));
    if (hooks_->acks_early) AckReports(number, reports.back().seq);
    if (hooks_->fencing_ignored) Relabel(&reports);
    host_->Enqueue([number, reports = std::move(reports)](engine::Engine* engine) { engine->Reports(number, reports); });
  }
  if (frame.notice) {
    host_->Enqueue([number, notice = *frame.notice](engine::Engine* engine) { engine->Noticed(number, notice.in_ms, notice.source, notice.advisory); });
  }
}

// A planted bug: whoever reports speaks for the living attempt of its task.
void SchedulerEdge::Relabel(std::vector<core::Report>* reports) const {
  for (core::Report& report : *reports) {
    const core::Task* task = core::FindTask(host_->engine()->state(), report.attempt.task());
    if (task == nullptr || !task->attempt) continue;
    report.attempt.number = task->attempt->number;
    if (report.checkpoint.attempt != 0) report.checkpoint.attempt = task->attempt->number;
  }
}

void SchedulerEdge::StreamBroken(StreamId stream) {
  const auto known = by_stream_.find(stream);
  if (known == by_stream_.end()) return;
  const int64_t number = known->second;
  by_stream_.erase(known);
  sessions_.erase(number);
  host_->Enqueue([number](engine::Engine* engine) { engine->Closed(number); });
}

// ---- from the engine ----

SchedulerEdge::Session* SchedulerEdge::Find(int64_t session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &found->second;
}

void SchedulerEdge::Send(int64_t session, worker::SchedulerFrame frame) {
  if (Session* known = Find(session)) network_->SendDown(known->stream, std::move(frame));
}

// The stream ends with an error; the engine hears of it as of any other end.
void SchedulerEdge::End(int64_t session, const std::string& why) {
  Session* known = Find(session);
  if (known == nullptr) return;
  world_->Trace("session ", session, " ends: ", why);
  network_->CloseByScheduler(known->stream, why);
  by_stream_.erase(known->stream);
  sessions_.erase(session);
  host_->Enqueue([session](engine::Engine* engine) { engine->Closed(session); });
}

void SchedulerEdge::AddSpec(Session* session, const std::string& digest, std::vector<worker::SpecData>* specs) {
  if (!session->specs.insert(digest).second) return;
  const std::string* spec = host_->Spec(digest);
  if (spec == nullptr) return world_->Fail("an offer needs a spec that was never stored");
  specs->push_back({digest, *spec});
}

void SchedulerEdge::Welcome(int64_t session, const engine::WelcomeOrder& order) {
  Session* known = Find(session);
  if (known == nullptr) return;
  worker::SchedulerFrame frame;
  worker::Welcome& welcome = frame.welcome.emplace();
  welcome.cluster_uuid = order.cluster_uuid;
  welcome.incarnation = order.incarnation;
  welcome.node_id = order.node;
  welcome.lease_ms = order.lease_ms;
  welcome.renew_every_ms = order.renew_every_ms;
  welcome.store_url = "file:/store";
  welcome.report_ack = order.report_ack;
  welcome.wanted = order.wanted;
  for (const engine::OfferOrder& offer : order.offers) {
    welcome.offers.push_back(OfferOf(offer));
    AddSpec(known, offer.spec_digest, &welcome.specs);
  }
  if (!hooks_->drop_stops) {
    for (const engine::StopOrder& stop : order.stops) welcome.stops.push_back(StopOf(stop));
  }
  Send(session, std::move(frame));
}

void SchedulerEdge::Refuse(int64_t session, const absl::Status& why) {
  world_->Reach("a session was refused");
  End(session, why.ToString());
}

void SchedulerEdge::Offer(int64_t session, const engine::OfferOrder& order) {
  Session* known = Find(session);
  if (known == nullptr || hooks_->drop_offers) return;
  worker::SchedulerFrame frame;
  frame.offers.push_back(OfferOf(order));
  AddSpec(known, order.spec_digest, &frame.specs);
  Send(session, std::move(frame));
}

void SchedulerEdge::Stop(int64_t session, const engine::StopOrder& order) {
  if (hooks_->drop_stops) return;
  worker::SchedulerFrame frame;
  frame.stops.push_back(StopOf(order));
  Send(session, std::move(frame));
}

void SchedulerEdge::Forget(int64_t session, const engine::ForgetOrder& order) {
  worker::SchedulerFrame frame;
  frame.forget.push_back(order.attempt);
  Send(session, std::move(frame));
}

void SchedulerEdge::AckReports(int64_t session, int64_t seq) {
  worker::SchedulerFrame frame;
  frame.report_ack = seq;
  Send(session, std::move(frame));
}

void SchedulerEdge::AckRenewal(int64_t session, int64_t renewal) {
  worker::SchedulerFrame frame;
  frame.renewal_ack = renewal;
  Send(session, std::move(frame));
}

void SchedulerEdge::Close(int64_t session, absl::string_view code, absl::string_view message, bool come_back) {
  Session* known = Find(session);
  if (known == nullptr) return;
  worker::SchedulerFrame frame;
  frame.goodbye = worker::Goodbye{std::string(code), std::string(message), come_back};
  Send(session, std::move(frame));
  End(session, absl::StrCat(std::string(code), ": ", std::string(message)));
}

}  // namespace spillway::sim
