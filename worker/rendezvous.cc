#include "worker/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace spillway::worker {

HeldPort::HeldPort() {
  fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t length = sizeof address;
  const bool bound =
      bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (bound) number_ = ntohs(address.sin_port);
}

HeldPort::~HeldPort() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<std::string> AddressTowards(const std::string& server) {
  const size_t colon = server.rfind(':');
  if (colon == std::string::npos) return absl::UnavailableError(absl::StrCat("'", server, "' is not HOST:PORT"));
  std::string host = server.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), server.c_str() + colon + 1, &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat(host, ": ", gai_strerror(error)));
  }
  absl::StatusOr<std::string> answer = absl::UnavailableError(absl::StrCat("there is no way to ", host));
  for (const addrinfo* one = found; one != nullptr && !answer.ok(); one = one->ai_next) {
    const int fd = socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    sockaddr_storage own = {};
    socklen_t length = sizeof own;
    char text[NI_MAXHOST];
    // A datagram socket that is connected sends nothing: the kernel only chooses the way.
    if (connect(fd, one->ai_addr, one->ai_addrlen) == 0 && getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
        getnameinfo(reinterpret_cast<sockaddr*>(&own), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) {
      answer = std::string(text);
    }
    close(fd);
  }
  freeaddrinfo(found);
  return answer;
}

}  // namespace spillway::worker
