// The monitor of one machine: the mode `spillway-playground instance-init` of the program, started by the playground for each instance.
//
// It makes a PID namespace with a /proc of its own, starts a small init in it as pid 1 and the instance's command under that; it reaps what is
// orphaned, and exits when the command exits. Everything inside dies at once when pid 1 does: on SIGTERM the monitor kills pid 1 with SIGKILL
// and waits, so the monitor's own exit proves that nothing is left; when the monitor itself is killed, the kernel kills pid 1.
// Where namespaces are refused (no root, no user namespaces) the monitor is a subreaper instead and kills its whole tree, round by round.
//
// The monitor outlives the playground. It writes the moment of the machine's death (CLOCK_BOOTTIME, ms) to --end-file, so that a playground
// that was away bills what really ran.
#pragma once

#include <string>
#include <vector>

namespace spillway::playground {

// Arguments after the mode's name: --end-file FILE [--tree] -- ARGV…  (--tree: no namespace even where one can be had). Returns the exit status.
int InstanceInitMain(const std::vector<std::string>& arguments);

}  // namespace spillway::playground
