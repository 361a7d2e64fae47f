// A virtual world: one heap of things to come, one true time, one seed. Nothing in it happens by itself, nothing depends on the machine it runs on:
// the same seed gives the same world, event for event.
//
// Owns time, the order of events, the trace, the count of rare situations reached and the first promise found broken. Knows nothing of what happens in it.
// Times are true milliseconds since 1970 unless a MachineClock says otherwise (machine_clock.h). Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/rng.h"

namespace spillway::sim {

// Somebody's life: what was planned for it does not happen after its end. A watch sees the end and does not put it off.
using LifeWatch = std::weak_ptr<void>;
class Life {
 public:
  Life() : alive_(std::make_shared<char>()) {}
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;
  void End() { alive_ = std::make_shared<char>(); }  // and another one begins
  operator LifeWatch() const { return alive_; }      // NOLINT: wherever a watch is asked for, a life will do

 private:
  std::shared_ptr<char> alive_;
};

class World {
 public:
  using Task = std::function<void()>;
  static constexpr int64_t kStartMs = 1'800'000'000'000;

  explicit World(uint64_t seed) : seed_(seed) {}

  int64_t now_ms() const { return now_ms_; }
  uint64_t seed() const { return seed_; }
  // A generator for one concern; what one concern draws never moves another's luck.
  Rng Luck(absl::string_view concern) const;

  // Not before now. Equal times keep the order in which they were planned.
  void At(int64_t at_ms, Task what);
  void After(int64_t ms, Task what) { At(now_ms_ + ms, std::move(what)); }
  void After(int64_t ms, const LifeWatch& life, Task what);

  // Everything planned up to `until_ms`, then it is `until_ms`. Ends early, in the middle, once a promise is broken.
  void RunUntil(int64_t until_ms);
  int64_t steps() const { return steps_; }

  // --- what is seen ---
  void TraceTo(std::string* trace) { trace_ = trace; }
  bool tracing() const { return trace_ != nullptr; }
  template <typename... Parts>
  void Trace(const Parts&... parts) {
    if (trace_ != nullptr) AppendTrace(absl::StrCat(parts...));
  }
  // A rare situation was reached. Tests ask that each is, over a set of seeds.
  void Reach(absl::string_view situation) {
    const auto known = reached_.find(situation);
    if (known != reached_.end()) {
      ++known->second;
    } else {
      reached_.emplace(std::string(situation), 1);
    }
  }
  const std::map<std::string, int64_t, std::less<>>& reached() const { return reached_; }
  // A promise is broken: the first one stays, and the world stops.
  void Fail(absl::string_view what);
  const std::string& failure() const { return failure_; }  // "" while all promises hold

 private:
  struct Planned {
    Task what;
    LifeWatch life;
    bool watched = false;  // happens only while `life` lasts
  };
  // The heap moves these, not what is planned: half a million a day.
  struct Turn {
    int64_t at_ms;
    int64_t order;
    size_t place;  // in planned_
  };
  void Plan(int64_t at_ms, Planned planned);
  static bool Later(const Turn& a, const Turn& b) { return a.at_ms != b.at_ms ? a.at_ms > b.at_ms : a.order > b.order; }
  void AppendTrace(absl::string_view line);

  const uint64_t seed_;
  int64_t now_ms_ = kStartMs;
  int64_t next_order_ = 0, steps_ = 0, steps_at_ms_ = 0;
  std::vector<Turn> heap_;
  std::vector<Planned> planned_;
  std::vector<size_t> free_places_;
  std::string* trace_ = nullptr;
  std::map<std::string, int64_t, std::less<>> reached_;
  std::string failure_;
};

// "+1h02m03.456s": how long after the beginning of the world.
std::string SinceStart(int64_t at_ms);

}  // namespace spillway::sim
