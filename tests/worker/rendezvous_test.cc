// Where the members of a gang meet.
#include "worker/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "base/status_matchers.h"

namespace spillway::worker {
namespace {

// Whether a program may listen there, as one does that asks for it in the usual way.
bool MayListen(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool may = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd, 1) == 0;
  close(fd);
  return may;
}

TEST(Rendezvous, AHeldPortIsNobodysUntilItIsLetGo) {
  std::optional<HeldPort> held(std::in_place), other(std::in_place);
  ASSERT_GT(held->number(), 0);
  EXPECT_NE(held->number(), other->number());
  const int port = held->number();
  EXPECT_FALSE(MayListen(port));
  held.reset();
  EXPECT_TRUE(MayListen(port));
}

TEST(Rendezvous, TheAddressIsTheOneOnTheWayToTheServer) {
  ASSERT_OK_AND_ASSIGN(const std::string address, AddressTowards("127.0.0.1:7071"));
  EXPECT_EQ(address, "127.0.0.1");
  EXPECT_THAT(AddressTowards("nowhere"), StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr("'nowhere' is not HOST:PORT")));
}

}  // namespace
}  // namespace spillway::worker
