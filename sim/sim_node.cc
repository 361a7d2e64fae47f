#include "sim/sim_node.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace spillway::sim {

SimNode::SimNode(Surroundings around, NodeSetup setup)
    : around_(std::move(around)),
      setup_(std::move(setup)),
      clock_(around_.world, setup_.zero_ms, setup_.rate_ppm),
      rng_(around_.world->Luck(absl::StrCat("node ", setup_.name, setup_.instance_id))) {}

int64_t SimNode::living_processes() const {
  return std::count_if(processes_.begin(), processes_.end(), [](const auto& process) { return process->alive(); });
}

int64_t SimNode::LeaseEndTrueMs() const {
  if (supervisor_ == nullptr || supervisor_->lease_end_ms() == 0) return 0;
  return clock_.TrueMs(supervisor_->lease_end_ms());
}

// ---- power ----

void SimNode::PowerOn() {
  if (powered_) return;
  powered_ = true;
  StartSupervisor();
  clock_.After(rng_.Between(10, 2'000), life_, [this] { StartWorker(); });
}

void SimNode::PowerOff() {
  if (!powered_) return;
  around_.world->Trace(setup_.name, " is off");
  powered_ = false;
  if (supervisor_ != nullptr) disk_.journal = supervisor_->Journal();
  worker_.reset();
  supervisor_.reset();
  life_.End();
  clock_.Thaw();
  for (const auto& process : std::exchange(processes_, {})) process->PowerOff();
  around_.network->NodeDied(this, true);
}

void SimNode::Freeze(int64_t ms) {
  if (!powered_ || clock_.frozen()) return;
  around_.world->Trace(setup_.name, " is frozen for ", ms, " ms");
  ever_frozen_ = true;
  clock_.Freeze();
  around_.world->After(ms, life_, [this] {
    around_.world->Trace(setup_.name, " thaws");
    clock_.Thaw();
  });
}

// ---- the supervisor's lives ----

void SimNode::StartSupervisor() {
  // What the life before left running is killed first, and nobody is told of an end before it is one.
  processes_.erase(std::remove_if(processes_.begin(), processes_.end(), [](const auto& process) { return !process->alive(); }), processes_.end());
  if (!processes_.empty()) {
    for (const auto& process : processes_) process->Kill();
    clock_.After(100, life_, [this] { StartSupervisor(); });
    return;
  }
  SimSupervisor::Surroundings around{around_.world, &clock_, !around_.bugs->lease_not_obeyed, around_.bugs->told_before_gone, around_.bugs->starts_twice};
  const std::string boot_id = absl::StrCat(setup_.name, "/", setup_.instance_id, "/boot-", ++boots_);
  supervisor_ = std::make_unique<SimSupervisor>(around, boot_id, std::exchange(disk_.journal, {}));
  around_.observer->SupervisorBegan(setup_.name, boot_id);
  Meet();
}

void SimNode::SupervisorDies(int64_t back_in_ms) {
  if (!powered_ || supervisor_ == nullptr) return;
  around_.world->Trace(setup_.name, ": the supervisor died");
  around_.world->Reach("a supervisor died");
  disk_.journal = supervisor_->Journal();
  for (const auto& process : processes_) process->Leave();
  supervisor_.reset();
  clock_.After(back_in_ms, life_, [this] { StartSupervisor(); });
}

// ---- the worker's lives ----

void SimNode::StartWorker() {
  if (worker_ != nullptr) return;
  worker_ = std::make_unique<Worker>();
  worker::SessionConfig config;
  config.node.node_name = setup_.name;
  config.node.provider = setup_.provider;
  config.node.instance_id = setup_.instance_id;
  config.node.zone = setup_.zone;
  config.node.region = setup_.region;
  config.node.market = setup_.market;
  config.node.resources.cpu_milli = setup_.capacity.cpu_milli;
  config.node.resources.memory_bytes = setup_.capacity.memory_bytes;
  config.node.resources.disk_bytes = setup_.capacity.disk_bytes;
  if (setup_.capacity.gpu_count > 0) {
    config.node.resources.accelerators.push_back(
        {setup_.capacity.gpu_model, setup_.capacity.gpu_count, setup_.capacity.gpu_memory_bytes, setup_.capacity.gpu_simulated});
  }
  config.node.cluster_uuid = disk_.cluster_uuid;
  config.node.node_id = disk_.node_id;
  config.seed = rng_.Next();
  // Who bills for itself ends itself.
  if (!setup_.instance_id.empty()) config.node_lease_ms = limits::kNodeLeaseMs;
  worker_->logic = std::make_unique<worker::SessionLogic>(std::move(config), disk_.reports);
  Meet();
}

void SimNode::WorkerDies(int64_t back_in_ms) {
  if (worker_ == nullptr) return;
  around_.world->Trace(setup_.name, ": the worker died");
  around_.world->Reach("a worker died");
  worker_.reset();
  if (supervisor_ != nullptr) supervisor_->Attach(nullptr);
  around_.network->NodeDied(this, false);
  clock_.After(back_in_ms, life_, [this] { StartWorker(); });
}

void SimNode::WorkerComesBack(int64_t in_ms) {
  clock_.After(in_ms, life_, [this] { StartWorker(); });
}

void SimNode::PauseWorker(int64_t ms) {
  if (worker_ == nullptr || worker_->paused) return;
  around_.world->Trace(setup_.name, ": the worker is paused for ", ms, " ms");
  around_.world->Reach("a worker was paused");
  worker_->paused = true;
  clock_.After(ms, worker_->life, [this] {
    worker_->paused = false;
    const Worker* const me = worker_.get();
    for (std::deque<World::Task> waiting = std::move(worker_->when_awake); !waiting.empty(); waiting.pop_front()) {
      waiting.front()();
      if (worker_.get() != me) return;  // it left, or its machine did
    }
  });
}

void SimNode::Meet() {
  if (worker_ == nullptr || supervisor_ == nullptr) return;
  // The worker hears the inventory before any event.
  Later(0, supervisor_->Inventory());
  supervisor_->Attach([this](const frames::Event& event) {
    if (worker_ == nullptr) return;
    if (around_.bugs->events_acked_early) supervisor_->Ack(event.number);
    Hand(event);
  });
}

void SimNode::Hand(const worker::Input& input) {
  if (worker_->paused) return worker_->when_awake.push_back([this, input] { Hand(input); });
  const int64_t life = boots_;
  Worker* const me = worker_.get();
  for (worker::Output& output : worker_->logic->Handle(input, clock_.NowMs())) {
    if (rng_.Chance(around_.faults->worker_dies)) {
      around_.world->Reach("a worker died between two outputs");
      return WorkerDies(rng_.Between(100, 5'000));
    }
    std::visit([this](auto& out) { CarryOut(out); }, output);
    if (worker_.get() != me || life != boots_) return;  // it left, or its machine did
  }
  ArmTick();
}

void SimNode::ArmTick() {
  const int64_t at_ms = worker_->logic->NextWakeMs();
  if (at_ms == worker::LeaseKeeper::kNever || worker_->tick_at_ms == at_ms) return;
  worker_->tick_at_ms = at_ms;
  clock_.At(at_ms, worker_->life, [this, at_ms] {
    if (worker_->tick_at_ms != at_ms) return;  // another time was chosen
    worker_->tick_at_ms = 0;
    Hand(worker::Tick{});
  });
}

void SimNode::Later(int64_t ms, worker::Input input) {
  clock_.After(ms, worker_->life, [this, input = std::move(input)] { Hand(input); });
}

void SimNode::Notice(int64_t in_ms, const std::string& source, bool advisory) {
  if (powered_ && worker_ != nullptr) Later(0, worker::LocalNotice{in_ms, source, advisory});
}

// ---- streams ----

void SimNode::StreamFrame(StreamId stream, const worker::SchedulerFrame& frame) {
  if (worker_ == nullptr || worker_->stream != stream) return;
  Later(0, worker::FrameReceived{worker_->session, frame});
}

void SimNode::StreamBroken(StreamId stream, const std::string& why) {
  if (worker_ == nullptr || worker_->stream != stream) return;
  worker_->stream = 0;
  Later(0, worker::Disconnected{worker_->session, why});
}

void SimNode::CarryOut(worker::Connect& out) {
  worker_->session = out.session;
  worker_->stream = around_.network->Dial(setup_.name, this);
  Later(0, worker::Connected{out.session});
}

void SimNode::CarryOut(worker::Disconnect& out) {
  if (out.session != worker_->session || worker_->stream == 0) return;
  around_.network->CloseByNode(worker_->stream);
  worker_->stream = 0;
}

void SimNode::CarryOut(worker::SendFrame& out) {
  if (out.session == worker_->session && worker_->stream != 0) around_.network->SendUp(worker_->stream, std::move(out.frame));
}

// ---- attempts ----

void SimNode::CarryOut(worker::StartAttempt& out) {
  const auto [at, is_new] = worker_->staging.try_emplace(out.key);
  if (!is_new) return;
  const int64_t ms = rng_.Between(1, std::max<int64_t>(1, around_.faults->staging_ms_max));
  if (rng_.Chance(around_.faults->staging_fails)) {
    clock_.After(ms, worker_->life, [this, key = out.key, attempt = out.offer.attempt] {
      worker_->staging.erase(key);
      around_.world->Reach("staging failed");
      Hand(worker::StartRefused{attempt, EndCause::kStagingFailed, Initiator::kNode, "cannot fetch the workdir"});
    });
    return;
  }
  clock_.After(ms, worker_->life, [this, offer = out.offer, key = out.key, spec = *out.spec] { OnStaged(offer, key, spec); });
}

void SimNode::OnStaged(const worker::Offer& offer, const std::string& key, const std::string& spec) {
  if (worker_->paused) return worker_->when_awake.push_back([this, offer, key, spec] { OnStaged(offer, key, spec); });
  const auto commands = std::move(worker_->staging.at(key));
  worker_->staging.erase(key);
  if (!worker_->logic->MayStart(offer.attempt) && !around_.bugs->starts_given_up) return around_.world->Reach("an attempt was given up while it was staged");
  if (const auto refused = worker_->logic->InsteadOfStart(offer.attempt); refused && !around_.bugs->starts_given_up) {
    around_.world->Reach("an attempt was told to end while it was staged");
    return Hand(*refused);
  }
  const auto plan = JobPlan::FromSpec(spec);
  if (!plan.ok()) {
    around_.world->Fail(absl::StrCat("the spec of ", offer.attempt.ToString(), " arrived as something else"));
    return;
  }
  if (supervisor_ == nullptr) return;  // given again once it is back
  const bool fails = rng_.Chance(around_.faults->launch_fails);
  const absl::Status started = supervisor_->Start({key, offer.attempt}, worker::EncodeTag(offer), 30'000, plan->total_steps,
                                                  [&] { return fails ? nullptr : MakeProcess(offer, *plan); });
  if (!started.ok() && !absl::IsAlreadyExists(started)) {
    return Hand(worker::StartRefused{offer.attempt, EndCause::kLaunchFailed, Initiator::kNode, std::string(started.message())});
  }
  for (const auto& command : commands) {
    if (const auto* stop = std::get_if<frames::Stop>(&command)) supervisor_->Stop(*stop);
    if (const auto* kill = std::get_if<frames::Kill>(&command)) supervisor_->Kill(*kill);
  }
}

std::shared_ptr<SimProcess> SimNode::MakeProcess(const worker::Offer& offer, const JobPlan& plan) {
  ProcessSetup setup;
  setup.attempt = offer.attempt;
  setup.plan = plan;
  setup.job_uid = offer.job_uid;
  setup.checkpoint_dir = offer.checkpoint_dir;
  setup.resume_path = offer.resume_from;
  setup.devices = offer.devices;
  setup.late_write = around_.faults->late_write;
  setup.rank = offer.rank;
  setup.members = offer.members;
  processes_.erase(std::remove_if(processes_.begin(), processes_.end(), [](const auto& process) { return !process->alive(); }), processes_.end());
  processes_.push_back(std::make_shared<SimProcess>(around_.world, &clock_, around_.store, around_.observer, this, rng_.Next(), std::move(setup)));
  return processes_.back();
}

void SimNode::CarryOut(worker::ReserveRendezvous& out) {
  Later(rng_.Between(0, 20), worker::RendezvousReserved{out.attempt, absl::StrCat(setup_.name, ":", rng_.Between(30'000, 60'000))});
}

void SimNode::CarryOut(worker::StopAttempt& out) {
  if (const auto staged = worker_->staging.find(out.stop.key); staged != worker_->staging.end()) return staged->second.push_back(out.stop);
  if (supervisor_ != nullptr) supervisor_->Stop(out.stop);
}

void SimNode::CarryOut(worker::KillAttempt& out) {
  if (const auto staged = worker_->staging.find(out.kill.key); staged != worker_->staging.end()) return staged->second.push_back(out.kill);
  if (supervisor_ != nullptr) supervisor_->Kill(out.kill);
}

void SimNode::CarryOut(worker::NoticeAttempts& out) {
  if (supervisor_ != nullptr) supervisor_->Notice(out.notice);
}

void SimNode::CarryOut(worker::RenewLease& out) {
  if (supervisor_ == nullptr) return;
  if (around_.bugs->lease_from_receipt && out.renew.lease_ms > 0) out.renew.lease_end_boottime_ms = clock_.NowMs() + out.renew.lease_ms;
  supervisor_->Renew(out.renew);
}

void SimNode::CarryOut(worker::AckEvents& out) {
  if (supervisor_ != nullptr) supervisor_->Ack(out.number);
}

// ---- the store ----

worker::CheckpointFound SimNode::FoundOf(const Manifest& manifest) const { return {manifest.step, manifest.path, manifest.sha256, manifest.bytes}; }

void SimNode::CarryOut(worker::CheckCheckpoint& out) {
  clock_.After(rng_.Between(1, 500), worker_->life, [this, out] {
    worker::CheckpointChecked answer;
    answer.attempt = out.attempt;
    answer.event = out.event;
    const Manifest* manifest = around_.store->Find(out.said.path);
    answer.ok = manifest != nullptr && !manifest->damaged && around_.store->Answers() && !rng_.Chance(around_.faults->look_fails);
    if (answer.ok) {
      answer.checkpoint = FoundOf(*manifest);
    } else {
      answer.why = "no answer, or no manifest";
    }
    Hand(answer);
  });
}

void SimNode::CarryOut(worker::ScanCheckpoints& out) {
  clock_.After(rng_.Between(1, 500), worker_->life, [this, out] {
    worker::ScanResult answer;
    answer.attempt = out.attempt;
    if (!around_.store->Answers() || rng_.Chance(around_.faults->look_fails)) {
      around_.world->Reach("the scan at an attempt's end failed");
      answer.error = "the store does not answer";
    } else {
      for (const Manifest* manifest : around_.store->List(out.checkpoint_dir)) {
        if (!manifest->damaged) answer.committed.push_back(FoundOf(*manifest));
      }
    }
    Hand(answer);
  });
}

// ---- the disk ----

void SimNode::CarryOut(worker::SaveReports& out) {
  if (around_.bugs->reports_not_saved) return;
  if (out.anew) disk_.reports = worker::SavedReports{out.boot_id, out.acked, {}};
  disk_.reports.boot_id = out.boot_id;
  disk_.reports.unacked.insert(disk_.reports.unacked.end(), out.reports.begin(), out.reports.end());
}

void SimNode::CarryOut(worker::SaveReportAck& out) {
  disk_.reports.acked = out.seq;
  auto& unacked = disk_.reports.unacked;
  while (!unacked.empty() && unacked.front().seq <= out.seq) unacked.erase(unacked.begin());
}

void SimNode::CarryOut(worker::SaveNode& out) {
  disk_.cluster_uuid = out.cluster_uuid;
  disk_.node_id = out.node_id;
}

void SimNode::CarryOut(worker::LogLine& out) { around_.world->Trace(setup_.name, ": ", out.text); }

void SimNode::CarryOut(worker::Exit& out) {
  around_.world->Trace(setup_.name, ": the worker leaves: ", out.why);
  around_.world->Reach("a worker left for good");
  worker_.reset();
  if (supervisor_ != nullptr) supervisor_->Attach(nullptr);
  around_.network->NodeDied(this, false);
  around_.left(this);
}

}  // namespace spillway::sim
