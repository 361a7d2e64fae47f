#include "scheduler/engine/restore.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "scheduler/engine/verify.h"
#include "scheduler/store/sqlite_store.h"

namespace spillway::engine {
namespace {

// The highest job that has a folder here.
absl::StatusOr<JobId> HighestJobIn(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
  if (absl::IsNotFound(names.status())) return JobId{0};
  RETURN_IF_ERROR(names.status());
  JobId highest = 0;
  for (const std::string& name : *names) {
    JobId job = 0;
    if (absl::SimpleAtoi(name, &job)) highest = std::max(highest, job);
  }
  return highest;
}

// Where the store says which incarnation of a cluster was the last.
std::string IncarnationFile(const std::string& store_path, const std::string& cluster) { return JoinPath(JoinPath(store_path, "incarnations"), cluster); }

absl::StatusOr<int64_t> IncarnationKept(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, 64);
  if (absl::IsNotFound(text.status())) return int64_t{0};
  RETURN_IF_ERROR(text.status());
  int64_t kept = 0;
  if (!absl::SimpleAtoi(absl::StripSuffix(*text, "\n"), &kept) || kept < 1)
    return absl::DataLossError(absl::StrCat(path, ": not the number of an incarnation"));
  return kept;
}

absl::Status Begin(store::SqliteStore* store, const core::Policy& policy, const core::Restore& command, int64_t now_ms, RestoreDone* done) {
  ASSIGN_OR_RETURN(store::Loaded loaded, store->Load());
  core::State& state = loaded.state;
  now_ms = std::max(now_ms, state.meta.now_ms);
  ASSIGN_OR_RETURN(core::Admission admission, core::Admit(state, command, now_ms, policy));
  core::Changes changes;
  for (const core::Event& event : admission.events) core::Reduce(&state, event, now_ms, &changes);
  RETURN_IF_ERROR(store->Commit(store::MakeBatch(state, changes, loaded.last_seq + 1, std::move(admission.events), {})));
  done->incarnation = state.meta.incarnation;
  done->first_job = state.meta.first_job;
  done->adopt_until_ms = state.meta.adopt_until_ms;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RestoreDone> Restore(const RestoreOptions& options) {
  const std::string& database = options.database;
  for (const char* beside : {"", "-wal"}) {
    if (PathExists(database + beside)) {
      return absl::FailedPreconditionError(absl::StrCat(database, beside, " is there: a restore replaces nothing; move it away first, and keep it"));
    }
  }
  const std::string draft = database + ".restoring";
  const auto forget_draft = [&] {
    for (const char* beside : {"", "-wal", "-shm", ".lock", ".ballast"}) unlink((draft + beside).c_str());
  };
  forget_draft();
  const absl::Cleanup forget = forget_draft;
  RestoreDone done;
  ASSIGN_OR_RETURN(done.backup, store::TakeOut(options.backup, draft));
  const std::string incarnation_file = IncarnationFile(options.store_path, done.backup.cluster_uuid);
  ASSIGN_OR_RETURN(const int64_t kept, IncarnationKept(incarnation_file));
  core::Restore command;
  command.incarnation = std::max(kept, done.backup.incarnation) + 1;
  for (const std::string& folder : {JoinPath(options.store_path, "logs"), JoinPath(JoinPath(options.store_path, "checkpoints"), done.backup.cluster_uuid)}) {
    ASSIGN_OR_RETURN(const JobId highest, HighestJobIn(folder));
    command.seen_job = std::max(command.seen_job, highest);
  }
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<store::SqliteStore> store, store::SqliteStore::Open({.path = draft, .ballast_bytes = 0}));
    RETURN_IF_ERROR(Verify(store.get()).status());
    // First where it is kept: an incarnation that was given up half-way is not lived again either.
    RETURN_IF_ERROR(MakeDirectories(FolderOf(incarnation_file), 0700));
    RETURN_IF_ERROR(WriteFileDurably(incarnation_file, absl::StrCat(command.incarnation, "\n"), 0600));
    RETURN_IF_ERROR(Begin(store.get(), options.policy, command, options.now_ms, &done));
  }
  // The last connection moved its log into the file and removed it.
  if (PathExists(draft + "-wal")) return absl::InternalError(absl::StrCat(draft, ": its log was not moved into it"));
  if (rename(draft.c_str(), database.c_str()) != 0) return ErrnoStatus(errno, database);
  RETURN_IF_ERROR(FsyncDirectory(FolderOf(database)));
  return done;
}

}  // namespace spillway::engine
