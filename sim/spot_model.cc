#include "sim/spot_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rng.h"

namespace spillway::sim {
namespace {

constexpr int64_t kLifetimeMsMax = 100LL * 365 * 24 * 3'600'000;  // a century: keeps every sum far from overflow
constexpr int64_t kGapSecondsMax = 366LL * 24 * 3600;
constexpr size_t kTraceTicksMax = 10'000'000;

absl::Status Refused(absl::string_view origin, absl::string_view what) { return absl::InvalidArgumentError(absl::StrCat(origin, ": ", what)); }

}  // namespace

absl::StatusOr<SpotTrace> SpotTrace::Parse(absl::string_view json, absl::string_view origin) {
  const nlohmann::json root = nlohmann::json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return Refused(origin, "is not JSON");
  if (!root.is_object()) return Refused(origin, "a trace is an object with `metadata` and `data`");
  if (!root.contains("metadata") || !root["metadata"].is_object() || !root["metadata"].contains("gap_seconds")) {
    return Refused(origin, "metadata.gap_seconds is missing");
  }
  const nlohmann::json& gap = root["metadata"]["gap_seconds"];
  if (!gap.is_number() || !(gap.get<double>() > 0) || gap.get<double>() > kGapSecondsMax) {
    return Refused(origin, "metadata.gap_seconds must be a number of seconds above 0 and at most a year");
  }
  SpotTrace trace;
  trace.tick_ms = std::max<int64_t>(1, std::llround(gap.get<double>() * 1000));
  if (!root.contains("data") || !root["data"].is_array() || root["data"].empty()) return Refused(origin, "data must be a list of 0 and 1");
  const nlohmann::json& data = root["data"];
  if (data.size() > kTraceTicksMax) return Refused(origin, absl::StrCat("data has ", data.size(), " ticks; at most ", kTraceTicksMax));
  trace.available.reserve(data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    if (!data[i].is_number_integer() || (data[i] != 0 && data[i] != 1)) {
      return Refused(origin, absl::StrCat("data[", i, "] must be 0 (available) or 1 (unavailable), not ", data[i].dump()));
    }
    trace.available.push_back(data[i] == 0);
  }
  if (std::find(trace.available.begin(), trace.available.end(), true) == trace.available.end()) {
    return Refused(origin, "data has no available tick (0): nothing could ever be created");
  }
  return trace;
}

SpotModel SpotModel::Never() { return SpotModel(); }

SpotModel SpotModel::MeanLifetime(int64_t mean_ms, uint64_t seed) {
  SpotModel model;
  model.kind_ = Kind::kMean;
  model.mean_ms_ = std::clamp<int64_t>(mean_ms, 1, kLifetimeMsMax);
  model.seed_ = seed;
  return model;
}

SpotModel SpotModel::Lifetimes(std::vector<int64_t> lifetimes_ms) {
  SpotModel model;
  model.kind_ = Kind::kList;
  model.lifetimes_ms_ = std::move(lifetimes_ms);
  return model;
}

SpotModel SpotModel::FromTrace(SpotTrace trace, int64_t offset_ms) {
  SpotModel model;
  model.kind_ = Kind::kTrace;
  model.trace_ = std::move(trace);
  model.offset_ms_ = std::max<int64_t>(0, offset_ms);
  return model;
}

std::optional<int64_t> SpotModel::GoneAtMs(int64_t ordinal, int64_t created_ms) const {
  switch (kind_) {
    case Kind::kNever: return std::nullopt;
    case Kind::kMean: {
      // Inverse of the exponential distribution. Unit() is in [0, 1), so the logarithm's argument is in (0, 1].
      const double unit = Rng(seed_).Fork(static_cast<uint64_t>(ordinal)).Unit();
      const double lifetime = -std::log(1.0 - unit) * static_cast<double>(mean_ms_);
      return created_ms + static_cast<int64_t>(std::min(lifetime, static_cast<double>(kLifetimeMsMax)));
    }
    case Kind::kList:
      if (ordinal < 0 || ordinal >= static_cast<int64_t>(lifetimes_ms_.size())) return std::nullopt;
      return created_ms + std::clamp<int64_t>(lifetimes_ms_[ordinal], 0, kLifetimeMsMax);
    case Kind::kTrace: return NextTickMs(created_ms, false);
  }
  return std::nullopt;
}

bool SpotModel::AvailableAt(int64_t at_ms) const {
  if (kind_ != Kind::kTrace) return true;
  const int64_t tick = (at_ms + offset_ms_) / trace_.tick_ms;
  return trace_.available[static_cast<size_t>(tick % static_cast<int64_t>(trace_.available.size()))];
}

int64_t SpotModel::NextAvailableMs(int64_t at_ms) const {
  if (kind_ != Kind::kTrace) return at_ms;
  return NextTickMs(at_ms, true).value_or(std::numeric_limits<int64_t>::max());
}

std::optional<int64_t> SpotModel::NextTickMs(int64_t at_ms, bool wanted) const {
  const int64_t ticks = static_cast<int64_t>(trace_.available.size());
  const int64_t first = (at_ms + offset_ms_) / trace_.tick_ms;
  for (int64_t i = 0; i < ticks; ++i) {
    if (trace_.available[static_cast<size_t>((first + i) % ticks)] != wanted) continue;
    return i == 0 ? at_ms : (first + i) * trace_.tick_ms - offset_ms_;
  }
  return std::nullopt;
}

uint64_t SpotSeed(uint64_t seed, absl::string_view offer_name) {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a: the same on every machine
  for (unsigned char c : offer_name) hash = (hash ^ c) * 1099511628211ull;
  return Rng(seed).Fork(hash).Next();
}

}  // namespace spillway::sim
