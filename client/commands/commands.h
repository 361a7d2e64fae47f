// Makers of the verbs; each is defined in the file of its name in this folder.
#pragma once

#include <memory>

#include "client/verb.h"

namespace spillway::client {

std::unique_ptr<Verb> MakeUp();
std::unique_ptr<Verb> MakeDown();
std::unique_ptr<Verb> MakeSubmit();
std::unique_ptr<Verb> MakeRun();
std::unique_ptr<Verb> MakeQueue();
std::unique_ptr<Verb> MakeDescribe();
std::unique_ptr<Verb> MakeExplain();
std::unique_ptr<Verb> MakeLogs();
std::unique_ptr<Verb> MakeEvents();
std::unique_ptr<Verb> MakeWait();
std::unique_ptr<Verb> MakeCancel();
std::unique_ptr<Verb> MakePreempt();
std::unique_ptr<Verb> MakePause();
std::unique_ptr<Verb> MakeResume();
std::unique_ptr<Verb> MakeUpdate();
std::unique_ptr<Verb> MakeCheckpoints();
std::unique_ptr<Verb> MakeNodes();
std::unique_ptr<Verb> MakeOffers();
std::unique_ptr<Verb> MakeReservations();
std::unique_ptr<Verb> MakeCordon();
std::unique_ptr<Verb> MakeUncordon();
std::unique_ptr<Verb> MakeDrain();
std::unique_ptr<Verb> MakeSecrets();
std::unique_ptr<Verb> MakeCost();
std::unique_ptr<Verb> MakeReport();
std::unique_ptr<Verb> MakeBackup();
std::unique_ptr<Verb> MakeCompletion();
std::unique_ptr<Verb> MakeVersion();

}  // namespace spillway::client
