// Specs by digest, so that offering a job costs no database read: filled at submit, read through after a restart. Bounded by bytes, oldest out first. Thread-safe.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "scheduler/store/reader.h"

namespace spillway::rpc {

class SpecCache {
 public:
  explicit SpecCache(store::Reader* reader, size_t bytes_max = 64u << 20) : reader_(reader), bytes_max_(bytes_max) {}
  void Put(const std::string& digest, const std::string& bytes);
  absl::StatusOr<std::string> Get(const std::string& digest);

 private:
  store::Reader* const reader_;
  const size_t bytes_max_;
  Mutex mutex_;
  std::map<std::string, std::string> specs_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace spillway::rpc
