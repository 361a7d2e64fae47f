// SecretService: what jobs may name. Owns no state; gives no value back.
#pragma once

#include "scheduler/rpc/backend.h"
#include "spillway/v1/secret_service.grpc.pb.h"

namespace spillway::rpc {

class SecretService final : public v1::SecretService::CallbackService {
 public:
  explicit SecretService(Backend backend) : backend_(std::move(backend)) {}

  grpc::ServerUnaryReactor* SetSecret(grpc::CallbackServerContext*, const v1::SetSecretRequest*, v1::SetSecretResponse*) override;
  grpc::ServerUnaryReactor* ListSecrets(grpc::CallbackServerContext*, const v1::ListSecretsRequest*, v1::ListSecretsResponse*) override;
  grpc::ServerUnaryReactor* RemoveSecret(grpc::CallbackServerContext*, const v1::RemoveSecretRequest*, v1::RemoveSecretResponse*) override;

 private:
  const Backend backend_;
};

}  // namespace spillway::rpc
