#include "scheduler/provider/local/local.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
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
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/text.h"

namespace spillway::provider {
namespace {

// In the node's home. The marker: made by this provider, for this cluster (client token and provider, a line each). Then the newest worker started, and
// whether its end was ordered: from then on nothing is started there.
constexpr char kMarker[] = "local.node";
constexpr char kStarted[] = "local.pid";
constexpr char kEnding[] = "local.ending";
constexpr int64_t kWorkerEndsWithinMs = 15'000;
constexpr size_t kSmallFileBytesMax = 4'096;
constexpr size_t kLogBytesMax = 64u << 20;
constexpr int64_t kDefaultCpuMilli = 1'000;
constexpr int64_t kDefaultMemoryBytes = 1LL << 30;

// False is proof: no such process, another one of that number, or a zombie. What cannot be told (no descriptor left to read /proc with) is an error.
absl::StatusOr<bool> Lives(pid_t pid, int64_t start_ticks) {
  if (ProcessAlive(pid, start_ticks)) return true;
  const absl::StatusOr<int64_t> ticks = ProcessStartTicks(pid);
  if (ticks.ok() || (kill(pid, 0) != 0 && errno == ESRCH)) return false;
  return ticks.status();
}

// A process that was looked for. Neither pid nor `perhaps` is proof that it is gone.
struct Seen {
  std::optional<pid_t> pid;  // it lives, and is who it should be
  bool perhaps = false;      // something lives under its number that shows no command line: it is leaving, or becoming another program. Nobody to signal
  bool lives() const { return pid.has_value() || perhaps; }
};

// The process that a pid file names, as long as it is that program for that home: a pid may have been reused.
absl::StatusOr<Seen> Running(const std::string& home, const char* pid_file, const char* program) {
  const Seen gone;
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(home, pid_file), kSmallFileBytesMax);
  if (absl::IsNotFound(text.status())) return gone;
  RETURN_IF_ERROR(text.status());
  pid_t pid = 0;
  if (!absl::SimpleAtoi(text->substr(0, text->find_first_of(" \n")), &pid) || pid <= 1) return gone;
  const absl::StatusOr<int64_t> ticks = ProcessStartTicks(pid);
  if (!ticks.ok() && kill(pid, 0) != 0 && errno == ESRCH) return gone;
  RETURN_IF_ERROR(ticks.status());
  const absl::StatusOr<std::string> command = ReadFile(absl::StrCat("/proc/", pid, "/cmdline"), 64u << 10);
  ASSIGN_OR_RETURN(const bool lives, Lives(pid, *ticks));
  if (!lives) return gone;
  RETURN_IF_ERROR(command.status());
  if (command->empty()) return Seen{std::nullopt, true};
  const std::vector<std::string> argv = absl::StrSplit(*command, '\0');
  if (!absl::EndsWith(argv[0], program) || std::find(argv.begin(), argv.end(), home) == argv.end()) return gone;
  return Seen{pid, false};
}

// The worker that was started last, from the moment it was: before it has written a pid file, before it shows its own command line.
absl::StatusOr<std::string> NameOf(pid_t pid) {
  ASSIGN_OR_RETURN(const int64_t ticks, ProcessStartTicks(pid));
  ASSIGN_OR_RETURN(const std::string boot, ReadFile("/proc/sys/kernel/random/boot_id", kSmallFileBytesMax));
  return absl::StrCat(pid, " ", ticks, " ", boot);
}
absl::StatusOr<Seen> Started(const std::string& home) {
  const Seen gone;
  const absl::StatusOr<std::string> name = ReadFile(JoinPath(home, kStarted), kSmallFileBytesMax);
  if (absl::IsNotFound(name.status())) return gone;
  RETURN_IF_ERROR(name.status());
  const std::vector<std::string> words = absl::StrSplit(*name, ' ');
  pid_t pid = 0;
  int64_t ticks = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &pid) || pid <= 1 || !absl::SimpleAtoi(words[1], &ticks)) return gone;
  ASSIGN_OR_RETURN(const std::string boot, ReadFile("/proc/sys/kernel/random/boot_id", kSmallFileBytesMax));
  ASSIGN_OR_RETURN(const bool lives, Lives(pid, ticks));
  if (!lives || words[2] != boot) return gone;
  return Seen{pid, false};
}

// What lives of a node.
struct Alive {
  Seen worker, supervisor;
  bool any() const { return worker.lives() || supervisor.lives(); }
  // The worker is looked at first: the supervisor that it may start meanwhile is then still seen.
  static absl::StatusOr<Alive> Look(const std::string& home) {
    Alive alive;
    ASSIGN_OR_RETURN(alive.worker, Started(home));
    if (!alive.worker.lives()) {
      ASSIGN_OR_RETURN(alive.worker, Running(home, "worker.pid", "spillway-worker"));
    }
    ASSIGN_OR_RETURN(alive.supervisor, Running(home, "supervisor.pid", "spillway-supervisor"));
    return alive;
  }
};

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
  RealClock clock_;
  std::set<pid_t> children_;                        // started in this life, not yet reaped
  std::map<std::string, int64_t> ending_since_ms_;  // node -> when its end was first ordered in this life
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
  ASSIGN_OR_RETURN(const Alive alive, Alive::Look(home));
  if (!alive.worker.lives()) RETURN_IF_ERROR(StartWorker(order.node.name, home));
  return order.node.name;
}

absl::Status Local::StartWorker(const std::string& node, const std::string& home) {
  std::vector<std::string> resources = {absl::StrFormat("cpus=%d.%03d", capacity_.cpu_milli / 1000, capacity_.cpu_milli % 1000),
                                        absl::StrCat("memory=", capacity_.memory_bytes, "B")};
  if (capacity_.disk_bytes > 0) resources.push_back(absl::StrCat("disk=", capacity_.disk_bytes, "B"));
  resources.push_back(capacity_.gpu_count == 0 ? "gpu=none"
                                               : absl::StrCat("gpu=", capacity_.gpu_model, ":", capacity_.gpu_count, ":", capacity_.gpu_memory_bytes, "B",
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
  ASSIGN_OR_RETURN(const std::string name, NameOf(pid));
  return WriteFileAtomically(JoinPath(home, kStarted), name, 0600);
}

// The worker first, so that it starts nothing more; when it is gone the supervisor, which ends its attempts and leaves. The caller asks again until the
// listing shows that both are gone.
absl::Status Local::Terminate(const engine::TerminateOrder& order) {
  ReapChildren();
  ASSIGN_OR_RETURN(const auto homes, OurHomes());
  const auto found = homes.find(order.name);
  if (found == homes.end()) return absl::OkStatus();
  const std::string& home = found->second;
  if (!PathExists(JoinPath(home, kEnding))) RETURN_IF_ERROR(WriteFileDurably(JoinPath(home, kEnding), "", 0600));
  const int64_t now_ms = clock_.NowSteadyMs(), since_ms = ending_since_ms_.emplace(order.name, now_ms).first->second;
  ASSIGN_OR_RETURN(const Alive alive, Alive::Look(home));
  if (alive.worker.pid) {
    kill(*alive.worker.pid, now_ms - since_ms > kWorkerEndsWithinMs ? SIGKILL : SIGTERM);
  } else if (alive.supervisor.pid && !alive.worker.perhaps) {
    kill(*alive.supervisor.pid, SIGTERM);
  }
  return absl::OkStatus();
}

absl::StatusOr<core::InstanceListing> Local::List() {
  ReapChildren();
  core::InstanceListing listing;
  listing.provider = name_;
  ASSIGN_OR_RETURN(const auto homes, OurHomes());
  for (const auto& [node, home] : homes) {
    ASSIGN_OR_RETURN(const Alive alive, Alive::Look(home));
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
    if (!alive.any()) {
      ending_since_ms_.erase(node);
      RETURN_IF_ERROR(RemoveTree(home));
    }
    if (alive.supervisor.pid && !alive.worker.lives() && !PathExists(JoinPath(home, kEnding))) {
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
