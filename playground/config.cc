#include "playground/config.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"
#include "base/yaml_reader.h"

namespace spillway::playground {
namespace {

constexpr int64_t kDurationMsMax = 100LL * 365 * 24 * 3'600'000;  // a century: keeps every sum far from overflow
constexpr int64_t kRealPriceMicrosMax = 1'000'000'000'000'000;    // a milliard an hour, after scaling
constexpr int64_t kOffersMax = 1'000;
constexpr int64_t kCapacityMax = 10'000;

struct Context {
  YamlErrors errors;
  std::string folder;
  uint64_t seed;
  int64_t scale;
};

int64_t CloudDurationMs(const YamlMap& map, const char* key, std::optional<int64_t> fallback, Context& context) {
  const int64_t ms = map.DurationMs(key, fallback);
  if (ms > kDurationMsMax) context.errors.Add(map.Get(key), absl::StrCat("`", key, "` is longer than a century"));
  return std::clamp<int64_t>(ms, 0, kDurationMsMax);
}

sim::SpotModel ReadTrace(const YamlMap& map, Context& context) {
  const YAML::Node node = map.Get("trace");
  std::string path = ExpandHome(map.Text("trace"));
  const int64_t offset_ms = CloudDurationMs(map, "trace_offset", 0, context);
  if (!path.empty() && path[0] != '/') path = JoinPath(context.folder, path);
  absl::StatusOr<std::string> content = ReadFile(path);
  if (!content.ok()) {
    context.errors.Add(node, content.status().message());
    return sim::SpotModel::Never();
  }
  absl::StatusOr<sim::SpotTrace> trace = sim::SpotTrace::Parse(*content, path);
  if (!trace.ok()) {
    context.errors.Add(node, trace.status().message());
    return sim::SpotModel::Never();
  }
  return sim::SpotModel::FromTrace(*std::move(trace), offset_ms);
}

sim::SpotModel ReadLifetimes(const YAML::Node& list, Context& context) {
  std::vector<int64_t> lifetimes;
  if (!list.IsSequence() || list.size() == 0) {
    context.errors.Add(list, "`after` must be a list of lifetimes, such as [5m, 12m]");
    return sim::SpotModel::Never();
  }
  for (const YAML::Node& item : list) {
    const absl::StatusOr<int64_t> ms = ParseDurationMs(item.IsScalar() ? item.Scalar() : "");
    if (!ms.ok()) context.errors.Add(item, absl::StrCat("`after`: ", ms.status().message()));
    lifetimes.push_back(std::min(ms.value_or(0), kDurationMsMax));
  }
  return sim::SpotModel::Lifetimes(std::move(lifetimes));
}

sim::SpotModel ReadMarket(const YAML::Node& node, const std::string& offer_name, Context& context) {
  if (node.IsScalar() && node.Scalar() == "none") return sim::SpotModel::Never();
  const YamlMap map(node, "reclaim", {"mean_lifetime", "trace", "trace_offset", "after"}, &context.errors);
  const int forms = map.Has("mean_lifetime") + map.Has("trace") + map.Has("after");
  if (forms != 1) {
    context.errors.Add(node, "`reclaim` takes exactly one of mean_lifetime, trace, after, or is `none`");
    return sim::SpotModel::Never();
  }
  if (map.Has("trace_offset") && !map.Has("trace")) context.errors.Add(node, "`trace_offset` needs `trace`");
  if (map.Has("trace")) return ReadTrace(map, context);
  if (map.Has("after")) return ReadLifetimes(map.Get("after"), context);
  const int64_t mean_ms = CloudDurationMs(map, "mean_lifetime", std::nullopt, context);
  if (mean_ms < 1) context.errors.Add(map.Get("mean_lifetime"), "`mean_lifetime` must be longer than 0");
  return sim::SpotModel::MeanLifetime(mean_ms, sim::SpotSeed(context.seed, offer_name));
}

pricing::BillingRule ReadBilling(const YamlMap& offer, Context& context) {
  const int64_t price = offer.Micros("price_per_hour");
  int64_t increment_ms = 1'000;
  int64_t minimum_ms = 0;
  if (offer.Has("billing")) {
    const YamlMap billing(offer.Get("billing"), "billing", {"increment", "minimum"}, &context.errors);
    increment_ms = CloudDurationMs(billing, "increment", 1'000, context);
    minimum_ms = CloudDurationMs(billing, "minimum", 0, context);
    if (increment_ms < 1) context.errors.Add(billing.Get("increment"), "`increment` must be longer than 0");
  }
  if (price > kRealPriceMicrosMax / context.scale) {
    context.errors.Add(offer.Get("price_per_hour"), absl::StrCat("`price_per_hour` times the scale ", context.scale, " is too large"));
    return {};
  }
  return {ScaledMs(std::max<int64_t>(increment_ms, 1), context.scale), ScaledMs(minimum_ms, context.scale), price * context.scale};
}

Offer ReadOffer(const YAML::Node& node, Context& context) {
  const YamlMap map(node, "an offer",
                    {"name", "market", "instance_type", "zone", "region", "gpus", "cpus", "memory", "disk", "price_per_hour", "billing", "capacity", "boot",
                     "notice", "reclaim", "boot_failures"},
                    &context.errors);
  Offer offer;
  offer.name = map.Text("name");
  if (offer.name.size() > limits::kNameBytesMax) context.errors.Add(map.Get("name"), "`name` is too long");
  const std::string market = map.Text("market");
  if (!market.empty() && market != "spot" && market != "on_demand") {
    context.errors.Add(map.Get("market"), absl::StrCat("`market` must be spot or on_demand, not `", Printable(market), "`"));
  }
  offer.spot = market == "spot";
  offer.zone = map.Text("zone");
  offer.region = map.Text("region", "");
  offer.instance_type = map.Text("instance_type", offer.name);
  if (map.Has("gpus")) {
    const YamlMap gpus(map.Get("gpus"), "gpus", {"model", "count", "memory"}, &context.errors);
    offer.gpus = {gpus.Text("model"), gpus.Integer("count", 1, 1'024), gpus.Bytes("memory")};
    if (offer.gpus.model.find_first_of(":, ") != std::string::npos) {
      context.errors.Add(gpus.Get("model"), absl::StrCat("`model` must not contain `:`, `,` or spaces: `", Printable(offer.gpus.model), "`"));
    }
  }
  offer.cpus = map.Integer("cpus", 1, 100'000);
  offer.memory_bytes = map.Bytes("memory");
  offer.disk_bytes = map.Bytes("disk", 0);
  offer.capacity = map.Integer("capacity", 0, kCapacityMax);
  offer.billing = ReadBilling(map, context);
  offer.boot_ms = ScaledMs(CloudDurationMs(map, "boot", 0, context), context.scale);
  offer.notice_ms = ScaledMs(CloudDurationMs(map, "notice", 0, context), context.scale);
  if (!offer.spot && (map.Has("notice") || map.Has("reclaim"))) {
    context.errors.Add(map.Get(map.Has("notice") ? "notice" : "reclaim"), "an on_demand offer is never reclaimed: leave out notice and reclaim");
  }
  if (map.Has("reclaim")) offer.market = ReadMarket(map.Get("reclaim"), offer.name, context);
  if (map.Has("boot_failures")) {
    const YAML::Node list = map.Get("boot_failures");
    if (!list.IsSequence()) context.errors.Add(list, "`boot_failures` must be a list such as [1, 3]: the 1st and 3rd instance");
    for (const YAML::Node& item : list) {
      const std::optional<int64_t> ordinal = StrictInteger(item.IsScalar() ? item.Scalar() : "");
      if (ordinal.value_or(0) < 1) context.errors.Add(item, "`boot_failures` counts instances from 1");
      offer.boot_failures.push_back(ordinal.value_or(0));
    }
  }
  return offer;
}

}  // namespace

int64_t ScaledMs(int64_t cloud_ms, int64_t scale) {
  if (cloud_ms <= 0) return 0;
  return std::max<int64_t>(1, cloud_ms / scale + (cloud_ms % scale >= (scale + 1) / 2 && scale > 1 ? 1 : 0));
}

const Offer* CloudConfig::Find(absl::string_view name) const {
  for (const Offer& offer : offers) {
    if (offer.name == name) return &offer;
  }
  return nullptr;
}

std::vector<std::string> CloudConfig::OfferNames() const {
  std::vector<std::string> names;
  for (const Offer& offer : offers) names.push_back(offer.name);
  return names;
}

absl::StatusOr<CloudConfig> ParseCloudConfig(const std::string& yaml, absl::string_view origin, const std::string& folder, const ConfigOverrides& overrides) {
  YAML::Node root;
  try {
    root = YAML::Load(yaml);
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ":", e.mark.line + 1, ": ", e.msg));
  }
  Context context{YamlErrors(origin), folder, 1, 1};
  CloudConfig config;
  const YamlMap map(root, "the playground's configuration", {"seed", "scale", "throttle", "offers"}, &context.errors);
  config.seed = overrides.seed.value_or(static_cast<uint64_t>(map.Integer("seed", 0, INT64_MAX, 1)));
  config.scale = overrides.scale.value_or(map.Integer("scale", 1, kScaleMax, 1));
  context.seed = config.seed;
  context.scale = config.scale;
  if (map.Has("throttle")) {
    const YamlMap throttle(map.Get("throttle"), "throttle", {"requests_per_second", "burst"}, &context.errors);
    config.requests_per_second = throttle.Integer("requests_per_second", 1, 1'000'000);
    config.request_burst = throttle.Integer("burst", 1, 1'000'000, config.requests_per_second);
  }
  const YAML::Node offers = map.Get("offers");
  if (!offers.IsDefined() || !offers.IsSequence() || offers.size() == 0 || offers.size() > kOffersMax) {
    context.errors.Add(offers.IsDefined() ? offers : root, absl::StrCat("`offers` must be a list of 1 to ", kOffersMax, " offers"));
    return context.errors.status();
  }
  std::set<std::string> names;
  for (const YAML::Node& node : offers) {
    config.offers.push_back(ReadOffer(node, context));
    if (!names.insert(config.offers.back().name).second) {
      context.errors.Add(node, absl::StrCat("offer `", config.offers.back().name, "` appears twice"));
    }
  }
  RETURN_IF_ERROR(context.errors.status());
  return config;
}

absl::StatusOr<CloudConfig> LoadCloudConfig(const std::string& path, const ConfigOverrides& overrides) {
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path, 4u << 20));
  const std::string absolute = AbsolutePath(path);
  return ParseCloudConfig(content, path, absolute.substr(0, absolute.rfind('/')), overrides);
}

}  // namespace spillway::playground
