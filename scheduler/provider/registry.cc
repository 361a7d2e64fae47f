#include "scheduler/provider/registry.h"

#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/text.h"
#include "scheduler/provider/local/local.h"
#include "scheduler/provider/playground/playground.h"
#include "scheduler/provider/static/static.h"

namespace spillway::provider {
namespace {

constexpr int64_t kMaxNodesDefault = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<Provider>> MakeProvider(const v1::ProviderConfig& config, const Surroundings& surroundings) {
  if (config.kind() == "static") return MakeStatic(config);
  if (config.kind() == "local") return MakeLocal(config, surroundings);
  if (config.kind() == "playground") return MakePlayground(config, surroundings);
  const std::string nearest = NearestName(config.kind(), {"static", "local", "playground"});
  return absl::InvalidArgumentError(absl::StrCat("provider ", config.name(), ": no kind is called ", Printable(config.kind()),
                                                 nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?"), " (static, local, playground)"));
}

core::ProviderInfo InfoOf(const v1::ProviderConfig& config, const Provider& provider) {
  const Capabilities capabilities = provider.capabilities();
  core::ProviderInfo info;
  info.name = config.name();
  info.kind = config.kind();
  info.can_create = capabilities.create;
  info.can_testify = capabilities.testify;
  info.max_nodes = config.max_nodes() == 0 ? kMaxNodesDefault : config.max_nodes();
  info.idle_release_ms = config.idle_release_ms() == 0 ? limits::kIdleReleaseMs : config.idle_release_ms();
  info.boot_timeout_ms = config.boot_timeout_ms() == 0 ? limits::kBootTimeoutMs : config.boot_timeout_ms();
  return info;
}

}  // namespace spillway::provider
