// Where the processes of one attempt meet: an address of this machine and a port of it. Owns nothing: nothing keeps the port free.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace spillway::worker {

// A port nobody listens on now; 0 when there is none.
int FreePort();

// The address of this machine on the way to `server`, HOST:PORT, which other machines on that way can reach; nothing is sent there. UNAVAILABLE when there
// is no way, or the name is not known.
absl::StatusOr<std::string> AddressTowards(const std::string& server);

}  // namespace spillway::worker
