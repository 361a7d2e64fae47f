// BillingService: the ledger and its sums. Owns no state.
#pragma once

#include "scheduler/rpc/backend.h"
#include "spillway/v1/billing_service.grpc.pb.h"

namespace spillway::rpc {

class BillingService final : public v1::BillingService::CallbackService {
 public:
  explicit BillingService(Backend backend) : backend_(std::move(backend)) {}

  grpc::ServerUnaryReactor* ListCharges(grpc::CallbackServerContext*, const v1::ListChargesRequest*, v1::ListChargesResponse*) override;
  grpc::ServerUnaryReactor* CostReport(grpc::CallbackServerContext*, const v1::CostReportRequest*, v1::CostReportResponse*) override;

 private:
  const Backend backend_;
};

}  // namespace spillway::rpc
