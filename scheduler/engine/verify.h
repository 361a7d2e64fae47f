// Promise 10, checked: a snapshot and the events after it give the stored state, byte for byte. For tests and `spillwayd --verify`.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "scheduler/store/sqlite_store.h"

namespace spillway::engine {

struct Verified {
  int64_t from_seq = 0;  // the snapshot replayed from; 0: the empty state
  int64_t last_seq = 0;
  int64_t events = 0;
  int64_t snapshots = 0;  // met on the way, each compared
};

// Reads the whole kept record, from its oldest snapshot on; never writes. DATA_LOSS names the turn after which the states part.
absl::StatusOr<Verified> Verify(store::SqliteStore* store);

}  // namespace spillway::engine
