#include "client/cli.h"
#include "client/commands/commands.h"

namespace spillway::client {

std::vector<std::unique_ptr<Verb>> AllVerbs() {
  std::vector<std::unique_ptr<Verb>> verbs;
  for (const auto make :
       {&MakeUp,       &MakeDown,    &MakeSubmit,  &MakeRun,    &MakeQueue,  &MakeDescribe,    &MakeExplain,    &MakeLogs,   &MakeEvents,       &MakeWait,
        &MakeCancel,   &MakePreempt, &MakePause,   &MakeResume, &MakeUpdate, &MakeCheckpoints, &MakeNodes,      &MakeOffers, &MakeReservations, &MakeCordon,
        &MakeUncordon, &MakeDrain,   &MakeSecrets, &MakeCost,   &MakeReport, &MakeBackup,      &MakeCompletion, &MakeVersion}) {
    verbs.push_back(make());
  }
  return verbs;
}

}  // namespace spillway::client
