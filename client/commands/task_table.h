// What is said of an array: its tasks, a line each, and how far it is.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string>

#include "client/verb.h"

namespace spillway::client {

using Tasks = google::protobuf::RepeatedPtrField<v1::Task>;
// "" where there are none.
std::string TaskTable(const Tasks& tasks, const Context& context);

// Of its tasks.
int64_t EndedTasks(const v1::Job& job);

}  // namespace spillway::client
