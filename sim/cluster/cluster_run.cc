#include "sim/cluster/cluster_run.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/money.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/fit/room.h"
#include "scheduler/core/policy/offers.h"

namespace spillway::sim {
namespace {

using core::cluster::Decision;
using core::cluster::QueuedWork;
using core::cluster::RunningWork;
using core::cluster::Start;
using core::cluster::View;

constexpr int64_t kEventsMax = 50'000'000;
constexpr int64_t kLeastLeftMs = 60'000;    // what a task that has overrun its prediction is said to have left
constexpr int64_t kNoticeSavesMs = 30'000;  // a notice this long is enough to save
constexpr int64_t kNever = INT64_MAX;
const char kProvider[] = "sim";

// Machines of one size of one pool.
struct OfferHere {
  const Pool* pool = nullptr;
  core::Offer offer;
  int64_t in_use = 0;
};

// Machines of an offer that a task has, or that boot for it; one a member.
struct Machines {
  size_t offer = 0;
  int64_t from_ms = 0;
};

struct Attempt {
  std::vector<core::Member> members;  // on reserved nodes; or
  std::optional<Machines> machines;
  int64_t started_ms = 0;
  int64_t works_from_ms = 0;
  std::optional<Machines> beside;  // the next ones
};

struct Task {
  enum class Phase { kFuture, kWaiting, kRunning, kDone };
  const SimJob* job = nullptr;
  core::Shape shape;
  Phase phase = Phase::kFuture;
  int64_t done_ms = 0;  // saved
  int64_t queued_ms = 0;
  int64_t moved_ms = 0;
  Attempt attempt;  // while it runs
  JobOutcome outcome;
  bool worked = false;
};

absl::Status Broken(const Task& task, absl::string_view what) {
  return absl::InternalError(absl::StrCat("the policy asked for what cannot be: ", Printable(task.job->name, 60), ": ", what));
}

class Cluster {
 public:
  Cluster(const Workload& workload, const ClusterSpec& spec, const core::cluster::Policy& policy) : spec_(spec), policy_(policy) {
    run_.nodes = spec.nodes;
    run_.gpus_per_node = spec.gpus_per_node;
    if (spec.peak_percent > 0) {
      const int64_t gpus = PeakDemand(workload) * spec.peak_percent;
      run_.nodes = (gpus + 100 * spec.gpus_per_node - 1) / (100 * spec.gpus_per_node);
    }
    MakeNodes();
    MakeOffers();
    for (const SimJob& job : workload.jobs) {
      Task task;
      task.job = &job;
      task.shape = ShapeOf(job);
      tasks_.push_back(std::move(task));
    }
  }

  absl::StatusOr<ClusterRun> Run() {
    RETURN_IF_ERROR(CheckAllCanRun());
    for (int64_t events = 0; left_to_end() > 0; ++events) {
      if (events > kEventsMax) return absl::InternalError("the simulation does not come to an end");
      RETURN_IF_ERROR(Advance());
      EndAndSwitch();
      TakeBack();
      Arrive();
      RETURN_IF_ERROR(Decide());
    }
    return Result();
  }

 private:
  int64_t left_to_end() const { return static_cast<int64_t>(tasks_.size()) - ended_; }

  void MakeNodes() {
    for (int64_t i = 0; i < run_.nodes; ++i) {
      core::Node node;
      node.id = i + 1;
      node.name = absl::StrCat("reserved-", i + 1);
      node.provider = kProvider;
      node.market = Market::kReserved;
      node.state = NodeState::kReady;
      node.capacity.gpu_count = spec_.gpus_per_node;
      nodes_.push_back(std::move(node));
      rooms_.push_back(core::EmptyRoom(nodes_.back().capacity));
    }
  }

  void MakeOffers() {
    for (const Pool& pool : spec_.pools) {
      for (const int64_t gpus : pool.gpus) {
        OfferHere here;
        here.pool = &pool;
        here.offer.provider = kProvider;
        here.offer.name = absl::StrCat(pool.zone, "-", LowerName(pool.market), "-", gpus);
        here.offer.zone = pool.zone;
        here.offer.market = pool.market;
        here.offer.capacity.gpu_count = gpus;
        here.offer.notice_ms = pool.notice_ms;
        offers_.push_back(std::move(here));
      }
    }
  }

  // One member where a machine is large enough, else the fewest equal members.
  core::Shape ShapeOf(const SimJob& job) const {
    int64_t largest = run_.nodes > 0 ? spec_.gpus_per_node : 0;
    if (largest == 0) {
      for (const OfferHere& here : offers_) largest = std::max(largest, here.offer.capacity.gpu_count);
    }
    core::Shape shape;
    shape.cpu_milli = 0;
    shape.nodes = std::max<int64_t>(1, (job.gpus + largest - 1) / largest);
    while (job.gpus % shape.nodes != 0) ++shape.nodes;
    shape.gpu_count = job.gpus / shape.nodes;
    shape.interruptible = job.interruptible;
    return shape;
  }

  absl::Status CheckAllCanRun() const {
    for (const Task& task : tasks_) {
      const bool reserved = !nodes_.empty() && core::Misfits(task.shape, nodes_[0]) == 0 && task.shape.nodes <= run_.nodes;
      const bool burst = std::any_of(offers_.begin(), offers_.end(), [&](const OfferHere& here) {
        const int64_t most = here.pool->machines.empty() ? kNever : *std::max_element(here.pool->machines.begin(), here.pool->machines.end());
        return core::Misfits(task.shape, here.offer) == 0 && task.shape.nodes <= most;
      });
      if (!reserved && !burst) {
        return absl::FailedPreconditionError(absl::StrCat("job ", Printable(task.job->name, 60), " can never run: it needs ", task.shape.nodes, " x ",
                                                          task.shape.gpu_count, " GPUs", task.job->interruptible ? "" : " that are never taken away",
                                                          ", the cluster has ", run_.nodes, " reserved nodes of ", spec_.gpus_per_node,
                                                          " and no offer that is large enough"));
      }
    }
    return absl::OkStatus();
  }

  int64_t WorkLeftMs(const Task& task) const { return task.job->duration_ms - task.done_ms; }
  int64_t EndMs(const Task& task) const { return task.attempt.works_from_ms + WorkLeftMs(task); }
  int64_t WorkedMs(const Task& task) const { return std::max<int64_t>(0, now_ms_ - task.attempt.works_from_ms); }
  int64_t BesideReadyMs(const Task& task) const { return task.attempt.beside->from_ms + spec_.boot_ms; }

  // To the next moment at which something happens.
  absl::Status Advance() {
    int64_t next_ms = wake_ms_;
    if (arrived_ < tasks_.size()) next_ms = std::min(next_ms, tasks_[arrived_].job->arrival_ms);
    for (const size_t i : running_) {
      next_ms = std::min(next_ms, EndMs(tasks_[i]));
      if (tasks_[i].attempt.beside) next_ms = std::min(next_ms, BesideReadyMs(tasks_[i]));
    }
    // What the market does matters as long as something runs or waits.
    if (!running_.empty() || !waiting_.empty()) {
      for (const Pool& pool : spec_.pools) next_ms = std::min(next_ms, pool.NextChangeMs(now_ms_));
    }
    if (next_ms == kNever) {
      return absl::FailedPreconditionError(
          absl::StrCat("nothing will ever happen again, and ", Printable(tasks_[waiting_.front()].job->name, 60), " still waits"));
    }
    now_ms_ = std::max(now_ms_, next_ms);
    for (OfferHere& here : offers_) {
      here.offer.price_micros_per_hour = here.pool->PriceAt(now_ms_) * here.offer.capacity.gpu_count;
    }
    return absl::OkStatus();
  }

  void EndAndSwitch() {
    for (const size_t i : std::vector<size_t>(running_)) {
      Task& task = tasks_[i];
      if (EndMs(task) <= now_ms_) {
        Leave(i);
        task.done_ms = task.job->duration_ms;
        task.outcome.end_ms = now_ms_;
        task.phase = Task::Phase::kDone;
        ++ended_;
      } else if (task.attempt.beside && BesideReadyMs(task) <= now_ms_) {
        SwitchTo(i, now_ms_);
      }
    }
  }

  // The machines that booted beside take over.
  void SwitchTo(size_t i, int64_t works_ms) {
    Task& task = tasks_[i];
    const Machines next = *task.attempt.beside;
    task.attempt.beside.reset();
    task.done_ms += WorkedMs(task);
    Leave(i);
    task.attempt = Attempt{{}, next, now_ms_, works_ms + (task.done_ms > 0 ? spec_.restore_ms : 0), std::nullopt};
    task.phase = Task::Phase::kRunning;
    task.moved_ms = now_ms_;
    ++task.outcome.starts;
    Insert(&running_, i);
  }

  // Off its machines; what it did since the attempt began is the caller's to keep.
  void Leave(size_t i) {
    Task& task = tasks_[i];
    if (!task.worked && now_ms_ > task.attempt.works_from_ms) task.worked = true, task.outcome.first_work_ms = task.attempt.works_from_ms;
    if (task.attempt.machines) {
      LetGo(&task, *task.attempt.machines, task.attempt.works_from_ms);
    } else {
      for (const core::Member& member : task.attempt.members) rooms_[static_cast<size_t>(member.node - 1)].devices |= member.devices;
      const int64_t used = (now_ms_ - task.attempt.started_ms) * core::cluster::DevicesOf(task.shape);
      task.outcome.reserved_ms += used;
      reserved_used_[task.job->tenant] += used;
    }
    if (task.attempt.beside) LetGo(&task, *task.attempt.beside, now_ms_);
    std::erase(running_, i);
  }

  void LetGo(Task* task, const Machines& machines, int64_t ready_ms) {
    OfferHere& here = offers_[machines.offer];
    here.in_use -= task->shape.nodes;
    here.offer.exposure_ms += std::max<int64_t>(0, now_ms_ - ready_ms) * task->shape.nodes;
    const int64_t cost = here.pool->CostMicros(here.offer.capacity.gpu_count * task->shape.nodes, machines.from_ms, now_ms_);
    (here.pool->market == Market::kSpot ? task->outcome.spot_micros : task->outcome.on_demand_micros) += cost;
  }

  void TakeBack() {
    for (size_t o = 0; o < offers_.size(); ++o) {
      const int64_t machines = offers_[o].pool->MachinesAt(now_ms_);
      while (machines >= 0 && offers_[o].in_use > machines) TakeYoungest(o);
    }
  }

  void TakeYoungest(size_t o) {
    std::tuple<int64_t, size_t, bool> youngest{-1, 0, false};
    for (const size_t i : running_) {
      const Attempt& attempt = tasks_[i].attempt;
      if (attempt.machines && attempt.machines->offer == o) youngest = std::max(youngest, {attempt.machines->from_ms, i, false});
      if (attempt.beside && attempt.beside->offer == o) youngest = std::max(youngest, {attempt.beside->from_ms, i, true});
    }
    const auto [from_ms, i, beside] = youngest;
    Task& task = tasks_[i];
    OfferHere& here = offers_[o];
    here.offer.preemptions += task.shape.nodes;
    here.offer.last_preempted_ms = now_ms_;
    if (beside) {
      LetGo(&task, *task.attempt.beside, now_ms_);
      task.attempt.beside.reset();
      return;
    }
    ++task.outcome.preemptions;
    const int64_t worked_ms = WorkedMs(task);
    const int64_t saved_ms = here.offer.notice_ms >= kNoticeSavesMs ? worked_ms : worked_ms / spec_.checkpoint_every_ms * spec_.checkpoint_every_ms;
    task.outcome.lost_ms += worked_ms - saved_ms;
    const std::optional<Machines> next = std::exchange(task.attempt.beside, std::nullopt);
    Leave(i);
    task.done_ms += saved_ms;
    if (next) {  // the next machines have not booted yet, and are all there is
      task.attempt = Attempt{{}, next, now_ms_, next->from_ms + spec_.boot_ms + (task.done_ms > 0 ? spec_.restore_ms : 0), std::nullopt};
      task.moved_ms = now_ms_;
      ++task.outcome.starts;
      Insert(&running_, i);
    } else {
      Wait(i);
    }
  }

  void Wait(size_t i) {
    tasks_[i].phase = Task::Phase::kWaiting;
    tasks_[i].queued_ms = now_ms_;
    Insert(&waiting_, i);
  }

  void Arrive() {
    for (; arrived_ < tasks_.size() && tasks_[arrived_].job->arrival_ms <= now_ms_; ++arrived_) Wait(arrived_);
  }

  static void Insert(std::vector<size_t>* sorted, size_t i) { sorted->insert(std::lower_bound(sorted->begin(), sorted->end(), i), i); }

  // --- What the policy is told ---

  QueuedWork Queued(size_t i, int64_t done_ms) const {
    const Task& task = tasks_[i];
    QueuedWork work;
    work.id = IdOf(i);
    work.owner = task.job->tenant;
    work.shape = &task.shape;
    work.arrived_ms = task.job->arrival_ms;
    work.queued_ms = task.queued_ms;
    work.left_ms = std::max(task.job->predicted_ms - done_ms, kLeastLeftMs);
    if (task.job->predicted_ms - done_ms > 0) work.left_ms = task.job->predicted_ms - done_ms;
    work.deadline_ms = task.job->deadline_ms;
    work.attained = done_ms * core::cluster::DevicesOf(task.shape);
    work.resumes = done_ms > 0;
    work.moved_ms = task.moved_ms;
    return work;
  }

  View Look() const {
    View view;
    view.now_ms = now_ms_;
    view.overheads = {spec_.boot_ms, spec_.restore_ms, spec_.checkpoint_every_ms};
    for (const size_t i : waiting_) view.waiting.push_back(Queued(i, tasks_[i].done_ms));
    view.reserved_used = reserved_used_;
    std::vector<int64_t> exposure_ms(offers_.size(), 0);
    for (const size_t i : running_) {
      const Task& task = tasks_[i];
      RunningWork one;
      one.work = Queued(i, task.done_ms + WorkedMs(task));
      one.members = task.attempt.members;
      if (task.attempt.machines) {
        const core::Offer& offer = offers_[task.attempt.machines->offer].offer;
        one.offer = {offer.provider, offer.name};
        exposure_ms[task.attempt.machines->offer] += WorkedMs(task) * task.shape.nodes;
      } else {
        view.reserved_used[task.job->tenant] += (now_ms_ - task.attempt.started_ms) * core::cluster::DevicesOf(task.shape);
      }
      one.started_ms = task.attempt.started_ms;
      one.works_from_ms = task.attempt.works_from_ms;
      one.moving = task.attempt.beside.has_value();
      view.running.push_back(std::move(one));
    }
    for (size_t n = 0; n < nodes_.size(); ++n) view.reserved.push_back({&nodes_[n], rooms_[n]});
    for (size_t o = 0; o < offers_.size(); ++o) {
      const OfferHere& here = offers_[o];
      const int64_t machines = here.pool->MachinesAt(now_ms_);
      const int64_t expected = core::ExpectedMicrosPerHour(here.offer, here.offer.exposure_ms + exposure_ms[o], spec_.boot_ms + spec_.restore_ms);
      view.offers.push_back({&here.offer, machines < 0 ? -1 : machines - here.in_use, expected});
    }
    return view;
  }

  static TaskId IdOf(size_t i) { return {static_cast<int64_t>(i) + 1, 0}; }

  // --- What the policy asks for ---

  absl::Status Decide() {
    ++run_.decisions;
    const Decision decision = policy_.Decide(Look());
    wake_ms_ = decision.wake_ms == kNever ? kNever : std::max(decision.wake_ms, now_ms_ + 1);
    for (const TaskId& id : decision.stops) RETURN_IF_ERROR(Stop(id));
    // What moves makes room before anything takes it.
    for (const Start& start : decision.starts) {
      ASSIGN_OR_RETURN(const size_t i, Find(start.task));
      if (tasks_[i].phase == Task::Phase::kRunning && !start.beside) RETURN_IF_ERROR(Stop(start.task));
    }
    for (const Start& start : decision.starts) RETURN_IF_ERROR(Begin(start));
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> Find(TaskId id) const {
    if (id.index != 0 || id.job < 1 || id.job > static_cast<int64_t>(tasks_.size()))
      return absl::InternalError(absl::StrCat("the policy named ", id.ToString()));
    return static_cast<size_t>(id.job - 1);
  }

  absl::Status Stop(TaskId id) {
    ASSIGN_OR_RETURN(const size_t i, Find(id));
    Task& task = tasks_[i];
    if (task.phase != Task::Phase::kRunning) return Broken(task, "stopped while it does not run");
    const int64_t worked_ms = WorkedMs(task);
    Leave(i);
    task.done_ms += worked_ms;
    task.moved_ms = now_ms_;
    ++task.outcome.moves;
    Wait(i);
    return absl::OkStatus();
  }

  absl::Status Begin(const Start& start) {
    ASSIGN_OR_RETURN(const size_t i, Find(start.task));
    Task& task = tasks_[i];
    if (start.beside) return BeginBeside(start, i);
    if (task.phase != Task::Phase::kWaiting) return Broken(task, "started while it does not wait");
    const int64_t restore_ms = task.done_ms > 0 ? spec_.restore_ms : 0;
    Attempt attempt{start.members, std::nullopt, now_ms_, now_ms_ + restore_ms, std::nullopt};
    if (start.members.empty()) {
      ASSIGN_OR_RETURN(attempt.machines, Ask(task, start.offer));
      attempt.works_from_ms += spec_.boot_ms;
    } else {
      RETURN_IF_ERROR(Occupy(task, start.members));
    }
    task.attempt = std::move(attempt);
    task.phase = Task::Phase::kRunning;
    ++task.outcome.starts;
    std::erase(waiting_, i);
    Insert(&running_, i);
    return absl::OkStatus();
  }

  absl::Status BeginBeside(const Start& start, size_t i) {
    Task& task = tasks_[i];
    if (task.phase != Task::Phase::kRunning || task.attempt.beside || !task.attempt.machines) return Broken(task, "moved while it is not on burst machines");
    ASSIGN_OR_RETURN(task.attempt.beside, Ask(task, start.offer));
    ++task.outcome.moves;
    return absl::OkStatus();
  }

  absl::StatusOr<Machines> Ask(const Task& task, const core::OfferKey& key) {
    for (size_t o = 0; o < offers_.size(); ++o) {
      OfferHere& here = offers_[o];
      if (core::OfferKey(here.offer.provider, here.offer.name) != key) continue;
      if (core::Misfits(task.shape, here.offer) != 0) return Broken(task, core::DescribeMisfits(core::Misfits(task.shape, here.offer), task.shape, here.offer));
      const int64_t machines = here.pool->MachinesAt(now_ms_);
      if (machines >= 0 && here.in_use + task.shape.nodes > machines) return Broken(task, absl::StrCat(here.offer.name, " has no machine left"));
      here.in_use += task.shape.nodes;
      return Machines{o, now_ms_};
    }
    return Broken(task, absl::StrCat("there is no offer ", key.second));
  }

  absl::Status Occupy(const Task& task, const std::vector<core::Member>& members) {
    if (static_cast<int64_t>(members.size()) != task.shape.nodes) return Broken(task, "a gang starts whole or not at all");
    std::vector<NodeId> used;
    for (const core::Member& member : members) {
      if (member.node < 1 || member.node > run_.nodes || std::count(used.begin(), used.end(), member.node) > 0)
        return Broken(task, "no such node, or one twice");
      used.push_back(member.node);
      core::Room& room = rooms_[static_cast<size_t>(member.node - 1)];
      if ((room.devices & member.devices) != member.devices || std::popcount(member.devices) != task.shape.gpu_count)
        return Broken(task, "devices that are not free");
      room.TakeDevices(task.shape, member.devices);
    }
    return absl::OkStatus();
  }

  ClusterRun Result() {
    int64_t first_ms = kNever;
    for (const Task& task : tasks_) {
      first_ms = std::min(first_ms, task.job->arrival_ms);
      run_.jobs.push_back(task.outcome);
    }
    run_.reserved_micros = PriceForMs(spec_.reserved_micros_per_gpu_hour * run_.nodes * run_.gpus_per_node, now_ms_ - first_ms);
    return run_;
  }

  const ClusterSpec& spec_;
  const core::cluster::Policy& policy_;
  ClusterRun run_;
  int64_t now_ms_ = 0;
  int64_t wake_ms_ = kNever;
  std::vector<core::Node> nodes_;
  std::vector<core::Room> rooms_;
  std::vector<OfferHere> offers_;
  std::vector<Task> tasks_;
  size_t arrived_ = 0;
  int64_t ended_ = 0;
  std::vector<size_t> waiting_, running_;  // sorted
  std::map<std::string, int64_t> reserved_used_;
};

}  // namespace

absl::StatusOr<ClusterRun> PlayCluster(const Workload& workload, const ClusterSpec& spec, const core::cluster::Policy& policy) {
  return Cluster(workload, spec, policy).Run();
}

}  // namespace spillway::sim
