// What a program that runs under Spillway reads and says: its SPILLWAY_ variables, the job's socket, the notice file. Everything here
// also works outside Spillway, where the variables are absent and nobody listens. Never blocks the program for longer than stated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ids.h"

namespace spillway::checkpoint {

// The exit code that says: I was asked to stop and committed a new checkpoint; run me again.
inline constexpr int kExitRunMeAgain = 85;

struct RunEnv {
  bool under_spillway = false;             // SPILLWAY_JOB_ID is set
  JobId job_id = 0;                        // SPILLWAY_JOB_ID
  TaskIndex task_index = 0;                // SPILLWAY_TASK_INDEX
  AttemptNumber attempt = 1;               // SPILLWAY_ATTEMPT
  std::string job_uid;                     // SPILLWAY_JOB_UID
  std::string cluster;                     // SPILLWAY_CLUSTER
  std::string checkpoint_dir;              // SPILLWAY_CHECKPOINT_DIR: this attempt's own
  std::string resume_from;                 // SPILLWAY_RESUME_FROM: a step directory, or "" for a fresh start
  std::string socket;                      // SPILLWAY_SOCKET
  std::string notice_file;                 // SPILLWAY_NOTICE_FILE
  std::optional<int64_t> deadline_utc_ms;  // SPILLWAY_DEADLINE, RFC 3339

  static absl::StatusOr<RunEnv> FromEnvironment();
  // INVALID_ARGUMENT naming the variable when one does not parse. `lookup` gives nullptr for a variable that is not set.
  static absl::StatusOr<RunEnv> From(const std::function<const char*(const char*)>& lookup);
};

// Speaks to the supervisor: a Unix datagram socket, one JSON object a message.
class Reporter {
 public:
  struct Options {
    // How long Checkpoint and Completed keep trying when the socket is full or gone for a moment (its owner may be restarting).
    int tries = 200;
    int wait_ms = 10;
    std::function<void(int ms)> sleep_ms;  // default: usleep
  };

  // "" gives a reporter that says nothing. INVALID_ARGUMENT for a path that no socket can have.
  static absl::StatusOr<Reporter> Open(const std::string& socket_path, Options options);
  static absl::StatusOr<Reporter> Open(const std::string& socket_path) { return Open(socket_path, Options()); }
  ~Reporter();
  Reporter(Reporter&& other) noexcept;
  Reporter& operator=(Reporter&&) = delete;

  // Sent at once or dropped and counted. Metrics that are not finite, and those after the first limits::kMetricsPerProgressMax, are left out.
  // total 0: not known.
  void Progress(int64_t step, int64_t total, const std::map<std::string, double>& metrics = {});
  // These two wait up to tries x wait_ms and then give the error: the checkpoint is found by the scan at the end of the attempt all the same.
  absl::Status Checkpoint(int64_t step, absl::string_view path, absl::string_view manifest_sha256, int64_t bytes);
  absl::Status Completed();

  int64_t progress_dropped() const { return dropped_; }
  bool enabled() const { return fd_ >= 0; }

 private:
  Reporter(int fd, std::string path, Options options) : fd_(fd), path_(std::move(path)), options_(std::move(options)) {}
  absl::Status SendOnce(absl::string_view message);
  absl::Status SendSurely(absl::string_view message);

  int fd_;
  std::string path_;
  Options options_;
  int64_t dropped_ = 0;
};

struct Notice {
  std::string reason;                      // "preempted", "lease", ...; "unreadable" when the file is there but says nothing we know
  std::optional<int64_t> deadline_utc_ms;  // when the process will be killed, on the node's wall clock
  std::optional<int64_t> ms_left;          // the same, counted from when the file was written
};

class NoticeWatcher {
 public:
  explicit NoticeWatcher(std::string path) : path_(std::move(path)) {}
  // One stat(2) while there is none, so it can be asked after every step. It may go again: a notice can be withdrawn.
  std::optional<Notice> Check() const;

 private:
  std::string path_;
};

// What a notice file says. Bounded and total: any text gives a notice, because its being there is the message.
Notice ParseNotice(absl::string_view text);

}  // namespace spillway::checkpoint
