// The configuration of spillwayd: addresses that can be bound, names that are unique, a lease whose parts are in order.
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/text.h"
#include "base/units.h"
#include "spec/checks.h"
#include "spec/validate.h"

namespace spillway::spec {
namespace {

void CheckAddress(absl::string_view path, absl::string_view address, Checks* checks) {
  if (address.empty()) return;
  const size_t colon = address.rfind(':');
  int port = -1;
  const bool good = colon != absl::string_view::npos && colon > 0 && absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 && port <= 65535;
  if (!good) checks->Add(path, absl::StrCat("`", Printable(address, 60), "` is not HOST:PORT, such as 127.0.0.1:7070"));
}

void CheckStore(absl::string_view store, Checks* checks) {
  if (store.empty()) return;
  if (!absl::StartsWith(store, "file:/"))
    checks->Add("store", absl::StrCat("`", Printable(store, 60), "` is not file:/ABSOLUTE/PATH, the only kind of store built yet"));
}

void CheckAmounts(const std::string& path, const v1::Resources& resources, Checks* checks) {
  checks->AtLeast(path + ".cpu_milli", resources.cpu_milli(), 0);
  checks->AtLeast(path + ".memory_bytes", resources.memory_bytes(), 0);
  checks->AtLeast(path + ".disk_bytes", resources.disk_bytes(), 0);
  for (int i = 0; i < resources.accelerators_size(); ++i) {
    const std::string at = absl::StrCat(path, ".accelerators[", i, "]");
    if (resources.accelerators(i).model().empty()) checks->Add(at + ".model", "is missing");
    checks->AtLeast(at + ".count", resources.accelerators(i).count(), 1);
    checks->AtLeast(at + ".memory_bytes", resources.accelerators(i).memory_bytes(), 0);
  }
}

void CheckProvider(const std::string& path, const v1::ProviderConfig& provider, Checks* checks) {
  if (const std::string problem = JobNameProblem(provider.name()); provider.name().empty()) {
    checks->Add(path + ".name", "is missing");
  } else if (!problem.empty()) {
    checks->Add(path + ".name", problem);
  }
  if (provider.kind().empty()) {
    checks->Add(path + ".kind", "is missing: static, local or playground");
  } else {
    checks->OneOf(path + ".kind", provider.kind(), {"static", "local", "playground"});
  }
  const bool playground = provider.kind() == "playground";
  if (playground && provider.url().empty()) checks->Add(path + ".url", "is missing: a playground is reached by http://HOST:PORT");
  if (!provider.url().empty() && !absl::StartsWith(provider.url(), "http://"))
    checks->Add(path + ".url", absl::StrCat("`", Printable(provider.url(), 60), "` is not http://HOST:PORT"));
  if (!playground && !provider.url().empty()) checks->Add(path + ".url", absl::StrCat("means nothing to a provider of kind ", Printable(provider.kind(), 30)));
  if (!playground && !provider.token_file().empty())
    checks->Add(path + ".token_file", absl::StrCat("means nothing to a provider of kind ", Printable(provider.kind(), 30)));
  if (provider.kind() != "local" && provider.nodes() != 0) checks->Add(path + ".nodes", "only a provider of kind local keeps a number of nodes");
  checks->Within(path + ".max_nodes", provider.max_nodes(), 0, 10'000);
  checks->Within(path + ".nodes", provider.nodes(), 0, 64);
  checks->Duration(path + ".idle_release_ms", provider.idle_release_ms());
  checks->Duration(path + ".boot_timeout_ms", provider.boot_timeout_ms());
  CheckAmounts(path + ".resources", provider.resources(), checks);
}

void CheckProviders(const v1::ServerConfig& config, Checks* checks) {
  std::set<std::string> names;
  for (int i = 0; i < config.providers_size(); ++i) {
    const std::string path = absl::StrCat("providers[", i, "]");
    CheckProvider(path, config.providers(i), checks);
    if (!names.insert(config.providers(i).name()).second)
      checks->Add(path + ".name", absl::StrCat("`", Printable(config.providers(i).name(), 60), "` stands twice"));
  }
}

// A node may be in several reservations, one after the other: its price must be one at any time.
void CheckReservations(const v1::ServerConfig& config, Checks* checks) {
  constexpr int64_t kForever = INT64_MAX;
  struct Span {
    int64_t from, to;
    std::string name;
  };
  std::map<std::string, std::vector<Span>> taken;
  std::set<std::string> names;
  for (int i = 0; i < config.reservations_size(); ++i) {
    const v1::ReservationConfig& reservation = config.reservations(i);
    const std::string path = absl::StrCat("reservations[", i, "]");
    if (reservation.name().empty()) checks->Add(path + ".name", "is missing");
    if (!reservation.name().empty() && !names.insert(reservation.name()).second)
      checks->Add(path + ".name", absl::StrCat("`", Printable(reservation.name(), 60), "` stands twice"));
    if (reservation.nodes_size() == 0) checks->Add(path + ".nodes", "is empty: a reservation names the static nodes it pays for");
    checks->Texts(path + ".nodes", reservation.nodes());
    checks->AtLeast(path + ".price_micros_per_hour", reservation.price_micros_per_hour(), 0);
    const int64_t from = reservation.from_utc_ms(), to = reservation.to_utc_ms() == 0 ? kForever : reservation.to_utc_ms();
    if (to <= from) checks->Add(path + ".to_utc_ms", "is not after `from`");
    for (int n = 0; n < reservation.nodes_size(); ++n) {
      std::vector<Span>& spans = taken[reservation.nodes(n)];
      for (const Span& span : spans) {
        if (from < span.to && span.from < to) {
          checks->Add(absl::StrCat(path, ".nodes[", n, "]"),
                      absl::StrCat("`", Printable(reservation.nodes(n), 60), "` is in the reservation `", Printable(span.name, 60), "` at the same time"));
        }
      }
      spans.push_back({from, to, reservation.name()});
    }
  }
}

void CheckLease(const v1::LeaseConfig& lease, Checks* checks) {
  checks->Duration("lease.lease_ms", lease.lease_ms());
  checks->Duration("lease.renew_every_ms", lease.renew_every_ms());
  checks->Duration("lease.silence_ms", lease.silence_ms());
  checks->Duration("lease.grace_ms", lease.grace_ms());
  const int64_t duration = lease.lease_ms() > 0 ? lease.lease_ms() : limits::kLeaseMs;
  const int64_t renew = lease.renew_every_ms() > 0 ? lease.renew_every_ms() : limits::kRenewEveryMs;
  const int64_t silence = lease.silence_ms() > 0 ? lease.silence_ms() : limits::kSilenceMs;
  if (renew * 2 > silence) {
    checks->Add("lease.silence_ms", absl::StrCat("is ", FormatDurationMs(silence), ", less than two renewals (one every ", FormatDurationMs(renew),
                                                 "): a single late one would look like silence"));
  }
  if (silence > duration)
    checks->Add("lease.lease_ms",
                absl::StrCat("is ", FormatDurationMs(duration), ", shorter than the silence of ", FormatDurationMs(silence), " that starts fencing"));
}

}  // namespace

std::vector<Violation> ValidateServerConfig(const v1::ServerConfig& config) {
  Checks checks;
  CheckAddress("listen.user", config.listen().user(), &checks);
  CheckAddress("listen.worker", config.listen().worker(), &checks);
  CheckAddress("listen.http", config.listen().http(), &checks);
  CheckStore(config.store(), &checks);
  CheckProviders(config, &checks);
  CheckReservations(config, &checks);
  CheckLease(config.lease(), &checks);
  checks.Duration("policy.retry_backoff_ms", config.policy().retry_backoff_ms());
  checks.Duration("policy.pool_avoid_ms", config.policy().pool_avoid_ms());
  checks.AtLeast("policy.snapshot_every", config.policy().snapshot_every(), 0);
  checks.NotBuilt(config);
  return checks.Take();
}

}  // namespace spillway::spec
