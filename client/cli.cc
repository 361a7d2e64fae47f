#include "client/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "client/commands/commands.h"
#include "spec/fields.h"
#include "spec/utf8.h"
#include "spillway/v1/job_spec.pb.h"

namespace spillway::client {
namespace {

// The verb's declarations, made for CLI11.
class CliBuilder final : public VerbBuilder {
 public:
  CliBuilder(CLI::App* app, std::string* output) : app_(app), output_(output) {}

  void Flag(const std::string& names, bool* into, const std::string& help) override { app_->add_flag(names, *into, help); }
  void Option(const std::string& names, std::string* into, const std::string& value, const std::string& help) override {
    const CLI::Option* option = app_->add_option(names, *into, help)->type_name(value);
    texts_.push_back({LongName(names), [into] { return std::vector<std::string>{*into}; }, option, true});
  }
  void Option(const std::string& names, int64_t* into, const std::string& value, const std::string& help) override {
    app_->add_option(names, *into, help)->type_name(value);
  }
  void Option(const std::string& names, std::optional<int64_t>* into, const std::string& value, const std::string& help) override {
    const CLI::Option* option = app_->add_option(names, *into, help)->type_name(value);
    texts_.push_back({LongName(names), [into] { return std::vector<std::string>{*into ? absl::StrCat(**into) : ""}; }, option, true});
  }
  void Options(const std::string& names, std::vector<std::string>* into, const std::string& value, const std::string& help) override {
    // One value an option: `--set a=b JOB.yaml` must not take the file.
    const CLI::Option* option = app_->add_option(names, *into, help)->type_name(value)->allow_extra_args(false);
    texts_.push_back({LongName(names), [into] { return *into; }, option, true});
  }
  void Positional(const std::string& name, std::string* into, const std::string& help, bool required) override {
    const CLI::Option* option = app_->add_option(name, *into, help)->type_name("")->required(required);
    texts_.push_back({name, [into] { return std::vector<std::string>{*into}; }, option, true});
  }
  void Positionals(const std::string& name, std::vector<std::string>* into, const std::string& help, bool required) override {
    const CLI::Option* option = app_->add_option(name, *into, help)->type_name("")->required(required);
    texts_.push_back({name, [into] { return *into; }, option, false});
  }
  void Files(const std::string& name, std::vector<std::string>* into, const std::string& help) override {
    app_->add_option(name, *into, help)->type_name("")->required();
  }
  void Rest(const std::string& name, std::vector<std::string>* into, const std::string& help) override {
    rest_ = into;
    rest_name_ = name;
    rest_help_ = absl::StrCat("  -- ", name, "  ", help, "\n");
  }
  void Output() override { app_->add_option("-o,--output", *output_, "table, or json: the message itself as one document")->type_name("FORMAT"); }

  std::vector<std::string>* rest() const { return rest_; }
  const std::string& rest_help() const { return rest_help_; }

  // What no verb would take: text that no message can carry, and an option that was given nothing (`--name "$UNSET"`), which is not the same as
  // leaving it out. "" when there is none.
  std::string Problem() const {
    for (const Text& text : texts_) {
      if (text.option->count() == 0) continue;
      for (const std::string& value : text.values()) {
        if (value.empty() && text.never_empty) return absl::StrCat(text.label, ": the value is empty", text.label[0] == '-' ? "; leave it out instead" : "");
        if (!spec::IsUtf8(value)) return NotUtf8(text.label, value);
      }
    }
    for (size_t i = 0; rest_ != nullptr && i < rest_->size(); ++i) {
      if (!spec::IsUtf8((*rest_)[i])) return NotUtf8(absl::StrCat(rest_name_, " word ", i + 1), (*rest_)[i]);
    }
    return "";
  }

 private:
  struct Text {
    std::string label;
    std::function<std::vector<std::string>()> values;
    const CLI::Option* option;
    bool never_empty;
  };
  static std::string LongName(const std::string& names) { return names.substr(names.rfind(',') + 1); }
  static std::string NotUtf8(const std::string& label, const std::string& value) {
    return absl::StrCat(label, ": `", Printable(value, 100), "` is not UTF-8 text");
  }

  CLI::App* app_;
  std::string* output_;
  std::vector<Text> texts_;
  std::vector<std::string>* rest_ = nullptr;
  std::string rest_name_, rest_help_;
};

class NameCollector final : public VerbBuilder {
 public:
  void Flag(const std::string& names, bool*, const std::string&) override { Add(names); }
  void Option(const std::string& names, std::string*, const std::string&, const std::string&) override { Add(names); }
  void Option(const std::string& names, int64_t*, const std::string&, const std::string&) override { Add(names); }
  void Option(const std::string& names, std::optional<int64_t>*, const std::string&, const std::string&) override { Add(names); }
  void Options(const std::string& names, std::vector<std::string>*, const std::string&, const std::string&) override { Add(names); }
  void Positional(const std::string& name, std::string*, const std::string&, bool) override { words.positionals.push_back(name); }
  void Positionals(const std::string& name, std::vector<std::string>*, const std::string&, bool) override { words.positionals.push_back(name); }
  void Files(const std::string& name, std::vector<std::string>*, const std::string&) override { words.positionals.push_back(name); }
  void Rest(const std::string&, std::vector<std::string>*, const std::string&) override {}
  void Output() override { Add("-o,--output"); }
  VerbWords words;

 private:
  void Add(const std::string& list) {
    for (const absl::string_view name : absl::StrSplit(list, ',')) words.options.emplace_back(name);
  }
};

int Usage(const Context& context, const std::string& message, const std::string& verb = "") {
  *context.err << context.Painted("spillway: ", Colour::kRed) << message << "\nsee `spillway " << verb << (verb.empty() ? "" : " ") << "--help`\n";
  return kExitUsage;
}

std::string MainHelp() {
  std::string text =
      "spillway: places GPU jobs on capacity that is already paid for, lets the overflow spill, and brings every job back from its checkpoint.\n"
      "usage: spillway VERB ... [--server HOST:PORT] [--yes]\n\n";
  Table table({"", ""});
  for (const auto& verb : AllVerbs()) {
    const std::string aliases = absl::StrJoin(verb->Aliases(), ", ");
    table.Add({absl::StrCat("  ", verb->Name(), aliases.empty() ? "" : absl::StrCat(" (", aliases, ")")), verb->Summary()});
  }
  const std::string rows = table.Render(false);
  absl::StrAppend(&text, rows.substr(rows.find('\n') + 1),
                  "\na job is written 5, 1-9, last, all, or by its name; a task 5.17; an attempt 5.17@3. durations 2h30m, sizes 24GB.\n"
                  "not built yet: ",
                  absl::StrJoin(VerbsNotBuilt(), ", "),
                  ".\n"
                  "exit: 0 ok, 1 the job failed, 2 usage or invalid input, 3 not found, 4 refused, 5 unreachable.\n"
                  "start here: spillway up; spillway run -- echo hello\n");
  return text;
}

std::string Footer(const Verb& verb, const CliBuilder& builder) {
  std::string text = builder.rest_help().empty() ? "" : builder.rest_help() + "\n";
  absl::StrAppend(&text, "Examples:\n");
  for (const auto& [line, what] : verb.Examples()) absl::StrAppend(&text, "  ", line, "\n      ", what, "\n");
  return text;
}

// What other tools call what we call otherwise, else the nearest name.
std::string MeantVerb(const std::string& word, const std::vector<std::string>& names) {
  static const auto& others = *new std::map<std::string, std::string>{
      {"list", "queue"},  {"ls", "queue"},   {"jobs", "queue"},    {"squeue", "queue"},   {"status", "queue"},   {"start", "up"},        {"stop", "down"},
      {"kill", "cancel"}, {"rm", "cancel"},  {"delete", "cancel"}, {"scancel", "cancel"}, {"show", "describe"},  {"info", "describe"},   {"why", "explain"},
      {"log", "logs"},    {"tail", "logs"},  {"sbatch", "submit"}, {"srun", "run"},       {"sinfo", "nodes"},    {"node", "nodes"},      {"bill", "cost"},
      {"launch", "run"},  {"hold", "pause"}, {"suspend", "pause"}, {"release", "resume"}, {"unpause", "resume"}, {"requeue", "preempt"}, {"set", "update"}};
  const auto found = others.find(word);
  return found != others.end() ? found->second : NearestName(word, names);
}

// The key of a job file that an option of this name would set: "resources.gpu" for `gpu` and `gpus`, "" when there is none.
std::string KeyCalled(const std::string& name) {
  std::string begins;
  const auto consider = [&](const google::protobuf::FieldDescriptor& field, const std::string& path) {
    const std::string key = spec::YamlKeyOf(field);
    if (!spec::NotBuiltOf(field).empty()) return false;
    const google::protobuf::Descriptor* below = field.message_type();
    const bool of_one_value = below == nullptr || field.is_map() || below == v1::GpuSpec::descriptor() || below == v1::ByteRange::descriptor();
    if (!of_one_value) return false;
    if (begins.empty() && name.size() >= 3 && absl::StartsWith(key, name)) begins = path;
    return key == name || key + "s" == name;
  };
  const google::protobuf::Descriptor& job = *v1::JobSpec::descriptor();
  for (int i = 0; i < job.field_count(); ++i) {
    const google::protobuf::FieldDescriptor& part = *job.field(i);
    const std::string outer = spec::YamlKeyOf(part);
    if (consider(part, outer + (part.is_map() ? ".NAME" : ""))) return outer + (part.is_map() ? ".NAME" : "");
    for (int j = 0; part.message_type() != nullptr && !part.is_map() && j < part.message_type()->field_count(); ++j) {
      const google::protobuf::FieldDescriptor& field = *part.message_type()->field(j);
      const std::string path = absl::StrCat(outer, ".", spec::YamlKeyOf(field));
      if (consider(field, path)) return path;
    }
  }
  return begins;
}

// Names the first option that the verb does not have, and what was probably meant; "" when it has them all.
std::string UnknownOption(Verb& verb, const std::vector<std::string>& words) {
  std::vector<std::string> known = WordsOf(verb).options;
  known.push_back("-h");
  const auto has = [&](const std::string& name) { return std::find(known.begin(), known.end(), name) != known.end(); };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = words[i].substr(0, words[i].find('='));
    const bool is_long = absl::StartsWith(name, "--");
    if (name.size() < 2 || name[0] != '-' || !(is_long || absl::ascii_isalpha(static_cast<unsigned char>(name[1])))) continue;
    if (has(is_long ? name : name.substr(0, 2))) continue;
    std::string meant;
    for (const std::string& option : known) {
      if (meant.empty() && name.size() > 2 && absl::StartsWith(option, name)) meant = option;
    }
    if (meant.empty() && is_long && has("--set")) {
      const std::string key = KeyCalled(absl::StrReplaceAll(absl::AsciiStrToLower(name.substr(2)), {{"-", "_"}}));
      std::string value = "VALUE";
      if (name.size() < words[i].size()) {
        value = words[i].substr(name.size() + 1);
      } else if (i + 1 < words.size() && !absl::StartsWith(words[i + 1], "-") && !absl::StrContains(words[i + 1], ".y")) {
        value = words[i + 1];
      }
      if (absl::EndsWith(key, ".NAME") && absl::StrContains(value, '=')) {
        meant = absl::StrCat("--set ", key.substr(0, key.size() - 4), value);
      } else if (!key.empty()) {
        meant = absl::StrCat("--set ", key, "=", value);
      }
    }
    if (meant.empty() && is_long) meant = NearestName(name, known);
    return absl::StrCat("there is no option `", Printable(name, 60), "`", meant.empty() ? "" : absl::StrCat(", did you mean `", Printable(meant, 100), "`?"));
  }
  return "";
}

// Words between the program's name and the verb: the global options.
struct Front {
  std::string verb;
  std::vector<std::string> arguments;  // of the verb
  std::vector<std::string> rest;       // after `--`
  bool dashes = false;
  std::vector<std::string> leading;  // global options before the verb, handed to its parser
};

Front Split(const std::vector<std::string>& arguments) {
  Front front;
  size_t i = 0;
  for (; i < arguments.size() && absl::StartsWith(arguments[i], "-") && arguments[i] != "--"; ++i) {
    front.leading.push_back(arguments[i]);
    if (arguments[i] == "--server" && i + 1 < arguments.size()) front.leading.push_back(arguments[++i]);
  }
  if (i < arguments.size() && arguments[i] != "--") front.verb = arguments[i++];
  for (; i < arguments.size(); ++i) {
    if (arguments[i] == "--") {
      front.dashes = true;
      front.rest.assign(arguments.begin() + static_cast<long>(i) + 1, arguments.end());
      break;
    }
    front.arguments.push_back(arguments[i]);
  }
  return front;
}

int RunVerb(Verb& verb, const Front& front, Context& context) {
  CLI::App app(verb.Summary(), absl::StrCat("spillway ", verb.Name()));
  std::string output = "table";
  CliBuilder builder(&app, &output);
  verb.Define(builder);
  builder.Option("--server", &context.server_flag, "HOST:PORT", "where the scheduler is (SPILLWAY_SERVER)");
  app.add_flag("--yes", context.yes, "never ask");
  app.footer(Footer(verb, builder));
  if (front.dashes && builder.rest() == nullptr) {
    const std::string where = verb.WhereCommandsGo();
    return Usage(context, where.empty() ? "nothing may follow `--` here" : where, verb.Name());
  }
  std::vector<std::string> words = front.leading;
  for (const std::string& word : front.arguments) {
    // The parser would take the next word for the value.
    if (absl::StartsWith(word, "--") && word.find('=') + 1 == word.size())
      return Usage(context, absl::StrCat(Printable(word.substr(0, word.size() - 1), 60), ": the value is empty; leave it out instead"), verb.Name());
  }
  words.insert(words.end(), front.arguments.begin(), front.arguments.end());
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 wants them so
  } catch (const CLI::CallForHelp&) {
    *context.out << app.help();
    return kExitOk;
  } catch (const CLI::ParseError& e) {
    const std::string unknown = UnknownOption(verb, words);
    return Usage(context, unknown.empty() ? Printable(e.what(), 400) : unknown, verb.Name());
  }
  if (output != "table" && output != "json") return Usage(context, absl::StrCat("-o ", Printable(output, 40), ": expected table or json"), verb.Name());
  context.json = output == "json";
  if (builder.rest() != nullptr) builder.rest()->insert(builder.rest()->end(), front.rest.begin(), front.rest.end());
  if (const std::string problem = builder.Problem(); !problem.empty()) return Usage(context, problem, verb.Name());
  return verb.Run(context);
}

}  // namespace

const std::vector<std::string>& VerbsNotBuilt() {
  static const auto& verbs = *new std::vector<std::string>{"exec", "artifacts", "sweep", "orphans", "budget", "top"};
  return verbs;
}

VerbWords WordsOf(Verb& verb) {
  NameCollector collector;
  verb.Define(collector);
  collector.words.options.insert(collector.words.options.end(), {"--server", "--yes", "--help"});
  return std::move(collector.words);
}

int RunCli(const std::vector<std::string>& arguments, Context& context) {
  Front front = Split(arguments);
  if (front.verb.empty()) {
    for (const std::string& option : front.leading) {
      if (option == "--version") front.verb = "version";
    }
    const bool help = std::any_of(front.leading.begin(), front.leading.end(), [](const std::string& o) { return o == "-h" || o == "--help"; });
    if (front.verb == "version") {
      front.leading.clear();
    } else if (help) {
      *context.out << MainHelp();
      return kExitOk;
    } else if (arguments.empty()) {
      *context.err << MainHelp();
      return kExitUsage;
    } else {
      return Usage(context, "a verb is missing");
    }
  }
  if (front.verb == "help") {
    if (front.arguments.empty()) {
      *context.out << MainHelp();
      return kExitOk;
    }
    front.verb = front.arguments[0];
    front.arguments = {"--help"};
  }
  std::vector<std::string> names;
  for (const auto& verb : AllVerbs()) {
    std::vector<std::string> called = verb->Aliases();
    called.push_back(verb->Name());
    if (std::find(called.begin(), called.end(), front.verb) != called.end()) return RunVerb(*verb, front, context);
    names.insert(names.end(), called.begin(), called.end());
  }
  if (std::find(VerbsNotBuilt().begin(), VerbsNotBuilt().end(), front.verb) != VerbsNotBuilt().end()) {
    return Usage(context, absl::StrCat("`", front.verb, "` is not built yet"));
  }
  const std::string nearest = MeantVerb(front.verb, names);
  return Usage(context, absl::StrCat("unknown verb `", Printable(front.verb, 40), "`", nearest.empty() ? "" : absl::StrCat(", did you mean `", nearest, "`?")));
}

}  // namespace spillway::client
