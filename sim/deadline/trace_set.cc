#include "sim/deadline/trace_set.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/money.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "sim/spot_model.h"

namespace spillway::sim {
namespace {

constexpr int64_t kDefaultEgressMicrosPerGb = 20'000;
constexpr int64_t kCountsTickMs = 600'000;
constexpr double kPriceMax = 1e6;  // dollars an hour
constexpr size_t kStartsMax = 1'000'000;
constexpr absl::string_view kStartsFile = "window_starts.json";

absl::Status Refused(absl::string_view origin, absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat(origin, ": ", what)); }

absl::string_view Stem(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash != absl::string_view::npos) path.remove_prefix(slash + 1);
  return path.substr(0, path.find('.'));
}

// "us-central1-a_h100_16" -> "us-central1-a": files are named by zone, device and count.
std::string ZoneOf(absl::string_view stem) { return std::string(stem.substr(0, stem.find('_'))); }

std::string RegionOf(absl::string_view zone) {
  if (!zone.empty() && absl::ascii_isalpha(static_cast<unsigned char>(zone.back()))) zone.remove_suffix(1);
  if (absl::EndsWith(zone, "-")) zone.remove_suffix(1);
  return std::string(zone);
}

absl::StatusOr<int64_t> PriceOf(const nlohmann::json& value, absl::string_view origin, absl::string_view field) {
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > kPriceMax) {
    return Refused(origin, absl::StrCat(field, " must be dollars an hour, not ", Printable(value.dump(), 40)));
  }
  return std::llround(value.get<double>() * kMicrosPerUnit);
}

absl::StatusOr<nlohmann::json> ParseJson(absl::string_view text, absl::string_view origin) {
  nlohmann::json root = nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return Refused(origin, "is not JSON");
  return root;
}

absl::Status TakePrices(const nlohmann::json& root, absl::string_view origin, TraceZone* zone) {
  if (root.contains("metadata") && root["metadata"].contains("price_info") && root["metadata"]["price_info"].is_object()) {
    const nlohmann::json& info = root["metadata"]["price_info"];
    if (info.contains("price")) {
      ASSIGN_OR_RETURN(const int64_t micros, PriceOf(info["price"], origin, "metadata.price_info.price"));
      zone->spot_micros_per_hour = {micros};
    }
    if (info.contains("on_demand_price")) {
      ASSIGN_OR_RETURN(zone->on_demand_micros_per_hour, PriceOf(info["on_demand_price"], origin, "metadata.price_info.on_demand_price"));
    }
  }
  if (!root.contains("prices")) return absl::OkStatus();
  const nlohmann::json& prices = root["prices"];
  if (!prices.is_array() || prices.size() != zone->available.size()) {
    return Refused(origin, absl::StrCat("prices must be a list as long as data (", zone->available.size(), ")"));
  }
  zone->spot_micros_per_hour.clear();
  for (size_t i = 0; i < prices.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t micros, PriceOf(prices[i], origin, absl::StrCat("prices[", i, "]")));
    zone->spot_micros_per_hour.push_back(micros);
  }
  return absl::OkStatus();
}

absl::StatusOr<TraceSet> ReadFolder(const std::string& folder) {
  TraceSet set;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (!absl::EndsWith(name, ".json")) continue;
    if (name == kStartsFile) {
      ASSIGN_OR_RETURN(set.starts, ReadStarts(path));
      continue;
    }
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    int64_t tick_ms = 0;
    ASSIGN_OR_RETURN(TraceZone zone, ParseTrace(text, path, &tick_ms));
    if (set.tick_ms != 0 && set.tick_ms != tick_ms) {
      return Refused(path, absl::StrCat("has a tick of ", tick_ms, " ms, the traces before it ", set.tick_ms, " ms"));
    }
    set.tick_ms = tick_ms;
    set.zones.push_back(std::move(zone));
  }
  if (set.zones.empty()) return Refused(folder, "there is no trace (*.json) in it");
  return set;
}

}  // namespace

absl::StatusOr<TraceZone> ParseTrace(absl::string_view json, absl::string_view origin, int64_t* tick_ms) {
  ASSIGN_OR_RETURN(SpotTrace trace, SpotTrace::Parse(json, origin));
  ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(json, origin));
  *tick_ms = trace.tick_ms;
  TraceZone zone;
  zone.file = std::string(Stem(origin));
  zone.zone = ZoneOf(zone.file);
  if (root["metadata"].contains("zone") && root["metadata"]["zone"].is_string()) zone.zone = root["metadata"]["zone"].get<std::string>();
  zone.region = RegionOf(zone.zone);
  zone.available = std::move(trace.available);
  RETURN_IF_ERROR(TakePrices(root, origin, &zone));
  return zone;
}

absl::StatusOr<TraceSet> ParseCounts(absl::string_view csv, absl::string_view origin, int64_t gang) {
  TraceSet set;
  set.tick_ms = kCountsTickMs;
  size_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(csv, '\n')) {
    ++line_number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty()) continue;
    const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
    if (set.zones.empty()) {
      if (cells.size() < 2) return Refused(origin, "line 1 must name a time and at least one zone");
      for (size_t i = 1; i < cells.size(); ++i) {
        TraceZone zone;
        zone.file = zone.zone = std::string(cells[i]);
        zone.region = RegionOf(zone.zone);
        set.zones.push_back(std::move(zone));
      }
      continue;
    }
    if (cells.size() != set.zones.size() + 1) {
      return Refused(origin, absl::StrCat("line ", line_number, " has ", cells.size(), " cells, the first line ", set.zones.size() + 1));
    }
    for (size_t i = 1; i < cells.size(); ++i) {
      int64_t count = 0;
      if (!absl::SimpleAtoi(cells[i], &count) || count < 0) {
        return Refused(origin, absl::StrCat("line ", line_number, ", ", set.zones[i - 1].zone, ": a count was expected, not '", Printable(cells[i], 40), "'"));
      }
      set.zones[i - 1].available.push_back(count >= gang);
      set.zones[i - 1].counts.push_back(count);
    }
  }
  if (set.zones.empty() || set.zones[0].available.empty()) return Refused(origin, "there is no round in it");
  return set;
}

absl::StatusOr<TraceSet> ReadTraces(const std::string& path, int64_t gang) {
  if (absl::EndsWith(path, ".csv")) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    return ParseCounts(text, path, gang);
  }
  if (gang != 1) return Refused(path, "only counts (a .csv) tell whether a gang would find its machines");
  if (!absl::EndsWith(path, ".json")) return ReadFolder(path);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  TraceSet set;
  ASSIGN_OR_RETURN(TraceZone zone, ParseTrace(text, path, &set.tick_ms));
  set.zones.push_back(std::move(zone));
  return set;
}

absl::StatusOr<TraceSet> SelectZones(const TraceSet& set, const std::vector<std::string>& names) {
  TraceSet chosen = set;
  chosen.zones.clear();
  for (const std::string& name : names) {
    std::vector<const TraceZone*> matches;
    std::vector<std::string> known;
    for (const TraceZone& zone : set.zones) {
      known.push_back(zone.file);
      if (zone.file == name) matches = {&zone};
      if (zone.file == name) break;
      if (zone.zone == name) matches.push_back(&zone);
    }
    if (matches.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--zones: there is no trace of '", Printable(name, 80), "'; did you mean '", NearestName(name, known), "'?"));
    }
    if (matches.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--zones: '", name, "' is ", matches.size(), " traces; write ", matches[0]->file, " or ", matches[1]->file));
    }
    for (const TraceZone& before : chosen.zones) {
      if (before.file == matches[0]->file) return absl::InvalidArgumentError(absl::StrCat("--zones: '", name, "' is named twice"));
    }
    chosen.zones.push_back(*matches[0]);
  }
  return chosen;
}

absl::StatusOr<std::vector<int64_t>> ReadStarts(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text, path));
  if (!root.is_array() || root.empty() || root.size() > kStartsMax) return Refused(path, "a list of first ticks was expected, such as [0, 36, 72]");
  std::vector<int64_t> starts;
  for (size_t i = 0; i < root.size(); ++i) {
    if (!root[i].is_number_integer() || root[i].get<int64_t>() < 0) return Refused(path, absl::StrCat("[", i, "] must be a tick, 0 or more"));
    starts.push_back(root[i].get<int64_t>());
  }
  return starts;
}

absl::Status ReadPrices(const std::string& folder, TraceSet* set) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(folder));
  for (TraceZone& zone : set->zones) {
    if (!zone.spot_micros_per_hour.empty() && zone.on_demand_micros_per_hour > 0) continue;
    const auto file =
        std::find_if(names.begin(), names.end(), [&](const std::string& name) { return absl::EndsWith(name, ".json") && ZoneOf(Stem(name)) == zone.region; });
    if (file == names.end()) return Refused(folder, absl::StrCat("there is no price of region '", zone.region, "'"));
    const std::string path = JoinPath(folder, *file);
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    ASSIGN_OR_RETURN(const nlohmann::json root, ParseJson(text, path));
    if (!root.contains("price") || !root.contains("on_demand_price")) return Refused(path, "price or on_demand_price is missing");
    ASSIGN_OR_RETURN(const int64_t spot, PriceOf(root["price"], path, "price"));
    zone.spot_micros_per_hour = {spot};
    ASSIGN_OR_RETURN(zone.on_demand_micros_per_hour, PriceOf(root["on_demand_price"], path, "on_demand_price"));
  }
  return absl::OkStatus();
}

absl::StatusOr<EgressTable> EgressTable::Read(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  EgressTable table;
  size_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    line = absl::StripSuffix(line, "\r");
    if (line.empty() || line_number == 1) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, ',');
    double price = 0;
    if (cells.size() != 3 || !absl::SimpleAtod(cells[2], &price) || !(price >= 0) || price > kPriceMax) {
      return Refused(path, absl::StrCat("line ", line_number, " must be from_region,to_region,price_usd_per_gb"));
    }
    table.rows_.push_back({cells[0], cells[1], std::llround(price * kMicrosPerUnit)});
  }
  return table;
}

int64_t EgressTable::MicrosPerGb(absl::string_view from, absl::string_view to) const {
  if (from == to) return 0;
  for (const Row& row : rows_) {
    if (row.from == from && row.to == to) return row.micros;
  }
  return kDefaultEgressMicrosPerGb;
}

}  // namespace spillway::sim
