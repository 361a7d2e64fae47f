#include "sim/cluster/workload.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/money.h"
#include "base/rng.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "base/yaml_reader.h"

namespace spillway::sim {
namespace {

constexpr int64_t kGpusMax = 4'096;
constexpr int64_t kJobsMax = 1'000'000;
constexpr int64_t kTenantsMax = 1'000;
constexpr double kSecondsMax = 3.2e8;  // ten years
constexpr absl::string_view kThroughputsFile = "simulation_throughputs.json";

absl::Status Refused(absl::string_view origin, absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat(origin, ": ", what)); }

// One line of a trace, whose fields are read by name for messages.
class Row {
 public:
  Row(absl::string_view origin, size_t line, std::vector<absl::string_view> cells) : origin_(origin), line_(line), cells_(std::move(cells)) {}

  size_t size() const { return cells_.size(); }
  std::string Text(size_t i) const { return std::string(cells_[i]); }
  absl::Status Wrong(absl::string_view what) const { return absl::InvalidArgumentError(absl::StrCat(origin_, ":", line_, ": ", what)); }

  absl::StatusOr<int64_t> Count(size_t i, absl::string_view field, int64_t max) const {
    int64_t value = 0;
    if (!absl::SimpleAtoi(cells_[i], &value) || value < 1 || value > max) {
      return Wrong(absl::StrCat(field, " must be a whole number from 1 to ", max, ", not '", Printable(cells_[i], 40), "'"));
    }
    return value;
  }
  absl::StatusOr<int64_t> Ms(size_t i, absl::string_view field) const {
    double seconds = 0;
    if (!absl::SimpleAtod(cells_[i], &seconds) || !(seconds >= 0) || seconds > kSecondsMax) {
      return Wrong(absl::StrCat(field, " must be seconds, 0 to ten years, not '", Printable(cells_[i], 40), "'"));
    }
    return std::llround(seconds * 1000);
  }

 private:
  std::string origin_;
  size_t line_;
  std::vector<absl::string_view> cells_;
};

absl::StatusOr<int64_t> WorkMs(const Row& row, const Throughputs& throughputs, const std::string& type, int64_t gpus, int64_t steps, int64_t* estimated) {
  if (throughputs.empty()) return row.Wrong(absl::StrCat("only steps are told: name the file of throughputs (", kThroughputsFile, ")"));
  for (int64_t measured = gpus; measured >= 1; --measured) {
    const auto rate = throughputs.find({type, measured});
    if (rate == throughputs.end()) continue;
    if (measured != gpus) ++*estimated;
    const double seconds = static_cast<double>(steps) / (rate->second * static_cast<double>(gpus) / static_cast<double>(measured));
    if (seconds > kSecondsMax) return row.Wrong("works for longer than ten years");
    return std::max<int64_t>(1, std::llround(seconds * 1000));
  }
  std::vector<std::string> types;
  for (const auto& [key, rate] : throughputs) types.push_back(key.first);
  return row.Wrong(absl::StrCat("there is no throughput of '", Printable(type, 60), "'; did you mean '", NearestName(type, types), "'?"));
}

absl::StatusOr<SimJob> GavelJob(const Row& row, const TraceExtras& extras, int64_t* estimated) {
  const bool long_form = row.size() == 10;
  SimJob job;
  job.name = row.Text(0);
  ASSIGN_OR_RETURN(const int64_t steps, row.Count(long_form ? 5 : 4, "total steps", INT64_MAX));
  ASSIGN_OR_RETURN(job.gpus, row.Count(6, "GPUs", kGpusMax));
  ASSIGN_OR_RETURN(job.arrival_ms, row.Ms(long_form ? 9 : 5, "arrival"));
  ASSIGN_OR_RETURN(job.duration_ms, WorkMs(row, extras.throughputs, job.name, job.gpus, steps, estimated));
  return job;
}

absl::StatusOr<SimJob> PolluxJob(const Row& row, const TraceExtras& extras) {
  SimJob job;
  job.name = row.Text(0);
  ASSIGN_OR_RETURN(job.arrival_ms, row.Ms(1, "time"));
  ASSIGN_OR_RETURN(job.gpus, row.Count(3, "num_replicas", kGpusMax));
  const auto duration = extras.duration_ms.find({row.Text(2), job.gpus});
  if (duration == extras.duration_ms.end()) {
    return row.Wrong(absl::StrCat("the trace has no durations, and `durations` has none of ", Printable(row.Text(2), 40), " on ", job.gpus, " GPUs"));
  }
  job.duration_ms = duration->second;
  return job;
}

absl::StatusOr<SimJob> TiresiasJob(const Row& row) {
  SimJob job;
  job.name = row.Text(0);
  ASSIGN_OR_RETURN(job.gpus, row.Count(1, "num_gpu", kGpusMax));
  ASSIGN_OR_RETURN(job.arrival_ms, row.Ms(2, "submit_time"));
  ASSIGN_OR_RETURN(job.duration_ms, row.Ms(5, "duration"));
  return job;
}

absl::StatusOr<SimJob> OurJob(const Row& row, const std::vector<std::string>& header) {
  SimJob job;
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i] == "arrival_s") {
      ASSIGN_OR_RETURN(job.arrival_ms, row.Ms(i, header[i]));
    }
    if (header[i] == "duration_s") {
      ASSIGN_OR_RETURN(job.duration_ms, row.Ms(i, header[i]));
    }
    if (header[i] == "gpus") {
      ASSIGN_OR_RETURN(job.gpus, row.Count(i, header[i], kGpusMax));
    }
    if (header[i] == "tenant") job.tenant = row.Text(i);
    if (header[i] == "deadline_s" && !row.Text(i).empty()) {
      ASSIGN_OR_RETURN(job.deadline_ms, row.Ms(i, header[i]));
    }
    if (header[i] == "interruptible") {
      if (row.Text(i) != "true" && row.Text(i) != "false") return row.Wrong("interruptible must be true or false");
      job.interruptible = row.Text(i) == "true";
    }
  }
  return job;
}

const std::vector<std::string> kPolluxHeader = {"name", "time", "application", "num_replicas", "batch_size"};
const std::vector<std::string> kTiresiasHeader = {"job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval"};
const std::vector<std::string> kOurColumns = {"arrival_s", "duration_s", "gpus", "tenant", "deadline_s", "interruptible"};

absl::Status CheckOurHeader(const std::vector<std::string>& header, absl::string_view origin) {
  for (size_t i = 0; i < header.size(); ++i) {
    if (std::find(kOurColumns.begin(), kOurColumns.end(), header[i]) == kOurColumns.end()) {
      const std::string nearest = NearestName(header[i], kOurColumns);
      return Refused(absl::StrCat(origin, ":1"), absl::StrCat("unknown column '", Printable(header[i], 40), "'",
                                                              nearest.empty() ? absl::StrCat("; known: ", absl::StrJoin(kOurColumns, ", "))
                                                                              : absl::StrCat("; did you mean '", nearest, "'?")));
    }
    if (std::count(header.begin(), header.end(), header[i]) > 1)
      return Refused(absl::StrCat(origin, ":1"), absl::StrCat("column ", header[i], " appears twice"));
  }
  for (const char* needed : {"arrival_s", "duration_s", "gpus"}) {
    if (std::find(header.begin(), header.end(), needed) == header.end())
      return Refused(absl::StrCat(origin, ":1"), absl::StrCat("column ", needed, " is missing"));
  }
  return absl::OkStatus();
}

// Durations are log-uniform, so that short and long jobs are both common; arrivals have exponential gaps.
absl::Status Generate(const YamlMap& map, Rng rng, YamlErrors* errors, Workload* workload) {
  const YamlMap generate(map.Get("generate"), "generate", {"jobs", "mean_gap", "gpus", "shortest", "longest"}, errors);
  const int64_t jobs = generate.Integer("jobs", 1, kJobsMax);
  const int64_t gap_ms = generate.DurationMs("mean_gap");
  const int64_t shortest_ms = generate.DurationMs("shortest"), longest_ms = generate.DurationMs("longest");
  std::vector<int64_t> gpus;
  const YAML::Node list = generate.Get("gpus");
  if (!list.IsDefined() || !list.IsSequence() || list.size() == 0)
    errors->Add(generate.node(), "`gpus` must be a list such as [1, 1, 2, 8], one of which a job draws");
  if (list.IsDefined() && list.IsSequence()) {
    for (const YAML::Node& item : list) {
      const std::optional<int64_t> count = StrictInteger(item.IsScalar() ? item.Scalar() : "");
      if (count.value_or(0) < 1 || *count > kGpusMax) errors->Add(item, absl::StrCat("`gpus` takes whole numbers from 1 to ", kGpusMax));
      gpus.push_back(count.value_or(1));
    }
  }
  if (shortest_ms < 1 || longest_ms < shortest_ms) errors->Add(generate.node(), "`shortest` must be above 0 and `longest` no shorter");
  if (longest_ms > kDurationMsMax || gap_ms > kDurationMsMax) errors->Add(generate.node(), "a time is longer than ten years");
  RETURN_IF_ERROR(errors->status());
  int64_t at_ms = 0;
  for (int64_t i = 0; i < jobs; ++i) {
    SimJob job;
    job.name = absl::StrCat("job-", i);
    job.arrival_ms = at_ms;
    const double span = std::log(static_cast<double>(longest_ms) / static_cast<double>(shortest_ms));
    job.duration_ms = std::max<int64_t>(1, std::llround(static_cast<double>(shortest_ms) * std::exp(rng.Unit() * span)));
    job.gpus = gpus[rng.Below(gpus.size())];
    workload->jobs.push_back(std::move(job));
    at_ms += std::llround(-std::log(1.0 - rng.Unit()) * static_cast<double>(gap_ms));
  }
  return absl::OkStatus();
}

// "1.5" as thousandths; they are factors of a duration.
std::vector<int64_t> ReadFactors(const YamlMap& map, const char* key, YamlErrors* errors) {
  std::vector<int64_t> factors;
  if (!map.Has(key)) return factors;
  const YAML::Node list = map.Get(key);
  if (!list.IsSequence() || list.size() == 0) {
    errors->Add(list, absl::StrCat("`", key, "` must be a list such as [1.5, 3]: arrival + that many durations, drawn by the seed"));
    return factors;
  }
  for (const YAML::Node& item : list) {
    const absl::StatusOr<int64_t> micros = ParseMicros(item.IsScalar() ? item.Scalar() : "");
    if (!micros.ok() || *micros < kMicrosPerUnit || *micros > 1000 * kMicrosPerUnit) {
      errors->Add(item, absl::StrCat("`", key, "` takes factors from 1 to 1000"));
    } else {
      factors.push_back(*micros / 1000);
    }
  }
  return factors;
}

std::map<std::pair<std::string, int64_t>, int64_t> ReadDurations(const YamlMap& map, YamlErrors* errors) {
  std::map<std::pair<std::string, int64_t>, int64_t> durations;
  if (!map.Has("durations")) return durations;
  const YAML::Node list = map.Get("durations");
  if (!list.IsSequence()) errors->Add(list, "`durations` must be a list of {application, gpus, duration}");
  for (const YAML::Node& item : list) {
    const YamlMap one(item, "a duration", {"application", "gpus", "duration"}, errors);
    const std::pair<std::string, int64_t> key{one.Text("application"), one.Integer("gpus", 1, kGpusMax)};
    const int64_t ms = one.DurationMs("duration");
    if (ms < 1 || ms > kDurationMsMax) errors->Add(item, "`duration` must be above 0 and at most ten years");
    if (!durations.insert({key, ms}).second) errors->Add(item, absl::StrCat(key.first, " on ", key.second, " GPUs appears twice"));
  }
  return durations;
}

// Beside the trace or in a folder above it.
std::string FindThroughputs(const std::string& trace) {
  std::string folder = FolderOf(AbsolutePath(trace));
  for (int up = 0; up < 3; ++up, folder = FolderOf(folder)) {
    const std::string path = JoinPath(folder, kThroughputsFile);
    if (PathExists(path)) return path;
  }
  return "";
}

absl::StatusOr<std::vector<SimJob>> ReadTrace(const std::string& path, const std::string& throughputs_named, const std::string& device, TraceExtras extras,
                                              int64_t* estimated) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const std::string throughputs = throughputs_named.empty() ? FindThroughputs(path) : throughputs_named;
  if (!throughputs.empty() && absl::StrContains(text.substr(0, text.find('\n')), '\t')) {
    ASSIGN_OR_RETURN(const std::string json, ReadFile(throughputs));
    ASSIGN_OR_RETURN(extras.throughputs, ParseThroughputs(json, throughputs, device));
  }
  return ParseJobTrace(text, path, extras, estimated);
}

// What holds for every job, wherever it comes from.
struct Common {
  int64_t first, tenants, interruptible_percent, error_percent;
  std::vector<int64_t> deadline_permille;
};

Common ReadCommon(const YamlMap& map, YamlErrors* errors) {
  return {map.Integer("first", 1, kJobsMax, kJobsMax), map.Integer("tenants", 1, kTenantsMax, 1), map.Integer("interruptible_percent", 0, 100, 100),
          map.Integer("prediction_error_percent", 0, 90, 0), ReadFactors(map, "deadlines", errors)};
}

void Complete(const Common& common, Workload* workload) {
  std::stable_sort(workload->jobs.begin(), workload->jobs.end(), [](const SimJob& a, const SimJob& b) { return a.arrival_ms < b.arrival_ms; });
  if (static_cast<int64_t>(workload->jobs.size()) > common.first) workload->jobs.resize(static_cast<size_t>(common.first));
  const Rng root(workload->seed);
  Rng deadlines = root.Fork(1), interruptible = root.Fork(2), predictions = root.Fork(3);
  for (size_t i = 0; i < workload->jobs.size(); ++i) {
    SimJob& job = workload->jobs[i];
    if (job.tenant.empty()) job.tenant = absl::StrCat("tenant-", static_cast<int64_t>(i) % common.tenants);
    if (!common.deadline_permille.empty()) {
      job.deadline_ms = job.arrival_ms + job.duration_ms * common.deadline_permille[deadlines.Below(common.deadline_permille.size())] / 1000;
    }
    if (static_cast<int64_t>(interruptible.Below(100)) >= common.interruptible_percent) job.interruptible = false;
    const double off = (2 * predictions.Unit() - 1) * static_cast<double>(common.error_percent) / 100;
    job.predicted_ms = std::max<int64_t>(1, job.duration_ms + std::llround(static_cast<double>(job.duration_ms) * off));
  }
}

}  // namespace

absl::StatusOr<Throughputs> ParseThroughputs(absl::string_view json, absl::string_view origin, absl::string_view device) {
  const nlohmann::json root = nlohmann::json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Refused(origin, "is not a JSON object of devices");
  if (!root.contains(std::string(device))) {
    std::vector<std::string> devices;
    for (const auto& [name, types] : root.items()) devices.push_back(name);
    return Refused(origin, absl::StrCat("has no device '", Printable(device, 40), "'; there are ", absl::StrJoin(devices, ", ")));
  }
  Throughputs throughputs;
  for (const auto& [key, value] : root[std::string(device)].items()) {
    // "('ResNet-18 (batch size 16)', 1)"
    absl::string_view text = key;
    const bool enclosed = absl::ConsumePrefix(&text, "('") && absl::ConsumeSuffix(&text, ")");
    const size_t end = text.rfind("', ");
    int64_t gpus = 0;
    if (!enclosed || end == absl::string_view::npos || !absl::SimpleAtoi(text.substr(end + 3), &gpus) || !value.is_object() || !value.contains("null") ||
        !value["null"].is_number()) {
      return Refused(origin, absl::StrCat(device, ".", Printable(key, 80), " is not ('TYPE', GPUS) with a throughput `null`"));
    }
    const double rate = value["null"].get<double>();
    if (rate > 0) throughputs[{std::string(text.substr(0, end)), gpus}] = rate;
  }
  return throughputs;
}

absl::StatusOr<std::vector<SimJob>> ParseJobTrace(absl::string_view text, absl::string_view origin, const TraceExtras& extras, int64_t* estimated) {
  std::vector<SimJob> jobs;
  std::vector<std::string> header;
  size_t line_number = 0;
  const bool tabs = absl::StrContains(text.substr(0, text.find('\n')), '\t');
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty()) continue;
    std::vector<absl::string_view> cells = absl::StrSplit(line, tabs ? '\t' : ',');
    if (!tabs && header.empty()) {
      for (const absl::string_view cell : cells) header.emplace_back(cell);
      if (header != kPolluxHeader && header != kTiresiasHeader) {
        RETURN_IF_ERROR(CheckOurHeader(header, origin));
      }
      continue;
    }
    const Row row(origin, line_number, std::move(cells));
    if (tabs ? row.size() != 7 && row.size() != 10 : row.size() != header.size()) {
      return row.Wrong(absl::StrCat("has ", row.size(), " fields; ", tabs ? "7 or 10" : absl::StrCat(header.size()), " were expected"));
    }
    ASSIGN_OR_RETURN(SimJob job, tabs                        ? GavelJob(row, extras, estimated)
                                 : header == kPolluxHeader   ? PolluxJob(row, extras)
                                 : header == kTiresiasHeader ? TiresiasJob(row)
                                                             : OurJob(row, header));
    if (job.duration_ms < 1) return row.Wrong("the duration must be above 0");
    if (job.name.empty()) job.name = absl::StrCat("job-", jobs.size());
    jobs.push_back(std::move(job));
    if (static_cast<int64_t>(jobs.size()) > kJobsMax) return row.Wrong(absl::StrCat("more than ", kJobsMax, " jobs"));
  }
  if (jobs.empty()) return Refused(origin, "there is no job in it");
  return jobs;
}

absl::StatusOr<Workload> LoadWorkload(const std::string& path, std::optional<uint64_t> seed) {
  Workload workload;
  const bool yaml = absl::EndsWith(path, ".yaml") || absl::EndsWith(path, ".yml");
  YAML::Node root(YAML::NodeType::Map);
  if (yaml) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 4u << 20));
    try {
      root = YAML::Load(text);
    } catch (const YAML::Exception& e) {
      return Refused(absl::StrCat(path, ":", e.mark.line + 1), e.msg);
    }
  }
  YamlErrors errors(path);
  const YamlMap map(
      root, "the jobs file",
      {"trace", "throughputs", "device", "durations", "generate", "first", "tenants", "deadlines", "interruptible_percent", "prediction_error_percent", "seed"},
      &errors);
  workload.seed = seed.value_or(static_cast<uint64_t>(map.Integer("seed", 0, INT64_MAX, 1)));
  const auto beside = [&](const std::string& named) { return named.empty() || named[0] == '/' ? named : JoinPath(FolderOf(AbsolutePath(path)), named); };
  const std::string trace = yaml ? beside(ExpandHome(map.Text("trace", ""))) : path;
  const std::string throughputs = beside(ExpandHome(map.Text("throughputs", "")));
  const std::string device = map.Text("device", "v100");
  TraceExtras extras{{}, ReadDurations(map, &errors)};
  const Common common = ReadCommon(map, &errors);
  if (yaml && map.Has("trace") == map.Has("generate")) errors.Add(root, "one of `trace` and `generate` is needed");
  if (map.Has("generate") && (map.Has("throughputs") || map.Has("device") || map.Has("durations"))) {
    errors.Add(root, "`throughputs`, `device` and `durations` belong to `trace`");
  }
  RETURN_IF_ERROR(errors.status());
  if (map.Has("generate")) {
    RETURN_IF_ERROR(Generate(map, Rng(workload.seed).Fork(4), &errors, &workload));
  } else {
    ASSIGN_OR_RETURN(workload.jobs, ReadTrace(trace, throughputs, device, std::move(extras), &workload.estimated));
  }
  Complete(common, &workload);
  return workload;
}

int64_t PeakDemand(const Workload& workload) {
  std::vector<std::pair<int64_t, int64_t>> changes;  // ends before arrivals at the same time
  for (const SimJob& job : workload.jobs) {
    changes.emplace_back(job.arrival_ms, job.gpus);
    changes.emplace_back(job.arrival_ms + job.duration_ms, -job.gpus);
  }
  std::sort(changes.begin(), changes.end());
  int64_t now = 0, peak = 0;
  for (const auto& [at_ms, gpus] : changes) peak = std::max(peak, now += gpus);
  return peak;
}

}  // namespace spillway::sim
