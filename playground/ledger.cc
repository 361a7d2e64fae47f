#include "playground/ledger.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "playground/instance_json.h"

namespace spillway::playground {
namespace {

using Json = nlohmann::json;

constexpr size_t kLedgerBytesMax = size_t{4} << 30;

struct Encoder {
  Json* out;

  void operator()(const Opened& e) const {
    (*out)["event"] = "opened";
    (*out)["cloud_id"] = e.cloud_id;
    (*out)["boot_id"] = e.boot_id;
    (*out)["steady_ms"] = e.steady_ms;
    (*out)["utc_ms"] = e.utc_ms;
    (*out)["seed"] = e.seed;
    (*out)["scale"] = e.scale;
  }
  void operator()(const Created& e) const {
    (*out)["event"] = "created";
    (*out)["instance"] = e.instance;
    (*out)["request"] = JsonOf(e.request);
    (*out)["terms"] = JsonOf(e.terms);
    (*out)["ordinal"] = e.ordinal;
    (*out)["boot_until_ms"] = e.boot_until_ms;
    (*out)["announce_at_ms"] = e.announce_at_ms;
    (*out)["gone_at_ms"] = e.gone_at_ms;
    (*out)["boot_fails"] = e.boot_fails;
  }
  void operator()(const Started& e) const {
    (*out)["event"] = "started";
    (*out)["instance"] = e.instance;
    (*out)["pid"] = e.pid;
    (*out)["start_ticks"] = e.start_ticks;
  }
  void operator()(const ReclaimOrdered& e) const {
    (*out)["event"] = "reclaim_ordered";
    (*out)["instance"] = e.instance;
    (*out)["announce_at_ms"] = e.announce_at_ms;
    (*out)["gone_at_ms"] = e.gone_at_ms;
  }
  void operator()(const Announced& e) const {
    (*out)["event"] = "announced";
    (*out)["instance"] = e.instance;
  }
  void operator()(const Ending& e) const {
    (*out)["event"] = "ending";
    (*out)["instance"] = e.instance;
    (*out)["reason"] = std::string(NameOf(e.reason));
    (*out)["detail"] = e.detail;
    (*out)["billed_ms"] = e.billed_ms;
    (*out)["charge_micros"] = e.charge_micros;
  }
  void operator()(const Gone& e) const {
    (*out)["event"] = "gone";
    (*out)["instance"] = e.instance;
  }
};

// Throws Json::exception on a missing or mistyped field; DecodeEvent turns it into a status.
absl::StatusOr<Event> Decode(const Json& in) {
  Event event;
  event.at_ms = in.at("at_ms").get<int64_t>();
  const std::string kind = in.at("event").get<std::string>();
  if (kind == "opened") {
    event.what = Opened{in.at("cloud_id"), in.at("boot_id"), in.at("steady_ms"), in.at("utc_ms"), in.at("seed"), in.at("scale")};
  } else if (kind == "created") {
    Created created;
    created.instance = in.at("instance");
    ASSIGN_OR_RETURN(created.request, RequestFromJson(in.at("request")));
    created.terms = TermsFromJson(in.at("terms"));
    created.ordinal = in.at("ordinal");
    created.boot_until_ms = in.at("boot_until_ms");
    created.announce_at_ms = in.at("announce_at_ms");
    created.gone_at_ms = in.at("gone_at_ms");
    created.boot_fails = in.at("boot_fails");
    event.what = std::move(created);
  } else if (kind == "started") {
    event.what = Started{in.at("instance"), in.at("pid"), in.at("start_ticks")};
  } else if (kind == "reclaim_ordered") {
    event.what = ReclaimOrdered{in.at("instance"), in.at("announce_at_ms"), in.at("gone_at_ms")};
  } else if (kind == "announced") {
    event.what = Announced{in.at("instance")};
  } else if (kind == "ending") {
    const std::optional<EndReason> reason = EndReasonOf(in.at("reason").get<std::string>());
    if (!reason.has_value()) return absl::DataLossError("unknown end reason");
    event.what = Ending{in.at("instance"), *reason, in.at("detail"), in.at("billed_ms"), in.at("charge_micros")};
  } else if (kind == "gone") {
    event.what = Gone{in.at("instance")};
  } else {
    return absl::DataLossError("unknown event");
  }
  return event;
}

}  // namespace

std::string EncodeEvent(const Event& event) {
  Json out{{"at_ms", event.at_ms}};
  std::visit(Encoder{&out}, event.what);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<Event> DecodeEvent(absl::string_view line) {
  try {
    return Decode(Json::parse(line.begin(), line.end()));
  } catch (const Json::exception& e) {
    return absl::DataLossError(e.what());
  }
}

absl::StatusOr<Ledger> Ledger::Open(const std::string& path, Cloud* cloud) {
  const bool is_new = !PathExists(path);
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  Ledger ledger(fd, path);
  if (is_new) {
    const size_t slash = path.rfind('/');
    RETURN_IF_ERROR(FsyncDirectory(slash == std::string::npos ? "." : path.substr(0, slash)));
    return ledger;
  }
  ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kLedgerBytesMax));
  size_t begin = 0;
  int64_t line_number = 0;
  while (begin < content.size()) {
    const size_t end = content.find('\n', begin);
    ++line_number;
    if (end == std::string::npos) {
      LOG(WARNING) << path << ":" << line_number << ": cutting off an unfinished last line of " << content.size() - begin << " bytes";
      if (ftruncate(fd, static_cast<off_t>(begin)) != 0) return ErrnoStatus(errno, absl::StrCat("truncate ", path));
      break;
    }
    absl::StatusOr<Event> event = DecodeEvent(absl::string_view(content).substr(begin, end - begin));
    if (!event.ok()) return absl::DataLossError(absl::StrCat(path, ":", line_number, ": ", event.status().message()));
    if (absl::Status status = cloud->Admissible(*event); !status.ok()) {
      return absl::DataLossError(absl::StrCat(path, ":", line_number, ": ", status.message()));
    }
    cloud->Apply(*event);
    begin = end + 1;
  }
  return ledger;
}

Ledger::Ledger(Ledger&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

Ledger::~Ledger() {
  if (fd_ >= 0) close(fd_);
}

absl::Status Ledger::Append(const std::vector<Event>& events) {
  if (events.empty()) return absl::OkStatus();
  std::string lines;
  for (const Event& event : events) absl::StrAppend(&lines, EncodeEvent(event), "\n");
  RETURN_IF_ERROR(WriteAll(fd_, lines, path_));
  if (fdatasync(fd_) != 0) return ErrnoStatus(errno, absl::StrCat("sync ", path_));
  return absl::OkStatus();
}

}  // namespace spillway::playground
