// spillway-sim: what a policy would have cost on recorded markets and workloads. Wiring only: the command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/money.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "scheduler/core/policy/cluster/make.h"
#include "sim/cluster/cluster_report.h"
#include "sim/deadline/deadline_report.h"

namespace spillway::sim {
namespace {

constexpr char kFooter[] = R"(Exit codes: 0 done, 2 wrong usage or input.

Examples:
  spillway-sim deadline --traces data/cant-be-late --work 48h --deadline 60h --policy up
  spillway-sim deadline --traces data/skynomad/h100_16 --zones us-central1-a,europe-west1-c --work 41h --deadline 51h50m \
    --spot-price trace --policy omniscient -o json
  spillway-sim cluster --jobs jobs.yaml --cluster cluster.yaml --policy spillway)";

struct Arguments {
  DeadlineRequest request;
  std::string work, deadline, every, on_demand_price, spot_price = "trace", last_tick = "published", output = "table";
  std::string overhead = "12m";
  bool each = false;
};

struct ClusterArguments {
  ClusterRequest request;
  std::string output = "table";
  double patience = 0;
  bool each = false;
};

// Also a part of an hour, "49.365h": rounded to the nearest second.
absl::StatusOr<int64_t> Duration(absl::string_view flag, const std::string& text) {
  double hours = 0;
  if (absl::EndsWith(text, "h") && absl::StrContains(text, '.') && absl::SimpleAtod(absl::string_view(text).substr(0, text.size() - 1), &hours) && hours >= 0 &&
      hours < 1e6) {
    return std::llround(hours * 3600) * 1000;
  }
  const absl::StatusOr<int64_t> ms = ParseDurationMs(text);
  if (!ms.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": ", ms.status().message()));
  if (*ms > kDurationMsMax) return absl::InvalidArgumentError(absl::StrCat(flag, ": at most ten years"));
  return *ms;
}

absl::Status Price(absl::string_view flag, const std::string& text, std::optional<int64_t>* out) {
  if (text.empty() || text == "trace") return absl::OkStatus();
  const absl::StatusOr<int64_t> micros = ParseMicros(text);
  if (!micros.ok()) return absl::InvalidArgumentError(absl::StrCat(flag, ": ", micros.status().message(), "; or write 'trace'"));
  if (*micros > 1'000'000 * kMicrosPerUnit) return absl::InvalidArgumentError(absl::StrCat(flag, ": at most a million an hour"));
  *out = *micros;
  return absl::OkStatus();
}

absl::Status Fill(Arguments* arguments) {
  DeadlineRequest& request = arguments->request;
  ASSIGN_OR_RETURN(request.job.work_ms, Duration("--work", arguments->work));
  ASSIGN_OR_RETURN(request.job.deadline_ms, Duration("--deadline", arguments->deadline));
  ASSIGN_OR_RETURN(request.job.overhead_ms, Duration("--overhead", arguments->overhead));
  if (request.job.work_ms <= 0) return absl::InvalidArgumentError("--work: there must be some");
  if (!arguments->every.empty()) {
    ASSIGN_OR_RETURN(request.every_ms, Duration("--every", arguments->every));
    if (request.every_ms <= 0) return absl::InvalidArgumentError("--every: must be above 0");
  }
  RETURN_IF_ERROR(Price("--od-price", arguments->on_demand_price, &request.on_demand_micros_per_hour));
  RETURN_IF_ERROR(Price("--spot-price", arguments->spot_price, &request.spot_micros_per_hour));
  if (arguments->last_tick == "full") request.last_tick = LastTick::kFull;
  if (arguments->last_tick == "free") request.last_tick = LastTick::kFree;
  const std::vector<std::string> names = DeadlinePolicyNames();
  if (std::find(names.begin(), names.end(), request.policy) == names.end()) {
    return absl::InvalidArgumentError(absl::StrCat("--policy: there is no '", Printable(request.policy, 80), "'; did you mean '",
                                                   NearestName(request.policy, names), "'? There are ", absl::StrJoin(names, ", ")));
  }
  return absl::OkStatus();
}

void AddFlags(CLI::App* app, Arguments* arguments) {
  DeadlineRequest& request = arguments->request;
  app->add_option("--traces", request.traces, "Folders of traces, traces, or CSV files of counts")->required();
  app->add_option("--windows", request.windows, "A JSON list of first ticks [window_starts.json beside the traces, or one window after the other]");
  app->add_option("--every", arguments->every, "A window at every such step instead, such as 6h");
  app->add_option("--from", request.from_tick, "Only windows that start at this tick or later");
  app->add_option("--until", request.until_tick, "Only windows that start at this tick or earlier");
  app->add_option("--zones", request.zones, "Zones that form one environment together [each trace is one]")->delimiter(',');
  app->add_option("--gang", request.gang, "Instances that a zone must have at once; needs counts")->check(CLI::PositiveNumber)->capture_default_str();
  app->add_option("--work", arguments->work, "Work of the job, such as 48h")->required();
  app->add_option("--deadline", arguments->deadline, "Time until the deadline, such as 60h")->required();
  app->add_option("--overhead", arguments->overhead, "Time lost by every start")->capture_default_str();
  app->add_option("--od-price", arguments->on_demand_price, "On-demand price an hour, or 'trace' [trace]");
  app->add_option("--spot-price", arguments->spot_price, "Spot price an hour, or 'trace'")->capture_default_str();
  app->add_option("--prices", request.prices, "A folder of region prices, for traces without their own");
  app->add_option("--egress", request.egress, "CSV of egress prices: from_region,to_region,price_usd_per_gb [0.02 a GB between regions]");
  app->add_option("--checkpoint-gb", request.checkpoint_gb, "Size of the checkpoint that moves")->check(CLI::Range(0, 1'000'000))->capture_default_str();
  app->add_option("--policy", request.policy, absl::StrCat("One of ", absl::StrJoin(DeadlinePolicyNames(), ", ")))->required();
  app->add_option("--last-tick", arguments->last_tick, "Whether the tick that finishes the job is billed; published: full in one zone, free over several")
      ->check(CLI::IsMember({"published", "full", "free"}))
      ->capture_default_str();
  app->add_flag("--each", arguments->each, "Every run, not only the means");
  app->add_option("-o,--output", arguments->output, "How to print")->check(CLI::IsMember({"table", "json"}))->capture_default_str();
}

absl::Status Fill(ClusterArguments* arguments) {
  arguments->request.patience_permille = std::llround(arguments->patience * 1000);
  const absl::StatusOr<std::unique_ptr<core::cluster::Policy>> made = core::cluster::MakePolicy(arguments->request.policy);
  if (!made.ok())
    return absl::InvalidArgumentError(absl::StrCat("--policy: ", made.status().message(), " There are ", absl::StrJoin(core::cluster::PolicyNames(), ", ")));
  if (arguments->patience != 0 && arguments->request.policy != "spillway") return absl::InvalidArgumentError("--patience belongs to the policy spillway");
  return absl::OkStatus();
}

void AddFlags(CLI::App* app, ClusterArguments* arguments) {
  ClusterRequest& request = arguments->request;
  app->add_option("--jobs", request.jobs, "The jobs: YAML, or a recorded trace")->required();
  app->add_option("--cluster", request.cluster, "The cluster: reserved nodes, spot pools, on demand")->required();
  app->add_option("--policy", request.policy, absl::StrCat("One of ", absl::StrJoin(core::cluster::PolicyNames(), ", ")))->required();
  app->add_option("--patience", arguments->patience, "How much later a job may be expected to end for less money, in parts of its work left [0]")
      ->check(CLI::Range(0.0, 1000.0));
  app->add_option("--seed", request.seed, "In place of the jobs file's");
  app->add_flag("--each", arguments->each, "Every job, not only the means");
  app->add_option("-o,--output", arguments->output, "How to print")->check(CLI::IsMember({"table", "json"}))->capture_default_str();
}

int Refuse(const absl::Status& status) {
  std::cerr << "spillway-sim: " << status.message() << "\n";
  return 2;
}

int Deadline(Arguments* arguments) {
  const absl::Status filled = Fill(arguments);
  const absl::StatusOr<DeadlineReport> report = filled.ok() ? RunDeadline(arguments->request) : filled;
  if (!report.ok()) return Refuse(report.status());
  std::cout << (arguments->output == "json" ? DeadlineJson(*report, arguments->each) : DeadlineTable(*report, arguments->each));
  return 0;
}

int Cluster(ClusterArguments* arguments) {
  const absl::Status filled = Fill(arguments);
  const absl::StatusOr<ClusterReport> report = filled.ok() ? RunCluster(arguments->request) : filled;
  if (!report.ok()) return Refuse(report.status());
  std::cout << (arguments->output == "json" ? ClusterJson(*report, arguments->each) : ClusterTable(*report, arguments->each));
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app("What a placement policy would have cost on recorded markets and workloads.", "spillway-sim");
  app.footer(kFooter);
  app.require_subcommand(1);
  Arguments arguments;
  ClusterArguments cluster_arguments;
  CLI::App* deadline = app.add_subcommand("deadline", "One job with a deadline on spot and on-demand machines");
  AddFlags(deadline, &arguments);
  CLI::App* cluster = app.add_subcommand("cluster", "Many jobs on reserved nodes, and on spot and on-demand machines");
  AddFlags(cluster, &cluster_arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return deadline->parsed() ? Deadline(&arguments) : Cluster(&cluster_arguments);
}

}  // namespace
}  // namespace spillway::sim

int main(int argc, char** argv) { return spillway::sim::Main(argc, argv); }
