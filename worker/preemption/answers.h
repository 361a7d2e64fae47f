// What each cloud's answers mean. Pure: a status and a body in, a reading out. An answer in a form not known here is a notice that cannot be
// read, not silence: clouds do not speak on these paths without a reason. A status that is no answer (500, 403) is an error, not a notice.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/preemption/notice.h"

namespace spillway::preemption {

// UNAUTHENTICATED on 401: the session token has expired. UNAVAILABLE on any other status that is neither 200 nor 404.
absl::StatusOr<Reading> ReadAwsInstanceAction(int status, absl::string_view body);
absl::StatusOr<Reading> ReadAwsRebalance(int status, absl::string_view body);
absl::StatusOr<Reading> ReadAlibaba(int status, absl::string_view body);
absl::StatusOr<Reading> ReadTencent(int status, absl::string_view body);
absl::StatusOr<Reading> ReadGcp(int status, absl::string_view body);
// Events that end or restart this machine; `vm_name` empty takes events of any. `event_id` receives the id of the one that counted.
absl::StatusOr<Reading> ReadAzure(int status, absl::string_view body, absl::string_view vm_name, std::string* event_id);
// The content of a notice file: a time (RFC 3339), a time left ("45s"), `advisory`; anything else, nothing included, cannot be read.
Reading ReadFileContent(absl::string_view content);

// "Mon, 19 Sep 2016 18:29:47 GMT".
absl::StatusOr<int64_t> ParseHttpDateMs(absl::string_view text);
// "2018-08-18 12:05:33" in UTC+8, as Tencent Cloud writes it.
absl::StatusOr<int64_t> ParseBeijingMs(absl::string_view text);

}  // namespace spillway::preemption
