#include "scheduler/rpc/secret_service.h"

#include "base/status_macros.h"
#include "scheduler/rpc/unary.h"

namespace spillway::rpc {

grpc::ServerUnaryReactor* SecretService::SetSecret(grpc::CallbackServerContext* context, const v1::SetSecretRequest* request, v1::SetSecretResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request, response]() -> absl::Status {
    ASSIGN_OR_RETURN(const bool replaced, backend_.secrets->Set(request->name(), request->value(), backend_.clock->NowUtcMs()));
    response->set_replaced(replaced);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SecretService::ListSecrets(grpc::CallbackServerContext* context, const v1::ListSecretsRequest*, v1::ListSecretsResponse* response) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, response] {
    for (const auto& [name, set_utc_ms] : backend_.secrets->List()) {
      v1::SecretInfo* info = response->add_secrets();
      info->set_name(name);
      info->set_set_utc_ms(set_utc_ms);
    }
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* SecretService::RemoveSecret(grpc::CallbackServerContext* context, const v1::RemoveSecretRequest* request, v1::RemoveSecretResponse*) {
  if (auto* refused = RefuseStranger(context, backend_)) return refused;
  return ReadOnPool(context, backend_, [this, request] { return backend_.secrets->Remove(request->name()); });
}

}  // namespace spillway::rpc
