// A cloud driven by hand: a clock that stands still, a ledger that is a list, machines that start and die when the test says so.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "playground/cloud.h"
#include "playground/ledger.h"

namespace spillway::playground {

inline CloudConfig ConfigOf(const std::string& offers, int64_t seed = 7, int64_t scale = 1) {
  ConfigOverrides overrides;
  overrides.seed = seed;
  overrides.scale = scale;
  absl::StatusOr<CloudConfig> config = ParseCloudConfig("offers:\n" + offers, "test.yaml", "/", overrides);
  EXPECT_TRUE(config.ok()) << config.status();
  return *std::move(config);
}

inline CreateRequest RequestOf(const std::string& token, const std::string& offer) {
  CreateRequest request;
  request.client_token = token;
  request.offer = offer;
  request.worker.argv = {"/bin/sleep", "1000"};
  return request;
}

class HandDrivenCloud {
 public:
  explicit HandDrivenCloud(CloudConfig config) : cloud(std::move(config)) {
    Apply({Event{0, Opened{"cloud", "boot", clock.NowSteadyMs(), clock.NowUtcMs(), cloud.config().seed, cloud.config().scale}}});
    zero_ms_ = clock.NowSteadyMs();
  }

  int64_t Now() { return clock.NowSteadyMs() - zero_ms_; }

  void Apply(const std::vector<Event>& events) {
    for (const Event& event : events) {
      history.push_back(EncodeEvent(event));
      cloud.Apply(event);
    }
  }

  absl::StatusOr<int64_t> Create(const std::string& token, const std::string& offer) {
    absl::StatusOr<Cloud::CreateOutcome> outcome = cloud.Create(RequestOf(token, offer), Now());
    if (!outcome.ok()) return outcome.status();
    Apply(outcome->events);
    return outcome->instance;
  }

  // What the host does at every turn; machines start and die at once.
  void Turn() {
    Apply(cloud.Due(Now()));
    for (const Owed& owed : cloud.WhatIsOwed(Now())) {
      if (owed.kind == Owed::Kind::kStart) {
        Apply(cloud.ProcessStarted(owed.instance, 1000 + owed.instance, 1, Now()));
      } else {
        if (owed.kind == Owed::Kind::kKill) Apply(cloud.ProcessGone(owed.instance, Now(), "killed", Now()));
        Apply(cloud.Buried(owed.instance, Now()));
      }
    }
  }

  // Moves from deadline to deadline, as the host does, until `until_ms`.
  void RunUntil(int64_t until_ms) {
    Turn();
    for (;;) {
      const std::optional<int64_t> next = cloud.NextDeadlineMs(Now());
      if (!next.has_value() || *next > until_ms) break;
      clock.AdvanceMs(*next - Now());
      Turn();
    }
    clock.AdvanceMs(until_ms - Now());
    Turn();
  }

  const Instance& At(int64_t number) { return *cloud.Find(number); }

  ManualClock clock;
  Cloud cloud;
  std::vector<std::string> history;

 private:
  int64_t zero_ms_ = 0;
};

}  // namespace spillway::playground
