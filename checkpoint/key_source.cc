#include "checkpoint/key_source.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace spillway::checkpoint {
namespace {

constexpr size_t kDigits = 2 * SecretKey::kBytes;
constexpr int kLookMs = 10;

absl::Status Refused(absl::string_view what) { return absl::UnauthenticatedError(absl::StrCat("checkpoint key: ", what)); }

absl::Status RefusedFor(absl::string_view what, int error) { return Refused(absl::StrCat(what, ": ", strerror(error))); }

// The text of a key as it is read. One byte more than a key can have shows that there is too much.
struct KeyText {
  char bytes[kDigits + 3];
  size_t size = 0;
  ~KeyText() { Wipe(bytes, sizeof(bytes)); }
  bool full() const { return size == sizeof(bytes); }
  // False at the end or when full; errno is set when the read failed.
  bool ReadSome(int fd) {
    errno = 0;
    if (full()) return false;
    ssize_t n;
    do n = ::read(fd, bytes + size, sizeof(bytes) - size);
    while (n < 0 && errno == EINTR);
    if (n == 0) errno = 0;
    if (n > 0) size += static_cast<size_t>(n);
    return n > 0;
  }
};

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Such a text in place of a path, a number or a command is a key that has come to the wrong place: it must not get into a message.
bool IsKey(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  return text.size() == kDigits && absl::c_all_of(text, [](char c) { return HexValue(c) >= 0; });
}

absl::Status KeyItself(absl::string_view where) { return Refused(absl::StrCat("the key itself stands where ", where, " is to stand")); }

absl::StatusOr<SecretKey> Parse(const KeyText& text, absl::string_view source) {
  size_t size = text.size;
  if (size > 0 && text.bytes[size - 1] == '\n') --size;
  if (size > 0 && size < text.size && text.bytes[size - 1] == '\r') --size;
  auto bad = [&](absl::string_view how) { return Refused(absl::StrCat(source, " is to hold 64 hex digits, ", how)); };
  if (text.full() || size != kDigits) return bad(text.full() ? "and holds more" : absl::StrCat("and holds ", size, " characters"));
  SecretKey key;
  for (size_t i = 0; i < kDigits; ++i) {
    const int value = HexValue(text.bytes[i]);
    if (value < 0) return bad(absl::StrCat("and character ", i + 1, " is none"));
    key.data()[i / 2] = static_cast<uint8_t>(key.data()[i / 2] << 4 | value);
  }
  return key;
}

absl::StatusOr<SecretKey> ReadKey(int fd, absl::string_view source) {
  KeyText text;
  while (text.ReadSome(fd)) {
  }
  if (errno != 0) return RefusedFor(absl::StrCat(source, " cannot be read"), errno);
  return Parse(text, source);
}

// Reads until the command closes its output or there is too much of it.
absl::Status ReadOutput(int fd, int64_t deadline_ms, const std::string& source, KeyText* text) {
  RealClock clock;
  for (;;) {
    struct pollfd waiting = {fd, POLLIN, 0};
    const int64_t left_ms = deadline_ms - clock.NowSteadyMs();
    if (left_ms <= 0) return Refused(absl::StrCat(source, " took too long"));
    const int ready = ::poll(&waiting, 1, static_cast<int>(left_ms));
    if (ready < 0 && errno != EINTR) return RefusedFor(absl::StrCat(source, " cannot be read"), errno);
    if (ready <= 0) continue;
    if (text->ReadSome(fd)) continue;
    return errno == 0 ? absl::OkStatus() : RefusedFor(absl::StrCat(source, " cannot be read"), errno);
  }
}

// Reaps the command, which is killed at the deadline.
absl::Status Reap(pid_t pid, int64_t deadline_ms, const std::string& source) {
  RealClock clock;
  for (bool killed = false;;) {
    int status = 0;
    const pid_t reaped = ::waitpid(pid, &status, killed ? 0 : WNOHANG);
    if (reaped < 0 && errno == EINTR) continue;
    if (reaped < 0) return RefusedFor(absl::StrCat(source, " cannot be waited for"), errno);
    if (reaped == pid) {
      if (killed) return Refused(absl::StrCat(source, " took too long"));
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
      return Refused(absl::StrCat(
          source, WIFEXITED(status) ? absl::StrCat(" exited with ", WEXITSTATUS(status)) : absl::StrCat(" was ended by signal ", WTERMSIG(status))));
    }
    if (clock.NowSteadyMs() >= deadline_ms) {
      ::kill(pid, SIGKILL);
      killed = true;
    } else {
      ::poll(nullptr, 0, kLookMs);
    }
  }
}

}  // namespace

absl::StatusOr<SecretKey> KeyFromFile(const std::string& path) {
  if (IsKey(path)) return KeyItself("the path of its file");
  const std::string source = Printable(path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return RefusedFor(absl::StrCat(source, " cannot be opened"), errno);
  struct stat st;
  absl::StatusOr<SecretKey> key = [&]() -> absl::StatusOr<SecretKey> {
    if (::fstat(fd, &st) != 0) return RefusedFor(source, errno);
    if (!S_ISREG(st.st_mode)) return Refused(absl::StrCat(source, " is not a regular file"));
    if (st.st_uid != ::geteuid()) return Refused(absl::StrCat(source, " belongs to user ", st.st_uid, ", this is user ", ::geteuid()));
    if ((st.st_mode & 077) != 0) return Refused(absl::StrCat("others than its owner may use ", source, ": chmod 600 it, and take a new key if they did"));
    return ReadKey(fd, source);
  }();
  ::close(fd);
  return key;
}

absl::StatusOr<SecretKey> KeyFromDescriptor(int fd) {
  static Mutex* const mutex = new Mutex;
  static auto* const read = new std::map<int, SecretKey>;
  MutexLock lock(mutex);
  if (const auto found = read->find(fd); found != read->end()) return found->second;
  ASSIGN_OR_RETURN(const SecretKey key, ReadKey(fd, absl::StrCat("descriptor ", fd)));
  read->emplace(fd, key);
  return key;
}

absl::StatusOr<SecretKey> KeyFromCommand(const std::vector<std::string>& argv, int64_t wait_ms) {
  if (argv.empty() || argv[0].empty()) return Refused("the command has no words");
  if (IsKey(argv[0])) return KeyItself("the command that prints it");
  const std::string source = absl::StrCat("what ", Printable(argv[0]), " prints");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return RefusedFor("no pipe for the command", errno);
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    return RefusedFor(absl::StrCat(Printable(argv[0]), " cannot be started"), error);
  }
  KeyText text;
  RealClock clock;
  const int64_t deadline_ms = clock.NowSteadyMs() + wait_ms;
  const absl::Status heard = ReadOutput(ends[0], deadline_ms, source, &text);
  ::close(ends[0]);
  const absl::Status ended = Reap(pid, heard.ok() ? deadline_ms : 0, Printable(argv[0]));
  RETURN_IF_ERROR(heard);
  // One that has said too much may have been ended by the closed pipe: what it said is what is wrong.
  if (!text.full()) RETURN_IF_ERROR(ended);
  return Parse(text, source);
}

absl::StatusOr<std::optional<SecretKey>> KeyFromEnvironment() {
  return KeyFrom([](const char* name) -> const char* { return std::getenv(name); });
}

absl::StatusOr<std::optional<SecretKey>> KeyFrom(const std::function<const char*(const char*)>& lookup) {
  const char* chosen = nullptr;
  std::string value;
  for (const char* name : {kKeyFileVariable, kKeyFdVariable, kKeyCommandVariable}) {
    const char* text = lookup(name);
    if (text == nullptr || *text == '\0') continue;
    if (chosen != nullptr) return Refused(absl::StrCat(chosen, " and ", name, " are both set; set one"));
    chosen = name;
    value = text;
  }
  if (chosen == nullptr) return std::nullopt;
  if (chosen == kKeyFileVariable) return KeyFromFile(value);
  if (chosen == kKeyFdVariable) {
    int fd = -1;
    if (IsKey(value)) return KeyItself("the number of a descriptor");
    if (!absl::SimpleAtoi(value, &fd) || fd < 0) return Refused(absl::StrCat(chosen, "=\"", Printable(value), "\" is not the number of a descriptor"));
    return KeyFromDescriptor(fd);
  }
  if (IsKey(value)) return KeyItself("the command that prints it");
  const auto json = nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> argv;
  bool words = json.is_array() && !json.empty();
  for (size_t i = 0; words && i < json.size(); ++i) {
    words = json[i].is_string();
    if (words) argv.push_back(json[i].get<std::string>());
  }
  if (!words) return Refused(absl::StrCat(chosen, " is not a JSON array of strings such as [\"kms\", \"get\", \"training-key\"]"));
  return KeyFromCommand(argv);
}

}  // namespace spillway::checkpoint
