// spillway-playground: a cloud in a box. Reads its configuration, opens its home, serves until SIGTERM. Wiring only.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "playground/config.h"
#include "playground/host.h"
#include "playground/http_server.h"
#include "playground/instance_init.h"

extern char** environ;

namespace spillway::playground {
namespace {

constexpr char kUsage[] =
    "usage: spillway-playground [--config FILE.yaml] [--home DIR] [--port N] [--seed S] [--scale X] [--worker FILE] [--terminate-on-exit]\n"
    "  --config FILE   the offers; default HOME/playground.yaml\n"
    "  --home DIR      where the cloud lives; default SPILLWAY_HOME/playground. Writes playground.port, .pid and .token there\n"
    "  --port N        of the HTTP API on 127.0.0.1; default 0: the port of its last life, or a free one\n"
    "  --seed, --scale in place of what the file says\n"
    "  --worker FILE   what instances run; default the spillway-worker beside this program\n"
    "  --terminate-on-exit   SIGTERM ends every instance first; without it they run on and the next start adopts them\n"
    "\nExamples:\n"
    "  spillway-playground --config playground.yaml --home /tmp/cloud\n"
    "      the cloud of the file; its port and token stand in /tmp/cloud\n"
    "  spillway-playground --config playground.yaml --home /tmp/cloud --scale 60 --seed 7\n"
    "      a cloud hour in a minute; the same seed takes the same instances at the same times\n"
    "  providers: [{name: cloud, kind: playground, url: \"http://127.0.0.1:PORT\", token_file: /tmp/cloud/playground.token}]\n"
    "      in config.yaml of the scheduler: this is where its spot nodes come from\n";

struct Flags {
  std::string config, home, worker;
  int port = 0;
  bool terminate_on_exit = false;
  ConfigOverrides overrides;
};

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments) {
  const std::vector<std::string> known = {"--config", "--home", "--port", "--seed", "--scale", "--worker", "--terminate-on-exit", "--help"};
  Flags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i], value;
    bool has_value = false;
    if (const size_t equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
      has_value = true;
    }
    if (name == "--terminate-on-exit" && !has_value) {
      flags.terminate_on_exit = true;
      continue;
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      const std::string nearest = NearestName(name, known);
      return absl::InvalidArgumentError(absl::StrCat("unknown flag ", Printable(name), nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
    }
    if (!has_value) {
      if (i + 1 == arguments.size()) return absl::InvalidArgumentError(absl::StrCat(name, " needs a value"));
      value = arguments[++i];
    }
    uint64_t seed = 0;
    int64_t scale = 0;
    if (name == "--config") flags.config = value;
    if (name == "--home") flags.home = value;
    if (name == "--worker") flags.worker = value;
    if (name == "--port" && (!absl::SimpleAtoi(value, &flags.port) || flags.port < 0 || flags.port > 65'535)) {
      return absl::InvalidArgumentError(absl::StrCat("--port must be from 0 to 65535, not ", Printable(value)));
    }
    if (name == "--seed") {
      if (!absl::SimpleAtoi(value, &seed)) return absl::InvalidArgumentError(absl::StrCat("--seed must be a whole number, not ", Printable(value)));
      flags.overrides.seed = seed;
    }
    if (name == "--scale") {
      if (!absl::SimpleAtoi(value, &scale) || scale < 1 || scale > kScaleMax) {
        return absl::InvalidArgumentError(absl::StrCat("--scale must be a whole number from 1 to ", kScaleMax, ", not ", Printable(value)));
      }
      flags.overrides.scale = scale;
    }
  }
  return flags;
}

// The control API's token: made once, readable by the owner only.
absl::StatusOr<std::string> ControlToken(const std::string& home) {
  const std::string path = JoinPath(home, "playground.token");
  if (!PathExists(path)) RETURN_IF_ERROR(WriteFileDurably(path, absl::StrCat(NewToken(), "\n"), 0600));
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path, 4096));
  std::string token(absl::StripAsciiWhitespace(content));
  if (token.size() < 32) return absl::FailedPreconditionError(absl::StrCat(path, " does not hold a token; delete it to have a new one made"));
  return token;
}

int LastPort(const std::string& home) {
  int port = 0;
  absl::StatusOr<std::string> content = ReadFile(JoinPath(home, "playground.port"), 4096);
  if (!content.ok() || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*content), &port)) return 0;
  return port > 0 && port < 65'536 ? port : 0;
}

std::map<std::string, std::string> OwnEnvironment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(*entry, absl::MaxSplits('=', 1));
    out.insert(parts);
  }
  return out;
}

absl::Status Serve(const Flags& flags, const sigset_t& end_signals) {
  const std::string home = AbsolutePath(flags.home.empty() ? JoinPath(SpillwayHome(), "playground") : ExpandHome(flags.home));
  const std::string config_path = flags.config.empty() ? JoinPath(home, "playground.yaml") : flags.config;
  if (flags.config.empty() && !PathExists(config_path)) {
    return absl::InvalidArgumentError(absl::StrCat("no configuration: give --config FILE.yaml, or put one at ", config_path));
  }
  ASSIGN_OR_RETURN(CloudConfig config, LoadCloudConfig(config_path, flags.overrides));
  const std::string beside = ExecutableFolder();
  MachineRunner runner({home, JoinPath(beside, "spillway-playground"), flags.worker.empty() ? JoinPath(beside, "spillway-worker") : AbsolutePath(flags.worker),
                        OwnEnvironment()});
  RealClock clock;
  const int64_t scale = config.scale;
  ASSIGN_OR_RETURN(const std::unique_ptr<Host> host, Host::Open({home, std::move(config), BootId()}, &clock, &runner));
  ASSIGN_OR_RETURN(const std::string token, ControlToken(home));
  HttpServer http(host.get(), token);
  ASSIGN_OR_RETURN(const int port, http.Bind(flags.port, LastPort(home)));
  host->Start([&http](const std::string& id) { return http.MetadataUrl(id); });
  http.Start();
  RETURN_IF_ERROR(WriteFileAtomically(JoinPath(home, "playground.pid"), absl::StrCat(getpid(), "\n")));
  RETURN_IF_ERROR(WriteFileAtomically(JoinPath(home, "playground.port"), absl::StrCat(port, "\n")));
  LOG(INFO) << "the playground is open on http://127.0.0.1:" << port << " at scale " << scale << ", home " << home;

  int received = 0;
  sigwait(&end_signals, &received);
  LOG(INFO) << "closing on signal " << received;
  absl::Status ended;
  if (flags.terminate_on_exit) ended = host->TerminateAll(30'000);
  http.Stop();
  host->Stop();
  unlink(JoinPath(home, "playground.pid").c_str());
  return ended;
}

int Main(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "instance-init") {
    return InstanceInitMain(std::vector<std::string>(arguments.begin() + 1, arguments.end()));
  }
  SetLogProgram("spillway-playground");
  if (std::find(arguments.begin(), arguments.end(), "--help") != arguments.end()) {
    fputs(kUsage, stdout);
    return 0;
  }
  absl::StatusOr<Flags> flags = ParseFlags(arguments);
  if (!flags.ok()) {
    fprintf(stderr, "spillway-playground: %s\n%s", std::string(flags.status().message()).c_str(), kUsage);
    return 2;
  }
  sigset_t end_signals;
  sigemptyset(&end_signals);
  sigaddset(&end_signals, SIGTERM);
  sigaddset(&end_signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &end_signals, nullptr);  // before any thread, so that only sigwait sees them
  signal(SIGPIPE, SIG_IGN);
  const absl::Status status = Serve(*flags, end_signals);
  if (status.ok()) return 0;
  fprintf(stderr, "spillway-playground: %s\n", std::string(status.message()).c_str());
  return status.code() == absl::StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace
}  // namespace spillway::playground

int main(int argc, char** argv) { return spillway::playground::Main(std::vector<std::string>(argv + 1, argv + argc)); }
