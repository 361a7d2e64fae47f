// A library to preload into one program: counts its calls that change files below one folder, and lets the k-th of them fail or end the process.
// Owns nothing but the count. Reads are never touched, other folders never, other programs (children that inherit the environment) never.
//
// SPILLWAY_SHIM_CONTROL names the control block (io_shim.h), SPILLWAY_SHIM_FOLDER the folder, SPILLWAY_SHIM_PROGRAM the program's short name.
#define _GNU_SOURCE
#include "tests/crash/io_shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct IoShimControl* control;
static char folder[PATH_MAX];

#define REAL(result, name, ...)       \
  static result (*real)(__VA_ARGS__); \
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void Begin(void) {
  const char* path = getenv("SPILLWAY_SHIM_CONTROL");
  const char* below = getenv("SPILLWAY_SHIM_FOLDER");
  const char* program = getenv("SPILLWAY_SHIM_PROGRAM");
  if (path == NULL || below == NULL || program == NULL || strcmp(program, program_invocation_short_name) != 0) return;
  snprintf(folder, sizeof folder, "%s/", below);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) abort();
  void* mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) abort();
  control = mapped;
}

// The absolute name of what a call is about; false when that is not below the folder.
static int IsOurs(int base, const char* name, char* path) {
  if (control == NULL) return 0;
  if (name != NULL && name[0] == '/') {
    snprintf(path, PATH_MAX, "%s", name);
  } else {
    char link[64];
    if (base == AT_FDCWD) {
      snprintf(link, sizeof link, "/proc/self/cwd");
    } else {
      snprintf(link, sizeof link, "/proc/self/fd/%d", base);
    }
    const int kept = errno;
    const ssize_t n = readlink(link, path, PATH_MAX - 1);
    errno = kept;
    if (n < 0) return 0;
    path[n] = '\0';
    if (name != NULL) snprintf(path + n, PATH_MAX - (size_t)n, "/%s", name);
  }
  return strncmp(path, folder, strlen(folder)) == 0;
}

enum Verdict { kGoesOn, kFails, kDies };

// Counts the call; with kFails errno is set.
static enum Verdict Meet(const char* call, int base, const char* name, int takes_space) {
  char path[PATH_MAX];
  if (!IsOurs(base, name, path)) return kGoesOn;
  const int64_t number = __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST);
  const int64_t at = __atomic_load_n(&control->at, __ATOMIC_SEQ_CST);
  const int mode = control->mode;
  const int stays = mode == IO_SHIM_ERROR_STAYS || mode == IO_SHIM_FULL_STAYS;
  if (at == 0 || number < at || (number > at && !stays)) return kGoesOn;
  if (number == at) snprintf(control->what, sizeof control->what, "%s %s", call, path + strlen(folder));
  __atomic_store_n(&control->struck, 1, __ATOMIC_SEQ_CST);
  if (mode == IO_SHIM_DIES) return kDies;
  const int full = mode == IO_SHIM_FULL_ONCE || mode == IO_SHIM_FULL_STAYS;
  if (full && !takes_space) return kGoesOn;
  errno = full ? ENOSPC : EIO;
  return kFails;
}

static void Die(void) {
  REAL(long, syscall, long, ...);
  real(SYS_exit_group, IO_SHIM_EXIT);
  abort();
}

// For calls that do it whole or not at all.
static int Refused(const char* call, int base, const char* name, int takes_space) {
  switch (Meet(call, base, name, takes_space)) {
    case kGoesOn: return 0;
    case kDies: Die(); return 1;
    default: return 1;
  }
}

// ---- bytes: a process that dies, or a disk that fails, may leave half of them ----

ssize_t write(int fd, const void* data, size_t bytes) {
  REAL(ssize_t, write, int, const void*, size_t);
  const enum Verdict verdict = Meet("write", fd, NULL, 1);
  if (verdict == kGoesOn) return real(fd, data, bytes);
  if (verdict == kDies) {
    (void)!real(fd, data, bytes / 2);
    Die();
  }
  return -1;
}

static ssize_t PositionedWrite(ssize_t (*real)(int, const void*, size_t, off_t), int fd, const void* data, size_t bytes, off_t offset) {
  const enum Verdict verdict = Meet("pwrite", fd, NULL, 1);
  if (verdict == kGoesOn) return real(fd, data, bytes, offset);
  if (verdict == kDies) {
    (void)!real(fd, data, bytes / 2, offset);
    Die();
  }
  return -1;
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  REAL(ssize_t, pwrite, int, const void*, size_t, off_t);
  return PositionedWrite(real, fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  REAL(ssize_t, pwrite64, int, const void*, size_t, off_t);
  return PositionedWrite(real, fd, data, bytes, offset);
}

// ---- opening counts when it makes a file ----

static int Makes(int base, const char* name, int flags) {
  if ((flags & O_TRUNC) != 0) return 1;
  if ((flags & O_CREAT) == 0) return 0;
  struct stat info;
  const int kept = errno;
  const int there = fstatat(base, name, &info, AT_SYMLINK_NOFOLLOW) == 0;
  errno = kept;
  return !there;
}
#define OPEN(name, base, PARAMETERS, TYPES, ARGUMENTS)                                            \
  int name PARAMETERS {                                                                           \
    REAL(int, name, TYPES);                                                                       \
    mode_t mode = 0;                                                                              \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {                             \
      va_list more;                                                                               \
      va_start(more, flags);                                                                      \
      mode = va_arg(more, mode_t);                                                                \
      va_end(more);                                                                               \
    }                                                                                             \
    if (control != NULL && Makes(base, path, flags) && Refused("open", base, path, 1)) return -1; \
    return real ARGUMENTS;                                                                        \
  }
#define COMMA ,
OPEN(open, AT_FDCWD, (const char* path, int flags, ...), const char* COMMA int COMMA..., (path, flags, mode))
OPEN(open64, AT_FDCWD, (const char* path, int flags, ...), const char* COMMA int COMMA..., (path, flags, mode))
OPEN(openat, base, (int base, const char* path, int flags, ...), int COMMA const char* COMMA int COMMA..., (base, path, flags, mode))
OPEN(openat64, base, (int base, const char* path, int flags, ...), int COMMA const char* COMMA int COMMA..., (base, path, flags, mode))

int mkostemp(char* pattern, int flags) {
  REAL(int, mkostemp, char*, int);
  return Refused("mkostemp", AT_FDCWD, pattern, 1) ? -1 : real(pattern, flags);
}
int mkostemp64(char* pattern, int flags) {
  REAL(int, mkostemp64, char*, int);
  return Refused("mkostemp", AT_FDCWD, pattern, 1) ? -1 : real(pattern, flags);
}

// ---- everything else ----

#define ON_FILE(name, takes_space, PARAMETERS, TYPES, ARGUMENTS)        \
  int name PARAMETERS {                                                 \
    REAL(int, name, TYPES);                                             \
    return Refused(#name, fd, NULL, takes_space) ? -1 : real ARGUMENTS; \
  }
ON_FILE(fsync, 0, (int fd), int, (fd))
ON_FILE(fdatasync, 0, (int fd), int, (fd))
ON_FILE(fchmod, 0, (int fd, mode_t mode), int COMMA mode_t, (fd, mode))
ON_FILE(ftruncate, 0, (int fd, off_t length), int COMMA off_t, (fd, length))
ON_FILE(ftruncate64, 0, (int fd, off64_t length), int COMMA off64_t, (fd, length))
ON_FILE(fallocate, 1, (int fd, int mode, off_t offset, off_t length), int COMMA int COMMA off_t COMMA off_t, (fd, mode, offset, length))
ON_FILE(fallocate64, 1, (int fd, int mode, off64_t offset, off64_t length), int COMMA int COMMA off64_t COMMA off64_t, (fd, mode, offset, length))

// These give the error as their result.
int posix_fallocate(int fd, off_t offset, off_t length) {
  REAL(int, posix_fallocate, int, off_t, off_t);
  return Refused("posix_fallocate", fd, NULL, 1) ? errno : real(fd, offset, length);
}
int posix_fallocate64(int fd, off64_t offset, off64_t length) {
  REAL(int, posix_fallocate64, int, off64_t, off64_t);
  return Refused("posix_fallocate", fd, NULL, 1) ? errno : real(fd, offset, length);
}

#define ON_NAME(name, base, path, takes_space, PARAMETERS, TYPES, ARGUMENTS) \
  int name PARAMETERS {                                                      \
    REAL(int, name, TYPES);                                                  \
    return Refused(#name, base, path, takes_space) ? -1 : real ARGUMENTS;    \
  }
ON_NAME(mkdir, AT_FDCWD, path, 1, (const char* path, mode_t mode), const char* COMMA mode_t, (path, mode))
ON_NAME(rmdir, AT_FDCWD, path, 0, (const char* path), const char*, (path))
ON_NAME(unlink, AT_FDCWD, path, 0, (const char* path), const char*, (path))
ON_NAME(unlinkat, base, path, 0, (int base, const char* path, int flags), int COMMA const char* COMMA int, (base, path, flags))
ON_NAME(rename, AT_FDCWD, to, 0, (const char* from, const char* to), const char* COMMA const char*, (from, to))
ON_NAME(renameat, to_base, to, 0, (int from_base, const char* from, int to_base, const char* to), int COMMA const char* COMMA int COMMA const char*,
        (from_base, from, to_base, to))

// renameat2 has no wrapper everywhere and is called by its number.
long syscall(long number, ...) {
  REAL(long, syscall, long, ...);
  va_list more;
  va_start(more, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(more, long);
  va_end(more);
  if (number == SYS_renameat2 && Refused("renameat2", (int)a[2], (const char*)a[3], 0)) return -1;
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
