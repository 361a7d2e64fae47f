// Durable submits through the engine and its store, beside the raw limit of the same disk in the same run: one synced write, one SQLite commit.
// Measures; asserts nothing.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "scheduler/engine/engine_thread.h"
#include "scheduler/store/sqlite_store.h"
#include "tests/support/temporary_folder.h"

namespace spillway {
namespace {

class NoSessions final : public engine::SessionSink {
  void Welcome(int64_t, const engine::WelcomeOrder&) override {}
  void Refuse(int64_t, const absl::Status&) override {}
  void Offer(int64_t, const engine::OfferOrder&) override {}
  void Stop(int64_t, const engine::StopOrder&) override {}
  void Forget(int64_t, const engine::ForgetOrder&) override {}
  void AckReports(int64_t, int64_t) override {}
  void AckRenewal(int64_t, int64_t) override {}
  void Close(int64_t, absl::string_view, absl::string_view, bool) override {}
};
class NoEffects final : public engine::EffectSink {
  void Seal(const engine::SealOrder&) override {}
  void Create(const engine::CreateOrder&) override {}
  void Terminate(const engine::TerminateOrder&) override {}
  void AskAbout(const std::string&) override {}
};

void RawSyncedWrite(benchmark::State& state) {
  TemporaryFolder folder;
  const int fd = open(folder.File("raw").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  const std::string block(4'096, 'x');
  for (auto _ : state) {
    CHECK(write(fd, block.data(), block.size()) == static_cast<ssize_t>(block.size()));
    CHECK(fdatasync(fd) == 0);
  }
  close(fd);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(RawSyncedWrite)->Unit(benchmark::kMicrosecond)->UseRealTime();

void RawSqliteCommit(benchmark::State& state) {
  TemporaryFolder folder;
  sqlite3* db = nullptr;
  CHECK(sqlite3_open(folder.File("raw.db").c_str(), &db) == SQLITE_OK);
  CHECK(sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, body BLOB)", nullptr, nullptr, nullptr) ==
        SQLITE_OK);
  const std::string insert = absl::StrCat("INSERT INTO t(body) VALUES('", std::string(500, 'x'), "')");
  for (auto _ : state) CHECK(sqlite3_exec(db, insert.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(RawSqliteCommit)->Unit(benchmark::kMicrosecond)->UseRealTime();

core::Submit OneJob(int64_t number) {
  core::NewJob job;
  job.uid = absl::StrCat("uid-", number);
  job.name = "bench";
  job.owner = "user";
  job.spec_bytes = absl::StrCat(std::string(500, 'x'), number);
  job.spec_digest = absl::StrCat(std::string(20, 'd'), 100'000'000'000 + number);
  return core::Submit{.request_id = "", .request_digest = "", .jobs = {job}};
}

// `range(0)` callers, each with one submit on its way: every one is answered after its commit.
void DurableSubmit(benchmark::State& state) {
  TemporaryFolder folder;
  RealClock clock;
  NoSessions sessions;
  NoEffects effects;
  auto store = store::SqliteStore::Open({.path = folder.File("bench.db")});
  CHECK(store.ok()) << store.status().ToString();
  engine::EngineThread engine({}, store->get(), &clock, &sessions, &effects);
  CHECK(engine.Start().ok());
  std::mutex mutex;
  std::condition_variable changed;
  int64_t number = 0, on_their_way = 0, answered = 0;
  CHECK(engine.Post(core::Configure{.cluster_uuid = "bench", .providers = {}, .reservations = {}}, {}).ok());
  for (auto _ : state) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return on_their_way < state.range(0); });
    ++on_their_way;
    lock.unlock();
    CHECK(engine
              .Post(OneJob(++number),
                    [&](absl::StatusOr<core::Reply> reply) {
                      CHECK(reply.ok()) << reply.status().ToString();
                      const std::lock_guard inner(mutex);
                      --on_their_way, ++answered;
                      changed.notify_one();
                    })
              .ok());
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return on_their_way == 0; });
  lock.unlock();
  state.SetItemsProcessed(answered);
  engine.Stop();
}
BENCHMARK(DurableSubmit)->Arg(1)->Arg(64)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace spillway

BENCHMARK_MAIN();
