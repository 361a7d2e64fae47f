#include "client/output.h"

#include <unistd.h>

#include <cerrno>

#include "base/files.h"

namespace spillway::client {

DescriptorBuffer::DescriptorBuffer(int fd) : fd_(fd) { setp(buffer_.data(), buffer_.data() + buffer_.size()); }

absl::Status DescriptorBuffer::status() const {
  if (error_ == 0 || error_ == EPIPE) return absl::OkStatus();
  return ErrnoStatus(error_, "the output could not be written");
}

DescriptorBuffer::int_type DescriptorBuffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

int DescriptorBuffer::sync() {
  const char* from = pbase();
  while (error_ == 0 && from < pptr()) {
    const ssize_t n = write(fd_, from, static_cast<size_t>(pptr() - from));
    if (n >= 0) {
      from += n;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0 ? 0 : -1;
}

}  // namespace spillway::client
