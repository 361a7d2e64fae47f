// Which nodes are silent, and whether the silence may be acted on. Owns the lease arithmetic and the partition guard; declares nothing lost itself.
#pragma once

#include "scheduler/core/core.h"

namespace spillway::core {

// When anything was last heard of the node, at the earliest the moment all leases were restarted.
int64_t HeardMs(const Node& node, const Soft& soft);
// No attempt of the node can be alive after this (plus the grace).
int64_t LeaseEndMs(const Node& node, const Soft& soft, const Policy& policy);
// READY, DRAINING or RELEASING and registered: there is a worker that should speak.
bool ShouldSpeak(const Node& node);
// Its provider can end it and prove the end: it is fenced actively rather than waited for.
bool CanTestify(const State& state, const Node& node);
// A session is open, or nothing is known yet of this node's sessions: an offer sent now will arrive.
bool Reachable(const Node& node, const Soft& soft, const Policy& policy, int64_t now_ms);

// Too many nodes fell silent at once: we are the partition until proven otherwise, and nothing is ended for silence that has not lasted HoldMs.
// Nodes silent for longer than that do not count: they are acted on either way. After a restore it holds as long as nothing is let go.
bool HoldsForPartition(const State& state, const Soft& soft, const Policy& policy, int64_t now_ms);
int64_t HoldMs(const Policy& policy);

// The time from which silence may be acted on by releasing (or by Job::max_silence_ms = `after_ms`): later while the guard holds.
int64_t ActOnSilenceMs(const Node& node, const Soft& soft, const Policy& policy, int64_t after_ms, bool held);

}  // namespace spillway::core
