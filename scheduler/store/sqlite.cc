#include "scheduler/store/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::store {
namespace {

// The errno of the last call that failed on the log, else on the database. SQLite keeps it with the file; what it keeps with the connection
// (sqlite3_system_errno) does not know of a failed COMMIT.
int FileErrno(sqlite3* db) {
  sqlite3_file* log = nullptr;
  int error = 0;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK && log != nullptr && log->pMethods != nullptr) {
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  if (error == 0) sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  return error != 0 ? error : sqlite3_system_errno(db);
}

}  // namespace

Database::~Database() {
  if (db_ != nullptr) sqlite3_close_v2(db_);
}

Database::Database(Database&& other) noexcept : db_(std::exchange(other.db_, nullptr)), path_(std::move(other.path_)) {}

Database& Database::operator=(Database&& other) noexcept {
  std::swap(db_, other.db_);
  std::swap(path_, other.path_);
  return *this;
}

absl::StatusOr<Database> Database::Open(const std::string& path, const std::string& vfs, bool read_only) {
  Database db;
  db.path_ = path;
  const int flags = SQLITE_OPEN_NOMUTEX | (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  const int code = sqlite3_open_v2(path.c_str(), &db.db_, flags, vfs.empty() ? nullptr : vfs.c_str());
  if (code != SQLITE_OK) return db.Error("cannot open", code);
  sqlite3_extended_result_codes(db.db_, 1);
  return db;
}

absl::Status Database::Execute(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(sql.substr(0, 60), code);
}

absl::StatusOr<int64_t> Database::QueryInt(const std::string& sql) {
  ASSIGN_OR_RETURN(Statement statement, Statement::Prepare(this, sql));
  ASSIGN_OR_RETURN(const bool row, statement.Start().Next());
  return row ? statement.ColumnInt(0) : 0;
}

absl::StatusOr<std::string> Database::QueryText(const std::string& sql) {
  ASSIGN_OR_RETURN(Statement statement, Statement::Prepare(this, sql));
  ASSIGN_OR_RETURN(const bool row, statement.Start().Next());
  return row ? std::string(statement.ColumnBytes(0)) : std::string();
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }

void Database::Rollback() {
  // SQLite rolls back by itself on most errors; an error here means just that.
  if (in_transaction()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
}

absl::Status Database::Error(absl::string_view what, int code) const {
  const int system_errno = db_ != nullptr && (code & 0xff) == SQLITE_IOERR ? FileErrno(db_) : 0;
  const char* const system_words = system_errno == 0 ? nullptr : strerrordesc_np(system_errno);
  const std::string message =
      absl::StrCat("database ", path_, ": ", std::string(what), ": ", Printable(db_ == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db_), 400), " (", code,
                   system_words == nullptr ? "" : absl::StrCat(", ", system_words), ")");
  // Only a write may be refused harmlessly: for want of room, or because the disk went read-only. So may the log's index, which is never read after a crash: the
  // turn that was being written is then written again in its place, or, after a restart, was whole. A failed sync has lost what it was to make durable,
  // whatever its errno.
  const bool refused = code == SQLITE_FULL || code == SQLITE_IOERR_SHMSIZE ||
                       (code == SQLITE_IOERR_WRITE && (system_errno == ENOSPC || system_errno == EDQUOT || system_errno == EROFS));
  if (refused) return absl::ResourceExhaustedError(message);
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return absl::DataLossError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return absl::UnavailableError(message);
    default: return absl::InternalError(message);
  }
}

Statement::~Statement() { sqlite3_finalize(stmt_); }

Statement::Statement(Statement&& other) noexcept
    : db_(other.db_), stmt_(std::exchange(other.stmt_, nullptr)), next_(other.next_), bind_error_(other.bind_error_) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(db_, other.db_);
  std::swap(stmt_, other.stmt_);
  std::swap(next_, other.next_);
  std::swap(bind_error_, other.bind_error_);
  return *this;
}

absl::StatusOr<Statement> Statement::Prepare(Database* db, absl::string_view sql) {
  Statement statement;
  statement.db_ = db;
  const int code = sqlite3_prepare_v3(db->handle(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &statement.stmt_, nullptr);
  if (code != SQLITE_OK) return db->Error(sql.substr(0, 60), code);
  return statement;
}

Statement& Statement::Start() {
  sqlite3_reset(stmt_);
  sqlite3_clear_bindings(stmt_);
  next_ = 0;
  bind_error_ = SQLITE_OK;
  return *this;
}

Statement& Statement::Int(int64_t value) {
  if (const int code = sqlite3_bind_int64(stmt_, ++next_, value); code != SQLITE_OK) bind_error_ = code;
  return *this;
}

Statement& Statement::Text(absl::string_view value) {
  // A null pointer would bind NULL.
  const char* data = value.data() == nullptr ? "" : value.data();
  if (const int code = sqlite3_bind_text64(stmt_, ++next_, data, value.size(), SQLITE_STATIC, SQLITE_UTF8); code != SQLITE_OK) bind_error_ = code;
  return *this;
}

Statement& Statement::Blob(absl::string_view value) {
  const char* data = value.data() == nullptr ? "" : value.data();
  if (const int code = sqlite3_bind_blob64(stmt_, ++next_, data, value.size(), SQLITE_STATIC); code != SQLITE_OK) bind_error_ = code;
  return *this;
}

absl::StatusOr<bool> Statement::Next() {
  if (bind_error_ != SQLITE_OK) return db_->Error("bind", bind_error_);
  const int code = sqlite3_step(stmt_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    sqlite3_reset(stmt_);
    return false;
  }
  const absl::Status error = db_->Error(absl::string_view(sqlite3_sql(stmt_)).substr(0, 60), code);
  sqlite3_reset(stmt_);
  return error;
}

absl::Status Statement::Run() {
  ASSIGN_OR_RETURN(const bool row, Next());
  if (row) sqlite3_reset(stmt_);
  return absl::OkStatus();
}

void Statement::Finish() { sqlite3_reset(stmt_); }

int64_t Statement::ColumnInt(int column) const { return sqlite3_column_int64(stmt_, column); }

absl::string_view Statement::ColumnBytes(int column) const {
  const void* data = sqlite3_column_blob(stmt_, column);
  return absl::string_view(static_cast<const char*>(data), static_cast<size_t>(sqlite3_column_bytes(stmt_, column)));
}

bool Statement::ColumnNull(int column) const { return sqlite3_column_type(stmt_, column) == SQLITE_NULL; }

}  // namespace spillway::store
