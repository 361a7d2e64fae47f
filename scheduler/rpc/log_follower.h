// Reads one attempt's log from the store and knows when it is complete: after the attempt has ended and every byte was sent.
// A log that does not exist yet is waited for while its task lives. Blocking; one call at a time.
#pragma once

#include <deque>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/rpc/follow.h"
#include "scheduler/store/reader.h"
#include "spillway/v1/job_service.pb.h"

namespace spillway::rpc {

class LogFollower {
 public:
  // attempt.number 0: the newest when the first byte is read. `rank`: of several members.
  LogFollower(store::Reader* reader, std::string log_root, AttemptId attempt, int64_t rank, int64_t offset, bool follow)
      : reader_(reader), log_root_(std::move(log_root)), attempt_(attempt), rank_(rank), offset_(offset), follow_(follow) {}

  absl::StatusOr<Follow> Read(std::deque<v1::LogChunk>* out);

 private:
  // What the store says of the attempt: not there yet, living, over.
  enum class Stage { kNotYet, kLiving, kEnded };
  absl::StatusOr<Stage> Look();
  absl::Status CheckMember(const core::Task& task) const;
  absl::StatusOr<bool> ReadChunks(std::deque<v1::LogChunk>* out);  // true: there may be more

  store::Reader* const reader_;
  const std::string log_root_;
  AttemptId attempt_;
  const int64_t rank_;
  int64_t offset_;
  const bool follow_;
};

}  // namespace spillway::rpc
