// gRPC's own lines are for those who look into gRPC: what went wrong comes back as a status. Included only by what links gRPC.
#pragma once

#include <grpc/support/log.h>

#include "base/log.h"

namespace spillway {

// From now on, in the whole process.
inline void LogGrpcAsDebug() {
  gpr_set_log_function([](gpr_log_func_args* line) { LOG(DEBUG) << "grpc: " << line->message; });
}

}  // namespace spillway
