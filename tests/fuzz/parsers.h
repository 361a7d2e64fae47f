// What is fuzzed: everything that reads bytes which somebody else may have written to a checkpoint's disk. Each takes any bytes, and ends the process
// when a promise is broken: what a parser accepts is written again as the same thing. Digests, which no mutation would ever meet, are put right
// first, and the bytes are tried as they are too.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace spillway::checkpoint {

// True when the parser accepted something, so that a driver can tell whether it gets past the door at all.
bool FuzzManifest(absl::string_view bytes);           // MANIFEST
bool FuzzContainerHeader(absl::string_view bytes);    // the header region of a container
bool FuzzEncryptedHeader(absl::string_view bytes);    // the same of an encrypted one, and what a foreign key makes of it
bool FuzzKeyFile(absl::string_view bytes);            // KEY
bool FuzzSafetensorsHeader(absl::string_view bytes);  // i64 bytes of the tensors (little-endian), then the JSON

struct FuzzTarget {
  const char* name;  // and of its folder in tests/fuzz/corpus
  bool (*run)(absl::string_view bytes);
};
const std::vector<FuzzTarget>& FuzzTargets();

}  // namespace spillway::checkpoint
