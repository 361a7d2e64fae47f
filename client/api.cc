#include "client/api.h"

#include "absl/strings/cord.h"

namespace spillway::client {
namespace {

constexpr char kViolationsUrl[] = "spillway.v1.FieldViolations";

}  // namespace

void AttachViolations(const v1::FieldViolations& violations, absl::Status* status) {
  status->SetPayload(kViolationsUrl, absl::Cord(violations.SerializeAsString()));
}

std::vector<spec::Violation> ViolationsOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kViolationsUrl);
  v1::FieldViolations violations;
  if (!payload.has_value() || !violations.ParseFromString(std::string(*payload))) return {};
  return spec::FromProto(violations);
}

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk: return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange: return kExitUsage;
    case absl::StatusCode::kNotFound: return kExitNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded: return kExitUnreachable;
    default: return kExitRefused;
  }
}

}  // namespace spillway::client
