// What there is to run on: nodes, offers, reservations.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/attempt_words.h"
#include "base/units.h"
#include "client/commands/commands.h"
#include "client/node_lookup.h"

namespace spillway::client {
namespace {

class Nodes final : public Verb {
 public:
  std::string Name() const override { return "nodes"; }
  std::string Summary() const override { return "list nodes: what they have, cost and run"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway nodes", "nodes that are there or on their way"},
            {"spillway nodes --all", "gone ones too, with why they went"},
            {"spillway describe node gpu-3", "all about one"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Flag("-a,--all", &all_, "nodes that are gone too");
    builder.Output();
  }
  int Run(Context& context) override {
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const v1::ListNodesResponse response, ListAllNodes(*api, all_));
    if (context.json) return context.PrintJson(response);
    const int64_t now_ms = context.clock->NowUtcMs();
    Table table({">ID", "NAME", "STATE", "MARKET", "PROVIDER", "ZONE", "TOTAL", "FREE", ">PRICE/H", ">CHARGED", "RUNS", "SESSION", "REASON"});
    for (const v1::Node& node : response.nodes()) {
      const std::string state(spillway::Name(static_cast<NodeState>(node.state())));
      const bool gone = node.state() == v1::RELEASED || node.state() == v1::LOST;
      const std::string runs =
          absl::StrJoin(node.attempts(), " ", [](std::string* out, const v1::AttemptKey& key) { absl::StrAppend(out, HumanAttempt(key)); });
      std::string session = node.connected()              ? "connected"
                            : node.last_seen_utc_ms() > 0 ? absl::StrCat("silent ", HumanAge(now_ms, node.last_seen_utc_ms()))
                                                          : "";
      if (gone) session = node.gone_utc_ms() > 0 ? absl::StrCat("gone ", HumanAge(now_ms, node.gone_utc_ms()), " ago") : "gone";
      table.Add({absl::StrCat(node.node_id()),
                 node.name(),
                 {node.cordoned() ? absl::StrCat(state, " cordoned") : state, ColourOfState(state)},
                 LowerName(static_cast<Market>(node.market())),
                 node.provider(),
                 node.zone(),
                 HumanResources(node.total()),
                 gone ? "" : HumanResources(node.free()),
                 node.price_micros_per_hour() > 0 ? HumanMoney(node.price_micros_per_hour()) : "",
                 node.charged_micros() > 0 ? HumanMoney(node.charged_micros()) : "",
                 runs,
                 session,
                 node.reason()});
    }
    *context.out << (table.empty() ? "no nodes\n" : table.Render(context.colours));
    return kExitOk;
  }

 private:
  bool all_ = false;
};

class Offers final : public Verb {
 public:
  std::string Name() const override { return "offers"; }
  std::string Summary() const override { return "what providers could supply, and at what price"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override {
    return {{"spillway offers", "every provider"}, {"spillway offers --provider cloud -o json", "one, for scripts"}};
  }
  void Define(VerbBuilder& builder) override {
    builder.Option("--provider", &provider_, "NAME", "only this provider");
    builder.Output();
  }
  int Run(Context& context) override {
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    v1::ListOffersRequest request;
    request.set_provider(provider_);
    ASSIGN_OR_FAIL(context, const v1::ListOffersResponse response, api->ListOffers(request));
    if (context.json) return context.PrintJson(response);
    const int64_t now_ms = context.clock->NowUtcMs();
    Table table({"PROVIDER", "OFFER", "MARKET", "TYPE", "ZONE", "RESOURCES", ">PRICE/H", "BILLED", "NOTICE", ">CAPACITY", ">PREEMPTED", "USABLE"});
    for (const v1::Offer& offer : response.offers()) {
      std::string billed = offer.billing_increment_ms() > 0 ? absl::StrCat("per ", HumanDuration(offer.billing_increment_ms())) : "";
      if (offer.billing_minimum_ms() > 0) absl::StrAppend(&billed, billed.empty() ? "" : ", ", "at least ", HumanDuration(offer.billing_minimum_ms()));
      const bool waits = offer.backoff_until_utc_ms() > now_ms;
      table.Add({offer.provider(), offer.name(), LowerName(static_cast<Market>(offer.market())), offer.instance_type(), offer.zone(),
                 HumanResources(offer.resources()), HumanMoney(offer.price_micros_per_hour()), billed,
                 offer.market() == v1::SPOT ? HumanDuration(offer.notice_ms()) : "", offer.capacity() < 0 ? "?" : absl::StrCat(offer.capacity()),
                 offer.preemptions() > 0 ? absl::StrCat(offer.preemptions()) : "",
                 waits ? Table::Cell(absl::StrCat("in ", HumanDuration(offer.backoff_until_utc_ms() - now_ms), ": ", offer.backoff_reason()), Colour::kYellow)
                       : Table::Cell("now", Colour::kGreen)});
    }
    *context.out << (table.empty() ? absl::StrCat("no offers: ",
                                                  provider_.empty() ? "no provider of the configuration supplies nodes"
                                                                    : absl::StrCat(provider_, " makes no nodes, or lists none now"),
                                                  "\n")
                                   : table.Render(context.colours));
    return kExitOk;
  }

 private:
  std::string provider_;
};

class Reservations final : public Verb {
 public:
  std::string Name() const override { return "reservations"; }
  std::string Summary() const override { return "capacity already paid for, from when to when"; }
  std::vector<std::pair<std::string, std::string>> Examples() const override { return {{"spillway reservations", "as the configuration declares them"}}; }
  void Define(VerbBuilder& builder) override { builder.Output(); }
  int Run(Context& context) override {
    ASSIGN_OR_FAIL(context, Api* const api, context.connect());
    ASSIGN_OR_FAIL(context, const v1::ListReservationsResponse response, api->ListReservations({}));
    if (context.json) return context.PrintJson(response);
    Table table({"NAME", "NODES", "FROM", "TO", ">PRICE/H OF A NODE"});
    for (const v1::Reservation& reservation : response.reservations()) {
      table.Add({reservation.name(), absl::StrJoin(reservation.nodes(), " "), reservation.from_utc_ms() > 0 ? HumanTime(reservation.from_utc_ms()) : "open",
                 reservation.to_utc_ms() > 0 ? HumanTime(reservation.to_utc_ms()) : "open", HumanMoney(reservation.price_micros_per_hour())});
    }
    *context.out << (table.empty() ? "no reservations\n" : table.Render(context.colours));
    return kExitOk;
  }
};

}  // namespace

std::unique_ptr<Verb> MakeNodes() { return std::make_unique<Nodes>(); }
std::unique_ptr<Verb> MakeOffers() { return std::make_unique<Offers>(); }
std::unique_ptr<Verb> MakeReservations() { return std::make_unique<Reservations>(); }

}  // namespace spillway::client
