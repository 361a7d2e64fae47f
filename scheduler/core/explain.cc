// Says why a task waits, or why it runs where it runs, from the same state and the same rules that decided it. Text for people is made here and nowhere else.
#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/money.h"
#include "base/units.h"
#include "scheduler/core/fit/fit.h"
#include "scheduler/core/fit/room.h"
#include "scheduler/core/plan/deadlines.h"
#include "scheduler/core/policy/offers.h"
#include "scheduler/core/policy/restored.h"
#include "scheduler/core/policy/silence.h"

namespace spillway::core {
namespace {

std::string Count(int64_t n, absl::string_view one, absl::string_view many) { return absl::StrCat(n, " ", n == 1 ? one : many); }

// "3 by GPU memory, 1 by market": how many are excluded by what. One thing may count under several words.
class Tally {
 public:
  void Add(uint32_t misfits) {
    for (uint32_t bit = 1; bit != 0 && bit <= misfits; bit <<= 1) {
      if (misfits & bit) ++by_bit_[bit];
    }
  }
  std::string Text() const {
    std::vector<std::string> parts;
    for (const auto& [bit, count] : by_bit_) parts.push_back(absl::StrCat(count, " by ", MisfitWord(bit)));
    return absl::StrJoin(parts, ", ");
  }

 private:
  std::map<uint32_t, int64_t> by_bit_;
};

// The machine or offer that lacks the least, and what would have to change.
struct Nearest {
  int least = std::numeric_limits<int>::max();
  std::string name, lacks;
  uint32_t misfits = 0;
  int64_t price_micros_per_hour = 0;
  Market market = Market::kUnspecified;

  template <typename T>
  void Consider(uint32_t found, const Shape& shape, const std::string& called, const T& thing) {
    const int distance = Distance(found, shape, thing.capacity);
    if (found == 0 || distance > least || (distance == least && thing.price_micros_per_hour >= price_micros_per_hour)) return;
    least = distance;
    name = called;
    lacks = DescribeMisfits(found, shape, thing);
    misfits = found;
    price_micros_per_hour = thing.price_micros_per_hour;
    market = thing.market;
  }
  std::string Unblocks() const {
    if (misfits == 0) return "";
    if (misfits == kMisfitPrice) return absl::StrCat("placement.max_price of ", FormatMicros(price_micros_per_hour), " would allow ", name);
    if (misfits == kMisfitMarket) return absl::StrCat("adding ", LowerName(market), " to placement.markets would allow ", name);
    if (misfits == kMisfitInterruptible) return absl::StrCat("placement.interruptible: true would allow ", name);
    return absl::StrCat(name, " comes closest: ", lacks);
  }
};

std::string Since(int64_t then_ms, int64_t now_ms) { return FormatDurationMs(std::max<int64_t>(0, now_ms - then_ms) / 1000 * 1000); }
int64_t WholeSeconds(int64_t ms) { return (ms + 999) / 1000 * 1000; }
std::string Until(int64_t then_ms, int64_t now_ms) { return FormatDurationMs(std::max<int64_t>(0, then_ms - now_ms + 999) / 1000 * 1000); }

class Explainer {
 public:
  Explainer(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms) : state_(state), soft_(soft), policy_(policy), now_ms_(now_ms) {}

  std::vector<Why> Run(const Job& job, const Task& task) {
    if (task.attempt) {
      Active(task, *task.attempt);
    } else if (task.state == TaskState::kHeld) {
      Held(job, task);
    } else {
      Waiting(job, task);
    }
    if (job.deadline_ms > 0) Deadline(job, task);
    return std::move(whys_);
  }

 private:
  void Say(const char* code, std::string message, std::string unblocks) { whys_.push_back({code, std::move(message), std::move(unblocks)}); }

  void Active(const Task& task, const Attempt& attempt) {
    const std::string where = absl::StrCat("attempt ", attempt.number, " on ", absl::StrJoin(attempt.node_names, ", "));
    std::string why = DescribePlace(attempt.place);
    if (attempt.place.code == PlaceCode::kPaidNodeFits && attempt.place.b == 1 && !attempt.members.empty()) {
      const Node* node = FindNode(state_, attempt.members.front().node);
      if (node != nullptr && node->state == NodeState::kReady && !node->reason.empty()) absl::StrAppend(&why, " (", node->reason, ")");
    }
    switch (attempt.state) {
      case AttemptState::kOffered:
        Say("OFFERED",
            absl::StrCat(where, " was offered ", Since(attempt.offered_ms, now_ms_), " ago and is not accepted yet",
                         Members(attempt, " by ", [](const Member& member) { return !member.accepted; }), "; placed there because: ", why),
            "");
        break;
      case AttemptState::kStarting:
        Say("STARTING",
            absl::StrCat(where, " is starting", Members(attempt, ", not yet running: ", [](const Member& member) { return !member.started; }),
                         "; placed there because: ", why),
            "");
        break;
      case AttemptState::kRunning:
        Say("RUNNING", absl::StrCat(where, " has run for ", Since(attempt.started_ms, now_ms_), "; placed there because: ", why), "");
        break;
      default:
        Say("STOPPING",
            absl::StrCat(where, " is stopping (", LowerName(attempt.stop->cause), "): ", attempt.stop->reason.empty() ? "asked to" : attempt.stop->reason,
                         Members(attempt, "; not yet stopped: ", [](const Member& member) { return !member.stopped; })),
            "");
    }
    for (const Member& member : attempt.members) {
      const Node* node = member.stopped ? nullptr : FindNode(state_, member.node);
      if (node == nullptr || now_ms_ - HeardMs(*node, soft_) <= policy_.silence_ms) continue;
      Say("NODE_SILENT",
          absl::StrCat("nothing was heard from ", node->name, " for ", Since(HeardMs(*node, soft_), now_ms_),
                       CanTestify(state_, *node) ? "; its provider is asked to end it"
                                                 : absl::StrCat("; its lease ends in ", Until(LeaseEndMs(*node, soft_, policy_), now_ms_))),
          "");
    }
    if (task.checkpoint) {
      Say("CHECKPOINT", absl::StrCat("would go on from step ", task.checkpoint->step, " (attempt ", task.checkpoint->attempt, ")"), "");
    }
  }

  // Of several members those of which `which` holds, by the names of their nodes.
  static std::string Members(const Attempt& attempt, absl::string_view lead, bool (*which)(const Member&)) {
    if (!IsGang(attempt)) return "";
    std::vector<std::string> names;
    for (size_t i = 0; i < attempt.members.size(); ++i) {
      if (which(attempt.members[i])) names.push_back(attempt.node_names[i]);
    }
    return names.empty() ? "" : absl::StrCat(lead, absl::StrJoin(names, ", "));
  }

  void Deadline(const Job& job, const Task& task) {
    const std::string deadline = absl::StrCat("its deadline of ", FormatUtcMs(job.deadline_ms));
    if (now_ms_ >= job.deadline_ms) {
      return Say("DEADLINE_PASSED", absl::StrCat(deadline, " passed ", Since(job.deadline_ms, now_ms_), " ago; it goes on as if it had none"), "");
    }
    const Slack slack = SlackOf(state_, job, &task, now_ms_);
    const std::string ends = FormatUtcMs(WholeSeconds(slack.ends_ms));
    if (slack.ends_ms > job.deadline_ms) {
      return Say("DEADLINE_LOST",
                 absl::StrCat(DeadlineLost(job.deadline_ms, slack.ends_ms), ", with ", FormatDurationMs(WholeSeconds(slack.left_ms)), " left to run"),
                 absl::StrCat("spillway update ", job.id, " --deadline ", ends));
    }
    const bool stays = task.attempt && !task.attempt->stop && !CanBeTaken(task.attempt->market);
    const std::string until = now_ms_ >= slack.last_safe_ms ? "there is no time for machines that can be taken away"
                              : stays
                                  ? absl::StrCat("it may stand still for ", Until(slack.last_safe_ms, now_ms_))
                                  : absl::StrCat("until ", FormatUtcMs(WholeSeconds(slack.last_safe_ms)), " it may wait, or run where it can be taken away");
    Say("DEADLINE", absl::StrCat(deadline, " can be met: with ", FormatDurationMs(WholeSeconds(slack.left_ms)), " left to run, ", until), "");
  }

  void Held(const Job& job, const Task& task) {
    if (job.paused)
      Say("PAUSED", job.detail.empty() ? "paused by the user" : absl::StrCat("paused after ", job.detail), absl::StrCat("spillway resume ", job.id));
    for (const Need& need : job.needs) {
      const Job* other = FindJob(state_, need.job);
      const std::string called = absl::StrCat("job ", need.job, other == nullptr ? "" : absl::StrCat(" (", other->name, ")"));
      if (other != nullptr) {
        Say("DEPENDENCY", absl::StrCat("waits for ", called, need.any ? " to end" : " to succeed", "; it is ", Name(FoldState(*other))),
            absl::StrCat("spillway explain ", need.job, " says what that one waits for or does"));
      } else if (Failed(need)) {
        Say("DEPENDENCY_FAILED", absl::StrCat(called, ", which it needs, ended ", Name(need.ended)), "");
      }
    }
    if (whys_.empty()) Say("HELD", absl::StrCat("held: ", LowerName(task.hold)), "");
    if (task.seal_owed != 0) Sealing(task);
  }

  void Sealing(const Task& task) {
    Say("SEALING", absl::StrCat("the checkpoints of attempt ", task.seal_owed, " are being verified before the next attempt starts"), "");
  }

  void Waiting(const Job& job, const Task& task) {
    const Shape& shape = ShapeOf(state_, job);
    if (NothingOnItsMarkets(shape)) return;
    if (WaitsForLostLife(state_, job, now_ms_)) {
      return Say("RESTORED",
                 absl::StrCat("the scheduler was restored from a backup: an attempt that was begun after it may still run, and none is begun for another ",
                              Until(state_.meta.adopt_until_ms, now_ms_)),
                 "");
    }
    if (task.seal_owed != 0) Sealing(task);
    if (task.not_before_ms > now_ms_) {
      Say("BACKOFF", absl::StrCat("starts again in ", Until(task.not_before_ms, now_ms_), LastEnd(task)), "");
    }
    if (AtLimit(job)) {
      return Say("ARRAY_LIMIT",
                 absl::StrCat(Count(job.counts.active, "task of its job is", "tasks of its job are"), " active, and at most ", job.parallel, " may be at once"),
                 absl::StrCat("the end of one of them; or spillway update ", job.id, " --parallel N with a higher one"));
    }
    Plan plan = BeginPlan(state_, soft_, policy_, now_ms_);
    stance_ = StanceOf(&plan, job, &task);
    Nearest nearest;
    const bool node_open = Nodes(job, task, shape, &nearest);
    if (!node_open) Offers(job, task, shape, &nearest);
    if (whys_.empty()) Say("NEXT_TURN", "nothing stands in the way: it is placed in the next turn", "");
  }

  // True when nothing that is there or offered is on a market the job allows: then nothing else about them matters.
  bool NothingOnItsMarkets(const Shape& shape) {
    if (shape.markets.empty()) return false;
    Nearest nearest;
    for (const auto& [id, node] : state_.nodes) {
      if (shape.markets.contains(node.market)) return false;
      nearest.Consider(Misfits(shape, node), shape, absl::StrCat("node ", node.name), node);
    }
    for (const auto& [key, offer] : state_.offers) {
      if (offer.withdrawn) continue;
      if (shape.markets.contains(offer.market)) return false;
      nearest.Consider(Misfits(shape, offer), shape, absl::StrCat("offer ", offer.provider, "/", offer.name), offer);
    }
    Say("NO_MARKET", absl::StrCat("the job allows only ", DescribeMarkets(shape.markets), ", and there is no such node, nor does any provider offer one"),
        absl::StrCat("nodes of that market", nearest.misfits == kMisfitMarket ? absl::StrCat("; or ", nearest.Unblocks()) : ""));
    return true;
  }

  static std::string LastEnd(const Task& task) {
    if (task.history.empty()) return "";
    const Attempt& last = task.history.back();
    return absl::StrCat(": attempt ", last.number, " ended with ", LowerName(last.cause), last.detail.empty() ? "" : absl::StrCat(" (", last.detail, ")"));
  }

  int64_t Ahead(const Job& job, const Task& task) const {
    int64_t ahead = 0;
    for (const auto& key : state_.index.queue) {
      if (key.task == task.id || key.task.job == job.id || ahead == 10'000) break;
      ++ahead;
    }
    return ahead;
  }

  // What nodes are kept for others. Where nobody of higher priority waits, only the room that is being made counts.
  Plan WhatIsKept(const Job& job) const {
    if (!state_.index.queue.empty() && -state_.index.queue.begin()->negative_priority > job.priority) return MakePlan(state_, soft_, policy_, now_ms_);
    Plan plan = BeginPlan(state_, soft_, policy_, now_ms_);
    HoldGangs(&plan);
    KeepPromises(&plan);
    return plan;
  }

  // True when one has room right now, for each member.
  bool Nodes(const Job& job, const Task& task, const Shape& shape, Nearest* nearest) {
    int64_t registered = 0, coming = 0, unfit = 0, unsafe = 0, cordoned = 0, leaving = 0, unreachable = 0, busy_reserved = 0, busy_burst = 0, promised = 0,
            open = 0;
    std::optional<Plan> plan;  // made where a node has room: seldom, and it takes a cycle
    std::vector<std::string> cordoned_names, busy_names;
    Tally tally;
    for (const auto& [id, node] : state_.nodes) {
      const bool boots = node.state == NodeState::kRequested || node.state == NodeState::kBooting;
      const uint32_t misfits = Misfits(shape, node);
      if (boots) {
        if (misfits == 0) {
          ++coming;
          Booting(task, node);
        }
        continue;
      }
      ++registered;
      if (misfits != 0) {
        ++unfit;
        tally.Add(misfits);
        nearest->Consider(misfits, shape, absl::StrCat("node ", node.name), node);
      } else if (stance_ == Stance::kUrgent && CanBeTaken(node.market)) {
        ++unsafe;
      } else if (node.cordoned) {
        ++cordoned;
        cordoned_names.push_back(node.name);
      } else if (!TakesWork(node)) {
        ++leaving;
      } else if (!Reachable(node, soft_, policy_, now_ms_)) {
        ++unreachable;
      } else if (RoomOn(state_.index, node).Holds(shape)) {
        if (!plan) plan.emplace(WhatIsKept(job));
        ++(IsPromised(*plan, id, job) ? promised : open);
      } else {
        ++(node.market == Market::kReserved ? busy_reserved : busy_burst);
        if (busy_names.size() < 5) busy_names.push_back(node.name);
      }
    }
    const bool enough = open >= shape.nodes;
    missing_ = std::max<int64_t>(shape.nodes - open - coming, 1);
    if (!enough && shape.nodes > 1) {
      Say("GANG_INCOMPLETE",
          absl::StrCat("needs ", shape.nodes, " nodes at once: ", open, open == 1 ? " has" : " have", " room now",
                       coming > 0 ? absl::StrCat(", ", coming, coming == 1 ? " is" : " are", " on the way") : "", ", ",
                       std::max<int64_t>(shape.nodes - open - coming, 0), " more must become free or be had"),
          absl::StrCat("all ", shape.nodes, " at the same time; what comes up early is held for ", FormatDurationMs(policy_.gang_hold_ms), " (gang_hold)"));
    }
    // Where a node is on its way, what the others lack is no problem.
    if (registered == 0 && coming == 0) {
      Say("NO_NODES", "no node has registered yet", "");
    } else if (unfit == registered && coming == 0) {
      Say("NO_NODE_FITS",
          absl::StrCat(unfit == 1 ? "the only node could never hold " : absl::StrCat("none of the ", unfit, " nodes could ever hold "), DescribeNeed(shape),
                       " (excluded: ", tally.Text(), ")"),
          nearest->Unblocks());
    }
    if (busy_reserved > 0 && !enough) {
      const int64_t ahead = Ahead(job, task);
      Say("RESERVED_BUSY",
          absl::StrCat(Count(busy_reserved, "reserved node that fits is", "reserved nodes that fit are"), " busy (", absl::StrJoin(busy_names, ", "), ")",
                       ahead > 0 ? absl::StrCat("; ", Count(ahead, "entry", "entries"), " ahead in the queue") : ""),
          "room is made when an attempt there ends");
    }
    if (busy_burst > 0 && !enough) Say("BURST_BUSY", absl::StrCat(Count(busy_burst, "burst node that fits is", "burst nodes that fit are"), " busy"), "");
    if (promised > 0 && !enough) {
      Say("ROOM_PROMISED", absl::StrCat(Count(promised, "node with room is", "nodes with room are"), " kept for a task of no less priority"),
          absl::StrCat("spillway update ", job.id, " --priority N with a higher one"));
    }
    if (!enough) LowerPriority(job, task, shape);
    if (unsafe > 0) {
      Say("NO_TIME_FOR_SPOT", absl::StrCat(Count(unsafe, "node that fits", "nodes that fit"), " can be taken away, for which its deadline leaves no time"), "");
    }
    if (cordoned > 0) {
      Say("NODES_CORDONED", absl::StrCat(Count(cordoned, "node that fits is", "nodes that fit are"), " cordoned"),
          absl::StrCat("spillway uncordon ", cordoned_names.front()));
    }
    if (leaving > 0)
      Say("NODES_LEAVING", absl::StrCat(Count(leaving, "node that fits is", "nodes that fit are"), " draining, released or about to be taken"), "");
    if (unreachable > 0) Say("NODES_SILENT", absl::StrCat(Count(unreachable, "node that fits has", "nodes that fit have"), " no live session"), "");
    return enough;
  }

  // Who makes room for it, and who of less priority does not.
  void LowerPriority(const Job& job, const Task& task, const Shape& shape) {
    for (const AttemptId& id : state_.index.making_room) {
      const Attempt& attempt = *FindTask(state_, id.task())->attempt;
      if (attempt.stop->for_task != task.id) continue;
      Say("MAKING_ROOM",
          absl::StrCat(id.ToString(), " on ", absl::StrJoin(attempt.node_names, ", "), ", of priority ", FindJob(state_, id.job)->priority,
                       ", saves and stops to make room"),
          "");
    }
    const auto& active = state_.index.active_priorities;
    if (active.empty() || active.begin()->first >= job.priority) return;
    int64_t uninterruptible = 0, lately = 0;
    for (const auto& [node, attempts] : state_.index.on_node) {
      if (Misfits(shape, *FindNode(state_, node)) != 0) continue;
      for (const AttemptId& id : attempts) {
        const Job& other = *FindJob(state_, id.job);
        const Task& held = *FindTask(state_, id.task());
        if (other.priority >= job.priority || held.attempt->stop) continue;
        if (!ShapeOf(state_, other).interruptible) {
          ++uninterruptible;
        } else if (!MayMakeRoom(state_, other, held, policy_, now_ms_)) {
          ++lately;
        }
      }
    }
    if (uninterruptible > 0) {
      Say("UNINTERRUPTIBLE", absl::StrCat(Count(uninterruptible, "attempt", "attempts"), " of lower priority may not be interrupted"), "");
    }
    if (lately > 0) {
      Say("MADE_ROOM_LATELY",
          absl::StrCat(Count(lately, "task", "tasks"), " of lower priority made room less than ", FormatDurationMs(policy_.displace_again_ms),
                       " ago and is left alone for as long"),
          "");
    }
  }

  void Booting(const Task& task, const Node& node) {
    const bool own = node.for_task == task.id;
    Say("BOOTING",
        absl::StrCat("node ", node.name, own ? ", requested for this task," : ", which would hold it,",
                     node.state == NodeState::kRequested ? " was requested " : " has been booting for ",
                     Since(node.state == NodeState::kRequested ? node.requested_ms : node.created_ms, now_ms_),
                     node.state == NodeState::kRequested ? " ago" : ""),
        "");
  }

  void Offers(const Job& job, const Task& task, const Shape& shape, Nearest* nearest) {
    int64_t total = 0, unfit = 0, open = 0, later = 0, unsafe = 0;
    Tally tally;
    std::map<std::string, int64_t> limited;
    for (const auto& [key, offer] : state_.offers) {
      if (offer.withdrawn) continue;
      ++total;
      const std::string name = absl::StrCat("offer ", offer.provider, "/", offer.name);
      if (const uint32_t misfits = Misfits(shape, offer); misfits != 0) {
        ++unfit;
        tally.Add(misfits);
        nearest->Consider(misfits, shape, name, offer);
        continue;
      }
      switch (BarOf(state_, offer, 0, missing_ - 1, now_ms_)) {
        case OfferBar::kBackoff:
          Say("OFFER_BACKOFF",
              absl::StrCat(name, " refused ", Count(offer.refusals, "time", "times"), " (", offer.backoff_reason, "); asked again in ",
                           Until(offer.backoff_until_ms, now_ms_)),
              "");
          break;
        case OfferBar::kNoCapacity: Say("OFFER_NO_CAPACITY", absl::StrCat(name, " has no capacity now"), ""); break;
        case OfferBar::kNodeLimit: ++limited[offer.provider]; break;
        case OfferBar::kNone:
          if (offer.available >= 0 && offer.available < missing_) {
            Say("OFFER_NO_CAPACITY", absl::StrCat(name, " has capacity for ", offer.available, " of the ", missing_, " nodes that are missing"), "");
          }
          ++(stance_ == Stance::kPatient && offer.market == Market::kOnDemand ? later : stance_ == Stance::kUrgent && CanBeTaken(offer.market) ? unsafe : open);
          break;
        default: break;
      }
    }
    if (later > 0 && open == 0) {
      Say("WAITS_FOR_SPOT",
          absl::StrCat(Count(later, "offer", "offers"), " on demand would take it at once; its deadline leaves time to wait for one that costs less, until ",
                       FormatUtcMs(WholeSeconds(SlackOf(state_, job, &task, now_ms_).last_safe_ms))),
          absl::StrCat("spillway update ", job.id, " --deadline with an earlier one"));
    }
    if (unsafe > 0 && open == 0) {
      Say("NO_TIME_FOR_SPOT", absl::StrCat("its deadline leaves no time for ", Count(unsafe, "offer", "offers"), " of machines that can be taken away"), "");
    }
    for (const auto& [provider, offers] : limited) {
      const int64_t max_nodes = state_.meta.providers.at(provider).max_nodes;
      Say("NODE_LIMIT",
          absl::StrCat("provider ", provider, " has ", Count(AliveNodes(state_, provider), "node", "nodes"), ", max_nodes is ", max_nodes,
                       missing_ > 1 ? absl::StrCat(", and ", missing_, " more are needed at once") : ""),
          absl::StrCat("a higher max_nodes of provider ", provider, " would allow ", Count(offers, "offer that fits", "offers that fit")));
    }
    if (total == 0) {
      Say("NO_OFFERS", "no provider has an offer to spill to", "a provider that creates nodes would be asked");
    } else if (unfit == total) {
      Say("NO_OFFER_FITS",
          absl::StrCat(total == 1 ? "the only offer could not hold " : absl::StrCat("none of the ", total, " offers could hold "), DescribeNeed(shape),
                       " (excluded: ", tally.Text(), ")"),
          nearest->Unblocks());
    }
  }

  const State& state_;
  const Soft& soft_;
  const Policy& policy_;
  const int64_t now_ms_;
  Stance stance_ = Stance::kFree;
  int64_t missing_ = 1;  // nodes that it needs beside those that have room or come
  std::vector<Why> whys_;
};

}  // namespace

std::vector<Why> Explain(const State& state, const Soft& soft, const Policy& policy, TaskId id, int64_t now_ms) {
  const std::optional<Task> task = GetTask(state, id);
  if (!task) return {};
  return Explainer(state, soft, policy, now_ms).Run(*FindJob(state, id.job), *task);
}

std::string DescribePlace(const PlaceReason& reason) {
  switch (reason.code) {
    case PlaceCode::kReservedFits: return "reserved capacity had room: it is paid for already";
    case PlaceCode::kPaidNodeFits:
      return absl::StrCat(reason.b == 1 ? "the node was requested for it" : "a burst node that bills already had room", " at ", FormatMicros(reason.a),
                          " per hour");
    case PlaceCode::kCheapestOffer:
      return absl::StrCat("lowest expected cost of ", Count(reason.c, "offer", "offers"), ": ", FormatMicros(reason.a),
                          " per hour of useful work at a price of ", FormatMicros(reason.b));
    case PlaceCode::kOnlyMarketAllowed:
      return absl::StrCat("best of ", Count(reason.c, "offer", "offers"), " on the only market the job allows: ", FormatMicros(reason.a),
                          " per hour of useful work at a price of ", FormatMicros(reason.b));
    case PlaceCode::kDeadline:
      return absl::StrCat("its deadline left no time for machines that can be taken away; best of ", Count(reason.c, "other offer", "other offers"), ": ",
                          FormatMicros(reason.a), " per hour of useful work at a price of ", FormatMicros(reason.b));
    case PlaceCode::kUnspecified: break;
  }
  return "no reason was recorded";
}

}  // namespace spillway::core
