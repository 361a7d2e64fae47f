// One backup on its way to a client: the copy is made beside the database when the first bytes are wanted, read from there, and removed whatever happens.
// Blocking; one call at a time. Only one of a database may be under way.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/sha256.h"
#include "scheduler/rpc/follow.h"
#include "spillway/v1/fleet_service.pb.h"

namespace spillway::rpc {

class BackupStream {
 public:
  BackupStream(std::string database, std::function<bool()> go_on) : database_(std::move(database)), go_on_(std::move(go_on)) {}
  ~BackupStream();

  absl::StatusOr<Follow> Read(std::deque<v1::BackupChunk>* out);

  // Where the copy of a database is made. What a scheduler that was killed left there is removed by the next one.
  static std::string CopyOf(const std::string& database) { return database + ".backup"; }

 private:
  absl::Status Begin(v1::BackupChunk* first);

  const std::string database_;
  const std::function<bool()> go_on_;
  int fd_ = -1;
  int64_t left_ = 0;
  Sha256 hash_;
};

}  // namespace spillway::rpc
