#include "scheduler/store/reader.h"

#include <sqlite3.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "scheduler/store/codec.h"
#include "scheduler/store/fold.h"

namespace spillway::store {

absl::Status HasTask(const core::Job& job, TaskIndex index) {
  if (index >= 0 && index < job.task_count) return absl::OkStatus();
  const std::string there = job.task_count == 1 ? absl::StrCat("its only task is ", job.id, ".0") : absl::StrCat("its tasks are 0 to ", job.task_count - 1);
  return absl::NotFoundError(absl::StrCat("job ", job.id, " has no task ", index, "; ", there));
}

absl::StatusOr<std::unique_ptr<Reader>> Reader::Open(const std::string& path, const std::string& vfs) {
  std::unique_ptr<Reader> reader(new Reader);
  MutexLock lock(&reader->mutex_);
  ASSIGN_OR_RETURN(reader->db_, Database::Open(path, vfs, true));
  // Readers of a write-ahead log wait for nobody, except for the moment in which a log is recovered or started over.
  sqlite3_busy_timeout(reader->db_.handle(), 2'000);
  RETURN_IF_ERROR(reader->db_.QueryInt("SELECT count(*) FROM event_batch WHERE seq < 0").status());
  return reader;
}

template <typename T>
absl::StatusOr<std::vector<T>> Reader::Rows(absl::string_view sql, const std::vector<int64_t>& numbers, const std::string* text) {
  ASSIGN_OR_RETURN(Statement rows, Statement::Prepare(&db_, sql));
  rows.Start();
  if (text != nullptr) rows.Text(*text);
  for (const int64_t number : numbers) rows.Int(number);
  std::vector<T> out;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Next());
    if (!row) return out;
    const absl::Status read = FieldReader::Read(rows.ColumnBytes(0), &out.emplace_back());
    if (!read.ok())
      return absl::Status(read.code(), absl::StrCat("database ", db_.path(), ": a row of [", std::string(sql), "]: ", std::string(read.message())));
  }
}

template <typename T>
absl::StatusOr<T> Reader::One(absl::string_view what, absl::string_view sql, const std::vector<int64_t>& numbers, const std::string* text) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(std::vector<T> rows, Rows<T>(sql, numbers, text));
  if (rows.empty()) return absl::NotFoundError(absl::StrCat("there is no ", std::string(what)));
  return std::move(rows.front());
}

absl::StatusOr<core::Job> Reader::GetJob(JobId id) { return One<core::Job>(absl::StrCat("job ", id), "SELECT body FROM job WHERE id = ?", {id}); }

absl::StatusOr<core::Job> Reader::GetNewestJobNamed(const std::string& name) {
  return One<core::Job>(absl::StrCat("job named '", name, "'"), "SELECT body FROM job WHERE name = ? ORDER BY id DESC LIMIT 1", {}, &name);
}

// The job's row was read before these: where both speak of a task, its own row is the newer.
absl::StatusOr<std::vector<core::Task>> Reader::ListTasks(const core::Job& job, TaskIndex first, int64_t limit) {
  const TaskIndex end = std::min(job.task_count, first + limit);
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(std::vector<core::Task> rows,
                   Rows<core::Task>("SELECT body FROM task WHERE job = ? AND idx >= ? AND idx < ? ORDER BY idx", {job.id, first, end}));
  std::vector<core::Task> tasks;
  auto row = rows.begin();
  for (TaskIndex index = first; index < end; ++index) {
    if (row != rows.end() && row->id.index == index) {
      tasks.push_back(std::move(*row++));
    } else if (std::optional<core::Task> task = core::TaskWithoutRow(job, index)) {
      tasks.push_back(*std::move(task));
    } else {
      return absl::DataLossError(absl::StrCat("database ", db_.path(), ": task ", TaskId{job.id, index}.ToString(), " has begun and has no row"));
    }
  }
  return tasks;
}

absl::StatusOr<core::Task> Reader::GetTask(TaskId id) {
  ASSIGN_OR_RETURN(const core::Job job, GetJob(id.job));
  RETURN_IF_ERROR(HasTask(job, id.index));
  ASSIGN_OR_RETURN(std::vector<core::Task> tasks, ListTasks(job, id.index, 1));
  return std::move(tasks.front());
}

absl::StatusOr<std::vector<core::Job>> Reader::ListJobs(const JobFilter& filter) {
  MutexLock lock(&mutex_);
  const int64_t after = filter.after == 0 && filter.newest_first ? INT64_MAX : filter.after;
  const std::string page = filter.newest_first ? "id < ? ORDER BY id DESC LIMIT ?" : "id > ? ORDER BY id LIMIT ?";
  if (!filter.name.empty() || filter.states.empty()) {
    // Few jobs share a name: their states are compared row by row.
    std::string states;
    for (const TaskState state : filter.states) absl::StrAppend(&states, states.empty() ? "" : ",", static_cast<int>(state));
    const std::string where =
        absl::StrCat(filter.name.empty() ? "" : "name = ? AND ", states.empty() ? "" : absl::StrCat("state IN (", states, ") AND "), page);
    return Rows<core::Job>(absl::StrCat("SELECT body FROM job WHERE ", where), {after, filter.limit}, filter.name.empty() ? nullptr : &filter.name);
  }
  // One page a state, each straight from the index, then the first of all of them: ten live jobs are found at once beside a million ended ones.
  std::vector<core::Job> jobs;
  std::vector<TaskState> states = filter.states;
  std::sort(states.begin(), states.end());
  states.erase(std::unique(states.begin(), states.end()), states.end());
  for (const TaskState state : states) {
    ASSIGN_OR_RETURN(std::vector<core::Job> some,
                     Rows<core::Job>(absl::StrCat("SELECT body FROM job WHERE state = ? AND ", page), {static_cast<int64_t>(state), after, filter.limit}));
    jobs.insert(jobs.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  std::sort(jobs.begin(), jobs.end(), [&](const core::Job& a, const core::Job& b) { return filter.newest_first ? a.id > b.id : a.id < b.id; });
  if (static_cast<int64_t>(jobs.size()) > filter.limit) jobs.resize(static_cast<size_t>(filter.limit));
  return jobs;
}

absl::StatusOr<std::string> Reader::GetSpec(const std::string& digest) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Statement rows, Statement::Prepare(&db_, "SELECT body FROM spec WHERE digest = ?"));
  ASSIGN_OR_RETURN(const bool row, rows.Start().Blob(digest).Next());
  if (!row) return absl::NotFoundError("there is no spec with this digest");
  return std::string(rows.ColumnBytes(0));
}

absl::StatusOr<std::vector<core::CheckpointRef>> Reader::ListCheckpoints(TaskId task, int64_t limit) {
  MutexLock lock(&mutex_);
  return Rows<core::CheckpointRef>("SELECT body FROM checkpoint WHERE job = ? AND idx = ? ORDER BY attempt DESC, step DESC LIMIT ?",
                                   {task.job, task.index, limit});
}

absl::StatusOr<core::Node> Reader::GetNode(NodeId id) { return One<core::Node>(absl::StrCat("node ", id), "SELECT body FROM node WHERE id = ?", {id}); }

absl::StatusOr<std::vector<core::Node>> Reader::ListNodes(bool include_gone, NodeId before, int64_t limit) {
  MutexLock lock(&mutex_);
  return Rows<core::Node>(
      include_gone ? "SELECT body FROM node WHERE id < ? ORDER BY id DESC LIMIT ?" : "SELECT body FROM node WHERE live = 1 AND id < ? ORDER BY id DESC LIMIT ?",
      {before == 0 ? INT64_MAX : before, limit});
}

absl::StatusOr<std::vector<core::Offer>> Reader::ListOffers(const std::string& provider) {
  MutexLock lock(&mutex_);
  if (provider.empty()) return Rows<core::Offer>("SELECT body FROM offer ORDER BY provider, name", {});
  return Rows<core::Offer>("SELECT body FROM offer WHERE provider = ? ORDER BY name", {}, &provider);
}

absl::StatusOr<std::vector<core::Charge>> Reader::ListCharges(const ChargeFilter& filter) {
  MutexLock lock(&mutex_);
  if (filter.job != 0 && filter.node != 0) {
    return Rows<core::Charge>("SELECT body FROM charge WHERE job = ? AND node = ? AND id > ? ORDER BY id LIMIT ?",
                              {filter.job, filter.node, filter.after, filter.limit});
  }
  if (filter.job != 0)
    return Rows<core::Charge>("SELECT body FROM charge WHERE job = ? AND id > ? ORDER BY id LIMIT ?", {filter.job, filter.after, filter.limit});
  if (filter.node != 0)
    return Rows<core::Charge>("SELECT body FROM charge WHERE node = ? AND id > ? ORDER BY id LIMIT ?", {filter.node, filter.after, filter.limit});
  return Rows<core::Charge>("SELECT body FROM charge WHERE id > ? ORDER BY id LIMIT ?", {filter.after, filter.limit});
}

absl::StatusOr<std::vector<CostRow>> Reader::SumCharges(int64_t from_ms, int64_t to_ms) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(
      Statement rows,
      Statement::Prepare(
          &db_,
          "SELECT c.job, coalesce(j.name, ''), c.kind, c.market, c.amount, c.duration FROM (SELECT job, kind, market, sum(amount_micros) AS amount, "
          "sum(to_ms - from_ms) AS duration FROM charge WHERE from_ms >= ? AND from_ms < ? GROUP BY job, kind, market) AS c "
          "LEFT JOIN job AS j ON j.id = c.job ORDER BY c.job, c.kind, c.market"));
  rows.Start().Int(from_ms).Int(to_ms == 0 ? INT64_MAX : to_ms);
  std::vector<CostRow> out;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Next());
    if (!row) return out;
    out.push_back({rows.ColumnInt(0), std::string(rows.ColumnBytes(1)), std::string(rows.ColumnBytes(2)), static_cast<Market>(rows.ColumnInt(3)),
                   rows.ColumnInt(4), rows.ColumnInt(5)});
  }
}

absl::StatusOr<int64_t> Reader::NewestSeq() {
  MutexLock lock(&mutex_);
  return db_.QueryInt("SELECT max(seq) FROM (SELECT max(seq) AS seq FROM event_batch UNION ALL SELECT seq FROM chain)");
}

absl::StatusOr<int64_t> Reader::PrunedSeq() {
  MutexLock lock(&mutex_);
  return db_.QueryInt("SELECT seq FROM chain");
}

absl::StatusOr<std::vector<EventRecord>> Reader::Events(int64_t after_seq, int64_t limit) {
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Statement rows, Statement::Prepare(&db_, "SELECT seq, now_ms, body FROM event_batch WHERE seq > ? ORDER BY seq LIMIT ?"));
  rows.Start().Int(after_seq).Int(limit);
  std::vector<EventRecord> out;
  while (true) {
    ASSIGN_OR_RETURN(const bool row, rows.Next());
    if (!row) return out;
    const int64_t seq = rows.ColumnInt(0);
    if (out.empty() && seq != after_seq + 1) {
      return absl::OutOfRangeError(absl::StrCat("events up to turn ", seq - 1, " are no longer kept: list anew and watch from the answer's event_seq"));
    }
    auto events = DecodeEvents(rows.ColumnBytes(2));
    if (!events.ok())
      return absl::Status(events.status().code(), absl::StrCat("database ", db_.path(), ", event record ", seq, ": ", std::string(events.status().message())));
    out.push_back({seq, rows.ColumnInt(1), *std::move(events)});
  }
}

}  // namespace spillway::store
