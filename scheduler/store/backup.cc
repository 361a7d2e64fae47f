#include "scheduler/store/backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "scheduler/core/model.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/schema.h"
#include "scheduler/store/sqlite.h"

namespace spillway::store {
namespace {

constexpr int kPagesAStep = 64;
constexpr int64_t kRoomLeftMin = 64 << 20;  // beside the copy

absl::Status CheckRoom(const std::string& folder, int64_t bytes) {
  struct statvfs disk;
  if (statvfs(folder.c_str(), &disk) != 0) return ErrnoStatus(errno, folder);
  const int64_t free_bytes = static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
  const int64_t needed = 2 * bytes + kRoomLeftMin;
  if (free_bytes >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(folder, " has ", FormatBytes(free_bytes), " free; a backup needs ", FormatBytes(needed),
                                                   " there while it is made, so that the scheduler has room"));
}

// The read transaction of `from` is open: every page is of one moment, whatever is committed meanwhile.
absl::Status CopyPages(Database* from, Database* to, const std::function<bool()>& go_on) {
  sqlite3_backup* copy = sqlite3_backup_init(to->handle(), "main", from->handle(), "main");
  if (copy == nullptr) return to->Error("backup", sqlite3_errcode(to->handle()));
  int code = SQLITE_OK;
  bool stopped = false;
  while (code == SQLITE_OK && !stopped) {
    code = sqlite3_backup_step(copy, kPagesAStep);
    stopped = code == SQLITE_OK && !go_on();
  }
  const int finished = sqlite3_backup_finish(copy);
  if (stopped) return absl::CancelledError("the backup was given up");
  if (code != SQLITE_DONE) return to->Error("backup", code);
  return finished == SQLITE_OK ? absl::OkStatus() : to->Error("backup", finished);
}

absl::StatusOr<BackupInfo> InfoOf(Database* db) {
  BackupInfo info;
  ASSIGN_OR_RETURN(const std::string body, db->QueryText("SELECT body FROM meta"));
  core::Meta meta;
  const absl::Status read = FieldReader::Read(body, &meta);
  if (!read.ok()) return absl::Status(read.code(), absl::StrCat("database ", db->path(), ", table meta: ", std::string(read.message())));
  info.cluster_uuid = meta.cluster_uuid;
  info.incarnation = meta.incarnation;
  info.now_ms = meta.now_ms;
  ASSIGN_OR_RETURN(info.seq, db->QueryInt("SELECT max(seq) FROM (SELECT seq FROM event_batch UNION ALL SELECT seq FROM chain)"));
  return info;
}

absl::Status Fsync(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path);
  const absl::Cleanup shut = [fd] { close(fd); };
  return fsync(fd) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path);
}

absl::StatusOr<int64_t> SizeOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  return static_cast<int64_t>(info.st_size);
}

}  // namespace

absl::StatusOr<BackupInfo> BackUp(const std::string& database, const std::string& to, const std::function<bool()>& go_on) {
  ASSIGN_OR_RETURN(Database from, Database::Open(database, "", true));
  sqlite3_busy_timeout(from.handle(), 2'000);
  RETURN_IF_ERROR(from.Execute("BEGIN"));
  ASSIGN_OR_RETURN(BackupInfo info, InfoOf(&from));
  ASSIGN_OR_RETURN(const int64_t pages, from.QueryInt("PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t page_bytes, from.QueryInt("PRAGMA page_size"));
  const size_t slash = to.rfind('/');
  RETURN_IF_ERROR(CheckRoom(slash == std::string::npos ? "." : to.substr(0, slash + 1), pages * page_bytes));

  for (const char* beside : {"", "-journal", "-wal", "-shm"}) unlink((to + beside).c_str());
  const int fd = open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, to);
  close(fd);
  absl::Cleanup forget = [&] { unlink(to.c_str()); };
  {
    ASSIGN_OR_RETURN(Database copy, Database::Open(to, "", false));
    // Nobody reads it before it is whole: one sync at the end is enough, and a log of the copying none.
    RETURN_IF_ERROR(copy.Execute("PRAGMA synchronous = OFF"));
    RETURN_IF_ERROR(CopyPages(&from, &copy, go_on));
    RETURN_IF_ERROR(copy.QueryText("PRAGMA journal_mode = DELETE").status());
  }
  from.Rollback();
  RETURN_IF_ERROR(Fsync(to));
  ASSIGN_OR_RETURN(info.bytes, SizeOf(to));
  std::move(forget).Cancel();
  return info;
}

absl::StatusOr<BackupInfo> ReadBackup(const std::string& path) {
  if (!PathExists(path)) return absl::NotFoundError(absl::StrCat(path, " is not there"));
  ASSIGN_OR_RETURN(Database db, Database::Open(path, "", true));
  ASSIGN_OR_RETURN(const int64_t version, StoredSchemaVersion(&db));
  if (version == 0) return absl::DataLossError(absl::StrCat(path, " is no backup of a scheduler"));
  if (version > SchemaVersion()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " has schema version ", version, ", this program knows up to ", SchemaVersion(), ": a newer one wrote it"));
  }
  ASSIGN_OR_RETURN(const std::string whole, db.QueryText("PRAGMA quick_check(1)"));
  if (whole != "ok") return absl::DataLossError(absl::StrCat(path, " is damaged: ", whole));
  ASSIGN_OR_RETURN(BackupInfo info, InfoOf(&db));
  ASSIGN_OR_RETURN(info.bytes, SizeOf(path));
  return info;
}

}  // namespace spillway::store
