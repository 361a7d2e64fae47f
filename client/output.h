// The results of the command line on their way to a descriptor. Buffered; remembers why the first write failed, which an iostream forgets:
// a reader that has gone is nobody's fault, a full disk means that the caller has not got what was asked.
#pragma once

#include <array>
#include <streambuf>

#include "absl/status/status.h"

namespace spillway::client {

class DescriptorBuffer final : public std::streambuf {
 public:
  explicit DescriptorBuffer(int fd);

  // OK while everything written so far reached the descriptor or its reader has gone (EPIPE).
  absl::Status status() const;

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  const int fd_;
  int error_ = 0;  // of the first write that failed; nothing is written after it
  std::array<char, 16'384> buffer_;
};

}  // namespace spillway::client
