// Would the storms notice a mistake around the product? Each test plants one bug of the list (bugs.h) around the honest scheduler and asks that a seed breaks
// the promise that it forbids, within a thousand. That seeds hold without a bug is storm_test.cc's part; mistakes in the product's own code are mutants_test.cc's.
#include "tests/simulation/bugs.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace spillway::sim {
namespace {

class PlantedBug : public ::testing::TestWithParam<Bug> {};

TEST_P(PlantedBug, IsCaught) { EXPECT_EQ(WhyNotCaught(GetParam(), 1'000), ""); }

INSTANTIATE_TEST_SUITE_P(All, PlantedBug, ::testing::ValuesIn(AllBugs()), TestNameOf);

TEST(PlantedBugs, AreManyAndEachItsOwn) {
  std::set<std::string> names;
  for (const Bug& bug : AllBugs()) EXPECT_TRUE(names.insert(bug.name).second) << bug.name;
  EXPECT_GE(names.size(), 15u);
}

}  // namespace
}  // namespace spillway::sim
