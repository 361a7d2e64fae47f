// The one binder between YAML and protobuf: job files and configurations are YAML views of proto messages.
//
// Every error names file:line and the path, and, where a name is near, the valid one:
//   train.yaml:7: resources.gpu.cont: unknown key, did you mean `count`?
// Refused: unknown and doubled keys, values of another type or without their unit, words that are not of the enum, keys the schema knows but
// this version does not build, and all that spec/yaml_tree.h refuses. All errors of a text are reported (the first 20), and nothing is half-applied.
// Never checks meaning (ranges, exclusions): spec/validate.h does, on both sides of the wire.
#pragma once

#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "spillway/v1/config.pb.h"
#include "spillway/v1/job_spec.pb.h"

namespace spillway::spec {

inline constexpr size_t kYamlErrorsMax = 20;

// Where each field of a bound message was written: maps field paths ("resources.gpu.count", "command[2]", "env.HOME") to lines.
class FieldLines {
 public:
  void Set(const std::string& field_path, int line) { lines_[field_path] = line; }
  // The line of the field, or of the nearest enclosing one that was written; 0 when nothing was.
  int Find(absl::string_view field_path) const;

 private:
  std::map<std::string, int> lines_;
};

// Binds `text` into `message`, which is untouched unless OK. `source` is how messages name the text, usually the file's name as the user gave it.
// INVALID_ARGUMENT: one error a line.
absl::StatusOr<FieldLines> BindYaml(absl::string_view text, absl::string_view source, google::protobuf::Message* message);

// `--set resources.gpu.count=2`: one YAML path and value over what is bound already. Lists are replaced, maps merged. `source` names the flag in errors.
absl::Status BindSetting(absl::string_view assignment, google::protobuf::Message* message, absl::string_view source = "--set");

// The message as YAML that binds to the same message again. Unset fields are left out.
std::string MessageToYaml(const google::protobuf::Message& message);
inline std::string JobSpecToYaml(const v1::JobSpec& spec) { return MessageToYaml(spec); }

// A job file: BindYaml, and the mistakes only the file's form shows (a whole command line written as one word).
absl::StatusOr<FieldLines> BindJobFile(absl::string_view text, absl::string_view source, v1::JobSpec* spec);

}  // namespace spillway::spec
