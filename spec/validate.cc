#include "spec/validate.h"

#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/text.h"
#include "spec/checks.h"
#include "spec/fields.h"
#include "spec/signals.h"

namespace spillway::spec {
namespace {

// What the system takes at the start of a program: one string of 32 pages with its NUL. All together fit into the frame that asks the supervisor to start
// it, with room for our own variables; the system would take four times that.
constexpr size_t kExecStringBytesMax = 32 * 4096 - 1;
constexpr size_t kExecBytesMax = limits::kArgvBytesMax - (64 << 10);
constexpr size_t kEnvCountMax = limits::kEnvCountMax - 64;
constexpr size_t kPathBytesMax = 4095;
constexpr int kNeedsMax = 1'000;  // jobs that one job waits for

constexpr char kNameForm[] = "a name is [a-z0-9][a-z0-9._-]*, at most 128 bytes";

bool HasNul(absl::string_view text) { return text.find('\0') != absl::string_view::npos; }

void CheckName(const v1::JobSpec& spec, Checks* checks) {
  if (spec.name().empty()) return;
  if (const std::string problem = JobNameProblem(spec.name()); !problem.empty()) checks->Add("name", problem);
}

// Longer, and the program could not be started: better said now than by the first attempt.
void CheckExecString(absl::string_view path, size_t bytes, Checks* checks) {
  if (bytes > kExecStringBytesMax) {
    checks->Add(path, absl::StrCat("is ", bytes, " bytes long; the system starts no program with a string of more than ", kExecStringBytesMax,
                                   ": put it into a file or into `script`"));
  }
}

size_t CommandBytes(const v1::JobSpec& spec) {
  size_t bytes = 0;
  for (const std::string& word : spec.command()) bytes += word.size() + 1;
  return bytes;
}

void CheckProgram(const v1::JobSpec& spec, Checks* checks) {
  const bool command = spec.command_size() > 0;
  const bool script = !spec.script().empty();
  if (!command && !script) return checks->Add("command", "is missing: a job needs exactly one of command and script");
  if (command && script) return checks->Add("script", "a job needs exactly one of command and script, and both are given");
  if (HasNul(spec.script())) checks->Add("script", "holds a NUL byte");
  if (spec.command_size() > static_cast<int>(limits::kArgvCountMax)) {
    checks->Add("command", absl::StrCat("has ", spec.command_size(), " words; the most is ", limits::kArgvCountMax));
  }
  for (int i = 0; i < spec.command_size(); ++i) {
    if (HasNul(spec.command(i))) checks->Add(absl::StrCat("command[", i, "]"), "holds a NUL byte");
    CheckExecString(absl::StrCat("command[", i, "]"), spec.command(i).size(), checks);
  }
  const size_t bytes = CommandBytes(spec);
  if (bytes > kExecBytesMax) checks->Add("command", absl::StrCat("is ", bytes, " bytes long; the most is ", kExecBytesMax));
  if (!command) return;
  const std::string& program = spec.command(0);
  if (program.empty()) {
    checks->Add("command[0]", "the program's name is empty");
  } else if (spec.workdir().empty() && program[0] != '/' && absl::StrContains(program, '/')) {
    checks->Add("command[0]",
                absl::StrCat("`", Printable(program, 60),
                             "` is relative, but without `workdir` the job starts in an empty folder of its own: set workdir or write the whole path"));
  }
}

bool IsVariableName(absl::string_view name) {
  return !name.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(name[0])) &&
         absl::c_all_of(name, [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

// Where the program finds its checkpoint key (checkpoint/key_source.h) is the user's to say.
bool IsCheckpointKeySource(absl::string_view name) {
  return name == "SPILLWAY_CHECKPOINT_KEY_FILE" || name == "SPILLWAY_CHECKPOINT_KEY_FD" || name == "SPILLWAY_CHECKPOINT_KEY_COMMAND";
}

// The job is kept and shown with what it is given, so a key must not be in it.
bool IsCheckpointKey(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  return text.size() == 64 && absl::c_all_of(text, [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); });
}

void CheckCheckpointKeySource(const v1::JobSpec& spec, const std::string& path, const std::string& name, Checks* checks) {
  const std::string& value = spec.env().at(name);
  if (IsCheckpointKey(value)) {
    return checks->Add(path, "is the key itself, which would be kept with the job: put it into a file of mode 0600 and name that");
  }
  if (name == "SPILLWAY_CHECKPOINT_KEY_FILE" && spec.workdir().empty() && !value.empty() && value[0] != '/') {
    checks->Add(path, absl::StrCat("`", Printable(value, 60),
                                   "` is relative, but without `workdir` the job starts in an empty folder of its own: set workdir or write the whole path"));
  }
}

void CheckEnv(const v1::JobSpec& spec, Checks* checks) {
  if (spec.env().size() > kEnvCountMax) {
    return checks->Add("env", absl::StrCat("has ", spec.env().size(), " entries; the most is ", kEnvCountMax));
  }
  const std::set<std::string> names = [&] {
    std::set<std::string> out;
    for (const auto& [name, value] : spec.env()) out.insert(name);
    return out;
  }();
  const size_t command_bytes = CommandBytes(spec);
  size_t bytes = command_bytes;
  for (const auto& [name, value] : spec.env()) bytes += name.size() + value.size() + 2;
  if (command_bytes <= kExecBytesMax && bytes > kExecBytesMax)
    checks->Add("env", absl::StrCat("and the command are ", bytes, " bytes together; the most is ", kExecBytesMax));
  for (const std::string& name : names) {
    const std::string path = absl::StrCat("env.", name);
    if (!IsVariableName(name)) checks->Add(path, absl::StrCat("`", Printable(name, 60), "` is not a name for a variable: [A-Za-z_][A-Za-z0-9_]*"));
    if (absl::StartsWith(name, "SPILLWAY_") && !IsCheckpointKeySource(name)) checks->Add(path, "names beginning with SPILLWAY_ are set by the scheduler");
    if (IsCheckpointKeySource(name)) CheckCheckpointKeySource(spec, path, name, checks);
    if (HasNul(spec.env().at(name))) checks->Add(path, "holds a NUL byte");
    CheckExecString(path, name.size() + 1 + spec.env().at(name).size(), checks);
  }
}

void CheckSecrets(const v1::JobSpec& spec, Checks* checks) {
  if (spec.secrets_size() > limits::kSecretsPerJobMax) {
    return checks->Add("secrets", absl::StrCat("has ", spec.secrets_size(), " names; the most is ", limits::kSecretsPerJobMax));
  }
  for (int i = 0; i < spec.secrets_size(); ++i) {
    const std::string path = absl::StrCat("secrets[", i, "]");
    if (const std::string problem = SecretNameProblem(spec.secrets(i)); !problem.empty()) checks->Add(path, problem);
    const auto end = spec.secrets().begin() + i;
    if (std::find(spec.secrets().begin(), end, spec.secrets(i)) != end) checks->Add(path, absl::StrCat("`", Printable(spec.secrets(i), 60), "` stands twice"));
  }
}

void CheckWorkdir(const v1::JobSpec& spec, Checks* checks) {
  if (spec.workdir().empty()) return;
  if (HasNul(spec.workdir())) return checks->Add("workdir", "holds a NUL byte");
  if (spec.workdir().size() > kPathBytesMax)
    return checks->Add("workdir", absl::StrCat("is ", spec.workdir().size(), " bytes long; a path has at most ", kPathBytesMax));
  if (spec.workdir()[0] != '/') {
    checks->Add("workdir", absl::StrCat("`", Printable(spec.workdir(), 60), "` is not an absolute path (shipping a folder is not built yet)"));
  }
}

void CheckResources(const v1::ResourceSpec& resources, Checks* checks) {
  checks->AtLeast("resources.cpu_milli", resources.cpu_milli(), 0);
  checks->AtLeast("resources.memory_bytes", resources.memory_bytes(), 0);
  checks->AtLeast("resources.disk_bytes", resources.disk_bytes(), 0);
  if (resources.nodes() != 0) checks->Within("resources.nodes", resources.nodes(), 1, limits::kGangMembersMax);
  if (!resources.has_gpu()) return;
  const v1::GpuSpec& gpu = resources.gpu();
  checks->Within("resources.gpu.count", gpu.count(), 0, 1024);
  checks->Texts("resources.gpu.model", gpu.model());
  checks->AtLeast("resources.gpu.memory.min_bytes", gpu.memory().min_bytes(), 0);
  checks->AtLeast("resources.gpu.memory.max_bytes", gpu.memory().max_bytes(), 0);
  if (gpu.memory().max_bytes() > 0 && gpu.memory().max_bytes() < gpu.memory().min_bytes())
    checks->Add("resources.gpu.memory", "the range ends before it begins");
  if (gpu.share() == "shared") return checks->Add("resources.gpu.share", "shared devices are not built yet: only exclusive");
  if (!gpu.share().empty()) checks->OneOf("resources.gpu.share", gpu.share(), {"exclusive"});
}

void CheckPlacement(const v1::PlacementSpec& placement, Checks* checks) {
  std::set<int> seen;
  for (int i = 0; i < placement.markets_size(); ++i) {
    const std::string path = absl::StrCat("placement.markets[", i, "]");
    const int market = placement.markets(i);
    if (!v1::Market_IsValid(market) || market == v1::MARKET_UNSPECIFIED) {
      checks->Add(path, "is not a market: reserved, spot or on_demand");
    } else if (!seen.insert(market).second) {
      checks->Add(path, absl::StrCat("`", absl::AsciiStrToLower(v1::Market_Name(static_cast<v1::Market>(market))), "` stands twice"));
    }
  }
  const bool only_spot = seen == std::set<int>{v1::SPOT};
  if (placement.has_interruptible() && !placement.interruptible() && only_spot) {
    checks->Add("placement.interruptible", "a job that may not be interrupted never runs on spot, and spot is the only market allowed");
  }
  checks->AtLeast("placement.max_price_micros_per_hour", placement.max_price_micros_per_hour(), 0);
  checks->Duration("placement.max_silence_ms", placement.max_silence_ms());
  checks->Texts("placement.regions", placement.regions());
  checks->Texts("placement.zones", placement.zones());
  checks->Texts("placement.providers", placement.providers());
  checks->Texts("placement.nodes", placement.nodes());
}

void CheckCheckpoint(const v1::CheckpointSpec& checkpoint, Checks* checks) {
  if (checkpoint.interval_ms() != 0)
    checks->Add("checkpoint.interval_ms", "intervals that the scheduler keeps are not built yet: only auto, the program decides");
  checks->Duration("checkpoint.grace_ms", checkpoint.grace_ms());
  if (!checkpoint.signal().empty() && !SignalNumber(checkpoint.signal())) checks->OneOf("checkpoint.signal", checkpoint.signal(), SignalNames());
}

void CheckRetry(const v1::RetrySpec& retry, Checks* checks) {
  if (retry.has_preempted()) checks->AtLeast("retry.preempted", retry.preempted(), -1);
  if (retry.has_node_fault()) checks->AtLeast("retry.node_fault", retry.node_fault(), -1);
  if (retry.has_user_error()) checks->AtLeast("retry.user_error", retry.user_error(), -1);
}

void CheckArray(const v1::ArraySpec& array, Checks* checks) {
  if (!array.has_count()) return checks->Add("array.count", absl::StrCat("is missing: how many tasks, 1 to ", limits::kArrayTasksMax));
  checks->Within("array.count", array.count(), 1, limits::kArrayTasksMax);
  if (array.has_parallel()) checks->AtLeast("array.parallel", array.parallel(), 1);
}

void CheckLimits(const v1::LimitSpec& limits, Checks* checks) {
  checks->Duration("limits.max_duration_ms", limits.max_duration_ms());
  checks->Duration("limits.expected_duration_ms", limits.expected_duration_ms());
  checks->AtLeast("limits.deadline_utc_ms", limits.deadline_utc_ms(), 0);
  if (limits.deadline_utc_ms() > 0 && limits.expected_duration_ms() == 0) {
    checks->Add("limits.deadline_utc_ms", "needs limits.expected_duration: how long a task runs in all when nothing interrupts it");
  }
  if (limits.deadline_utc_ms() == 0 && limits.expected_duration_ms() > 0) {
    checks->Add("limits.expected_duration_ms", "is what a deadline is planned by, and there is no limits.deadline");
  }
}

// Numbers of jobs, and names.
template <typename Texts>
void CheckAfter(absl::string_view path, const Texts& texts, Checks* checks) {
  checks->Texts(path, texts);
  for (int i = 0; i < texts.size() && i < kNeedsMax; ++i) {
    const std::string& text = texts.Get(i);
    if (text.empty()) continue;
    const std::string element = absl::StrCat(path, "[", i, "]");
    const auto number = ParseAttemptId(text);
    if (number.ok() && text.find_first_of(".@") != std::string::npos) {
      checks->Add(element, absl::StrCat("`", Printable(text, 60), "` is one task; a job is meant here: ", number->job), absl::StrCat(number->job));
    } else if (!number.ok() && !JobNameProblem(text).empty()) {
      checks->Add(element, absl::StrCat("`", Printable(text, 60), "` is no job: write its number, such as 12, or its name"));
    }
  }
}

std::string DefaultName(const v1::JobSpec& spec) {
  if (spec.command_size() == 0) return "script";
  const absl::string_view program = spec.command(0);
  std::string name;
  for (const char c : program.substr(program.rfind('/') + 1)) {
    const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
    const bool good = absl::ascii_isalnum(static_cast<unsigned char>(lower)) || lower == '.' || lower == '_' || lower == '-';
    if (name.empty() && !absl::ascii_isalnum(static_cast<unsigned char>(lower))) continue;
    name += good ? lower : '-';
  }
  name.resize(std::min(name.size(), limits::kNameBytesMax));
  return JobNameProblem(name).empty() ? name : "job";
}

}  // namespace

std::string JobNameProblem(absl::string_view name) {
  bool good = !name.empty() && name.size() <= limits::kNameBytesMax && absl::ascii_isalnum(static_cast<unsigned char>(name[0]));
  for (const char c : name) {
    const unsigned char byte = static_cast<unsigned char>(c);
    good = good && (absl::ascii_islower(byte) || absl::ascii_isdigit(byte) || c == '.' || c == '_' || c == '-');
  }
  if (!good) return absl::StrCat("`", Printable(name, 60), "` is not a name: ", kNameForm);
  // On the command line a name stands where an id may stand.
  if (name == "last" || name == "all" || name.find_first_not_of("0123456789.-") == absl::string_view::npos) {
    return absl::StrCat("`", name, "` reads as an id, not as a name");
  }
  return "";
}

std::string SecretNameProblem(absl::string_view name) {
  if (name.empty()) return "is empty";
  if (name.size() > limits::kSecretNameBytesMax) return absl::StrCat("is ", name.size(), " bytes long; the most is ", limits::kSecretNameBytesMax);
  if (!IsVariableName(name)) return absl::StrCat("`", Printable(name, 60), "` is not a name for a secret: [A-Za-z_][A-Za-z0-9_]*");
  return "";
}

std::vector<Violation> ValidateJobSpec(const v1::JobSpec& spec) {
  Checks checks;
  if (const size_t bytes = spec.ByteSizeLong(); bytes > limits::kSpecBytesMax) {
    checks.Add("", absl::StrCat("the job is ", bytes, " bytes; the most is ", limits::kSpecBytesMax));
    return checks.Take();
  }
  CheckName(spec, &checks);
  CheckProgram(spec, &checks);
  CheckEnv(spec, &checks);
  CheckSecrets(spec, &checks);
  CheckWorkdir(spec, &checks);
  CheckResources(spec.resources(), &checks);
  CheckPlacement(spec.placement(), &checks);
  CheckCheckpoint(spec.checkpoint(), &checks);
  CheckRetry(spec.retry(), &checks);
  CheckLimits(spec.limits(), &checks);
  if (spec.has_priority()) checks.Within("priority", spec.priority(), 0, limits::kPriorityMax);
  CheckAfter("after", spec.after(), &checks);
  CheckAfter("after_ok", spec.after_ok(), &checks);
  CheckAfter("after_any", spec.after_any(), &checks);
  if (spec.after_size() + spec.after_ok_size() + spec.after_any_size() > kNeedsMax) {
    checks.Add("after", absl::StrCat("waits for ", spec.after_size() + spec.after_ok_size() + spec.after_any_size(), " jobs; the most is ", kNeedsMax));
  }
  if (spec.has_array()) CheckArray(spec.array(), &checks);
  checks.NotBuilt(spec);
  return checks.Take();
}

void NormalizeJobSpec(v1::JobSpec* spec) {
  if (spec->name().empty()) spec->set_name(DefaultName(*spec));
  if (!spec->has_priority()) spec->set_priority(50);
}

v1::FieldViolations ToProto(const std::vector<Violation>& violations) {
  v1::FieldViolations out;
  for (const Violation& violation : violations) {
    v1::FieldViolation* to = out.add_violations();
    to->set_field(violation.field_path);
    to->set_message(violation.message);
    to->set_nearest(violation.nearest);
  }
  return out;
}

std::vector<Violation> FromProto(const v1::FieldViolations& violations) {
  std::vector<Violation> out;
  for (const v1::FieldViolation& from : violations.violations()) out.push_back({from.field(), from.message(), from.nearest()});
  return out;
}

std::string RenderViolations(const std::vector<Violation>& violations, const google::protobuf::Descriptor& type, absl::string_view source,
                             const FieldLines& lines) {
  return absl::StrJoin(violations, "\n", [&](std::string* out, const Violation& violation) {
    const std::string path = Printable(YamlPathOf(type, violation.field_path));
    if (!source.empty()) absl::StrAppend(out, source, ":", std::max(1, lines.Find(violation.field_path)), ": ");
    absl::StrAppend(out, path, path.empty() ? "" : ": ", Printable(violation.message, 400));
  });
}

}  // namespace spillway::spec
