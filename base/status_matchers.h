// GoogleMock matchers for absl::Status, with upstream abseil's names. For tests only.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace spillway {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P2(StatusIs, code, message_matcher, "has the status code and message") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code && ::testing::ExplainMatchResult(message_matcher, std::string(StatusOf(arg).message()), result_listener);
}

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::spillway::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::spillway::IsOk())
#define ASSERT_OK_AND_ASSIGN(lhs, expression) ASSERT_OK_AND_ASSIGN_IMPL_(SPILLWAY_TEST_CONCAT_(status_or_, __LINE__), lhs, expression)
#define SPILLWAY_TEST_CONCAT_INNER_(a, b) a##b
#define SPILLWAY_TEST_CONCAT_(a, b) SPILLWAY_TEST_CONCAT_INNER_(a, b)
#define ASSERT_OK_AND_ASSIGN_IMPL_(tmp, lhs, expression) \
  auto tmp = (expression);                               \
  ASSERT_TRUE(tmp.ok()) << tmp.status().ToString();      \
  lhs = std::move(tmp).value()

}  // namespace spillway
