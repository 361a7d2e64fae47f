#include "client/verb.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "spillway/v1/job_spec.pb.h"

namespace spillway::client {

int Context::Fail(const absl::Status& status) const {
  const std::vector<spec::Violation> violations = ViolationsOf(status);
  const std::string text = violations.empty() ? std::string(status.message()) : spec::RenderViolations(violations, *v1::JobSpec::descriptor(), "", {});
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    *err << Paint("spillway: ", Colour::kRed, colours) << line << '\n';
  }
  return ExitCodeOf(status);
}

int Context::PrintJson(const google::protobuf::Message& message) const {
  *out << ToJson(message);
  return kExitOk;
}

absl::Status Context::Confirm(const std::string& question) const {
  if (yes) return absl::OkStatus();
  if (!in_is_terminal) return absl::InvalidArgumentError(absl::StrCat(question, " Say --yes."));
  *err << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(*in, answer);
  const std::string word = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer));
  if (word == "y" || word == "yes") return absl::OkStatus();
  return absl::InvalidArgumentError("nothing was done");
}

}  // namespace spillway::client
