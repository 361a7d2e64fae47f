#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/commands/commands.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

class Events final : public Verb {
 public:
  std::string Name() const override { return "events"; }
  std::string Summary() const override { return "what happened, and with -f what happens"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway events 5", "everything that happened to job 5"},
            {"spillway events -f", "everything from now on"},
            {"spillway events -f --after 1200 -o json", "one JSON object a line, from event 1200 on"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("JOB", &job_, "only this job", false);
    builder.Flag("-f,--follow", &follow_, "go on until interrupted");
    builder.Option("--after", &after_, "SEQ", "only events after this number; 0: from the first that is kept");
    builder.Output();
  }
  int Run(Context& context) override {
    if (after_.value_or(0) < 0) return context.Fail(absl::InvalidArgumentError(absl::StrCat("--after: ", *after_, " is not a number from 0")));
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    v1::WatchRequest request;
    request.set_follow(follow_);
    if (!job_.empty()) {
      ASSIGN_OR_FAIL(context, const TaskId task, ResolveTask(*api, job_));
      request.set_job_id(task.job);
    }
    // All that is kept, except that following everything begins now.
    const bool from_now = !after_.has_value() && follow_ && job_.empty();
    request.set_after_seq(from_now ? 0 : after_.value_or(0) > 0 ? *after_ : -1);
    for (;;) {
      const absl::Status status = api->Watch(request, 0, [&](const v1::Event& event) {
        Print(context, event);
        return context.out->good();
      });
      if (!absl::IsOutOfRange(status) || !follow_) {
        OR_FAIL(context, status);
        return kExitOk;
      }
      *context.err << "spillway: too far behind; some events are missing here\n";
      request.set_after_seq(0);
    }
  }

 private:
  static void Print(const Context& context, const v1::Event& event) {
    if (context.json) {
      *context.out << ToJson(event, true) << std::flush;
      return;
    }
    std::string about = HumanAttempt(event.attempt());
    if (!event.node_name().empty()) absl::StrAppend(&about, about.empty() ? "" : " ", Printable(event.node_name(), 60));
    *context.out << event.seq() << "  " << HumanTime(event.utc_ms()) << "  " << context.Painted(Printable(event.kind(), 60), Colour::kBold) << "  " << about
                 << (about.empty() ? "" : "  ") << Printable(event.message(), 600) << '\n'
                 << std::flush;
  }

  std::string job_;
  bool follow_ = false;
  std::optional<int64_t> after_;
};

}  // namespace

std::unique_ptr<Verb> MakeEvents() { return std::make_unique<Events>(); }

}  // namespace spillway::client
