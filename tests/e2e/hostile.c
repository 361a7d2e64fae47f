// Programs that no node should suffer from, by name: the jobs of hostile_jobs_test.py.
//   stubborn FILE       ignores SIGTERM, as does its child; creates FILE
//   daemon FILE         leaves two daemons behind (two forks, new session, nothing open), one of them without an environment; their pids in FILE
//   bomb                forks on and on, and so do its children: 300 times in all, and then they stay
//   fill FILE           writes until the disk refuses, then exit code 3; 256 MB at most, and then it stays
//   print BYTES         numbered lines, that many bytes
//   eat BYTES           touches that much memory and stays
//   garbage             what is no message, too long a message, and a flood of lies on SPILLWAY_SOCKET
//   close               closes every descriptor
//   flood               opens descriptors until there are no more
//   seconds             prints what time it thinks it is
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void sleep_for_ever(void) {
  while (1) pause();
}

static void write_file(const char* path, const char* text) {
  char temporary[4096];
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (write(fd, text, strlen(text)) < 0) _exit(12);
  close(fd);
  rename(temporary, path);
}

static int stubborn(const char* path) {
  signal(SIGTERM, SIG_IGN);
  if (fork() == 0) sleep_for_ever();
  write_file(path, "here");
  sleep_for_ever();
  return 0;
}

// Writes its pid into `to` and never returns.
static void become_daemon(int to, int bare) {
  setsid();
  if (fork() != 0) _exit(0);
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  if (bare) {
    char number[16];
    snprintf(number, sizeof number, "%d", to);
    char* arguments[] = {"daemon", "say-and-stay", number, NULL};
    char* nothing[] = {NULL};
    execve("/proc/self/exe", arguments, nothing);
    _exit(13);
  }
  const int pid = getpid();
  if (write(to, &pid, sizeof pid) != sizeof pid) _exit(14);
  for (int fd = 0; fd < 1024; ++fd) close(fd);
  sleep_for_ever();
}

static int leave_daemons(const char* path) {
  int ready[2], pids[2];
  if (pipe(ready) != 0) return 15;
  for (int bare = 0; bare < 2; ++bare) {
    if (fork() == 0) become_daemon(ready[1], bare);
  }
  for (int i = 0; i < 2; ++i) {
    if (read(ready[0], &pids[i], sizeof pids[i]) != sizeof pids[i]) return 16;
  }
  char text[64];
  snprintf(text, sizeof text, "%d %d", pids[0], pids[1]);
  write_file(path, text);
  return 0;
}

// However badly it is held, it must not take the machine that tests. The whole tree shares one count, raised before each fork: so many are tried in
// all, whoever comes later waits, nobody spins, and nobody lives longer than half a minute.
enum { kForksInAll = 300, kBombSeconds = 30 };

static int bomb(void) {
  int* tried = mmap(NULL, sizeof *tried, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (tried == MAP_FAILED) return 21;
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_UNBLOCK, &all, NULL);
  signal(SIGALRM, SIG_DFL);
  alarm(kBombSeconds);
  int said = 0;
  while (__atomic_fetch_add(tried, 1, __ATOMIC_SEQ_CST) < kForksInAll) {
    const pid_t child = fork();
    if (child == 0) alarm(kBombSeconds);
    if (child < 0 && !said++) dprintf(1, "no more processes\n");
    usleep(10000);
  }
  sleep_for_ever();
  return 0;
}

static int fill(const char* path) {
  static char block[1 << 16];
  const int fd = open(path, O_WRONLY | O_CREAT, 0644);
  for (int written = 0; write(fd, block, sizeof block) > 0; ++written) {
    if (written == 4096) sleep_for_ever();
    usleep(200);
  }
  dprintf(1, "cannot write: %s\n", strerror(errno));
  return 3;
}

static int print(long long bytes) {
  static char block[1 << 16];
  long long line = 0;
  while (bytes > 0) {
    int used = 0;
    while (used + 64 < (int)sizeof block) used += snprintf(block + used, 64, "line %012lld of a job that prints and prints\n", ++line);
    for (int at = 0; at < used;) {
      const ssize_t n = write(1, block + at, used - at);
      if (n < 0) return 17;
      at += n;
    }
    bytes -= used;
  }
  dprintf(1, "last line %lld\n", line);
  return 0;
}

static int eat(size_t bytes) {
  char* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 18;
  for (size_t i = 0; i < bytes; i += 4096) {
    memory[i] = 1;
  }
  sleep_for_ever();
  return 0;
}

static int garbage(void) {
  static char bytes[20000];
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, getenv("SPILLWAY_SOCKET"), sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  const struct sockaddr* to = (const struct sockaddr*)&address;
  for (int i = 0; i < 2000; ++i) {
    const size_t size = i % 3 == 0 ? sizeof bytes : (size_t)(rand() % 200);
    for (size_t k = 0; k < size; ++k) bytes[k] = (char)rand();
    (void)sendto(fd, bytes, size, 0, to, sizeof address);
  }
  for (int i = 0; i < 20000; ++i) {
    const int size = snprintf(bytes, sizeof bytes, "{\"type\":\"checkpoint\",\"step\":%d,\"path\":\"/etc/step-%012d\"}", i, i);
    (void)sendto(fd, bytes, size, 0, to, sizeof address);
  }
  const char* progress = "{\"type\":\"progress\",\"step\":7,\"total\":9}";
  for (int i = 0; i < 20000; ++i) (void)sendto(fd, progress, strlen(progress), 0, to, sizeof address);
  return 0;
}

static int flood(void) {
  int count = 0;
  while (open("/dev/null", O_RDONLY) >= 0) ++count;
  dprintf(1, "%d descriptors, then: %s\n", count, strerror(errno));
  return errno == EMFILE ? 0 : 19;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const char* word = argc > 2 ? argv[2] : "";
  if (strcmp(what, "stubborn") == 0) return stubborn(word);
  if (strcmp(what, "daemon") == 0) return leave_daemons(word);
  if (strcmp(what, "say-and-stay") == 0) {
    const int pid = getpid();
    if (write(atoi(word), &pid, sizeof pid) != sizeof pid) return 20;
    for (int fd = 0; fd < 1024; ++fd) close(fd);
    sleep_for_ever();
  }
  if (strcmp(what, "bomb") == 0) return bomb();
  if (strcmp(what, "fill") == 0) return fill(word);
  if (strcmp(what, "print") == 0) return print(atoll(word));
  if (strcmp(what, "eat") == 0) return eat((size_t)atoll(word));
  if (strcmp(what, "garbage") == 0) return garbage();
  if (strcmp(what, "close") == 0) {
    for (int fd = 0; fd < 4096; ++fd) close(fd);
    usleep(100000);
    return 0;
  }
  if (strcmp(what, "flood") == 0) return flood();
  if (strcmp(what, "seconds") == 0) {
    printf("%lld\n", (long long)time(NULL));
    return 0;
  }
  fprintf(stderr, "unknown: %s\n", what);
  return 64;
}
