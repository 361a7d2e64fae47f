// The zones that `spillway-sim deadline` plays: availability in equal ticks and prices, read from published traces. Whatever is wrong is refused with file
// and field; nothing is guessed.
//
// Two forms are read: JSON, one zone a file (`{"metadata":{"gap_seconds":600,"price_info":{…}},"data":[0,1,…],"prices":[…]}`, 1 means UNAVAILABLE), and CSV
// of counts, one column a zone (`scheduled_at,zone,…`, instances that could be had; a gang of N finds a zone available when at least N).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace spillway::sim {

struct TraceZone {
  std::string file;    // its name without folder and ending: what messages and reports call it
  std::string zone;    // "us-central1-a"
  std::string region;  // the zone without its last letter
  std::vector<bool> available;
  // Of each tick; one value: of all. Empty: the trace has none.
  std::vector<int64_t> spot_micros_per_hour;
  int64_t on_demand_micros_per_hour = 0;  // 0: the trace has none
  std::vector<int64_t> counts;            // instances that could be had, where the trace says so

  int64_t spot_at(int64_t tick) const { return spot_micros_per_hour.size() == 1 ? spot_micros_per_hour[0] : spot_micros_per_hour[static_cast<size_t>(tick)]; }
};

struct TraceSet {
  int64_t tick_ms = 0;
  std::vector<TraceZone> zones;                // by file name
  std::optional<std::vector<int64_t>> starts;  // of window_starts.json, where it lies beside them
};

// One trace of the JSON form. `origin` (a path) opens every message.
absl::StatusOr<TraceZone> ParseTrace(absl::string_view json, absl::string_view origin, int64_t* tick_ms);
// Columns of counts; rounds are ticks of ten minutes.
absl::StatusOr<TraceSet> ParseCounts(absl::string_view csv, absl::string_view origin, int64_t gang);

// A folder of traces, one trace, or one CSV of counts. All zones must have the same tick.
absl::StatusOr<TraceSet> ReadTraces(const std::string& path, int64_t gang);
// The zones named, in that order, by file or zone name. An unknown or ambiguous name is refused with what there is.
absl::StatusOr<TraceSet> SelectZones(const TraceSet& set, const std::vector<std::string>& names);
// First ticks of windows: a JSON list of integers.
absl::StatusOr<std::vector<int64_t>> ReadStarts(const std::string& path);
// Prices of the regions (`{"price":…,"on_demand_price":…}` in PATH/REGION_….json) for zones whose trace has none.
absl::Status ReadPrices(const std::string& folder, TraceSet* set);

// What a GB costs from one region to another: 0 within a region, the table's price where it has one, 0.02 dollars otherwise.
class EgressTable {
 public:
  // `from_region,to_region,price_usd_per_gb`.
  static absl::StatusOr<EgressTable> Read(const std::string& path);
  int64_t MicrosPerGb(absl::string_view from, absl::string_view to) const;

 private:
  struct Row {
    std::string from;
    std::string to;
    int64_t micros = 0;
  };
  std::vector<Row> rows_;
};

}  // namespace spillway::sim
