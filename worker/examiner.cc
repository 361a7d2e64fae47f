#include "worker/examiner.h"

#include <stdlib.h>

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "worker/staging.h"

namespace spillway::worker {
namespace {

absl::StatusOr<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
  if (real == nullptr) return ErrnoStatus(errno, path);
  return std::string(real.get());
}

CheckpointFound Found(const std::string& checkpoint_dir, const checkpoint::CommittedCheckpoint& committed) {
  return {committed.step, checkpoint::StepDirectory(checkpoint_dir, committed.step), committed.manifest_sha256, committed.bytes};
}

}  // namespace

absl::StatusOr<CheckpointFound> ExamineCheckpoint(const std::string& root, const std::string& checkpoint_dir, const std::string& job_uid,
                                                  const std::string& said_path) {
  ASSIGN_OR_RETURN(const std::string own, InStore(root, checkpoint_dir));
  std::string said = said_path;
  while (said.size() > 1 && said.back() == '/') said.pop_back();
  const std::string name = checkpoint::NameOf(said);
  // A path without folders is meant from the attempt's directory.
  const std::string path = absl::StartsWith(said, "/") ? said : JoinPath(own, said);
  const auto step = checkpoint::ParseStepName(name);
  if (!step.ok() || path != JoinPath(own, name)) {
    return absl::PermissionDeniedError(absl::StrCat("'", Printable(said_path, 300), "' is not a step directory in the attempt's own ", own));
  }
  ASSIGN_OR_RETURN(const std::string real_root, RealPath(root));
  ASSIGN_OR_RETURN(const std::string real, RealPath(path));
  if (real != JoinPath(JoinPath(real_root, checkpoint_dir), name)) {
    return absl::PermissionDeniedError(absl::StrCat(path, " leads out of the attempt's own directory, to ", Printable(real, 300)));
  }
  ASSIGN_OR_RETURN(const checkpoint::CommittedCheckpoint committed, checkpoint::Verify(path, checkpoint::VerifyLevel::kHeaders, job_uid));
  if (committed.step != *step) return absl::DataLossError(absl::StrCat(path, " holds step ", committed.step));
  return Found(checkpoint_dir, committed);
}

absl::StatusOr<std::vector<CheckpointFound>> ScanCheckpointDir(const std::string& root, const std::string& checkpoint_dir, const std::string& job_uid) {
  ASSIGN_OR_RETURN(const std::string own, InStore(root, checkpoint_dir));
  if (PathExists(own)) {
    ASSIGN_OR_RETURN(const std::string real_root, RealPath(root));
    ASSIGN_OR_RETURN(const std::string real, RealPath(own));
    if (real != JoinPath(real_root, checkpoint_dir)) return absl::PermissionDeniedError(absl::StrCat(own, " leads to ", Printable(real, 300)));
  }
  checkpoint::ScanOptions options;
  options.level = checkpoint::VerifyLevel::kHeaders;
  options.job_uid = job_uid;
  ASSIGN_OR_RETURN(const checkpoint::ScanResult scanned, checkpoint::ScanAttempt(own, options));
  std::vector<CheckpointFound> found;
  for (const checkpoint::CommittedCheckpoint& committed : scanned.committed) found.push_back(Found(checkpoint_dir, committed));
  return found;
}

CheckpointChecked Answer(const std::string& root, const CheckCheckpoint& question) {
  auto found = ExamineCheckpoint(root, question.checkpoint_dir, question.job_uid, question.said.path);
  if (!found.ok()) return {question.attempt, question.event, false, {}, std::string(found.status().message())};
  return {question.attempt, question.event, true, *std::move(found), ""};
}

ScanResult Answer(const std::string& root, const ScanCheckpoints& question) {
  auto found = ScanCheckpointDir(root, question.checkpoint_dir, question.job_uid);
  if (!found.ok()) return {question.attempt, {}, found.status().ToString()};
  return {question.attempt, *std::move(found), ""};
}

}  // namespace spillway::worker
