// `spillway checkpoints` on a disk: what it says and the exit codes. The work itself is tested in tests/checkpoint.
#include <stdlib.h>

#include "base/files.h"
#include "base/status_macros.h"
#include "base/status_matchers.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/key_source.h"
#include "tests/client/fake_api.h"
#include "tests/support/temporary_folder.h"

namespace spillway::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

class CheckpointFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    Save("run", 10, {1, 2, 3}, "0.5");
    Save("run", 20, {1, 2, 4}, "0.75");
  }

  std::string Path(const std::string& name) const { return folder_.File(name); }
  void Save(const std::string& run, int64_t step, std::vector<float> w, const std::string& loss) {
    checkpoint::WriterOptions options;
    options.directory = Path(run);
    auto writer = checkpoint::Writer::Open(options);
    ASSERT_OK(writer.status());
    const int64_t bytes = static_cast<int64_t>(w.size() * 4);
    ASSERT_OK(writer->Save(step, {{"w", checkpoint::DType::kF32, {static_cast<int64_t>(w.size())}, w.data(), bytes}}, {{"loss", loss}}).status());
  }
  int Run(std::vector<std::string> args) {
    args.insert(args.begin(), "checkpoints");
    return cli_.Run(args);
  }

  TemporaryFolder folder_;
  Cli cli_;
};

TEST_F(CheckpointFiles, ListsAndShows) {
  EXPECT_EQ(Run({"list", Path("run")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("  20"));
  EXPECT_THAT(cli_.out, HasSubstr("whole"));
  ASSERT_OK(WriteFileAtomically(Path("run/step-000000000010/MANIFEST"), "bad"));
  EXPECT_EQ(Run({"list", Path("run")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("damaged"));
  EXPECT_EQ(Run({"show", Path("run")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("step      20 of attempt 1"));
  EXPECT_THAT(cli_.out, HasSubstr("loss = 0.75"));
  EXPECT_THAT(cli_.out, HasSubstr("w       f32   [3]     12B"));
  EXPECT_EQ(Run({"show", Path("run"), "-o", "json"}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("\"dtype\": \"f32\""));
  EXPECT_EQ(Run({"show", Path("nothing")}), 3);
  EXPECT_EQ(Run({"list", folder_.path()}), 3);
  EXPECT_THAT(cli_.err, HasSubstr("holds no checkpoint"));
  EXPECT_TRUE(cli_.api.calls.empty());  // no scheduler is asked
}

TEST_F(CheckpointFiles, VerifiesEveryByte) {
  EXPECT_EQ(Run({"verify", Path("run")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("good     " + Path("run/step-000000000020")));
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(Path("run/step-000000000010/rank-00000.bin")));
  bytes[4096] ^= 1;
  ASSERT_OK(WriteFileAtomically(Path("run/step-000000000010/rank-00000.bin"), bytes));
  EXPECT_EQ(Run({"verify", Path("run")}), 4);
  EXPECT_THAT(cli_.out, HasSubstr("damaged  " + Path("run/step-000000000010")));
  EXPECT_THAT(cli_.err, HasSubstr("1 of 2 checkpoints are damaged"));
  EXPECT_EQ(Run({"verify", Path("run/step-000000000020")}), 0);
  EXPECT_EQ(Run({"export", Path("run/step-000000000010"), Path("bad.safetensors")}), 4);
  EXPECT_FALSE(PathExists(Path("bad.safetensors")));
}

TEST_F(CheckpointFiles, ExportsImportsAndCompares) {
  EXPECT_EQ(Run({"export", Path("run"), Path("w.safetensors")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("w.safetensors: 1 tensor, "));
  EXPECT_EQ(Run({"export", Path("run"), Path("w.safetensors")}), 4);
  EXPECT_EQ(Run({"import", Path("w.safetensors"), Path("other")}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("Say --step N"));
  EXPECT_EQ(Run({"import", Path("w.safetensors"), Path("other"), "--step", "1"}), 0);
  EXPECT_EQ(Run({"diff", Path("run"), Path("other")}), 0);
  EXPECT_EQ(cli_.out, "1 tensor, all equal bit for bit\n");
  EXPECT_EQ(Run({"diff", Path("run/step-000000000010"), Path("other")}), 1);
  EXPECT_EQ(cli_.out, "w: 1 of 3 elements differ\n");
  Save("third", 1, {1, 2}, "0");
  EXPECT_EQ(Run({"diff", Path("third"), Path("other"), "-o", "json"}), 1);
  EXPECT_THAT(cli_.out, HasSubstr("f32[2] and f32[3]"));
}

TEST_F(CheckpointFiles, PrunesWhatItIsTold) {
  for (int64_t step : {30, 40, 50}) Save("run", step, {1}, "1");
  EXPECT_EQ(Run({"prune", Path("run"), "--dry-run", "--keep-best", "1", "--metric", "loss"}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("would go  " + Path("run/step-000000000020")));
  EXPECT_THAT(cli_.out, Not(HasSubstr("step-000000000010")));
  EXPECT_EQ(Run({"prune", Path("run")}), 2);  // no terminal, no --yes
  EXPECT_TRUE(PathExists(Path("run/step-000000000010")));
  EXPECT_EQ(Run({"prune", Path("run"), "--yes"}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("3 checkpoints removed"));
  EXPECT_FALSE(PathExists(Path("run/step-000000000030")));
  EXPECT_TRUE(PathExists(Path("run/step-000000000040")));
  EXPECT_EQ(Run({"prune", Path("run"), "--keep-last", "1"}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("keep_last is 1"));
}

TEST_F(CheckpointFiles, AJobMeansItsNewestRegisteredOne) {
  cli_.api.checkpoints.add_checkpoints()->set_path("c/5/0/a1/step-000000000020");
  EXPECT_EQ(Run({"show", "5"}), 3);
  EXPECT_THAT(cli_.err, HasSubstr("does not lie on this machine"));
}

TEST_F(CheckpointFiles, SaysHowItIsWritten) {
  EXPECT_EQ(Run({"diff", Path("run")}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("write: spillway checkpoints diff JOB|PATH JOB|PATH"));
  EXPECT_EQ(Run({"verfy", Path("run")}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("do you mean `verify`?"));
}

// Two encrypted checkpoints behind two plain ones in a run of their own; the key is where the environment says.
class EncryptedCheckpointFiles : public CheckpointFiles {
 protected:
  void SetUp() override {
    unsetenv(checkpoint::kKeyFileVariable);
    Save("run", 10, {1, 2, 3}, "0.5");
    old_ = KeyFile("old.key", '1');
    new_ = KeyFile("new.key", '2');
    With(old_);
    EXPECT_OK(WriteEncrypted("hidden", 10, {1, 2, 3}, "0.5"));
    EXPECT_OK(WriteEncrypted("hidden", 20, {1, 2, 4}, "0.75"));
  }
  void TearDown() override { unsetenv(checkpoint::kKeyFileVariable); }

  std::string KeyFile(const std::string& name, char digit) {
    EXPECT_OK(WriteFileAtomically(Path(name), std::string(64, digit) + "\n", 0600));
    return Path(name);
  }
  static void With(const std::string& key_file) { setenv(checkpoint::kKeyFileVariable, key_file.c_str(), 1); }
  static void WithoutKey() { unsetenv(checkpoint::kKeyFileVariable); }
  absl::Status WriteEncrypted(const std::string& run, int64_t step, std::vector<float> w, const std::string& loss) {
    checkpoint::WriterOptions options;
    options.directory = Path(run);
    ASSIGN_OR_RETURN(options.key, checkpoint::KeyFromEnvironment());
    ASSIGN_OR_RETURN(checkpoint::Writer writer, checkpoint::Writer::Open(std::move(options)));
    return writer.Save(step, {{"w", checkpoint::DType::kF32, {static_cast<int64_t>(w.size())}, w.data(), static_cast<int64_t>(w.size() * 4)}}, {{"loss", loss}})
        .status();
  }

  std::string old_, new_;
};

TEST_F(EncryptedCheckpointFiles, AreListedShownAndVerifiedWithoutAKey) {
  WithoutKey();
  EXPECT_EQ(Run({"list", Path("hidden")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("whole, encrypted"));
  EXPECT_EQ(Run({"show", Path("hidden")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("step      20 of attempt"));
  EXPECT_THAT(cli_.out, HasSubstr("locked    no key is given"));
  EXPECT_THAT(cli_.out, HasSubstr("w       f32   [3]     12B"));
  EXPECT_THAT(cli_.out, Not(HasSubstr("0.75")));
  EXPECT_EQ(Run({"show", Path("hidden"), "-o", "json"}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("\"encrypted\": true"));
  EXPECT_THAT(cli_.out, HasSubstr("\"metadata\": null"));
  EXPECT_EQ(Run({"verify", Path("hidden")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("step-000000000020, 8KB, encrypted; without the key"));
  ASSERT_OK(RemoveTree(Path("hidden/step-000000000020/KEY")));
  EXPECT_EQ(Run({"verify", Path("hidden")}), 4);
  EXPECT_THAT(cli_.out, HasSubstr("KEY is not there"));
}

TEST_F(EncryptedCheckpointFiles, AreShownVerifiedAndExportedWithTheirKey) {
  EXPECT_EQ(Run({"show", Path("hidden")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("loss = 0.75"));
  EXPECT_EQ(Run({"verify", Path("hidden"), Path("run")}), 0);  // a plain one is only verified
  EXPECT_THAT(cli_.out, HasSubstr("step-000000000020, 8KB, authenticated"));
  EXPECT_EQ(Run({"export", Path("hidden"), Path("model.safetensors")}), 0);
  EXPECT_EQ(Run({"import", Path("model.safetensors"), Path("again"), "--step", "3"}), 0);
  EXPECT_EQ(Run({"diff", Path("hidden"), Path("again")}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("all equal bit for bit"));
  EXPECT_EQ(Run({"prune", Path("hidden"), "--keep-last", "2", "--keep-best", "1", "--metric", "loss", "--dry-run"}), 0);
  With(new_);
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"show", Path("hidden")}, {"verify", Path("hidden")}, {"export", Path("hidden"), Path("x.safetensors")}, {"diff", Path("hidden"), Path("again")}}) {
    EXPECT_EQ(Run(args), 4) << args[0];
    EXPECT_THAT(cli_.err, HasSubstr("wrong key")) << args[0];
  }
  WithoutKey();
  EXPECT_EQ(Run({"export", Path("hidden"), Path("x.safetensors")}), 4);
  EXPECT_THAT(cli_.err, HasSubstr("is encrypted, and no key is given"));
  EXPECT_EQ(Run({"prune", Path("hidden"), "--keep-best", "1", "--metric", "loss", "--dry-run"}), 4);
  EXPECT_FALSE(PathExists(Path("x.safetensors")));
  With(Path("no.key"));
  EXPECT_EQ(Run({"show", Path("hidden")}), 4);
  EXPECT_THAT(cli_.err, HasSubstr("cannot be opened"));
}

TEST_F(EncryptedCheckpointFiles, AreRewrappedForAnotherKey) {
  EXPECT_EQ(Run({"rewrap", Path("hidden")}), 2);
  EXPECT_THAT(cli_.err, HasSubstr("--new-key-file"));
  EXPECT_EQ(Run({"rewrap", Path("hidden"), "--new-key-file", new_, "--keep-old"}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("rewrapped  " + Path("hidden/step-000000000020")));
  EXPECT_THAT(cli_.out, HasSubstr("rewrapped  " + Path("hidden/step-000000000010")));
  EXPECT_EQ(Run({"show", Path("hidden")}), 0);
  EXPECT_EQ(Run({"rewrap", Path("hidden"), Path("run"), "--new-key-file", new_}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("plain      " + Path("run/step-000000000010")));
  EXPECT_EQ(Run({"show", Path("hidden")}), 4);
  With(new_);
  EXPECT_EQ(Run({"verify", Path("hidden")}), 0);
  EXPECT_EQ(Run({"rewrap", Path("hidden"), "--new-key-file", old_, "-o", "json"}), 0);
  EXPECT_THAT(cli_.out, HasSubstr("\"ok\": true"));
  EXPECT_EQ(Run({"rewrap", Path("hidden"), "--new-key-file", old_}), 0);  // again, as after one that was interrupted
  With(KeyFile("other.key", '3'));
  EXPECT_EQ(Run({"rewrap", Path("hidden"), "--new-key-file", new_}), 4);
  EXPECT_THAT(cli_.err, HasSubstr("2 of 2 checkpoints were not rewrapped"));
  WithoutKey();
  EXPECT_EQ(Run({"rewrap", Path("hidden"), "--new-key-file", old_}), 4);
  EXPECT_THAT(cli_.err, HasSubstr("no key is given: set SPILLWAY_CHECKPOINT_KEY_FILE"));
}

// Who changes the key of a job and then destroys the old one counts on every task.
TEST_F(EncryptedCheckpointFiles, OfEveryTaskThatIsMeantAreRewrapped) {
  cli_.api.jobs[5].set_job_id(5);
  cli_.api.jobs[5].set_task_count(3);
  EXPECT_EQ(Run({"rewrap", "5", "--new-key-file", new_}), 3);
  EXPECT_EQ(cli_.err, "spillway: no checkpoint of 5 is registered\n");
  EXPECT_THAT(cli_.api.calls,
              IsSupersetOf({"ListCheckpoints job_id: 5", "ListCheckpoints job_id: 5 task_index: 1", "ListCheckpoints job_id: 5 task_index: 2"}));
  cli_.api.calls.clear();
  EXPECT_EQ(Run({"rewrap", "5.1-2", "--new-key-file", new_}), 3);
  EXPECT_THAT(cli_.api.calls, ElementsAre("ListCheckpoints job_id: 5 task_index: 1", "ListCheckpoints job_id: 5 task_index: 2"));
}

}  // namespace
}  // namespace spillway::client
