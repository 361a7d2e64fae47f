// Writes log records. Owns the process-wide level and program name; writing a record takes no lock of ours.
#include "base/log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/units.h"

namespace spillway {
namespace {

constexpr size_t kRecordBytesMax = 16 << 10;
constexpr size_t kProgramBytesMax = 31;

LogLevel LevelFromEnvironment() {
  const char* text = getenv("SPILLWAY_LOG");
  const absl::string_view level = text == nullptr ? "" : text;
  if (level == "debug") return LogLevel::kDebug;
  if (level == "warning") return LogLevel::kWarning;
  if (level == "error") return LogLevel::kError;
  return LogLevel::kInfo;
}

std::atomic<LogLevel>& Level() {
  static std::atomic<LogLevel> level(LevelFromEnvironment());
  return level;
}

std::atomic<const std::string*>& Program() {
  static std::atomic<const std::string*> program(nullptr);
  return program;
}

absl::string_view ProgramName() {
  const std::string* name = Program().load();
  return name == nullptr ? absl::string_view(program_invocation_short_name) : *name;
}

// FormatUtcMs leaves out whole seconds' fraction; log lines have always three digits so that columns line up.
std::string Timestamp(int64_t utc_ms) {
  std::string seconds = FormatUtcMs(utc_ms - utc_ms % 1000);
  seconds.pop_back();  // the Z
  return absl::StrFormat("%s.%03dZ", seconds, utc_ms % 1000);
}

absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

void SetLogLevel(LogLevel level) { Level().store(level); }

void SetLogProgram(absl::string_view name) {
  // Names once shown are kept for ever (a process has one or two), so that records written meanwhile need no lock.
  static Mutex mutex;
  static auto* const names = new std::deque<std::string>;
  MutexLock lock(&mutex);
  names->push_back(Printable(name, kProgramBytesMax));
  Program().store(&names->back());
}

LogMessage::~LogMessage() {
  const int saved_errno = errno;
  if (level_ >= Level().load() || level_ == LogLevel::kFatal) {
    // Control characters are escaped: a record is one line whatever text it quotes.
    const std::string record = absl::StrCat(Timestamp(RealClock().NowUtcMs()), " ", absl::string_view(&"DIWEF"[static_cast<int>(level_)], 1), " ",
                                            ProgramName(), " ", BaseName(file_), ":", line_, "] ", Printable(stream_.str(), kRecordBytesMax), "\n");
    // One write: records of several threads and processes do not mix. What standard error refuses is lost: there is nowhere to say so.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, record.data(), record.size());
  }
  if (level_ == LogLevel::kFatal) std::abort();
  errno = saved_errno;
}

}  // namespace spillway
