// Would the storms notice? Each test plants one bug around the honest scheduler and asks that some seed of the two hundred breaks a promise because of it.
// That the same seeds hold without a bug is storm_test.cc's part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/simulation/seeds.h"

namespace spillway::sim {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// What the seeds say under these hooks, up to the first broken promise. In a process of its own: a planted bug may well run into an assertion.
std::string FirstBroken(const Hooks& hooks) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const SeedsResult all = RunSeeds(1, 200, hooks, 1, false);
    (void)!write(ends[1], all.report.data(), all.report.size());
    _exit(0);
  }
  close(ends[1]);
  std::string report;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) report.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "an assertion of the product";
  return report;
}

TEST(PlantedBug, RepliesBeforeTheCommit) {
  Hooks hooks;
  hooks.reply_before_commit = true;
  EXPECT_THAT(FirstBroken(hooks), AnyOf(HasSubstr("is not durable"), HasSubstr("without a durable offer"), HasSubstr("needs a spec that was never stored")));
}

TEST(PlantedBug, StopsAreDropped) {
  Hooks hooks;
  hooks.drop_stops = true;
  EXPECT_THAT(FirstBroken(hooks), HasSubstr("not everything has ended"));
}

TEST(PlantedBug, TerminationsAreDropped) {
  Hooks hooks;
  hooks.drop_terminates = true;
  EXPECT_THAT(FirstBroken(hooks), AnyOf(HasSubstr("not everything has ended"), HasSubstr("bills on")));
}

TEST(PlantedBug, SealsAreBlind) {
  Hooks hooks;
  hooks.seal_blindly = true;
  EXPECT_THAT(FirstBroken(hooks), HasSubstr("missed step"));
}

TEST(PlantedBug, OrphansAreNotSeen) {
  Hooks hooks;
  hooks.orphans_unseen = true;
  EXPECT_THAT(FirstBroken(hooks), AnyOf(HasSubstr("is nobody's and bills on"), HasSubstr("nobody's books")));
}

TEST(PlantedBug, ARepeatedSubmissionIsANewOne) {
  Hooks hooks;
  hooks.new_request_ids = true;
  EXPECT_THAT(FirstBroken(hooks), HasSubstr("was accepted twice"));
}

TEST(PlantedBug, TheLeaseCountsFromTheReceipt) {
  Hooks hooks;
  hooks.node.lease_from_receipt = true;
  EXPECT_THAT(FirstBroken(hooks), AnyOf(HasSubstr("is durable and it lives on"), HasSubstr("after its end was durable"), HasSubstr("its lease runs on")));
}

TEST(PlantedBug, TheLeaseIsNotObeyed) {
  Hooks hooks;
  hooks.node.lease_not_obeyed = true;
  EXPECT_THAT(FirstBroken(hooks), AnyOf(HasSubstr("is durable and it lives on"), HasSubstr("after its end was durable")));
}

TEST(PlantedBug, ASecondIsChargedTwice) {
  Hooks hooks;
  hooks.before_commit = [](store::Batch* batch) {
    for (core::Charge& charge : batch->charges) {
      if (charge.kind == "run" && charge.to_ms - charge.from_ms > 60'000) charge.from_ms -= 1'000;
    }
  };
  EXPECT_THAT(FirstBroken(hooks), HasSubstr("but it was charged until"));
}

}  // namespace
}  // namespace spillway::sim
