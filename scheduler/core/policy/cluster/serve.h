// What the reference policies share: a queue served in a given order, with everything that does not fit spilled at once, and EASY backfill around the first
// task that can go nowhere.
#pragma once

#include <vector>

#include "scheduler/core/policy/cluster/board.h"

namespace spillway::core::cluster {

enum class Backfill { kNone, kEasy };

// Serves `queue`, best first, given what runs on reserved nodes until when. A task starts on reserved nodes; else at once on the cheapest spot machines that it may use, else on demand. The first that can
// go nowhere blocks the queue, or, with backfill, keeps a place that those behind it must leave.
void Serve(const View& view, std::vector<const QueuedWork*> queue, Backfill backfill, std::vector<Board::Release> releases, Board* board, Decision* decision);

// By list price, then by name; of one market.
const Offer* CheapestOf(const std::vector<const OpenOffer*>& open, Market market);

std::vector<const QueuedWork*> Pointers(const std::vector<QueuedWork>& waiting);

}  // namespace spillway::core::cluster
