// The one place that reads the system's clocks.
#include "base/clock.h"

#include <time.h>

#include "base/log.h"

namespace spillway {
namespace {

int64_t ReadMs(clockid_t id) {
  timespec now;
  CHECK(clock_gettime(id, &now) == 0) << "clock " << id;
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

int64_t RealClock::NowUtcMs() { return ReadMs(CLOCK_REALTIME); }
int64_t RealClock::NowSteadyMs() { return ReadMs(CLOCK_BOOTTIME); }

}  // namespace spillway
