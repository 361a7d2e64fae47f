// From the user's key to the data key and nowhere else; a rotation changes the way and nothing that it leads to.
#include "checkpoint/key_file.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/sha256.h"
#include "tests/checkpoint/fault_io.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

TEST(KeyFile, GivesTheDataKeyToWhoeverItIsWrappedFor) {
  const SecretKey data_key = KeyOf('d');
  ASSERT_OK_AND_ASSIGN(KeyFile file, WrapKey(data_key, KeyOf('u')));
  ASSERT_OK_AND_ASSIGN(const SecretKey back, UnwrapKey(file, KeyOf('u')));
  EXPECT_EQ(back.view(), data_key.view());
  EXPECT_THAT(UnwrapKey(file, KeyOf('v')).status(), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("wrong key")));
  EXPECT_THAT(KeyFileJson(file).dump(), ::testing::Not(HasSubstr(HexOf(data_key.view()))));
  file.wraps[0].wrapped[5] ^= 1;
  EXPECT_THAT(UnwrapKey(file, KeyOf('u')).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the wrapped key was altered")));
  file.wraps[0].wrapped[5] ^= 1;
  file.data_key_id = std::string(64, 'a');
  EXPECT_THAT(UnwrapKey(file, KeyOf('u')).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("the wrapped key was altered")));
}

// docs/reference/checkpoint-format.md gives the derivation.
TEST(KeyFile, IsWrappedAsTheDocumentSays) {
  const SecretKey data_key = KeyOf('d'), user_key = KeyOf('u');
  ASSERT_OK_AND_ASSIGN(const KeyFile file, WrapKey(data_key, user_key));
  const KeyWrap& wrap = file.wraps[0];
  const std::string derived = Hkdf(user_key.view(), ViewOf(wrap.salt), "spillway wrap v1", 64);
  EXPECT_EQ(derived.substr(32), ViewOf(wrap.check));
  ASSERT_EQ(wrap.wrapped.size(), 48u);
  Tag tag;
  std::copy(wrap.wrapped.end() - 16, wrap.wrapped.end(), tag.begin());
  std::string back(32, '\0');
  ASSERT_TRUE(Gcm(SecretKey::Of(derived.substr(0, 32))).Open(NonceOf(0, true), DataKeyId(data_key), wrap.wrapped.data(), 32, back.data(), tag));
  EXPECT_EQ(back, data_key.view());
}

TEST(KeyFile, IsReadAsItWasWrittenAndNotOtherwise) {
  TemporaryFolder folder;
  EXPECT_TRUE(absl::IsNotFound(ReadKeyFile(RealIo(), folder.path()).status()));
  ASSERT_OK_AND_ASSIGN(const KeyFile file, WrapKey(KeyOf('d'), KeyOf('u')));
  ASSERT_OK(WriteKeyFile(RealIo(), folder.path(), file));
  ASSERT_OK_AND_ASSIGN(const KeyFile back, ReadKeyFile(RealIo(), folder.path()));
  EXPECT_EQ(back, file);
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadFile(folder.path() + "/KEY"));
  const std::string salt = HexOf(ViewOf(file.wraps[0].salt));
  const std::pair<std::string, std::string> edits[] = {{"\"wraps\": [", "\"wraps\": [{},"},
                                                       {salt, salt + "00"},
                                                       {salt, "xx" + salt.substr(2)},
                                                       {file.data_key_id, "short"},
                                                       {"spillway-checkpoint-key", "spillway-checkpoint"},
                                                       {"\"check\"", "\"cheque\""},
                                                       {"\"version\"", "\"more\": 1, \"version\""}};
  for (const auto& [from, to] : edits) {
    const std::string body = absl::StrReplaceAll(text.substr(78), {{from, to}});
    ASSERT_NE(body, text.substr(78)) << from;
    ASSERT_OK(WriteFileAtomically(folder.path() + "/KEY", absl::StrCat("{\"sha256\":\"", HexOf(Sha256Of(body)), "\",\n", body)));
    EXPECT_TRUE(absl::IsDataLoss(ReadKeyFile(RealIo(), folder.path()).status())) << from << " -> " << to;
  }
  ASSERT_OK(WriteFileAtomically(folder.path() + "/KEY", text.substr(0, 100)));
  EXPECT_TRUE(absl::IsDataLoss(ReadKeyFile(RealIo(), folder.path()).status()));
}

class RewrapTest : public ::testing::Test {
 protected:
  // Bit for bit, with this key.
  static absl::Status Opens(const std::string& step, const SecretKey& key) {
    SampleState state;
    const absl::Status status = Restore(step, state.Targets(), RealIo(), &key).status();
    EXPECT_TRUE(!status.ok() || state == StateOf(10));
    return status;
  }
  TemporaryFolder folder_;
  const std::string step_ = MustSave(folder_.path() + "/run", 10, 1, {}, KeyOf('a')).path;
};

TEST_F(RewrapTest, TheNewKeyOpensAndTheOldOneDoesNot) {
  std::map<std::string, std::string> before;
  for (const char* name : {"MANIFEST", "rank-00000.bin"}) before[name] = *ReadFile(step_ + "/" + name);
  ASSERT_OK(RewrapKey(step_, KeyOf('a'), KeyOf('b')));
  EXPECT_OK(Opens(step_, KeyOf('b')));
  EXPECT_THAT(Opens(step_, KeyOf('a')), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("wrong key")));
  // What the scheduler has registered is what lies there.
  for (const auto& [name, content] : before) EXPECT_EQ(*ReadFile(step_ + "/" + name), content);
  ASSERT_OK(RewrapKey(step_, KeyOf('a'), KeyOf('b')));  // once more: done already
  EXPECT_TRUE(absl::IsUnauthenticated(RewrapKey(step_, KeyOf('a'), KeyOf('c'))));
}

TEST_F(RewrapTest, TheOldKeyMayStayForAWhile) {
  ASSERT_OK(RewrapKey(step_, KeyOf('a'), KeyOf('b'), /*keep=*/true));
  EXPECT_OK(Opens(step_, KeyOf('a')));
  EXPECT_OK(Opens(step_, KeyOf('b')));
  ASSERT_OK(RewrapKey(step_, KeyOf('a'), KeyOf('b'), /*keep=*/true));
  EXPECT_EQ(ReadKeyFile(RealIo(), step_)->wraps.size(), 2u);
  for (char c = 'c'; c < 'i'; ++c) ASSERT_OK(RewrapKey(step_, KeyOf('a'), KeyOf(c), /*keep=*/true));
  EXPECT_THAT(RewrapKey(step_, KeyOf('a'), KeyOf('z'), /*keep=*/true), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("8 wraps")));
  ASSERT_OK(RewrapKey(step_, KeyOf('h'), KeyOf('z')));
  EXPECT_TRUE(absl::IsUnauthenticated(Opens(step_, KeyOf('a'))));
  EXPECT_OK(Opens(step_, KeyOf('z')));
}

// Whoever was told that a key opens it can rely on that: no rewrap drops what another one adds, or writes into its file.
TEST_F(RewrapTest, SeveralAtOnceComeOneAfterTheOther) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (char c = 'b'; c <= 'h'; ++c) {
      threads.emplace_back([this, c] { EXPECT_OK(RewrapKey(step_, KeyOf('a'), KeyOf(c), /*keep=*/true)); });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_OK_AND_ASSIGN(const KeyFile file, ReadKeyFile(RealIo(), step_));
    for (char c = 'a'; c <= 'h'; ++c) EXPECT_OK(UnwrapKey(file, KeyOf(c)).status()) << c << " in round " << round;
    ASSERT_OK(RewrapKey(step_, KeyOf('b'), KeyOf('a')));
  }
  EXPECT_FALSE(PathExists(step_ + "/KEY.tmp"));
}

TEST_F(RewrapTest, OfTwoThatTakeTheKeyAwayOneSaysSo) {
  for (int round = 0; round < 20; ++round) {
    absl::Status told[2];
    std::thread other([&] { told[1] = RewrapKey(step_, KeyOf('a'), KeyOf('c')); });
    told[0] = RewrapKey(step_, KeyOf('a'), KeyOf('b'));
    other.join();
    ASSERT_NE(told[0].ok(), told[1].ok());
    EXPECT_TRUE(absl::IsUnauthenticated(told[told[0].ok() ? 1 : 0]));
    EXPECT_OK(RewrapKey(step_, KeyOf(told[0].ok() ? 'b' : 'c'), KeyOf('a')));
  }
  EXPECT_FALSE(PathExists(step_ + "/KEY.tmp"));
}

TEST_F(RewrapTest, ALeftoverOfOneThatWasKilledIsReplaced) {
  ASSERT_OK(WriteFileAtomically(step_ + "/KEY.tmp", std::string(5000, 'x')));
  ASSERT_OK(RewrapKey(step_, KeyOf('a'), KeyOf('b')));
  EXPECT_OK(Opens(step_, KeyOf('b')));
  EXPECT_FALSE(PathExists(step_ + "/KEY.tmp"));
}

TEST_F(RewrapTest, APlainCheckpointHasNoKey) {
  const std::string plain = MustSave(folder_.path() + "/plain", 10).path;
  EXPECT_THAT(RewrapKey(plain, KeyOf('a'), KeyOf('b')), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not encrypted")));
}

// Wherever it is stopped, one of the two keys opens it, and trying again ends it.
TEST_F(RewrapTest, IsNeverHalfDone) {
  bool untouched = false;
  for (int64_t k = 1; !untouched && k < kCallsMax; ++k) {
    for (const auto fault : {FaultIo::Fault::kErrorOnce, FaultIo::Fault::kErrorStays, FaultIo::Fault::kAllFail}) {
      FaultIo io(fault, k, absl::UnavailableError("input/output error"));
      const absl::Status status = RewrapKey(step_, KeyOf('a'), KeyOf('b'), false, &io);
      untouched = !io.struck();
      EXPECT_TRUE(Opens(step_, KeyOf('b')).ok() || (!status.ok() && Opens(step_, KeyOf('a')).ok())) << "at call " << k;
      ASSERT_OK(RewrapKey(step_, KeyOf('a'), KeyOf('b')));
      EXPECT_OK(Opens(step_, KeyOf('b')));
      ASSERT_OK(RewrapKey(step_, KeyOf('b'), KeyOf('a')));
    }
  }
  EXPECT_TRUE(untouched);
}

}  // namespace
}  // namespace spillway::checkpoint
