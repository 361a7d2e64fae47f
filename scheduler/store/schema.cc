#include "scheduler/store/schema.h"

#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace spillway::store {
namespace {

// Every row table holds the newest committed value of a thing as a codec blob (proto/spillway/store/v1) and beside it the few columns that readers search by.
// `live` rows are the state; the others are history. Tasks that never began have no row: what they are is in their job's (core::TaskWithoutRow).
// event_batch is the packed record of turns; hash = SHA-256(prev_hash, seq, now_ms as 8 bytes each, little endian, body). Records older than the two newest
// snapshots are pruned; `chain` keeps the seq and hash of the newest pruned one, so that the chain has a known beginning.
constexpr Migration kMigrations[] = {
    {"the first tables", R"sql(
      CREATE TABLE event_batch(seq INTEGER PRIMARY KEY, n INTEGER NOT NULL, now_ms INTEGER NOT NULL, prev_hash BLOB NOT NULL, hash BLOB NOT NULL, body BLOB NOT NULL);
      CREATE TABLE chain(id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, hash BLOB NOT NULL);
      CREATE TABLE snapshot(seq INTEGER PRIMARY KEY, body BLOB NOT NULL);
      CREATE TABLE meta(id INTEGER PRIMARY KEY CHECK (id = 1), body BLOB NOT NULL);

      CREATE TABLE spec(digest BLOB PRIMARY KEY, body BLOB NOT NULL);
      CREATE TABLE job(id INTEGER PRIMARY KEY, name TEXT NOT NULL, owner TEXT NOT NULL, state INTEGER NOT NULL, live INTEGER NOT NULL,
                       submitted_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, body BLOB NOT NULL);
      CREATE INDEX job_by_name ON job(name, id);
      CREATE INDEX job_by_state ON job(state, id);
      CREATE INDEX job_live ON job(id) WHERE live = 1;
      CREATE TABLE task(job INTEGER NOT NULL, idx INTEGER NOT NULL, state INTEGER NOT NULL, live INTEGER NOT NULL, body BLOB NOT NULL,
                        PRIMARY KEY(job, idx)) WITHOUT ROWID;
      CREATE INDEX task_live ON task(job, idx) WHERE live = 1;

      CREATE TABLE node(id INTEGER PRIMARY KEY, name TEXT NOT NULL, provider TEXT NOT NULL, state INTEGER NOT NULL, live INTEGER NOT NULL, body BLOB NOT NULL);
      CREATE INDEX node_live ON node(id) WHERE live = 1;
      CREATE INDEX node_by_name ON node(name, id);
      CREATE TABLE shape(id INTEGER PRIMARY KEY, body BLOB NOT NULL);
      CREATE TABLE offer(provider TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY(provider, name)) WITHOUT ROWID;
      CREATE TABLE request(id BLOB PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;

      CREATE TABLE checkpoint(job INTEGER NOT NULL, idx INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL, body BLOB NOT NULL,
                              PRIMARY KEY(job, idx, attempt, step)) WITHOUT ROWID;
      CREATE TABLE charge(id INTEGER PRIMARY KEY, job INTEGER NOT NULL, node INTEGER NOT NULL, kind TEXT NOT NULL, market INTEGER NOT NULL,
                          from_ms INTEGER NOT NULL, to_ms INTEGER NOT NULL, amount_micros INTEGER NOT NULL, body BLOB NOT NULL);
      CREATE INDEX charge_by_job ON charge(job, id);
      CREATE INDEX charge_by_node ON charge(node, id);
      CREATE INDEX charge_by_time ON charge(from_ms);
    )sql"},
    // Nothing in the tables: what the rows say that a program from before does not read. It would run cancelled tasks, more than `parallel` at once, and forget deadlines.
    {"arrays and deadlines in rows and events", ""},
    // A program from before would take a member that has stopped for one that lives, and start a gang before all of it has accepted.
    {"members of gangs in rows and events", ""},
    // Nothing in the tables either. It would begin again what may still run, and give ids a second time.
    {"restores from a backup", ""},
};

}  // namespace

const std::vector<Migration>& Migrations() {
  static const auto* const all = new std::vector<Migration>(std::begin(kMigrations), std::end(kMigrations));
  return *all;
}

int SchemaVersion() { return static_cast<int>(Migrations().size()); }

absl::StatusOr<int64_t> StoredSchemaVersion(Database* db) {
  ASSIGN_OR_RETURN(const int64_t known, db->QueryInt("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'schema_version'"));
  if (known == 0) return 0;
  return db->QueryInt("SELECT max(version) FROM schema_version");
}

absl::Status Migrate(Database* db) { return MigrateWith(Migrations(), db); }

absl::Status MigrateWith(const std::vector<Migration>& migrations, Database* db) {
  const auto newest = static_cast<int64_t>(migrations.size());
  ASSIGN_OR_RETURN(const int64_t found, StoredSchemaVersion(db));
  if (found > newest) {
    return absl::FailedPreconditionError(absl::StrCat("database ", db->path(), " has schema version ", found, ", this program knows up to ", newest,
                                                      ": it was written by a newer version; run that one"));
  }
  for (int64_t version = found + 1; version <= newest; ++version) {
    const Migration& migration = migrations[static_cast<size_t>(version - 1)];
    const absl::Status done =
        db->Execute(absl::StrCat("BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS schema_version(version INTEGER PRIMARY KEY, what TEXT NOT NULL);", migration.sql,
                                 "INSERT INTO schema_version VALUES(", version, ", '", migration.what, "'); COMMIT"));
    if (!done.ok()) {
      db->Rollback();
      return absl::Status(done.code(), absl::StrCat("migration ", version, " (", migration.what, "): ", std::string(done.message())));
    }
  }
  return absl::OkStatus();
}

}  // namespace spillway::store
