#include "sim/scheduler_host.h"

#include <algorithm>

namespace spillway::sim {
namespace {

constexpr int64_t kDiskRetryMs = 500;

}  // namespace

SchedulerHost::SchedulerHost(Surroundings around, engine::Options options)
    : around_(std::move(around)), options_(std::move(options)), rng_(around_.world->Luck("scheduler")) {}

const std::string* SchedulerHost::Spec(const std::string& digest) const {
  const auto found = specs_.find(digest);
  return found == specs_.end() ? nullptr : &found->second;
}

// ---- life and death ----

void SchedulerHost::Start() {
  if (up()) return;
  auto opened = around_.disk->Open();
  if (!opened.ok()) return around_.world->Fail(absl::StrCat("the store does not open: ", std::string(opened.status().message())));
  store_ = *opened;
  auto loaded = store_->Load();
  if (!loaded.ok()) return around_.world->Fail(absl::StrCat("the store does not load: ", std::string(loaded.status().message())));
  // What the last life did not live to see durable.
  while (!batches_.empty() && batches_.front().seq <= loaded->last_seq) {
    around_.world->Reach("a turn was durable and nobody was told");
    Durable(batches_.front());
    batches_.pop_front();
  }
  if (!batches_.empty()) around_.world->Reach("a turn was lost with its process");
  batches_.clear();
  ++lives_;
  around_.world->Trace("the scheduler begins life ", lives_, " after turn ", loaded->last_seq);
  around_.observer->Restarted(loaded->state);
  turn_clock_.emplace(around_.clock, loaded->state.meta.now_ms);
  sinks_ = around_.make_sinks();
  engine_ = std::make_unique<engine::Engine>(options_, sinks_.sessions.get(), sinks_.effects.get());
  engine_->Start(*std::move(loaded), turn_clock_->NowMs());
  Post(around_.configuration, nullptr);
  around_.began();
}

void SchedulerHost::Die(DeathAt when, bool power_loss, int64_t back_in_ms) {
  if (!up()) return;
  death_ = Death{when, power_loss, back_in_ms};
  if (when == DeathAt::kNow) DieNow();
}

bool SchedulerHost::DiesNow(DeathAt where) {
  if (!death_ || death_->when != where) return false;
  DieNow();
  return true;
}

void SchedulerHost::DieNow() {
  const Death death = *death_;
  death_.reset();
  static constexpr const char* kNames[] = {"the scheduler died", "the scheduler died before a commit", "the scheduler died in the middle of a commit",
                                           "the scheduler died between commit and reply", "the scheduler died right after its replies"};
  around_.world->Reach(kNames[static_cast<int>(death.when)]);
  around_.world->Trace(kNames[static_cast<int>(death.when)], death.power_loss ? ", and its machine with it" : "");
  if (death.power_loss) around_.world->Reach("the scheduler's machine lost power");
  life_.End();
  engine_.reset();
  sinks_ = {};
  store_ = nullptr;
  turn_clock_.reset();
  inbox_.clear();
  commits_.clear();
  committing_ = false;
  turn_at_ms_ = std::numeric_limits<int64_t>::max();
  around_.disk->Close(death.power_loss);
  around_.died();
  around_.world->After(death.back_in_ms, [this] { Start(); });
}

void SchedulerHost::Stall(int64_t ms) {
  if (!up()) return;
  around_.world->Reach("the engine stood still");
  around_.world->Trace("the engine stands still for ", ms, " ms");
  stalled_until_ms_ = around_.world->now_ms() + ms;
}

void SchedulerHost::EndStall() {
  if (around_.world->now_ms() >= stalled_until_ms_) return;
  stalled_until_ms_ = 0;
  if (up()) PlanTurn(around_.world->now_ms());
}

void SchedulerHost::SetDiskFull(bool full) {
  around_.world->Trace(full ? "the disk is full" : "the disk has room again");
  around_.disk->SetFull(full);
}

// ---- the engine's thread ----

void SchedulerHost::Enqueue(std::function<void(engine::Engine*)> input) {
  if (!up()) return;
  inbox_.push_back(std::move(input));
  PlanTurn(around_.world->now_ms() + rng_.Between(0, 2));
}

void SchedulerHost::Post(core::Command command, engine::Engine::Done done) {
  Enqueue([command = std::move(command), done = std::move(done)](engine::Engine* engine) {
    const absl::Status posted = engine->Post(command, done);
    if (!posted.ok() && done) done(posted);
  });
}

void SchedulerHost::PlanTurn(int64_t at_ms) {
  at_ms = std::max({at_ms, stalled_until_ms_, around_.world->now_ms()});
  if (at_ms >= turn_at_ms_) return;
  turn_at_ms_ = at_ms;
  around_.world->After(at_ms - around_.world->now_ms(), life_, [this, at_ms] {
    if (turn_at_ms_ != at_ms) return;
    turn_at_ms_ = std::numeric_limits<int64_t>::max();
    if (around_.world->now_ms() < stalled_until_ms_) return PlanTurn(stalled_until_ms_);
    Turn();
  });
}

void SchedulerHost::Turn() {
  const LifeWatch alive = life_;
  for (const auto& [seq, status] : std::exchange(commits_, {})) {
    status.ok() ? engine_->Committed(seq) : engine_->CommitRefused(seq, status);
    if (status.ok() && DiesNow(DeathAt::kAfterReplies)) return;
  }
  for (const auto& input : std::exchange(inbox_, {})) {
    input(engine_.get());
    if (alive.expired()) return;
  }
  std::optional<store::Batch> batch = engine_->Step(turn_clock_->NowMs());
  if (batch.has_value()) {
    around_.observer->TurnMade(engine_->state(), engine_->soft(), options_.policy, batch->now_ms);
    if (around_.hooks->before_commit) around_.hooks->before_commit(&*batch);
    batches_.push_back(*std::move(batch));
    if (around_.hooks->reply_before_commit) commits_.emplace_back(batches_.back().seq, absl::OkStatus());
    if (!committing_) PlanCommit(rng_.Between(0, std::max<int64_t>(0, around_.faults->commit_ms_max)));
  }
  const int64_t deadline_ms = engine_->NextDeadlineMs();
  if (!inbox_.empty() || !commits_.empty()) return PlanTurn(around_.world->now_ms() + 1);
  if (deadline_ms == std::numeric_limits<int64_t>::max()) return;
  PlanTurn(around_.world->now_ms() + std::clamp<int64_t>(deadline_ms - turn_clock_->NowMs(), 1, 60'000));
}

// ---- the store's thread ----

void SchedulerHost::PlanCommit(int64_t ms) {
  committing_ = true;
  around_.world->After(ms, life_, [this] { Commit(); });
}

void SchedulerHost::Commit() {
  committing_ = false;
  if (batches_.empty() || DiesNow(DeathAt::kBeforeCommit)) return;
  const bool torn = death_ && death_->when == DeathAt::kInCommit && around_.disk->TearAt(rng_.Between(1, 8));
  const absl::Status status = around_.disk->Commit(batches_.front());
  if (torn || (death_ && death_->when == DeathAt::kInCommit)) return DieNow();
  const int64_t seq = batches_.front().seq;
  if (!status.ok()) {
    if (!absl::IsResourceExhausted(status)) return around_.world->Fail(absl::StrCat("turn ", seq, " cannot be committed: ", std::string(status.message())));
    around_.world->Reach("a commit found the disk full");
    if (!around_.hooks->reply_before_commit) commits_.emplace_back(seq, status);
    PlanTurn(around_.world->now_ms());
    return PlanCommit(kDiskRetryMs);
  }
  Durable(batches_.front());
  batches_.pop_front();
  if (DiesNow(DeathAt::kAfterCommit)) return;
  if (!around_.hooks->reply_before_commit) commits_.emplace_back(seq, absl::OkStatus());
  PlanTurn(around_.world->now_ms() + rng_.Between(0, 1));
  const absl::Status kept = store_->Maintain();
  if (!kept.ok() && !absl::IsResourceExhausted(kept)) return around_.world->Fail(absl::StrCat("housekeeping failed: ", std::string(kept.message())));
  if (!batches_.empty()) PlanCommit(rng_.Between(0, std::max<int64_t>(0, around_.faults->commit_ms_max)));
}

void SchedulerHost::Durable(const store::Batch& batch) {
  for (const auto& [digest, bytes] : batch.specs) specs_.emplace(digest, bytes);
  around_.observer->TurnDurable(batch);
}

}  // namespace spillway::sim
