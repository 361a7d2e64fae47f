// What one turn leaves to be written: the dirty rows, copied out of the state.
#include "base/log.h"
#include "scheduler/store/store.h"

namespace spillway::store {

Batch MakeBatch(const core::State& state, const core::Changes& changes, int64_t seq, std::vector<core::Event> events,
                std::vector<std::pair<std::string, std::string>> specs) {
  Batch batch;
  batch.seq = seq;
  batch.now_ms = state.meta.now_ms;
  batch.events = std::move(events);
  batch.specs = std::move(specs);
  if (changes.meta) batch.meta = state.meta;

  // Ended rows have left the state: their last values travel in `changes`. A dirty id that is in neither place would be a row lost.
  for (const JobId id : changes.jobs) {
    if (changes.ended_jobs.count(id) != 0) continue;
    const auto it = state.jobs.find(id);
    CHECK(it != state.jobs.end()) << "job " << id << " changed, is not alive and has not ended";
    batch.jobs.push_back(it->second.job);
  }
  for (const auto& [id, job] : changes.ended_jobs) batch.jobs.push_back(job);
  for (const TaskId id : changes.tasks) {
    if (changes.ended_tasks.count(id) != 0) continue;
    const core::Task* task = core::FindTask(state, id);
    CHECK(task != nullptr) << "task " << id.ToString() << " changed, is not alive and has not ended";
    batch.tasks.push_back(*task);
  }
  for (const auto& [id, task] : changes.ended_tasks) batch.tasks.push_back(task);
  for (const NodeId id : changes.nodes) {
    if (changes.gone_nodes.count(id) != 0) continue;
    const core::Node* node = core::FindNode(state, id);
    CHECK(node != nullptr) << "node " << id << " changed, is not alive and is not gone";
    batch.nodes.push_back(*node);
  }
  for (const auto& [id, node] : changes.gone_nodes) batch.nodes.push_back(node);

  for (const int64_t id : changes.shapes) {
    const auto it = state.shapes.find(id);
    CHECK(it != state.shapes.end()) << "shape " << id;
    batch.shapes.emplace_back(id, it->second);
  }
  for (const core::OfferKey& key : changes.offers) {
    const auto it = state.offers.find(key);
    CHECK(it != state.offers.end()) << "offer " << key.first << "/" << key.second;
    batch.offers.push_back(it->second);
  }
  for (const std::string& id : changes.requests) {
    const auto it = state.requests.find(id);
    if (it == state.requests.end()) {
      batch.deleted_requests.push_back(id);
    } else {
      batch.requests.emplace_back(id, it->second);
    }
  }
  batch.charges = changes.charges;
  batch.checkpoints = changes.checkpoints;
  return batch;
}

}  // namespace spillway::store
