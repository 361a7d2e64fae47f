// Scripts that let a shell complete verbs, options, jobs and nodes. Made from the verbs themselves, so that they cannot fall behind;
// scripts/completion/ holds what this prints, and a test compares. The names of jobs and nodes are asked of the scheduler when the key is pressed.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "client/cli.h"
#include "client/commands/commands.h"

namespace spillway::client {
namespace {

constexpr int64_t kAskTimeoutMs = 1'000;  // somebody waits at a prompt
constexpr int kJobsShown = 100;

// What may stand where a verb takes a word: fixed words, and a kind of thing whose names are asked for.
struct Choices {
  std::string fixed;  // "node", "list"
  std::string kind;   // "jobs", "nodes", "files", "commands", or none
};

Choices ChoicesOf(const VerbWords& words) {
  Choices choices;
  for (const std::string& positional : words.positionals) {
    for (const absl::string_view word : absl::StrSplit(positional, '|')) {
      std::string kind = word == "JOB" ? "jobs" : word == "NODE" ? "nodes" : word == "JOB.yaml" ? "files" : word == "COMMAND" ? "commands" : "";
      if (choices.kind.empty()) choices.kind = std::move(kind);
      const bool fixed = std::all_of(word.begin(), word.end(), [](char c) { return absl::ascii_islower(static_cast<unsigned char>(c)); });
      if (fixed && &positional == &words.positionals.front()) absl::StrAppend(&choices.fixed, choices.fixed.empty() ? "" : " ", word);
    }
  }
  if (choices.kind == "jobs") absl::StrAppend(&choices.fixed, choices.fixed.empty() ? "" : " ", "last");
  return choices;
}

std::vector<std::string> NamesOf(const Verb& verb) {
  std::vector<std::string> names = verb.Aliases();
  names.insert(names.begin(), verb.Name());
  return names;
}

std::string Bash() {
  std::string verbs, cases;
  for (const auto& verb : AllVerbs()) {
    const VerbWords words = WordsOf(*verb);
    const Choices choices = ChoicesOf(words);
    absl::StrAppend(&verbs, verbs.empty() ? "" : " ", absl::StrJoin(NamesOf(*verb), " "));
    absl::StrAppend(&cases, "    ", absl::StrJoin(NamesOf(*verb), "|"), ") words=\"", absl::StrJoin(words.options, " "), "\"",
                    choices.fixed.empty() ? "" : absl::StrCat(" fixed=\"", choices.fixed, "\""),
                    choices.kind.empty() ? "" : absl::StrCat(" kind=", choices.kind), " ;;\n");
  }
  return absl::StrCat(
      "# bash completion for spillway: source this file, or put it where bash-completion looks.\n"
      "_spillway() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} verb='' words='' fixed='' kind='' i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in\n"
      "      --) return ;;\n"
      "      --server) ((i++)) ;;\n"
      "      -*) ;;\n"
      "      *) verb=${COMP_WORDS[i]}; break ;;\n"
      "    esac\n"
      "  done\n"
      "  case $verb in\n"
      "    '') words=\"",
      verbs, " --server --yes --help --version\" ;;\n", cases,
      "  esac\n"
      "  if [[ $current == -* || -z $verb ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  if [[ ${COMP_WORDS[COMP_CWORD - 1]} == node ]]; then fixed='' kind=nodes; fi\n"
      "  case $kind in\n"
      "    files) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n"
      "    commands) COMPREPLY=($(compgen -c -- \"$current\")) ;;\n"
      "    jobs|nodes)\n"
      "      # Not of another scheduler than the one that is named on the line.\n"
      "      if [[ \" ${COMP_WORDS[*]} \" != *' --server'* ]]; then fixed+=\" $(spillway completion \"$kind\" 2>/dev/null)\"; fi\n"
      "      COMPREPLY=($(compgen -W \"$fixed\" -- \"$current\")) ;;\n"
      "    *) COMPREPLY=($(compgen -W \"$fixed\" -- \"$current\")) ;;\n"
      "  esac\n"
      "}\n"
      "complete -o bashdefault -o default -F _spillway spillway\n");
}

std::string Zsh() {
  std::string verbs, cases;
  for (const auto& verb : AllVerbs()) {
    const VerbWords words = WordsOf(*verb);
    const Choices choices = ChoicesOf(words);
    for (const std::string& name : NamesOf(*verb)) absl::StrAppend(&verbs, "  '", name, ":", verb->Summary(), "'\n");
    absl::StrAppend(&cases, "  ", absl::StrJoin(NamesOf(*verb), "|"), ") options=(", absl::StrJoin(words.options, " "), ")",
                    choices.fixed.empty() ? "" : absl::StrCat(" fixed=(", choices.fixed, ")"), choices.kind.empty() ? "" : absl::StrCat(" kind=", choices.kind),
                    " ;;\n");
  }
  return absl::StrCat(
      "#compdef spillway\n"
      "# zsh completion for spillway: put this file into a folder of $fpath as _spillway.\n"
      "local -a verbs options fixed\n"
      "local kind=''\n"
      "verbs=(\n",
      verbs,
      ")\n"
      "case $words[2] in\n",
      cases,
      "esac\n"
      "[[ $words[CURRENT-1] == node ]] && fixed=() kind=nodes\n"
      "if (( CURRENT == 2 )); then\n"
      "  _describe verb verbs\n"
      "elif [[ $words[CURRENT] == -* ]]; then\n"
      "  compadd -- $options\n"
      "elif [[ $kind == jobs || $kind == nodes ]]; then\n"
      "  # Not of another scheduler than the one that is named on the line.\n"
      "  [[ \" $words \" == *' --server'* ]] || fixed+=(${=\"$(spillway completion $kind 2>/dev/null)\"})\n"
      "  compadd -- $fixed\n"
      "elif [[ $kind == commands ]]; then\n"
      "  _command_names -e\n"
      "elif (( $#fixed )); then\n"
      "  compadd -- $fixed\n"
      "else\n"
      "  _files\n"
      "fi\n");
}

// The shell looks at these words once more: only what means nothing to it.
bool Harmless(absl::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-'; });
}

class Completion final : public Verb {
 public:
  std::string Name() const override { return "completion"; }
  std::string Summary() const override { return "print a completion script for bash or zsh"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"source <(spillway completion bash)", "in ~/.bashrc"},
            {"spillway completion zsh > ~/.zfunc/_spillway", "where ~/.zfunc is in $fpath"},
            {"spillway completion jobs", "what the scripts ask: ids and names, or nothing where no scheduler answers within a second"}};
  }
  void Define(VerbBuilder& builder) override { builder.Positional("bash|zsh|jobs|nodes", &what_, "a shell, or what its script asks for", true); }
  int Run(Context& context) override {
    if (what_ == "jobs" || what_ == "nodes") {
      for (const std::string& word : Ask(context)) {
        if (Harmless(word)) *context.out << word << '\n';
      }
      return kExitOk;
    }
    if (what_ != "bash" && what_ != "zsh")
      return context.Fail(absl::InvalidArgumentError(absl::StrCat("`", Printable(what_, 40), "`: expected bash or zsh, jobs or nodes")));
    *context.out << (what_ == "bash" ? Bash() : Zsh());
    return kExitOk;
  }

 private:
  // Nothing may be said at a prompt: an error is no words.
  std::vector<std::string> Ask(Context& context) const {
    std::vector<std::string> words;
    const auto connection = FindConnection(context.server_flag, context.home, context.environment);
    if (!connection.ok()) return words;
    const auto api = context.dial(connection->server, connection->token, kAskTimeoutMs);
    if (!api.ok()) return words;
    if (what_ == "jobs") {
      v1::ListJobsRequest request;
      request.set_newest_first(true);
      request.set_page_size(kJobsShown);
      const auto jobs = (*api)->List(request);
      if (!jobs.ok()) return words;
      for (const v1::Job& job : jobs->jobs()) words.push_back(absl::StrCat(job.job_id()));
      for (const v1::Job& job : jobs->jobs()) words.push_back(job.name());
    } else {
      const auto nodes = (*api)->ListNodes({});
      if (!nodes.ok()) return words;
      for (const v1::Node& node : nodes->nodes()) words.push_back(node.name());
    }
    std::vector<std::string> once;
    for (std::string& word : words) {
      if (std::find(once.begin(), once.end(), word) == once.end()) once.push_back(std::move(word));
    }
    return once;
  }

  std::string what_;
};

}  // namespace

std::unique_ptr<Verb> MakeCompletion() { return std::make_unique<Completion>(); }

}  // namespace spillway::client
