// docs/reference is held to the schema: every key the parser knows has a row there, every row names a key the parser knows, with the default that the
// schema states, and what is not built says so.
#include <cstdlib>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/status_matchers.h"
#include "spec/fields.h"
#include "spec/validate.h"
#include "spec/yaml.h"
#include "spillway/v1/config.pb.h"
#include "spillway/v1/job_spec.pb.h"

namespace spillway::spec {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Row {
  std::string value, otherwise, meaning;
};

std::string PathIn(const std::string& document) {
  const char* source = getenv("SPILLWAY_SOURCE");
  return JoinPath(source == nullptr ? "." : source, JoinPath("docs/reference", document));
}

// Rows of four cells whose first is one `key`.
std::map<std::string, Row> RowsOf(const std::string& document) {
  std::map<std::string, Row> rows;
  const auto text = ReadFile(PathIn(document));
  EXPECT_OK(text) << "run by ctest";
  for (const absl::string_view line : absl::StrSplit(text.value_or(""), '\n')) {
    const std::vector<std::string> cells = absl::StrSplit(absl::StrReplaceAll(line, {{"\\|", "/"}}), '|');
    if (cells.size() != 6 || !absl::StartsWith(cells[1], " `")) continue;
    const std::string key(absl::StripPrefix(absl::StripSuffix(cells[1], "` "), " `"));
    EXPECT_TRUE(rows.insert({key, {cells[2], cells[3], cells[4]}}).second) << key << " has two rows";
  }
  return rows;
}

using Keys = std::map<std::string, const FieldDescriptor*>;

// What stands in a file as one value: a scalar, a list of scalars, a range.
void Collect(const Descriptor& type, const std::string& prefix, bool built, Keys* keys, std::map<std::string, bool>* is_built) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool here = built && NotBuiltOf(field).empty();
    const std::string path = absl::StrCat(prefix, YamlKeyOf(field), field.is_map() ? ".NAME" : "");
    const bool parts = field.type() == FieldDescriptor::TYPE_MESSAGE && !field.is_map() && field.message_type()->full_name() != "spillway.v1.ByteRange";
    if (parts) {
      Collect(*field.message_type(), absl::StrCat(path, field.is_repeated() ? "[]." : "."), here, keys, is_built);
    } else {
      (*keys)[path] = &field;
      (*is_built)[path] = here;
    }
  }
}

void Compare(const Descriptor& type, const std::string& document) {
  Keys keys;
  std::map<std::string, bool> built;
  Collect(type, "", true, &keys, &built);
  const std::map<std::string, Row> rows = RowsOf(document);
  for (const auto& [key, field] : keys) {
    const auto row = rows.find(key);
    if (row == rows.end()) {
      ADD_FAILURE() << document << " has no row for `" << key << "`";
      continue;
    }
    const std::string fallback = DefaultTextOf(*field);
    if (built.at(key)) {
      EXPECT_THAT(row->second.otherwise, HasSubstr(fallback)) << key << " in " << document;
      EXPECT_FALSE(absl::StartsWith(row->second.meaning, " not built yet")) << key << " in " << document;
    } else {
      EXPECT_THAT(row->second.meaning, HasSubstr("not built yet")) << key << " in " << document;
    }
  }
  for (const auto& [key, row] : rows) EXPECT_TRUE(keys.contains(key)) << document << " describes `" << key << "`, which the parser does not know";
}

// The first block of YAML of a document.
std::string ExampleIn(const std::string& document) {
  const std::string text = ReadFile(PathIn(document)).value_or("");
  const size_t begin = text.find("```yaml\n");
  const size_t end = text.find("```", begin + 8);
  return begin == std::string::npos || end == std::string::npos ? "" : text.substr(begin + 8, end - begin - 8);
}

TEST(Reference, TheJobFileIsDescribedKeyByKey) { Compare(*v1::JobSpec::descriptor(), "job-file.md"); }
TEST(Reference, TheConfigurationIsDescribedKeyByKey) { Compare(*v1::ServerConfig::descriptor(), "configuration.md"); }

TEST(Reference, TheExamplesAreAccepted) {
  v1::JobSpec job;
  ASSERT_OK(BindJobFile(ExampleIn("job-file.md"), "job-file.md", &job));
  EXPECT_THAT(ValidateJobSpec(job), IsEmpty());
  v1::ServerConfig config;
  ASSERT_OK(BindYaml(ExampleIn("configuration.md"), "configuration.md", &config));
  EXPECT_THAT(ValidateServerConfig(config), IsEmpty());
}

}  // namespace
}  // namespace spillway::spec
