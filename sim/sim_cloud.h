// A cloud: offers, instances that boot late or never, a spot market that takes them back with notice or without, a bill of its own, and an API that
// refuses, throttles, loses requests and answers, repeats itself for an equal token or makes a twin, and lists what was true a little while ago, or a lie.
//
// Owns the instances and their machines. What it says may be late; that an instance has ended it says only when it is so, unless it is told to lie
// (Faults::list_omits): then it remembers about whom.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/core/command.h"
#include "scheduler/engine/orders.h"
#include "sim/faults.h"
#include "sim/sim_node.h"
#include "sim/spot_model.h"

namespace spillway::sim {

struct Instance {
  std::string id, name, token;
  core::Offer offer;
  int64_t created_ms = 0;  // bills from here
  int64_t ended_ms = 0;    // to here; 0: it lives
  bool reclaimed = false;
  std::string reason;
  int64_t billed_micros = 0;  // once it has ended
  bool bill_is_late = false;  // its final bill is not shown in listings
  int64_t notice_ms = 0;      // true time of the announced reclaim; 0: none
  int64_t notice_given_ms = 0;
  bool ending = false;
  bool stray = false;       // nobody here asked for it
  bool twin = false;        // another was made by the same request
  bool lied_about = false;  // a listing lacked it while it lived, or showed it alive long after its end
  std::unique_ptr<SimNode> machine;
};

class SimCloud {
 public:
  struct Market {
    core::Offer offer;
    SpotModel spot = SpotModel::Never();
    bool lingers = false;  // notices are given, and sometimes nothing follows
  };
  SimCloud(World* world, Observer* observer, const Faults* faults, std::string provider, std::vector<Market> markets,
           std::function<std::unique_ptr<SimNode>(const Instance&)> make_machine);

  const std::string& provider() const { return provider_; }
  const std::map<std::string, std::unique_ptr<Instance>>& instances() const { return instances_; }
  int64_t living() const;

  // The API, from the scheduler's side: each call is answered once, later, unless the asker has died meanwhile.
  template <typename T>
  using Answer = std::function<void(absl::StatusOr<T>)>;
  void Create(const engine::CreateOrder& order, LifeWatch asker, Answer<std::string> answer);
  void Terminate(const engine::TerminateOrder& order, LifeWatch asker, Answer<bool> answer);
  void List(LifeWatch asker, Answer<core::InstanceListing> answer);
  void ListOffers(LifeWatch asker, Answer<std::vector<core::Offer>> answer);

  // From inside an instance: it shuts itself down.
  void EndFromInside(const SimNode* machine);
  // An instance that carries our tag and that nobody here asked for.
  void MakeStray();
  void CutUntil(int64_t true_ms) { cut_until_ms_ = true_ms; }
  SimNode* AnyMachine(Rng* rng) const;  // nullptr: none is on

 private:
  template <typename T>
  void Call(LifeWatch asker, Answer<T> answer, std::function<absl::StatusOr<T>()> work);
  absl::StatusOr<std::string> CreateNow(const engine::CreateOrder& order);
  Instance* Make(const std::string& name, const std::string& token, const Market& market);
  void TerminateNow(const std::string& instance_id, const std::string& token);
  core::InstanceListing ListNow();
  void End(Instance* instance, bool reclaimed, const std::string& reason);
  void PlanReclaim(Instance* instance, const Market& market, int64_t ordinal);
  void GiveNotice(Instance* instance, int64_t gone_ms);

  World* const world_;
  Observer* const observer_;
  const Faults* const faults_;
  const std::string provider_;
  const std::vector<Market> markets_;
  const std::function<std::unique_ptr<SimNode>(const Instance&)> make_machine_;
  Rng rng_;
  std::map<std::string, std::unique_ptr<Instance>> instances_;  // by id, ended ones too
  std::map<std::string, std::string> by_token_;
  std::map<std::string, int64_t> made_;  // by offer
  int64_t cut_until_ms_ = 0;
};

}  // namespace spillway::sim
