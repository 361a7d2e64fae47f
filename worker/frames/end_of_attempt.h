// Why an attempt ended, from what is known about its end. Pure, one rule, used by the worker for what it reports and by whoever explains it.
#pragma once

#include <string>

#include "base/attempt_words.h"
#include "worker/frames/frames.h"

namespace spillway::frames {

struct End {
  EndCause cause = EndCause::kUnspecified;
  Initiator initiator = Initiator::kUnspecified;
  std::string detail;  // one line for people
  bool operator==(const End&) const = default;
};

inline constexpr int64_t kExitRunMeAgain = 85;

// The first that holds decides:
//   1. the command never ran                   LAUNCH_FAILED (job: command or folder; node: anything else)
//   2. the supervisor died meanwhile           NODE_LOST, node
//   3. the lease had lapsed                    FENCED, node
//   4. a stop the job could know of            COMPLETED only for exit 0 with proof, else the recorded cause and initiator.
//                                              Proof: it said completed, or its last progress had step == total.
//      (a lease's checkpoint request that was withdrawn counts only for exit 0 without proof: PREEMPTED, node: run it again)
//   5. the kernel killed for memory, exit != 0 OUT_OF_MEMORY, job
//   6. exit 0                                  COMPLETED, job
//   7. exit 85                                 CHECKPOINTED with a new checkpoint, USER_ERROR without, job
//   8. anything else                           USER_ERROR, job; a SIGKILL by the supervisor without a recorded stop cannot be
// A stop that came too late for the job to know of it (2. the main process was already gone) is ignored.
End EndOf(const ExitFacts& facts);

// True when the job itself proved that it was done.
bool ProvedComplete(const ExitFacts& facts);

}  // namespace spillway::frames
