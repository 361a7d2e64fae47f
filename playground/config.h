// The cloud's configuration: which offers it has, how long they take to boot, how they are billed and when the market takes them back.
// Read from YAML, strictly: an unknown, repeated or missing key, a value of the wrong form, is refused with file:line and the nearest key.
//
// Everything in the file is CLOUD time and the price of a cloud hour. At scale s the playground divides its own durations by s and
// multiplies prices by s, once, here: the `real` half of an offer is what the model uses. Nothing outside the playground knows of scale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "pricing/billing.h"
#include "sim/spot_model.h"

namespace spillway::playground {

struct GpuShape {
  std::string model;
  int64_t count = 0;
  int64_t memory_bytes = 0;  // of one
  bool operator==(const GpuShape&) const = default;
};

struct Offer {
  std::string name;
  bool spot = false;  // false: on demand
  std::string instance_type;
  std::string zone;
  std::string region;
  GpuShape gpus;  // count 0: none
  int64_t cpus = 0;
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
  int64_t capacity = 0;                // instances alive at a time
  std::vector<int64_t> boot_failures;  // ordinals (from 1) of the offer's instances that never come up: for rehearsing that

  // Real time: cloud durations divided by scale, prices multiplied by it.
  int64_t boot_ms = 0;
  int64_t notice_ms = 0;  // 0: taken without notice
  pricing::BillingRule billing;

  sim::SpotModel market = sim::SpotModel::Never();  // in cloud time
};

struct CloudConfig {
  uint64_t seed = 1;
  int64_t scale = 1;                // cloud time passes this many times faster than real time
  int64_t requests_per_second = 0;  // creations above it are throttled; 0: no limit
  int64_t request_burst = 0;
  std::vector<Offer> offers;

  const Offer* Find(absl::string_view name) const;
  std::vector<std::string> OfferNames() const;
};

// What the command line says in place of the file.
struct ConfigOverrides {
  std::optional<uint64_t> seed;
  std::optional<int64_t> scale;
};

inline constexpr int64_t kScaleMax = 100'000;

// `folder` is where relative trace files are looked for. INVALID_ARGUMENT "origin:line: …".
absl::StatusOr<CloudConfig> ParseCloudConfig(const std::string& yaml, absl::string_view origin, const std::string& folder, const ConfigOverrides& overrides);
absl::StatusOr<CloudConfig> LoadCloudConfig(const std::string& path, const ConfigOverrides& overrides);

// A cloud duration in real time: divided by scale, to the nearest millisecond, and never down to nothing.
int64_t ScaledMs(int64_t cloud_ms, int64_t scale);

}  // namespace spillway::playground
