// Encrypted checkpoints as a whole: saved, restored, verified by who has no key, pruned; and each way of putting something else in their place.
#include <stdlib.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/sha256.h"
#include "tests/checkpoint/support.h"

namespace spillway::checkpoint {
namespace {

using ::testing::HasSubstr;

class EncryptedTest : public ::testing::Test {
 protected:
  std::string Run(const std::string& name = "a1") { return absl::StrCat(folder_.path(), "/", kCluster, "/5/0/", name); }
  CommittedCheckpoint Saved(int64_t step, const Metadata& metadata = {}) { return MustSave(Run(), step, 1, {}, key_, metadata); }
  absl::StatusOr<Restored> Newest(const SecretKey* key) {
    SampleState state;
    auto restored = RestoreNewest(Run(), state.Targets(), "", RealIo(), key);
    EXPECT_TRUE(!restored.ok() || state == StateOf(restored->checkpoint.step));
    return restored;
  }
  // A file of a step in place of that of another; both stay readable by name.
  static void Replace(const std::string& path, const std::string& by) { ASSERT_OK(WriteFileAtomically(path, *ReadFile(by))); }
  // Step 20 does not verify in the way that is said, without the key too unless `keyless_ok`; the restore goes back to 10 and says why.
  void ExpectFallsBack(const std::string& words, bool keyless_ok = false) {
    const std::string newest = StepDirectory(Run(), 20);
    EXPECT_EQ(Verify(newest, VerifyLevel::kFull).ok(), keyless_ok);
    EXPECT_THAT(Verify(newest, VerifyLevel::kFull, "", RealIo(), &key_).status(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(words)));
    ASSERT_OK_AND_ASSIGN(const Restored restored, Newest(&key_));
    EXPECT_EQ(restored.checkpoint.step, 10);
    ASSERT_EQ(restored.skipped.size(), 1u);
    EXPECT_THAT(std::string(restored.skipped[0].why.message()), HasSubstr(words));
  }

  TemporaryFolder folder_;
  const SecretKey key_ = KeyOf('u');
};

TEST_F(EncryptedTest, GivesBackWhatItWasGiven) {
  const Metadata metadata = {{"note", "for whoever has the key"}};
  Saved(10);
  const CommittedCheckpoint saved = Saved(20, metadata);
  ASSERT_OK_AND_ASSIGN(const Restored restored, Newest(&key_));
  EXPECT_EQ(restored.checkpoint.step, 20);
  EXPECT_EQ(restored.checkpoint.manifest_sha256, saved.manifest_sha256);
  EXPECT_EQ(restored.manifest.metadata, metadata);
  ASSERT_OK_AND_ASSIGN(const Opened opened, OpenNewest(Run(), "", RealIo(), &key_));
  EXPECT_EQ(opened.reader.manifest().metadata, metadata);
  // Nothing of the content or the metadata lies there in the clear.
  for (const char* name : {"MANIFEST", "KEY", "rank-00000.bin"}) {
    const std::string content = *ReadFile(saved.path + "/" + name);
    EXPECT_EQ(content.find("whoever has the key"), std::string::npos) << name;
    const SampleState state = StateOf(20);
    EXPECT_EQ(content.find(std::string(reinterpret_cast<const char*>(state.rng.data()), 16)), std::string::npos) << name;
  }
}

TEST_F(EncryptedTest, WithoutAKeyItIsVerifiedSealedAndLookedAt) {
  const CommittedCheckpoint saved = Saved(20, {{"loss", "0.25"}});
  ASSERT_OK_AND_ASSIGN(const CommittedCheckpoint verified, Verify(saved.path, VerifyLevel::kFull, "job-uid-1"));
  EXPECT_EQ(verified.manifest_sha256, saved.manifest_sha256);
  ASSERT_OK_AND_ASSIGN(const ScanResult scan, ScanAttempt(Run()));
  EXPECT_EQ(scan.committed.size(), 1u);
  ASSERT_OK_AND_ASSIGN(const Opened opened, OpenNewestLocked(Run()));
  EXPECT_TRUE(opened.reader.manifest().metadata.empty());
  EXPECT_EQ(opened.reader.Tensors().size(), 3u);
  SampleState state;
  EXPECT_THAT(opened.reader.Read(state.Targets()[0]), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("no key is given")));
}

// To fall back, or to begin anew, because of a key would lose what is there.
TEST_F(EncryptedTest, NothingFallsBackFromTheKey) {
  MustSave(Run(), 5);
  Saved(10);
  Saved(20);
  EXPECT_THAT(Newest(nullptr).status(), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("step-000000000020 is encrypted, and no key is given")));
  const SecretKey wrong = KeyOf('w');
  EXPECT_THAT(Newest(&wrong).status(), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("KEY: wrong key")));
  EXPECT_TRUE(absl::IsUnauthenticated(OpenNewest(Run(), "", RealIo(), &wrong).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(Reader::Open(StepDirectory(Run(), 20)).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(Verify(StepDirectory(Run(), 20), VerifyLevel::kManifest, "", RealIo(), &wrong).status()));
}

// Anybody can write a plain checkpoint; it is not taken for one of the run.
TEST_F(EncryptedTest, APlainOneIsRefusedUnderAKey) {
  Saved(10);
  MustSave(Run(), 20);
  EXPECT_THAT(Newest(&key_).status(), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("is not encrypted, and a key is given")));
  EXPECT_OK(Newest(nullptr).status());  // it is the newest, and plain
}

TEST_F(EncryptedTest, WithoutItsKeyFileItIsDamaged) {
  Saved(10);
  Saved(20);
  ASSERT_OK(RemoveTree(StepDirectory(Run(), 20) + "/KEY"));
  ExpectFallsBack("KEY is not there, and the checkpoint is encrypted");
  ASSERT_OK(WriteFileAtomically(StepDirectory(Run(), 20) + "/KEY", "{}"));
  ExpectFallsBack("it does not begin with its digest");
}

TEST_F(EncryptedTest, FilesOfAnotherRunAreTold) {
  Saved(10);
  Saved(20);
  const std::string newest = StepDirectory(Run(), 20), name = "/rank-00000.bin";
  const std::string other = MustSave(Run("a2"), 20, 2, {}, key_).path;
  const std::string key = *ReadFile(newest + "/KEY"), container = *ReadFile(newest + name), manifest = *ReadFile(newest + "/MANIFEST");
  Replace(newest + "/KEY", other + "/KEY");
  ExpectFallsBack("holds another data key than the one its manifest names");
  ASSERT_OK(WriteFileAtomically(newest + "/KEY", key));
  Replace(newest + name, other + name);
  ExpectFallsBack("its header is not the one the manifest names");

  // The digest in the manifest made to match: without the key only the container's own words are left to believe.
  auto resealed = [](const std::string& body) { return absl::StrCat("{\"sha256\":\"", HexOf(Sha256Of(body)), "\",\n", body); };
  auto header_of = [](const std::string& bytes) { return HexOf(Sha256Of(bytes.substr(0, 4096))); };
  const std::string foreign = *ReadFile(other + name);
  ASSERT_OK(WriteFileAtomically(newest + "/MANIFEST", resealed(absl::StrReplaceAll(manifest.substr(78), {{header_of(container), header_of(foreign)}}))));
  ExpectFallsBack("MANIFEST: manifest: it was altered", /*keyless_ok=*/true);

  // All of another run, with the number of this attempt written over that one's.
  Replace(newest + "/KEY", other + "/KEY");
  const std::string body = absl::StrReplaceAll(ReadFile(other + "/MANIFEST")->substr(78), {{"\"attempt\": 2", "\"attempt\": 1"}});
  ASSERT_OK(WriteFileAtomically(newest + "/MANIFEST", resealed(body)));
  ExpectFallsBack("MANIFEST: manifest: it was altered", /*keyless_ok=*/true);
}

// The metric lies in the metadata, and a guess would remove the best.
TEST_F(EncryptedTest, PruningByMetricNeedsTheKey) {
  const std::string run = folder_.path() + "/run";
  for (int64_t step : {10, 20, 30, 40}) MustSave(run, step, 1, {}, key_, {{"loss", step == 10 ? "0.1" : "0.9"}});
  const RetentionPolicy best{.keep_last = 2, .keep_best = 1, .metric = "loss"};
  EXPECT_THAT(Prune(run, best).status(), StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("is encrypted, and no key is given")));
  EXPECT_EQ(ListCommitted(run)->size(), 4u);
  ASSERT_OK_AND_ASSIGN(const Pruned pruned, Prune(run, best, {.key = &key_}));
  ASSERT_EQ(pruned.removed.size(), 1u);
  EXPECT_EQ(pruned.removed[0].ref.step, 20);
  ASSERT_OK(Prune(run, {.keep_last = 2}).status());  // by step alone anybody can
  EXPECT_EQ(ListCommitted(run)->size(), 2u);

  WriterOptions options = OptionsFor(run, 2);
  options.key = key_;
  options.retention = best;
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(options));
  for (int64_t step : {50, 60, 70}) ASSERT_OK(writer.Save(step, StateOf(step).Views(), {{"loss", step == 50 ? "0.2" : "0.9"}}).status());
  EXPECT_OK(writer.standing().pruning);
  EXPECT_OK(Verify(StepDirectory(run, 50), VerifyLevel::kFull).status());
}

// A writer's checkpoints share a data key, two writers' do not.
TEST_F(EncryptedTest, EachWriterHasADataKeyOfItsOwn) {
  WriterOptions options = OptionsFor(Run());
  options.key = key_;
  ASSERT_OK_AND_ASSIGN(Writer writer, Writer::Open(options));
  ASSERT_OK(writer.Save(1, StateOf(1).Views()).status());
  ASSERT_OK(writer.Save(2, StateOf(2).Views()).status());
  Saved(3);
  auto id = [&](int64_t step) { return ReadManifest(StepDirectory(Run(), step))->encryption->data_key_id; };
  EXPECT_EQ(id(1), id(2));
  EXPECT_NE(id(1), id(3));
}

}  // namespace
}  // namespace spillway::checkpoint
