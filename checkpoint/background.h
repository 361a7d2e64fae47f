// Saving beside the training: the tensors are copied, which is all that the training waits for, and written from the copy while it goes on.
//
//   auto saver = BackgroundWriter::Open(options);
//   saver->Save(step, tensors);                        // back after one copy in memory; the tensors may change from here on
//   for (const auto& ended : saver->Collect()) ...     // between steps: what has been committed since, to tell the scheduler
//   for (const auto& ended : saver->Drain()) ...       // at the end, or on notice: waits for all of it
//
// Two copies at most, one that is being written and one that waits, and never more memory than the budget: where that is used up, Save waits.
// Owns copies and the thread that writes; what a save does and promises is Writer's.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/checkpoint.h"

namespace spillway::checkpoint {

// Memory in huge pages where there are any, which grows and is used again.
class HostBuffer {
 public:
  HostBuffer() = default;
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  absl::Status Reserve(int64_t bytes);  // its content is gone; RESOURCE_EXHAUSTED
  void Release();
  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

class BackgroundWriter {
 public:
  struct Ended {
    int64_t step = 0;
    absl::StatusOr<CommittedCheckpoint> saved;
  };

  // `memory_bytes_max`: of all copies together. What does not fit even alone is written without a copy, and Save waits for that.
  static absl::StatusOr<std::unique_ptr<BackgroundWriter>> Open(WriterOptions options, int64_t memory_bytes_max = INT64_MAX);
  ~BackgroundWriter();  // after all that was asked for is written
  BackgroundWriter(const BackgroundWriter&) = delete;

  // Copies the tensors and returns; what becomes of the save is in Collect. The same steps in the same order on every process of a group. An error
  // is about the copy: RESOURCE_EXHAUSTED, no memory; INVALID_ARGUMENT, a tensor whose bytes are not what its shape says.
  absl::Status Save(int64_t step, const std::vector<TensorView>& tensors, const Metadata& metadata = {});
  // The saves that have ended since the last call, in their order.
  std::vector<Ended> Collect();
  std::vector<Ended> Drain();  // the same when all have ended
  bool busy() const;
  const WriterOptions& options() const { return writer_.options(); }

 private:
  struct Copy {
    HostBuffer buffer;
    int64_t step = 0;
    std::vector<TensorView> tensors;  // that point into the buffer
    Metadata metadata;
  };
  BackgroundWriter(Writer writer, int64_t memory_bytes_max) : memory_bytes_max_(memory_bytes_max), writer_(std::move(writer)) {}
  Copy* AwaitCopy(int64_t bytes);
  void Write();

  const int64_t memory_bytes_max_;
  Writer writer_;  // the thread's while anything waits or is being written
  Copy copies_[2];
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Copy*> free_ ABSL_GUARDED_BY(mutex_) = {&copies_[0], &copies_[1]};
  std::deque<Copy*> waiting_ ABSL_GUARDED_BY(mutex_);  // and what is being written, in front
  std::vector<Ended> ended_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace spillway::checkpoint
