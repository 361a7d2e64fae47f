#include "scheduler/rpc/call.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace spillway::rpc {
namespace {

// Error texts and violations travel in the metadata, of which a client that set nothing takes 8 KiB (and binary values are sent in base64).
constexpr size_t kMessageBytesMax = 2'048;
constexpr size_t kViolationBytesMax = 3'072;
constexpr size_t kViolationTextBytesMax = 500;

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
  // As many as fit, the first ones.
  std::vector<spec::Violation> fitting;
  std::string bytes;
  for (spec::Violation violation : violations) {
    for (std::string* text : {&violation.field_path, &violation.message, &violation.nearest}) *text = Printable(*text, kViolationTextBytesMax);
    fitting.push_back(std::move(violation));
    const std::string more = spec::ToProto(fitting).SerializeAsString();
    if (more.size() > kViolationBytesMax) {
      fitting.pop_back();
      break;
    }
    bytes = more;
  }
  context->AddTrailingMetadata("spillway-violations-bin", bytes);
  // The text is cut between two of them, so that it can say how many it leaves out.
  std::string text;
  size_t told = 0;
  for (const spec::Violation& violation : fitting) {
    const std::string line = violation.field_path.empty() ? violation.message : absl::StrCat(violation.field_path, ": ", violation.message);
    if (told > 0 && text.size() + line.size() > kMessageBytesMax - 50) break;
    absl::StrAppend(&text, told == 0 ? "" : "; ", line);
    ++told;
  }
  if (told < violations.size()) absl::StrAppend(&text, "; and ", violations.size() - told, " more");
  return ToGrpc(absl::InvalidArgumentError(text));
}

void SuggestRetry(grpc::CallbackServerContext* context, int64_t retry_after_ms) {
  context->AddTrailingMetadata("spillway-retry-after-ms", absl::StrCat(retry_after_ms));
}

}  // namespace spillway::rpc
