// LD_PRELOAD: CLOCK_REALTIME is off by what the first eight bytes of CLOCK_SHIM_FILE say, in seconds, and jumps when they change; the other clocks are
// as they are. CLOCK_SHIM_ONLY names the one program that is lied to (as in /proc/self/comm). Waits until a point on that clock are put right again: a
// machine whose clock jumped would wake them by its own clock.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t no_offset = 0;
static volatile int64_t* offset = &no_offset;

__attribute__((constructor)) static void open_control(void) {
  const char *path = getenv("CLOCK_SHIM_FILE"), *only = getenv("CLOCK_SHIM_ONLY");
  if (path == NULL) return;
  if (only != NULL) {
    char name[32] = "";
    const int comm = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    const ssize_t n = read(comm, name, sizeof name - 1);
    close(comm);
    if (n <= 0 || strncmp(name, only, strlen(only)) != 0) return;
  }
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  void* page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (page != MAP_FAILED) offset = page;
}

int clock_gettime(clockid_t id, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real(id, now);
  if (result == 0 && id == CLOCK_REALTIME) now->tv_sec += *offset;
  return result;
}

int gettimeofday(struct timeval* restrict now, void* restrict zone) {
  (void)zone;
  struct timespec precise;
  const int result = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return result;
}

time_t time(time_t* out) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (out != NULL) *out = precise.tv_sec;
  return precise.tv_sec;
}

long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (real == NULL) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  struct timespec until;
  if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) != 0 && a[3] != 0) {
    until = *(const struct timespec*)a[3];
    until.tv_sec -= *offset;
    if (until.tv_sec < 0) until.tv_sec = 0;
    a[3] = (long)&until;
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
