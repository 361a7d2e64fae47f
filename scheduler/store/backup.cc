#include "scheduler/store/backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/sha256.h"
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

absl::StatusOr<int64_t> SizeOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, path);
  return static_cast<int64_t>(info.st_size);
}

// What stands behind the database's pages: the digest of all of them. SQLite looks at no more than its header counts.
constexpr absl::string_view kSeal = "SPWBACK1";
constexpr size_t kSealBytes = kSeal.size() + sizeof(Sha256Digest);

// `bytes` of what `fd` reads, each piece to `take`.
absl::Status ReadEach(int fd, const std::string& path, int64_t bytes, const std::function<absl::Status(absl::string_view)>& take) {
  std::string buffer(1 << 20, '\0');
  while (bytes > 0) {
    const ssize_t got = read(fd, buffer.data(), static_cast<size_t>(std::min<int64_t>(bytes, static_cast<int64_t>(buffer.size()))));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, path);
    if (got == 0) return absl::DataLossError(absl::StrCat(path, " became shorter"));
    RETURN_IF_ERROR(take(absl::string_view(buffer.data(), static_cast<size_t>(got))));
    bytes -= got;
  }
  return absl::OkStatus();
}

absl::string_view ViewOf(const Sha256Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

absl::Status Seal(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path);
  const absl::Cleanup shut = [fd] { close(fd); };
  ASSIGN_OR_RETURN(const int64_t bytes, SizeOf(path));
  Sha256 hash;
  RETURN_IF_ERROR(ReadEach(fd, path, bytes, [&](absl::string_view piece) {
    hash.Update(piece);
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(WriteAll(fd, absl::StrCat(kSeal, ViewOf(hash.Finish())), path));
  return fsync(fd) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path);
}

// The database in it, when it is what was sealed; else there is no `to`. The bytes of the whole backup.
absl::StatusOr<int64_t> CopySealed(const std::string& backup, const std::string& to) {
  const int in = open(backup.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);  // a pipe is not waited for
  if (in < 0) return ErrnoStatus(errno, backup);
  const absl::Cleanup shut_in = [in] { close(in); };
  struct stat info;
  if (fstat(in, &info) != 0) return ErrnoStatus(errno, backup);
  const absl::Status none = absl::DataLossError(absl::StrCat(backup, " is no backup of a scheduler, or it was cut short"));
  if (!S_ISREG(info.st_mode) || static_cast<size_t>(info.st_size) <= kSealBytes) return none;
  const int64_t pages = static_cast<int64_t>(info.st_size) - static_cast<int64_t>(kSealBytes);
  const int out = open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (out < 0) return ErrnoStatus(errno, to);
  const absl::Cleanup shut_out = [out] { close(out); };
  absl::Cleanup forget = [&] { unlink(to.c_str()); };
  Sha256 hash;
  RETURN_IF_ERROR(ReadEach(in, backup, pages, [&](absl::string_view piece) {
    hash.Update(piece);
    return WriteAll(out, piece, to);
  }));
  std::string seal;
  RETURN_IF_ERROR(ReadEach(in, backup, static_cast<int64_t>(kSealBytes), [&](absl::string_view piece) {
    absl::StrAppend(&seal, piece);
    return absl::OkStatus();
  }));
  if (!absl::StartsWith(seal, kSeal)) return none;
  if (seal.substr(kSeal.size()) != ViewOf(hash.Finish())) return absl::DataLossError(absl::StrCat(backup, " is damaged: it is not what was written"));
  if (fsync(out) != 0) return ErrnoStatus(errno, to);
  std::move(forget).Cancel();
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
  RETURN_IF_ERROR(Seal(to));
  ASSIGN_OR_RETURN(info.bytes, SizeOf(to));
  std::move(forget).Cancel();
  return info;
}

absl::StatusOr<BackupInfo> TakeOut(const std::string& backup, const std::string& to) {
  ASSIGN_OR_RETURN(const int64_t bytes, CopySealed(backup, to));
  absl::Cleanup forget = [&] { unlink(to.c_str()); };
  ASSIGN_OR_RETURN(Database db, Database::Open(to, "", true));
  ASSIGN_OR_RETURN(const int64_t version, StoredSchemaVersion(&db));
  if (version > SchemaVersion()) {
    return absl::FailedPreconditionError(
        absl::StrCat(backup, " has schema version ", version, ", this program knows up to ", SchemaVersion(), ": a newer one wrote it"));
  }
  ASSIGN_OR_RETURN(const std::string whole, db.QueryText("PRAGMA quick_check(1)"));
  if (whole != "ok") return absl::DataLossError(absl::StrCat(backup, " was made of a damaged database: ", whole));
  ASSIGN_OR_RETURN(BackupInfo info, InfoOf(&db));
  info.bytes = bytes;
  std::move(forget).Cancel();
  return info;
}

}  // namespace spillway::store
