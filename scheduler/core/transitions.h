// All legal moves of tasks, attempts and nodes, in one place. Reduce CHECKs every move against these tables; nothing else decides legality.
#pragma once

#include "base/attempt_words.h"

namespace spillway::core {

bool LegalMove(TaskState from, TaskState to);
bool LegalMove(AttemptState from, AttemptState to);
bool LegalMove(NodeState from, NodeState to);

}  // namespace spillway::core
