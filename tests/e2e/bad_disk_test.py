#!/usr/bin/env python3
"""The scheduler's data on a full, slow, read-only or failing disk: new work is refused with the reason, what runs goes on, what was reported lands later.

Each disk is a small tmpfs, and a library in front of the scheduler that makes its calls fail or take long. Three clusters: the disks of `full` and `slow`
are bad for longer than a lease, so theirs is short, and they are so while `broken` goes through the rest with a lease that nothing here outlasts.
"""
import concurrent.futures
import errno
import os
import re
import struct
import subprocess
import threading
import time
import unittest

from support import Cluster, compile_c, number, program, read_text, wait_for

LEASE_S = 15
DISK_MIB = 40  # of which the scheduler keeps 16 as its reserve
FULL = "disk is full|nearly full"
READ_ONLY = "read-only file system"


class SmallDisk(Cluster):
    def __init__(self, lease_s):
        self.lease = f"duration: {lease_s}s, renew_every: 500ms, silence: 10s, grace: 2s"
        super().__init__()
        os.makedirs(self.path("data"), mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=0700", "none", self.path("data")], check=True)
        self.shim = compile_c("disk_shim.c", self.path("disk_shim.so"), shared=True)
        self.disk()

    def disk(self, write_errno=0, sync_errno=0, sync_delay_ms=0):
        path = self.path("disk")
        with open(path, "r+b" if os.path.exists(path) else "w+b") as out:
            out.write(struct.pack("iii", write_errno, sync_errno, sync_delay_ms))

    def start_scheduler(self, env=None):
        super().start_scheduler({"LD_PRELOAD": self.shim, "DISK_SHIM_FILE": self.path("disk"), "DISK_SHIM_FOLDER": self.path("data")})


class Filler:
    """Takes every byte that the disk has, and again whenever some become free."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "filler")
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with open(self.path, "wb", buffering=0) as out:
            while not self.stop.is_set():
                try:
                    for size in (1 << 20, 4096):
                        while True:
                            out.write(b"x" * size)
                except OSError:
                    self.stop.wait(0.02)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        if not self.stop.is_set():
            self.stop.set()
            self.thread.join()
            os.remove(self.path)


@unittest.skipUnless(os.geteuid() == 0, "a disk of its own needs root")
class BadDisk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.full, cls.slow, cls.broken = [cls.begin(lease_s) for lease_s in (LEASE_S, LEASE_S, 10 * LEASE_S)]

    @classmethod
    def begin(cls, lease_s):
        cluster = SmallDisk(lease_s)
        cls.addClassCleanup(cls.end, cluster)
        cluster.start_scheduler()
        cluster.start_worker("n1", "cpus=64,memory=8GB,gpu=none")
        cluster.through = cls.submit_waiting(cluster, "end")
        return cluster

    @staticmethod
    def end(cluster):
        left = cluster.close()
        if left:
            raise AssertionError(f"processes left over: {left}")

    @staticmethod
    def submit_waiting(cluster, file):
        """A job that runs until there is such a file."""
        job = cluster.submit(f"name: until-{file}\nscript: |\n  while [ ! -e \"$STOP\" ]; do sleep 0.1; done\n"
                             f"env: {{STOP: '{cluster.path(file)}'}}\nresources: {{cpus: 0.5}}\n")
        cluster.wait_running(job)
        return job

    @staticmethod
    def begin_submit(cluster, request, ballast=0):
        path = cluster.path(request + ".yaml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"name: {request}\ncommand: ['true']\nresources: {{cpus: 0.1}}\nenv: {{BALLAST: '{'x' * ballast}'}}\n")
        return subprocess.Popen([program("spillway"), "submit", path, "--request-id", request], env=cluster.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def taken(self, submit):
        out, error = submit.communicate(timeout=120)
        self.assertEqual(submit.returncode, 0, out + error)
        return int(re.search(r"\d+", out).group(0))

    def timed(self, submit):
        since = time.monotonic()
        return self.taken(submit), time.monotonic() - since

    def refused(self, cluster, name, reasons):
        """Asks until somebody is refused; all that were asked. A full disk has room for as long as its log lies there already, and the first turn that
        finds none waits."""
        asked = []

        def ask():
            asked.append(self.begin_submit(cluster, f"{name}-{len(asked)}", ballast=100_000))
            try:
                asked[-1].wait(timeout=1.5)
            except subprocess.TimeoutExpired:
                pass
            return any(submit.poll() == 4 for submit in asked)
        wait_for("a job to be refused", ask)
        for submit in [submit for submit in asked if submit.poll() == 4]:
            self.assertRegex(submit.communicate()[1], "(?i)" + reasons)
            asked.remove(submit)
        self.undisturbed(cluster)
        return asked

    def lands(self, cluster, second, waiting, reasons):
        """The disk is well again: what ended meanwhile is known, who was not refused was taken, and new work is taken again."""
        self.assertEqual(cluster.wait_state(second), "SUCCEEDED")
        self.assertEqual([a["end_cause"] for a in cluster.attempts(second)], ["COMPLETED"])
        self.undisturbed(cluster)
        for submit in waiting:
            out, error = submit.communicate(timeout=120)
            self.assertIn(submit.returncode, (0, 4), out + error)
            if submit.returncode == 4:
                self.assertRegex(error, "(?i)" + reasons)

        def ask():
            submit = self.begin_submit(cluster, "well-again")
            out, error = submit.communicate(timeout=120)
            self.assertIn(submit.returncode, (0, 4), out + error)
            return int(re.search(r"\d+", out).group(0)) if submit.returncode == 0 else None
        self.assertEqual(cluster.wait_state(wait_for("new work to be taken", ask)), "SUCCEEDED")

    def undisturbed(self, cluster):
        self.assertIsNone(cluster.scheduler.poll())
        attempts = cluster.attempts(cluster.through)
        self.assertEqual([a["state"] for a in attempts], ["RUNNING"], attempts)

    # --- longer than a lease ---

    def test_1_full_slow_and_read_only_begin(self):
        cls = type(self)
        self.slow.disk(sync_delay_ms=1000 * (LEASE_S + 2))
        meanwhile = concurrent.futures.ThreadPoolExecutor()
        cls.addClassCleanup(meanwhile.shutdown)
        cls.slow_submit = meanwhile.submit(self.timed, self.begin_submit(self.slow, "slow"))
        cls.second = self.submit_waiting(self.full, "second")
        cls.filler = Filler(self.full.path("data"))
        cls.filler.__enter__()
        cls.addClassCleanup(cls.filler.__exit__)
        cls.full_since = time.monotonic()
        cls.second_of_broken = self.submit_waiting(self.broken, "second")
        self.broken.disk(write_errno=errno.EROFS)
        open(self.broken.path("second"), "w").close()
        # The command line tries for a while before it says no.
        full = meanwhile.submit(self.refused, self.full, "full", FULL)
        read_only = meanwhile.submit(self.refused, self.broken, "read-only", READ_ONLY)
        cls.waiting, cls.waiting_for_broken = full.result(), read_only.result()
        open(self.full.path("second"), "w").close()
        self.slow.disk()  # one sync is on its way, and that is enough

    def test_6_full_ends(self):
        wait_for("leases that were not renewed to end", lambda: time.monotonic() - self.full_since > LEASE_S + 3)
        self.undisturbed(self.full)
        self.filler.__exit__()
        self.lands(self.full, self.second, self.waiting, FULL)

    def test_7_slow_ends(self):
        job, seconds = self.slow_submit.result()
        self.assertGreater(seconds, LEASE_S)
        self.undisturbed(self.slow)
        self.assertEqual(self.slow.wait_state(job), "SUCCEEDED")
        self.undisturbed(self.slow)

    # --- meanwhile ---

    def test_2_read_only_ends(self):
        self.assertEqual(self.broken.task(self.second_of_broken)["state"], "ACTIVE", "its end could not be written yet")
        self.broken.disk()
        self.lands(self.broken, self.second_of_broken, self.waiting_for_broken, READ_ONLY)

    def test_3_a_failed_sync_ends_the_scheduler_and_the_next_start_is_clean(self):
        cluster = self.broken
        cluster.disk(sync_errno=errno.EIO)
        submit = self.begin_submit(cluster, "synced")
        self.assertEqual(cluster.scheduler.wait(timeout=60), 70)
        log = read_text(cluster.path("run", "spillwayd.log"))
        self.assertRegex(log, r"cannot make its state durable and ends: .*data/spillway\.db.*Input/output error")
        cluster.disk()
        verified = subprocess.run([program("spillwayd"), "--home", cluster.home, "--verify"], capture_output=True, text=True, timeout=60)
        self.assertEqual(verified.returncode, 0, verified.stderr)
        # Nobody was told yes, so whether it was taken is open; asked again, twice, it is there once.
        self.assertEqual(submit.wait(timeout=60), 5)
        submit.communicate()
        cluster.start_scheduler()
        job = self.taken(self.begin_submit(cluster, "synced"))
        again = cluster.ask("submit", cluster.path("synced.yaml"), "--request-id", "synced")
        self.assertEqual([number(j) for j in again["job_ids"]], [job])
        cluster.wait_connected("n1")
        self.undisturbed(cluster)
        self.assertEqual(cluster.wait_state(job), "SUCCEEDED")

    def test_4_it_does_not_start_on_a_read_only_disk(self):
        cluster = self.broken
        cluster.scheduler.terminate()
        cluster.scheduler.wait()
        subprocess.run(["mount", "-o", "remount,ro", cluster.path("data")], check=True)
        refused = subprocess.run([program("spillwayd"), "--home", cluster.home], env=cluster.env, capture_output=True, text=True, timeout=60)
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, r"data/spillway\.db.*: Read-only file system")
        subprocess.run(["mount", "-o", "remount,rw", cluster.path("data")], check=True)
        cluster.start_scheduler()
        cluster.wait_connected("n1")
        self.undisturbed(cluster)
        open(cluster.path("end"), "w").close()
        self.assertEqual(cluster.wait_state(cluster.through), "SUCCEEDED")
        self.assertEqual([a["end_cause"] for a in cluster.attempts(cluster.through)], ["COMPLETED"])


if __name__ == "__main__":
    unittest.main()
