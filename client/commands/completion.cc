// Scripts that let a shell complete verbs and options. Made from the verbs themselves, so that they cannot fall behind;
// scripts/completion/ holds what this prints, and a test compares.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "client/cli.h"
#include "client/commands/commands.h"

namespace spillway::client {
namespace {

std::string Bash() {
  std::string verbs, cases;
  for (const auto& verb : AllVerbs()) {
    std::vector<std::string> called = verb->Aliases();
    called.insert(called.begin(), verb->Name());
    absl::StrAppend(&verbs, verbs.empty() ? "" : " ", absl::StrJoin(called, " "));
    absl::StrAppend(&cases, "    ", absl::StrJoin(called, "|"), ") words=\"", absl::StrJoin(OptionNames(*verb), " "), "\" ;;\n");
  }
  return absl::StrCat(
      "# bash completion for spillway: source this file, or put it where bash-completion looks.\n"
      "_spillway() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} verb='' words='' i\n"
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
      "  elif [[ $verb == submit ]]; then\n"
      "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "  elif [[ $verb == run ]]; then\n"
      "    COMPREPLY=($(compgen -c -- \"$current\"))\n"
      "  fi\n"
      "}\n"
      "complete -o bashdefault -o default -F _spillway spillway\n");
}

std::string Zsh() {
  std::string verbs, cases;
  for (const auto& verb : AllVerbs()) {
    std::vector<std::string> called = verb->Aliases();
    called.insert(called.begin(), verb->Name());
    for (const std::string& name : called) absl::StrAppend(&verbs, "  '", name, ":", verb->Summary(), "'\n");
    absl::StrAppend(&cases, "    ", absl::StrJoin(called, "|"), ") options=(", absl::StrJoin(OptionNames(*verb), " "), ") ;;\n");
  }
  return absl::StrCat(
      "#compdef spillway\n"
      "# zsh completion for spillway: put this file into a folder of $fpath as _spillway.\n"
      "local -a verbs options\n"
      "verbs=(\n",
      verbs,
      ")\n"
      "if (( CURRENT == 2 )); then\n"
      "  _describe verb verbs\n"
      "elif [[ $words[CURRENT] == -* ]]; then\n"
      "  case $words[2] in\n",
      cases,
      "  esac\n"
      "  compadd -- $options\n"
      "elif [[ $words[2] == run ]]; then\n"
      "  _command_names -e\n"
      "else\n"
      "  _files\n"
      "fi\n");
}

class Completion final : public Verb {
 public:
  std::string Name() const override { return "completion"; }
  std::string Summary() const override { return "print a completion script for bash or zsh"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"source <(spillway completion bash)", "in ~/.bashrc"}, {"spillway completion zsh > ~/.zfunc/_spillway", "where ~/.zfunc is in $fpath"}};
  }
  void Define(VerbBuilder& builder) override { builder.Positional("bash|zsh", &shell_, "the shell", true); }
  int Run(Context& context) override {
    if (shell_ != "bash" && shell_ != "zsh")
      return context.Fail(absl::InvalidArgumentError(absl::StrCat("`", Printable(shell_, 40), "`: expected bash or zsh")));
    *context.out << (shell_ == "bash" ? Bash() : Zsh());
    return kExitOk;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Verb> MakeCompletion() { return std::make_unique<Completion>(); }

}  // namespace spillway::client
