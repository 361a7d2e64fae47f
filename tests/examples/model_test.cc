// The hand-written backward pass against finite differences, and that training learns.
#include <cmath>
#include <cstring>
#include <set>

#include "examples/trainer/cpu_backend.h"
#include "tests/examples/support.h"

namespace spillway::trainer {
namespace {

Batch RandomBatch(const ModelConfig& config, uint64_t seed) {
  Rng rng(seed);
  Batch batch;
  for (int t = 0; t < config.tokens(); ++t) {
    batch.inputs.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(config.vocabulary))));
    batch.targets.push_back(static_cast<int32_t>(rng.Below(static_cast<uint64_t>(config.vocabulary))));
  }
  return batch;
}

// Far from the start, where gradients are large and nothing is symmetric by construction.
TrainingState RoughState(const std::vector<Parameter>& parameters) {
  TrainingState state = InitialState(parameters, 4);
  Rng rng(5);
  for (float& w : state.weights) w += static_cast<float>((rng.Unit() * 2 - 1) * 0.3);
  return state;
}

TEST(Model, GradientsAgreeWithFiniteDifferencesInEveryParameter) {
  const ModelConfig config = TinyModel();
  const std::vector<Parameter> parameters = ParametersOf(config);
  CpuBackend backend(config, BestKernels());
  const Batch batch = RandomBatch(config, 6);
  const TrainingState at = RoughState(parameters);
  ASSERT_OK(backend.Load(at));
  std::vector<float> gradient;
  backend.LossAndGradient(batch, &gradient);
  Rng rng(7);
  for (const Parameter& p : parameters) {
    // Along the gradient itself and along random directions within this parameter.
    for (int round = 0; round < 4; ++round) {
      std::vector<double> direction(p.size);
      double length = 0, expected = 0;
      for (size_t i = 0; i < p.size; ++i) {
        direction[i] = round == 0 ? gradient[p.offset + i] : rng.Unit() * 2 - 1;
        length += direction[i] * direction[i];
      }
      length = std::sqrt(length);
      ASSERT_GT(length, 0) << p.name;
      for (size_t i = 0; i < p.size; ++i) {
        direction[i] /= length;
        expected += direction[i] * gradient[p.offset + i];
      }
      constexpr double kStep = 0.02;
      auto loss_at = [&](double distance) {
        TrainingState moved = at;
        for (size_t i = 0; i < p.size; ++i) moved.weights[p.offset + i] += static_cast<float>(distance * direction[i]);
        EXPECT_OK(backend.Load(moved));
        return backend.Loss(batch);
      };
      const double measured = (8 * (loss_at(kStep) - loss_at(-kStep)) - (loss_at(2 * kStep) - loss_at(-2 * kStep))) / (12 * kStep);
      EXPECT_NEAR(measured, expected, 1e-4 + 0.01 * std::abs(expected)) << p.name << ", direction " << round;
    }
  }
}

// The loss over all places is the loss of a model that is one place shorter, plus that of the last place. So whatever the last input is,
// the places before it do not see it.
TEST(Model, NothingSeesWhatComesAfterIt) {
  ModelConfig config = TinyModel();
  config.batch = 1;
  ModelConfig shorter = config;
  shorter.context -= 1;
  const std::vector<Parameter> parameters = ParametersOf(config);
  const TrainingState full = RoughState(parameters);
  TrainingState cut;
  for (const Parameter& p : parameters) {
    const size_t drop = p.name == "embedding.position" ? static_cast<size_t>(config.dim) : 0;
    cut.weights.insert(cut.weights.end(), full.weights.begin() + static_cast<ptrdiff_t>(p.offset),
                       full.weights.begin() + static_cast<ptrdiff_t>(p.offset + p.size - drop));
  }
  cut.first_moment.resize(cut.weights.size());
  cut.second_moment.resize(cut.weights.size());
  CpuBackend whole(config, BestKernels()), prefix(shorter, BestKernels());
  ASSERT_OK(whole.Load(full));
  ASSERT_OK(prefix.Load(cut));

  // The loss of the last place, for each target it might have: their probabilities must add up to one if nothing else depends on it.
  Batch batch = RandomBatch(config, 8);
  const Batch part{{batch.inputs.begin(), batch.inputs.end() - 1}, {batch.targets.begin(), batch.targets.end() - 1}};
  const double before_last = prefix.Loss(part) * shorter.tokens();
  for (int32_t last_input = 0; last_input < 3; ++last_input) {
    batch.inputs.back() = last_input;
    double probability = 0;
    for (int32_t target = 0; target < config.vocabulary; ++target) {
      batch.targets.back() = target;
      probability += std::exp(before_last - whole.Loss(batch) * config.tokens());
    }
    EXPECT_NEAR(probability, 1.0, 1e-4);
  }
}

TEST(Model, LearnsTheSameInEveryInstructionSet) {
  ModelConfig config = TinyModel();
  ASSERT_OK_AND_ASSIGN(const Dataset data, MakeDataset(SampleText(4000), config.context));
  config.vocabulary = static_cast<int>(data.vocabulary.size());
  const std::vector<Parameter> parameters = ParametersOf(config);
  std::vector<TrainingState> ends;
  for (const Kernels* kernels : UsableKernels()) {
    CpuBackend backend(config, *kernels);
    ASSERT_OK(backend.Load(InitialState(parameters, 1)));
    Sampler sampler(&data, config.context, 1);
    Batch batch;
    double first = 0, last = 0;
    for (int step = 1; step <= 150; ++step) {
      sampler.Next(config.batch, &batch);
      ASSERT_OK_AND_ASSIGN(last, backend.TrainStep(batch, step, 0.01f));
      if (step == 1) first = last;
    }
    EXPECT_NEAR(first, std::log(config.vocabulary), 0.2);  // knows nothing: every character alike
    EXPECT_LT(last, 0.75 * first);
    ASSERT_OK(backend.Store(&ends.emplace_back()));
  }
  for (const TrainingState& end : ends) {
    EXPECT_EQ(std::memcmp(end.weights.data(), ends[0].weights.data(), end.weights.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(end.second_moment.data(), ends[0].second_moment.data(), end.weights.size() * sizeof(float)), 0);
  }
}

TEST(Model, ParametersFollowEachOtherWithoutGapsUnderUniqueNames) {
  const std::vector<Parameter> parameters = ParametersOf(TinyModel());
  size_t at = 0;
  std::set<std::string> names;
  for (const Parameter& p : parameters) {
    EXPECT_EQ(p.offset, at);
    at += p.size;
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
  }
  EXPECT_EQ(WeightCount(parameters), at);
}

TEST(Backends, SayWhatTheyAreAndRefuseWhatIsNotBuilt) {
  std::string said;
  auto say = [&](const std::string& line) { said += line; };
  ASSERT_OK_AND_ASSIGN(auto automatic, MakeBackend("auto", TinyModel(), say));
  EXPECT_THAT(automatic->Describe(), ::testing::HasSubstr("cpu"));
  EXPECT_THAT(said, ::testing::HasSubstr("using the CPU"));
  EXPECT_THAT(MakeBackend("cuda", TinyModel(), say).status(), StatusIs(absl::StatusCode::kUnimplemented, ::testing::HasSubstr("built without CUDA")));
  EXPECT_THAT(MakeBackend("cudda", TinyModel(), say).status(), StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("nearest: cuda")));
  Batch small{{1}, {2}};
  EXPECT_FALSE(automatic->TrainStep(small, 1, 0.1f).ok());
  EXPECT_FALSE(automatic->Load(TrainingState()).ok());
}

}  // namespace
}  // namespace spillway::trainer
