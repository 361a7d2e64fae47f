#include "scheduler/rpc/log_follower.h"

#include "absl/strings/str_cat.h"
#include "base/attempt_log.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "scheduler/engine/resolve.h"
#include "scheduler/rpc/translate_view.h"

namespace spillway::rpc {
namespace {

constexpr int64_t kChunkBytes = 64 << 10;
constexpr int kChunksPerRead = 16;

}  // namespace

absl::StatusOr<Follow> LogFollower::Read(std::deque<v1::LogChunk>* out) {
  // The stage is taken before the bytes: what the attempt wrote before its end was seen is then read for certain.
  ASSIGN_OR_RETURN(const Stage stage, Look());
  if (stage == Stage::kNotYet) {
    if (follow_) return Follow::kWait;
    return absl::FailedPreconditionError(absl::StrCat(attempt_.number == 0 ? absl::StrCat("task ", attempt_.task().ToString()) : attempt_.ToString(),
                                                      " has not run yet, so there is no log; --follow waits for it"));
  }
  ASSIGN_OR_RETURN(const bool more, ReadChunks(out));
  if (more) return Follow::kMore;
  return follow_ && stage == Stage::kLiving ? Follow::kWait : Follow::kEnd;
}

absl::StatusOr<LogFollower::Stage> LogFollower::Look() {
  ASSIGN_OR_RETURN(const core::Task task, reader_->GetTask(attempt_.task()));
  const bool over = task.state == TaskState::kSucceeded || task.state == TaskState::kFailed || task.state == TaskState::kCancelled;
  if (attempt_.number == 0) {
    if (task.attempts == 0) {
      if (over) return absl::NotFoundError(absl::StrCat("task ", attempt_.task().ToString(), " ended before it ran; there is no log"));
      return Stage::kNotYet;
    }
    attempt_.number = task.attempts;
  }
  if (attempt_.number > task.attempts) {
    if (!over) return Stage::kNotYet;
    return absl::NotFoundError(absl::StrCat("there is no attempt ", attempt_.ToString(), "; the last one is ", task.attempts));
  }
  RETURN_IF_ERROR(CheckMember(task));
  return task.attempt && task.attempt->number == attempt_.number ? Stage::kLiving : Stage::kEnded;
}

// An attempt that is kept no longer may have had any.
absl::Status LogFollower::CheckMember(const core::Task& task) const {
  const auto check = [this](const core::Attempt& attempt) {
    if (attempt.number != attempt_.number || rank_ < static_cast<int64_t>(attempt.members.size())) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(attempt_.ToString(), " has no member ", rank_, "; its members are 0 to ", attempt.members.size() - 1));
  };
  if (task.attempt) RETURN_IF_ERROR(check(*task.attempt));
  for (const core::Attempt& attempt : task.history) RETURN_IF_ERROR(check(attempt));
  return absl::OkStatus();
}

absl::StatusOr<bool> LogFollower::ReadChunks(std::deque<v1::LogChunk>* out) {
  const std::string path = JoinPath(log_root_, engine::LogPath(attempt_, rank_));
  for (int i = 0; i < kChunksPerRead; ++i) {
    absl::StatusOr<spillway::LogChunk> chunk = ReadAttemptLog(path, offset_, kChunkBytes);
    if (absl::IsNotFound(chunk.status())) return false;  // nothing was printed yet, or ever
    RETURN_IF_ERROR(chunk.status());
    if (chunk->next_offset == offset_) return false;
    v1::LogChunk* view = &out->emplace_back();
    *view->mutable_attempt() = KeyOf(attempt_);
    view->set_offset(offset_);
    view->set_data(std::move(chunk->text));
    offset_ = chunk->next_offset;
  }
  return true;
}

}  // namespace spillway::rpc
