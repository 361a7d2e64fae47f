// Stopping what `spillway up` started in a home, in the order that loses nothing.
#pragma once

#include <string>
#include <vector>

#include "client/local_home.h"
#include "client/verb.h"

namespace spillway::client {

// The scheduler first (it extends all leases), then the workers, then, unless `keep_jobs`, the supervisors: they give each job its grace, and keep
// how it ended until the next `up` can report it. Says what it did; the exit code is that of the whole.
int StopLocal(Context& context, const HomePaths& paths, bool keep_jobs);

// What an `up` has begun; in a home that it found as it was before.
struct Begun {
  bool config = false;  // it wrote the first configuration
  bool scheduler = false;
  std::vector<std::string> workers, supervisors;  // of these nodes; supervisors that were there before are not ours to stop
  std::vector<std::string> homes;                 // of nodes that are new: the next `up` must not count them
};

// Stops what a failed `up` had begun and removes what it had made, so that the home is as it was: nothing half-applied.
void Undo(Context& context, const HomePaths& paths, const Begun& begun);

}  // namespace spillway::client
