// Starts this program a second time with the shim between it and its files, so that a forked child can be a process that dies at its k-th call.
// Only what lies below one folder is counted, and nothing meets a fault unless a test says so (OwnShim).
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/files.h"
#include "tests/crash/shim.h"

int main(int argc, char** argv) {
  using spillway::Shim;
  if (getenv("SPILLWAY_SHIM_CONTROL") == nullptr) {
    // Memory where there is some: dying processes lose nothing that was written, synced or not.
    std::string folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm/spillway-crash-XXXXXX" : "/tmp/spillway-crash-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return 1;
    Shim shim(folder, program_invocation_short_name);
    shim.Keep();
    for (const auto& [name, value] : shim.Variables()) setenv(name.c_str(), value.c_str(), 1);
    execv("/proc/self/exe", argv);
    return 1;
  }
  Shim::Own() = new Shim(getenv("SPILLWAY_SHIM_FOLDER"), program_invocation_short_name, getenv("SPILLWAY_SHIM_CONTROL"));
  // Whatever this program starts is none of that.
  for (const auto& [name, value] : Shim::Own()->Variables()) unsetenv(name.c_str());
  testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  const std::string folder = Shim::Own()->folder();
  delete Shim::Own();
  return spillway::RemoveTree(folder).ok() ? code : 1;
}
