// The supervisor at its k-th call that changes a file of the node: it dies there, or the call fails, once or for ever. Whatever it was about to write,
// its successor kills what was left, tells every end once more with a cause, and starts nothing twice.
#include "tests/crash/shim.h"
#include "tests/worker_supervisor/harness.h"

namespace spillway::supervisor {
namespace {

using frames::EndOf;

constexpr int64_t kCallsMax = 400;

// The supervisors that a harness starts inherit this process's environment.
class Preloaded {
 public:
  explicit Preloaded(const Shim& shim) : variables_(shim.Variables()) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Preloaded() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }

 private:
  const std::vector<std::pair<std::string, std::string>> variables_;
};

class SupervisorCrashTest : public ::testing::TestWithParam<IoShimMode> {
 protected:
  // A short attempt that is taken, one whose end nobody takes, and one that runs on with a daemon of its own. Anything may fail on the way.
  static void Work(SupervisorHarness* node) {
    const auto start = [&](frames::Start command) { return node->client().Start(std::move(command)).ok(); };
    const auto next = [&](int64_t ms) -> std::optional<frames::FromSupervisor> {
      auto frame = node->client().Receive(ms);
      return frame.ok() ? *frame : std::nullopt;
    };
    if (!start(node->Shell("taken", "exit 5"))) return;
    if (!start(node->Shell("told", "echo out; exit 6"))) return;
    if (!start(node->Shell("runs", "$JOB daemon $DIR/daemon; exec $JOB stubborn $DIR/main"))) return;
    int ends = 0;
    bool runs = false;
    for (const int64_t deadline = node->Now() + 10'000; node->Now() < deadline && !(ends >= 2 && runs);) {
      if (!node->client().connected()) return;
      const auto frame = next(20);
      if (frame.has_value()) {
        if (const auto* event = std::get_if<frames::Event>(&*frame); event != nullptr && std::holds_alternative<frames::Exited>(event->what)) {
          ++ends;
          if (event->attempt.key == "cluster/runs") runs = true;
          if (event->attempt.key == "cluster/taken" && !node->client().Ack(event->number).ok()) return;
        }
        if (const auto* reply = std::get_if<frames::Reply>(&*frame); reply != nullptr && reply->code != 0) ++ends;
      }
      if (PathExists(node->Path("main")) && PathExists(node->Path("daemon"))) runs = true;
    }
    // Its answer shows that all before was carried out.
    if (!node->client().List().ok()) return;
    for (const int64_t deadline = node->Now() + 10'000; node->Now() < deadline && node->client().connected();) {
      const auto frame = next(20);
      if (frame.has_value() && std::holds_alternative<frames::Inventory>(*frame)) return;
    }
  }

  // After the supervisor's death.
  static void CheckSuccessor(SupervisorHarness* node) {
    const frames::Inventory inventory = node->Reconnect();
    EXPECT_FALSE(node->Alive("main"));
    EXPECT_FALSE(node->Alive("daemon"));
    std::map<std::string, frames::Exited> ended;
    for (size_t i = 0; i < inventory.items.size(); ++i) {
      const auto event = node->WaitEvent([](const frames::Event& e) { return std::holds_alternative<frames::Exited>(e.what); });
      ASSERT_TRUE(event.has_value());
      ended[event->attempt.key] = std::get<frames::Exited>(event->what);
    }
    for (const frames::InventoryItem& item : inventory.items) EXPECT_EQ(ended.count(item.attempt.key), 1u) << item.attempt.key;
    for (const auto& [key, exited] : ended) {
      const frames::End end = EndOf(exited.facts);
      const bool itself = key != "cluster/runs" && end.cause == EndCause::kUserError && exited.facts.exit_code == (key == "cluster/taken" ? 5 : 6);
      EXPECT_TRUE(itself || end.cause == EndCause::kNodeLost || end.cause == EndCause::kLaunchFailed) << key << ": " << end.detail;
    }
    // What it knows it does not start again; what it never heard of it may. And it works.
    for (const std::string name : {"taken", "told"}) {
      const absl::Status again = node->Answer(node->client().Start(node->Shell(name, "exit 0")));
      EXPECT_EQ(absl::IsAlreadyExists(again), ended.count("cluster/" + name) == 1) << name << ": " << again;
    }
    node->Run(node->Shell("afterwards", "exit 7"));
    EXPECT_EQ(node->WaitExit("afterwards").exit_code, 7);
  }

  std::unique_ptr<Shim> shim_;
  std::unique_ptr<Preloaded> preloaded_;
};

TEST_P(SupervisorCrashTest, AtEveryCallTheSuccessorLeavesNothingAndKnowsEveryEnd) {
  const IoShimMode mode = GetParam();
  int struck = 0;
  for (int64_t k = 1;; ++k) {
    ASSERT_LT(k, kCallsMax);
    bool over = false;
    {
      SupervisorHarness node("auto", [&](const std::string& folder) {
        shim_ = std::make_unique<Shim>(folder, "spillway-supervisor");
        // One that dies is started again by its worker; one whose disk is broken from the start never comes up, so that begins later.
        if (mode == IO_SHIM_DIES) shim_->FailAt(k, mode);
        preloaded_ = std::make_unique<Preloaded>(*shim_);
      });
      if (mode != IO_SHIM_DIES) shim_->FailAt(k, mode);
      Work(&node);
      over = !shim_->struck();
      struck += !over;
      SCOPED_TRACE(absl::StrCat("call ", k, ": ", shim_->what()));
      shim_->Disarm();
      preloaded_.reset();
      if (node.client().connected()) node.KillSupervisor();
      (void)node.client().Receive(0);
      CheckSuccessor(&node);
      if (HasFailure()) return;
    }
    if (over) break;
  }
  EXPECT_GT(struck, 10);
}

INSTANTIATE_TEST_SUITE_P(, SupervisorCrashTest, ::testing::Values(IO_SHIM_DIES, IO_SHIM_ERROR_ONCE, IO_SHIM_ERROR_STAYS, IO_SHIM_FULL_ONCE, IO_SHIM_FULL_STAYS),
                         [](const auto& info) { return std::string(IoShimModeName(info.param)); });

}  // namespace
}  // namespace spillway::supervisor
