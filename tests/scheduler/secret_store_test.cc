// Secrets at rest: what is set survives, what is written shows nothing, and what was tampered with is refused.
#include "scheduler/secrets/secret_store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/files.h"
#include "base/limits.h"
#include "base/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace spillway::secrets {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using Code = absl::StatusCode;

class SecretStoreTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<SecretStore>> Open() const { return SecretStore::Open(File(), Key()); }
  std::string File() const { return folder_.File("secrets"); }
  std::string Key() const { return folder_.File("key"); }
  TemporaryFolder folder_;
};

TEST_F(SecretStoreTest, WhatIsSetSurvivesAndIsReplacedAndRemoved) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Open());
    EXPECT_FALSE(PathExists(File())) << "nothing to keep yet";
    EXPECT_EQ(store->Set("B", "second", 20).value(), false);
    EXPECT_EQ(store->Set("A", std::string("one\0two\n", 8), 10).value(), false);
    EXPECT_EQ(store->Set("B", "newer", 30).value(), true);
  }
  ASSERT_OK_AND_ASSIGN(const auto again, Open());
  EXPECT_THAT(again->List(), ElementsAre(Pair("A", 10), Pair("B", 30)));
  EXPECT_THAT(again->Values({"B", "A", "absent"}), ElementsAre(Pair("A", std::string("one\0two\n", 8)), Pair("B", "newer")));
  ASSERT_OK(again->Remove("A"));
  EXPECT_THAT(again->Remove("A"), StatusIs(Code::kNotFound, HasSubstr("no secret called `A`")));
  ASSERT_OK_AND_ASSIGN(const auto third, Open());
  EXPECT_THAT(third->List(), ElementsAre(Pair("B", 30)));
}

TEST_F(SecretStoreTest, TheFilesAreTheirOwnersAndShowNothing) {
  ASSERT_OK_AND_ASSIGN(const auto store, Open());
  ASSERT_OK(store->Set("HF_TOKEN", "hf_abcdefghijklmnop", 10));
  ASSERT_OK_AND_ASSIGN(const std::string first, ReadFile(File()));
  EXPECT_THAT(first, Not(HasSubstr("hf_abc")));
  EXPECT_THAT(first, Not(HasSubstr("HF_TOKEN")));
  for (const std::string& path : {File(), Key()}) {
    struct stat info = {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << path;
  }
  ASSERT_OK(store->Set("HF_TOKEN", "hf_abcdefghijklmnop", 10));
  EXPECT_NE(*ReadFile(File()), first) << "sealed anew each time, under another salt";
}

TEST_F(SecretStoreTest, EveryFlippedBitAndEveryCutIsSeen) {
  ASSERT_OK_AND_ASSIGN(const auto store, Open());
  ASSERT_OK(store->Set("A", "value", 10));
  ASSERT_OK_AND_ASSIGN(const std::string whole, ReadFile(File()));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    ASSERT_OK(WriteFileAtomically(File(), damaged, 0600));
    EXPECT_FALSE(Open().ok()) << "byte " << at;
    ASSERT_OK(WriteFileAtomically(File(), whole.substr(0, at), 0600));
    EXPECT_THAT(Open().status(), StatusIs(Code::kDataLoss, ::testing::_)) << "cut at " << at;
  }
  ASSERT_OK(WriteFileAtomically(File(), whole + "x", 0600));
  EXPECT_THAT(Open().status(), StatusIs(Code::kDataLoss, ::testing::_));
}

TEST_F(SecretStoreTest, AnotherKeyIsToldFromDamage) {
  {
    ASSERT_OK_AND_ASSIGN(const auto store, Open());
    ASSERT_OK(store->Set("A", "value", 10));
  }
  ASSERT_EQ(unlink(Key().c_str()), 0);
  EXPECT_THAT(Open().status(), StatusIs(Code::kUnauthenticated, HasSubstr("needs the key " + Key() + ", which is not there")));
  EXPECT_FALSE(PathExists(Key())) << "no other key takes the place of the right one";
  ASSERT_OK(WriteFileAtomically(Key(), std::string(64, 'a') + "\n", 0600));
  EXPECT_THAT(Open().status(), StatusIs(Code::kUnauthenticated, HasSubstr("another key")));
  ASSERT_EQ(chmod(Key().c_str(), 0644), 0);
  EXPECT_THAT(Open().status(), StatusIs(Code::kPermissionDenied, HasSubstr("others can read this key")));
}

TEST_F(SecretStoreTest, WhatIsTooLongOrNoNameIsRefusedAndTheNearestNameTold) {
  ASSERT_OK_AND_ASSIGN(const auto store, Open());
  EXPECT_THAT(store->Set("HF-TOKEN", "v", 1).status(), StatusIs(Code::kInvalidArgument, HasSubstr("not a name for a secret")));
  EXPECT_THAT(store->Set("../x", "v", 1).status(), StatusIs(Code::kInvalidArgument, ::testing::_));
  EXPECT_THAT(store->Set("A", "", 1).status(), StatusIs(Code::kInvalidArgument, HasSubstr("empty")));
  EXPECT_THAT(store->Set("A", std::string(limits::kSecretBytesMax + 1, 'x'), 1).status(), StatusIs(Code::kInvalidArgument, HasSubstr("65536")));
  EXPECT_THAT(store->List(), ElementsAre());
  ASSERT_OK(store->Set("HF_TOKEN", std::string(limits::kSecretBytesMax, 'x'), 1));
  EXPECT_EQ(store->WhyNot("HF_TOKEN"), "");
  EXPECT_EQ(store->WhyNot("HF_TOKN"), "there is no secret called `HF_TOKN`, did you mean `HF_TOKEN`?");
}

TEST_F(SecretStoreTest, WhatCannotBeWrittenIsNotSet) {
  ASSERT_OK_AND_ASSIGN(const auto store, Open());
  ASSERT_OK(store->Set("A", "old", 10));
  ASSERT_OK(RemoveTree(File()));
  ASSERT_OK(MakeDirectories(File()));  // no file can take its place
  EXPECT_FALSE(store->Set("A", "new", 20).ok());
  EXPECT_FALSE(store->Set("B", "new", 20).ok());
  EXPECT_FALSE(store->Remove("A").ok());
  EXPECT_THAT(store->Values({"A", "B"}), ElementsAre(Pair("A", "old")));
  EXPECT_THAT(store->List(), ElementsAre(Pair("A", 10)));
}

}  // namespace
}  // namespace spillway::secrets
