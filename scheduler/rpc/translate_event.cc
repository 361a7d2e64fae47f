// The words in which events are told to people (`spillway events`, Watch). Bookkeeping events are silent.
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/money.h"
#include "base/units.h"
#include "scheduler/rpc/translate_view.h"

namespace spillway::rpc {
namespace {

void About(const AttemptId& attempt, v1::Event* view) { *view->mutable_attempt() = KeyOf(attempt); }
void About(const core::Node& node, v1::Event* view) {
  view->set_node_id(node.id);
  view->set_node_name(node.name);
}

// One overload an event: true when there is something to tell.
struct Teller {
  v1::Event* view;

  bool operator()(const core::JobSubmitted& e) const {
    About(AttemptId{e.job.id, 0, 0}, view);
    const HoldReason hold = core::HoldOf(e.job);
    view->set_message(absl::StrCat("job ", e.job.id, " (", e.job.name, ") submitted by ", e.job.owner,
                                   hold == HoldReason::kUnspecified ? "" : absl::StrCat(", held: ", LowerName(hold))));
    return true;
  }
  bool operator()(const core::JobCancelRequested& e) const {
    About(AttemptId{e.job, 0, 0}, view);
    view->set_message(absl::StrCat("cancel requested", e.stop.reason.empty() ? "" : absl::StrCat(": ", e.stop.reason)));
    return true;
  }
  bool operator()(const core::AttemptOffered& e) const {
    About({e.task.job, e.task.index, e.attempt.number}, view);
    if (!e.attempt.members.empty()) view->set_node_id(e.attempt.members[0].node);
    view->set_node_name(absl::StrJoin(e.attempt.node_names, ", "));
    view->set_message(absl::StrCat("placed on ", view->node_name(), " (", LowerName(e.attempt.market), "): ", core::DescribePlace(e.attempt.place),
                                   e.attempt.resume_path.empty() ? "" : absl::StrCat("; resumes from step ", e.attempt.from_step)));
    return true;
  }
  bool operator()(const core::AttemptAccepted& e) const {
    About(e.attempt, view);
    view->set_message("taken by the node");
    return true;
  }
  bool operator()(const core::AttemptStarted& e) const {
    About(e.attempt, view);
    view->set_message("running");
    return true;
  }
  bool operator()(const core::AttemptStopRequested& e) const {
    About(e.attempt, view);
    view->set_message(
        absl::StrCat("asked to stop (", Name(e.stop.cause), e.stop.reason.empty() ? "" : ": ", e.stop.reason, "), grace ", FormatDurationMs(e.stop.grace_ms)));
    return true;
  }
  bool operator()(const core::AttemptEnded& e) const {
    About(e.attempt, view);
    view->set_message(absl::StrCat("ended: ", Name(e.cause), e.detail.empty() ? "" : absl::StrCat(" (", e.detail, ")"), " at step ", e.to_step,
                                   "; the task is ", Name(e.next)));
    return true;
  }
  bool operator()(const core::MemberAccepted& e) const {
    About(e.attempt, view);
    view->set_node_id(e.node);
    view->set_message(absl::StrCat("taken by node ", e.node, e.rendezvous.empty() ? "" : absl::StrCat(", where the others meet at ", e.rendezvous)));
    return true;
  }
  bool operator()(const core::MemberStarted& e) const {
    About(e.attempt, view);
    view->set_node_id(e.node);
    view->set_message(absl::StrCat("running on node ", e.node));
    return true;
  }
  bool operator()(const core::MemberEnded& e) const {
    About(e.attempt, view);
    view->set_node_id(e.node);
    view->set_message(absl::StrCat("ended on node ", e.node, "; so far: ", Name(e.cause), e.detail.empty() ? "" : absl::StrCat(" (", e.detail, ")")));
    return true;
  }
  bool operator()(const core::CheckpointRegistered& e) const {
    About({e.task.job, e.task.index, e.checkpoint.attempt}, view);
    view->set_message(absl::StrCat("checkpoint at step ", e.checkpoint.step, " registered (", FormatBytes(e.checkpoint.bytes), ")"));
    return true;
  }
  bool operator()(const core::AttemptSealed& e) const {
    About(e.attempt, view);
    view->set_message(absl::StrCat("sealed", e.newest ? absl::StrCat(", newest checkpoint at step ", e.newest->step) : std::string(", no checkpoint"),
                                   e.damaged > 0 ? absl::StrCat("; ", e.damaged, " damaged") : ""));
    return true;
  }
  bool operator()(const core::NodeRequested& e) const {
    About(e.node, view);
    view->set_message(absl::StrCat(LowerName(e.node.market), " node ", e.node.name, " requested from ", e.node.provider, " (", e.node.offer, ", ",
                                   FormatMicros(e.node.price_micros_per_hour), " an hour)"));
    return true;
  }
  bool operator()(const core::NodeCreated& e) const {
    view->set_node_id(e.node);
    view->set_message(absl::StrCat("created as ", e.instance_id));
    return true;
  }
  bool operator()(const core::NodeCreateRefused& e) const {
    view->set_node_id(e.node);
    view->set_message(absl::StrCat("refused by ", e.offer.first, "/", e.offer.second, ": ", e.message));
    return true;
  }
  bool operator()(const core::NodeRegistered& e) const {
    About(e.node, view);
    view->set_message(absl::StrCat(e.node.name, " is ready (", LowerName(e.node.market), ")"));
    return true;
  }
  bool operator()(const core::NodeNoticed& e) const {
    view->set_node_id(e.node);
    view->set_message(e.deadline_ms == 0 ? absl::StrCat(e.source, " advises to leave") : absl::StrCat("will be taken away at ", FormatUtcMs(e.deadline_ms)));
    return true;
  }
  bool operator()(const core::NodeCordoned& e) const {
    view->set_node_id(e.node);
    view->set_message(e.on ? "cordoned" : "uncordoned");
    return true;
  }
  bool operator()(const core::NodeDrainStarted& e) const {
    view->set_node_id(e.node);
    view->set_message(absl::StrCat("draining: ", e.reason));
    return true;
  }
  bool operator()(const core::NodeReleaseRequested& e) const {
    view->set_node_id(e.node);
    view->set_message(absl::StrCat("release requested: ", e.reason));
    return true;
  }
  bool operator()(const core::OrphanAdopted& e) const {
    About(e.node, view);
    view->set_message(absl::StrCat("unknown instance ", e.node.instance_id, " of this cluster found: ending it"));
    return true;
  }
  bool operator()(const core::NodeGone& e) const {
    view->set_node_id(e.node);
    view->set_message(absl::StrCat(Name(e.state), e.reclaimed ? ", taken by the provider" : "", e.reason.empty() ? "" : absl::StrCat(": ", e.reason)));
    return true;
  }
  bool operator()(const core::JobReleased& e) const {
    About(AttemptId{e.job, 0, 0}, view);
    view->set_message("what it waited for has come");
    return true;
  }
  bool operator()(const core::JobFailed& e) const {
    About(AttemptId{e.job, 0, 0}, view);
    view->set_message(absl::StrCat("the job ended before it ran: ", Name(e.cause), " (", e.detail, ")"));
    return true;
  }
  bool operator()(const core::JobPaused& e) const {
    About(AttemptId{e.job, 0, 0}, view);
    view->set_message(e.stop.reason);
    return true;
  }
  bool operator()(const core::JobResumed& e) const {
    About(AttemptId{e.job, 0, 0}, view);
    view->set_message("resumed by the user");
    return true;
  }
  bool operator()(const core::JobUpdated& e) const {
    About(AttemptId{e.job, 0, 0}, view);
    view->set_message(absl::StrCat("priority ", e.priority, e.parallel > 0 ? absl::StrCat(", at most ", e.parallel, " tasks at once") : "",
                                   e.deadline_ms > 0 ? absl::StrCat(", deadline ", FormatUtcMs(e.deadline_ms)) : ""));
    return true;
  }
  bool operator()(const core::TasksCancelRequested& e) const {
    About(AttemptId{e.job, e.tasks.empty() ? 0 : e.tasks.front().first, 0}, view);
    const std::string tasks = absl::StrJoin(e.tasks, ",", [](std::string* out, const core::TaskRange& range) {
      absl::StrAppend(out, range.first, range.size() > 1 ? absl::StrCat("-", range.end - 1) : "");
    });
    view->set_message(absl::StrCat("cancel of tasks ", tasks, " requested", e.stop.reason.empty() ? "" : absl::StrCat(": ", e.stop.reason)));
    return true;
  }
  bool operator()(const core::Restored& e) const {
    view->set_message(absl::StrCat("restored from a backup as incarnation ", e.incarnation, ": new jobs from ", e.next_job, " on; nothing older starts before ",
                                   FormatUtcMs(e.adopt_until_ms)));
    return true;
  }
  template <typename Other>
  bool operator()(const Other&) const {
    static_assert(std::is_same_v<Other, core::Configured> || std::is_same_v<Other, core::RequestRecorded> || std::is_same_v<Other, core::RequestsForgotten> ||
                      std::is_same_v<Other, core::OffersUpdated> || std::is_same_v<Other, core::ReportsTaken>,
                  "a new event needs words, or a place in this list");
    return false;
  }
};

}  // namespace

bool EventView(const core::Event& event, int64_t seq, int64_t now_ms, v1::Event* view) {
  view->set_seq(seq);
  view->set_utc_ms(now_ms);
  view->set_kind(core::EventKind(event));
  return std::visit(Teller{view}, event);
}

}  // namespace spillway::rpc
