// What jobs may name under `secrets:`. A value comes from standard input, a file or a variable, never from the command line, which every user of the
// machine can read; and no verb shows one.
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <istream>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/text.h"
#include "client/commands/commands.h"
#include "spec/validate.h"

namespace spillway::client {
namespace {

// What is typed is not shown while this lives. Whoever interrupts the program has a terminal that shows again.
class HiddenTyping {
 public:
  HiddenTyping() {
    if (tcgetattr(STDIN_FILENO, &shown_) != 0) return;
    termios hidden = shown_;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    is_hidden_ = tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) == 0;
    for (const int number : kSignals) before_.push_back(signal(number, ShowAndEnd));
  }
  ~HiddenTyping() {
    if (is_hidden_) tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown_);
    for (size_t i = 0; i < before_.size(); ++i) signal(kSignals[i], before_[i]);
  }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  static void ShowAndEnd(int number) {
    tcsetattr(STDIN_FILENO, TCSANOW, &shown_);
    signal(number, SIG_DFL);
    raise(number);
  }
  static inline termios shown_ = {};
  bool is_hidden_ = false;
  std::vector<sighandler_t> before_;
};

constexpr size_t kTypedBytesMax = 4'095;  // of one line, whatever more was typed (termios(3), canonical mode)
constexpr int kPasteGapMs = 100;          // a terminal hands over a paste without a pause

class Secrets final : public Verb {
 public:
  std::string Name() const override { return "secrets"; }
  std::string Summary() const override { return "tokens and keys that jobs name: set, list, rm"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway secrets set HF_TOKEN", "asks for the value, and does not show it"},
            {"pass show hf | spillway secrets set HF_TOKEN", "from another program; one end of a line at its end is left out"},
            {"spillway secrets set GCP_KEY --file key.json", "byte for byte; a job reads it at $SPILLWAY_SECRETS_DIR/GCP_KEY"},
            {"spillway secrets list", "names, and when each was set; never a value"},
            {"spillway secrets rm HF_TOKEN", "attempts that run keep what they were given"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("set|list|rm", &what_, "what to do", true);
    builder.Positional("NAME", &name_, "set, rm: the name, as a job writes it under `secrets:`", false);
    builder.Option("--file", &file_, "FILE", "set: the value is what this file holds");
    builder.Option("--env", &variable_, "VARIABLE", "set: the value is this variable's");
    builder.Output();
  }

  int Run(Context& context) override {
    OR_FAIL(context, Check());
    if (what_ == "list") return List(context);
    return what_ == "set" ? Set(context) : Remove(context);
  }

 private:
  absl::Status Check() const {
    const std::vector<std::string> known = {"set", "list", "rm"};
    if (std::find(known.begin(), known.end(), what_) == known.end()) {
      const std::string meant = what_ == "remove" || what_ == "delete" ? "rm" : what_ == "ls" ? "list" : NearestName(what_, known);
      return absl::InvalidArgumentError(absl::StrCat("`secrets ", Printable(what_, 40), "` is not known; ",
                                                     meant.empty() ? "one of set, list, rm" : absl::StrCat("do you mean `", meant, "`?")));
    }
    if (what_ != "set" && (!file_.empty() || !variable_.empty())) return absl::InvalidArgumentError("--file and --env are for `secrets set`");
    if (what_ == "list") return name_.empty() ? absl::OkStatus() : absl::InvalidArgumentError("write: spillway secrets list");
    if (name_.empty()) return absl::InvalidArgumentError(absl::StrCat("write: spillway secrets ", what_, " NAME"));
    if (what_ == "set" && name_.find('=') != std::string::npos)
      return absl::InvalidArgumentError(
          "a value does not belong on the command line, which others can read: give the name alone, and the value when asked for it");
    if (const std::string problem = spec::SecretNameProblem(name_); what_ == "set" && !problem.empty())
      return absl::InvalidArgumentError(absl::StrCat("NAME: ", problem));
    if (!file_.empty() && !variable_.empty()) return absl::InvalidArgumentError("one of --file and --env");
    return absl::OkStatus();
  }

  int Set(Context& context) {
    v1::SetSecretRequest request;
    request.set_name(name_);
    ASSIGN_OR_FAIL(context, *request.mutable_value(), Value(context));
    if (request.value().empty()) return context.Fail(absl::InvalidArgumentError("the value is empty"));
    if (request.value().size() > limits::kSecretBytesMax)
      return context.Fail(absl::InvalidArgumentError(absl::StrCat("the value has more than ", limits::kSecretBytesMax, " bytes, which is the most")));
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const v1::SetSecretResponse response, api->SetSecret(request));
    if (context.json) return context.PrintJson(response);
    *context.out << name_ << (response.replaced() ? ": replaced; attempts that run keep the old value" : ": set") << '\n';
    return kExitOk;
  }

  int Remove(Context& context) {
    v1::RemoveSecretRequest request;
    request.set_name(name_);
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    OR_FAIL(context, context.Confirm(absl::StrCat("Remove ", Printable(name_, 80), "? Jobs that name it are paused when they are to start.")));
    ASSIGN_OR_FAIL(context, const v1::RemoveSecretResponse response, api->RemoveSecret(request));
    if (context.json) return context.PrintJson(response);
    *context.out << name_ << ": removed\n";
    return kExitOk;
  }

  static int List(Context& context) {
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const v1::ListSecretsResponse response, api->ListSecrets(v1::ListSecretsRequest()));
    if (context.json) return context.PrintJson(response);
    if (response.secrets().empty()) {
      *context.err << "no secrets; `spillway secrets set NAME` makes one\n";
      return kExitOk;
    }
    Table table({"NAME", "SET"});
    for (const v1::SecretInfo& secret : response.secrets()) table.Add({Printable(secret.name(), 80), HumanTime(secret.set_utc_ms())});
    *context.out << table.Render(context.colours);
    return kExitOk;
  }

  absl::StatusOr<std::string> Value(Context& context) const {
    if (!variable_.empty()) {
      if (!context.environment_has(variable_.c_str())) return absl::InvalidArgumentError(absl::StrCat("--env: ", Printable(variable_, 60), " is not set"));
      return context.environment(variable_.c_str());
    }
    if (!file_.empty()) return ReadFile(file_, limits::kSecretBytesMax);
    return context.in_is_terminal ? Asked(context) : Piped(*context.in);
  }

  // One end of a line is the shell's, not the value's.
  static std::string Piped(std::istream& in) {
    std::string value(limits::kSecretBytesMax + 3, '\0');
    in.read(value.data(), static_cast<std::streamsize>(value.size()));
    value.resize(static_cast<size_t>(in.gcount()));
    if (!value.empty() && value.back() == '\n') value.pop_back();
    if (!value.empty() && value.back() == '\r') value.pop_back();
    return value;
  }

  // Further lines of what was pasted. They must not become commands of the shell that comes next.
  static bool DropTyped() {
    pollfd typed{STDIN_FILENO, POLLIN, 0};
    if (isatty(STDIN_FILENO) == 0 || poll(&typed, 1, kPasteGapMs) <= 0) return false;
    tcflush(STDIN_FILENO, TCIFLUSH);
    return true;
  }

  absl::StatusOr<std::string> Asked(Context& context) const {
    const HiddenTyping hidden;  // before the question: it drops what was typed until then
    *context.err << "value of " << name_ << " (not shown): " << std::flush;
    std::string value;
    std::getline(*context.in, value);
    *context.err << '\n';
    if (value.size() >= kTypedBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat("a terminal gives no more than ", kTypedBytesMax, " bytes of a line: use --file, or a pipe"));
    }
    if (DropTyped()) return absl::InvalidArgumentError("the value has more than one line: use --file, or a pipe");
    return value;
  }

  std::string what_, name_, file_, variable_;
};

}  // namespace

std::unique_ptr<Verb> MakeSecrets() { return std::make_unique<Secrets>(); }

}  // namespace spillway::client
