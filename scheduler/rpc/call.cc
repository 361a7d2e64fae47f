#include "scheduler/rpc/call.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/text.h"

namespace spillway::rpc {
namespace {

constexpr size_t kMessageBytesMax = 4'096;  // of an error text: it travels in the metadata, whose size is bounded

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // The two enumerations have equal numbers.
  std::string message(status.message());
  if (message.size() > kMessageBytesMax) message = message.substr(0, kMessageBytesMax) + "...";
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::move(message));
}

absl::Status Authenticate(const grpc::CallbackServerContext& context, const auth::TokenGuard& guard) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("authorization");
  if (it == metadata.end()) return guard.Check("");
  return guard.Check(absl::string_view(it->second.data(), it->second.size()));
}

grpc::Status RefuseWithViolations(grpc::CallbackServerContext* context, const std::vector<spec::Violation>& violations) {
  std::string bytes;
  // The trailing metadata is bounded: as many violations as fit, the first ones.
  std::vector<spec::Violation> fitting = violations;
  do {
    bytes = spec::ToProto(fitting).SerializeAsString();
    if (bytes.size() <= limits::kGrpcMetadataBytesMax / 2) break;
    fitting.pop_back();
  } while (!fitting.empty());
  context->AddTrailingMetadata("spillway-violations-bin", bytes);
  std::vector<std::string> lines;
  for (const spec::Violation& violation : fitting) {
    lines.push_back(violation.field_path.empty() ? violation.message : absl::StrCat(violation.field_path, ": ", violation.message));
  }
  return ToGrpc(absl::InvalidArgumentError(absl::StrJoin(lines, "; ")));
}

void SuggestRetry(grpc::CallbackServerContext* context, int64_t retry_after_ms) {
  context->AddTrailingMetadata("spillway-retry-after-ms", absl::StrCat(retry_after_ms));
}

}  // namespace spillway::rpc
