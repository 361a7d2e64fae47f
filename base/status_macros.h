// RETURN_IF_ERROR and ASSIGN_OR_RETURN, with upstream abseil's names: Debian 12's abseil has no status_macros.h.
// Owns nothing; never logs. An error is returned to the caller as it is.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define SPILLWAY_CONCAT_INNER_(a, b) a##b
#define SPILLWAY_CONCAT_(a, b) SPILLWAY_CONCAT_INNER_(a, b)

#define RETURN_IF_ERROR(expr)                            \
  do {                                                   \
    ::absl::Status spillway_status_ = (expr);            \
    if (!spillway_status_.ok()) return spillway_status_; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) ASSIGN_OR_RETURN_IMPL_(SPILLWAY_CONCAT_(spillway_statusor_, __LINE__), lhs, expr)

#define ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr)   \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()
