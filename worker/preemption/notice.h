// When a machine will be taken away, as this worker understands it. Pure: readings and times in, notices out; no clock, no I/O, no threads.
//
// A cloud's answer names a wall-clock time, or none. Only here does the wall clock enter: the time left is taken from it once, on receipt,
// and everything after counts on the steady clock. The deadline a job gets is earlier than the machine's end by a margin, and never later than
// the provider's usual lead allows, so that a wrong wall clock cannot promise time that is not there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace spillway::preemption {

// What one look at a source found.
struct Reading {
  enum class Kind { kNone, kAdvisory, kNotice };
  Kind kind = Kind::kNone;
  std::optional<int64_t> gone_at_utc_ms;  // the end as the provider names it
  std::optional<int64_t> lead_ms;         // the time left as the provider names it; for providers that give no clock time
  bool readable = true;                   // false: something is said, but not in a form we know; it counts as a notice
  std::string raw;                        // what was said, cut to kRawBytesMax
};
inline constexpr size_t kRawBytesMax = 512;

// How much time a provider gives.
struct ProviderLead {
  int64_t usual_ms = 0;    // assumed when no time is named, and never exceeded by a named one
  int64_t minimum_ms = 0;  // assumed when the answer cannot be read
};

// Kept between a job's deadline and the machine's end: the larger of a fixed time and a share of the time left.
struct Margin {
  int64_t fixed_ms = 5'000;
  int64_t percent = 10;
};

enum class NoticeKind { kAdvisory, kNotice };

struct Notice {
  NoticeKind kind = NoticeKind::kNotice;
  int64_t deadline_steady_ms = 0;  // be done by then; meaningless for an advisory
  int64_t left_ms = 0;             // from receipt to that deadline; 0 for an advisory
  std::string source;              // "aws", "gcp", ...
  std::string raw;
};

// NONE -> ADVISORY -> NOTICE -> DRAINING; never back. What a provider takes back (a withdrawn advice, a 404 after a notice) changes nothing:
// acting on a notice that proves empty costs a move, ignoring one that was real costs the work.
class NoticeTracker {
 public:
  enum class State { kNone, kAdvisory, kNotice, kDraining };

  NoticeTracker(std::string source, ProviderLead lead, Margin margin) : source_(std::move(source)), lead_(lead), margin_(margin) {}

  // The notice to pass on, if this reading says anything new: a first advice, a first notice, or an end that has come markedly closer
  // (by more than a tenth of what was left). Repetitions and later ends say nothing.
  std::optional<Notice> Feed(const Reading& reading, int64_t now_utc_ms, int64_t now_steady_ms);
  // The worker has begun to empty the machine.
  void BeginDraining() { state_ = State::kDraining; }

  State state() const { return state_; }
  // Requires a notice to have been passed on.
  int64_t deadline_steady_ms() const { return deadline_steady_ms_.value(); }
  bool has_deadline() const { return deadline_steady_ms_.has_value(); }

 private:
  std::string source_;
  ProviderLead lead_;
  Margin margin_;
  State state_ = State::kNone;
  std::optional<int64_t> deadline_steady_ms_;
};

// The time left until a job must be done: what the reading gives, held to the provider's lead, less the margin; never negative.
int64_t LeftMs(const Reading& reading, const ProviderLead& lead, const Margin& margin, int64_t now_utc_ms);

}  // namespace spillway::preemption
