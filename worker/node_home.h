// The worker's folder on its node: who owns it, what must survive a restart of the worker, and the attempts' own folders.
//
//   worker.lock, worker.pid     one worker a home; "PID START_TICKS" of the one that has it or had it last
//   node.json                   cluster, node id and store, as last welcomed
//   worker.reports              the reports that are numbered and not durable yet (report_log.h)
//   attempts/<job>.<task>@<n>/  made by staging, deleted once the attempt's end is durable
//   secrets/<job>.<task>@<n>/   the secrets of one that has some, beside its folder so that it does not save them with its files; deleted with it
//   supervisor.*                the supervisor's own
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "base/ids.h"

namespace spillway::worker {

struct NodeIdentity {
  std::string cluster_uuid;
  NodeId node_id = 0;
  std::string store_url;
  int64_t incarnation = 0;  // the highest of the scheduler that welcomed it
  bool operator==(const NodeIdentity&) const = default;
};

class NodeHome {
 public:
  // Makes the folder and locks it for as long as this object lives. FAILED_PRECONDITION naming the process that has it.
  static absl::StatusOr<NodeHome> Open(const std::string& path);
  NodeHome(NodeHome&& other) noexcept;
  NodeHome& operator=(NodeHome&&) = delete;
  ~NodeHome();

  const std::string& path() const { return path_; }
  std::string AttemptFolder(const AttemptId& attempt) const;
  std::string SecretsFolder(const AttemptId& attempt) const;
  // Attempts that have a folder here, of either kind; other names are ignored.
  std::set<AttemptId> AttemptFolders() const;

  // Empty when there is none yet. DATA_LOSS when it cannot be read.
  absl::StatusOr<NodeIdentity> LoadIdentity() const;
  absl::Status SaveIdentity(const NodeIdentity& identity) const;

 private:
  NodeHome(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}
  std::string path_;
  int lock_fd_ = -1;
};

}  // namespace spillway::worker
