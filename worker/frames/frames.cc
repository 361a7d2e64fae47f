#include "worker/frames/frames.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/limits.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "worker/frames/wire.h"

namespace spillway {
// Found by argument-dependent lookup: AttemptId lives here.
template <typename A>
void Fields(A& a, AttemptId& v) {
  a(1, v.job), a(2, v.index), a(3, v.number);
}
}  // namespace spillway

namespace spillway::frames {
namespace {

constexpr size_t kRlimitsMax = 32;
constexpr size_t kInventoryItemsMax = 8192;

// Numbers of kinds and fields are the protocol: never reuse one.
enum class Kind : uint8_t {
  kHello = 1,
  kStart = 2,
  kRenew = 3,
  kNotice = 4,
  kStop = 5,
  kKill = 6,
  kList = 7,
  kAck = 8,
  kShutdown = 9,
  kInventory = 65,
  kReply = 66,
  kStarted = 67,
  kProgress = 68,
  kCheckpoint = 69,
  kStopping = 70,
  kExited = 71,
};

}  // namespace

// The lists of fields stand in the structs' own namespace: wire.h finds them by their argument.
template <typename A>
void Fields(A& a, AttemptRef& v) {
  a(1, v.key), a(2, v.id);
}
template <typename A>
void Fields(A& a, Hello& v) {
  a(1, v.version), a(2, v.client);
}
template <typename A>
void Fields(A& a, ResourceLimit& v) {
  a(1, v.resource), a(2, v.soft), a(3, v.hard);
}
template <typename A>
void Fields(A& a, Start& v) {
  a(1, v.attempt), a(2, v.argv, limits::kArgvCountMax), a(3, v.env, limits::kEnvCountMax), a(4, v.cwd), a(5, v.log_path);
  a(6, v.socket_path), a(7, v.notice_path), a(8, v.stop_signal), a(9, v.grace_ms), a(10, v.max_duration_ms), a(11, v.memory_bytes);
  a(12, v.pids_max), a(13, v.log_bytes_max), a(14, v.lease_bound), a(15, v.rlimits, kRlimitsMax), a(16, v.tag), a(17, v.cpu_milli);
}
template <typename A>
void Fields(A& a, Renew& v) {
  a(1, v.lease_end_boottime_ms), a(2, v.lease_ms);
}
template <typename A>
void Fields(A& a, Notice& v) {
  a(1, v.deadline_boottime_ms), a(2, v.initiator), a(3, v.reason);
}
template <typename A>
void Fields(A& a, Stop& v) {
  a(1, v.key), a(2, v.cause), a(3, v.initiator), a(4, v.reason), a(5, v.detail), a(6, v.grace_ms), a(7, v.deadline_boottime_ms);
}
template <typename A>
void Fields(A& a, Kill& v) {
  a(1, v.key), a(2, v.cause), a(3, v.initiator), a(4, v.detail);
}
template <typename A>
void Fields(A&, List&) {}
template <typename A>
void Fields(A& a, Ack& v) {
  a(1, v.number);
}
template <typename A>
void Fields(A&, Shutdown&) {}
template <typename A>
void Fields(A& a, Reply& v) {
  a(1, v.request), a(2, v.code), a(3, v.message);
}
template <typename A>
void Fields(A& a, Metric& v) {
  a(1, v.name), a(2, v.value);
}
template <typename A>
void Fields(A& a, Started& v) {
  a(1, v.pid), a(2, v.start_ticks), a(3, v.cgroup), a(4, v.memory_enforced), a(5, v.pids_enforced);
}
template <typename A>
void Fields(A& a, Progress& v) {
  a(1, v.step), a(2, v.total), a(3, v.metrics, limits::kMetricsPerProgressMax);
}
template <typename A>
void Fields(A& a, Checkpoint& v) {
  a(1, v.step), a(2, v.path), a(3, v.json);
}
template <typename A>
void Fields(A& a, Stopping& v) {
  a(1, v.cause), a(2, v.initiator), a(3, v.reason), a(4, v.kill_at_boottime_ms);
}
template <typename A>
void Fields(A& a, ExitFacts& v) {
  a(1, v.exited), a(2, v.exit_code), a(3, v.signal), a(4, v.launch_errno), a(5, v.launch_error), a(6, v.launch_error_is_jobs);
  a(7, v.supervisor_lost), a(8, v.stop_cause), a(9, v.stop_initiator), a(10, v.stop_detail), a(11, v.stop_delivered);
  a(12, v.stop_withdrawn), a(13, v.killed), a(14, v.lease_lapsed), a(15, v.out_of_memory), a(16, v.said_completed), a(17, v.last_step);
  a(18, v.last_total), a(19, v.has_progress), a(20, v.checkpoints), a(21, v.last_checkpoint_step), a(22, v.garbage_messages);
  a(23, v.started_boottime_ms), a(24, v.ended_boottime_ms), a(25, v.cpu_ms), a(26, v.memory_peak_bytes), a(27, v.log_bytes);
  a(28, v.log_error), a(29, v.leftovers_killed), a(30, v.forks_refused), a(31, v.disk_full), a(32, v.disk_full_is_jobs);
}
template <typename A>
void Fields(A& a, Exited& v) {
  a(1, v.facts);
}
template <typename A>
void Fields(A& a, InventoryItem& v) {
  a(1, v.attempt), a(2, v.state), a(3, v.pid), a(4, v.started_boottime_ms), a(5, v.progress), a(6, v.checkpoints), a(7, v.stop_cause);
  a(8, v.kill_at_boottime_ms), a(9, v.log_path), a(10, v.log_bytes), a(11, v.tag);
}
template <typename A>
void Fields(A& a, Inventory& v) {
  a(1, v.version), a(2, v.boot_id), a(3, v.pid), a(4, v.build), a(5, v.containment), a(6, v.memory_limits), a(7, v.lease_end_boottime_ms);
  a(8, v.items, kInventoryItemsMax), a(9, v.more), a(10, v.pids_limits), a(11, v.reaper_because);
}

// What wraps the message of a command or an event.
struct Envelope {
  uint64_t number = 0;
  AttemptRef attempt;
  int64_t at_boottime_ms = 0;
  std::string body;
};
template <typename A>
void Fields(A& a, Envelope& v) {
  a(1, v.number), a(2, v.attempt), a(3, v.at_boottime_ms), a(4, v.body);
}

namespace {

Kind KindOf(const Hello&) { return Kind::kHello; }
Kind KindOf(const Start&) { return Kind::kStart; }
Kind KindOf(const Renew&) { return Kind::kRenew; }
Kind KindOf(const Notice&) { return Kind::kNotice; }
Kind KindOf(const Stop&) { return Kind::kStop; }
Kind KindOf(const Kill&) { return Kind::kKill; }
Kind KindOf(const List&) { return Kind::kList; }
Kind KindOf(const Ack&) { return Kind::kAck; }
Kind KindOf(const Shutdown&) { return Kind::kShutdown; }
Kind KindOf(const Started&) { return Kind::kStarted; }
Kind KindOf(const Progress&) { return Kind::kProgress; }
Kind KindOf(const Checkpoint&) { return Kind::kCheckpoint; }
Kind KindOf(const Stopping&) { return Kind::kStopping; }
Kind KindOf(const Exited&) { return Kind::kExited; }

std::string Head(Kind kind) { return {static_cast<char>(kProtocolVersion), static_cast<char>(kind)}; }

absl::StatusOr<std::string> Bounded(std::string frame) {
  if (frame.size() > limits::kSupervisorFrameBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a frame of ", frame.size(), " bytes is more than ", limits::kSupervisorFrameBytesMax));
  }
  return frame;
}

absl::Status NotAFrame(absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat("not a supervisor frame: ", why)); }

absl::StatusOr<Kind> TakeHead(absl::string_view& bytes) {
  if (bytes.size() > limits::kSupervisorFrameBytesMax) return NotAFrame("too long");
  if (bytes.size() < 2) return NotAFrame("too short");
  if (bytes[0] != static_cast<char>(kProtocolVersion)) {
    return absl::FailedPreconditionError(
        absl::StrCat("supervisor frame of format ", static_cast<int>(static_cast<uint8_t>(bytes[0])), "; this program speaks ", kProtocolVersion));
  }
  const auto kind = static_cast<Kind>(bytes[1]);
  bytes.remove_prefix(2);
  return kind;
}

template <typename T, typename V>
bool DecodeInto(absl::string_view body, V& what) {
  T value;
  if (!wire::DecodeFields(body, value)) return false;
  what = std::move(value);
  return true;
}

std::string EncodeEvent(const Event& event) {
  return std::visit(
      [&](const auto& what) {
        Envelope envelope{event.number, event.attempt, event.at_boottime_ms, {}};
        wire::EncodeFields(envelope.body, what);
        std::string frame = Head(KindOf(what));
        wire::EncodeFields(frame, envelope);
        return frame;
      },
      event.what);
}

}  // namespace

absl::StatusOr<std::string> Encode(const ToSupervisor& to) {
  return Bounded(std::visit(
      [&](const auto& what) {
        Envelope envelope;
        envelope.number = to.request;
        wire::EncodeFields(envelope.body, what);
        std::string frame = Head(KindOf(what));
        wire::EncodeFields(frame, envelope);
        return frame;
      },
      to.what));
}

absl::StatusOr<std::string> Encode(const FromSupervisor& from) {
  std::string frame;
  if (const auto* inventory = std::get_if<Inventory>(&from)) {
    frame = Head(Kind::kInventory);
    wire::EncodeFields(frame, *inventory);
  } else if (const auto* reply = std::get_if<Reply>(&from)) {
    frame = Head(Kind::kReply);
    wire::EncodeFields(frame, *reply);
  } else {
    frame = EncodeEvent(std::get<Event>(from));
  }
  return Bounded(std::move(frame));
}

absl::StatusOr<ToSupervisor> DecodeToSupervisor(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Kind kind, TakeHead(bytes));
  Envelope envelope;
  if (!wire::DecodeFields(bytes, envelope)) return NotAFrame("bad envelope");
  ToSupervisor to;
  to.request = envelope.number;
  bool ok = false;
  switch (kind) {
    case Kind::kHello: ok = DecodeInto<Hello>(envelope.body, to.what); break;
    case Kind::kStart: ok = DecodeInto<Start>(envelope.body, to.what); break;
    case Kind::kRenew: ok = DecodeInto<Renew>(envelope.body, to.what); break;
    case Kind::kNotice: ok = DecodeInto<Notice>(envelope.body, to.what); break;
    case Kind::kStop: ok = DecodeInto<Stop>(envelope.body, to.what); break;
    case Kind::kKill: ok = DecodeInto<Kill>(envelope.body, to.what); break;
    case Kind::kList: ok = DecodeInto<List>(envelope.body, to.what); break;
    case Kind::kAck: ok = DecodeInto<Ack>(envelope.body, to.what); break;
    case Kind::kShutdown: ok = DecodeInto<Shutdown>(envelope.body, to.what); break;
    default: return NotAFrame(absl::StrCat("kind ", static_cast<int>(kind), " is no command"));
  }
  if (!ok) return NotAFrame(absl::StrCat("bad fields in kind ", static_cast<int>(kind)));
  return to;
}

absl::StatusOr<FromSupervisor> DecodeFromSupervisor(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Kind kind, TakeHead(bytes));
  FromSupervisor from;
  if (kind == Kind::kInventory) {
    if (!DecodeInto<Inventory>(bytes, from)) return NotAFrame("bad inventory");
    return from;
  }
  if (kind == Kind::kReply) {
    if (!DecodeInto<Reply>(bytes, from)) return NotAFrame("bad reply");
    return from;
  }
  Envelope envelope;
  if (!wire::DecodeFields(bytes, envelope)) return NotAFrame("bad envelope");
  Event event{envelope.number, std::move(envelope.attempt), envelope.at_boottime_ms, {}};
  bool ok = false;
  switch (kind) {
    case Kind::kStarted: ok = DecodeInto<Started>(envelope.body, event.what); break;
    case Kind::kProgress: ok = DecodeInto<Progress>(envelope.body, event.what); break;
    case Kind::kCheckpoint: ok = DecodeInto<Checkpoint>(envelope.body, event.what); break;
    case Kind::kStopping: ok = DecodeInto<Stopping>(envelope.body, event.what); break;
    case Kind::kExited: ok = DecodeInto<Exited>(envelope.body, event.what); break;
    default: return NotAFrame(absl::StrCat("kind ", static_cast<int>(kind), " is no event"));
  }
  if (!ok) return NotAFrame(absl::StrCat("bad fields in kind ", static_cast<int>(kind)));
  return FromSupervisor(std::move(event));
}

std::string EncodeExit(const AttemptRef& attempt, const ExitFacts& facts, int64_t at_boottime_ms) {
  return EncodeEvent(Event{0, attempt, at_boottime_ms, Exited{facts}});
}

absl::StatusOr<Event> DecodeExit(absl::string_view bytes) {
  ASSIGN_OR_RETURN(FromSupervisor from, DecodeFromSupervisor(bytes));
  auto* event = std::get_if<Event>(&from);
  if (event == nullptr || !std::holds_alternative<Exited>(event->what)) return NotAFrame("not an exit");
  return std::move(*event);
}

namespace {

absl::Status Bad(absl::string_view field, absl::string_view why) { return absl::InvalidArgumentError(absl::StrCat("start.", field, ": ", why)); }

absl::Status CheckPath(absl::string_view field, const std::string& path, size_t limit) {
  if (path.empty()) return absl::OkStatus();
  if (path[0] != '/') return Bad(field, absl::StrCat("'", Printable(path), "' is not an absolute path"));
  if (path.size() > limit) return Bad(field, absl::StrCat("longer than ", limit, " bytes"));
  if (path.find('\0') != std::string::npos) return Bad(field, "has a NUL byte");
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const Start& start) {
  const std::string& key = start.attempt.key;
  if (key.empty() || key.size() > kAttemptKeyBytesMax) return Bad("attempt.key", absl::StrCat("1 to ", kAttemptKeyBytesMax, " bytes"));
  for (const char c : key) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) return Bad("attempt.key", absl::StrCat("'", Printable(key), "' has a space or control character"));
  }
  if (start.argv.empty() || start.argv[0].empty()) return Bad("argv", "no command");
  size_t bytes = 0;
  for (const auto* list : {&start.argv, &start.env}) {
    for (const std::string& text : *list) {
      bytes += text.size() + 1;
      if (text.find('\0') != std::string::npos) return Bad(list == &start.argv ? "argv" : "env", "has a NUL byte");
    }
  }
  if (start.argv.size() > limits::kArgvCountMax) return Bad("argv", absl::StrCat("more than ", limits::kArgvCountMax, " words"));
  if (start.env.size() > limits::kEnvCountMax) return Bad("env", absl::StrCat("more than ", limits::kEnvCountMax, " variables"));
  if (bytes > limits::kArgvBytesMax) return Bad("argv", absl::StrCat("argv and env together are ", bytes, " bytes, more than ", limits::kArgvBytesMax));
  for (const std::string& pair : start.env) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) return Bad("env", absl::StrCat("'", Printable(pair.substr(0, equals), 40), "' is not NAME=VALUE"));
  }
  RETURN_IF_ERROR(CheckPath("cwd", start.cwd, 4095));
  RETURN_IF_ERROR(CheckPath("log_path", start.log_path, 4095));
  RETURN_IF_ERROR(CheckPath("socket_path", start.socket_path, 107));
  RETURN_IF_ERROR(CheckPath("notice_path", start.notice_path, 4095 - 16));
  if (start.stop_signal < 1 || start.stop_signal > 64) return Bad("stop_signal", "not a signal");
  const std::pair<const char*, int64_t> counts[] = {{"grace_ms", start.grace_ms},
                                                    {"max_duration_ms", start.max_duration_ms},
                                                    {"memory_bytes", start.memory_bytes},
                                                    {"pids_max", start.pids_max},
                                                    {"log_bytes_max", start.log_bytes_max}};
  for (const auto& [field, value] : counts) {
    if (value < 0 || value > int64_t{1} << 53) return Bad(field, absl::StrCat(value, " is out of range"));
  }
  for (const ResourceLimit& limit : start.rlimits) {
    if (limit.resource < 0 || limit.resource > 15) return Bad("rlimits", absl::StrCat("no resource ", limit.resource));
  }
  if (start.tag.size() > kTagBytesMax) return Bad("tag", absl::StrCat("more than ", kTagBytesMax, " bytes"));
  return absl::OkStatus();
}

}  // namespace spillway::frames
