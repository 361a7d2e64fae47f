// Several processes that save together, for the tests: real ones, either at their own pace or taking turns so that every run is the same.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {

// What each of them exited with (-1: killed), once it has.
inline std::vector<int> ExitCodes(const std::vector<pid_t>& children) {
  std::vector<int> codes;
  for (pid_t child : children) {
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  return codes;
}

// Runs `body` for each rank in a process of its own and returns what each exited with (-1: killed).
inline std::vector<int> RunRanks(int world_size, const std::function<int(int rank)>& body) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < world_size; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(body(rank));
    children.push_back(child);
  }
  return ExitCodes(children);
}

// Two processes of which one runs at a time: each passes the turn on where it would sleep. When the other is gone time passes instead, so
// that waiting for it ends.
class Turns {
 public:
  Turns() {
    EXPECT_EQ(pipe(to_[0]), 0);
    EXPECT_EQ(pipe(to_[1]), 0);
  }
  ~Turns() {
    for (auto& ends : to_) {
      for (int end : ends) {
        if (end >= 0) close(end);
      }
    }
  }
  // In the child. Rank 0 has the first turn.
  void Become(int rank) {
    signal(SIGPIPE, SIG_IGN);
    rank_ = rank;
    close(to_[rank][1]);
    close(to_[1 - rank][0]);
    to_[rank][1] = to_[1 - rank][0] = -1;
    if (rank == 1) Await();
  }
  // In the parent, once both have been forked: the pipes end with the children.
  void Release() {
    for (auto& ends : to_) {
      for (int& end : ends) {
        close(end);
        end = -1;
      }
    }
  }
  void Pass() {
    char turn = 0;
    if (alone_ || write(to_[1 - rank_][1], &turn, 1) != 1) {
      alone_ = true;
      clock.AdvanceMs(60'000);
      return;
    }
    Await();
  }

  ManualClock clock;

 private:
  void Await() {
    char turn = 0;
    if (read(to_[rank_][0], &turn, 1) != 1) alone_ = true;
  }
  int to_[2][2];
  int rank_ = 0;
  bool alone_ = false;
};

inline std::vector<int> RunTwoInTurns(const std::function<int(int rank, Turns* turns)>& body) {
  Turns turns;
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      turns.Become(rank);
      _exit(body(rank, &turns));
    }
    children.push_back(child);
  }
  turns.Release();
  return ExitCodes(children);
}

// What rank 0 or 1 of two has of a state: rows of the weights; the generator is in both, whole.
inline std::vector<TensorView> HalfOf(const SampleState& state, int rank) {
  const int64_t first = rank == 0 ? 0 : 2, rows = rank == 0 ? 2 : 1;
  return {{"model/weights", DType::kF32, {rows, 1500}, state.weights.data() + first * 1500, rows * 6000, Slice{{3, 1500}, {first, 0}, {rows, 1500}}},
          {"state/rng", DType::kU64, {4}, state.rng.data(), 32},
          {"state/nothing", DType::kU8, {0}, state.nothing.data(), 0}};
}

inline WriterOptions JointOptions(const std::string& directory, int rank, Turns* turns, Io* io = RealIo(), int64_t attempt = 1) {
  WriterOptions options = OptionsFor(directory, attempt, io);
  options.rank = rank;
  options.world_size = 2;
  options.clock = &turns->clock;
  options.sleep_ms = [turns](int64_t) { turns->Pass(); };
  return options;
}

}  // namespace spillway::checkpoint
