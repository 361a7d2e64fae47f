// The node's lease, as the worker counts it: from the moment the last acknowledged renewal was SENT, so that whatever the network does to the
// answer, the worker never believes in authority that the scheduler has already taken back.
//
// Pure: times come in as steady milliseconds, nothing is read. The hello counts as renewal 0 and the welcome as its acknowledgement.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <utility>

namespace spillway::worker {

// What the lease allows at a moment. The supervisor acts on the same rule by itself; the worker uses it to start nothing new near the end.
enum class LeasePhase {
  kNone,  // never granted
  kHeld,
  kCheckpoint,  // from end - 60 s: jobs are asked for a checkpoint
  kTerm,        // from end - 20 s: stop signal
  kKill,        // from end - 5 s: SIGKILL of the trees
  kLapsed,
};

class LeaseKeeper {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // A lease known from before (the supervisor remembers it over a restart of the worker). 0 does nothing.
  void Resume(int64_t lease_end_ms);

  // A session: hello sent at `now`; welcomed; over. Between sessions nothing is sent and the lease runs down.
  void HelloSent(int64_t now_ms);
  // True when the lease moved. Values of the peer are clamped to sane ones (lease 1 s .. 24 h, renewals at most a third of the lease apart).
  bool Welcomed(int64_t lease_ms, int64_t renew_every_ms);
  void SessionOver();

  // When the next renewal is due; kNever between sessions. Every renew_every_ms from the one before, whether or not that was acknowledged.
  int64_t NextRenewalAtMs() const { return next_renewal_at_ms_; }
  // Number of the renewal that the caller sends at `now`. Numbers grow over all sessions.
  int64_t SendRenewal(int64_t now_ms);
  // True when the lease moved. Unknown, repeated and older numbers are harmless.
  bool Acknowledged(int64_t number);

  int64_t lease_end_ms() const { return lease_end_ms_; }  // 0: none
  int64_t lease_ms() const { return lease_ms_; }          // length granted, 0 before the first welcome
  int64_t renew_every_ms() const { return renew_every_ms_; }
  LeasePhase PhaseAt(int64_t now_ms) const;
  // When the phase changes next without another renewal; kNever when lapsed or never granted.
  int64_t NextPhaseAtMs(int64_t now_ms) const;

 private:
  int64_t PhaseStartMs(int64_t before_ms) const;

  int64_t lease_end_ms_ = 0;
  int64_t lease_ms_ = 0;
  int64_t renew_every_ms_ = 0;
  int64_t next_renewal_at_ms_ = kNever;
  int64_t last_number_ = 0;
  int64_t hello_sent_ms_ = 0;
  std::deque<std::pair<int64_t, int64_t>> sent_;  // (number, sent at), of the session, newest kSentMax
};

}  // namespace spillway::worker
