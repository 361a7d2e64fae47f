#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/text.h"
#include "base/units.h"
#include "client/commands/checkpoint_files.h"
#include "client/commands/commands.h"
#include "client/targets.h"

namespace spillway::client {
namespace {

class Checkpoints final : public Verb {
 public:
  std::string Name() const override { return "checkpoints"; }
  std::string Summary() const override { return "the checkpoints of a job, or those on a disk: list, show, verify, export, import, prune, diff, rewrap"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {
        {"spillway checkpoints list 5", "the registered ones, the newest first: step, size, who wrote it, where it lies"},
        {"spillway checkpoints show 5", "what the newest one holds"},
        {"spillway checkpoints verify runs/7", "read every byte of every checkpoint there"},
        {"spillway checkpoints export 5 model.safetensors", "the newest one, for other programs; --shard-size 5GB makes several files and an index"},
        {"spillway checkpoints import model.safetensors runs/8 --step 0", "to train on from"},
        {"spillway checkpoints prune runs/7 --keep-last 3 --keep-best 1 --metric loss", "outside Spillway; under it everything is kept so far"},
        {"spillway checkpoints diff runs/7/step-000000000100 runs/8", "which tensors differ; exit code 1 when any does"},
        {"spillway checkpoints rewrap runs/7 --new-key-file new.key", "a new key for encrypted ones; the old one is what SPILLWAY_CHECKPOINT_KEY_FILE names"},
        {"spillway checkpoints rewrap 5 6.0-99 --new-key-file new.key", "every registered one of a job, of all its tasks, or of some"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Positional("list|show|verify|export|import|prune|diff|rewrap", &what_, "what to do", true);
    builder.Positionals("JOB|PATH", &arguments_, "a job or task for its newest checkpoint, or a path: of a step, or of a directory for its newest", true);
    builder.Option("--step", &files_.step, "N", "import: the number of the checkpoint");
    builder.Option("--shard-size", &files_.shard_size, "SIZE", "export: several files of at most this size in a directory");
    builder.Option("--keep-last", &files_.keep_last, "N", "prune: the newest to keep, 2 or more");
    builder.Option("--keep-best", &files_.keep_best, "N", "prune: and the best by --metric");
    builder.Option("--metric", &files_.metric, "KEY", "prune: a key of the checkpoints' metadata; the lowest is the best");
    builder.Flag("--maximize", &files_.maximize, "prune: the highest is the best");
    builder.Option("--keep-every", &files_.keep_every, "N", "prune: and every step that is a multiple of N");
    builder.Option("--new-key-file", &files_.new_key_file, "FILE", "rewrap: the key that is to open them, 64 hex digits");
    builder.Flag("--keep-old", &files_.keep_old, "rewrap: the old key opens them too");
    builder.Flag("--dry-run", &files_.dry_run, "prune: say what would go");
    builder.Output();
  }
  int Run(Context& context) override {
    const size_t n = arguments_.size();
    if (what_ == "verify" && n >= 1) return Verify(context);
    if (what_ == "rewrap" && n >= 1) return Rewrap(context);
    if (what_ == "import" && n == 2) return ImportCheckpoint(context, arguments_[0], arguments_[1], files_);
    if (what_ == "prune" && n == 1) return PruneCheckpoints(context, arguments_[0], files_);
    if (what_ == "list" && n == 1) return IsPath(arguments_[0]) ? ListCheckpointDirectory(context, arguments_[0]) : ListRegistered(context);
    if (what_ == "show" && n == 1) {
      ASSIGN_OR_FAIL(context, const std::string path, PathOf(context, arguments_[0]));
      return ShowCheckpoint(context, path);
    }
    if (what_ == "export" && n == 2) {
      ASSIGN_OR_FAIL(context, const std::string path, PathOf(context, arguments_[0]));
      return ExportCheckpoint(context, path, arguments_[1], files_);
    }
    if (what_ == "diff" && n == 2) {
      ASSIGN_OR_FAIL(context, const std::string a, PathOf(context, arguments_[0]));
      ASSIGN_OR_FAIL(context, const std::string b, PathOf(context, arguments_[1]));
      return DiffCheckpoints(context, a, b);
    }
    return context.Fail(Misused());
  }

 private:
  struct Form {
    absl::string_view what, form;
  };
  static constexpr Form kForms[] = {{"list", "list JOB|PATH"},
                                    {"show", "show JOB|PATH"},
                                    {"verify", "verify JOB|PATH..."},
                                    {"export", "export JOB|PATH FILE"},
                                    {"import", "import FILE PATH --step N"},
                                    {"prune", "prune PATH"},
                                    {"diff", "diff JOB|PATH JOB|PATH"},
                                    {"rewrap", "rewrap JOB|TASKS|PATH... --new-key-file FILE"}};

  absl::Status Misused() const {
    std::vector<std::string> names;
    for (const Form& form : kForms) {
      if (form.what == what_) return absl::InvalidArgumentError(absl::StrCat("write: spillway checkpoints ", form.form));
      names.emplace_back(form.what);
    }
    const std::string nearest = NearestName(what_, names);
    return absl::InvalidArgumentError(
        absl::StrCat("`checkpoints ", Printable(what_, 40), "` is not known; ",
                     nearest.empty() ? absl::StrCat("one of ", absl::StrJoin(names, ", ")) : absl::StrCat("do you mean `", nearest, "`?")));
  }

  // A job is never written with a slash, and its name never shadows what lies there.
  static bool IsPath(const std::string& text) { return absl::StrContains(text, '/') || text == "." || text == ".." || PathExists(text); }

  static absl::StatusOr<v1::ListCheckpointsResponse> RegisteredOf(Api& api, TaskId task) {
    v1::ListCheckpointsRequest request;
    request.set_job_id(task.job);
    request.set_task_index(task.index);
    return api.ListCheckpoints(request);
  }

  static absl::StatusOr<v1::ListCheckpointsResponse> Registered(Context& context, const std::string& job) {
    ASSIGN_OR_RETURN(Api* const api, context.connect());
    ASSIGN_OR_RETURN(const TaskId task, ResolveTask(*api, job));
    return RegisteredOf(*api, task);
  }

  static void AddPaths(const Context& context, const v1::ListCheckpointsResponse& response, std::vector<std::string>* paths) {
    for (const v1::Checkpoint& registered : response.checkpoints()) paths->push_back(JoinPath(JoinPath(context.home, "store/checkpoints"), registered.path()));
  }

  static absl::Status NoneOf(const std::string& text) { return absl::NotFoundError(absl::StrCat("no checkpoint of ", Printable(text), " is registered")); }

  // Where every registered checkpoint lies on this machine: of each task that is meant, all of a job's where it is named alone. A path is itself.
  static absl::StatusOr<std::vector<std::string>> PathsOf(Context& context, const std::string& text) {
    if (IsPath(text)) return std::vector<std::string>{text};
    ASSIGN_OR_RETURN(Api* const api, context.connect());
    ASSIGN_OR_RETURN(const std::vector<JobTasks> jobs, ResolveJobTasks(*api, {text}, true));
    std::vector<std::string> paths;
    for (JobTasks meant : jobs) {
      if (meant.tasks.empty()) {
        v1::GetJobRequest request;
        request.set_job_id(meant.job);
        ASSIGN_OR_RETURN(const v1::Job job, api->Get(request));
        meant.tasks.push_back({0, std::max<TaskIndex>(job.task_count(), 1) - 1});
      }
      for (const TaskSpan& span : meant.tasks) {
        for (TaskIndex index = span.first; index <= span.last; ++index) {
          ASSIGN_OR_RETURN(const v1::ListCheckpointsResponse response, RegisteredOf(*api, {meant.job, index}));
          AddPaths(context, response, &paths);
        }
      }
    }
    if (paths.empty()) return NoneOf(text);
    return paths;
  }

  // The newest one of a task, which is there.
  static absl::StatusOr<std::string> PathOf(Context& context, const std::string& text) {
    if (IsPath(text)) return text;
    ASSIGN_OR_RETURN(const v1::ListCheckpointsResponse response, Registered(context, text));
    std::vector<std::string> paths;
    AddPaths(context, response, &paths);
    if (paths.empty()) return NoneOf(text);
    if (PathExists(paths[0])) return paths[0];
    const std::string store = JoinPath(context.home, "store/checkpoints/");
    return absl::NotFoundError(absl::StrCat("the checkpoint is registered as ", Printable(paths[0].substr(store.size())),
                                            " and does not lie on this machine, in ", Printable(context.home), "/store/checkpoints; give its path"));
  }

  int Rewrap(Context& context) {
    std::vector<std::string> all;
    for (const std::string& text : arguments_) {
      ASSIGN_OR_FAIL(context, const std::vector<std::string> paths, PathsOf(context, text));
      all.insert(all.end(), paths.begin(), paths.end());
    }
    return RewrapCheckpoints(context, all, files_);
  }

  int Verify(Context& context) {
    std::vector<std::string> paths;
    for (const std::string& text : arguments_) {
      ASSIGN_OR_FAIL(context, paths.emplace_back(), PathOf(context, text));
    }
    return VerifyCheckpoints(context, paths);
  }

  int ListRegistered(Context& context) {
    ASSIGN_OR_FAIL(context, const v1::ListCheckpointsResponse response, Registered(context, arguments_[0]));
    if (context.json) return context.PrintJson(response);
    Table table({">STEP", ">SIZE", "ATTEMPT", "REGISTERED", "BY", "PATH"});
    for (const v1::Checkpoint& checkpoint : response.checkpoints()) {
      table.Add({absl::StrCat(checkpoint.step()), FormatBytes(checkpoint.bytes()), HumanAttempt(checkpoint.attempt()),
                 HumanTime(checkpoint.registered_utc_ms()), checkpoint.sealed() ? "seal" : "node", checkpoint.path()});
    }
    *context.out << (table.empty() ? "no checkpoint is registered\n" : table.Render(context.colours));
    return kExitOk;
  }

  std::string what_;
  std::vector<std::string> arguments_;
  CheckpointFileOptions files_;
};

}  // namespace

std::unique_ptr<Verb> MakeCheckpoints() { return std::make_unique<Checkpoints>(); }

}  // namespace spillway::client
