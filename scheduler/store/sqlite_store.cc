#include "scheduler/store/sqlite_store.h"

#include <sqlite3.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/fold.h"
#include "scheduler/store/schema.h"

namespace spillway::store {
namespace {

int RememberWalPages(void* wal_pages, sqlite3*, const char*, int pages) {
  *static_cast<int64_t*>(wal_pages) = pages;
  return SQLITE_OK;
}

}  // namespace

std::string ChainStart() { return std::string(32, '\0'); }

std::string ChainHash(absl::string_view prev_hash, int64_t seq, int64_t now_ms, absl::string_view body) {
  std::string numbers;
  AppendLittleEndian(&numbers, static_cast<uint64_t>(seq));
  AppendLittleEndian(&numbers, static_cast<uint64_t>(now_ms));
  Sha256 hash;
  hash.Update(prev_hash);
  hash.Update(numbers);
  hash.Update(body);
  const Sha256Digest digest = hash.Finish();
  return std::string(digest.begin(), digest.end());
}

// One statement a table, prepared once; and what a commit begins and ends with.
struct SqliteStore::Statements {
  Statement begin, commit, event_batch, spec, meta, job, task, node, shape, offer, request, forget_request, charge, checkpoint, snapshot;

  static absl::StatusOr<std::unique_ptr<Statements>> Prepare(Database* db) {
    auto all = std::make_unique<Statements>();
    const std::pair<Statement*, const char*> list[] = {
        {&all->begin, "BEGIN IMMEDIATE"},
        {&all->commit, "COMMIT"},
        {&all->event_batch, "INSERT INTO event_batch(seq, n, now_ms, prev_hash, hash, body) VALUES(?,?,?,?,?,?)"},
        {&all->spec, "INSERT OR IGNORE INTO spec(digest, body) VALUES(?,?)"},
        {&all->meta, "INSERT OR REPLACE INTO meta(id, body) VALUES(1,?)"},
        {&all->job, "INSERT OR REPLACE INTO job(id, name, owner, state, live, submitted_ms, ended_ms, body) VALUES(?,?,?,?,?,?,?,?)"},
        {&all->task, "INSERT OR REPLACE INTO task(job, idx, state, live, body) VALUES(?,?,?,?,?)"},
        {&all->node, "INSERT OR REPLACE INTO node(id, name, provider, state, live, body) VALUES(?,?,?,?,?,?)"},
        {&all->shape, "INSERT OR REPLACE INTO shape(id, body) VALUES(?,?)"},
        {&all->offer, "INSERT OR REPLACE INTO offer(provider, name, body) VALUES(?,?,?)"},
        {&all->request, "INSERT OR REPLACE INTO request(id, body) VALUES(?,?)"},
        {&all->forget_request, "DELETE FROM request WHERE id = ?"},
        // A charge is appended, never changed: a second one with its id is an error.
        {&all->charge, "INSERT INTO charge(id, job, node, kind, market, from_ms, to_ms, amount_micros, body) VALUES(?,?,?,?,?,?,?,?,?)"},
        {&all->checkpoint, "INSERT OR REPLACE INTO checkpoint(job, idx, attempt, step, body) VALUES(?,?,?,?,?)"},
        {&all->snapshot, "INSERT OR REPLACE INTO snapshot(seq, body) VALUES(?,?)"},
    };
    for (const auto& [statement, sql] : list) {
      ASSIGN_OR_RETURN(*statement, Statement::Prepare(db, sql));
    }
    return all;
  }
};

SqliteStore::SqliteStore(SqliteOptions options) : options_(std::move(options)) {}
SqliteStore::~SqliteStore() = default;

absl::StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(SqliteOptions options) {
  std::unique_ptr<SqliteStore> store(new SqliteStore(std::move(options)));
  const SqliteOptions& o = store->options_;
  if (o.path != ":memory:" && o.vfs.empty()) {
    ASSIGN_OR_RETURN(store->files_, StoreFiles::Take(o.path, o.ballast_bytes));
  }
  absl::Status opened = store->OpenDatabase();
  if (absl::IsResourceExhausted(opened) && store->files_.GiveUpBallast()) opened = store->OpenDatabase();
  RETURN_IF_ERROR(opened);
  return store;
}

absl::Status SqliteStore::OpenDatabase() {
  const SqliteOptions& o = options_;
  const bool memory = o.path == ":memory:";
  statements_.reset();
  db_ = Database();
  ASSIGN_OR_RETURN(db_, Database::Open(o.path, o.vfs, false));
  Database& db = db_;
  sqlite3_busy_timeout(db.handle(), 5'000);
  RETURN_IF_ERROR(db.Execute("PRAGMA temp_store = MEMORY"));  // no temporary files beside the truth
  RETURN_IF_ERROR(db.Execute("PRAGMA journal_mode = WAL"));
  RETURN_IF_ERROR(db.Execute(o.synchronous ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = OFF"));
  RETURN_IF_ERROR(db.Execute("PRAGMA wal_autocheckpoint = 0"));
  RETURN_IF_ERROR(db.Execute("PRAGMA journal_size_limit = 67108864"));
  RETURN_IF_ERROR(db.Execute("PRAGMA cache_size = -65536"));
  if (o.pages_max > 0) RETURN_IF_ERROR(db.Execute(absl::StrCat("PRAGMA max_page_count = ", o.pages_max)));
  RETURN_IF_ERROR(Migrate(&db));
  // Asked again and after a write: a failed change to WAL may answer "wal", and a rollback journal does not keep promise 1.
  ASSIGN_OR_RETURN(const std::string mode, db.QueryText("PRAGMA journal_mode"));
  if (mode != (memory ? "memory" : "wal")) return absl::InternalError(absl::StrCat("database ", o.path, ": no write-ahead log here (journal mode ", mode, ")"));
  sqlite3_wal_hook(db.handle(), RememberWalPages, &wal_pages_);
  ASSIGN_OR_RETURN(statements_, Statements::Prepare(&db));
  return ReadHead();
}

absl::Status SqliteStore::ReadHead() {
  ASSIGN_OR_RETURN(
      Statement head,
      Statement::Prepare(&db_, "SELECT seq, hash FROM (SELECT seq, hash FROM event_batch UNION ALL SELECT seq, hash FROM chain) ORDER BY seq DESC LIMIT 1"));
  ASSIGN_OR_RETURN(const bool row, head.Start().Next());
  last_seq_ = row ? head.ColumnInt(0) : 0;
  last_hash_ = row ? std::string(head.ColumnBytes(1)) : ChainStart();
  return absl::OkStatus();
}

absl::Status SqliteStore::Commit(const Batch& batch) {
  if (batch.seq != last_seq_ + 1) {
    return absl::InternalError(absl::StrCat("turn ", batch.seq, " to be written after turn ", last_seq_));
  }
  const std::string body = EncodeEvents(batch.events);
  const std::string hash = ChainHash(last_hash_, batch.seq, batch.now_ms, body);
  absl::Status written = statements_->begin.Start().Run();
  if (written.ok()) written = Write(batch, hash, body);
  if (written.ok()) written = statements_->commit.Start().Run();
  if (!written.ok()) {
    db_.Rollback();
    if (absl::IsResourceExhausted(written)) files_.GiveUpBallast();
    return written;
  }
  last_seq_ = batch.seq;
  last_hash_ = hash;
  if (batch.snapshot.has_value()) prune_again_seq_ = 0;
  return absl::OkStatus();
}

absl::Status SqliteStore::Write(const Batch& batch, const std::string& hash, const std::string& body) {
  Statements& s = *statements_;
  RETURN_IF_ERROR(
      s.event_batch.Start().Int(batch.seq).Int(static_cast<int64_t>(batch.events.size())).Int(batch.now_ms).Blob(last_hash_).Blob(hash).Blob(body).Run());
  for (const auto& [digest, bytes] : batch.specs) RETURN_IF_ERROR(s.spec.Start().Blob(digest).Blob(bytes).Run());
  if (batch.meta.has_value()) RETURN_IF_ERROR(s.meta.Start().Blob(Encode(*batch.meta)).Run());
  for (const core::Job& job : batch.jobs) {
    const std::string blob = Encode(job);
    RETURN_IF_ERROR(s.job.Start()
                        .Int(job.id)
                        .Text(job.name)
                        .Text(job.owner)
                        .Int(static_cast<int64_t>(FoldState(job)))
                        .Int(IsLive(job))
                        .Int(job.submitted_ms)
                        .Int(job.ended_ms)
                        .Blob(blob)
                        .Run());
  }
  for (const core::Task& task : batch.tasks) {
    const std::string blob = Encode(task);
    RETURN_IF_ERROR(s.task.Start().Int(task.id.job).Int(task.id.index).Int(static_cast<int64_t>(task.state)).Int(IsLive(task.state)).Blob(blob).Run());
  }
  for (const core::Node& node : batch.nodes) {
    const std::string blob = Encode(node);
    RETURN_IF_ERROR(
        s.node.Start().Int(node.id).Text(node.name).Text(node.provider).Int(static_cast<int64_t>(node.state)).Int(IsLive(node.state)).Blob(blob).Run());
  }
  for (const auto& [id, shape] : batch.shapes) {
    const std::string blob = Encode(shape);
    RETURN_IF_ERROR(s.shape.Start().Int(id).Blob(blob).Run());
  }
  for (const core::Offer& offer : batch.offers) {
    const std::string blob = Encode(offer);
    RETURN_IF_ERROR(s.offer.Start().Text(offer.provider).Text(offer.name).Blob(blob).Run());
  }
  for (const auto& [id, record] : batch.requests) {
    const std::string blob = Encode(record);
    RETURN_IF_ERROR(s.request.Start().Blob(id).Blob(blob).Run());
  }
  for (const std::string& id : batch.deleted_requests) RETURN_IF_ERROR(s.forget_request.Start().Blob(id).Run());
  for (const core::Charge& charge : batch.charges) {
    const std::string blob = Encode(charge);
    RETURN_IF_ERROR(s.charge.Start()
                        .Int(charge.id)
                        .Int(charge.attempt.job)
                        .Int(charge.node)
                        .Text(charge.kind)
                        .Int(static_cast<int64_t>(charge.market))
                        .Int(charge.from_ms)
                        .Int(charge.to_ms)
                        .Int(charge.amount_micros)
                        .Blob(blob)
                        .Run());
  }
  for (const auto& [task, checkpoint] : batch.checkpoints) {
    const std::string blob = Encode(checkpoint);
    RETURN_IF_ERROR(s.checkpoint.Start().Int(task.job).Int(task.index).Int(checkpoint.attempt).Int(checkpoint.step).Blob(blob).Run());
  }
  if (batch.snapshot.has_value()) RETURN_IF_ERROR(s.snapshot.Start().Int(batch.seq).Blob(*batch.snapshot).Run());
  return absl::OkStatus();
}

absl::StatusOr<Loaded> SqliteStore::Load() {
  // One read transaction: a single moment.
  RETURN_IF_ERROR(db_.Execute("BEGIN"));
  auto loaded = [&]() -> absl::StatusOr<Loaded> {
    Loaded out;
    core::State& state = out.state;
    const auto each = [&](const char* sql, auto&& visit) -> absl::Status {
      ASSIGN_OR_RETURN(Statement rows, Statement::Prepare(&db_, sql));
      rows.Start();
      while (true) {
        ASSIGN_OR_RETURN(const bool row, rows.Next());
        if (!row) return absl::OkStatus();
        RETURN_IF_ERROR(visit(rows));
      }
    };
    const auto damaged = [&](const char* table, const absl::Status& why) {
      return absl::Status(why.code(), absl::StrCat("database ", db_.path(), ", table ", table, ": ", std::string(why.message())));
    };
    // Decodes column `body` into T and hands it to `keep`.
    const auto decode = [&]<typename T>(const char* table, absl::string_view body, T* into) -> absl::Status {
      const absl::Status read = FieldReader::Read(body, into);
      return read.ok() ? read : damaged(table, read);
    };
    RETURN_IF_ERROR(each("SELECT body FROM meta", [&](Statement& row) { return decode("meta", row.ColumnBytes(0), &state.meta); }));
    RETURN_IF_ERROR(each("SELECT id, body FROM job WHERE live = 1 ORDER BY id",
                         [&](Statement& row) { return decode("job", row.ColumnBytes(1), &state.jobs[row.ColumnInt(0)].job); }));
    RETURN_IF_ERROR(each("SELECT job, idx, body FROM task WHERE live = 1 ORDER BY job, idx", [&](Statement& row) -> absl::Status {
      const auto job = state.jobs.find(row.ColumnInt(0));
      if (job == state.jobs.end()) {
        return damaged("task", absl::DataLossError(absl::StrCat("task ", TaskId{row.ColumnInt(0), row.ColumnInt(1)}.ToString(), " lives, its job does not")));
      }
      return decode("task", row.ColumnBytes(2), &job->second.tasks[row.ColumnInt(1)]);
    }));
    RETURN_IF_ERROR(each("SELECT id, body FROM node WHERE live = 1 ORDER BY id",
                         [&](Statement& row) { return decode("node", row.ColumnBytes(1), &state.nodes[row.ColumnInt(0)]); }));
    RETURN_IF_ERROR(each("SELECT id, body FROM shape", [&](Statement& row) { return decode("shape", row.ColumnBytes(1), &state.shapes[row.ColumnInt(0)]); }));
    RETURN_IF_ERROR(each("SELECT provider, name, body FROM offer", [&](Statement& row) {
      return decode("offer", row.ColumnBytes(2), &state.offers[{std::string(row.ColumnBytes(0)), std::string(row.ColumnBytes(1))}]);
    }));
    RETURN_IF_ERROR(each("SELECT id, body FROM request",
                         [&](Statement& row) { return decode("request", row.ColumnBytes(1), &state.requests[std::string(row.ColumnBytes(0))]); }));
    // The rows stand at the newest turn; the record behind them must be whole since the newest snapshot.
    ASSIGN_OR_RETURN(const int64_t snapshot_seq, db_.QueryInt("SELECT max(seq) FROM snapshot"));
    RETURN_IF_ERROR(ReadHead());
    RETURN_IF_ERROR(ReadEvents(snapshot_seq, [](EventRecord) { return absl::OkStatus(); }));
    out.last_seq = last_seq_;
    RETURN_IF_ERROR(Index(&state));
    return out;
  }();
  db_.Rollback();
  return loaded;
}

absl::StatusOr<int64_t> SqliteStore::PrunedSeq() { return db_.QueryInt("SELECT seq FROM chain"); }

absl::StatusOr<std::optional<SqliteStore::Snapshot>> SqliteStore::SnapshotFrom(int64_t seq) {
  ASSIGN_OR_RETURN(Statement rows, Statement::Prepare(&db_, "SELECT seq, body FROM snapshot WHERE seq >= ? ORDER BY seq LIMIT 1"));
  ASSIGN_OR_RETURN(const bool row, rows.Start().Int(seq).Next());
  if (!row) return std::optional<Snapshot>();
  return std::optional<Snapshot>(Snapshot{rows.ColumnInt(0), std::string(rows.ColumnBytes(1))});
}

absl::Status SqliteStore::ReadEvents(int64_t after, const std::function<absl::Status(EventRecord)>& visit) {
  const auto broken = [&](int64_t seq, absl::string_view what) {
    return absl::DataLossError(absl::StrCat("database ", db_.path(), ", event record ", seq, ": ", std::string(what)));
  };
  // What the record after `after` must build on.
  std::string expected = ChainStart();
  int64_t seq = after;
  if (after > 0) {
    ASSIGN_OR_RETURN(Statement before,
                     Statement::Prepare(&db_, "SELECT hash FROM event_batch WHERE seq = ?1 UNION ALL SELECT hash FROM chain WHERE seq = ?1 LIMIT 1"));
    ASSIGN_OR_RETURN(const bool row, before.Start().Int(after).Next());
    if (!row) return broken(after, "missing");
    expected = std::string(before.ColumnBytes(0));
  }
  ASSIGN_OR_RETURN(Statement rows, Statement::Prepare(&db_, "SELECT seq, n, now_ms, prev_hash, hash, body FROM event_batch WHERE seq > ? ORDER BY seq"));
  rows.Start().Int(after);
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Next());
    if (!row) break;
    ++seq;
    if (rows.ColumnInt(0) != seq) return broken(seq, "missing");
    if (rows.ColumnBytes(3) != expected) return broken(seq, "does not follow from the one before it (prev_hash)");
    if (ChainHash(expected, seq, rows.ColumnInt(2), rows.ColumnBytes(5)) != rows.ColumnBytes(4)) return broken(seq, "was altered (hash)");
    expected = std::string(rows.ColumnBytes(4));
    auto events = DecodeEvents(rows.ColumnBytes(5));
    if (!events.ok()) return absl::Status(events.status().code(), broken(seq, events.status().message()).message());
    if (static_cast<int64_t>(events->size()) != rows.ColumnInt(1)) return broken(seq, "has another number of events than it says");
    RETURN_IF_ERROR(visit(EventRecord{seq, rows.ColumnInt(2), *std::move(events)}));
  }
  // Rows cut off at the end would leave the state ahead of its record.
  if (seq < last_seq_ && after < last_seq_) return broken(seq + 1, "missing");
  return absl::OkStatus();
}

absl::Status SqliteStore::Maintain() {
  RETURN_IF_ERROR(Prune());
  if (wal_pages_ > options_.wal_pages_idle) {
    // PASSIVE never waits. Only when readers have kept the log from starting over for very long are they waited for, shortly.
    const bool long_log = wal_pages_ > options_.wal_pages_max;
    int pages = 0, moved = 0;
    if (long_log) sqlite3_busy_timeout(db_.handle(), 50);
    const int code = sqlite3_wal_checkpoint_v2(db_.handle(), nullptr, long_log ? SQLITE_CHECKPOINT_RESTART : SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
    if (long_log) sqlite3_busy_timeout(db_.handle(), 5'000);
    if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) {
      const absl::Status error = db_.Error("checkpoint", code);
      if (absl::IsResourceExhausted(error)) files_.GiveUpBallast();
      return error;
    }
    // All moved: the next commit starts the log over.
    if (code == SQLITE_OK && pages == moved) wal_pages_ = 0;
  }
  return files_.RestoreBallast();
}

// Asked after every commit: what can be told without the database is.
absl::Status SqliteStore::Prune() {
  if (last_seq_ < prune_again_seq_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t second_newest, db_.QueryInt("SELECT seq FROM snapshot ORDER BY seq DESC LIMIT 1 OFFSET 1"));
  const int64_t limit = std::min(second_newest, last_seq_ - options_.keep_batches_min);
  ASSIGN_OR_RETURN(const int64_t pruned, PrunedSeq());
  if (limit <= pruned) {
    // Only the next snapshot, or enough turns, will make some records old.
    prune_again_seq_ = second_newest <= pruned ? std::numeric_limits<int64_t>::max() : pruned + options_.keep_batches_min + 1;
    return absl::OkStatus();
  }
  const int64_t until = std::min(limit, pruned + options_.prune_rows);
  // The snapshots that stay must have their events: the oldest kept one is the newest at or before `until`... never newer than the second newest.
  const absl::Status done =
      db_.Execute(absl::StrCat("BEGIN IMMEDIATE; INSERT OR REPLACE INTO chain(id, seq, hash) SELECT 1, seq, hash FROM event_batch WHERE seq = ", until,
                               "; DELETE FROM event_batch WHERE seq <= ", until, "; DELETE FROM snapshot WHERE seq < ", until, "; COMMIT"));
  if (!done.ok()) {
    db_.Rollback();
    if (absl::IsResourceExhausted(done)) files_.GiveUpBallast();
  }
  return done;
}

}  // namespace spillway::store
