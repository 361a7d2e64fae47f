#include "worker/lease_keeper.h"

#include <gtest/gtest.h>

namespace spillway::worker {
namespace {

constexpr int64_t kMin = 60'000;

TEST(LeaseKeeper, StartsWithNothing) {
  LeaseKeeper lease;
  EXPECT_EQ(lease.PhaseAt(5), LeasePhase::kNone);
  EXPECT_EQ(lease.NextRenewalAtMs(), LeaseKeeper::kNever);
  EXPECT_EQ(lease.NextPhaseAtMs(5), LeaseKeeper::kNever);
}

TEST(LeaseKeeper, TheWelcomeCountsFromTheHello) {
  LeaseKeeper lease;
  lease.HelloSent(1'000);
  // The welcome came 7 s later; the lease does not care when.
  EXPECT_TRUE(lease.Welcomed(10 * kMin, 10'000));
  EXPECT_EQ(lease.lease_end_ms(), 1'000 + 10 * kMin);
  EXPECT_EQ(lease.NextRenewalAtMs(), 11'000);
}

TEST(LeaseKeeper, AnAckCountsFromWhenItsRenewalWasSent) {
  LeaseKeeper lease;
  lease.HelloSent(0);
  lease.Welcomed(10 * kMin, 10'000);
  EXPECT_EQ(lease.SendRenewal(10'000), 1);
  EXPECT_EQ(lease.NextRenewalAtMs(), 20'000);
  EXPECT_EQ(lease.SendRenewal(20'000), 2);
  EXPECT_TRUE(lease.Acknowledged(1));
  EXPECT_EQ(lease.lease_end_ms(), 10'000 + 10 * kMin);
  EXPECT_TRUE(lease.Acknowledged(2));
  EXPECT_EQ(lease.lease_end_ms(), 20'000 + 10 * kMin);
}

TEST(LeaseKeeper, RepeatedUnknownAndOlderAcksChangeNothing) {
  LeaseKeeper lease;
  lease.HelloSent(0);
  lease.Welcomed(10 * kMin, 10'000);
  lease.SendRenewal(10'000);
  lease.SendRenewal(20'000);
  EXPECT_TRUE(lease.Acknowledged(2));
  EXPECT_FALSE(lease.Acknowledged(2));
  EXPECT_FALSE(lease.Acknowledged(1));
  EXPECT_FALSE(lease.Acknowledged(77));
  EXPECT_EQ(lease.lease_end_ms(), 20'000 + 10 * kMin);
}

TEST(LeaseKeeper, ANewSessionForgetsTheRenewalsOfTheOld) {
  LeaseKeeper lease;
  lease.HelloSent(0);
  lease.Welcomed(10 * kMin, 10'000);
  EXPECT_EQ(lease.SendRenewal(10'000), 1);
  lease.SessionOver();
  EXPECT_EQ(lease.NextRenewalAtMs(), LeaseKeeper::kNever);
  lease.HelloSent(30'000);
  EXPECT_FALSE(lease.Acknowledged(1));
  EXPECT_EQ(lease.lease_end_ms(), 10 * kMin);
  EXPECT_TRUE(lease.Welcomed(10 * kMin, 10'000));
  EXPECT_EQ(lease.lease_end_ms(), 30'000 + 10 * kMin);
  EXPECT_EQ(lease.SendRenewal(40'000), 2);  // numbers go on
}

TEST(LeaseKeeper, AShorterLeaseNeverTakesAwayWhatWasGranted) {
  LeaseKeeper lease;
  lease.HelloSent(0);
  lease.Welcomed(10 * kMin, 10'000);
  lease.HelloSent(1'000);
  EXPECT_FALSE(lease.Welcomed(kMin, 10'000));
  EXPECT_EQ(lease.lease_end_ms(), 10 * kMin);
}

TEST(LeaseKeeper, PhasesTowardsTheEnd) {
  LeaseKeeper lease;
  lease.HelloSent(0);
  lease.Welcomed(10 * kMin, 10'000);
  const int64_t end = 10 * kMin;
  EXPECT_EQ(lease.PhaseAt(0), LeasePhase::kHeld);
  EXPECT_EQ(lease.NextPhaseAtMs(0), end - 60'000);
  EXPECT_EQ(lease.PhaseAt(end - 60'001), LeasePhase::kHeld);
  EXPECT_EQ(lease.PhaseAt(end - 60'000), LeasePhase::kCheckpoint);
  EXPECT_EQ(lease.NextPhaseAtMs(end - 60'000), end - 20'000);
  EXPECT_EQ(lease.PhaseAt(end - 20'000), LeasePhase::kTerm);
  EXPECT_EQ(lease.NextPhaseAtMs(end - 20'000), end - 5'000);
  EXPECT_EQ(lease.PhaseAt(end - 5'000), LeasePhase::kKill);
  EXPECT_EQ(lease.NextPhaseAtMs(end - 5'000), end);
  EXPECT_EQ(lease.PhaseAt(end), LeasePhase::kLapsed);
  EXPECT_EQ(lease.NextPhaseAtMs(end), LeaseKeeper::kNever);
}

TEST(LeaseKeeper, AShortLeaseScalesItsPhases) {
  LeaseKeeper lease;
  lease.HelloSent(0);
  lease.Welcomed(20'000, 1'000);  // a tenth of 200 s
  EXPECT_EQ(lease.PhaseAt(13'999), LeasePhase::kHeld);
  EXPECT_EQ(lease.PhaseAt(14'000), LeasePhase::kCheckpoint);
  EXPECT_EQ(lease.PhaseAt(18'000), LeasePhase::kTerm);
  EXPECT_EQ(lease.PhaseAt(19'500), LeasePhase::kKill);
}

TEST(LeaseKeeper, HostileGrantsAreClamped) {
  LeaseKeeper lease;
  lease.HelloSent(0);
  EXPECT_TRUE(lease.Welcomed(-5, 0));
  EXPECT_EQ(lease.lease_ms(), 1'000);
  EXPECT_EQ(lease.renew_every_ms(), 100);
  lease.Welcomed(INT64_MAX, INT64_MAX);
  EXPECT_EQ(lease.lease_ms(), 24LL * 3600 * 1000);
  EXPECT_EQ(lease.renew_every_ms(), lease.lease_ms() / 3);
}

TEST(LeaseKeeper, ResumesWhatTheSupervisorRemembers) {
  LeaseKeeper lease;
  lease.Resume(500'000);
  EXPECT_EQ(lease.PhaseAt(400'000), LeasePhase::kHeld);
  EXPECT_EQ(lease.PhaseAt(500'000), LeasePhase::kLapsed);
  lease.Resume(0);
  EXPECT_EQ(lease.lease_end_ms(), 500'000);
}

}  // namespace
}  // namespace spillway::worker
