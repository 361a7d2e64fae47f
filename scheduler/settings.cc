#include "scheduler/settings.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "scheduler/rpc/server.h"
#include "spec/utf8.h"
#include "spec/validate.h"
#include "spec/yaml.h"

namespace spillway {
namespace {

absl::StatusOr<v1::ServerConfig> ReadConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1 << 20));
  v1::ServerConfig config;
  ASSIGN_OR_RETURN(const spec::FieldLines lines, spec::BindYaml(text, path, &config));
  const std::vector<spec::Violation> violations = spec::ValidateServerConfig(config);
  if (!violations.empty()) return absl::InvalidArgumentError(spec::RenderViolations(violations, *v1::ServerConfig::descriptor(), path, lines));
  return config;
}

std::string Or(const std::string& value, const char* otherwise) { return value.empty() ? otherwise : value; }

core::Reservation ReservationOf(const v1::ReservationConfig& config) {
  core::Reservation reservation;
  reservation.name = config.name();
  reservation.nodes.insert(config.nodes().begin(), config.nodes().end());
  reservation.price_micros_per_hour = config.price_micros_per_hour();
  reservation.from_ms = config.from_utc_ms();
  reservation.to_ms = config.to_utc_ms();
  return reservation;
}

void FillPolicy(const v1::ServerConfig& config, engine::Options* options) {
  core::Policy& policy = options->policy;
  const auto take = [](int64_t value, int64_t* out) {
    if (value > 0) *out = value;
  };
  take(config.lease().lease_ms(), &policy.lease_ms);
  take(config.lease().renew_every_ms(), &policy.renew_every_ms);
  take(config.lease().silence_ms(), &policy.silence_ms);
  take(config.lease().grace_ms(), &policy.lease_grace_ms);
  take(config.policy().retry_backoff_ms(), &policy.retry_backoff_ms);
  take(config.policy().pool_avoid_ms(), &policy.pool_avoid_ms);
  take(config.policy().snapshot_every(), &options->snapshot_every);
  take(config.policy().gang_hold_ms(), &policy.gang_hold_ms);
}

}  // namespace

absl::StatusOr<Settings> LoadSettings(const std::string& home, const std::string& config_path) {
  Settings settings;
  settings.home = home;
  if (!spec::IsUtf8(home)) return absl::InvalidArgumentError(absl::StrCat("--home: `", Printable(home), "` is not UTF-8 text"));
  v1::ServerConfig config;
  const std::string path = config_path.empty() ? JoinPath(home, "config.yaml") : config_path;
  if (!config_path.empty() || PathExists(path)) {
    ASSIGN_OR_RETURN(config, ReadConfig(path));
  }
  if (config.providers().empty()) {
    v1::ProviderConfig* provider = config.add_providers();
    provider->set_name("static");
    provider->set_kind("static");
  }
  absl::string_view store = config.store();
  if (!store.empty() && !absl::ConsumePrefix(&store, "file:")) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": store: only file:/path is built so far, not ", Printable(config.store())));
  }
  settings.store_path = store.empty() ? JoinPath(home, "store") : AbsolutePath(ExpandHome(store));
  settings.user_address = Or(config.listen().user(), "127.0.0.1:7070");
  settings.worker_address = Or(config.listen().worker(), "127.0.0.1:7071");
  settings.http_address = Or(config.listen().http(), "127.0.0.1:7080");
  for (const std::string& address : {settings.user_address, settings.worker_address, settings.http_address}) RETURN_IF_ERROR(rpc::CheckLoopback(address));
  FillPolicy(config, &settings.engine);
  settings.providers.assign(config.providers().begin(), config.providers().end());
  for (const v1::ReservationConfig& reservation : config.reservations()) settings.configure.reservations.push_back(ReservationOf(reservation));
  return settings;
}

}  // namespace spillway
