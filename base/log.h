// One line per record on standard error: time, level, place, message. Never called from scheduler/core. Secrets never pass here.
//   LOG(INFO) << "listening on " << address;
#pragma once

#include <sstream>

#include "absl/strings/string_view.h"

namespace spillway {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kFatal };

void SetLogLevel(LogLevel level);            // default kInfo, or SPILLWAY_LOG=debug|info|warning|error
void SetLogProgram(absl::string_view name);  // shown in every line

class LogMessage {
 public:
  LogMessage(LogLevel level, const char* file, int line) : level_(level), file_(file), line_(line) {}
  ~LogMessage();  // writes the record with one write(2); kFatal aborts
  std::ostream& stream() { return stream_; }

 private:
  LogLevel level_;
  const char* file_;
  int line_;
  std::ostringstream stream_;
};

}  // namespace spillway

#define SPILLWAY_LOG_DEBUG ::spillway::LogLevel::kDebug
#define SPILLWAY_LOG_INFO ::spillway::LogLevel::kInfo
#define SPILLWAY_LOG_WARNING ::spillway::LogLevel::kWarning
#define SPILLWAY_LOG_ERROR ::spillway::LogLevel::kError
#define SPILLWAY_LOG_FATAL ::spillway::LogLevel::kFatal
#define LOG(level) ::spillway::LogMessage(SPILLWAY_LOG_##level, __FILE__, __LINE__).stream()

// A broken invariant crashes, in production too (a state that cannot be must not be written down).
#define CHECK(condition) \
  if (condition) {       \
  } else                 \
    LOG(FATAL) << "CHECK failed: " #condition " "
