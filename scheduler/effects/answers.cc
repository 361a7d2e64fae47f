#include "scheduler/effects/answers.h"

#include <chrono>
#include <thread>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace spillway::effects {
namespace {

constexpr std::chrono::milliseconds kTryAgainAfter{50};

std::string Describe(const core::Command& command) {
  if (const auto* c = std::get_if<core::SealResult>(&command)) return absl::StrCat("the seal of ", c->attempt.ToString());
  if (const auto* c = std::get_if<core::OffersListed>(&command)) return absl::StrCat("the price list of ", c->provider);
  if (const auto* c = std::get_if<core::InstanceListing>(&command)) return absl::StrCat("the listing of ", c->provider);
  if (const auto* c = std::get_if<core::InstanceCreated>(&command)) return absl::StrCat("instance ", c->instance_id, " for node ", c->node);
  if (const auto* c = std::get_if<core::InstanceRefused>(&command)) return absl::StrCat("the refusal of node ", c->node);
  if (const auto* c = std::get_if<core::InstanceGone>(&command)) return absl::StrCat("the end of node ", c->node);
  return "an answer";
}

}  // namespace

Post AnswersTo(engine::EngineThread* engine) {
  return [engine](core::Command command) {
    const std::string what = Describe(command);
    while (true) {
      const absl::Status posted = engine->Post(command, [what](absl::StatusOr<core::Reply> reply) {
        if (!reply.ok()) LOG(WARNING) << what << " was not taken: " << reply.status().message();
      });
      if (!absl::IsResourceExhausted(posted)) return;
      std::this_thread::sleep_for(kTryAgainAfter);
    }
  };
}

}  // namespace spillway::effects
