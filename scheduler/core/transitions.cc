// The three tables of legal moves. A move that is not here is a bug in whoever admitted it.
#include "scheduler/core/transitions.h"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway::core {
namespace {

template <typename E, size_t N>
bool Contains(const std::array<std::pair<E, E>, N>& table, E from, E to) {
  return std::find(table.begin(), table.end(), std::make_pair(from, to)) != table.end();
}

using T = TaskState;
constexpr std::array<std::pair<T, T>, 11> kTaskMoves = {{
    {T::kQueued, T::kHeld},
    {T::kQueued, T::kActive},  // an attempt is offered
    {T::kQueued, T::kCancelled},
    {T::kHeld, T::kQueued},
    {T::kHeld, T::kFailed},  // its dependency failed
    {T::kHeld, T::kCancelled},
    {T::kActive, T::kQueued},  // the attempt ended and the task goes on
    {T::kActive, T::kHeld},    // or it will, when it is resumed
    {T::kActive, T::kSucceeded},
    {T::kActive, T::kFailed},
    {T::kActive, T::kCancelled},
}};

using A = AttemptState;
constexpr std::array<std::pair<A, A>, 9> kAttemptMoves = {{
    {A::kOffered, A::kStarting},  // accepted
    {A::kOffered, A::kStopping},
    {A::kOffered, A::kEnded},
    {A::kStarting, A::kRunning},
    {A::kStarting, A::kStopping},
    {A::kStarting, A::kEnded},
    {A::kRunning, A::kStopping},
    {A::kRunning, A::kEnded},
    {A::kStopping, A::kEnded},
}};

using N = NodeState;
constexpr std::array<std::pair<N, N>, 20> kNodeMoves = {{
    {N::kUnspecified, N::kRequested},                                                                 // a row comes into being
    {N::kUnspecified, N::kReady},                                                                     // it registered itself
    {N::kUnspecified, N::kReleasing},                                                                 // an orphan is adopted
    {N::kRequested, N::kBooting},     {N::kRequested, N::kReleasing}, {N::kRequested, N::kReleased},  // the provider refused
    {N::kRequested, N::kLost},        {N::kBooting, N::kReady},       {N::kBooting, N::kReleasing},  {N::kBooting, N::kReleased},
    {N::kBooting, N::kLost},          {N::kReady, N::kDraining},      {N::kReady, N::kReleasing},    {N::kReady, N::kLost},
    {N::kDraining, N::kReady},  // uncordoned before anything happened, or a new life of the machine
    {N::kDraining, N::kReleasing},    {N::kDraining, N::kLost},       {N::kReleasing, N::kReleased}, {N::kReleasing, N::kLost},
    {N::kRequested, N::kReady},  // it registered before the provider answered
}};

}  // namespace

bool LegalMove(TaskState from, TaskState to) { return Contains(kTaskMoves, from, to); }
bool LegalMove(AttemptState from, AttemptState to) { return Contains(kAttemptMoves, from, to); }
bool LegalMove(NodeState from, NodeState to) { return Contains(kNodeMoves, from, to); }

}  // namespace spillway::core
