// bench-load ROLE: see load.h. A parts list.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>

#include "base/grpc_log.h"
#include "tests/bench/load.h"

int main(int argc, char** argv) {
  using namespace spillway;
  using namespace spillway::bench;
  SetLogProgram("bench-load");
  LogGrpcAsDebug();
  signal(SIGPIPE, SIG_IGN);
  CLI::App app("The other end of what a benchmark measures.", "bench-load");
  app.require_subcommand(1);
  Server server;
  Jobs jobs;
  Workers workers;
  std::string folder, file, mark, socket;
  int64_t count = 1, callers = 1, per_call = 1, rows = 1, row_bytes = 500, concurrency = 1, page_size = 100, last_job = 1, job = 0, tasks = 1, bytes = 1;
  double seconds = 1;
  std::function<Measured()> role;
  const auto add = [&](const char* name, const char* what, std::function<Measured()> run) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->callback([&role, run = std::move(run)] { role = run; });
    return sub;
  };
  const auto reaches = [&](CLI::App* sub) {
    sub->add_option("--server", server.address)->required();
    sub->add_option("--token-file", server.token_file);
    return sub;
  };
  const auto submits = [&](CLI::App* sub) {
    reaches(sub)->add_option("--node", jobs.node);
    sub->add_option("--cpu-milli", jobs.cpu_milli);
    sub->add_option("--spec-bytes", jobs.spec_bytes);
    sub->add_option("--array", jobs.array);
    sub->add_option("--tag", jobs.tag);
    sub->add_option("--count", count)->check(CLI::PositiveNumber);
    return sub;
  };
  const auto plays = [&](CLI::App* sub) {
    reaches(sub)->add_option("--name", workers.name);
    sub->add_option("--workers", workers.count)->check(CLI::PositiveNumber);
    sub->add_option("--slots", workers.slots);
    sub->add_option("--renew-ms", workers.renew_ms);
    return sub;
  };

  CLI::App* sub = add("raw-writes", "4 KiB appended and synced", [&] { return RawWrites(folder, seconds); });
  sub->add_option("--folder", folder)->required();
  sub->add_option("--seconds", seconds);
  sub = add("raw-commits", "SQLite transactions, WAL and FULL", [&] { return RawCommits(folder, rows, row_bytes, seconds); });
  sub->add_option("--folder", folder)->required();
  sub->add_option("--rows", rows);
  sub->add_option("--row-bytes", row_bytes);
  sub->add_option("--seconds", seconds);
  sub = add("raw-scan", "every row of a database read once", [&] { return RawScan(file); });
  sub->add_option("--database", file)->required();
  sub = add("raw-spawns", "posix_spawn of /bin/true and wait", [&] { return RawSpawns(count, concurrency); });
  sub->add_option("--count", count)->check(CLI::PositiveNumber);
  sub->add_option("--concurrency", concurrency)->check(CLI::PositiveNumber);
  sub = add("training", "save, restore or copy tensors, a line of the input at a time", [&] { return PlayTraining(bytes); });
  sub->add_option("--bytes", bytes)->required()->check(CLI::PositiveNumber);
  add("serve-bare", "answer the same calls with nothing behind them", [] { return ServeBare(); });

  sub = submits(add("submit", "many callers", [&] { return Submit(server, jobs, callers, count, per_call); }));
  sub->add_option("--callers", callers)->check(CLI::PositiveNumber);
  sub->add_option("--per-call", per_call)->check(CLI::PositiveNumber);
  submits(add("run", "submit, and wait for the end of all", [&] { return RunAll(server, jobs, count); }));
  sub = reaches(add("list", "pages from anywhere", [&] { return ListPages(server, count, page_size, last_job); }));
  sub->add_option("--count", count);
  sub->add_option("--page-size", page_size);
  sub->add_option("--last-job", last_job)->required();
  sub = reaches(add("list-tasks", "pages from anywhere in an array", [&] { return ListTaskPages(server, count, page_size, job, tasks); }));
  sub->add_option("--count", count);
  sub->add_option("--page-size", page_size);
  sub->add_option("--job", job)->required();
  sub->add_option("--tasks", tasks)->required();
  sub = reaches(add("states", "count the jobs, or the tasks of a job, of each state", [&] { return CountStates(server, job, file); }));
  sub->add_option("--job", job);
  sub->add_option("--finished", file);
  sub = submits(add("latency", "submit to running, beside a spawn", [&] { return SubmitToRunning(server, jobs, mark, socket, count); }));
  sub->add_option("--mark", mark)->required();
  sub->add_option("--socket", socket)->required();

  sub = plays(add("renew", "workers that renew", [&] { return RenewSessions(server, workers, seconds); }));
  sub->add_option("--seconds", seconds);
  sub = plays(add("null", "workers that end everything at once", [&] { return RunNothing(server, workers, count, file); }));
  sub->add_option("--count", count)->required();
  sub->add_option("--finished", file);
  sub = plays(add("hold", "workers that end nothing", [&] { return HoldForever(server, workers, count); }));
  sub->add_option("--count", count)->required();
  CLI11_PARSE(app, argc, argv);

  const Measured measured = role();
  if (!measured.ok()) {
    std::cerr << "bench-load: " << measured.status().ToString() << "\n";
    return 1;
  }
  std::cout << *measured << std::endl;
  return 0;
}
