// Words, help, usage errors and exit codes: what every verb shares.
#include "client/cli.h"

#include <algorithm>
#include <fstream>
#include <map>

#include "base/files.h"
#include "base/status_matchers.h"
#include "tests/client/fake_api.h"

namespace spillway::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Cli, HelpListsEveryVerbAndTheExitCodes) {
  Cli cli;
  EXPECT_EQ(cli.Run({"--help"}), 0);
  for (const auto& verb : AllVerbs()) EXPECT_THAT(cli.out, HasSubstr("\n  " + verb->Name())) << verb->Name();
  EXPECT_THAT(cli.out, HasSubstr("exit: 0 ok, 1 the job failed, 2 usage or invalid input, 3 not found, 4 refused, 5 unreachable."));
  EXPECT_THAT(cli.out, HasSubstr("not built yet: exec, artifacts,"));
  const std::string help = cli.out;
  EXPECT_EQ(cli.Run({"help"}), 0);
  EXPECT_EQ(cli.out, help);
  EXPECT_EQ(cli.Run({}), 2);
  EXPECT_THAT(cli.out, IsEmpty());
  EXPECT_EQ(cli.err, help);
}

TEST(Cli, EveryVerbHasHelpWithExamplesThatParse) {
  for (const auto& verb : AllVerbs()) {
    Cli cli;
    EXPECT_EQ(cli.Run({verb->Name(), "--help"}), 0) << verb->Name();
    EXPECT_THAT(cli.out, HasSubstr("Examples:\n")) << verb->Name();
    ASSERT_FALSE(verb->Examples().empty()) << verb->Name();
    for (const auto& [line, what] : verb->Examples()) {
      EXPECT_THAT(cli.out, HasSubstr(line));
      EXPECT_FALSE(what.empty());
      if (verb->Name() == "up" || verb->Name() == "down") continue;  // they would do it
      // The words of the example, up to what a shell would take: they must be taken by the parser.
      std::vector<std::string> words;
      std::istringstream stream(line);
      for (std::string word; stream >> word && word != ">";) words.push_back(word);
      if (words.empty() || words[0] != "spillway") continue;
      words.erase(words.begin());
      Cli example;
      example.connect_error = absl::UnavailableError("nobody");
      const int code = example.Run(words);
      EXPECT_THAT(example.err, Not(HasSubstr("see `spillway "))) << line << "\n" << example.err;
      EXPECT_NE(code, 1) << line;
    }
    EXPECT_EQ(cli.Run({"help", verb->Name()}), 0) << verb->Name();
  }
}

TEST(Cli, UnknownVerbsAreNamedWithTheNearest) {
  Cli cli;
  EXPECT_EQ(cli.Run({"sumbit", "x"}), 2);
  EXPECT_EQ(cli.err, "spillway: unknown verb `sumbit`, did you mean `submit`?\nsee `spillway --help`\n");
  for (const auto& [theirs, ours] :
       std::map<std::string, std::string>{{"list", "queue"}, {"ls", "queue"}, {"scancel", "cancel"}, {"sbatch", "submit"}, {"stop", "down"}}) {
    EXPECT_EQ(cli.Run({theirs}), 2);
    EXPECT_THAT(cli.err, HasSubstr("did you mean `" + ours + "`?")) << "what other tools call it";
  }
  EXPECT_EQ(cli.Run({"xyzzyplugh"}), 2);
  EXPECT_THAT(cli.err, StartsWith("spillway: unknown verb `xyzzyplugh`\n"));
}

TEST(Cli, VerbsThatAreNotBuiltAreRefusedByName) {
  for (const std::string& verb : VerbsNotBuilt()) {
    Cli cli;
    EXPECT_EQ(cli.Run({verb, "--anything", "x"}), 2);
    EXPECT_THAT(cli.err, StartsWith("spillway: `" + verb + "` is not built yet\n"));
    EXPECT_THAT(cli.api.calls, IsEmpty());
  }
  Cli cli;
  EXPECT_EQ(cli.Run({"cost", "estimate"}), 2);
  EXPECT_EQ(cli.err, "spillway: `cost estimate` is not built yet; `cost report` is\n");
  EXPECT_EQ(cli.Run({"checkpoints", "delete", "5"}), 2);
  EXPECT_EQ(cli.err, "spillway: `checkpoints delete` is not known; one of list, show, verify, export, import, prune, diff, rewrap\n");
}

TEST(Cli, UsageErrorsNameTheVerb) {
  Cli cli;
  EXPECT_EQ(cli.Run({"queue", "--al"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("--al"));
  EXPECT_THAT(cli.err, HasSubstr("see `spillway queue --help`"));
  EXPECT_EQ(cli.Run({"explain"}), 2);
  EXPECT_EQ(cli.Run({"queue", "-o", "xml"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("-o xml: expected table or json"));
  EXPECT_EQ(cli.Run({"queue", "--", "x"}), 2);
  EXPECT_EQ(cli.Run({"queue", "--limit", "many"}), 2);
  EXPECT_EQ(cli.Run({"--server"}), 2);
  EXPECT_THAT(cli.api.calls, IsEmpty());
}

TEST(Cli, AnUnknownOptionIsNamedWithWhatWasMeant) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"submit", "--gpu", "2", "t.yaml"}, "there is no option `--gpu`, did you mean `--set resources.gpu=2`?"},
      {{"submit", "t.yaml", "--gpus=H100:8"}, "there is no option `--gpus`, did you mean `--set resources.gpu=H100:8`?"},
      {{"submit", "--cpus", "t.yaml"}, "there is no option `--cpus`, did you mean `--set resources.cpus=VALUE`?"},
      {{"submit", "--max-price", "3.50", "t.yaml"}, "did you mean `--set placement.max_price=3.50`?"},
      {{"submit", "--env", "SEED=7", "t.yaml"}, "did you mean `--set env.SEED=7`?"},
      {{"submit", "--name", "x"}, "did you mean `--set name=x`?"},
      {{"submit", "--request", "x", "t.yaml"}, "did you mean `--request-id`?"},
      {{"run", "--gpu", "2", "--", "x"}, "there is no option `--gpu`, did you mean `--gpus`?"},
      {{"run", "--memroy=4GB", "x"}, "did you mean `--memory`?"},
      {{"run", "--priority", "9", "x"}, "did you mean `--set priority=9`?"},
      {{"queue", "--al"}, "there is no option `--al`, did you mean `--all`?"},
      {{"cancel", "5", "-x"}, "there is no option `-x`\n"},
      {{"logs", "--xyzzyplugh", "5"}, "there is no option `--xyzzyplugh`\n"}};
  for (const auto& [words, said] : cases) {
    Cli cli;
    EXPECT_EQ(cli.Run(words), 2);
    EXPECT_THAT(cli.err, HasSubstr(said));
    EXPECT_THAT(cli.api.calls, IsEmpty());
  }
  for (const auto& verb : AllVerbs()) {
    Cli cli;
    EXPECT_EQ(cli.Run({verb->Name(), "--hepl"}), 2);
    EXPECT_THAT(cli.err, HasSubstr("there is no option `--hepl`, did you mean `--help`?")) << verb->Name();
  }
}

// `--name "$UNSET"` in a script is not the same as leaving the option out; nobody guesses which was meant.
TEST(Cli, AnEmptyValueIsRefusedByName) {
  const std::vector<std::vector<std::string>> lines = {{"submit", "--request-id", "", "x.yaml"},
                                                       {"submit", "--set", "", "x.yaml"},
                                                       {"run", "--name", "", "x"},
                                                       {"run", "--gpus", "", "x"},
                                                       {"run", "--env", "", "x"},
                                                       {"queue", "--name", ""},
                                                       {"wait", "5", "--timeout", ""},
                                                       {"cancel", "5", "--reason", ""},
                                                       {"preempt", "5", "--grace", ""},
                                                       {"update", "5", "--priority", ""},
                                                       {"drain", "n1", "--grace", ""},
                                                       {"logs", "5", "--attempt", ""},
                                                       {"offers", "--provider", ""},
                                                       {"cost", "report", "--from", ""},
                                                       {"up", "--resources", ""},
                                                       {"queue", "--server", ""}};
  for (const std::vector<std::string>& line : lines) {
    Cli cli;
    EXPECT_EQ(cli.Run(line), 2) << line[0];
    const auto option = std::find_if(line.begin(), line.end(), [](const std::string& word) { return word.starts_with("--"); });
    EXPECT_THAT(cli.err, StartsWith("spillway: " + *option + ": the value is empty; leave it out instead\n")) << line[0];
    EXPECT_THAT(cli.api.calls, IsEmpty());
    // The other way to write it: the next word must not become the value.
    std::vector<std::string> attached = line;
    auto at = attached.begin() + (option - line.begin());
    *at += "=";
    attached.erase(at + 1);
    EXPECT_EQ(cli.Run(attached), 2) << line[0];
    EXPECT_THAT(cli.err, HasSubstr(*option + ": the value is empty"));
  }
  Cli cli;
  EXPECT_EQ(cli.Run({"describe", ""}), 2);
  EXPECT_EQ(cli.Run({"cordon", ""}), 2);
  EXPECT_THAT(cli.err, HasSubstr("NODE: the value is empty"));
}

// Messages carry UTF-8; what is not is named instead of failing on the wire.
TEST(Cli, TextThatIsNotUtf8IsRefusedByTheNameOfItsArgument) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> lines = {{{"cancel", "5", "--reason", "caf\xe9"}, "--reason: `caf\\xe9`"},
                                                                               {{"run", "--name", "\xff", "x"}, "--name: `\\xff`"},
                                                                               {{"run", "--env", "A=\xff", "x"}, "--env: `A=\\xff`"},
                                                                               {{"run", "--", "echo", "caf\xe9"}, "COMMAND... word 2: `caf\\xe9`"},
                                                                               {{"run", "caf\xe9"}, "COMMAND: `caf\\xe9`"},
                                                                               {{"queue", "--name", "\xff"}, "--name: `\\xff`"},
                                                                               {{"describe", "\xff"}, "JOB|node: `\\xff`"},
                                                                               {{"cordon", "n\xff"}, "NODE: `n\\xff`"},
                                                                               {{"offers", "--provider", "\xff"}, "--provider: `\\xff`"},
                                                                               {{"submit", "--request-id", "\xff", "x.yaml"}, "--request-id: `\\xff`"}};
  for (const auto& [line, words] : lines) {
    Cli cli;
    EXPECT_EQ(cli.Run(line), 2) << words;
    EXPECT_THAT(cli.err, StartsWith("spillway: " + words + " is not UTF-8 text\n"));
    EXPECT_THAT(cli.api.calls, IsEmpty());
  }
}

TEST(Cli, GlobalOptionsStandBeforeOrAfterTheVerb) {
  Cli cli;
  EXPECT_EQ(cli.Run({"--server", "a:1", "queue"}), 0);
  EXPECT_EQ(cli.context.server_flag, "a:1");
  EXPECT_EQ(cli.Run({"queue", "--server", "b:2", "--yes"}), 0);
  EXPECT_EQ(cli.context.server_flag, "b:2");
  EXPECT_TRUE(cli.context.yes);
}

TEST(Cli, ErrorsBecomeExitCodes) {
  const std::vector<std::pair<absl::Status, int>> cases = {{absl::InvalidArgumentError("m"), 2},    {absl::NotFoundError("m"), 3},
                                                           {absl::FailedPreconditionError("m"), 4}, {absl::ResourceExhaustedError("m"), 4},
                                                           {absl::UnauthenticatedError("m"), 4},    {absl::PermissionDeniedError("m"), 4},
                                                           {absl::UnimplementedError("m"), 4},      {absl::InternalError("m"), 4},
                                                           {absl::UnavailableError("m"), 5},        {absl::DeadlineExceededError("m"), 5}};
  for (const auto& [status, code] : cases) {
    Cli cli;
    cli.api.fail["Explain"] = status;
    EXPECT_EQ(cli.Run({"explain", "5"}), code) << status;
    EXPECT_EQ(cli.err, "spillway: m\n");
    EXPECT_THAT(cli.out, IsEmpty());
  }
  Cli cli;
  cli.connect_error = absl::UnavailableError("nobody there");
  EXPECT_EQ(cli.Run({"nodes"}), 5);
  EXPECT_EQ(cli.err, "spillway: nobody there\n");
}

TEST(Cli, Version) {
  Cli cli;
  EXPECT_EQ(cli.Run({"--version"}), 0);
  EXPECT_THAT(cli.out, StartsWith("spillway 0."));
  EXPECT_EQ(cli.Run({"version", "--scheduler"}), 0);
  EXPECT_THAT(cli.out, HasSubstr("scheduler "));
}

TEST(Cli, CompletionScriptsKnowEveryVerbAndAreTheOnesInTheTree) {
  for (const std::string shell : {"bash", "zsh"}) {
    Cli cli;
    EXPECT_EQ(cli.Run({"completion", shell}), 0);
    for (const auto& verb : AllVerbs()) EXPECT_THAT(cli.out, HasSubstr(verb->Name()));
    EXPECT_THAT(cli.out, HasSubstr("--request-id"));
    const char* source = getenv("SPILLWAY_SOURCE");
    ASSERT_NE(source, nullptr) << "run by ctest";
    const std::string path = JoinPath(source, shell == "bash" ? "scripts/completion/spillway.bash" : "scripts/completion/_spillway");
    ASSERT_OK_AND_ASSIGN(const std::string kept, ReadFile(path));
    EXPECT_EQ(cli.out, kept) << "write it anew: spillway completion " << shell << " > " << path;
  }
  Cli cli;
  EXPECT_EQ(cli.Run({"completion", "fish"}), 2);
  EXPECT_EQ(cli.err, "spillway: `fish`: expected bash or zsh, jobs or nodes\n");
}

TEST(Cli, CompletionNamesJobsAndNodesAndIsSilentWithoutAScheduler) {
  Cli cli;
  cli.api.jobs[3] = MakeJob(3, "bert", "ACTIVE");
  cli.api.jobs[8] = MakeJob(8, "bert", "SUCCEEDED");
  EXPECT_EQ(cli.Run({"completion", "jobs"}), 0);
  EXPECT_EQ(cli.out, "3\n8\nbert\n");
  for (const char* name : {"gpu-1", "$(reboot)", "a b", "`x`", "rack.2"}) cli.api.nodes.add_nodes()->set_name(name);
  EXPECT_EQ(cli.Run({"completion", "nodes"}), 0);
  EXPECT_EQ(cli.out, "gpu-1\nrack.2\n") << "a shell looks at these words once more";
  cli.connect_error = absl::UnavailableError("nobody");
  for (const char* kind : {"jobs", "nodes"}) {
    EXPECT_EQ(cli.Run({"completion", kind}), 0);
    EXPECT_EQ(cli.out + cli.err, "");
  }
}

TEST(Cli, AsksOnlyOnATerminal) {
  Cli cli;
  for (int id : {1, 2}) cli.api.jobs[id] = MakeJob(id, "a", "QUEUED");
  EXPECT_EQ(cli.Run({"cancel", "all"}), 2);
  EXPECT_EQ(cli.err, "spillway: Cancel 2 jobs? Say --yes.\n");
  cli.context.in_is_terminal = true;
  cli.in.str("n\n");
  EXPECT_EQ(cli.Run({"cancel", "all"}), 2);
  EXPECT_THAT(cli.err, HasSubstr("Cancel 2 jobs? [y/N] spillway: nothing was done"));
  for (const std::string& call : cli.api.calls) EXPECT_THAT(call, StartsWith("List"));
  cli.in.clear();
  cli.in.str("y\n");
  EXPECT_EQ(cli.Run({"cancel", "all"}), 0);
  EXPECT_EQ(cli.out, "job 1: cancelled\njob 2: cancelled\n");
}

}  // namespace
}  // namespace spillway::client
