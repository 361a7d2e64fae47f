// What the machine does without us: the disk, SQLite, starting processes.
#include <fcntl.h>
#include <spawn.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "tests/bench/load.h"

extern char** environ;

namespace spillway::bench {

nlohmann::json Quantiles(std::vector<double> values) {
  if (values.empty()) return nlohmann::json::object();
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))]; };
  return {{"p50", at(0.5)}, {"p99", at(0.99)}, {"max", values.back()}};
}

Measured RawWrites(const std::string& folder, double seconds) {
  const std::string path = JoinPath(folder, "raw");
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, path);
  const absl::Cleanup end = [&] { close(fd), unlink(path.c_str()); };
  const std::string block(4'096, 'x');
  const double began = MonotonicSeconds();
  int64_t writes = 0;
  double took = 0;
  for (; took < seconds; took = MonotonicSeconds() - began, ++writes) {
    if (write(fd, block.data(), block.size()) != static_cast<ssize_t>(block.size()) || fdatasync(fd) != 0) return ErrnoStatus(errno, path);
  }
  return nlohmann::json{{"per_second", static_cast<double>(writes) / took}};
}

namespace {

struct CloseDatabase {
  void operator()(sqlite3* db) const { sqlite3_close(db); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

absl::StatusOr<Database> OpenDatabase(const std::string& path, int flags) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, flags, nullptr);
  Database out(db);
  if (code != SQLITE_OK) return absl::UnavailableError(absl::StrCat(path, ": ", sqlite3_errstr(code)));
  return out;
}

absl::Status Execute(const Database& db, const std::string& sql) {
  if (sqlite3_exec(db.get(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(sql, ": ", sqlite3_errmsg(db.get())));
}

// Calls `row` with each row of the answer.
template <typename Row>
absl::Status ForEachRow(const Database& db, const std::string& sql, Row row) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(db.get(), sql.c_str(), -1, &statement, nullptr);
  const absl::Cleanup end = [&] { sqlite3_finalize(statement); };
  if (code == SQLITE_OK) {
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) row(statement);
  }
  return code == SQLITE_DONE ? absl::OkStatus() : absl::InternalError(absl::StrCat(sql, ": ", sqlite3_errmsg(db.get())));
}

}  // namespace

Measured RawCommits(const std::string& folder, int64_t rows_per_commit, int64_t row_bytes, double seconds) {
  const std::string path = JoinPath(folder, "raw.db");
  const absl::Cleanup end = [&] {
    for (const char* suffix : {"", "-wal", "-shm"}) unlink(absl::StrCat(path, suffix).c_str());
  };
  ASSIGN_OR_RETURN(const Database db, OpenDatabase(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE));
  RETURN_IF_ERROR(Execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, body BLOB)"));
  sqlite3_stmt* insert = nullptr;
  if (sqlite3_prepare_v2(db.get(), "INSERT INTO t(body) VALUES(?)", -1, &insert, nullptr) != SQLITE_OK) return absl::InternalError(sqlite3_errmsg(db.get()));
  const absl::Cleanup forget = [&] { sqlite3_finalize(insert); };
  const std::string body(static_cast<size_t>(row_bytes), 'x');
  const double began = MonotonicSeconds();
  int64_t rows = 0;
  double took = 0;
  for (; took < seconds; took = MonotonicSeconds() - began) {
    RETURN_IF_ERROR(Execute(db, "BEGIN IMMEDIATE"));
    for (int64_t i = 0; i < rows_per_commit; ++i, ++rows) {
      sqlite3_bind_blob(insert, 1, body.data(), static_cast<int>(body.size()), SQLITE_STATIC);
      if (sqlite3_step(insert) != SQLITE_DONE) return absl::InternalError(sqlite3_errmsg(db.get()));
      sqlite3_reset(insert);
    }
    RETURN_IF_ERROR(Execute(db, "COMMIT"));
  }
  return nlohmann::json{{"per_second", static_cast<double>(rows) / took}};
}

Measured RawScan(const std::string& database) {
  const double began = MonotonicSeconds();
  ASSIGN_OR_RETURN(const Database db, OpenDatabase(database, SQLITE_OPEN_READONLY));
  std::vector<std::string> tables;
  RETURN_IF_ERROR(ForEachRow(db, "SELECT name FROM sqlite_master WHERE type = 'table'",
                             [&](sqlite3_stmt* row) { tables.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(row, 0))); }));
  int64_t rows = 0, bytes = 0;
  for (const std::string& table : tables) {
    RETURN_IF_ERROR(ForEachRow(db, absl::StrCat("SELECT * FROM \"", table, "\""), [&](sqlite3_stmt* row) {
      ++rows;
      for (int i = 0; i < sqlite3_column_count(row); ++i) {
        sqlite3_column_blob(row, i);
        bytes += sqlite3_column_bytes(row, i);
      }
    }));
  }
  return nlohmann::json{{"seconds", MonotonicSeconds() - began}, {"rows", rows}, {"bytes", bytes}};
}

Measured RawSpawns(int64_t count, int64_t concurrency) {
  const double began = MonotonicSeconds();
  for (int64_t started = 0, ended = 0; ended < count;) {
    if (started < count && started - ended < concurrency) {
      char program[] = "/bin/true";
      char* argv[] = {program, nullptr};
      pid_t pid;
      if (const int error = posix_spawn(&pid, program, nullptr, nullptr, argv, environ); error != 0) return ErrnoStatus(error, program);
      ++started;
      continue;
    }
    int status = 0;
    if (wait(&status) < 0) return ErrnoStatus(errno, "wait");
    if (status != 0) return absl::InternalError("/bin/true failed");
    ++ended;
  }
  const double took = MonotonicSeconds() - began;
  return nlohmann::json{{"seconds", took}, {"per_second", static_cast<double>(count) / took}};
}

}  // namespace spillway::bench
