// Effects made orders: everything an executor needs, copied out of the state. Pure; decides nothing.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "scheduler/core/core.h"
#include "scheduler/engine/orders.h"

namespace spillway::engine {

// nullopt when the state does not owe it (any more).
std::optional<OfferOrder> ResolveOffer(const core::State& state, NodeId node, AttemptId attempt);
std::optional<StopOrder> ResolveStop(const core::State& state, NodeId node, AttemptId attempt);
std::optional<SealOrder> ResolveSeal(const core::State& state, AttemptId attempt);
std::optional<CreateOrder> ResolveCreate(const core::State& state, NodeId node);
std::optional<TerminateOrder> ResolveTerminate(const core::State& state, NodeId node);
// Everything wanted on the node; offers for what is OFFERED and not in `inventory`, and for members of gangs that are to start.
WelcomeOrder ResolveWelcome(const core::State& state, const core::Policy& policy, NodeId node, const std::set<AttemptId>& inventory);

// Relative to the checkpoint root: CLUSTER/JOB/TASK/aN. Attempts never share a folder.
std::string CheckpointDir(const core::State& state, AttemptId attempt);
// Relative to the log root: JOB/TASK/aN.log, of other members than the first aN.RANK.log.
std::string LogPath(AttemptId attempt, int64_t rank);
std::string ClientToken(const core::State& state, NodeId node);  // CLUSTER-NODE

}  // namespace spillway::engine
