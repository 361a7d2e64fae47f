// How what an executor found out reaches the engine. Never loses it to a full mailbox: the executor's thread waits, which is all the pressure it needs.
#pragma once

#include <functional>

#include "scheduler/core/command.h"
#include "scheduler/engine/engine_thread.h"

namespace spillway::effects {

using Post = std::function<void(core::Command)>;

// Blocks while the mailbox is full; gives up when the engine stops (the state owes the effect again after the next start). What the engine refuses
// is logged: it means that a provider and the state disagree about what is possible.
Post AnswersTo(engine::EngineThread* engine);

}  // namespace spillway::effects
