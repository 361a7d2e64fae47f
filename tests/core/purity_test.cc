// The core stays pure: no clock, randomness, I/O, log, threads; no unordered container; floats only where costs are compared. And it sees base and pricing alone.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/core/world.h"

namespace spillway::core {
namespace {

namespace fs = std::filesystem;

fs::path Folder() {
  const char* source = std::getenv("SPILLWAY_SOURCE");
  return fs::path(source != nullptr ? source : ".") / "scheduler" / "core";
}

std::string Read(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string WithoutComments(const std::string& text) { return std::regex_replace(text, std::regex("//[^\n]*"), ""); }

std::vector<fs::path> Files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(Folder())) {
    if (entry.path().extension() == ".h" || entry.path().extension() == ".cc") files.push_back(entry.path());
  }
  return files;
}

TEST(Purity, EveryIncludeIsAllowed) {
  // base/log.h is here for CHECK; that nothing is logged is looked at below.
  const std::regex allowed(
      "<(algorithm|array|bit|cmath|compare|cstdint|functional|limits|map|memory|optional|set|string|tuple|utility|variant|vector)>|"
      "\"(absl/status/status|absl/status/statusor|absl/strings/(match|str_cat|str_join|string_view)|"
      "base/(attempt_words|ids|limits|log|money|text|units)|pricing/[a-z_]+|scheduler/core/[a-z_/]+)\\.h\"");
  const std::regex include("#include ([<\"][^>\"]+[>\"])");
  ASSERT_GT(Files().size(), 20u) << Folder();
  for (const fs::path& file : Files()) {
    const std::string text = Read(file);
    for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
      EXPECT_TRUE(std::regex_match((*it)[1].str(), allowed)) << file << " includes " << (*it)[1];
    }
  }
}

TEST(Purity, NothingReadsAClockDrawsLogsOrHashesByAddress) {
  const std::regex forbidden(
      "\\b(LOG\\(|time\\(|clock\\(|rand\\(|getenv|std::chrono|unordered_|flat_hash_|std::hash|thread|mutex|atomic|fopen|ofstream|std::cerr|std::cout|printf)");
  for (const fs::path& file : Files()) {
    const std::string text = WithoutComments(Read(file));
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, forbidden)) << file << " uses " << found[0];
  }
}

TEST(Purity, FloatsAreOnlyWhereExpectedCostsAreCompared) {
  for (const fs::path& file : Files()) {
    if (file.filename() == "offers.cc" || file.filename() == "soft.h") continue;  // soft.h: a job's own metrics, kept for people
    // Expectations are compared here, for one job; what leaves is a choice.
    const bool expects = file.parent_path().filename() == "deadline" && file.stem() != "deadline" && file.stem() != "uniform_progress" && file.stem() != "make";
    if (expects) continue;
    EXPECT_FALSE(std::regex_search(WithoutComments(Read(file)), std::regex("\\b(double|float)\\b"))) << file;
  }
}

TEST(Purity, LinksHoldTheArrows) {
  const std::string cmake = std::regex_replace(Read(Folder() / "CMakeLists.txt"), std::regex("#[^\n]*"), "");
  std::smatch deps;
  ASSERT_TRUE(std::regex_search(cmake, deps, std::regex("DEPS\\s+([^)]*)\\)")));
  EXPECT_EQ(std::regex_replace(deps[1].str(), std::regex("\\s+"), " "), "spillway_base spillway_pricing");
  EXPECT_EQ(cmake.find("target_link_libraries"), std::string::npos);
  for (const fs::path& file : Files()) {
    if (file.extension() != ".cc") continue;
    EXPECT_NE(cmake.find(file.filename().string()), std::string::npos) << file << " is not built";
  }
}

}  // namespace
}  // namespace spillway::core
