#include "scheduler/rpc/translate_session.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/text.h"
#include "scheduler/rpc/translate_view.h"

namespace spillway::rpc {
namespace {

constexpr int64_t kDevicesMax = 64;
constexpr int64_t kReportsPerFrameMax = 10'000;
constexpr int64_t kInventoryMax = 100'000;
constexpr int64_t kProgressPerFrameMax = 10'000;
constexpr size_t kRendezvousBytesMax = 300;
constexpr size_t kDetailBytesMax = 1'024;
constexpr size_t kPathBytesMax = 1'024;
constexpr size_t kIsolationBytesMax = 256;  // words for people

absl::Status CheckName(absl::string_view field, const std::string& name, bool required) {
  if (required && name.empty()) return absl::InvalidArgumentError(absl::StrCat(field, " is empty"));
  if (name.size() > limits::kNameBytesMax) return absl::InvalidArgumentError(absl::StrCat(field, " is longer than ", limits::kNameBytesMax, " bytes"));
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x21 || c == 0x7f)
      return absl::InvalidArgumentError(absl::StrCat(field, " has a blank or control character: ", Printable(name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<core::Capacity> CapacityOf(const v1::Resources& resources) {
  core::Capacity capacity;
  capacity.cpu_milli = resources.cpu_milli();
  capacity.memory_bytes = resources.memory_bytes();
  capacity.disk_bytes = resources.disk_bytes();
  if (capacity.cpu_milli < 0 || capacity.memory_bytes < 0 || capacity.disk_bytes < 0) return absl::InvalidArgumentError("resources: a negative amount");
  if (resources.accelerators_size() > 1)
    return absl::InvalidArgumentError("resources.accelerators: one kind of accelerator a node; start a worker for each kind");
  if (resources.accelerators_size() == 1) {
    const v1::Accelerator& gpu = resources.accelerators(0);
    if (gpu.count() < 0 || gpu.count() > kDevicesMax)
      return absl::InvalidArgumentError(absl::StrCat("resources.accelerators.count: 0 to ", kDevicesMax, ", not ", gpu.count()));
    if (gpu.model().size() > limits::kNameBytesMax || gpu.memory_bytes() < 0) return absl::InvalidArgumentError("resources.accelerators: bad model or memory");
    capacity.gpu_model = gpu.model();
    capacity.gpu_count = gpu.count();
    capacity.gpu_memory_bytes = gpu.memory_bytes();
    capacity.gpu_simulated = gpu.simulated();
  }
  return capacity;
}

}  // namespace

AttemptId AttemptOf(const v1::AttemptKey& key) { return {key.job_id(), key.task_index(), key.attempt()}; }

absl::StatusOr<core::NodeHello> HelloOf(const v1::Hello& hello) {
  if (hello.protocol() != "spillway/1") {
    return absl::FailedPreconditionError(absl::StrCat("this scheduler speaks spillway/1, the worker ", Printable(hello.protocol())));
  }
  core::NodeHello out;
  const std::pair<const char*, const std::string*> names[] = {
      {"zone", &hello.zone()}, {"region", &hello.region()}, {"instance_id", &hello.instance_id()}, {"cluster_uuid", &hello.cluster_uuid()}};
  for (const auto& [field, value] : names) {
    if (absl::Status status = CheckName(field, *value, false); !status.ok()) return status;
  }
  const std::pair<const char*, const std::string*> required[] = {
      {"node_name", &hello.node_name()}, {"provider", &hello.provider()}, {"boot_id", &hello.boot_id()}};
  for (const auto& [field, value] : required) {
    if (absl::Status status = CheckName(field, *value, true); !status.ok()) return status;
  }
  if (hello.inventory_size() > kInventoryMax)
    return absl::InvalidArgumentError(absl::StrCat("inventory: ", hello.inventory_size(), " attempts; the limit is ", kInventoryMax));
  absl::StatusOr<core::Capacity> capacity = CapacityOf(hello.resources());
  if (!capacity.ok()) return capacity.status();
  out.name = hello.node_name();
  out.provider = hello.provider();
  out.instance_id = hello.instance_id();
  out.boot_id = hello.boot_id();
  out.zone = hello.zone();
  out.region = hello.region();
  out.isolation = Printable(hello.isolation(), kIsolationBytesMax);
  out.cluster_uuid = hello.cluster_uuid();
  out.market = WordFromNumber<Market>(hello.market());
  out.capacity = *std::move(capacity);
  for (const v1::InventoryItem& item : hello.inventory()) {
    out.inventory.push_back({AttemptOf(item.attempt()), WordFromNumber<AttemptState>(item.state())});
  }
  return out;
}

absl::StatusOr<std::vector<core::Report>> ReportsOf(const v1::WorkerFrame& frame) {
  if (frame.reports_size() > kReportsPerFrameMax) {
    return absl::InvalidArgumentError(absl::StrCat(frame.reports_size(), " reports in one frame; the limit is ", kReportsPerFrameMax));
  }
  std::vector<core::Report> reports;
  reports.reserve(frame.reports_size());
  for (const v1::Report& report : frame.reports()) {
    core::Report out;
    out.seq = report.seq();
    out.attempt = AttemptOf(report.attempt());
    switch (report.what_case()) {
      case v1::Report::kAccepted:
        out.kind = core::Report::Kind::kAccepted;
        out.rendezvous = Printable(report.accepted().rendezvous(), kRendezvousBytesMax);
        break;
      case v1::Report::kStarted: out.kind = core::Report::Kind::kStarted; break;
      case v1::Report::kCheckpoint:
        out.kind = core::Report::Kind::kCheckpoint;
        if (report.checkpoint().path().size() > kPathBytesMax || report.checkpoint().manifest_sha256().size() > 64) {
          return absl::InvalidArgumentError("a checkpoint report with an overlong path or digest");
        }
        out.checkpoint.attempt = out.attempt.number;
        out.checkpoint.step = report.checkpoint().step();
        out.checkpoint.path = report.checkpoint().path();
        out.checkpoint.manifest_sha256 = report.checkpoint().manifest_sha256();
        out.checkpoint.bytes = report.checkpoint().bytes();
        break;
      case v1::Report::kEnded:
        out.kind = core::Report::Kind::kEnded;
        out.cause = WordFromNumber<EndCause>(report.ended().cause());
        out.initiator = WordFromNumber<Initiator>(report.ended().initiator());
        out.detail = Printable(report.ended().detail(), kDetailBytesMax);
        out.last_step = report.ended().last_step();
        break;
      case v1::Report::WHAT_NOT_SET: return absl::InvalidArgumentError(absl::StrCat("report ", report.seq(), " says nothing"));
    }
    reports.push_back(std::move(out));
  }
  return reports;
}

absl::Status CheckProgress(const v1::WorkerFrame& frame) {
  if (frame.progress_size() <= kProgressPerFrameMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(frame.progress_size(), " progress reports in one frame; the limit is ", kProgressPerFrameMax));
}

core::Progress ProgressOf(const v1::ProgressReport& report, int64_t now_ms) {
  core::Progress progress;
  progress.step = report.step();
  progress.total = report.total();
  progress.at_ms = now_ms;
  for (const auto& [name, value] : report.metrics()) {
    if (name.size() <= limits::kNameBytesMax && progress.metrics.size() < limits::kMetricsPerProgressMax) progress.metrics[name] = value;
  }
  return progress;
}

v1::SchedulerFrame::Offer OfferFrame(const engine::OfferOrder& order) {
  v1::SchedulerFrame::Offer offer;
  *offer.mutable_attempt() = KeyOf(order.attempt);
  offer.set_spec_digest(order.spec_digest);
  offer.set_job_uid(order.job_uid);
  offer.set_job_name(order.job_name);
  offer.set_checkpoint_dir(order.checkpoint_dir);
  offer.set_resume_from(order.resume_path);
  offer.set_resume_step(order.resume_step);
  for (const int device : order.devices) offer.add_devices(device);
  offer.set_log_path(order.log_path);
  offer.set_rank(static_cast<int32_t>(order.rank));
  offer.set_members(static_cast<int32_t>(order.node_names.size()));
  offer.set_node_list(absl::StrJoin(order.node_names, ","));
  offer.set_rendezvous(order.rendezvous);
  return offer;
}

v1::Stop StopFrame(const engine::StopOrder& order) {
  v1::Stop stop;
  *stop.mutable_attempt() = KeyOf(order.attempt);
  stop.set_cause(static_cast<v1::EndCause>(order.stop.cause));
  stop.set_initiator(static_cast<v1::Initiator>(order.stop.initiator));
  stop.set_grace_ms(order.stop.grace_ms);
  stop.set_reason(order.stop.reason);
  return stop;
}

v1::Welcome WelcomeFrame(const engine::WelcomeOrder& order, const std::string& store_url) {
  v1::Welcome welcome;
  welcome.set_cluster_uuid(order.cluster_uuid);
  welcome.set_incarnation(order.incarnation);
  welcome.set_node_id(order.node);
  welcome.set_lease_ms(order.lease_ms);
  welcome.set_renew_every_ms(order.renew_every_ms);
  welcome.set_store_url(store_url);
  welcome.set_report_ack(order.report_ack);
  for (const AttemptId& attempt : order.wanted) *welcome.add_wanted() = KeyOf(attempt);
  for (const engine::OfferOrder& offer : order.offers) *welcome.add_offers() = OfferFrame(offer);
  for (const engine::StopOrder& stop : order.stops) *welcome.add_stops() = StopFrame(stop);
  return welcome;
}

}  // namespace spillway::rpc
