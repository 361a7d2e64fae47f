#include "scheduler/rpc/billing_service.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/money.h"
#include "base/status_macros.h"
#include "scheduler/billing/report.h"
#include "scheduler/rpc/translate_view.h"
#include "scheduler/rpc/unary.h"

namespace spillway::rpc {
namespace {

// What living burst nodes cost since their last charge: an estimate, in no sum.
int64_t RunningEstimate(const core::State& state, int64_t now_ms) {
  int64_t micros = 0;
  for (const auto& [id, node] : state.nodes) {
    if (node.owned && node.metered_ms > 0) micros += PriceForMs(node.price_micros_per_hour, std::max<int64_t>(0, now_ms - node.metered_ms));
  }
  return micros;
}

}  // namespace

grpc::ServerUnaryReactor* BillingService::ListCharges(grpc::CallbackServerContext* context, const v1::ListChargesRequest* request,
                                                      v1::ListChargesResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    store::ChargeFilter filter;
    filter.job = request->job_id();
    filter.node = request->node_id();
    filter.limit = request->page_size() == 0 ? limits::kPageSizeDefault : request->page_size();
    if (filter.limit < 1 || filter.limit > limits::kPageSizeMax)
      return absl::InvalidArgumentError(absl::StrCat("page_size must be 1 to ", limits::kPageSizeMax));
    if (!request->page_token().empty() && (!absl::SimpleAtoi(request->page_token(), &filter.after) || filter.after < 1)) {
      return absl::InvalidArgumentError("page_token is not one of ours");
    }
    ASSIGN_OR_RETURN(const std::vector<core::Charge> charges, backend_.reader->ListCharges(filter));
    for (const core::Charge& charge : charges) *response->add_charges() = ChargeView(charge);
    if (static_cast<int64_t>(charges.size()) == filter.limit) response->set_next_page_token(absl::StrCat(charges.back().id));
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* BillingService::CostReport(grpc::CallbackServerContext* context, const v1::CostReportRequest* request,
                                                     v1::CostReportResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    if (request->from_utc_ms() < 0 || request->to_utc_ms() < 0) return absl::InvalidArgumentError("from_utc_ms and to_utc_ms must not be negative; 0 is open");
    if (request->to_utc_ms() != 0 && request->from_utc_ms() >= request->to_utc_ms()) return absl::InvalidArgumentError("from_utc_ms must be before to_utc_ms");
    ASSIGN_OR_RETURN(const std::vector<store::CostRow> rows, backend_.reader->SumCharges(request->from_utc_ms(), request->to_utc_ms()));
    const billing::Report report = billing::MakeReport(rows);
    for (const billing::JobCost& cost : report.jobs) {
      v1::JobCost* view = response->add_jobs();
      view->set_job_id(cost.job);
      view->set_name(cost.name);
      view->set_reserved_micros(cost.reserved_micros);
      view->set_spot_micros(cost.spot_micros);
      view->set_on_demand_micros(cost.on_demand_micros);
      view->set_run_ms(cost.run_ms);
    }
    response->set_burst_micros(report.burst_micros);
    response->set_reserved_used_micros(report.reserved_used_micros);
    response->set_idle_micros(report.idle_micros);
    response->set_overhead_micros(report.overhead_micros);
    response->set_total_micros(report.total_micros);
    response->set_reserved_idle_micros(report.reserved_idle_micros);
    return backend_.engine->Query(
        [&](const core::State& state, const core::Soft&, int64_t now_ms) { response->set_running_estimate_micros(RunningEstimate(state, now_ms)); });
  });
}

}  // namespace spillway::rpc
