// The roles of bench-load, the program that stands at the other end of what is measured: client, many workers, and the raw limits of the same machine.
// Each role does one thing, measures it and says so as one JSON object; what is compared with what, and how often, is its caller's business.
// A role that meets anything but success ends with an error: a figure of a run that failed in part would be a wrong one.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"

namespace spillway::bench {

using Measured = absl::StatusOr<nlohmann::json>;

// Of the whole machine: comparable between processes.
inline double MonotonicSeconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// {"p50": , "p99": , "max": } of what was measured, in its own unit; empty for nothing.
nlohmann::json Quantiles(std::vector<double> values);

// --- raw limits: what the machine does without us (raw_limits.cc) ---
Measured RawWrites(const std::string& folder, double seconds);                                               // 4 KiB appended and synced, one after another
Measured RawCommits(const std::string& folder, int64_t rows_per_commit, int64_t row_bytes, double seconds);  // SQLite as the store sets it: WAL, FULL
Measured RawScan(const std::string& database);                                                               // every column of every row read once
Measured RawSpawns(int64_t count, int64_t concurrency);                                                      // posix_spawn of /bin/true and wait

// --- a training program with so many bytes of tensors, which it saves and restores as its input says (checkpoint_files.cc); says its tensors first ---
Measured PlayTraining(int64_t bytes);

// --- a gRPC server that answers at once and does nothing else (bare_server.cc); prints its port, ends when its input does ---
Measured ServeBare();

// --- clients (client_load.cc) ---
struct Server {
  std::string address, token_file;  // token_file "": none
};
struct Jobs {
  std::string program = "/bin/true", node;  // node "": any
  int64_t cpu_milli = 1'000, spec_bytes = 0;
  int64_t array = 0;      // so many tasks of each; 0: no array
  std::string tag = "0";  // runs of different tags have no spec in common
};
// `callers` calls on their way at any time until `calls` are answered, each with `per_call` distinct jobs.
Measured Submit(const Server& server, const Jobs& jobs, int64_t callers, int64_t calls, int64_t per_call);
// `count` jobs in one call, and from that call until all their tasks have ended.
Measured RunAll(const Server& server, const Jobs& jobs, int64_t count);
// Pages from anywhere among the jobs up to `last_job`, one call after another.
Measured ListPages(const Server& server, int64_t pages, int64_t page_size, int64_t last_job);
// The same of the `tasks` tasks of one job.
Measured ListTaskPages(const Server& server, int64_t pages, int64_t page_size, JobId job, int64_t tasks);
// How many jobs, or tasks of `job` where it is not 0, are in each state; `finished`: a file of tasks, and how many of them have not SUCCEEDED.
Measured CountStates(const Server& server, JobId job, const std::string& finished);
// In turns: a spawn of the program `mark` by us until it runs, and a submit of it until it runs and then until it has ended.
Measured SubmitToRunning(const Server& server, const Jobs& jobs, const std::string& mark, const std::string& socket, int64_t count);

// --- many workers in one process, each with a connection of its own (played_workers.cc) ---
struct Workers {
  std::string name = "played";
  int64_t count = 1, slots = 1'000;  // slots: cpus of each
  int64_t renew_ms = 10'000;
};
// Says {"ready": true} when all are welcome, then renews for `seconds`.
Measured RenewSessions(const Server& server, const Workers& workers, double seconds);
// Every offer is accepted, started and ended at once, until `tasks` ends are acknowledged or the scheduler is gone. Writes the tasks whose end was acknowledged
// to `finished`, where named. Says {"ready": true} first.
Measured RunNothing(const Server& server, const Workers& workers, int64_t tasks, const std::string& finished);
// Every offer is accepted and started and none ends. Says {"ready": true}, then {"held": jobs} when so many run, and stays until its input ends.
Measured HoldForever(const Server& server, const Workers& workers, int64_t jobs);

}  // namespace spillway::bench
