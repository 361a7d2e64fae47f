#include "base/attempt_words.h"

#include "base/status_matchers.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AttemptWordsTest, EveryNameParsesBackToItsEnumerator) {
  for (int i = 1; i <= static_cast<int>(EndCause::kFenced); ++i) {
    const auto cause = static_cast<EndCause>(i);
    ASSERT_OK_AND_ASSIGN(const EndCause upper, ParseWord<EndCause>(Name(cause)));
    ASSERT_OK_AND_ASSIGN(const EndCause lower, ParseWord<EndCause>(LowerName(cause)));
    EXPECT_EQ(upper, cause);
    EXPECT_EQ(lower, cause);
  }
  EXPECT_EQ(Words<EndCause>::kNames.size(), static_cast<size_t>(EndCause::kFenced) + 1);
  EXPECT_EQ(Words<NodeState>::kNames.size(), static_cast<size_t>(NodeState::kLost) + 1);
  EXPECT_EQ(Words<TaskState>::kNames.size(), static_cast<size_t>(TaskState::kCancelled) + 1);
  EXPECT_EQ(Words<AttemptState>::kNames.size(), static_cast<size_t>(AttemptState::kEnded) + 1);
  EXPECT_EQ(Words<HoldReason>::kNames.size(), static_cast<size_t>(HoldReason::kDrought) + 1);
  EXPECT_EQ(Words<Initiator>::kNames.size(), static_cast<size_t>(Initiator::kJob) + 1);
  EXPECT_EQ(Words<Market>::kNames.size(), static_cast<size_t>(Market::kOnDemand) + 1);
}

TEST(AttemptWordsTest, NamesStandAtTheirNumbers) {
  EXPECT_EQ(Name(EndCause::kCheckpointed), "CHECKPOINTED");
  EXPECT_EQ(Name(EndCause::kOutOfMemory), "OUT_OF_MEMORY");
  EXPECT_EQ(Name(EndCause::kFenced), "FENCED");
  EXPECT_EQ(LowerName(Market::kOnDemand), "on_demand");
  EXPECT_EQ(Name(NodeState::kReleased), "RELEASED");
  EXPECT_EQ(Name(static_cast<NodeState>(99)), "INVALID");
}

TEST(AttemptWordsTest, AMisspeltWordIsRefusedWithTheNearest) {
  EXPECT_THAT(ParseWord<Market>("spott"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                   AllOf(HasSubstr("market"), HasSubstr("did you mean SPOT?"), HasSubstr("RESERVED, SPOT, ON_DEMAND"))));
  EXPECT_THAT(ParseWord<Market>("unspecified"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unspecified")));
  EXPECT_THAT(ParseWord<Market>(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("''")));
}

TEST(AttemptWordsTest, UnknownNumbersAreUnspecified) {
  EXPECT_EQ(WordFromNumber<Market>(2), Market::kSpot);
  EXPECT_EQ(WordFromNumber<Market>(4), Market::kUnspecified);
  EXPECT_EQ(WordFromNumber<Market>(-1), Market::kUnspecified);
}

}  // namespace
}  // namespace spillway
