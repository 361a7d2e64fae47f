#include "sim/cluster/cluster_spec.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/money.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "base/yaml_reader.h"
#include "sim/deadline/trace_set.h"

namespace spillway::sim {
namespace {

constexpr int64_t kNodesMax = 10'000;
constexpr int64_t kGpusPerNodeMax = 64;
constexpr int64_t kMachinesMax = 100'000;
constexpr int64_t kPriceMicrosMax = 1'000'000 * kMicrosPerUnit;

struct Context {
  YamlErrors errors;
  std::string folder;
};

int64_t Duration(const YamlMap& map, const char* key, int64_t fallback_ms, Context* context) {
  const int64_t ms = map.DurationMs(key, fallback_ms);
  if (ms > kDurationMsMax) context->errors.Add(map.Get(key), absl::StrCat("`", key, "` is longer than ten years"));
  return std::min(ms, kDurationMsMax);
}

int64_t Price(const YamlMap& map, Context* context) {
  const int64_t micros = map.Micros("price_per_gpu_hour");
  if (micros > kPriceMicrosMax) context->errors.Add(map.Get("price_per_gpu_hour"), "`price_per_gpu_hour` is above a million");
  return std::min(micros, kPriceMicrosMax);
}

std::vector<int64_t> Sizes(const YamlMap& map, Context* context) {
  std::set<int64_t> sizes;
  const YAML::Node list = map.Get("gpus");
  if (!list.IsDefined() || !list.IsSequence() || list.size() == 0) {
    context->errors.Add(map.node(), "`gpus` must be a list of the sizes of machines, such as [1, 2, 4, 8]");
    return {1};
  }
  for (const YAML::Node& item : list) {
    const std::optional<int64_t> count = StrictInteger(item.IsScalar() ? item.Scalar() : "");
    if (count.value_or(0) < 1 || *count > kGpusPerNodeMax) context->errors.Add(item, absl::StrCat("`gpus` takes whole numbers from 1 to ", kGpusPerNodeMax));
    if (!sizes.insert(count.value_or(1)).second) context->errors.Add(item, "a size appears twice in `gpus`");
  }
  return {sizes.begin(), sizes.end()};
}

absl::StatusOr<TraceZone> ReadZone(const std::string& path, const std::string& zone, bool counts, int64_t* tick_ms) {
  if (!counts) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    return ParseTrace(text, path, tick_ms);
  }
  ASSIGN_OR_RETURN(const TraceSet all, ReadTraces(path, 1));
  *tick_ms = all.tick_ms;
  std::vector<std::string> names;
  for (const TraceZone& one : all.zones) {
    if (one.zone == zone) return one;
    names.push_back(one.zone);
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": has no zone '", Printable(zone, 60), "'; there are ", absl::StrJoin(names, ", ")));
}

void TakeTrace(const YamlMap& map, Pool* pool, Context* context) {
  const bool counts = map.Has("counts");
  const char* key = counts ? "counts" : "trace";
  std::string path = ExpandHome(map.Text(key));
  if (path.empty()) return;
  if (path[0] != '/') path = JoinPath(context->folder, path);
  absl::StatusOr<TraceZone> zone = ReadZone(path, pool->zone, counts, &pool->tick_ms);
  if (!zone.ok()) {
    context->errors.Add(map.Get(key), zone.status().message());
    return;
  }
  const int64_t machines = counts ? 0 : map.Integer("machines", 1, kMachinesMax);
  for (size_t i = 0; i < zone->available.size(); ++i) pool->machines.push_back(counts ? zone->counts[i] : zone->available[i] ? machines : 0);
  if (!map.Has("price_per_gpu_hour")) {
    pool->price_micros_per_gpu_hour = zone->spot_micros_per_hour;
    if (pool->price_micros_per_gpu_hour.empty()) context->errors.Add(map.node(), absl::StrCat("`price_per_gpu_hour` is missing, and ", path, " has no prices"));
  }
  const int64_t offset_ms = Duration(map, "trace_offset", 0, context);
  if (offset_ms % pool->tick_ms != 0) {
    context->errors.Add(map.Get("trace_offset"), absl::StrCat("`trace_offset` must be whole ticks of ", FormatDurationMs(pool->tick_ms)));
  }
  pool->offset_ticks = offset_ms / pool->tick_ms;
}

Pool ReadSpot(const YAML::Node& node, Context* context) {
  const YamlMap map(node, "a spot pool", {"zone", "trace", "counts", "machines", "gpus", "price_per_gpu_hour", "notice", "trace_offset"}, &context->errors);
  Pool pool;
  pool.market = spillway::Market::kSpot;
  pool.zone = map.Text("zone");
  pool.gpus = Sizes(map, context);
  pool.notice_ms = Duration(map, "notice", 0, context);
  const bool traced = map.Has("trace") || map.Has("counts");
  if (map.Has("trace") && map.Has("counts")) context->errors.Add(node, "a spot pool takes one of `trace` and `counts`");
  if (map.Has("counts") && map.Has("machines")) context->errors.Add(map.Get("machines"), "`machines` belongs to `trace`: `counts` says how many there are");
  if (!traced && map.Has("trace_offset")) context->errors.Add(map.Get("trace_offset"), "`trace_offset` needs `trace` or `counts`");
  if (map.Has("price_per_gpu_hour") || !traced) pool.price_micros_per_gpu_hour = {Price(map, context)};
  if (traced) {
    TakeTrace(map, &pool, context);
  } else if (map.Has("machines")) {
    pool.machines = {map.Integer("machines", 1, kMachinesMax)};
  }
  return pool;
}

void ReadReserved(const YamlMap& root, ClusterSpec* spec, Context* context) {
  if (!root.Has("reserved")) return;
  const YamlMap map(root.Get("reserved"), "reserved", {"nodes", "peak_percent", "gpus", "price_per_gpu_hour"}, &context->errors);
  if (map.Has("nodes") == map.Has("peak_percent")) context->errors.Add(map.node(), "`reserved` takes one of `nodes` and `peak_percent`");
  if (map.Has("nodes")) spec->nodes = map.Integer("nodes", 0, kNodesMax);
  if (map.Has("peak_percent")) spec->peak_percent = map.Integer("peak_percent", 1, 1'000);
  spec->gpus_per_node = map.Integer("gpus", 1, kGpusPerNodeMax);
  if (map.Has("price_per_gpu_hour")) spec->reserved_micros_per_gpu_hour = Price(map, context);
}

}  // namespace

size_t Pool::Tick(int64_t at_ms, size_t ticks) const {
  return tick_ms == 0 ? 0 : static_cast<size_t>((at_ms / tick_ms + offset_ticks) % static_cast<int64_t>(ticks));
}

int64_t Pool::MachinesAt(int64_t at_ms) const { return machines.empty() ? -1 : machines[Tick(at_ms, machines.size())]; }

int64_t Pool::PriceAt(int64_t at_ms) const {
  return price_micros_per_gpu_hour.size() == 1 ? price_micros_per_gpu_hour[0] : price_micros_per_gpu_hour[Tick(at_ms, price_micros_per_gpu_hour.size())];
}

int64_t Pool::NextChangeMs(int64_t after_ms) const {
  if (tick_ms == 0) return INT64_MAX;
  const int64_t ticks = static_cast<int64_t>(std::max(machines.size(), price_micros_per_gpu_hour.size()));
  const int64_t first_ms = (after_ms / tick_ms + 1) * tick_ms;
  for (int64_t i = 0; i < ticks; ++i) {
    const int64_t at_ms = first_ms + i * tick_ms;
    if (MachinesAt(at_ms) != MachinesAt(after_ms) || PriceAt(at_ms) != PriceAt(after_ms)) return at_ms;
  }
  return INT64_MAX;
}

int64_t Pool::CostMicros(int64_t gpus_in_use, int64_t from_ms, int64_t to_ms) const {
  int64_t cost = 0;
  while (from_ms < to_ms) {
    const bool constant = price_micros_per_gpu_hour.size() == 1;
    const int64_t until_ms = constant ? to_ms : std::min(to_ms, (from_ms / tick_ms + 1) * tick_ms);
    cost += PriceForMs(PriceAt(from_ms) * gpus_in_use, until_ms - from_ms);
    from_ms = until_ms;
  }
  return cost;
}

absl::StatusOr<ClusterSpec> ParseClusterSpec(const std::string& yaml, absl::string_view origin, const std::string& folder) {
  YAML::Node root;
  try {
    root = YAML::Load(yaml);
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ":", e.mark.line + 1, ": ", e.msg));
  }
  Context context{YamlErrors(origin), folder};
  ClusterSpec spec;
  const YamlMap map(root, "the cluster file", {"reserved", "spot", "on_demand", "boot", "restore", "checkpoint_every"}, &context.errors);
  ReadReserved(map, &spec, &context);
  if (map.Has("spot")) {
    const YAML::Node list = map.Get("spot");
    if (!list.IsSequence()) context.errors.Add(list, "`spot` must be a list of pools");
    std::set<std::string> zones;
    for (const YAML::Node& node : list) {
      spec.pools.push_back(ReadSpot(node, &context));
      if (!zones.insert(spec.pools.back().zone).second)
        context.errors.Add(node, absl::StrCat("zone `", Printable(spec.pools.back().zone, 60), "` appears twice"));
    }
  }
  if (map.Has("on_demand")) {
    const YamlMap on_demand(map.Get("on_demand"), "on_demand", {"gpus", "price_per_gpu_hour"}, &context.errors);
    Pool pool;
    pool.zone = "on-demand";
    pool.market = spillway::Market::kOnDemand;
    pool.gpus = Sizes(on_demand, &context);
    pool.price_micros_per_gpu_hour = {Price(on_demand, &context)};
    spec.pools.push_back(std::move(pool));
  }
  spec.boot_ms = Duration(map, "boot", 0, &context);
  spec.restore_ms = Duration(map, "restore", 0, &context);
  spec.checkpoint_every_ms = Duration(map, "checkpoint_every", 30 * 60'000, &context);
  if (spec.checkpoint_every_ms < 1) context.errors.Add(map.Get("checkpoint_every"), "`checkpoint_every` must be above 0");
  if (spec.pools.empty() && !map.Has("reserved")) context.errors.Add(root, "there is neither `reserved` nor `spot` nor `on_demand`: nothing could run");
  RETURN_IF_ERROR(context.errors.status());
  return spec;
}

absl::StatusOr<ClusterSpec> LoadClusterSpec(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 4u << 20));
  const std::string absolute = AbsolutePath(path);
  return ParseClusterSpec(text, path, absolute.substr(0, absolute.rfind('/')));
}

}  // namespace spillway::sim
