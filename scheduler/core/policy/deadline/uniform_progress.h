// The two published policies for one pool of spot machines ("Can't Be Late", NSDI 2024), as their state machine was evaluated:
//   greedy            spot whenever there is one, idle otherwise, on demand when nothing else can make the deadline;
//   Uniform Progress  on demand as well while less is done than steady progress asks for, and (with hysteresis) until two overheads more than that is done.
// Over several zones the cheapest that grants is taken. Both keep the paper's safety net, which is more careful than SafeFor.
#pragma once

#include <vector>

#include "scheduler/core/policy/deadline/deadline.h"

namespace spillway::core::deadline {

enum class Rule { kGreedy, kUniformProgress, kUniformProgressWithoutHysteresis };

// What the rule wants in a tick in which spot machines are given, or are not.
Mode ModeWanted(const Job& job, const Standing& standing, bool has_spot, Rule rule);

class UniformProgress : public Policy {
 public:
  UniformProgress(Job job, Rule rule) : job_(job), rule_(rule) {}
  std::vector<Choice> Options(const Standing& standing, const Market& market) override;

 private:
  Job job_;
  Rule rule_;
};

}  // namespace spillway::core::deadline
