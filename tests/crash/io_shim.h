// What a test and a program under the shim share: one mapped file. All zero is a shim that only counts.
#pragma once

#include <stdint.h>

enum IoShimMode {
  IO_SHIM_COUNTS = 0,
  IO_SHIM_DIES = 1,         // the process ends at the call, half of a write done
  IO_SHIM_ERROR_ONCE = 2,   // EIO from this call
  IO_SHIM_ERROR_STAYS = 3,  // EIO from this call and every later one
  IO_SHIM_FULL_ONCE = 4,    // ENOSPC from this call when it takes space
  IO_SHIM_FULL_STAYS = 5    // ENOSPC from every call from here on that takes space
};
enum { IO_SHIM_EXIT = 77 };  // the exit code of a process that died by the shim

struct IoShimControl {
  int64_t calls;   // so far, of every process that had this block, one after the other
  int64_t at;      // the number of the call that meets the fault; 0: none does
  int32_t mode;    // IoShimMode
  int32_t struck;  // 1 when it met it
  char what[240];  // the call that did
};
