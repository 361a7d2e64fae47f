// The durable half of the scheduler: rows that always stand at the newest committed turn, and the packed, hash-chained record of events beside them.
//
// One writer. Commit is one durable transaction (SQLite: WAL, synchronous=FULL, BEGIN IMMEDIATE). A failed Commit leaves the durability unknown:
// the caller must end the process; only RESOURCE_EXHAUSTED (disk full) is known to have left nothing behind and may be tried again.
// Owns encoding and layout; never interprets what it stores. Implemented by sqlite_store.h alone; tests use SQLite in memory or over a fault-injecting VFS.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/core.h"

namespace spillway::store {

// One turn of the engine, self-contained: values, not references into the state.
struct Batch {
  int64_t seq = 0;  // from 1, without gaps
  int64_t now_ms = 0;
  std::vector<core::Event> events;                         // in order; packed into one event_batch row whose hash covers the previous record's hash
  std::vector<std::pair<std::string, std::string>> specs;  // (digest, bytes)
  std::optional<core::Meta> meta;
  std::vector<core::Job> jobs;  // dirty or ended: last values
  std::vector<core::Task> tasks;
  std::vector<core::Node> nodes;
  std::vector<std::pair<int64_t, core::Shape>> shapes;
  std::vector<core::Offer> offers;
  std::vector<std::pair<std::string, core::RequestRecord>> requests;
  std::vector<std::string> deleted_requests;
  std::vector<core::Charge> charges;
  std::vector<std::pair<TaskId, core::CheckpointRef>> checkpoints;
  std::optional<std::string> snapshot;  // EncodeState() of the state after this turn, when one is due
};

// Copies the dirty rows out of the state. Called on the engine thread before `changes` is cleared.
Batch MakeBatch(const core::State& state, const core::Changes& changes, int64_t seq, std::vector<core::Event> events,
                std::vector<std::pair<std::string, std::string>> specs);

struct Loaded {
  core::State state;     // live rows; indexes rebuilt
  int64_t last_seq = 0;  // 0: an empty store
};

struct EventRecord {
  int64_t seq = 0;
  int64_t now_ms = 0;
  std::vector<core::Event> events;
};

class Store {
 public:
  virtual ~Store() = default;
  // Live rows; verifies the hash chain since the last snapshot. DATA_LOSS names the record that does not hold.
  virtual absl::StatusOr<Loaded> Load() = 0;
  virtual absl::Status Commit(const Batch& batch) = 0;

  // Housekeeping off the commit path, a bounded step a call: moves the log into the database file, prunes old records, restores what a full disk took.
  // The driver calls it between commits. RESOURCE_EXHAUSTED: not now; any other error ends the process like a failed Commit.
  virtual absl::Status Maintain() { return absl::OkStatus(); }
  // The disk has been full and the reserve for reports is not back: new work should be refused though commits succeed.
  virtual bool DiskLow() const { return false; }
};

// The whole state as bytes, and back: for snapshots, and for comparing two states byte for byte.
std::string EncodeState(const core::State& state);
absl::StatusOr<core::State> DecodeState(absl::string_view bytes);
// Makes the indexes of a state that was read. DATA_LOSS: it names a shape or a node that the state lacks.
absl::Status Index(core::State* state);

}  // namespace spillway::store
