#include "worker/flags.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "worker/preemption/notice_source.h"

namespace spillway::worker {

const char kUsage[] =
    "usage: spillway-worker [flags]\n"
    "Runs on a machine that gives its capacity to a scheduler. Attempts belong to spillway-supervisor beside it and live on when this program ends.\n"
    "  --home DIR             everything this node keeps; default SPILLWAY_HOME/nodes/NAME\n"
    "  --server HOST:PORT     the scheduler's worker port; default 127.0.0.1:7071\n"
    "  --token-file FILE      default SPILLWAY_HOME/tokens/worker where it exists\n"
    "  --node-name NAME       unique within the provider; default this machine's name\n"
    "  --address HOST         where other nodes reach this one, for jobs on several nodes; default: this machine's address towards the scheduler\n"
    "  --provider NAME        who supplies this node: static (default), local, playground, ... as the scheduler's configuration names it\n"
    "  --instance-id ID       the provider's name for it\n"
    "  --market M             reserved (default), spot or on_demand\n"
    "  --zone Z --region R\n"
    "  --resources LIST       cpus=2,memory=8GB,disk=50GB,gpu=MODEL:COUNT:16GB[:simulated]; what is not named is detected; gpu=none hides devices\n"
    "  --notice-source S      none (default), aws, gcp, azure, alibaba, tencent or file: who says that this machine will be taken\n"
    "  --metadata-url URL     of that source, where it is not the usual one; for file: the file that appears\n"
    "  --notice-every D       how often it is asked; default 5s, file 1s, or 200ms where the URL is on this machine\n"
    "  --notice-margin D      attempts must be done this long before the machine goes; default 5s, or 300ms where the URL is on this machine\n"
    "  --max-lifetime D       drain and leave after this long, such as 12h; default: never\n"
    "  --node-lease D         leave after this long without a scheduler; default 30m where the provider made the instance, never for static\n"
    "  --stop-jobs-on-exit    SIGTERM stops the attempts first; without it they go on and the next worker takes them up\n"
    "  --containment C        auto (default), cgroup or reaper: what holds the processes of attempts; auto takes cgroups where they can be had\n"
    "  --disk-quota Q         auto (default), mount or watch: what bounds an attempt's folder (resources.disk); auto mounts where that is allowed\n"
    "  --processes N          processes and threads that one attempt may have at most; default 1,024 and 1,024 more for each of its cpus, up to 32,768\n"
    "  --supervisor FILE      default spillway-supervisor beside this program\n"
    "  --version --help\n"
    "\nExamples:\n"
    "  spillway-worker --server 127.0.0.1:7071 --token-file ~/.spillway/tokens/worker --node-name gpu-3\n"
    "      this machine joins the scheduler at the other end of an SSH tunnel, with all it has\n"
    "  spillway-worker --node-name half --resources cpus=8,memory=32GB,gpu=none\n"
    "      give only a part of it\n"
    "  spillway-worker --node-name try --resources cpus=2,memory=4GB,gpu=H100:8:80GB:simulated\n"
    "      declare devices that are not there, to try placement out\n"
    "  spillway-worker --node-name aws-1 --market spot --notice-source aws\n"
    "      an instance that its cloud may take: jobs save when the cloud says so\n";

namespace {

absl::Status Bad(absl::string_view flag, absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat(flag, ": ", why)); }

absl::Status CheckName(absl::string_view flag, const std::string& value, bool may_be_empty) {
  if (value.empty() && may_be_empty) return absl::OkStatus();
  if (value.empty() || value.size() > limits::kNameBytesMax) return Bad(flag, absl::StrCat("must have 1 to ", limits::kNameBytesMax, " bytes"));
  for (const char c : value) {
    if (c <= ' ' || c > '~') return Bad(flag, absl::StrCat("'", Printable(value), "' has characters other than printable ASCII without spaces"));
  }
  return absl::OkStatus();
}

// A source on this machine stands for a cloud whose time may run fast: asked often, held to little.
bool OnThisMachine(const std::string& url) {
  return absl::StartsWith(url, "http://127.") || absl::StartsWith(url, "http://localhost") || absl::StartsWith(url, "http://[::1]");
}

absl::StatusOr<int64_t> DurationOr(absl::string_view flag, const std::string& value, int64_t otherwise) {
  if (value.empty()) return otherwise;
  const auto ms = ParseDurationMs(value);
  if (!ms.ok()) return Bad(flag, ms.status().message());
  return *ms;
}

constexpr int64_t kPidsMin = 8;  // a shell and what it starts

absl::StatusOr<std::string> OneOf(absl::string_view flag, const std::string& value, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), value) != words.end()) return value;
  const std::string nearest = NearestName(value, words);
  return Bad(flag, absl::StrCat("'", Printable(value), "' is not one of ", absl::StrJoin(words, ", "),
                                nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
}

absl::Status CheckServer(const std::string& server) {
  const size_t colon = server.rfind(':');
  const bool good =
      colon != std::string::npos && colon > 0 && colon + 1 < server.size() && server.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  return good ? absl::OkStatus() : Bad("--server", absl::StrCat("'", Printable(server), "' is not HOST:PORT"));
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments, const std::string& spillway_home, const std::string& host_name) {
  std::map<std::string, std::string> values = {
      {"--home", ""},           {"--server", "127.0.0.1:7071"},
      {"--token-file", ""},     {"--node-name", host_name},
      {"--address", ""},        {"--provider", "static"},
      {"--instance-id", ""},    {"--market", "reserved"},
      {"--zone", ""},           {"--region", ""},
      {"--resources", ""},      {"--notice-source", "none"},
      {"--metadata-url", ""},   {"--notice-every", ""},
      {"--notice-margin", ""},  {"--max-lifetime", "0"},
      {"--node-lease", ""},     {"--containment", "auto"},
      {"--disk-quota", "auto"}, {"--processes", ""},
      {"--supervisor", ""},
  };
  Flags flags;
  std::map<std::string, bool*> switches = {{"--stop-jobs-on-exit", &flags.stop_jobs_on_exit}, {"--help", &flags.help}, {"--version", &flags.version}};
  std::vector<std::string> names;
  for (const auto& [name, value] : values) names.push_back(name);
  for (const auto& [name, value] : switches) names.push_back(name);

  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    if (const auto it = switches.find(name); it != switches.end()) {
      *it->second = true;
      continue;
    }
    const size_t equals = name.find('=');
    const bool attached = absl::StartsWith(name, "--") && equals != std::string::npos;
    const std::string value = attached ? name.substr(equals + 1) : "";
    if (attached) name.resize(equals);
    if (values.count(name) == 0) {
      if (switches.count(name) != 0) return Bad(name, "takes no value");
      const std::string nearest = NearestName(name, names);
      return absl::InvalidArgumentError(absl::StrCat("unknown flag ", Printable(name), nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
    }
    if (!attached && i + 1 == arguments.size()) return Bad(name, "needs a value");
    values[name] = attached ? value : arguments[++i];
  }
  if (flags.help || flags.version) return flags;

  flags.node_name = values["--node-name"];
  flags.address = values["--address"];
  flags.server = values["--server"];
  flags.provider = values["--provider"];
  flags.instance_id = values["--instance-id"];
  flags.zone = values["--zone"];
  flags.region = values["--region"];
  flags.resources = values["--resources"];
  flags.notice_source = values["--notice-source"];
  flags.metadata_url = values["--metadata-url"];
  flags.supervisor = values["--supervisor"];
  ASSIGN_OR_RETURN(flags.containment, OneOf("--containment", values["--containment"], {"auto", "cgroup", "reaper"}));
  ASSIGN_OR_RETURN(flags.disk_quota, OneOf("--disk-quota", values["--disk-quota"], {"auto", "mount", "watch"}));
  if (const std::string& processes = values["--processes"]; !processes.empty()) {
    if (!absl::SimpleAtoi(processes, &flags.pids_max) || flags.pids_max < kPidsMin || flags.pids_max > frames::kAttemptPidsMax) {
      return Bad("--processes", absl::StrCat("'", Printable(processes), "' is not a number from ", kPidsMin, " to ", frames::kAttemptPidsMax));
    }
  }
  RETURN_IF_ERROR(CheckName("--node-name", flags.node_name, false));
  RETURN_IF_ERROR(CheckName("--address", flags.address, true));
  RETURN_IF_ERROR(CheckName("--provider", flags.provider, false));
  RETURN_IF_ERROR(CheckName("--instance-id", flags.instance_id, true));
  RETURN_IF_ERROR(CheckName("--zone", flags.zone, true));
  RETURN_IF_ERROR(CheckName("--region", flags.region, true));
  RETURN_IF_ERROR(CheckServer(flags.server));
  const auto market = ParseWord<Market>(values["--market"]);
  if (!market.ok()) return Bad("--market", market.status().message());
  flags.market = *market;
  ASSIGN_OR_RETURN(flags.max_lifetime_ms, DurationOr("--max-lifetime", values["--max-lifetime"], 0));
  // Only an instance that somebody made for us, and that bills by the hour, ends itself.
  const bool bills = flags.provider != "static" && flags.provider != "local";
  ASSIGN_OR_RETURN(flags.node_lease_ms, DurationOr("--node-lease", values["--node-lease"], bills ? limits::kNodeLeaseMs : 0));
  const bool near = OnThisMachine(flags.metadata_url);
  ASSIGN_OR_RETURN(flags.notice_every_ms, DurationOr("--notice-every", values["--notice-every"], near ? 200 : flags.notice_source == "file" ? 1'000 : 5'000));
  ASSIGN_OR_RETURN(flags.notice_margin_ms, DurationOr("--notice-margin", values["--notice-margin"], near ? 300 : 5'000));
  std::vector<std::string> sources = preemption::NoticeSourceNames();
  if (flags.notice_source != "none" && std::find(sources.begin(), sources.end(), flags.notice_source) == sources.end()) {
    sources.push_back("none");
    const std::string nearest = NearestName(flags.notice_source, sources);
    return Bad("--notice-source", absl::StrCat("no source is called '", Printable(flags.notice_source), "'",
                                               nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"), " (", absl::StrJoin(sources, ", "), ")"));
  }
  if (flags.notice_source == "file" && flags.metadata_url.empty()) return Bad("--notice-source", "file needs --metadata-url PATH, the file that appears");
  if (flags.notice_source == "none" && !flags.metadata_url.empty()) return Bad("--metadata-url", "needs --notice-source");

  flags.home = values["--home"].empty() ? JoinPath(JoinPath(spillway_home, "nodes"), flags.node_name) : AbsolutePath(ExpandHome(values["--home"]));
  flags.token_file = values["--token-file"].empty() ? JoinPath(spillway_home, "tokens/worker") : AbsolutePath(ExpandHome(values["--token-file"]));
  if (values["--token-file"].empty() && !PathExists(flags.token_file)) flags.token_file.clear();
  return flags;
}

}  // namespace spillway::worker
