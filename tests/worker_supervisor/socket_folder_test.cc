// The folder of a supervisor's sockets: gone with its supervisor, or with the next one of the machine when that was killed.
#include "worker/supervisor/socket_folder.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "base/files.h"
#include "base/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace spillway::supervisor {
namespace {

class SocketFolderTest : public ::testing::Test {
 protected:
  std::string Folder(const std::string& name) const { return JoinPath(root_, name); }
  void Leave(const std::string& folder) {
    ASSERT_OK(MakeDirectories(folder, 0700));
    ASSERT_OK(WriteFileAtomically(JoinPath(folder, "s"), ""));
    ASSERT_OK(WriteFileAtomically(JoinPath(folder, "s.j7"), ""));
  }
  TemporaryFolder folder_;
  const std::string base_ = folder_.File("a");  // whose name is none that the worker gives
  const std::string root_ = JoinPath(base_, "spillway");
};

TEST_F(SocketFolderTest, IsMadeAndGoesWithItsSupervisor) {
  const std::string folder = Folder("0123456789ab");
  {
    ASSERT_OK_AND_ASSIGN(const SocketFolder held, SocketFolder::Take(JoinPath(folder, "s")));
    EXPECT_TRUE(PathExists(folder));
  }
  EXPECT_FALSE(PathExists(folder));
}

TEST_F(SocketFolderTest, WhatKilledSupervisorsLeftGoesWithTheNextOne) {
  Leave(Folder("aaaaaaaaaaaa"));
  Leave(Folder("bbbbbbbbbbbb"));
  ASSERT_OK_AND_ASSIGN(const SocketFolder mine, SocketFolder::Take(JoinPath(Folder("0123456789ab"), "s")));
  EXPECT_EQ(mine.RemoveLeftOnes(3'600'000), 0) << "one that was just made may be about to be taken";
  EXPECT_EQ(mine.RemoveLeftOnes(0), 2);
  EXPECT_FALSE(PathExists(Folder("aaaaaaaaaaaa")));
  EXPECT_TRUE(PathExists(Folder("0123456789ab"))) << "its own is in use";
}

TEST_F(SocketFolderTest, WhatIsInUseOrNotOursStays) {
  // Held by a supervisor that lives.
  ASSERT_OK_AND_ASSIGN(const SocketFolder held, SocketFolder::Take(JoinPath(Folder("aaaaaaaaaaaa"), "s")));
  // Without a lock, as an earlier version leaves it, but a socket is bound in it.
  ASSERT_OK(MakeDirectories(Folder("bbbbbbbbbbbb"), 0700));
  const std::string path = JoinPath(Folder("bbbbbbbbbbbb"), "s");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int bound = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(bound, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  // Somebody else's name, and a folder of ours with somebody else's file.
  Leave(Folder("somebody-else"));
  Leave(Folder("cccccccccccc"));
  ASSERT_OK(WriteFileAtomically(JoinPath(Folder("cccccccccccc"), "notes"), "mine"));
  ASSERT_OK_AND_ASSIGN(const SocketFolder mine, SocketFolder::Take(JoinPath(Folder("0123456789ab"), "s")));
  EXPECT_EQ(mine.RemoveLeftOnes(0), 0);
  EXPECT_TRUE(PathExists(Folder("aaaaaaaaaaaa")));
  EXPECT_TRUE(PathExists(path));
  EXPECT_TRUE(PathExists(JoinPath(Folder("somebody-else"), "s")));
  EXPECT_TRUE(PathExists(JoinPath(Folder("cccccccccccc"), "notes")));
  close(bound);
}

TEST_F(SocketFolderTest, AFolderThatAPersonNamedIsLeftAlone) {
  const std::string named = JoinPath(base_, "0123456789ab");
  ASSERT_OK(MakeDirectories(named, 0700));
  Leave(JoinPath(base_, "aaaaaaaaaaaa"));
  {
    ASSERT_OK_AND_ASSIGN(const SocketFolder held, SocketFolder::Take(JoinPath(named, "s")));
    EXPECT_EQ(held.RemoveLeftOnes(0), 0);
  }
  EXPECT_TRUE(PathExists(named));
  EXPECT_TRUE(PathExists(JoinPath(base_, "aaaaaaaaaaaa")));
}

}  // namespace
}  // namespace spillway::supervisor
