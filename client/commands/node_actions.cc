// What an operator does to a node: cordon, uncordon, drain.
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/units.h"
#include "client/commands/commands.h"

namespace spillway::client {
namespace {

int Say(Context& context, const std::string& node, const v1::NodeActionResponse& response, absl::string_view otherwise) {
  if (context.json) return context.PrintJson(response);
  *context.out << Printable(node, 60) << ": " << (response.message().empty() ? std::string(otherwise) : Printable(response.message(), 400)) << '\n';
  return kExitOk;
}

class CordonVerb final : public Verb {
 public:
  explicit CordonVerb(bool on) : on_(on) {}
  std::string Name() const override { return on_ ? "cordon" : "uncordon"; }
  std::string Summary() const override { return on_ ? "let a node take nothing new; what runs there goes on" : "let a cordoned node take work again"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{absl::StrCat("spillway ", Name(), " gpu-3"), on_ ? "before you work on it" : "afterwards"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("NODE", &node_, "a name or number", true);
    builder.Output();
  }
  int Run(Context& context) override {
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    v1::CordonRequest request;
    request.set_node(node_);
    request.set_on(on_);
    ASSIGN_OR_FAIL(context, const v1::NodeActionResponse response, api->Cordon(request));
    return Say(context, node_, response, on_ ? "takes nothing new" : "takes work again");
  }

 private:
  const bool on_;
  std::string node_;
};

class Drain final : public Verb {
 public:
  std::string Name() const override { return "drain"; }
  std::string Summary() const override { return "cordon a node, stop what runs there after a checkpoint, release it if a provider owns it"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway drain gpu-3", "its jobs go on elsewhere from their checkpoints"}, {"spillway drain gpu-3 --grace 5m", "give them longer to save"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("NODE", &node_, "a name or number", true);
    builder.Option("--grace", &grace_, "DURATION", "from the signal to SIGKILL; default: each job's own");
    builder.Output();
  }
  int Run(Context& context) override {
    v1::DrainRequest request;
    request.set_node(node_);
    if (!grace_.empty()) {
      ASSIGN_OR_FAIL(context, const int64_t grace_ms, ParseDurationMs(grace_));
      if (grace_ms == 0) return context.Fail(absl::InvalidArgumentError("--grace 0: without grace there is no checkpoint; 1ms is the least"));
      request.set_grace_ms(grace_ms);
    }
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const v1::NodeActionResponse response, api->Drain(request));
    return Say(context, node_, response, "draining");
  }

 private:
  std::string node_, grace_;
};

}  // namespace

std::unique_ptr<Verb> MakeCordon() { return std::make_unique<CordonVerb>(true); }
std::unique_ptr<Verb> MakeUncordon() { return std::make_unique<CordonVerb>(false); }
std::unique_ptr<Verb> MakeDrain() { return std::make_unique<Drain>(); }

}  // namespace spillway::client
