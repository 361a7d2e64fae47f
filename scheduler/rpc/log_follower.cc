#include "scheduler/rpc/log_follower.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"

namespace spillway::rpc {
namespace {

constexpr size_t kChunkBytes = 64 << 10;
constexpr int kChunksPerRead = 16;

}  // namespace

std::string LogPathOf(const AttemptId& attempt) { return absl::StrCat(attempt.job, "/", attempt.index, "/a", attempt.number, ".log"); }

absl::StatusOr<Follow> LogFollower::Read(std::deque<v1::LogChunk>* out) {
  // The stage is taken before the bytes: what the attempt wrote before its end was seen is then read for certain.
  ASSIGN_OR_RETURN(const Stage stage, Look());
  if (stage == Stage::kNotYet) {
    if (follow_) return Follow::kWait;
    return absl::FailedPreconditionError(absl::StrCat("task ", attempt_.task().ToString(), " has not run yet, so there is no log; --follow waits for it"));
  }
  ASSIGN_OR_RETURN(const bool more, ReadChunks(out));
  if (more) return Follow::kMore;
  return follow_ && stage == Stage::kLiving ? Follow::kWait : Follow::kEnd;
}

absl::StatusOr<LogFollower::Stage> LogFollower::Look() {
  absl::StatusOr<core::Task> task = reader_->GetTask(attempt_.task());
  if (absl::IsNotFound(task.status())) {
    // No row: a task that has not run, or none at all.
    ASSIGN_OR_RETURN(const core::Job job, reader_->GetJob(attempt_.job));
    if (attempt_.index < 0 || attempt_.index >= job.task_count) {
      return absl::NotFoundError(absl::StrCat("job ", attempt_.job, " has no task ", attempt_.index));
    }
    return Stage::kNotYet;
  }
  RETURN_IF_ERROR(task.status());
  const bool over = task->state == TaskState::kSucceeded || task->state == TaskState::kFailed || task->state == TaskState::kCancelled;
  if (attempt_.number == 0) {
    if (task->attempts == 0) {
      if (over) return absl::NotFoundError(absl::StrCat("task ", attempt_.task().ToString(), " ended before it ran; there is no log"));
      return Stage::kNotYet;
    }
    attempt_.number = task->attempts;
  }
  if (attempt_.number > task->attempts) {
    if (!over) return Stage::kNotYet;
    return absl::NotFoundError(absl::StrCat("there is no attempt ", attempt_.ToString(), "; the last one is ", task->attempts));
  }
  return task->attempt && task->attempt->number == attempt_.number ? Stage::kLiving : Stage::kEnded;
}

absl::StatusOr<bool> LogFollower::ReadChunks(std::deque<v1::LogChunk>* out) {
  const std::string path = JoinPath(log_root_, LogPathOf(attempt_));
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ENOENT) return false;  // nothing was printed yet, or ever
    return ErrnoStatus(errno, path);
  }
  bool more = true;
  absl::Status status;
  std::string buffer(kChunkBytes, '\0');
  for (int i = 0; i < kChunksPerRead && more; ++i) {
    const ssize_t n = pread(fd, buffer.data(), buffer.size(), offset_);
    if (n < 0) status = ErrnoStatus(errno, path);
    if (n <= 0) {
      more = false;
      break;
    }
    v1::LogChunk chunk;
    *chunk.mutable_attempt() = [&] {
      v1::AttemptKey key;
      key.set_job_id(attempt_.job);
      key.set_task_index(attempt_.index);
      key.set_attempt(attempt_.number);
      return key;
    }();
    chunk.set_offset(offset_);
    chunk.set_data(buffer.data(), n);
    out->push_back(std::move(chunk));
    offset_ += n;
  }
  close(fd);
  RETURN_IF_ERROR(status);
  return more;
}

}  // namespace spillway::rpc
