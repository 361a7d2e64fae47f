// Between the session's plain structs and the bytes of the wire's messages. Owns the translation; decides nothing. What a peer sends is
// taken as it is where it cannot harm: unknown words become UNSPECIFIED, which the logic treats as such.
#pragma once

#include "spillway/v1/worker_service.pb.h"
#include "worker/session_frames.h"

namespace spillway::worker {

inline constexpr char kProtocol[] = "spillway/1";

v1::WorkerFrame ToProto(const WorkerFrame& frame);
WorkerFrame FromProto(const v1::WorkerFrame& frame);      // for test doubles of the scheduler
v1::SchedulerFrame ToProto(const SchedulerFrame& frame);  // likewise
SchedulerFrame FromProto(const v1::SchedulerFrame& frame);

}  // namespace spillway::worker
