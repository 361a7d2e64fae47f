// The planted bugs by name, each with the weather in which it shows soon and the promise that it breaks: the list that bugs_test.cc goes through and that
// the program takes as --bug=NAME.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/simulation/seeds.h"

namespace spillway::sim {

struct Bug {
  const char* name;
  const char* what;  // it does wrong
  void (*plant)(Hooks*);
  const char* weather;              // over the plan that each seed draws (FaultPlan::Read), made a short day; begins with a comma
  std::vector<const char*> breaks;  // one of these is said of it
};

const std::vector<Bug>& AllBugs();             // around the product
void AddToFind(const std::vector<Bug>& more);  // mutants, so that the program finds them too
const Bug* FindBug(const std::string& name);   // null: none is called so
RunSetup SetupOf(const Bug& bug);

// "" when one of the seeds 1 .. `seeds_max` breaks the promise that the bug breaks; else what happened instead.
std::string WhyNotCaught(const Bug& bug, int64_t seeds_max);
std::string TestNameOf(const ::testing::TestParamInfo<Bug>& info);
void PrintTo(const Bug& bug, std::ostream* out);

}  // namespace spillway::sim
