#include "scheduler/engine/verify.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace spillway::engine {
namespace {

absl::Status Differ(int64_t seq, absl::string_view what, const std::string& replayed, const std::string& stored) {
  const auto [at, ignored] = std::mismatch(replayed.begin(), replayed.end(), stored.begin(), stored.end());
  return absl::DataLossError(absl::StrCat("after turn ", seq, " the events give another state than ", std::string(what), ": they part at byte ",
                                          at - replayed.begin(), " (", replayed.size(), " bytes replayed, ", stored.size(), " stored)"));
}

}  // namespace

absl::StatusOr<Verified> Verify(store::SqliteStore* store) {
  Verified verified;
  ASSIGN_OR_RETURN(const store::Loaded loaded, store->Load());
  verified.last_seq = loaded.last_seq;

  // From the oldest snapshot whose events are all there, or from nothing when nothing was pruned.
  core::State state;
  ASSIGN_OR_RETURN(const int64_t pruned, store->PrunedSeq());
  if (pruned > 0) {
    ASSIGN_OR_RETURN(const auto oldest, store->SnapshotFrom(pruned));
    if (!oldest.has_value()) return absl::DataLossError(absl::StrCat("events up to turn ", pruned, " were pruned, and there is no snapshot from there on"));
    verified.from_seq = oldest->seq;
    ASSIGN_OR_RETURN(state, store::DecodeState(oldest->body));
  }
  core::Changes changes;
  RETURN_IF_ERROR(store->ReadEvents(verified.from_seq, [&](const store::EventRecord& record) -> absl::Status {
    for (const core::Event& event : record.events) core::Reduce(&state, event, record.now_ms, &changes);
    changes.Clear();
    verified.events += static_cast<int64_t>(record.events.size());
    ASSIGN_OR_RETURN(const auto snapshot, store->SnapshotFrom(record.seq));
    if (!snapshot.has_value() || snapshot->seq != record.seq) return absl::OkStatus();
    ++verified.snapshots;
    const std::string replayed = store::EncodeState(state);
    return replayed == snapshot->body ? absl::OkStatus() : Differ(record.seq, "the snapshot", replayed, snapshot->body);
  }));
  const std::string replayed = store::EncodeState(state), stored = store::EncodeState(loaded.state);
  if (replayed != stored) return Differ(verified.last_seq, "the rows", replayed, stored);
  return verified;
}

}  // namespace spillway::engine
