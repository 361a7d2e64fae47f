#include "scheduler/rpc/translate_spec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <utility>

#include "base/limits.h"
#include "base/sha256.h"

namespace spillway::rpc {
namespace {

constexpr int64_t kDefaultPriority = 50;
constexpr int64_t kDefaultCpuMilli = 1000;

std::string DigestOf(absl::string_view bytes) {
  const Sha256Digest digest = Sha256Of(bytes);
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

template <typename Repeated>
std::set<std::string> SetOf(const Repeated& names) {
  return std::set<std::string>(names.begin(), names.end());
}

core::RetryPolicy RetryOf(const v1::RetrySpec& spec) {
  core::RetryPolicy retry;
  if (spec.has_preempted()) retry.preempted = spec.preempted();
  if (spec.has_node_fault()) retry.node_fault = spec.node_fault();
  if (spec.has_user_error()) retry.user_error = spec.user_error();
  return retry;
}

}  // namespace

std::string SerializeSpec(const v1::JobSpec& spec) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    spec.SerializeToCodedStream(&coded);
  }
  return bytes;
}

core::Shape ShapeOfSpec(const v1::JobSpec& spec) {
  core::Shape shape;
  const v1::ResourceSpec& resources = spec.resources();
  if (resources.has_gpu()) {
    const v1::GpuSpec& gpu = resources.gpu();
    shape.gpu_models.assign(gpu.model().begin(), gpu.model().end());
    shape.gpu_count = gpu.count() == 0 ? 1 : gpu.count();
    shape.gpu_memory_bytes_min = gpu.memory().min_bytes();
    shape.gpu_memory_bytes_max = gpu.memory().max_bytes();
  }
  shape.cpu_milli = resources.cpu_milli() == 0 ? kDefaultCpuMilli : resources.cpu_milli();
  shape.memory_bytes = resources.memory_bytes();
  shape.disk_bytes = resources.disk_bytes();
  shape.nodes = resources.nodes() == 0 ? 1 : resources.nodes();
  const v1::PlacementSpec& placement = spec.placement();
  for (const int market : placement.markets()) shape.markets.insert(WordFromNumber<Market>(market));
  shape.interruptible = placement.has_interruptible() ? placement.interruptible() : true;
  shape.regions = SetOf(placement.regions());
  shape.zones = SetOf(placement.zones());
  shape.providers = SetOf(placement.providers());
  shape.node_names = SetOf(placement.nodes());
  shape.max_price_micros_per_hour = placement.max_price_micros_per_hour();
  return shape;
}

core::NewJob NewJobOf(const v1::JobSpec& spec, std::string uid, std::string owner) {
  core::NewJob job;
  job.uid = std::move(uid);
  job.name = spec.name();
  job.owner = std::move(owner);
  job.spec_bytes = SerializeSpec(spec);
  job.spec_digest = DigestOf(job.spec_bytes);
  job.shape = ShapeOfSpec(spec);
  job.priority = spec.has_priority() ? spec.priority() : kDefaultPriority;
  job.retry = RetryOf(spec.retry());
  job.grace_ms = spec.checkpoint().grace_ms() == 0 ? limits::kStopGraceMs : spec.checkpoint().grace_ms();
  job.max_silence_ms = spec.placement().max_silence_ms();
  job.deadline_ms = spec.limits().deadline_utc_ms();
  job.expected_ms = spec.limits().expected_duration_ms();
  if (spec.has_array()) {
    job.task_count = spec.array().count();
    if (spec.array().parallel() < spec.array().count()) job.parallel = spec.array().parallel();
  }
  return job;
}

std::string RequestDigest(const std::vector<core::NewJob>& jobs) {
  Sha256 digest;
  for (const core::NewJob& job : jobs) digest.Update(job.spec_digest);
  const Sha256Digest bytes = digest.Finish();
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace spillway::rpc
