#include "scheduler/provider/local/local.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/units.h"

namespace spillway::provider {
namespace {

// In the node's home: made by this provider, for this cluster. Its content is the client token.
constexpr char kMarker[] = "local.token";
constexpr size_t kSmallFileBytesMax = 4'096;
constexpr int64_t kDefaultCpuMilli = 1'000;
constexpr int64_t kDefaultMemoryBytes = 1LL << 30;

struct Process {
  pid_t pid = 0;
  int64_t start_ticks = 0;
};

// The process that a pid file names, as long as it is that program for that home: a pid may have been reused.
std::optional<Process> Running(const std::string& home, const char* pid_file, const char* program) {
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(home, pid_file), kSmallFileBytesMax);
  if (!text.ok()) return std::nullopt;
  Process process;
  const absl::string_view first_word = absl::StripAsciiWhitespace(absl::string_view(*text)).substr(0, text->find_first_of(" \n"));
  if (!absl::SimpleAtoi(first_word, &process.pid) || process.pid <= 1) return std::nullopt;
  const absl::StatusOr<std::string> command = ReadFile(absl::StrCat("/proc/", process.pid, "/cmdline"), 64u << 10);
  if (!command.ok() || !absl::StrContains(*command, program) || !absl::StrContains(*command, home)) return std::nullopt;
  const absl::StatusOr<int64_t> ticks = ProcessStartTicks(process.pid);
  if (!ticks.ok()) return std::nullopt;
  process.start_ticks = *ticks;
  if (!ProcessAlive(process.pid, process.start_ticks)) return std::nullopt;
  return process;
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
  absl::StatusOr<std::map<std::string, std::string>> OurHomes() const;   // node name -> home
  absl::Status StartWorker(const std::string& node, const std::string& home);
  void ReapChildren();

  const std::string name_;
  const int64_t nodes_;
  const Surroundings surroundings_;
  core::Capacity capacity_;
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
    const absl::StatusOr<std::string> token = ReadFile(JoinPath(home, kMarker), kSmallFileBytesMax);
    if (token.ok() && absl::StartsWith(*token, surroundings_.cluster_uuid)) homes[std::string(node)] = home;
  }
  return homes;
}

absl::StatusOr<std::string> Local::Create(const engine::CreateOrder& order) {
  ASSIGN_OR_RETURN(const auto homes, OurHomes());
  const std::string home = HomeOf(order.node.name);
  if (homes.count(order.node.name) == 0) {
    if (static_cast<int64_t>(homes.size()) >= nodes_) return absl::ResourceExhaustedError(absl::StrCat("all ", nodes_, " local nodes exist already"));
    RETURN_IF_ERROR(MakeDirectories(home, 0700));
    RETURN_IF_ERROR(WriteFileDurably(JoinPath(home, kMarker), order.client_token, 0600));
  }
  if (!Running(home, "worker.pid", "spillway-worker")) RETURN_IF_ERROR(StartWorker(order.node.name, home));
  return order.node.name;
}

absl::Status Local::StartWorker(const std::string& node, const std::string& home) {
  std::vector<std::string> resources = {absl::StrCat("cpus=", capacity_.cpu_milli / 1000, ".", capacity_.cpu_milli % 1000), absl::StrCat("memory=", FormatBytes(capacity_.memory_bytes))};
  if (capacity_.disk_bytes > 0) resources.push_back(absl::StrCat("disk=", FormatBytes(capacity_.disk_bytes)));
  if (capacity_.gpu_count > 0) {
    resources.push_back(absl::StrCat("gpu=", capacity_.gpu_model, ":", capacity_.gpu_count, ":", FormatBytes(capacity_.gpu_memory_bytes),
                                     capacity_.gpu_simulated ? ":simulated" : ""));
  }
  SpawnOptions spawn;
  spawn.argv = {JoinPath(surroundings_.program_folder, "spillway-worker"), "--home", home, "--server", surroundings_.worker_address,
                "--token-file", surroundings_.worker_token_file, "--node-name", node, "--provider", name_, "--instance-id", node,
                "--market", "reserved", "--resources", absl::StrJoin(resources, ",")};
  spawn.stdout_path = JoinPath(home, "worker.log");
  spawn.stderr_path = spawn.stdout_path;
  spawn.new_session = true;
  return Spawn(spawn).status();
}

// The worker first, so that it starts nothing more; then the supervisor, which ends its attempts and leaves. The folder goes when both are gone.
absl::Status Local::Terminate(const engine::TerminateOrder& order) {
  ReapChildren();
  const std::string home = HomeOf(order.name);
  if (!PathExists(JoinPath(home, kMarker))) return absl::OkStatus();
  const std::optional<Process> worker = Running(home, "worker.pid", "spillway-worker");
  const std::optional<Process> supervisor = Running(home, "supervisor.pid", "spillway-supervisor");
  if (worker) kill(worker->pid, SIGTERM);
  if (supervisor) kill(supervisor->pid, SIGTERM);
  if (worker || supervisor) return absl::UnavailableError(absl::StrCat(order.name, " is ending"));
  return RemoveTree(home);
}

absl::StatusOr<core::InstanceListing> Local::List() {
  ReapChildren();
  core::InstanceListing listing;
  listing.provider = name_;
  ASSIGN_OR_RETURN(const auto homes, OurHomes());
  for (const auto& [node, home] : homes) {
    const bool worker = Running(home, "worker.pid", "spillway-worker").has_value();
    const bool supervisor = Running(home, "supervisor.pid", "spillway-supervisor").has_value();
    if (!worker && supervisor) {
      if (const absl::Status status = StartWorker(node, home); !status.ok()) LOG(WARNING) << "cannot start the worker of " << node << " again: " << status.message();
    }
    core::InstanceListing::Instance instance;
    instance.instance_id = node;
    instance.name = node;
    // A worker needs a moment until its pid file stands: a home without a pid file is one that is just starting.
    instance.alive = worker || supervisor || !PathExists(JoinPath(home, "worker.pid"));
    instance.reason = instance.alive ? "running" : "its worker and supervisor have ended";
    if (!instance.alive) instance.billed_micros = 0;
    listing.instances.push_back(std::move(instance));
  }
  return listing;
}

// Workers that ended while this process lives would stay zombies.
void Local::ReapChildren() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Provider>> MakeLocal(const v1::ProviderConfig& config, const Surroundings& surroundings) {
  if (config.nodes() < 1) return absl::InvalidArgumentError(absl::StrCat("provider ", config.name(), ": nodes must say how many workers may be started (at least 1)"));
  return std::make_unique<Local>(config, surroundings);
}

}  // namespace spillway::provider
