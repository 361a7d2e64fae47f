#include "scheduler/rpc/spec_cache.h"

#include "base/status_macros.h"

namespace spillway::rpc {

void SpecCache::Put(const std::string& digest, const std::string& bytes) {
  MutexLock lock(&mutex_);
  if (!specs_.emplace(digest, bytes).second) return;
  order_.push_back(digest);
  bytes_ += bytes.size();
  while (bytes_ > bytes_max_ && order_.size() > 1) {
    const auto oldest = specs_.find(order_.front());
    bytes_ -= oldest->second.size();
    specs_.erase(oldest);
    order_.pop_front();
  }
}

absl::StatusOr<std::string> SpecCache::Get(const std::string& digest) {
  {
    MutexLock lock(&mutex_);
    if (const auto it = specs_.find(digest); it != specs_.end()) return it->second;
  }
  ASSIGN_OR_RETURN(std::string bytes, reader_->GetSpec(digest));
  Put(digest, bytes);
  return bytes;
}

}  // namespace spillway::rpc
