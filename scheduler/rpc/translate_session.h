// The session's frames: from the wire to what the engine takes, and from the engine's orders to the wire. Pure.
// What a peer sends is bounded and checked here; a frame that breaks a bound is refused whole.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/command.h"
#include "scheduler/engine/orders.h"
#include "spillway/v1/worker_service.pb.h"

namespace spillway::rpc {

absl::StatusOr<core::NodeHello> HelloOf(const v1::Hello& hello);
absl::StatusOr<std::vector<core::Report>> ReportsOf(const v1::WorkerFrame& frame);
absl::Status CheckProgress(const v1::WorkerFrame& frame);
core::Progress ProgressOf(const v1::ProgressReport& report, int64_t now_ms);
AttemptId AttemptOf(const v1::AttemptKey& key);

v1::SchedulerFrame::Offer OfferFrame(const engine::OfferOrder& order);
v1::Stop StopFrame(const engine::StopOrder& order);
v1::Welcome WelcomeFrame(const engine::WelcomeOrder& order, const std::string& store_url);

}  // namespace spillway::rpc
