// Stopping what `spillway up` started in a home, in the order that loses nothing.
#pragma once

#include "client/local_home.h"
#include "client/verb.h"

namespace spillway::client {

// The scheduler first (it extends all leases), then the workers, then, unless `keep_jobs`, the supervisors: they give each job its grace, and keep
// how it ended until the next `up` can report it. Says what it did; the exit code is that of the whole.
int StopLocal(Context& context, const HomePaths& paths, bool keep_jobs);

}  // namespace spillway::client
