// The whole state as one message, for snapshots and comparisons: see StateRecord in proto/spillway/store/v1/row.proto.
#include "absl/strings/str_cat.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/store.h"

namespace spillway::store {
namespace {

// What decoding fills; encoding writes the same fields straight from the state, without copies.
struct LiveJobRecord {
  core::Job job;
  std::vector<core::Task> tasks;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.job), a(2, s.tasks);
  }
};
struct StateRecord {
  core::Meta meta;
  std::vector<LiveJobRecord> jobs;
  std::vector<core::Node> nodes;
  std::map<int64_t, core::Shape> shapes;
  std::vector<core::Offer> offers;
  std::map<std::string, core::RequestRecord> requests;
  template <typename S, typename A>
  static void Fields(S& s, A& a) {
    a(1, s.meta), a(2, s.jobs), a(3, s.nodes), a(4, s.shapes), a(5, s.offers), a(6, s.requests);
  }
};

}  // namespace

std::string EncodeState(const core::State& state) {
  std::string out;
  FieldWriter writer(&out);
  writer(1, state.meta);
  for (const auto& [id, live] : state.jobs) {
    AppendMessageField(&out, 2, [&live = live](std::string* into) {
      FieldWriter job(into);
      job(1, live.job);
      for (const auto& [index, task] : live.tasks) job.Message(2, task);
    });
  }
  for (const auto& [id, node] : state.nodes) writer.Message(3, node);
  writer(4, state.shapes);
  for (const auto& [key, offer] : state.offers) writer.Message(5, offer);
  writer(6, state.requests);
  return out;
}

absl::StatusOr<core::State> DecodeState(absl::string_view bytes) {
  ASSIGN_OR_RETURN(StateRecord record, Decode<StateRecord>(bytes));
  core::State state;
  state.meta = std::move(record.meta);
  for (LiveJobRecord& from : record.jobs) {
    const JobId id = from.job.id;
    core::LiveJob& live = state.jobs[id];
    if (live.job.id != 0 || id == 0) return absl::DataLossError(absl::StrCat("a state with job ", id, " twice or without an id"));
    live.job = std::move(from.job);
    for (core::Task& task : from.tasks) {
      if (task.id.job != id) return absl::DataLossError(absl::StrCat("a state with task ", task.id.ToString(), " under job ", id));
      const TaskIndex index = task.id.index;
      live.tasks.insert_or_assign(index, std::move(task));
    }
  }
  for (core::Node& node : record.nodes) {
    const NodeId id = node.id;
    state.nodes.insert_or_assign(id, std::move(node));
  }
  state.shapes = std::move(record.shapes);
  for (core::Offer& offer : record.offers) {
    core::OfferKey key(offer.provider, offer.name);
    state.offers.insert_or_assign(std::move(key), std::move(offer));
  }
  state.requests = std::move(record.requests);
  RETURN_IF_ERROR(Index(&state));
  return state;
}

absl::Status Index(core::State* state) {
  for (const auto& [id, live] : state->jobs) {
    if (!state->shapes.contains(live.job.shape_id))
      return absl::DataLossError(absl::StrCat("job ", id, " has the shape ", live.job.shape_id, ", which does not exist"));
    for (const auto& [index, task] : live.tasks) {
      if (!task.attempt) continue;
      for (const core::Member& member : task.attempt->members) {
        if (member.stopped || state->nodes.contains(member.node)) continue;
        return absl::DataLossError(absl::StrCat("attempt ", task.id.ToString(), "@", task.attempt->number, " lives on node ", member.node, ", which does not"));
      }
    }
  }
  core::RebuildIndexes(state);
  return absl::OkStatus();
}

}  // namespace spillway::store
