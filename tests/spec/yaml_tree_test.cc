// What the reader of YAML refuses before any schema is asked, and that hostile text ends in an error rather than a crash.
#include "spec/yaml_tree.h"

#include "base/limits.h"
#include "base/rng.h"
#include "base/status_matchers.h"

namespace spillway::spec {
namespace {

using ::testing::HasSubstr;

std::string TreeErrorOf(absl::string_view text) {
  const auto tree = ParseYamlTree(text, "job.yaml");
  EXPECT_FALSE(tree.ok()) << text;
  return tree.ok() ? "" : std::string(tree.status().message());
}

TEST(YamlTree, KeepsLinesQuotesAndOrder) {
  ASSERT_OK_AND_ASSIGN(const YamlNode root, ParseYamlTree("b: 1\na:\n  - \"x\"\n  - y\n\nc: ~\n", "job.yaml"));
  ASSERT_EQ(root.kind, YamlNode::Kind::kMap);
  ASSERT_EQ(root.entries.size(), 3u);
  EXPECT_EQ(root.entries[0].key, "b");
  EXPECT_EQ(root.entries[1].line, 2);
  const YamlNode& list = root.entries[1].value;
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_TRUE(list.items[0].quoted);
  EXPECT_FALSE(list.items[1].quoted);
  EXPECT_EQ(list.items[1].line, 4);
  EXPECT_EQ(root.entries[2].value.kind, YamlNode::Kind::kNull);
  EXPECT_EQ(root.entries[2].line, 6);
}

TEST(YamlTree, KeepsBothOfTwoEqualKeys) {
  ASSERT_OK_AND_ASSIGN(const YamlNode root, ParseYamlTree("a: 1\na: 2\n", "job.yaml"));
  EXPECT_EQ(root.entries.size(), 2u);
}

TEST(YamlTree, AnEmptyDocumentIsNothing) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n"}) {
    ASSERT_OK_AND_ASSIGN(const YamlNode root, ParseYamlTree(text, "job.yaml"));
    EXPECT_EQ(root.kind, YamlNode::Kind::kNull) << text;
  }
}

TEST(YamlTree, RefusesAnchorsAndAliases) {
  EXPECT_EQ(TreeErrorOf("a: &x [1]\nb: *x\n"), "job.yaml:1: anchors and aliases (`x`) are not accepted: write the value out");
  EXPECT_THAT(TreeErrorOf("a: 1\nb: *x\n"), HasSubstr("job.yaml:2: "));
}

TEST(YamlTree, RefusesTags) {
  EXPECT_THAT(TreeErrorOf("a: 1\nb: !!int \"3\"\n"), HasSubstr("job.yaml:2: the tag `tag:yaml.org,2002:int` is not accepted"));
  EXPECT_THAT(TreeErrorOf("a: !thing {}\n"), HasSubstr("the tag `!thing`"));
}

TEST(YamlTree, RefusesASecondDocument) {
  EXPECT_THAT(TreeErrorOf("name: a\n---\nname: b\n"), HasSubstr("a second document begins; one file holds one document"));
}

TEST(YamlTree, RefusesKeysThatAreNotText) {
  EXPECT_THAT(TreeErrorOf("? [a, b]\n: 1\n"), HasSubstr("a key must be plain text"));
  EXPECT_THAT(TreeErrorOf("~: 1\n"), HasSubstr("a key is empty"));
}

TEST(YamlTree, RefusesWhatIsNotYaml) {
  EXPECT_THAT(TreeErrorOf("name: a\n\tb: c\n"), HasSubstr("job.yaml:2: "));
  EXPECT_THAT(TreeErrorOf("name: [a\n"), HasSubstr("job.yaml:"));
  EXPECT_EQ(TreeErrorOf("a: 1\nname: \"a\n"), "job.yaml:2: the quote is never closed");
  EXPECT_EQ(TreeErrorOf("\xEF\xBB\xBF\xe6\xba\xa2: 'a\n"), "job.yaml:1: the quote is never closed");
  EXPECT_EQ(TreeErrorOf("name: 'it''\n"), "job.yaml:1: the quote is never closed");
  EXPECT_EQ(TreeErrorOf("name: \"a\\\""), "job.yaml:1: illegal EOF in scalar");
  EXPECT_OK(ParseYamlTree("\xEF\xBB\xBFname: 'it''s'\nb: \"x\\\"y\"\n\xe6\xba\xa2: 'z'", "job.yaml"));
}

TEST(YamlTree, RefusesBytesThatAreNotText) {
  EXPECT_EQ(TreeErrorOf("a: 1\nb: \xff\n"), "job.yaml:2: is not UTF-8");
  EXPECT_EQ(TreeErrorOf("b: \xed\xa0\x80\n"), "job.yaml:1: is not UTF-8");  // half of a surrogate pair
  EXPECT_EQ(TreeErrorOf("b: \xc0\x80\n"), "job.yaml:1: is not UTF-8");      // a NUL in two bytes
  EXPECT_EQ(TreeErrorOf(absl::string_view("a: \0b\n", 6)), "job.yaml:1: holds a NUL byte");
  EXPECT_OK(ParseYamlTree("name: \xe6\xba\xa2\xf0\x9f\x8c\x8a\n", "job.yaml"));
}

TEST(YamlTree, BoundsDepthAndSize) {
  EXPECT_THAT(TreeErrorOf(std::string(33, '[') + std::string(33, ']')), HasSubstr("nested deeper than 32 levels"));
  for (const char* piece : {"[", "{", "- ", "? ", "a: ", "[a, ", "{a: ", "!", "'", "\"", "|", "&a "}) {
    std::string text;
    while (text.size() + 4 < limits::kSpecBytesMax / 4) text += piece;
    EXPECT_THAT(ParseYamlTree(text + ":", "job.yaml").status().code(), ::testing::AnyOf(absl::StatusCode::kOk, absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(TreeErrorOf(std::string(limits::kSpecBytesMax + 1, '#')), HasSubstr("larger than 1048576 bytes"));
}

// Mutated job files: every outcome but a crash, a hang or an uncaught exception is fine.
TEST(YamlTree, SurvivesMutations) {
  const std::string seed =
      "name: bert\ncommand: [\"./train\", '--lr', 3e-4]\nenv: {A: b, C: \"d\"}\nscript: |\n  echo a\n  echo b\nresources:\n  gpu: {memory: 40GB.., count: 8}\n"
      "placement:\n  markets:\n    - spot\n    - &a on_demand\n    - *a\n? x\n: !!str y\n...\n";
  const std::string alphabet = "[]{}:,-?&*!|>'\"%@`#\n\t \\x0a9~.";
  Rng rng(20);
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed;
    for (uint64_t i = 0, n = 1 + rng.Below(8); i < n; ++i) {
      const size_t at = rng.Below(text.size());
      switch (rng.Below(3)) {
        case 0: text[at] = alphabet[rng.Below(alphabet.size())]; break;
        case 1: text.insert(at, 1, alphabet[rng.Below(alphabet.size())]); break;
        default: text.erase(at, 1 + rng.Below(5)); break;
      }
    }
    const auto tree = ParseYamlTree(text, "m");
    if (!tree.ok()) {
      EXPECT_THAT(std::string(tree.status().message()), ::testing::StartsWith("m"));
    }
  }
}

}  // namespace
}  // namespace spillway::spec
