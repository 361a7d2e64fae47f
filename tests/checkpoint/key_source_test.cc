// Where the user's key may come from, and every way in which that goes wrong: always UNAUTHENTICATED, and the key in no message.
#include "checkpoint/key_source.h"

#include <sys/stat.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kHex = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100";

class KeySourceTest : public ::testing::Test {
 protected:
  std::string File(const std::string& content, int mode = 0600) {
    const std::string path = absl::StrCat(folder_.path(), "/key-", ++files_);
    EXPECT_OK(WriteFileAtomically(path, content, mode));
    EXPECT_EQ(chmod(path.c_str(), static_cast<mode_t>(mode)), 0);
    return path;
  }
  static absl::StatusOr<std::optional<SecretKey>> From(const std::map<std::string, std::string>& environment) {
    return KeyFrom([&](const char* name) -> const char* {
      const auto found = environment.find(name);
      return found == environment.end() ? nullptr : found->second.c_str();
    });
  }
  static absl::StatusOr<SecretKey> FromShell(const std::string& script, int64_t wait_ms = kKeyCommandMsMax) {
    return KeyFromCommand({"sh", "-c", script}, wait_ms);
  }
  static auto Refused(const std::string& words) { return StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr(words)); }

  TemporaryFolder folder_;
  int files_ = 0;
  const std::string key_ = *FromHex(kHex);
};

TEST_F(KeySourceTest, AFileHoldsSixtyFourDigits) {
  for (const std::string end : {"", "\n", "\r\n"}) {
    ASSERT_OK_AND_ASSIGN(const SecretKey key, KeyFromFile(File(kHex + end)));
    EXPECT_EQ(key.view(), key_);
  }
  ASSERT_OK(KeyFromFile(File(kHex, 0400)).status());
  EXPECT_THAT(KeyFromFile(File(kHex + "0")).status(), Refused("and holds 65 characters"));
  EXPECT_THAT(KeyFromFile(File(kHex + kHex)).status(), Refused("and holds more"));
  EXPECT_THAT(KeyFromFile(File(kHex + "\n\n")).status(), Refused("characters"));
  EXPECT_THAT(KeyFromFile(File(kHex.substr(0, 63))).status(), Refused("and holds 63 characters"));
  EXPECT_THAT(KeyFromFile(File("")).status(), Refused("and holds 0 characters"));
  const absl::Status strange = KeyFromFile(File("x" + kHex.substr(1))).status();
  EXPECT_THAT(strange, Refused("character 1 is none"));
  EXPECT_THAT(std::string(strange.message()), Not(HasSubstr(kHex.substr(1, 8))));
}

TEST_F(KeySourceTest, AFileIsItsOwnersAlone) {
  for (int mode : {0640, 0604, 0620, 0601, 0644, 0660}) EXPECT_THAT(KeyFromFile(File(kHex, mode)).status(), Refused("chmod 600"));
  EXPECT_THAT(KeyFromFile(folder_.path() + "/nothing").status(), Refused("cannot be opened: No such file"));
  EXPECT_THAT(KeyFromFile(folder_.path()).status(), Refused("is not a regular file"));
  EXPECT_THAT(KeyFromFile("/dev/null").status(), Refused("is not a regular file"));
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(KeyFromFile(fifo).status(), Refused("is not a regular file"));
}

// A pipe gives its content once; restoring and then saving both need the key.
TEST_F(KeySourceTest, ADescriptorIsReadOnceAndRemembered) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], kHex.data(), kHex.size()), static_cast<ssize_t>(kHex.size()));
  close(ends[1]);
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto key, From({{kKeyFdVariable, absl::StrCat(ends[0])}}));
    EXPECT_EQ(key->view(), key_);
  }
  EXPECT_THAT(From({{kKeyFdVariable, "1000000"}}).status(), Refused("descriptor 1000000 cannot be read: Bad file"));
  for (const char* bad : {"-1", "3x", "stdin"}) EXPECT_THAT(From({{kKeyFdVariable, bad}}).status(), Refused("is not the number of a descriptor"));
}

TEST_F(KeySourceTest, ACommandPrintsIt) {
  ASSERT_OK_AND_ASSIGN(const SecretKey key, KeyFromCommand({"cat", File(kHex + "\n")}));
  EXPECT_EQ(key.view(), key_);
  EXPECT_THAT(FromShell("exit 3").status(), Refused("sh exited with 3"));
  EXPECT_THAT(FromShell("printf " + kHex + "; exit 1").status(), Refused("sh exited with 1"));
  EXPECT_THAT(FromShell("kill -9 $$").status(), Refused("sh was ended by signal 9"));
  EXPECT_THAT(FromShell("true").status(), Refused("what sh prints is to hold 64 hex digits, and holds 0 characters"));
  EXPECT_THAT(FromShell("while :; do printf " + kHex + "; done").status(), Refused("and holds more"));
  EXPECT_THAT(KeyFromCommand({folder_.path() + "/no-such-program"}).status(), Refused("cannot be started: No such file"));
  EXPECT_THAT(KeyFromCommand({}).status(), Refused("no words"));
}

// It waits for a pipe that nobody writes to: with its output open, and with it closed.
TEST_F(KeySourceTest, ACommandThatTakesTooLongIsKilled) {
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(FromShell("exec cat < " + fifo, 50).status(), Refused("took too long"));
  EXPECT_THAT(FromShell("printf " + kHex + "; exec cat < " + fifo + " > /dev/null", 50).status(), Refused("took too long"));
}

TEST_F(KeySourceTest, OneVariableSaysWhere) {
  ASSERT_OK_AND_ASSIGN(const auto none, From({{kKeyFileVariable, ""}}));
  EXPECT_FALSE(none.has_value());
  const std::string path = File(kHex);
  ASSERT_OK_AND_ASSIGN(const auto file, From({{kKeyFileVariable, path}, {kKeyFdVariable, ""}}));
  EXPECT_EQ(file->view(), key_);
  ASSERT_OK_AND_ASSIGN(const auto command, From({{kKeyCommandVariable, absl::StrCat("[\"cat\", \"", path, "\"]")}}));
  EXPECT_EQ(command->view(), key_);
  EXPECT_THAT(From({{kKeyFileVariable, path}, {kKeyFdVariable, "3"}}).status(),
              Refused("SPILLWAY_CHECKPOINT_KEY_FILE and SPILLWAY_CHECKPOINT_KEY_FD are both set"));
  for (const char* bad : {"kms get", "[]", "[1]", "[\"kms\"", "{\"a\": \"b\"}"}) {
    EXPECT_THAT(From({{kKeyCommandVariable, bad}}).status(), Refused("is not a JSON array of strings"));
  }
}

// A key put where its place is to stand ends in no message, and so in no log.
TEST_F(KeySourceTest, TheKeyInsteadOfItsPlaceIsNotRepeated) {
  const absl::Status told[] = {From({{kKeyFileVariable, kHex}}).status(),
                               From({{kKeyFdVariable, kHex + "\n"}}).status(),
                               From({{kKeyCommandVariable, kHex}}).status(),
                               From({{kKeyCommandVariable, "[\"" + kHex + "\"]"}}).status(),
                               KeyFromFile(kHex).status(),
                               KeyFromCommand({kHex}).status()};
  for (const absl::Status& status : told) {
    EXPECT_THAT(status, Refused("the key itself stands where"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(kHex.substr(0, 16))));
  }
}

}  // namespace
}  // namespace spillway::checkpoint
