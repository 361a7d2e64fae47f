// Promises 5 and 6: every millisecond of every node stands in the ledger exactly once, the parts add up, a bill of the cloud is what was charged for that
// instance, every instance stands in somebody's books, and at the end none bills on.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/money.h"
#include "tests/simulation/watch.h"

namespace spillway::sim {
namespace {

class MoneyWatch final : public Watch {
 public:
  using Watch::Watch;

  void TurnDurable(const store::Batch& batch) override {
    for (const core::Node& row : batch.nodes) {
      nodes_[row.id].row = row;
      // A machine that was never heard of by its id is known by its name.
      if (row.owned) by_instance_[row.instance_id.empty() ? row.name : row.instance_id].insert(row.id);
    }
    for (const core::Job& row : batch.jobs) jobs_[row.id].row = row;
    for (const core::Charge& charge : batch.charges) {
      if (charge.id != ++last_charge_) return Broken("charge ", charge.id, " follows charge ", last_charge_ - 1);
      nodes_[charge.node].charges.push_back(charge);
      if (charge.attempt.job != 0) jobs_[charge.attempt.job].charged += charge.amount_micros;
    }
    for (const core::Event& event : batch.events) {
      if (const auto* gone = std::get_if<core::NodeGone>(&event)) {
        Node& node = nodes_[gone->node];
        node.billed_micros = gone->billed_micros;
        CheckNode(gone->node, node);
      } else if (std::holds_alternative<core::OrphanAdopted>(event)) {
        world()->Reach("an orphan was adopted");
      }
    }
  }

  // Nobody's instance is ended as soon as a listing shows it, not only when its own lease is over.
  void Calm(int64_t calm_ms, const Simulation& simulation) override {
    if (calm_ms < 5 * 60'000) return;
    for (const auto& [id, instance] : simulation.cloud().instances()) {
      // Most have ended, and are many: asked last is what takes long.
      const auto is_somebodys = [&] {
        return std::any_of(nodes_.begin(), nodes_.end(), [&](const auto& entry) {
          const core::Node& row = entry.second.row;
          return row.owned && row.gone_ms == 0 && (row.instance_id == id || (row.instance_id.empty() && row.name == instance->name));
        });
      };
      if (instance->ended_ms != 0 || instance->ending || is_somebodys()) {
        unwanted_minutes_.erase(id);
      } else if (++unwanted_minutes_[id] > 2) {
        return Broken("instance ", id, " (", instance->name, ") is nobody's and bills on, though the cloud answers");
      }
    }
  }

  void AtEnd(const Simulation& simulation) override {
    for (const auto& [id, node] : nodes_) CheckNode(id, node);
    for (const auto& [id, job] : jobs_) {
      if (job.row.charged_micros + job.row.reserved_micros != job.charged) {
        return Broken("job ", id, " owes ", job.row.charged_micros + job.row.reserved_micros, ", its charges add up to ", job.charged);
      }
    }
    for (const auto& [id, instance] : simulation.cloud().instances()) {
      if (instance->ended_ms == 0) return Broken("instance ", id, " bills on");
      auto books = by_instance_.find(id);
      if (books == by_instance_.end() && instance->twin) continue;  // and the books of its name are the other's
      if (books == by_instance_.end()) books = by_instance_.find(instance->name);
      if (books == by_instance_.end()) {
        // A stray that came and went while nobody could look or write down has no row to stand in.
        if (instance->billed_micros > 0 && !instance->stray)
          return Broken("instance ", id, " (", instance->name, ") billed ", instance->billed_micros, " and stands in nobody's books");
        continue;
      }
      if (instance->lied_about) continue;  // it ended in our books by its provider's word, and came again as an orphan
      if (books->second.size() != 1) return Broken("instance ", id, " stands in the books of ", books->second.size(), " nodes");
      const Node& node = nodes_.at(*books->second.begin());
      if (node.billed_micros >= 0 && node.billed_micros != instance->billed_micros) return Broken("instance ", id, " was billed as another");
    }
  }

 private:
  struct Node {
    core::Node row;
    int64_t billed_micros = -1;
    std::vector<core::Charge> charges;
  };
  struct Job {
    core::Job row;
    int64_t charged = 0;
  };

  // Charges come in the order of time: one interval after the other, split among who shared it.
  void CheckNode(NodeId id, const Node& node) {
    const core::Node& row = node.row;
    int64_t sum = 0, until_ms = row.created_ms;
    for (size_t i = 0; i < node.charges.size();) {
      const core::Charge& first = node.charges[i];
      int64_t parts = 0;
      std::set<AttemptId> sharers;
      const size_t begin = i;
      for (; i < node.charges.size() && node.charges[i].from_ms == first.from_ms && node.charges[i].to_ms == first.to_ms &&
             (i == begin || first.to_ms > first.from_ms);
           ++i) {
        parts += node.charges[i].amount_micros;
        if (!sharers.insert(node.charges[i].attempt).second)
          return Broken("node ", id, " charges ", node.charges[i].attempt.ToString(), " twice for the same time");
      }
      sum += parts;
      if (first.to_ms == first.from_ms) continue;  // brings the sum to the rule, or to the bill
      if (first.from_ms != until_ms) return Broken("node ", id, " is charged from ", first.from_ms, ", but it was charged until ", until_ms);
      const int64_t should =
          PriceForMs(row.price_micros_per_hour, first.to_ms - row.created_ms) - PriceForMs(row.price_micros_per_hour, first.from_ms - row.created_ms);
      if (first.attempt.job != 0 || sharers.size() == 1) {
        if (parts != should) return Broken("node ", id, " is charged ", parts, " for ", first.to_ms - first.from_ms, " ms that cost ", should);
      }
      until_ms = first.to_ms;
    }
    if (row.price_micros_per_hour > 0 && row.created_ms > 0 && until_ms != row.metered_ms)
      return Broken("node ", id, " is metered to ", row.metered_ms, " and charged to ", until_ms);
    if (sum != row.charged_micros) return Broken("node ", id, " says it was charged ", row.charged_micros, ", its charges add up to ", sum);
    if (node.billed_micros >= 0 && sum != node.billed_micros) return Broken("node ", id, " was charged ", sum, ", the cloud's bill says ", node.billed_micros);
    if (node.billed_micros >= 0) world()->Reach("a bill of the cloud was matched");
  }

  std::map<NodeId, Node> nodes_;
  std::map<JobId, Job> jobs_;
  std::map<std::string, std::set<NodeId>> by_instance_;
  std::map<std::string, int64_t> unwanted_minutes_;
  int64_t last_charge_ = 0;
};

}  // namespace

std::unique_ptr<Watch> MakeMoneyWatch(World** world) { return std::make_unique<MoneyWatch>(world); }

}  // namespace spillway::sim
