// Would the storms notice a mistake in the product's own code? Each test wakes one mutation of mutants.txt and asks that a seed breaks the promise that it
// forbids, within a thousand. The other half, mistakes around the product, is bugs_test.cc.
#include <gtest/gtest.h>

#include <string>

#include "tests/simulation/bugs.h"

namespace spillway {
namespace {

std::string awake;

}  // namespace

// What the mutated copies ask.
bool MutantAwake(const char* name) { return awake == name; }

namespace sim {
namespace {

void WakeMutant(const char* name) { awake = name; }

const std::vector<Bug>& AllMutants() {
  static const std::vector<Bug> kMutants = {
#include "mutants.inc"
  };
  return kMutants;
}

const bool kFound = (AddToFind(AllMutants()), true);

class Mutant : public ::testing::TestWithParam<Bug> {};

TEST_P(Mutant, IsCaught) { EXPECT_EQ(WhyNotCaught(GetParam(), 1'000), ""); }

INSTANTIATE_TEST_SUITE_P(All, Mutant, ::testing::ValuesIn(AllMutants()), TestNameOf);

// Asleep they change nothing.
TEST(Mutants, SleepUntilTheyAreWoken) {
  const SeedsResult all = RunSeeds(1, 2, RunSetup(), 1, false);
  EXPECT_EQ(all.failed, 0) << all.report;
}

}  // namespace
}  // namespace sim
}  // namespace spillway
