// Reads /proc to find processes: by parentage, and by the mark that every process of an attempt inherits in its environment.
// Sends no signal but what the Kill functions say. Uses plain system calls on what /proc shows now: callers repeat until nothing is found.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace spillway::supervisor {

// The variable and its value: MARK=HOMEID/ATTEMPTKEY. Home ids keep the supervisors of several nodes on one machine apart.
inline constexpr absl::string_view kMarkName = "SPILLWAY_ATTEMPT_KEY";
std::string HomeId(const std::string& home);

// Every process that is not a zombie, with its parent.
std::map<pid_t, pid_t> Parents();
// All below `root`, without it, at any depth.
std::set<pid_t> DescendantsOf(pid_t root, const std::map<pid_t, pid_t>& parents);
// Living processes of ours whose environment says kMarkName=`prefix`... . Never this process.
std::set<pid_t> MarkedWith(absl::string_view prefix);

// SIGKILL to all below this process that are not zombies; returns who they were.
std::set<pid_t> KillDescendantsOfSelf();

}  // namespace spillway::supervisor
