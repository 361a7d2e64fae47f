// The fuzz targets without libFuzzer: the stored corpus, and some thousand mutations of it from fixed seeds. What libFuzzer has found once
// lies in the corpus and stays found.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/rng.h"
#include "base/status_matchers.h"
#include "tests/fuzz/parsers.h"

namespace spillway::checkpoint {
namespace {

constexpr int kMutations = 20'000;

class Fuzz : public ::testing::TestWithParam<FuzzTarget> {
 protected:
  void SetUp() override {
    const char* source = getenv("SPILLWAY_SOURCE");
    const std::string folder = absl::StrCat(source == nullptr ? "." : source, "/tests/fuzz/corpus/", GetParam().name);
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, ListDirectory(folder));
    for (const std::string& name : names) {
      ASSERT_OK_AND_ASSIGN(corpus_.emplace_back(), ReadFile(JoinPath(folder, name)));
    }
    ASSERT_GE(corpus_.size(), 2u);
  }
  std::vector<std::string> corpus_;
};

// One to eight small changes, such as a disk, a careless tool or an attacker would make.
std::string Mutated(std::string bytes, const std::string& other, Rng* rng) {
  static const std::string kWords[] = {std::string(8, '\0'),
                                       std::string(8, '\xff'),
                                       std::string("\0\0\0\0\0\0\0\x80", 8),
                                       "{",
                                       "}",
                                       "[",
                                       "]",
                                       "\"",
                                       ",",
                                       "-1",
                                       "0",
                                       "1e99",
                                       "9223372036854775808",
                                       "null",
                                       "\\u0000",
                                       "\xc3"};
  for (uint64_t changes = 1 + rng->Below(8); changes > 0; --changes) {
    const size_t at = rng->Below(bytes.size() + 1);
    const size_t length = std::min<size_t>(1 + rng->Below(16), bytes.size() - at);
    switch (rng->Below(6)) {
      case 0:
        if (at < bytes.size()) bytes[at] ^= static_cast<char>(1u << rng->Below(8));
        break;
      case 1:
        if (at < bytes.size()) bytes[at] = static_cast<char>(rng->Below(256));
        break;
      case 2: bytes.erase(at, length); break;
      case 3: bytes.insert(at, kWords[rng->Below(std::size(kWords))]); break;
      case 4: {
        const std::string& word = kWords[rng->Below(std::size(kWords))];
        bytes.replace(at, std::min(word.size(), bytes.size() - at), word);
        break;
      }
      default: bytes.replace(at, length, other.substr(std::min(other.size(), at), 1 + rng->Below(64))); break;
    }
  }
  return bytes;
}

TEST_P(Fuzz, TheCorpusAndItsMutationsBreakNoPromise) {
  int accepted = 0;
  for (const std::string& bytes : corpus_) accepted += GetParam().run(bytes);
  EXPECT_GE(accepted, 2) << "the seeds do not get past the digests";
  Rng rng(20261203);
  int accepted_mutations = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string& bytes = corpus_[rng.Below(corpus_.size())];
    const std::string& other = corpus_[rng.Below(corpus_.size())];
    accepted_mutations += GetParam().run(Mutated(bytes, other, &rng));
  }
  // Some changes are of no consequence (a digit, a space, a letter of a name) and most are.
  EXPECT_GT(accepted_mutations, kMutations / 1000);
  EXPECT_LT(accepted_mutations, kMutations * 9 / 10);
}

INSTANTIATE_TEST_SUITE_P(, Fuzz, ::testing::ValuesIn(FuzzTargets()), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spillway::checkpoint
