// SQLite's C interface with owners: a connection, a prepared statement, and errors as absl::Status that say what the caller may still believe.
// Owns handles; knows no table.
//
//   RESOURCE_EXHAUSTED  the disk is full or read-only: the transaction left nothing behind, or what the same transaction will write again
//   DATA_LOSS           the file is not a database or is damaged
//   UNAVAILABLE         another connection holds a lock
//   INTERNAL            anything else; after a write, its durability is unknown
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace spillway::store {

class Database {
 public:
  Database() = default;
  ~Database();
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;

  // `vfs` "": the default one. `read_only` never creates.
  static absl::StatusOr<Database> Open(const std::string& path, const std::string& vfs, bool read_only);

  // One or more statements without results.
  absl::Status Execute(const std::string& sql);
  absl::StatusOr<int64_t> QueryInt(const std::string& sql);  // first column of the first row; 0 when none
  absl::StatusOr<std::string> QueryText(const std::string& sql);
  bool in_transaction() const;
  void Rollback();  // harmless outside a transaction
  // The error of the last call, made a status. `what` leads the message.
  absl::Status Error(absl::string_view what, int code) const;
  sqlite3* handle() const { return db_; }
  const std::string& path() const { return path_; }

 private:
  sqlite3* db_ = nullptr;
  std::string path_;
};

// Bind, step, read. Reset happens at the next Bind-from-start (Start). Text and blobs bound are copied only where said.
class Statement {
 public:
  Statement() = default;
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;

  static absl::StatusOr<Statement> Prepare(Database* db, absl::string_view sql);

  // Begins a new use: resets, forgets old values. Parameters are then bound in order.
  Statement& Start();
  Statement& Int(int64_t value);
  Statement& Text(absl::string_view value);  // not copied: must outlive the run
  Statement& Blob(absl::string_view value);  // not copied: must outlive the run
  absl::Status Run();                        // to the end; rows are not expected
  absl::StatusOr<bool> Next();               // true: a row is there. Finish() when reading stops early.
  void Finish();

  int64_t ColumnInt(int column) const;
  absl::string_view ColumnBytes(int column) const;  // until the next step
  bool ColumnNull(int column) const;

 private:
  Database* db_ = nullptr;
  sqlite3_stmt* stmt_ = nullptr;
  int next_ = 0;
  int bind_error_ = 0;
};

}  // namespace spillway::store
