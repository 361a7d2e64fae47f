#include "sim/sim_process.h"

#include <gtest/gtest.h>

namespace spillway::sim {
namespace {

class SimProcessTest : public ::testing::Test, public Observer {
 protected:
  void Run(JobPlan plan, const std::string& resume_path = "") {
    ProcessSetup setup;
    setup.attempt = {1, 0, 1};
    setup.plan = plan;
    setup.job_uid = "uid";
    setup.checkpoint_dir = "c/1/0/a1";
    setup.resume_path = resume_path;
    process = std::make_unique<SimProcess>(&world, &clock, &store, this, nullptr, 5, setup);
    ProcessWatch watch;
    watch.saved = [this](int64_t step, const std::string&) { saved.push_back(step); };
    watch.gone = [this](const ProcessEnd& how) { end = how; };
    process->Begin(std::move(watch));
  }
  void ProcessEnded(const ProcessFact& fact) override { truth = fact; }
  void Pass(int64_t ms) { world.RunUntil(world.now_ms() + ms); }
  static JobPlan Plan() {
    JobPlan plan;
    plan.total_steps = 100;
    plan.step_ms = 1'000;
    plan.save_every = 10;
    plan.save_ms = 100;
    return plan;
  }

  World world{1};
  MachineClock clock{&world, 0, 0};
  CheckpointStore store{&world, this};
  std::unique_ptr<SimProcess> process;
  std::vector<int64_t> saved;
  std::optional<ProcessEnd> end;
  ProcessFact truth;
};

TEST_F(SimProcessTest, DoesItsStepsSavesAndCompletes) {
  Run(Plan());
  Pass(130'000);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->exited && end->exit_code == 0 && end->said_completed);
  EXPECT_EQ(saved, (std::vector<int64_t>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}));
  EXPECT_TRUE(truth.completed);
  EXPECT_EQ(truth.work, WorkAfter(FirstWork("uid"), 0, 100));
}

TEST_F(SimProcessTest, ResumesBehindADamagedCheckpointWithTheSameWork) {
  Run(Plan());
  Pass(45'000);
  process->PowerOff();
  store.Damage(CheckpointPath("c/1/0/a1", 40));
  saved.clear();
  Run(Plan(), CheckpointPath("c/1/0/a1", 40));
  Pass(130'000);
  EXPECT_TRUE(truth.completed);
  EXPECT_EQ(truth.work, WorkAfter(FirstWork("uid"), 0, 100));
  EXPECT_EQ(saved.front(), 40);
}

TEST_F(SimProcessTest, SavesOnTermAndLeavesUndone) {
  Run(Plan());
  Pass(25'500);
  process->Term();
  Pass(1'000);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->exited && end->exit_code == 0 && !end->said_completed);
  ASSERT_FALSE(saved.empty());
  EXPECT_GT(saved.back(), 20);
  EXPECT_LT(saved.back(), 26);
}

TEST_F(SimProcessTest, IgnoresTermUntilItIsKilled) {
  JobPlan plan = Plan();
  plan.on_term = JobPlan::OnTerm::kIgnore;
  Run(plan);
  Pass(25'000);
  process->Term();
  Pass(10'000);
  EXPECT_FALSE(end);
  process->Kill();
  Pass(3'000);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->signal, 9);
}

TEST_F(SimProcessTest, FailsWhereItsPlanSays) {
  JobPlan plan = Plan();
  plan.fail_at_step = 15;
  plan.fail_attempts = 1;
  Run(plan);
  Pass(60'000);
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->exited && end->exit_code == 1);
  EXPECT_EQ(saved, std::vector<int64_t>{10});
}

TEST(JobPlan, TravelsAsASpec) {
  JobPlan plan;
  plan.total_steps = 7;
  plan.on_term = JobPlan::OnTerm::kDie;
  plan.reports_checkpoints = false;
  plan.ask_at_step = 3;
  const auto back = JobPlan::FromSpec(plan.ToSpec());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->ToSpec(), plan.ToSpec());
  EXPECT_FALSE(JobPlan::FromSpec("plan 1 2").ok());
  EXPECT_FALSE(JobPlan::FromSpec("plan 1 2 3 4 5 6 7 8 x").ok());
}

}  // namespace
}  // namespace spillway::sim
