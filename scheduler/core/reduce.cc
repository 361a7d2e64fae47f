// Applies one event. Chooses nothing: what an event leads to was decided when it was admitted, the rest is arithmetic.
#include <algorithm>

#include "scheduler/core/reduce_internal.h"

namespace spillway::core {

void Reduce(State* state, const Event& event, int64_t now_ms, Changes* changes) {
  state->meta.now_ms = std::max(state->meta.now_ms, now_ms);
  changes->meta = true;
  const ReduceContext context{state, now_ms, changes};
  std::visit([&context](const auto& one) { Apply(context, one); }, event);
}

}  // namespace spillway::core
