// spillway-worker: gives this machine's capacity to a scheduler. A parts list; nothing is decided here.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "worker/devices/devices.h"
#include "worker/disk_quota.h"
#include "worker/flags.h"
#include "worker/machine.h"
#include "worker/node_agent.h"
#include "worker/node_home.h"
#include "worker/preemption/notice_poller.h"
#include "worker/preemption/notice_source.h"
#include "worker/version.h"

namespace spillway::worker {
namespace {

constexpr int kExitUsage = 2;
constexpr int kExitOwned = 3;  // another worker has this home

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "node";
}

// Before any thread exists, so that all of them leave these signals to the loop.
absl::StatusOr<int> TakeSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  const int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return ErrnoStatus(errno, "cannot make a signalfd");
  return fd;
}

absl::StatusOr<Machine> LookAtMachine(const Flags& flags) {
  const devices::Detected detected = devices::Detect();
  if (!detected.note.empty()) LOG(WARNING) << detected.note;
  ASSIGN_OR_RETURN(Machine machine, DetectMachine(flags.home, detected));
  ASSIGN_OR_RETURN(machine, DeclareMachine(flags.resources, std::move(machine), detected));
  const NodeResources& has = machine.resources;
  LOG(INFO) << has.cpu_milli / 1000.0 << " cpus, " << FormatBytes(has.memory_bytes) << " memory, " << FormatBytes(has.disk_bytes) << " disk";
  for (const Accelerator& gpu : has.accelerators) {
    LOG(INFO) << gpu.count << " x " << gpu.model << ", " << FormatBytes(gpu.memory_bytes)
              << (gpu.simulated ? ", simulated" : absl::StrCat(", from ", detected.source));
  }
  return machine;
}

absl::StatusOr<DiskLimits> LookAtDisks(const Flags& flags) {
  if (flags.disk_quota == "watch") return DiskLimits{false, "as asked"};
  const DiskLimits disk = ProbeDiskLimits(flags.home);
  if (!disk.mounts && flags.disk_quota == "mount") return absl::InternalError(absl::StrCat("--disk-quota mount: ", disk.because));
  if (!disk.mounts) LOG(INFO) << "the disks of attempts are not mounted but looked at: " << disk.because;
  return disk;
}

AgentOptions OptionsOf(const Flags& flags, const Machine& machine, const DiskLimits& disk, int signal_fd) {
  AgentOptions options;
  options.disk = disk;
  options.pids_max = flags.pids_max;
  options.session.disk_limits = disk.mounts ? "mount" : absl::StrCat("watched (", Printable(disk.because, 60), ")");
  Hello& node = options.session.node;
  node.node_name = flags.node_name;
  node.provider = flags.provider;
  node.instance_id = flags.instance_id;
  node.resources = machine.resources;
  node.zone = flags.zone;
  node.region = flags.region;
  node.market = flags.market;
  node.worker_version = kVersion;
  FillRandom(&options.session.seed, sizeof options.session.seed);
  options.session.node_lease_ms = flags.node_lease_ms;
  options.link = {flags.server, flags.token_file};
  options.address = flags.address;
  options.supervisor.home = flags.home;
  options.supervisor.program = flags.supervisor;
  if (flags.containment != "auto") options.supervisor.extra_args = {"--containment", flags.containment};
  options.supervisor.client = absl::StrCat("spillway-worker ", kVersion);
  options.device_indices = machine.device_indices;
  options.signal_fd = signal_fd;
  options.stop_jobs_on_exit = flags.stop_jobs_on_exit;
  options.max_lifetime_ms = flags.max_lifetime_ms;
  return options;
}

absl::StatusOr<std::unique_ptr<preemption::NoticePoller>> MakePoller(const Flags& flags, Clock* clock, NodeAgent* agent) {
  if (flags.notice_source == "none") return nullptr;
  preemption::SourceOptions options;
  (flags.notice_source == "file" ? options.path : options.base_url) = flags.metadata_url;
  options.vm_name = flags.instance_id;
  ASSIGN_OR_RETURN(std::unique_ptr<preemption::NoticeSource> source, preemption::MakeNoticeSource(flags.notice_source, options));
  preemption::PollerOptions poller;
  poller.period_ms = flags.notice_every_ms;
  poller.margin.fixed_ms = flags.notice_margin_ms;
  return std::make_unique<preemption::NoticePoller>(std::move(source), clock, poller, [agent](const preemption::Notice& notice) {
    agent->Post(LocalNotice{notice.left_ms, notice.source, notice.kind == preemption::NoticeKind::kAdvisory});
  });
}

absl::StatusOr<int> Run(const Flags& flags) {
  ASSIGN_OR_RETURN(const int signal_fd, TakeSignals());
  ASSIGN_OR_RETURN(NodeHome home, NodeHome::Open(flags.home));
  ASSIGN_OR_RETURN(const Machine machine, LookAtMachine(flags));
  LOG(INFO) << "spillway-worker " << kVersion << " as " << flags.provider << "/" << flags.node_name << " in " << flags.home << ", scheduler " << flags.server;
  RealClock clock;
  ASSIGN_OR_RETURN(const DiskLimits disk, LookAtDisks(flags));
  NodeAgent agent(OptionsOf(flags, machine, disk, signal_fd), &home);
  ASSIGN_OR_RETURN(const std::unique_ptr<preemption::NoticePoller> poller, MakePoller(flags, &clock, &agent));
  if (poller != nullptr) poller->Start();
  auto code = agent.Run();
  if (poller != nullptr) poller->Stop();
  return code;
}

}  // namespace
}  // namespace spillway::worker

int main(int argc, char** argv) {
  using namespace spillway;
  SetLogProgram("spillway-worker");
  const auto flags = worker::ParseFlags(std::vector<std::string>(argv + 1, argv + argc), SpillwayHome(), worker::HostName());
  if (!flags.ok()) {
    fprintf(stderr, "spillway-worker: %s\n(--help lists the flags)\n", std::string(flags.status().message()).c_str());
    return worker::kExitUsage;
  }
  if (flags->help || flags->version) {
    fputs(flags->help ? worker::kUsage : absl::StrCat("spillway-worker ", worker::kVersion, "\n").c_str(), stdout);
    return 0;
  }
  const auto code = worker::Run(*flags);
  if (code.ok()) return *code;
  LOG(ERROR) << code.status().message();
  if (absl::IsInvalidArgument(code.status())) return worker::kExitUsage;
  return absl::IsFailedPrecondition(code.status()) ? worker::kExitOwned : 1;
}
