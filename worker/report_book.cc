#include "worker/report_book.h"

#include <algorithm>
#include <utility>

namespace spillway::worker {

void ReportBook::Restore(SavedReports saved) {
  boot_id_ = std::move(saved.boot_id);
  acked_ = saved.acked;
  unacked_.clear();
  waiting_.clear();
  // Only an unbroken run after `acked` can keep its numbers.
  for (Report& report : saved.unacked) {
    if (report.seq <= acked_) continue;
    if (report.seq == acked_ + static_cast<int64_t>(unacked_.size()) + 1) {
      unacked_.push_back(std::move(report));
    } else {
      waiting_.push_back({std::move(report), 0});
    }
  }
}

void ReportBook::SetBoot(const std::string& boot_id) {
  if (boot_id == boot_id_) return;
  boot_id_ = boot_id;
  acked_ = 0;
  anew_ = true;
  for (Waiting& waiting : waiting_) waiting.event = 0;  // events of the life before are nothing to this one
  while (!unacked_.empty()) {
    waiting_.push_front({std::move(unacked_.back()), 0});
    unacked_.pop_back();
  }
}

std::vector<uint64_t> ReportBook::Add(Report report, uint64_t event) {
  std::vector<uint64_t> dropped;
  if (report.kind == Report::Kind::kCheckpoint) {
    size_t same = 0;
    auto oldest = waiting_.end();
    for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
      if (it->report.kind != Report::Kind::kCheckpoint || it->report.attempt != report.attempt) continue;
      if (++same == 1) oldest = it;
    }
    if (same >= kWaitingCheckpointsMax) {
      if (oldest->event != 0) dropped.push_back(oldest->event);
      waiting_.erase(oldest);
    }
  }
  waiting_.push_back({std::move(report), event});
  return dropped;
}

bool ReportBook::Attach(const AttemptId& attempt, Report::Kind kind, uint64_t event) {
  for (Waiting& waiting : waiting_) {
    if (waiting.report.kind != kind || waiting.report.attempt != attempt || waiting.event != 0) continue;
    waiting.event = event;
    return true;
  }
  return false;
}

std::vector<Report> ReportBook::Acked(int64_t durable) {
  std::vector<Report> taken;
  // A number that was never given cannot be durable: such an ack speaks only for what was given.
  while (!unacked_.empty() && unacked_.front().seq <= durable) {
    acked_ = unacked_.front().seq;
    taken.push_back(std::move(unacked_.front()));
    unacked_.pop_front();
  }
  return taken;
}

std::vector<Report> ReportBook::Welcomed(int64_t durable) {
  std::vector<Report> taken = Acked(durable);
  if (durable != acked_) {
    // What the scheduler holds durable is not what was saved here (either side lost its memory): number the rest anew after its word.
    while (!unacked_.empty()) {
      waiting_.push_front({std::move(unacked_.back()), 0});
      unacked_.pop_back();
    }
    acked_ = durable;
    anew_ = true;
  }
  return taken;
}

std::vector<Report> ReportBook::NumberWaiting(std::set<uint64_t>& finished_events) {
  std::vector<Report> numbered;
  while (!waiting_.empty() && unacked_.size() < kWindow) {
    Waiting& waiting = waiting_.front();
    waiting.report.seq = acked_ + static_cast<int64_t>(unacked_.size()) + 1;
    if (waiting.event != 0) finished_events.insert(waiting.event);
    numbered.push_back(waiting.report);
    unacked_.push_back(std::move(waiting.report));
    waiting_.pop_front();
  }
  return numbered;
}

bool ReportBook::TakeAnew() { return std::exchange(anew_, false); }

bool ReportBook::Pending(const AttemptId& attempt, Report::Kind kind) const {
  const auto is = [&](const Report& report) { return report.kind == kind && report.attempt == attempt; };
  return std::any_of(unacked_.begin(), unacked_.end(), is) ||
         std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) { return is(waiting.report); });
}

std::vector<Report> ReportBook::PendingEnds() const {
  std::vector<Report> ends;
  for (const Report& report : unacked_) {
    if (report.kind == Report::Kind::kEnded) ends.push_back(report);
  }
  for (const Waiting& waiting : waiting_) {
    if (waiting.report.kind == Report::Kind::kEnded) ends.push_back(waiting.report);
  }
  return ends;
}

}  // namespace spillway::worker
