// Where the processes of one attempt meet: an address of this machine and a port of it.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace spillway::worker {

// A port nobody listens on, kept from everybody else as long as this lives: who is to listen there can only do so afterwards.
class HeldPort {
 public:
  HeldPort();
  ~HeldPort();
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;
  int number() const { return number_; }  // 0 when there was none

 private:
  int fd_ = -1;
  int number_ = 0;
};

// The address of this machine on the way to `server`, HOST:PORT, which other machines on that way can reach; nothing is sent there. UNAVAILABLE when there
// is no way, or the name is not known.
absl::StatusOr<std::string> AddressTowards(const std::string& server);

}  // namespace spillway::worker
