#include "scheduler/provider/local/local.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace spillway::provider {
namespace {

// In the node's home. The marker: made by this provider, for this cluster (client token and provider, a line each). The other: the newest worker started.
constexpr char kMarker[] = "local.node";
constexpr char kStarted[] = "local.pid";
constexpr size_t kSmallFileBytesMax = 4'096;
constexpr size_t kLogBytesMax = 64u << 20;
constexpr int64_t kDefaultCpuMilli = 1'000;
constexpr int64_t kDefaultMemoryBytes = 1LL << 30;

// The process that a pid file names, as long as it is that program for that home: a pid may have been reused.
std::optional<pid_t> Running(const std::string& home, const char* pid_file, const char* program) {
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(home, pid_file), kSmallFileBytesMax);
  if (!text.ok()) return std::nullopt;
  pid_t pid = 0;
  if (!absl::SimpleAtoi(text->substr(0, text->find_first_of(" \n")), &pid) || pid <= 1) return std::nullopt;
  const absl::StatusOr<std::string> command = ReadFile(absl::StrCat("/proc/", pid, "/cmdline"), 64u << 10);
  if (!command.ok()) return std::nullopt;
  const std::vector<std::string> argv = absl::StrSplit(*command, '\0');
  if (!absl::EndsWith(argv[0], program) || std::find(argv.begin(), argv.end(), home) == argv.end()) return std::nullopt;
  const absl::StatusOr<int64_t> ticks = ProcessStartTicks(pid);
  if (!ticks.ok() || !ProcessAlive(pid, *ticks)) return std::nullopt;
  return pid;
}

// Why a worker ended is the last thing it said.
std::string LastLine(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kLogBytesMax);
  if (!text.ok()) return "";
  const absl::string_view all = absl::StripAsciiWhitespace(*text);
  return Printable(all.substr(all.rfind('\n') + 1));
}

class Local final : public Provider {
 public:
  Local(const v1::ProviderConfig& config, Surroundings surroundings) : name_(config.name()), nodes_(config.nodes()), surroundings_(std::move(surroundings)) {
    capacity_.cpu_milli = config.resources().cpu_milli() > 0 ? config.resources().cpu_milli() : kDefaultCpuMilli;
    capacity_.memory_bytes = config.resources().memory_bytes() > 0 ? config.resources().memory_bytes() : kDefaultMemoryBytes;
    capacity_.disk_bytes = config.resources().disk_bytes();
    if (config.resources().accelerators_size() > 0) {
      const v1::Accelerator& gpu = config.resources().accelerators(0);
      capacity_.gpu_model = gpu.model();
      capacity_.gpu_count = gpu.count();
      capacity_.gpu_memory_bytes = gpu.memory_bytes();
      capacity_.gpu_simulated = gpu.simulated();
    }
  }

  const std::string& name() const override { return name_; }
  Capabilities capabilities() const override { return {.create = true, .testify = true, .offers = true}; }
  absl::StatusOr<std::vector<core::Offer>> ListOffers() override;
  absl::StatusOr<std::string> Create(const engine::CreateOrder& order) override;
  absl::Status Terminate(const engine::TerminateOrder& order) override;
  absl::StatusOr<core::InstanceListing> List() override;

 private:
  std::string NodesFolder() const { return JoinPath(surroundings_.home, "nodes"); }
  std::string HomeOf(const std::string& node) const { return JoinPath(NodesFolder(), absl::StrCat(name_, "-", node)); }
  absl::StatusOr<std::map<std::string, std::string>> OurHomes() const;  // node name -> home
  absl::Status StartWorker(const std::string& node, const std::string& home);
  // Workers that ended while this process lives would stay zombies.
  void ReapChildren();

  const std::string name_;
  const int64_t nodes_;
  const Surroundings surroundings_;
  core::Capacity capacity_;
  std::set<pid_t> children_;  // started in this life, not yet reaped
};

// What lives of a node. A worker that has just been started has no pid file of its own yet.
struct Alive {
  std::optional<pid_t> worker, supervisor;
  explicit Alive(const std::string& home)
      : worker(Running(home, "worker.pid", "spillway-worker")), supervisor(Running(home, "supervisor.pid", "spillway-supervisor")) {
    if (!worker) worker = Running(home, kStarted, "spillway-worker");
  }
  bool any() const { return worker.has_value() || supervisor.has_value(); }
};

absl::StatusOr<std::vector<core::Offer>> Local::ListOffers() {
  ASSIGN_OR_RETURN(const auto homes, OurHomes());
  core::Offer offer;
  offer.provider = name_;
  offer.name = "local";
  offer.market = Market::kReserved;
  offer.instance_type = "local";
  offer.capacity = capacity_;
  offer.available = std::max<int64_t>(0, nodes_ - static_cast<int64_t>(homes.size()));
  return std::vector<core::Offer>{offer};
}

absl::StatusOr<std::map<std::string, std::string>> Local::OurHomes() const {
  std::map<std::string, std::string> homes;
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(NodesFolder());
  if (absl::IsNotFound(names.status())) return homes;
  RETURN_IF_ERROR(names.status());
  for (const std::string& folder : *names) {
    absl::string_view node = folder;
    if (!absl::ConsumePrefix(&node, absl::StrCat(name_, "-"))) continue;
    const std::string home = JoinPath(NodesFolder(), folder);
    const absl::StatusOr<std::string> marker = ReadFile(JoinPath(home, kMarker), kSmallFileBytesMax);
    if (!marker.ok() || !absl::StartsWith(*marker, absl::StrCat(surroundings_.cluster_uuid, "-"))) continue;
    if (absl::EndsWith(*marker, absl::StrCat("\n", name_, "\n"))) homes[std::string(node)] = home;
  }
  return homes;
}

absl::StatusOr<std::string> Local::Create(const engine::CreateOrder& order) {
  ASSIGN_OR_RETURN(const auto homes, OurHomes());
  const std::string home = HomeOf(order.node.name);
  if (homes.count(order.node.name) == 0) {
    if (static_cast<int64_t>(homes.size()) >= nodes_) return absl::ResourceExhaustedError(absl::StrCat("all ", nodes_, " local nodes exist already"));
    RETURN_IF_ERROR(MakeDirectories(home, 0700));
    RETURN_IF_ERROR(WriteFileDurably(JoinPath(home, kMarker), absl::StrCat(order.client_token, "\n", name_, "\n"), 0600));
  }
  if (!Alive(home).worker) RETURN_IF_ERROR(StartWorker(order.node.name, home));
  return order.node.name;
}

absl::Status Local::StartWorker(const std::string& node, const std::string& home) {
  std::vector<std::string> resources = {absl::StrFormat("cpus=%d.%03d", capacity_.cpu_milli / 1000, capacity_.cpu_milli % 1000),
                                        absl::StrCat("memory=", capacity_.memory_bytes)};
  if (capacity_.disk_bytes > 0) resources.push_back(absl::StrCat("disk=", capacity_.disk_bytes));
  resources.push_back(capacity_.gpu_count == 0 ? "gpu=none"
                                               : absl::StrCat("gpu=", capacity_.gpu_model, ":", capacity_.gpu_count, ":", capacity_.gpu_memory_bytes,
                                                              capacity_.gpu_simulated ? ":simulated" : ""));
  SpawnOptions spawn;
  spawn.argv = {JoinPath(surroundings_.program_folder, "spillway-worker"),
                "--home",
                home,
                "--server",
                surroundings_.worker_address,
                "--token-file",
                surroundings_.worker_token_file,
                "--node-name",
                node,
                "--provider",
                name_,
                "--instance-id",
                node,
                "--market",
                "reserved",
                "--resources",
                absl::StrJoin(resources, ",")};
  spawn.stdout_path = JoinPath(home, "worker.log");
  spawn.stderr_path = spawn.stdout_path;
  spawn.new_session = true;
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(spawn));
  children_.insert(pid);
  return WriteFileAtomically(JoinPath(home, kStarted), absl::StrCat(pid, "\n"), 0600);
}

// The worker first, so that it starts nothing more; then the supervisor, which ends its attempts and leaves. The listing shows when both are gone.
absl::Status Local::Terminate(const engine::TerminateOrder& order) {
  ReapChildren();
  ASSIGN_OR_RETURN(const auto homes, OurHomes());
  const auto found = homes.find(order.name);
  if (found == homes.end()) return absl::OkStatus();
  const Alive alive(found->second);
  if (alive.worker) kill(*alive.worker, SIGTERM);
  if (alive.supervisor) kill(*alive.supervisor, SIGTERM);
  return absl::OkStatus();
}

absl::StatusOr<core::InstanceListing> Local::List() {
  ReapChildren();
  core::InstanceListing listing;
  listing.provider = name_;
  ASSIGN_OR_RETURN(const auto homes, OurHomes());
  for (const auto& [node, home] : homes) {
    const Alive alive(home);
    core::InstanceListing::Instance instance;
    instance.instance_id = instance.name = node;
    instance.alive = alive.any();
    instance.reason = "running";
    if (!instance.alive) {
      const std::string last_line = LastLine(JoinPath(home, "worker.log"));
      instance.reason = absl::StrCat("its worker and supervisor have ended", last_line.empty() ? "" : absl::StrCat("; the worker's last words: ", last_line));
      instance.billed_micros = 0;
    }
    listing.instances.push_back(std::move(instance));
    // Told once: from then on its absence says the same, and its place is free.
    if (!alive.any()) RETURN_IF_ERROR(RemoveTree(home));
    if (alive.supervisor && !alive.worker) {
      if (const absl::Status status = StartWorker(node, home); !status.ok())
        LOG(WARNING) << "cannot start the worker of " << node << " again: " << status.message();
    }
  }
  return listing;
}

void Local::ReapChildren() {
  for (auto child = children_.begin(); child != children_.end();) {
    child = waitpid(*child, nullptr, WNOHANG) != 0 ? children_.erase(child) : std::next(child);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Provider>> MakeLocal(const v1::ProviderConfig& config, const Surroundings& surroundings) {
  if (config.nodes() < 1)
    return absl::InvalidArgumentError(absl::StrCat("provider ", config.name(), ": nodes must say how many workers may be started (at least 1)"));
  return std::make_unique<Local>(config, surroundings);
}

}  // namespace spillway::provider
