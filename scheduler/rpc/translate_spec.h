// A submitted JobSpec becomes what the core holds of it: a Shape and a few numbers. The spec itself is stored once, as its bytes, under its digest.
// Owns the defaults of the schema (priority 50, one core, 30 s of grace); never validates (spec/validate.h did).
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "scheduler/core/command.h"
#include "spillway/v1/job_spec.pb.h"

namespace spillway::rpc {

// Deterministic serialization: equal specs give equal bytes within one version of the program.
std::string SerializeSpec(const v1::JobSpec& spec);

core::Shape ShapeOfSpec(const v1::JobSpec& spec);

// `uid` and `owner` come from the caller: nothing here draws random numbers.
core::NewJob NewJobOf(const v1::JobSpec& spec, std::string uid, std::string owner);

// Digest over all specs of a request, in order: the same request_id with other specs is refused.
std::string RequestDigest(const std::vector<core::NewJob>& jobs);

}  // namespace spillway::rpc
