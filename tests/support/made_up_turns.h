// Turns of a made-up scheduler: each touches every kind of row, so that a store has something to lose. No rule of the core is in play.
#pragma once

#include <string>
#include <vector>

#include "base/sha256.h"
#include "scheduler/store/store.h"

namespace spillway::testing {

class MadeUpTurns {
 public:
  // The next turn's batch; state() is then the state after it.
  store::Batch Next() {
    const int64_t n = ++seq_;
    core::Changes changes;
    changes.meta = true;
    state_.meta.cluster_uuid = "made-up";
    state_.meta.now_ms = 1'000 * n;
    state_.meta.next_job = n + 1;
    state_.meta.providers["p"] = {.name = "p", .kind = "static", .max_nodes = n};

    core::Shape shape;
    shape.gpu_count = n;
    state_.shapes[n] = shape;
    changes.shapes.insert(n);

    core::LiveJob& live = state_.jobs[n];
    live.job.id = n;
    live.job.name = n % 2 == 0 ? "even" : "odd";
    live.job.owner = "someone";
    live.job.submitted_ms = state_.meta.now_ms;
    live.job.shape_id = n;
    live.job.task_count = live.job.next_index = 2;
    live.job.counts.active = 2;
    const std::string spec = "spec of job " + std::to_string(n);
    const Sha256Digest digest = Sha256Of(spec);
    live.job.spec_digest.assign(digest.begin(), digest.end());
    for (int64_t index = 0; index < 2; ++index) {
      core::Task& task = live.tasks[index];
      task.id = {n, index};
      task.state = TaskState::kActive;
      task.attempts = 1;
      task.attempt.emplace();
      task.attempt->number = 1;
      task.attempt->state = AttemptState::kRunning;
      task.attempt->detail = std::string(300, static_cast<char>('a' + n % 26));
      changes.tasks.insert(task.id);
    }
    changes.jobs.insert(n);

    core::Node& node = state_.nodes[n];
    node.id = n;
    node.name = "node-" + std::to_string(n);
    node.provider = "p";
    node.state = NodeState::kReady;
    changes.nodes.insert(n);

    core::Offer& offer = state_.offers[{"p", "offer"}];
    offer.provider = "p";
    offer.name = "offer";
    offer.refusals = n;
    changes.offers.insert({"p", "offer"});

    state_.requests["request-" + std::to_string(n)] = {.jobs = {n}, .digest = "d", .at_ms = state_.meta.now_ms};
    changes.requests.insert("request-" + std::to_string(n));
    if (n > 2) {
      state_.requests.erase("request-" + std::to_string(n - 2));
      changes.requests.insert("request-" + std::to_string(n - 2));
    }

    changes.charges.push_back({.id = n,
                               .node = n,
                               .attempt = {n, 0, 1},
                               .kind = "run",
                               .market = Market::kSpot,
                               .from_ms = n * 1000,
                               .to_ms = n * 1000 + 500,
                               .amount_micros = 10 * n});
    changes.checkpoints.push_back({{n, 0}, {.attempt = 1, .step = n, .path = "c/" + std::to_string(n)}});

    // The job of three turns ago ends, and its node goes.
    if (n > 3) {
      const int64_t old = n - 3;
      core::LiveJob& ended = state_.jobs[old];
      for (auto& [index, task] : ended.tasks) {
        task.state = TaskState::kSucceeded;
        task.attempt.reset();
        changes.ended_tasks[task.id] = task;
      }
      ended.job.counts = {.succeeded = 2};
      ended.job.ended_ms = state_.meta.now_ms;
      changes.ended_jobs[old] = ended.job;
      state_.jobs.erase(old);
      core::Node gone = state_.nodes[old];
      gone.state = NodeState::kReleased;
      gone.gone_ms = state_.meta.now_ms;
      changes.gone_nodes[old] = gone;
      state_.nodes.erase(old);
    }

    core::JobSubmitted submitted;
    submitted.job.id = n;
    submitted.shape = shape;
    return store::MakeBatch(state_, changes, n, {submitted, core::RequestsForgotten{.before_ms = n}}, {{live_digest(n), spec}});
  }

  const core::State& state() const { return state_; }
  int64_t seq() const { return seq_; }

 private:
  std::string live_digest(int64_t job) const { return state_.jobs.at(job).job.spec_digest; }

  core::State state_;
  int64_t seq_ = 0;
};

}  // namespace spillway::testing
