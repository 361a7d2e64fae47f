#include "client/commands/commands.h"

namespace spillway::client {
namespace {

class Version final : public Verb {
 public:
  std::string Name() const override { return "version"; }
  std::string Summary() const override { return "the version of this program, and of the scheduler"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway version", "this program alone"}, {"spillway version --scheduler", "the scheduler too: cluster, uptime, load"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Flag("--scheduler", &scheduler_, "ask the scheduler too");
    builder.Output();
  }
  int Run(Context& context) override {
    if (!context.json) *context.out << "spillway " << SPILLWAY_VERSION << '\n';
    if (!scheduler_) {
      if (context.json) *context.out << "{\"version\": \"" << SPILLWAY_VERSION << "\"}\n";
      return kExitOk;
    }
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const v1::ServerInfo info, api->GetServerInfo());
    if (context.json) return context.PrintJson(info);
    *context.out << "scheduler " << info.version() << ", up " << HumanAge(context.clock->NowUtcMs(), info.started_utc_ms()) << '\n'
                 << "cluster " << info.cluster_uuid() << ", incarnation " << info.incarnation() << ", event " << info.event_seq() << '\n'
                 << Counted(info.queued_tasks(), "task queued", "tasks queued") << ", " << info.active_tasks() << " active, "
                 << Counted(info.ready_nodes(), "node ready", "nodes ready") << '\n';
    return kExitOk;
  }

 private:
  bool scheduler_ = false;
};

}  // namespace

std::unique_ptr<Verb> MakeVersion() { return std::make_unique<Version>(); }

}  // namespace spillway::client
