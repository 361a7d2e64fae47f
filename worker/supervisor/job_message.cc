#include "worker/supervisor/job_message.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::supervisor {
namespace {

using Json = nlohmann::json;

absl::Status Bad(absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat("message on SPILLWAY_SOCKET: ", why)); }

// A count that a program may well write as 120.0.
std::optional<int64_t> Count(const Json& json) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (json.is_number_unsigned() && json.get<uint64_t>() <= uint64_t{1} << 62) return static_cast<int64_t>(json.get<uint64_t>());
  if (json.is_number_float()) {
    const double value = json.get<double>();
    if (value >= 0 && value <= kExact && value == std::floor(value)) return static_cast<int64_t>(value);
  }
  return std::nullopt;
}

absl::StatusOr<frames::Progress> ParseProgress(const Json& json) {
  frames::Progress progress;
  const auto step = json.find("step");
  const std::optional<int64_t> count = step == json.end() ? std::nullopt : Count(*step);
  if (!count) return Bad("progress without a step >= 0");
  progress.step = *count;
  if (const auto total = json.find("total"); total != json.end() && !total->is_null()) {
    const std::optional<int64_t> value = Count(*total);
    if (!value) return Bad("progress with a total that is no count");
    progress.total = *value;
  }
  const auto metrics = json.find("metrics");
  if (metrics == json.end() || metrics->is_null()) return progress;
  if (!metrics->is_object()) return Bad("metrics is not an object");
  for (const auto& [name, value] : metrics->items()) {
    if (name.empty() || name.size() > limits::kNameBytesMax) return Bad("a metric's name is empty or too long");
    if (value.is_null()) continue;  // how some libraries write NaN
    if (!value.is_number()) return Bad(absl::StrCat("metric '", Printable(name, 40), "' is not a number"));
    if (progress.metrics.size() == limits::kMetricsPerProgressMax) return Bad("too many metrics");
    progress.metrics.push_back({name, value.get<double>()});
  }
  return progress;
}

absl::StatusOr<frames::Checkpoint> ParseCheckpoint(const Json& json, absl::string_view datagram) {
  frames::Checkpoint checkpoint;
  const auto step = json.find("step");
  const std::optional<int64_t> count = step == json.end() ? std::nullopt : Count(*step);
  if (!count) return Bad("checkpoint without a step >= 0");
  checkpoint.step = *count;
  if (const auto path = json.find("path"); path != json.end() && path->is_string()) checkpoint.path = path->get<std::string>();
  checkpoint.json = std::string(datagram);
  return checkpoint;
}

}  // namespace

absl::StatusOr<JobMessage> ParseJobMessage(absl::string_view datagram) {
  if (datagram.size() > limits::kSocketMessageBytesMax) return Bad(absl::StrCat("longer than ", limits::kSocketMessageBytesMax, " bytes"));
  const Json json = Json::parse(datagram.data(), datagram.data() + datagram.size(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Bad("not JSON");
  if (!json.is_object()) return Bad("not an object");
  const auto type = json.find("type");
  if (type == json.end() || !type->is_string()) return Bad("no type");
  const std::string& name = type->get_ref<const std::string&>();
  if (name == "progress") {
    ASSIGN_OR_RETURN(frames::Progress progress, ParseProgress(json));
    return JobMessage(std::move(progress));
  }
  if (name == "checkpoint") {
    ASSIGN_OR_RETURN(frames::Checkpoint checkpoint, ParseCheckpoint(json, datagram));
    return JobMessage(std::move(checkpoint));
  }
  if (name == "completed") return JobMessage(Completed{});
  const std::string nearest = NearestName(name, {"progress", "checkpoint", "completed"});
  return Bad(absl::StrCat("unknown type '", Printable(name, 40), "'", nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

}  // namespace spillway::supervisor
