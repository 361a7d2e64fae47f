// What people ask of the database while the scheduler writes it: a read-only connection of its own, one short transaction a call, a bounded page an answer.
// Sees committed turns only, ended jobs and gone nodes too. Thread-safe (calls on one Reader take turns; open more for more at once).
//
// Errors: NOT_FOUND, OUT_OF_RANGE (events no longer kept), DATA_LOSS, UNAVAILABLE (try again), INTERNAL.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "scheduler/store/sqlite.h"
#include "scheduler/store/store.h"

namespace spillway::store {

struct JobFilter {
  std::vector<TaskState> states;  // of the job (FoldState); empty: all
  std::string name;               // exact; "" any
  bool newest_first = false;
  int64_t after = 0;  // page token: the last id seen; 0 from the beginning
  int64_t limit = limits::kPageSizeDefault;
};
struct ChargeFilter {
  JobId job = 0;  // 0: all
  NodeId node = 0;
  int64_t after = 0;  // the last id seen
  int64_t limit = limits::kPageSizeDefault;
};
// Charges that begin in [from_ms, to_ms), summed. job 0: idle, boot, overhead, adjustments.
struct CostRow {
  JobId job = 0;
  std::string job_name;
  std::string kind;
  Market market = Market::kUnspecified;
  int64_t amount_micros = 0;
  int64_t duration_ms = 0;
};

// NOT_FOUND, with the tasks that there are.
absl::Status HasTask(const core::Job& job, TaskIndex index);

class Reader {
 public:
  // The database must exist (the store makes it).
  static absl::StatusOr<std::unique_ptr<Reader>> Open(const std::string& path, const std::string& vfs = "");

  absl::StatusOr<core::Job> GetJob(JobId id);
  absl::StatusOr<core::Job> GetNewestJobNamed(const std::string& name);
  // The tasks from `first` on, `limit` of them where there are so many; those that never began, and have no rows, as their job's row says.
  absl::StatusOr<std::vector<core::Task>> ListTasks(const core::Job& job, TaskIndex first = 0, int64_t limit = limits::kPageSizeMax);
  absl::StatusOr<core::Task> GetTask(TaskId id);                                                                        // in the same way
  absl::StatusOr<std::vector<core::Job>> ListJobs(const JobFilter& filter);                                             // fewer than limit: the end
  absl::StatusOr<std::string> GetSpec(const std::string& digest);                                                       // bytes of the serialized JobSpec
  absl::StatusOr<std::vector<core::CheckpointRef>> ListCheckpoints(TaskId task, int64_t limit = limits::kPageSizeMax);  // newest first
  absl::StatusOr<core::Node> GetNode(NodeId id);
  // Newest first; `before` 0 from the newest, else ids below it.
  absl::StatusOr<std::vector<core::Node>> ListNodes(bool include_gone, NodeId before = 0, int64_t limit = limits::kPageSizeDefault);
  absl::StatusOr<std::vector<core::Offer>> ListOffers(const std::string& provider);  // "" all
  absl::StatusOr<std::vector<core::Charge>> ListCharges(const ChargeFilter& filter);
  absl::StatusOr<std::vector<CostRow>> SumCharges(int64_t from_ms, int64_t to_ms);  // to_ms 0: open

  absl::StatusOr<int64_t> NewestSeq();  // 0: nothing was ever committed
  absl::StatusOr<int64_t> PrunedSeq();  // events up to here are no longer kept
  // Whole turns with seq > after_seq, at most `limit` of them. OUT_OF_RANGE when some of them are no longer kept.
  absl::StatusOr<std::vector<EventRecord>> Events(int64_t after_seq, int64_t limit = 1'000);

 private:
  Reader() = default;
  // Runs `sql`, whose parameters are bound by `bind`, decoding column 0 of each row into a T.
  template <typename T>
  absl::StatusOr<std::vector<T>> Rows(absl::string_view sql, const std::vector<int64_t>& numbers, const std::string* text = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename T>
  absl::StatusOr<T> One(absl::string_view what, absl::string_view sql, const std::vector<int64_t>& numbers, const std::string* text = nullptr);

  Mutex mutex_;
  Database db_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace spillway::store
