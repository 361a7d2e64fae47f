// The numbering of reports: from 1 per boot_id, without gaps, kept until the scheduler says they are durable.
//
// The rule that makes it survive a restart of the worker: a report gets its number only in a welcomed session, and is saved (SaveReports) with that
// number before it is sent. So a number always means the same content, and what has no number yet follows again from supervisor events that were
// not acked. When what was saved is lost, nothing is numbered, and numbering goes on after the number that the welcome says is durable.
// With a new boot_id (the supervisor, or the machine, began a new life) unacked reports are numbered anew from 1.
//
// Pure and bounded: of an attempt's checkpoints that wait for a number only the newest kWaitingCheckpointsMax are kept, and at most kWindow
// numbered ones are unacked at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/session_frames.h"

namespace spillway::worker {

// What the last life of the worker saved.
struct SavedReports {
  std::string boot_id;
  int64_t acked = 0;            // every report up to here is durable
  std::vector<Report> unacked;  // numbered, growing
};

class ReportBook {
 public:
  static constexpr size_t kWindow = 4'096;
  static constexpr size_t kWaitingCheckpointsMax = 16;

  void Restore(SavedReports saved);
  // The supervisor's life. Another one than before: numbers start at 1 and everything unacked waits for a number again.
  void SetBoot(const std::string& boot_id);
  const std::string& boot_id() const { return boot_id_; }

  // `event`: the supervisor event it follows from, 0 for none. Returns events that no longer matter (a dropped older checkpoint).
  std::vector<uint64_t> Add(Report report, uint64_t event);

  // Another event that says the same as a report which waits (a new supervisor's word about an end that is known): true when there is one.
  bool Attach(const AttemptId& attempt, Report::Kind kind, uint64_t event);

  // The welcome: everything up to `durable` is taken, and numbers go on from there. Returns the reports that are now durable.
  std::vector<Report> Welcomed(int64_t durable);
  std::vector<Report> Acked(int64_t durable);

  // Gives numbers to what waits, as far as the window allows: to be saved, then sent. `finished_events` gets the events they follow from.
  std::vector<Report> NumberWaiting(std::set<uint64_t>& finished_events);
  // True, once, when numbering began anew since the last call (another boot, or a welcome that did not fit): what was saved no longer holds.
  bool TakeAnew();

  const std::deque<Report>& unacked() const { return unacked_; }
  bool empty() const { return unacked_.empty() && waiting_.empty(); }
  size_t waiting() const { return waiting_.size(); }
  int64_t acked() const { return acked_; }
  // True when a report of this kind about the attempt is waiting or unacked.
  bool Pending(const AttemptId& attempt, Report::Kind kind) const;
  // Attempts whose Ended is not durable yet, in order.
  std::vector<Report> PendingEnds() const;

 private:
  struct Waiting {
    Report report;
    uint64_t event = 0;
  };
  std::string boot_id_;
  int64_t acked_ = 0;
  bool anew_ = false;
  std::deque<Report> unacked_;  // seq acked_ + 1, acked_ + 2, ...
  std::deque<Waiting> waiting_;
};

}  // namespace spillway::worker
