// The `spillway` command line: wiring only.
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "base/clock.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "client/cli.h"
#include "client/client.h"
#include "client/connection.h"
#include "client/output.h"

namespace {

using namespace spillway;          // NOLINT: a main file
using namespace spillway::client;  // NOLINT

int Columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

absl::StatusOr<std::unique_ptr<Api>> Open(const Context& context) {
  ASSIGN_OR_RETURN(const Connection connection, FindConnection(context.server_flag, context.home, context.environment));
  if (!IsLoopback(connection.server)) {
    *context.err << context.Painted("warning: ", Colour::kYellow) << "the connection to " << connection.server << " is not encrypted (TLS is not built yet)\n";
  }
  return Connect(ClientOptions{.server = connection.server, .token = connection.token, .token_source = connection.token_source});
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that has gone shows as a bad stream
  RealClock clock;
  std::unique_ptr<Api> api;
  DescriptorBuffer results(STDOUT_FILENO);
  std::ostream out(&results);
  Context context;
  context.in = &std::cin;
  context.out = &out;
  context.err = &std::cerr;
  context.out_is_terminal = isatty(STDOUT_FILENO) == 1;
  if (context.out_is_terminal) out << std::unitbuf;  // in step with what is said on standard error
  context.in_is_terminal = isatty(STDIN_FILENO) == 1;
  context.environment = ProcessEnvironment();
  context.environment_has = [](const char* name) { return std::getenv(name) != nullptr; };
  context.colours = context.out_is_terminal && isatty(STDERR_FILENO) == 1 && context.environment("NO_COLOR").empty() && context.environment("TERM") != "dumb";
  context.terminal_columns = Columns();
  context.clock = &clock;
  context.sleep_ms = [](int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  context.home = AbsolutePath(SpillwayHome());
  context.connect = [&]() -> absl::StatusOr<Api*> {
    if (api == nullptr) {
      ASSIGN_OR_RETURN(api, Open(context));
    }
    return api.get();
  };
  context.dial = [](const std::string& server, const std::string& token, int64_t call_timeout_ms) {
    return Connect(ClientOptions{.server = server, .token = token, .call_timeout_ms = call_timeout_ms, .advise = false});
  };
  const int code = RunCli(std::vector<std::string>(argv + 1, argv + argc), context);
  out.flush();
  if (const absl::Status written = results.status(); !written.ok()) {
    const int failed = context.Fail(written);
    return code == kExitOk ? failed : code;
  }
  return code;
}
