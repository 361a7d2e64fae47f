#include "sim/sim_supervisor.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace spillway::sim {
namespace {

using supervisor::LeaseStage;

}  // namespace

SimSupervisor::SimSupervisor(Surroundings around, std::string boot_id, const std::vector<JournalEntry>& journal)
    : around_(around), boot_id_(std::move(boot_id)) {
  for (const JournalEntry& entry : journal) {
    frames::ExitFacts facts = entry.facts;
    if (!entry.ended) {
      facts = {};
      facts.supervisor_lost = true;
      facts.ended_boottime_ms = around_.clock->NowMs();
      around_.world->Reach("an attempt was lost with its supervisor");
    }
    frames::InventoryItem item;
    item.attempt = entry.attempt;
    item.state = AttemptState::kEnded;
    item.progress.step = facts.last_step;
    item.progress.total = facts.last_total;
    item.checkpoints = facts.checkpoints;
    item.stop_cause = facts.stop_cause;
    adopted_.push_back(std::move(item));
    adopted_facts_[entry.attempt.key] = facts;
    events_.Push(frames::Event{0, entry.attempt, facts.ended_boottime_ms, frames::Exited{facts}});
  }
}

std::vector<JournalEntry> SimSupervisor::Journal() const {
  std::vector<JournalEntry> journal;
  for (const frames::InventoryItem& item : adopted_) journal.push_back({item.attempt, true, adopted_facts_.at(item.attempt.key)});
  for (const auto& [key, row] : rows_) journal.push_back({row->ref, row->ended, row->facts});
  return journal;
}

// ---- the worker ----

void SimSupervisor::Attach(std::function<void(const frames::Event&)> worker) {
  worker_ = std::move(worker);
  told_ = 0;
  ++attachment_;
  Tell();
}

void SimSupervisor::Tell() {
  while (worker_) {
    const frames::Event* event = events_.After(told_);
    if (event == nullptr) return;
    told_ = event->number;
    around_.clock->After(0, life_, [this, event = *event, attachment = attachment_] {
      if (worker_ && attachment == attachment_) worker_(event);
    });
  }
}

void SimSupervisor::Emit(const Row& row, decltype(frames::Event::what) what) {
  events_.Push(frames::Event{0, row.ref, around_.clock->NowMs(), std::move(what)});
  Tell();
}

frames::Inventory SimSupervisor::Inventory() const {
  frames::Inventory inventory;
  inventory.boot_id = boot_id_;
  inventory.containment = frames::Containment::kCgroup;
  inventory.lease_end_boottime_ms = lease_.end_ms();
  inventory.items = adopted_;
  for (const auto& [key, row] : rows_) {
    frames::InventoryItem item;
    item.attempt = row->ref;
    item.state = row->ended                            ? AttemptState::kEnded
                 : row->signalled || row->facts.killed ? AttemptState::kStopping
                 : row->started                        ? AttemptState::kRunning
                                                       : AttemptState::kStarting;
    item.progress = row->progress;
    item.checkpoints = row->facts.checkpoints;
    item.stop_cause = row->facts.stop_cause;
    item.kill_at_boottime_ms = row->kill_at_ms;
    item.tag = row->tag;
    inventory.items.push_back(std::move(item));
  }
  return inventory;
}

void SimSupervisor::Ack(uint64_t number) {
  for (const std::string& key : events_.Ack(number)) {
    rows_.erase(key);
    adopted_facts_.erase(key);
    adopted_.erase(std::remove_if(adopted_.begin(), adopted_.end(), [&](const frames::InventoryItem& item) { return item.attempt.key == key; }),
                   adopted_.end());
  }
}

// ---- starting ----

absl::Status SimSupervisor::Start(const frames::AttemptRef& attempt, std::string tag, int64_t grace_ms, int64_t total_steps,
                                  const std::function<std::shared_ptr<SimProcess>()>& make) {
  const bool adopted = std::any_of(adopted_.begin(), adopted_.end(), [&](const frames::InventoryItem& item) { return item.attempt.key == attempt.key; });
  if ((adopted || rows_.count(attempt.key) != 0) && !around_.starts_twice) return absl::AlreadyExistsError(attempt.key + " is known here");
  const int64_t now_ms = around_.clock->NowMs();
  if (now_ms < notice_until_ms_) return absl::UnavailableError("this node has notice that it will be taken");
  if (around_.obeys_lease && lease_.StageAt(now_ms) != LeaseStage::kHeld) {
    around_.world->Reach("a start was refused for want of a lease");
    return absl::FailedPreconditionError("this node's lease is about to end; renew first");
  }
  auto owned = std::make_unique<Row>();
  Row* const row = owned.get();
  if (const auto known = rows_.find(attempt.key); known != rows_.end() && known->second->process != nullptr) {
    known->second->process->Leave();
    --living_;
  }
  rows_[attempt.key] = std::move(owned);
  row->ref = attempt;
  row->tag = std::move(tag);
  row->grace_ms = grace_ms;
  row->total = total_steps;
  row->facts.started_boottime_ms = now_ms;
  ++living_;
  row->process = make();
  if (row->process == nullptr) {
    row->facts.launch_error = "exec: Input/output error";
    OnGone(row, {});
    return absl::OkStatus();
  }
  ProcessWatch watch;
  watch.started = [this, row] {
    row->started = true;
    Emit(*row, frames::Started{});
  };
  watch.progressed = [this, row](int64_t step) {
    row->progress = {step, row->total, {}};
    row->facts.has_progress = true;
    row->facts.last_step = step;
    row->facts.last_total = row->total;
    Emit(*row, row->progress);
  };
  watch.saved = [this, row](int64_t step, const std::string& path) {
    ++row->facts.checkpoints;
    row->facts.last_checkpoint_step = step;
    Emit(*row, frames::Checkpoint{step, path, "{}"});
  };
  watch.gone = [this, row](const ProcessEnd& end) { OnGone(row, end); };
  row->process->Begin(std::move(watch));
  return absl::OkStatus();
}

void SimSupervisor::OnGone(Row* row, const ProcessEnd& end) {
  const int64_t now_ms = around_.clock->NowMs();
  row->ended = true;
  row->kill_at_ms = 0;
  row->facts.exited = end.exited;
  row->facts.exit_code = end.exit_code;
  row->facts.signal = end.signal;
  row->facts.said_completed = end.said_completed;
  row->facts.ended_boottime_ms = now_ms;
  row->facts.lease_lapsed = lease_.end_ms() > 0 && now_ms >= lease_.end_ms() && row->facts.launch_error.empty();
  if (row->facts.lease_lapsed) around_.world->Reach("an attempt outlived its lease");
  row->process.reset();
  --living_;
  Emit(*row, frames::Exited{row->facts});
}

SimSupervisor::Row* SimSupervisor::Living(const std::string& key) {
  const auto found = rows_.find(key);
  return found == rows_.end() || found->second->ended ? nullptr : found->second.get();
}

// ---- stopping ----

// The first cause stays, except that a mere checkpoint request of the lease, or one withdrawn, gives way.
void SimSupervisor::Record(Row* row, const Order& order) {
  frames::ExitFacts& facts = row->facts;
  if (facts.stop_cause != EndCause::kUnspecified && !row->lease_requested && !facts.stop_withdrawn) return;
  row->lease_requested = false;
  facts.stop_withdrawn = false;
  facts.stop_cause = order.cause;
  facts.stop_initiator = order.initiator;
  facts.stop_detail = order.detail;
}

void SimSupervisor::ShowNotice(Row* row, const Order& order) {
  Record(row, order);
  row->facts.stop_delivered = true;
}

void SimSupervisor::StopRow(Row* row, const Order& order) {
  if (order.kill_at_ms <= around_.clock->NowMs()) return KillRow(row, order);
  ShowNotice(row, order);
  if (row->kill_at_ms == 0 || order.kill_at_ms < row->kill_at_ms) KillAt(row, order.kill_at_ms);
  if (std::exchange(row->signalled, true)) return;
  frames::Stopping stopping;
  stopping.cause = row->facts.stop_cause;
  stopping.initiator = row->facts.stop_initiator;
  stopping.reason = order.reason;
  stopping.kill_at_boottime_ms = row->kill_at_ms;
  Emit(*row, stopping);
  row->process->Term();  // may end it
}

void SimSupervisor::KillAt(Row* row, int64_t at_ms) {
  row->kill_at_ms = at_ms;
  around_.clock->At(at_ms, life_, [this, key = row->ref.key, at_ms] {
    Row* const row = Living(key);
    if (row == nullptr || row->kill_at_ms != at_ms) return;
    row->facts.killed = true;
    KillProcess(row);
  });
}

void SimSupervisor::KillProcess(Row* row) {
  const std::shared_ptr<SimProcess> process = row->process;
  process->Kill();
  if (!around_.tells_before_gone || !process->alive()) return;
  process->Leave();
  OnGone(row, {false, 0, 9, false});
}

void SimSupervisor::KillRow(Row* row, const Order& order) {
  if (row->facts.killed) return;
  ShowNotice(row, order);
  row->facts.killed = true;
  row->kill_at_ms = 0;
  KillProcess(row);
}

void SimSupervisor::Stop(const frames::Stop& stop) {
  Row* const row = Living(stop.key);
  if (row == nullptr) return;
  const int64_t grace_ms = stop.grace_ms < 0 ? row->grace_ms : stop.grace_ms;
  Order order{stop.cause, stop.initiator, stop.reason, stop.detail, around_.clock->NowMs() + grace_ms};
  if (stop.deadline_boottime_ms > 0) order.kill_at_ms = std::min(order.kill_at_ms, stop.deadline_boottime_ms);
  StopRow(row, order);
}

void SimSupervisor::Kill(const frames::Kill& kill) {
  if (Row* const row = Living(kill.key)) KillRow(row, {kill.cause, kill.initiator, "", kill.detail, 0});
}

void SimSupervisor::Notice(const frames::Notice& notice) {
  notice_until_ms_ = notice.deadline_boottime_ms;
  const Order order{EndCause::kPreempted, notice.initiator, notice.reason, "the node will be taken", notice.deadline_boottime_ms};
  for (auto& [key, row] : rows_) {
    if (!row->ended) StopRow(row.get(), order);
  }
}

// ---- the lease ----

SimSupervisor::Order SimSupervisor::LeaseOrder(const char* detail) const { return {EndCause::kFenced, Initiator::kNode, "lease", detail, lease_.kill_ms()}; }

void SimSupervisor::Renew(const frames::Renew& renew) {
  const int64_t now_ms = around_.clock->NowMs();
  lease_ = supervisor::Lease::From(renew, now_ms);
  applied_stage_ = LeaseStage::kHeld;
  if (lease_.StageAt(now_ms) == LeaseStage::kHeld) {
    for (auto& [key, row] : rows_) {
      if (row->ended || !row->lease_requested || row->signalled) continue;
      row->lease_requested = false;
      row->facts.stop_withdrawn = true;
      around_.world->Reach("a lease's checkpoint request was withdrawn");
    }
  }
  ApplyLease();
  WatchLease();
}

void SimSupervisor::WatchLease() {
  const int64_t next_ms = lease_.NextChangeMs(around_.clock->NowMs());
  if (next_ms == std::numeric_limits<int64_t>::max()) return;
  around_.clock->At(next_ms, life_, [this, end_ms = lease_.end_ms()] {
    if (end_ms != lease_.end_ms()) return;  // renewed: another watch stands
    ApplyLease();
    WatchLease();
  });
}

void SimSupervisor::ApplyLease() {
  const LeaseStage stage = lease_.StageAt(around_.clock->NowMs());
  if (stage == applied_stage_ || !around_.obeys_lease) return;
  applied_stage_ = stage;
  if (stage == LeaseStage::kNone || stage == LeaseStage::kHeld) return;
  for (auto& [key, row] : rows_) {
    if (row->ended) continue;
    if (stage == LeaseStage::kCheckpoint) {
      if (row->lease_requested || row->signalled) continue;
      ShowNotice(row.get(), LeaseOrder("the lease runs out"));
      row->lease_requested = true;
    } else if (stage == LeaseStage::kTerm) {
      around_.world->Reach("attempts were stopped because the lease ran out");
      StopRow(row.get(), LeaseOrder("the lease runs out"));
    } else {
      KillRow(row.get(), LeaseOrder("the lease ran out"));
    }
  }
}

}  // namespace spillway::sim
