#include "worker/preemption/answers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/units.h"

namespace spillway::preemption {
namespace {

using Json = nlohmann::json;

std::string Raw(absl::string_view body) { return Printable(body, kRawBytesMax); }

Reading Unreadable(absl::string_view body) {
  Reading reading;
  reading.kind = Reading::Kind::kNotice;
  reading.readable = false;
  reading.raw = Raw(body);
  return reading;
}

Reading NoticeAt(int64_t gone_at_utc_ms, absl::string_view body) {
  Reading reading;
  reading.kind = Reading::Kind::kNotice;
  reading.gone_at_utc_ms = gone_at_utc_ms;
  reading.raw = Raw(body);
  return reading;
}

// OK: there is a body to read (true), or the source has nothing to say (false).
absl::StatusOr<bool> HasAnswer(int status) {
  if (status == 200) return true;
  if (status == 404) return false;
  if (status == 401) return absl::UnauthenticatedError("the metadata service wants a new token");
  return absl::UnavailableError(absl::StrCat("the metadata service answered with status ", status));
}

// The text of an object's field, or "".
std::string TextAt(const Json& json, const char* key) {
  if (!json.is_object() || !json.contains(key) || !json[key].is_string()) return "";
  return json[key].get<std::string>();
}

Json ParseJson(absl::string_view body) { return Json::parse(body.begin(), body.end(), nullptr, /*allow_exceptions=*/false); }

}  // namespace

absl::StatusOr<Reading> ReadAwsInstanceAction(int status, absl::string_view body) {
  ASSIGN_OR_RETURN(const bool answered, HasAnswer(status));
  if (!answered) return Reading{};
  const Json json = ParseJson(body);
  const absl::StatusOr<int64_t> time = ParseUtcMs(TextAt(json, "time"));
  Reading reading = time.ok() ? NoticeAt(*time, body) : Unreadable(body);
  if (TextAt(json, "action") == "hibernate") reading.lead_ms = 0;  // begins at once
  return reading;
}

absl::StatusOr<Reading> ReadAwsRebalance(int status, absl::string_view body) {
  ASSIGN_OR_RETURN(const bool answered, HasAnswer(status));
  if (!answered) return Reading{};
  Reading reading;
  reading.kind = Reading::Kind::kAdvisory;
  reading.raw = Raw(body);
  return reading;
}

absl::StatusOr<Reading> ReadAlibaba(int status, absl::string_view body) {
  ASSIGN_OR_RETURN(const bool answered, HasAnswer(status));
  if (!answered) return Reading{};
  const absl::StatusOr<int64_t> time = ParseUtcMs(absl::StripAsciiWhitespace(body));
  return time.ok() ? NoticeAt(*time, body) : Unreadable(body);
}

absl::StatusOr<Reading> ReadTencent(int status, absl::string_view body) {
  ASSIGN_OR_RETURN(const bool answered, HasAnswer(status));
  if (!answered) return Reading{};
  const absl::StatusOr<int64_t> time = ParseBeijingMs(absl::StripAsciiWhitespace(body));
  return time.ok() ? NoticeAt(*time, body) : Unreadable(body);
}

absl::StatusOr<Reading> ReadGcp(int status, absl::string_view body) {
  ASSIGN_OR_RETURN(const bool answered, HasAnswer(status));
  const absl::string_view word = absl::StripAsciiWhitespace(body);
  if (!answered || absl::EqualsIgnoreCase(word, "FALSE")) return Reading{};
  if (!absl::EqualsIgnoreCase(word, "TRUE")) return Unreadable(body);
  Reading reading;
  reading.kind = Reading::Kind::kNotice;
  reading.raw = Raw(body);
  return reading;
}

absl::StatusOr<Reading> ReadAzure(int status, absl::string_view body, absl::string_view vm_name, std::string* event_id) {
  ASSIGN_OR_RETURN(const bool answered, HasAnswer(status));
  if (!answered) return Reading{};
  const Json json = ParseJson(body);
  if (!json.is_object() || !json.contains("Events") || !json["Events"].is_array()) return Unreadable(body);
  Reading found;
  for (const Json& event : json["Events"]) {
    const Json resources = event.is_object() && event.contains("Resources") && event["Resources"].is_array() ? event["Resources"] : Json::array();
    const bool ours = vm_name.empty() || std::any_of(resources.begin(), resources.end(), [&](const Json& resource) {
                        return resource.is_string() && absl::EqualsIgnoreCase(resource.get_ref<const std::string&>(), vm_name);
                      });
    if (!ours) continue;
    const std::string type = TextAt(event, "EventType");
    if (type == "Freeze") continue;  // a pause of seconds: nothing is lost
    Reading reading = Unreadable(event.dump(-1, ' ', false, Json::error_handler_t::replace));
    const absl::StatusOr<int64_t> time = ParseHttpDateMs(TextAt(event, "NotBefore"));
    if (time.ok()) reading = NoticeAt(*time, reading.raw);
    if (TextAt(event, "EventStatus") == "Started") reading.lead_ms = 0;
    // Of several the soonest counts; one without a readable time is taken as soon.
    const bool sooner = found.kind == Reading::Kind::kNone || (found.readable && !reading.readable) ||
                        (found.gone_at_utc_ms.has_value() && reading.gone_at_utc_ms.has_value() && *reading.gone_at_utc_ms < *found.gone_at_utc_ms) ||
                        (reading.lead_ms.has_value() && !found.lead_ms.has_value());
    if (!sooner) continue;
    found = reading;
    *event_id = TextAt(event, "EventId");
  }
  return found;
}

Reading ReadFileContent(absl::string_view content) {
  const absl::string_view text = absl::StripAsciiWhitespace(content);
  Reading reading;
  reading.raw = Raw(text);
  if (text == "advisory") {
    reading.kind = Reading::Kind::kAdvisory;
    return reading;
  }
  if (const absl::StatusOr<int64_t> time = ParseUtcMs(text); time.ok()) return NoticeAt(*time, text);
  if (const absl::StatusOr<int64_t> lead = ParseDurationMs(text); lead.ok()) {
    reading.kind = Reading::Kind::kNotice;
    reading.lead_ms = *lead;
    return reading;
  }
  return Unreadable(text);
}

absl::StatusOr<int64_t> ParseHttpDateMs(absl::string_view text) {
  static constexpr absl::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  if (words.size() == 6 && words[1].size() == 2 && words[5] == "GMT") {
    const auto month = std::find(std::begin(kMonths), std::end(kMonths), words[2]);
    if (month != std::end(kMonths)) {
      return ParseUtcMs(absl::StrFormat("%s-%02d-%sT%sZ", words[3], month - std::begin(kMonths) + 1, words[1], words[4]));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' is not a time of the form Mon, 19 Sep 2016 18:29:47 GMT"));
}

absl::StatusOr<int64_t> ParseBeijingMs(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  if (words.size() != 2) return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' is not a time of the form 2018-08-18 12:05:33"));
  ASSIGN_OR_RETURN(const int64_t local_ms, ParseUtcMs(absl::StrCat(words[0], "T", words[1], "Z")));
  return local_ms - 8 * 3'600'000;
}

}  // namespace spillway::preemption
