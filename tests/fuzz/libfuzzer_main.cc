// libFuzzer's way in, one program a target: SPILLWAY_FUZZ_TARGET is its function.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/parsers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  spillway::checkpoint::SPILLWAY_FUZZ_TARGET(absl::string_view(reinterpret_cast<const char*>(data), bytes));
  return 0;
}
