// What a job spec and a configuration must satisfy beyond their form. The client asks before it sends, the server before it accepts: one answer.
// Owns the meaning of each field; pure. Never looks at nodes, offers or files: whether a job fits anywhere is the scheduler's to say.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "spec/yaml.h"
#include "spillway/v1/common.pb.h"
#include "spillway/v1/config.pb.h"
#include "spillway/v1/job_spec.pb.h"

namespace spillway::spec {

struct Violation {
  std::string field_path;  // "resources.gpu.count"; "" is the whole message
  std::string message;     // without the path
  std::string nearest;     // nearest valid name, or empty; the message names it too
  bool operator==(const Violation&) const = default;
};

// In the order of the schema; empty means valid. At most kViolationsMax.
inline constexpr size_t kViolationsMax = 50;
std::vector<Violation> ValidateJobSpec(const v1::JobSpec& spec);
std::vector<Violation> ValidateServerConfig(const v1::ServerConfig& config);

// Fills what has a default that others must be able to see: the name (from the program) and the priority. Idempotent; call after validation or before.
void NormalizeJobSpec(v1::JobSpec* spec);

// "" when `name` is a good job name, else what is wrong with it.
std::string JobNameProblem(absl::string_view name);

// The same for the name of a secret.
std::string SecretNameProblem(absl::string_view name);

v1::FieldViolations ToProto(const std::vector<Violation>& violations);
std::vector<Violation> FromProto(const v1::FieldViolations& violations);

// One line a violation: "train.yaml:7: resources.memory: ...", with the lines of the bound file where there is one (`source` empty: none).
std::string RenderViolations(const std::vector<Violation>& violations, const google::protobuf::Descriptor& type, absl::string_view source,
                             const FieldLines& lines);

}  // namespace spillway::spec
