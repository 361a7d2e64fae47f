#include "scheduler/core/fit/fit.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/money.h"
#include "base/units.h"

namespace spillway::core {
namespace {

struct Candidate {
  const Capacity& capacity;
  Market market;
  const std::string& provider;
  const std::string& zone;
  const std::string& region;
  const std::string* node_name;  // null: not made yet
  int64_t price_micros_per_hour;
};

Candidate Of(const Node& node) { return {node.capacity, node.market, node.provider, node.zone, node.region, &node.name, node.price_micros_per_hour}; }
Candidate Of(const Offer& offer) { return {offer.capacity, offer.market, offer.provider, offer.zone, offer.region, nullptr, offer.price_micros_per_hour}; }

bool ModelMatches(const Shape& shape, const std::string& model) {
  return shape.gpu_models.empty() ||
         std::any_of(shape.gpu_models.begin(), shape.gpu_models.end(), [&](const std::string& wanted) { return absl::EqualsIgnoreCase(wanted, model); });
}

bool Allowed(const std::set<std::string>& allowed, const std::string& value) { return allowed.empty() || allowed.contains(value); }

uint32_t MisfitsOf(const Shape& shape, const Candidate& candidate) {
  const Capacity& has = candidate.capacity;
  uint32_t misfits = 0;
  const auto add = [&misfits](bool fails, Misfit bit) {
    if (fails) misfits |= bit;
  };
  if (shape.gpu_count > 0) {
    add(has.gpu_count < shape.gpu_count, kMisfitGpuCount);
    add(has.gpu_count > 0 && !ModelMatches(shape, has.gpu_model), kMisfitGpuModel);
    add(has.gpu_count > 0 && has.gpu_memory_bytes < shape.gpu_memory_bytes_min, kMisfitGpuMemory);
    add(has.gpu_count > 0 && shape.gpu_memory_bytes_max > 0 && has.gpu_memory_bytes > shape.gpu_memory_bytes_max, kMisfitGpuMemory);
  }
  add(has.cpu_milli < shape.cpu_milli, kMisfitCpu);
  add(has.memory_bytes < shape.memory_bytes, kMisfitMemory);
  add(has.disk_bytes < shape.disk_bytes, kMisfitDisk);
  add(!shape.markets.empty() && !shape.markets.contains(candidate.market), kMisfitMarket);
  add(!shape.interruptible && candidate.market == Market::kSpot, kMisfitInterruptible);
  add(!Allowed(shape.regions, candidate.region), kMisfitRegion);
  add(!Allowed(shape.zones, candidate.zone), kMisfitZone);
  add(!Allowed(shape.providers, candidate.provider), kMisfitProvider);
  add(!shape.node_names.empty() && (candidate.node_name == nullptr || !shape.node_names.contains(*candidate.node_name)), kMisfitNodeName);
  add(shape.max_price_micros_per_hour > 0 && candidate.market != Market::kReserved && candidate.price_micros_per_hour > shape.max_price_micros_per_hour,
      kMisfitPrice);
  return misfits;
}

// "2", "0.5".
std::string Cpus(int64_t milli) {
  std::string text = absl::StrCat(milli / 1000);
  if (milli % 1000 != 0) {
    absl::StrAppend(&text, ".", absl::StrCat(1000 + milli % 1000).substr(1));
    text.erase(text.find_last_not_of('0') + 1);
  }
  return text;
}
std::string CpuCount(int64_t milli) { return absl::StrCat(Cpus(milli), milli == 1000 ? " cpu" : " cpus"); }
std::string GpuCount(int64_t count) { return absl::StrCat(count == 0 ? "no" : absl::StrCat(count), count == 1 ? " GPU" : " GPUs"); }

template <typename Texts>
std::string Any(const Texts& allowed) {
  return absl::StrJoin(allowed, " or ");
}

std::string Or(const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; }

std::string Describe(uint32_t misfits, const Shape& shape, const Candidate& candidate) {
  const Capacity& has = candidate.capacity;
  std::vector<std::string> parts;
  const auto add = [&](Misfit bit, std::string text) {
    if (misfits & bit) parts.push_back(std::move(text));
  };
  add(kMisfitGpuCount, absl::StrCat("has ", GpuCount(has.gpu_count), ", ", shape.gpu_count, " needed"));
  add(kMisfitGpuModel, absl::StrCat("its GPUs are ", Or(has.gpu_model, "of no known model"), ", not ", absl::StrJoin(shape.gpu_models, " or ")));
  add(kMisfitGpuMemory,
      absl::StrCat("its GPUs have ", FormatBytes(has.gpu_memory_bytes), " each, ",
                   has.gpu_memory_bytes < shape.gpu_memory_bytes_min ? absl::StrCat(FormatBytes(shape.gpu_memory_bytes_min), " needed")
                                                                     : absl::StrCat("at most ", FormatBytes(shape.gpu_memory_bytes_max), " wanted")));
  add(kMisfitCpu, absl::StrCat("has ", CpuCount(has.cpu_milli), ", ", Cpus(shape.cpu_milli), " needed"));
  add(kMisfitMemory, absl::StrCat("has ", FormatBytes(has.memory_bytes), " memory, ", FormatBytes(shape.memory_bytes), " needed"));
  add(kMisfitDisk, absl::StrCat("has ", FormatBytes(has.disk_bytes), " disk, ", FormatBytes(shape.disk_bytes), " needed"));
  add(kMisfitMarket, absl::StrCat("is ", LowerName(candidate.market), ", and placement.markets allows only ", DescribeMarkets(shape.markets)));
  add(kMisfitInterruptible, "is on spot, and the job must not be interrupted");
  add(kMisfitRegion, absl::StrCat("is in ", Or(candidate.region, "no region"), ", and placement.regions allows only ", Any(shape.regions)));
  add(kMisfitZone, absl::StrCat("is in ", Or(candidate.zone, "no zone"), ", and placement.zones allows only ", Any(shape.zones)));
  add(kMisfitProvider, absl::StrCat("comes from ", candidate.provider, ", and placement.providers allows only ", Any(shape.providers)));
  add(kMisfitNodeName, absl::StrCat("is none of those that placement.nodes allows: ", Any(shape.node_names)));
  add(kMisfitPrice,
      absl::StrCat("costs ", FormatMicros(candidate.price_micros_per_hour), " per hour, at most ", FormatMicros(shape.max_price_micros_per_hour), " allowed"));
  return absl::StrJoin(parts, "; ");
}

}  // namespace

int Distance(uint32_t misfits, const Shape& shape, const Capacity& capacity) {
  const int without_gpus = shape.gpu_count > 0 && capacity.gpu_count == 0 ? 2 : 0;  // of its model and memory nothing can be said
  return std::popcount(misfits) + 16 * (std::popcount(misfits & kMisfitsOfHardware) + without_gpus);
}

uint32_t Misfits(const Shape& shape, const Node& node) { return MisfitsOf(shape, Of(node)); }
uint32_t Misfits(const Shape& shape, const State::Indexes::NodeKind& kind) {
  const Candidate candidate{kind.capacity, kind.market, kind.provider, kind.zone, kind.region, nullptr, kind.price_micros_per_hour};
  return MisfitsOf(shape, candidate) & ~uint32_t{kMisfitNodeName};
}
uint32_t Misfits(const Shape& shape, const Offer& offer) { return MisfitsOf(shape, Of(offer)); }
std::string DescribeMisfits(uint32_t misfits, const Shape& shape, const Node& node) { return Describe(misfits, shape, Of(node)); }
std::string DescribeMisfits(uint32_t misfits, const Shape& shape, const Offer& offer) { return Describe(misfits, shape, Of(offer)); }

std::string DescribeMarkets(const std::set<Market>& allowed) {
  return absl::StrJoin(allowed, " or ", [](std::string* out, Market market) { absl::StrAppend(out, LowerName(market)); });
}

std::string DescribeNeed(const Shape& shape) {
  std::vector<std::string> parts;
  if (shape.gpu_count > 0) {
    std::string gpu = absl::StrCat(shape.gpu_count, " x ", shape.gpu_models.empty() ? "any GPU" : absl::StrJoin(shape.gpu_models, "|"));
    if (shape.gpu_memory_bytes_min > 0) absl::StrAppend(&gpu, " with at least ", FormatBytes(shape.gpu_memory_bytes_min));
    if (shape.gpu_memory_bytes_max > 0)
      absl::StrAppend(&gpu, shape.gpu_memory_bytes_min > 0 ? " and" : " with", " at most ", FormatBytes(shape.gpu_memory_bytes_max));
    parts.push_back(std::move(gpu));
  }
  parts.push_back(CpuCount(shape.cpu_milli));
  if (shape.memory_bytes > 0) parts.push_back(absl::StrCat(FormatBytes(shape.memory_bytes), " memory"));
  if (shape.disk_bytes > 0) parts.push_back(absl::StrCat(FormatBytes(shape.disk_bytes), " disk"));
  return absl::StrJoin(parts, ", ");
}

const char* MisfitWord(uint32_t bit) {
  switch (bit) {
    case kMisfitGpuModel: return "GPU model";
    case kMisfitGpuCount: return "GPU count";
    case kMisfitGpuMemory: return "GPU memory";
    case kMisfitCpu: return "cpus";
    case kMisfitMemory: return "memory";
    case kMisfitDisk: return "disk";
    case kMisfitMarket: return "market";
    case kMisfitInterruptible: return "spot refused";
    case kMisfitRegion: return "region";
    case kMisfitZone: return "zone";
    case kMisfitProvider: return "provider";
    case kMisfitNodeName: return "node name";
    case kMisfitPrice: return "price";
  }
  return "?";
}

}  // namespace spillway::core
