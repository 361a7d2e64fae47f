#!/usr/bin/env python3
"""tests/support/reap.py: a test that is killed leaves no process and no folder behind, one that cleans up itself is not disturbed."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

REAP = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support", "reap.py")


def wait_for(what, condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited for " + what)
        time.sleep(0.02)


class Reap(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="spillway-reap-")
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        # Stands for a scheduler: of a session of its own, and of a parent that does not wait for it.
        self.daemon = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()", "--home", self.home], start_new_session=True)
        self.addCleanup(self.daemon.wait)
        self.addCleanup(self.daemon.kill)
        self.test = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        self.addCleanup(self.test.wait)
        self.addCleanup(self.test.kill)
        subprocess.run([sys.executable, REAP, str(self.test.pid), *os.path.split(self.home)], check=True, timeout=20)

    def test_a_killed_test_leaves_nothing(self):
        self.assertIsNone(self.daemon.poll())
        self.test.send_signal(signal.SIGKILL)
        self.test.wait()
        wait_for("the daemon's end", lambda: self.daemon.poll() is not None)
        wait_for("the folder to be removed", lambda: not os.path.exists(self.home))

    def test_a_test_that_cleaned_up_is_left_alone(self):
        shutil.rmtree(self.home)
        watcher = [sys.executable, REAP]

        def watching():
            names = [text.split(b"\0") for text in map(read_command, filter(str.isdigit, os.listdir("/proc")))]
            return any([os.fsencode(word) for word in (*watcher, str(self.test.pid))] == words[:3] for words in names)
        wait_for("the watcher to leave", lambda: not watching())
        self.assertIsNone(self.daemon.poll(), "its folder was gone before its test was: nothing to end")


def read_command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as source:
            return source.read()
    except OSError:
        return b""


if __name__ == "__main__":
    unittest.main()
