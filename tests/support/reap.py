#!/usr/bin/env python3
"""Ends what a test that was killed cannot end: programs that by design outlive whoever started them.

    reap.py PID FOLDER NAME

Returns at once and watches, in a process of its own that nobody's kill of the test's tree reaches. When process PID is gone, everything whose command
line or environment names FOLDER/NAME is killed and FOLDER/NAME removed. When FOLDER/NAME is gone first, the test cleaned up itself: nothing is done.
The two parts of the path are two arguments so that this process does not look like one of those.
"""
import os
import shutil
import signal
import sys
import time

POLL_S = 0.2
TIMEOUT_S = 30


def start_time(pid):
    """Names a process for ever, together with its pid; "" when there is none, or only its remains."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as source:
            fields = source.read().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]


def named_by(marker):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid() or not start_time(pid):
            continue
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as command, open(f"/proc/{pid}/environ", "rb") as environment:
                if marker in command.read() + environment.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def watch(pid, home):
    born = start_time(pid)
    while born and start_time(pid) == born:
        if not os.path.isdir(home):
            return
        time.sleep(POLL_S)
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        left = named_by(os.fsencode(home))
        if not left:
            break
        for each in left:
            try:
                os.kill(each, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(POLL_S)
    shutil.rmtree(home, ignore_errors=True)


def main():
    pid, home = int(sys.argv[1]), os.path.join(sys.argv[2], sys.argv[3])
    if os.fork() != 0:
        return
    os.setsid()
    quiet = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(quiet, fd)
    os.closerange(3, 4096)  # a pipe of the test's would never see its end
    os.chdir("/")
    watch(pid, home)


if __name__ == "__main__":
    main()
