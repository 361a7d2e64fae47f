#include "examples/trainer/data.h"

#include <map>

#include "tests/examples/support.h"

namespace spillway::trainer {
namespace {

using ::testing::HasSubstr;

TEST(Dataset, NumbersTheBytesThatOccur) {
  ASSERT_OK_AND_ASSIGN(const Dataset data, MakeDataset("banana\xff", 3));
  EXPECT_EQ(data.vocabulary, (std::vector<uint8_t>{'a', 'b', 'n', 0xff}));
  EXPECT_EQ(data.tokens, (std::vector<uint8_t>{1, 0, 2, 0, 2, 0, 3}));
}

TEST(Dataset, RefusesTextWithNothingToLearn) {
  EXPECT_THAT(MakeDataset("abc", 3).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("needs at least 4")));
  EXPECT_THAT(MakeDataset("aaaaaa", 3).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("single character")));
  EXPECT_TRUE(absl::IsNotFound(LoadDataset("/nonexistent/file", 3).status()));
}

// Each epoch shows every window from its phase on exactly once.
TEST(Sampler, ShowsEveryWindowOnceAnEpoch) {
  for (size_t bytes : {9, 10, 11, 50, 333}) {
    ASSERT_OK_AND_ASSIGN(const Dataset data, MakeDataset(SampleText(bytes), 8));
    Sampler sampler(&data, 8, 3);
    std::map<uint64_t, std::map<uint64_t, int>> seen;  // by epoch, by the window's number
    for (int i = 0; i < 200; ++i) {
      Batch batch;
      sampler.Next(1, &batch);
      const auto [seed, draws, epoch, phase, cursor, stride, start] = sampler.state();
      const uint64_t windows = (bytes - 1 - phase) / 8;
      const uint64_t window = (start + (cursor - 1) * stride) % windows;
      ++seen[epoch][window];
      for (size_t j = 0; j < 8; ++j) {
        EXPECT_EQ(batch.inputs[j], data.tokens[phase + window * 8 + j]);
        EXPECT_EQ(batch.targets[j], data.tokens[phase + window * 8 + j + 1]);
      }
      if (cursor == windows) {
        EXPECT_EQ(seen[epoch].size(), windows);
        for (const auto& [w, times] : seen[epoch]) EXPECT_EQ(times, 1);
      }
    }
    EXPECT_GT(seen.size(), 1u);
  }
}

TEST(Sampler, GoesOnFromItsState) {
  ASSERT_OK_AND_ASSIGN(const Dataset data, MakeDataset(SampleText(500), 8));
  Sampler whole(&data, 8, 3);
  for (int i = 0; i < 100; ++i) {
    Sampler resumed(&data, 8, 12345);  // everything comes from the state
    ASSERT_OK(resumed.set_state(whole.state()));
    Batch a, b;
    whole.Next(5, &a);
    resumed.Next(5, &b);
    ASSERT_EQ(a.inputs, b.inputs);
    ASSERT_EQ(whole.state(), resumed.state());
  }
}

TEST(Sampler, RefusesAStateOfAnotherText) {
  ASSERT_OK_AND_ASSIGN(const Dataset data, MakeDataset(SampleText(500), 8));
  Sampler sampler(&data, 8, 3);
  const Sampler::State good = sampler.state();
  ASSERT_OK(sampler.set_state(good));
  for (size_t word : {3, 4, 5, 6}) {
    Sampler::State bad = good;
    bad[word] = 1'000'000;
    EXPECT_FALSE(sampler.set_state(bad).ok()) << word;
  }
  Sampler::State stuck = good;
  stuck[5] = 0;
  EXPECT_FALSE(sampler.set_state(stuck).ok());
}

TEST(Sampler, DependsOnTheSeed) {
  ASSERT_OK_AND_ASSIGN(const Dataset data, MakeDataset(SampleText(5000), 8));
  EXPECT_NE(Sampler(&data, 8, 1).state(), Sampler(&data, 8, 2).state());
}

TEST(Options, AreParsedInBothSpellings) {
  ASSERT_OK_AND_ASSIGN(const Options options, ParseOptions({"--data", "f", "--steps=7", "--lr", "0.5", "--heads", "8", "--seed=9", "--out", "w"}));
  EXPECT_EQ(options.data, "f");
  EXPECT_EQ(options.steps, 7);
  EXPECT_EQ(options.lr, 0.5);
  EXPECT_EQ(options.model.heads, 8);
  EXPECT_EQ(options.seed, 9u);
  EXPECT_EQ(options.out, "w");
}

TEST(Options, NameWhatIsWrong) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{}, "--data FILE is required"},
      {{"--dta", "f"}, "nearest: --data"},
      {{"--data"}, "--data needs a value"},
      {{"--data", ""}, "--data is empty"},
      {{"--data", "f", "--steps", "0"}, "--steps \"0\": want an integer from 1"},
      {{"--data", "f", "--steps", "1e3"}, "--steps \"1e3\""},
      {{"--data", "f", "--lr", "-1"}, "--lr \"-1\": want a number above 0"},
      {{"--data", "f", "--lr", "nan"}, "--lr"},
      {{"--data", "f", "--dim", "100", "--heads", "3"}, "not a multiple of --heads"},
      {{"--data", "f", "--dim", "4096", "--layers", "64"}, "weights: at most"},
      {{"--help=yes"}, "takes no value"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_THAT(ParseOptions(arguments).status(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
  EXPECT_OK(ParseOptions({"--help"}).status());
  EXPECT_OK(ParseOptions({"--hash", "dir"}).status());
  EXPECT_THAT(Usage(), HasSubstr("--checkpoint-every K"));
}

}  // namespace
}  // namespace spillway::trainer
