// What a user's program may do, well-behaved or not; run by the process tests as the job.
//   say MESSAGE...            each to SPILLWAY_SOCKET as one datagram
//   say-large BYTES           one datagram of that size
//   daemon FILE [bare]        leaves a daemon behind (two forks, new session; bare: with an empty environment) that writes its pid to FILE,
//                             then sleeps for ever; returns when FILE is there
//   stubborn FILE             ignores SIGTERM, creates FILE, sleeps for ever
//   eat BYTES [stay]          touches that much memory, then exits 0, or sleeps for ever
//   multiply COUNT            becomes that many processes that sleep for ever; says so where it is refused, and exits 3
//   descriptors               prints the numbers of its open descriptors
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

namespace {

int Say(const std::string& message) {
  const char* path = getenv("SPILLWAY_SOCKET");
  if (path == nullptr) return 10;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  const ssize_t n = sendto(fd, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  close(fd);
  return n == static_cast<ssize_t>(message.size()) ? 0 : 11;
}

void WriteFile(const char* path, const std::string& text) {
  const std::string temporary = std::string(path) + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (write(fd, text.data(), text.size()) < 0) _exit(12);
  close(fd);
  rename(temporary.c_str(), path);
}

[[noreturn]] void SleepForever() {
  while (true) pause();
}

int Daemon(const char* path, bool bare, char** argv) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) return 13;
  if (fork() == 0) {
    setsid();
    if (fork() != 0) _exit(0);
    char* arguments[] = {argv[0], const_cast<char*>("daemon-child"), const_cast<char*>(path), nullptr};
    char* empty[] = {nullptr};
    if (bare) execve("/proc/self/exe", arguments, empty);
    execv("/proc/self/exe", arguments);
    _exit(14);
  }
  close(ready[1]);
  while (access(path, F_OK) != 0) usleep(1000);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "say") {
    for (int i = 2; i < argc; ++i) {
      if (const int error = Say(argv[i]); error != 0) return error;
    }
    return 0;
  }
  if (what == "say-large") return Say(std::string(static_cast<size_t>(atol(argv[2])), '{'));
  if (what == "daemon") return Daemon(argv[2], argc > 3, argv);
  if (what == "daemon-child") {
    signal(SIGTERM, SIG_IGN);
    WriteFile(argv[2], std::to_string(getpid()));
    SleepForever();
  }
  if (what == "stubborn") {
    signal(SIGTERM, SIG_IGN);
    WriteFile(argv[2], std::to_string(getpid()));
    SleepForever();
  }
  if (what == "eat") {
    const auto bytes = static_cast<size_t>(atoll(argv[2]));
    char* memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED) return 15;
    for (size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
    if (argc > 3) SleepForever();
    return 0;
  }
  if (what == "multiply") {
    for (int i = 1; i < atoi(argv[2]); ++i) {
      const pid_t child = fork();
      if (child == 0) SleepForever();
      if (child < 0) return 3;
    }
    SleepForever();
  }
  if (what == "descriptors") {
    DIR* folder = opendir("/proc/self/fd");
    while (const dirent* entry = readdir(folder)) {
      if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder)) printf("%s\n", entry->d_name);
    }
    return 0;
  }
  fprintf(stderr, "unknown: %s\n", what.c_str());
  return 64;
}
