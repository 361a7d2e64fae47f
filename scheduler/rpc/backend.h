// What the services stand on: the engine, the reader, a few threads for blocking reads, the store's folders. Owns none of it; wiring only.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "scheduler/auth/token.h"
#include "scheduler/engine/engine_thread.h"
#include "scheduler/rpc/read_pool.h"
#include "scheduler/rpc/spec_cache.h"
#include "scheduler/secrets/secret_store.h"
#include "scheduler/store/reader.h"

namespace spillway::rpc {

struct Backend {
  engine::EngineThread* engine = nullptr;
  store::Reader* reader = nullptr;  // every call on it blocks: only from `pool`
  ReadPool* pool = nullptr;
  SpecCache* specs = nullptr;  // what is submitted is soon offered
  secrets::SecretStore* secrets = nullptr;
  Clock* clock = nullptr;
  const auth::TokenGuard* user_guard = nullptr;
  std::string log_root;  // absolute
  std::string database;  // the same
  std::string version;
  int64_t started_ms = 0;
};

// Runs `read(state, soft, now_ms)` between two turns and returns its value; UNAVAILABLE when the scheduler is stopping. Waits: only from the read pool.
template <typename Read>
auto AskState(const Backend& backend, Read read) -> absl::StatusOr<std::invoke_result_t<Read, const core::State&, const core::Soft&, int64_t>> {
  std::optional<std::invoke_result_t<Read, const core::State&, const core::Soft&, int64_t>> value;
  const absl::Status status =
      backend.engine->Query([&](const core::State& state, const core::Soft& soft, int64_t now_ms) { value = read(state, soft, now_ms); });
  if (!status.ok()) return status;
  return *std::move(value);
}

}  // namespace spillway::rpc
