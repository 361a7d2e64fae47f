// The cloud's ledger: every event, one JSON object a line, appended and synced before anybody is told. It is what survives: the playground
// is killed and started again, and replaying the ledger gives the same instances and the same bills.
//
// A line is complete when its newline is there. A last line without one is a write that was never acknowledged: it is cut off on opening.
// Anything else that does not read back is damage and refused with file:line; nothing is repaired by guessing.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "playground/cloud.h"

namespace spillway::playground {

std::string EncodeEvent(const Event& event);  // one line, without the newline
absl::StatusOr<Event> DecodeEvent(absl::string_view line);

class Ledger {
 public:
  // Opens or creates the file and replays it into `cloud`.
  static absl::StatusOr<Ledger> Open(const std::string& path, Cloud* cloud);
  Ledger(Ledger&& other) noexcept;
  Ledger& operator=(Ledger&&) = delete;
  ~Ledger();

  // One write and one sync for all of them. After an error it is unknown what is durable: the caller must end the process.
  absl::Status Append(const std::vector<Event>& events);

 private:
  Ledger(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_;
  std::string path_;
};

}  // namespace spillway::playground
