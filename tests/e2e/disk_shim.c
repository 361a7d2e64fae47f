// LD_PRELOAD: the disk below DISK_SHIM_FOLDER misbehaves as DISK_SHIM_FILE says, from one call to the next: three 32-bit numbers, the errno of every
// write (0: none), the errno of every sync, and how many milliseconds a sync takes longer.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct control {
  int32_t write_errno, sync_errno, sync_delay_ms;
};
static struct control nothing;
static volatile struct control* control = &nothing;
static const char* folder = "";

__attribute__((constructor)) static void open_control(void) {
  const char* path = getenv("DISK_SHIM_FILE");
  if (path == NULL || getenv("DISK_SHIM_FOLDER") == NULL) return;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  void* page = mmap(NULL, sizeof nothing, PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (page == MAP_FAILED) return;
  folder = getenv("DISK_SHIM_FOLDER");
  control = page;
}

static int below(int fd) {
  char link[64], path[4096];
  if (*folder == '\0') return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = '\0';
  return strncmp(path, folder, strlen(folder)) == 0;
}

static int refuse(int error) {
  errno = error;
  return -1;
}

static int sync_fails(int fd) {
  if (!below(fd)) return 0;
  const int32_t delay_ms = control->sync_delay_ms;
  const struct timespec pause = {delay_ms / 1000, delay_ms % 1000 * 1000000L};
  if (delay_ms > 0) nanosleep(&pause, NULL);
  return control->sync_errno;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int fd) {
  const int error = sync_fails(fd);
  return error != 0 ? refuse(error) : REAL(fsync)(fd);
}
int fdatasync(int fd) {
  const int error = sync_fails(fd);
  return error != 0 ? refuse(error) : REAL(fdatasync)(fd);
}
ssize_t pwrite(int fd, const void* from, size_t n, off_t at) {
  return control->write_errno != 0 && below(fd) ? refuse(control->write_errno) : REAL(pwrite)(fd, from, n, at);
}
ssize_t pwrite64(int fd, const void* from, size_t n, off64_t at) {
  return control->write_errno != 0 && below(fd) ? refuse(control->write_errno) : REAL(pwrite64)(fd, from, n, at);
}
ssize_t write(int fd, const void* from, size_t n) {
  return control->write_errno != 0 && below(fd) ? refuse(control->write_errno) : REAL(write)(fd, from, n);
}
