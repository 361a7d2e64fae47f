// spillwayd: the scheduler. Wiring only: reads like a parts list.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <future>
#include <iostream>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/process_lock.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/units.h"
#include "scheduler/auth/token.h"
#include "scheduler/effects/answers.h"
#include "scheduler/effects/executor.h"
#include "scheduler/engine/engine_thread.h"
#include "scheduler/engine/restore.h"
#include "scheduler/engine/verify.h"
#include "scheduler/http/http_server.h"
#include "scheduler/provider/registry.h"
#include "scheduler/rpc/billing_service.h"
#include "scheduler/rpc/fleet_service.h"
#include "scheduler/rpc/job_service.h"
#include "scheduler/rpc/secret_service.h"
#include "scheduler/rpc/server.h"
#include "scheduler/rpc/worker_sessions.h"
#include "scheduler/settings.h"
#include "scheduler/store/sqlite_store.h"

namespace spillway {
namespace {

constexpr char kVersion[] = "0.1.0";
constexpr int64_t kStopGraceMs = 2'000;
constexpr int kReadThreads = 4;

constexpr char kFooter[] = R"(Exit codes:
  0   stopped as asked
  1   could not start; the last line says why
  2   wrong usage or configuration
  70  a commit failed and its durability is unknown: start again, it reads what is there

Examples:
  spillwayd --home ~/.spillway
  spillwayd --home /srv/spillway --config /etc/spillway.yaml
  spillwayd --home ~/.spillway --verify      # replay the events since the last snapshot and compare; changes nothing
  spillwayd --home ~/.spillway --restore spillway.backup   # make the lost data folder anew, then start as ever; docs/reference/backup.md)";

LogLevel LevelNamed(const std::string& name) {
  return name == "debug" ? LogLevel::kDebug : name == "warning" ? LogLevel::kWarning : name == "error" ? LogLevel::kError : LogLevel::kInfo;
}

std::string WithPort(const std::string& address, int port) { return absl::StrCat(address.substr(0, address.rfind(':') + 1), port); }

// Where the configuration leaves the port open (0), the port of the last life is taken again when it is free: nodes and followers know no other.
int PortBefore(const std::string& home, const char* name) {
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(home, absl::StrCat("run/", name, ".port")), 64);
  int port = 0;
  return text.ok() && absl::SimpleAtoi(*text, &port) && port > 1024 && port < 65'536 ? port : 0;
}
absl::StatusOr<std::unique_ptr<rpc::Server>> Serve(const std::string& address, int port_before, const std::vector<grpc::Service*>& services) {
  if (port_before != 0 && absl::EndsWith(address, ":0")) {
    absl::StatusOr<std::unique_ptr<rpc::Server>> again = rpc::Server::Start(WithPort(address, port_before), services);
    if (again.ok()) return again;
  }
  return rpc::Server::Start(address, services);
}

// What an earlier life wrote would send people to a port that somebody else may have by now.
void ForgetEarlierLife(const std::string& home) {
  for (const char* name : {"user.port", "worker.port", "http.port"}) unlink(JoinPath(home, absl::StrCat("run/", name)).c_str());
}

absl::Status WritePort(const std::string& home, const char* name, int port) {
  return WriteFileAtomically(JoinPath(home, absl::StrCat("run/", name, ".port")), absl::StrCat(port, "\n"), 0600);
}

// Waits for SIGTERM or SIGINT; a second one ends the process at once.
void WaitForStop(const sigset_t& signals) {
  int number = 0;
  sigwait(&signals, &number);
  LOG(INFO) << "stopping (" << strsignal(number) << "); again to stop at once";
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

absl::Status PostAndWait(engine::EngineThread* engine, core::Command command) {
  std::promise<absl::Status> done;
  RETURN_IF_ERROR(engine->Post(std::move(command), [&](absl::StatusOr<core::Reply> reply) { done.set_value(reply.status()); }));
  return done.get_future().get();
}

absl::Status Run(const Settings& settings, const sigset_t& signals) {
  RealClock clock;
  const std::string& home = settings.home;
  for (const char* folder : {"", "run", "data", "tokens", "keys"}) RETURN_IF_ERROR(MakeDirectories(JoinPath(home, folder), 0700));
  for (const char* folder : {"checkpoints", "logs"}) RETURN_IF_ERROR(MakeDirectories(JoinPath(settings.store_path, folder), 0700));
  RETURN_IF_ERROR(LockFile(JoinPath(home, "run/spillwayd.lock"), absl::StrCat("another spillwayd runs in ", home)).status());  // one a home
  const int worker_port_before = PortBefore(home, "worker"), user_port_before = PortBefore(home, "user");
  ForgetEarlierLife(home);
  // At once, whoever comes next must find who holds the home, however long the start takes; but never beside an earlier life's ports.
  const std::string pid_file = JoinPath(home, "run/spillwayd.pid");
  const absl::Cleanup forget_pid = [&] { unlink(pid_file.c_str()); };  // while the lock is held: it names nobody else
  RETURN_IF_ERROR(WriteFileAtomically(pid_file, absl::StrCat(getpid(), "\n"), 0600));
  ASSIGN_OR_RETURN(const std::string user_token, auth::LoadOrCreateToken(JoinPath(home, "tokens/user")));
  ASSIGN_OR_RETURN(const std::string worker_token, auth::LoadOrCreateToken(JoinPath(home, "tokens/worker")));
  const auth::TokenGuard user_guard(user_token), worker_guard(worker_token);

  ASSIGN_OR_RETURN(const std::unique_ptr<secrets::SecretStore> secrets,
                   secrets::SecretStore::Open(JoinPath(home, "data/secrets"), JoinPath(home, "keys/secrets")));
  const std::string database = JoinPath(home, "data/spillway.db");
  ASSIGN_OR_RETURN(std::unique_ptr<store::SqliteStore> store, store::SqliteStore::Open({.path = database}));
  ASSIGN_OR_RETURN(const std::unique_ptr<store::Reader> reader, store::Reader::Open(database));
  ASSIGN_OR_RETURN(const std::unique_ptr<store::Reader> spec_reader, store::Reader::Open(database));  // its own: sessions must not wait behind long lists

  // Sinks first, then the engine that speaks to them, then what feeds it.
  rpc::SpecCache specs(spec_reader.get());
  rpc::WorkerSessions sessions({&worker_guard, &specs, secrets.get(), &clock, absl::StrCat("file:", settings.store_path)});
  effects::Executor effects;
  engine::EngineThread engine({.engine = settings.engine}, store.get(), &clock, &sessions, &effects);
  sessions.Attach(&engine);
  // However this function ends: the engine first, so that it hands out nothing more, then those who carry out what it handed out.
  const absl::Cleanup stop = [&] {
    engine.Stop();
    effects.Stop();
  };
  const effects::Post post = effects::AnswersTo(&engine);
  effects.SetSealer(std::make_unique<effects::Sealer>(JoinPath(settings.store_path, "checkpoints"), post));
  RETURN_IF_ERROR(engine.Start());

  // Workers are served before providers make any: those need the address.
  rpc::ReadPool pool(kReadThreads);
  const rpc::Backend backend{&engine,  reader.get(), &pool,           &specs, secrets.get(), &clock, &user_guard, JoinPath(settings.store_path, "logs"),
                             database, kVersion,     clock.NowUtcMs()};
  rpc::JobService jobs(backend);
  rpc::FleetService fleet(backend);
  rpc::BillingService billing(backend);
  rpc::SecretService secret_service(backend);
  ASSIGN_OR_RETURN(const std::unique_ptr<rpc::Server> worker_server, Serve(settings.worker_address, worker_port_before, {&sessions}));
  provider::Surroundings surroundings{home, "", WithPort(settings.worker_address, worker_server->port()), JoinPath(home, "tokens/worker"), ExecutableFolder()};
  RETURN_IF_ERROR(engine.Query([&](const core::State& state, const core::Soft&, int64_t) { surroundings.cluster_uuid = state.meta.cluster_uuid; }));
  if (surroundings.cluster_uuid.empty()) surroundings.cluster_uuid = NewUuid();
  core::Configure configure = settings.configure;
  configure.cluster_uuid = surroundings.cluster_uuid;
  std::vector<std::unique_ptr<provider::Provider>> providers;
  for (const v1::ProviderConfig& config : settings.providers) {
    ASSIGN_OR_RETURN(std::unique_ptr<provider::Provider> made, provider::MakeProvider(config, surroundings));
    configure.providers.push_back(provider::InfoOf(config, *made));
    providers.push_back(std::move(made));
  }
  RETURN_IF_ERROR(PostAndWait(&engine, std::move(configure)));
  for (auto& made : providers) {
    const std::string name = made->name();
    effects.AddProvider(name, std::make_unique<effects::ProviderRunner>(
                                  std::move(made), &clock, [&engine] { return engine.now_ms(); }, post));
  }
  effects.AllAdded();
  ASSIGN_OR_RETURN(const std::unique_ptr<rpc::Server> user_server, Serve(settings.user_address, user_port_before, {&jobs, &fleet, &billing, &secret_service}));
  ASSIGN_OR_RETURN(const std::unique_ptr<http::Server> http_server, http::Server::Start(settings.http_address, &engine));
  RETURN_IF_ERROR(WritePort(home, "worker", worker_server->port()));
  RETURN_IF_ERROR(WritePort(home, "http", http_server->port()));
  RETURN_IF_ERROR(WritePort(home, "user", user_server->port()));
  LOG(INFO) << "spillwayd " << kVersion << ", cluster " << surroundings.cluster_uuid << ": users on " << user_server->port() << ", workers on "
            << worker_server->port() << ", http on " << http_server->port();

  WaitForStop(signals);

  // A planned stop: what was accepted is committed, every session hears a last word, and its node's lease runs on from now.
  user_server->Stop(kStopGraceMs);
  sessions.CloseAll("SHUTDOWN", "the scheduler stops; it will be back");
  worker_server->Stop(kStopGraceMs);
  LOG(INFO) << "no more connections; committing what was accepted";
  return absl::OkStatus();
}

absl::Status Verify(const std::string& home) {
  ASSIGN_OR_RETURN(const std::unique_ptr<store::SqliteStore> store, store::SqliteStore::Open({.path = JoinPath(home, "data/spillway.db")}));
  ASSIGN_OR_RETURN(const engine::Verified verified, engine::Verify(store.get()));
  std::cout << verified.events << " events after turn " << verified.from_seq << " replay to the stored state of turn " << verified.last_seq
            << ", byte for byte (" << verified.snapshots << " snapshots compared)\n";
  return absl::OkStatus();
}

absl::Status RestoreHome(const Settings& settings, const std::string& backup) {
  for (const char* folder : {"", "run", "data"}) RETURN_IF_ERROR(MakeDirectories(JoinPath(settings.home, folder), 0700));
  RETURN_IF_ERROR(MakeDirectories(settings.store_path, 0700));
  RETURN_IF_ERROR(LockFile(JoinPath(settings.home, "run/spillwayd.lock"), absl::StrCat("a spillwayd runs in ", settings.home)).status());
  RealClock clock;
  const engine::RestoreOptions options{AbsolutePath(backup), JoinPath(settings.home, "data/spillway.db"), settings.store_path, settings.engine.policy,
                                       clock.NowUtcMs()};
  ASSIGN_OR_RETURN(const engine::RestoreDone done, engine::Restore(options));
  std::cout << "cluster " << done.backup.cluster_uuid << " restored as of turn " << done.backup.seq << ", " << FormatUtcMs(done.backup.now_ms)
            << "; it is incarnation " << done.incarnation << " now\nnew jobs begin at " << done.first_job << "; nothing older starts before "
            << FormatUtcMs(done.adopt_until_ms) << ", when what was begun since the backup has surely ended\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  using namespace spillway;
  SetLogProgram("spillwayd");
  CLI::App app("The Spillway scheduler: places GPU jobs on reserved, spot and on-demand capacity.", "spillwayd");
  std::string home, config, log_level, restore;
  bool verify = false;
  app.add_option("--home", home, "where everything lives (default: SPILLWAY_HOME, or ~/.spillway)");
  app.add_option("--config", config, "configuration (default: HOME/config.yaml where there is one)");
  app.add_flag("--verify", verify, "replay the stored events and compare with the stored rows, then exit");
  app.add_option("--restore", restore, "make the data folder of a home that has none from a file that `spillway backup` wrote, then exit")
      ->excludes("--verify");
  app.add_option("--log-level", log_level, "debug, info, warning or error (default: SPILLWAY_LOG, or info)")
      ->check(CLI::IsMember(std::vector<std::string>{"debug", "info", "warning", "error"}));
  app.set_version_flag("--version", absl::StrCat("spillwayd ", kVersion));
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }

  if (!log_level.empty()) SetLogLevel(LevelNamed(log_level));

  // Signals are taken by the main thread alone; blocked before any other thread starts.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  const absl::StatusOr<Settings> settings = LoadSettings(home.empty() ? SpillwayHome() : AbsolutePath(home), config);
  if (!settings.ok()) {
    std::cerr << "spillwayd: " << settings.status().message() << "\n";
    return 2;
  }
  const absl::Status status = verify ? Verify(settings->home) : !restore.empty() ? RestoreHome(*settings, restore) : Run(*settings, signals);
  if (status.ok()) return 0;
  std::cerr << "spillwayd: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}
