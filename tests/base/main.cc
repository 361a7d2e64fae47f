// GoogleTest's main, and a second role: as the short-lived parent of a child that must die with it (see subprocess_test.cc).
#include <gtest/gtest.h>

#include "absl/strings/string_view.h"
#include "base/subprocess.h"

int main(int argc, char** argv) {
  if (argc == 2 && absl::string_view(argv[1]) == "--spawn-and-leave") {
    spillway::SpawnOptions options;
    options.argv = {"sleep", "40"};  // longer than the test waits, and no longer: a failing test leaves nothing for good
    options.stderr_path = "/dev/null";
    options.die_with_parent = true;
    return spillway::Spawn(options).ok() ? 0 : 1;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
