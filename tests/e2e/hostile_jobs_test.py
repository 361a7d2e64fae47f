#!/usr/bin/env python3
"""Hostile and unlucky jobs with real processes: each ends exactly as named, harms nobody, and leaves nothing running.

One scheduler, two nodes: `n1` with all that this machine can enforce, `n2` with what is left where it can enforce nothing (a reaper holds the trees,
limits are looked at). Every job is submitted at once; each test waits for its own.
"""
import os
import re
import struct
import subprocess
import time
import unittest

from support import ENDED, ClusterTest, compile_c, living, marked_with, number, program, read_text, wait_for

MIB = 1 << 20
LOG_MAX = 64 * MIB
PROCESSES_MAX = 64               # of an attempt on these nodes; the bomb stops by itself at 300
TEXT = "/usr/share/common-licenses/GPL-3"


class HostileJobs(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cluster = cls.cluster
        cls.hostile = compile_c("hostile.c", cluster.path("hostile"))
        cls.shim = compile_c("clock_shim.c", cluster.path("clock_shim.so"), shared=True)
        cls.set_clock(0)
        with open(cluster.path("hour"), "wb") as out:
            out.write(struct.pack("q", 3600))
        # On n2 the supervisor's own clock can be made to jump.
        bounded = ("--processes", str(PROCESSES_MAX))
        cluster.start_worker("n1", "cpus=32,memory=16GB,disk=10GB,gpu=none", ready=False, flags=bounded)
        cluster.start_worker("n2", "cpus=32,memory=16GB,disk=10GB,gpu=none", ready=False, flags=(*bounded, "--containment", "reaper", "--disk-quota", "watch"),
                             env={"LD_PRELOAD": cls.shim, "CLOCK_SHIM_FILE": cluster.path("clock"), "CLOCK_SHIM_ONLY": "spillway-superv"})
        for name in ("n1", "n2"):
            cluster.wait_connected(name)
        cls.jobs = {}
        for node in ("n1", "n2"):
            cls.submit_all(node)

    @classmethod
    def set_clock(cls, seconds):
        with open(cls.cluster.path("clock"), "r+b" if os.path.exists(cls.cluster.path("clock")) else "w+b") as out:
            out.write(struct.pack("q", seconds))

    @classmethod
    def submit(cls, node, name, command, more=""):
        words = ", ".join(f"'{word}'" for word in command)
        cls.jobs[name, node] = cls.cluster.submit(f"name: {name}-{node}\ncommand: [{words}]\nplacement: {{nodes: [{node}]}}\n{more}")

    @classmethod
    def submit_all(cls, node):
        path = cls.cluster.path
        train = [program("spillway-train"), "--data", TEXT, "--steps", "4", "--checkpoint-every", "4", "--dim", "32", "--layers", "1"]
        cls.submit(node, "print", [cls.hostile, "print", str(1 << 30)])
        cls.submit(node, "stubborn", [cls.hostile, "stubborn", path("stubborn-" + node)], "checkpoint: {grace: 500ms}\n")
        cls.submit(node, "daemon", [cls.hostile, "daemon", path("daemon-" + node)])
        cls.submit(node, "fill", [cls.hostile, "fill", "file"], "resources: {disk: 24MiB}\n")
        cls.submit(node, "eat", [cls.hostile, "eat", str(256 * MIB)], "resources: {memory: 64MiB}\n")
        cls.submit(node, "eat-in-shell", ["sh", "-c", f"{cls.hostile} eat {256 * MIB}; exit 7"], "resources: {memory: 64MiB}\n")
        cls.submit(node, "missing", ["/no/such/program"])
        cls.submit(node, "again", ["sh", "-c", f'[ $SPILLWAY_ATTEMPT != 1 ] || {{ {" ".join(train)}; exit 85; }}'])
        cls.submit(node, "in-vain", ["sh", "-c", "exit 85"])
        cls.submit(node, "garbage", [cls.hostile, "garbage"])
        cls.submit(node, "close", [cls.hostile, "close"])
        cls.submit(node, "flood", [cls.hostile, "flood"])
        cls.submit(node, "late", ["sh", "-c", f"{cls.hostile} seconds; sleep 600"],
                   f"env: {{LD_PRELOAD: {cls.shim}, CLOCK_SHIM_FILE: {path('hour')}}}\nlimits: {{max_duration: 3s}}\ncheckpoint: {{grace: 500ms}}\n")

    def ended(self, name, node, state, *causes, seconds=120):
        """Its last attempt, after it ended as it should and left nothing."""
        job = self.jobs[name, node]
        seen = wait_for(f"{name} on {node} to end", lambda: (lambda j: j if j["state"] in ENDED else None)(self.cluster.job(job)), seconds)
        self.assertEqual(seen["state"], state, seen)
        attempts = seen["tasks"][0]["attempts"]
        self.assertEqual([a["end_cause"] for a in attempts], list(causes), attempts)
        self.assertEqual(self.cluster.marked(job), [])
        return attempts[-1]

    def on_both(self, check):
        for node in ("n1", "n2"):
            with self.subTest(node=node):
                check(node)

    # --- each as named ---

    def test_one_whose_command_does_not_exist(self):
        def check(node):
            attempt = self.ended("missing", node, "FAILED", "LAUNCH_FAILED")
            self.assertIn("/no/such/program: No such file or directory", attempt["detail"])
            self.assertEqual(attempt["initiator"], "BY_JOB")
        self.on_both(check)

    def test_one_that_ignores_sigterm(self):
        def check(node):
            job = self.jobs["stubborn", node]
            wait_for("it to be stubborn", lambda: os.path.exists(self.cluster.path("stubborn-" + node)))
            self.assertEqual(len(self.cluster.marked(job, 1)), 2)
            self.cluster.ok("cancel", str(job))
            attempt = self.ended("stubborn", node, "CANCELLED", "CANCELLED")
            self.assertIn("SIGKILL", attempt["detail"])
        self.on_both(check)

    def test_one_that_leaves_daemons(self):
        def check(node):
            self.ended("daemon", node, "SUCCEEDED", "COMPLETED")
            daemons = [int(pid) for pid in read_text(self.cluster.path("daemon-" + node)).split()]
            self.assertEqual(len(daemons), 2)
            self.assertEqual([pid for pid in daemons if living(pid)], [])
        self.on_both(check)

    def test_one_that_fills_its_disk(self):
        def check(node):
            attempt = self.ended("fill", node, "FAILED", "DISK_FULL")
            self.assertIn("(resources.disk)", attempt["detail"])
            self.assertEqual(attempt["initiator"], "BY_JOB")
            if self.enforced("n1", "disk", "mount") and node == "n1":
                self.assertIn("exit code 3", attempt["detail"])
                self.assertIn("cannot write: No space left on device", self.cluster.ok("logs", str(self.jobs["fill", node])))
            wait_for("its folder to be gone", lambda: not os.listdir(self.cluster.path("nodes", node, "attempts")) or
                     not any(name.startswith(f"{self.jobs['fill', node]}.0@") for name in os.listdir(self.cluster.path("nodes", node, "attempts"))))
        self.on_both(check)

    def test_one_over_its_memory(self):
        def check(node):
            self.assertIn("out of memory", self.ended("eat", node, "FAILED", "OUT_OF_MEMORY")["detail"])
            # A process of the tree is killed, and the job fails for it. Where the tree is only looked at, all of it is killed.
            self.assertIn("exit code 7" if node == "n1" and self.enforced("n1", "memory", "cgroup") else "SIGKILL",
                          self.ended("eat-in-shell", node, "FAILED", "OUT_OF_MEMORY")["detail"])
        self.on_both(check)

    def test_one_that_asks_to_be_run_again(self):
        def check(node):
            self.ended("again", node, "SUCCEEDED", "CHECKPOINTED", "COMPLETED")
            checkpoints = self.cluster.ask("checkpoints", "list", str(self.jobs["again", node]))["checkpoints"]
            self.assertEqual([number(c["step"]) for c in checkpoints], [4])
            attempt = self.ended("in-vain", node, "FAILED", "USER_ERROR")
            self.assertIn("exit code 85 without a new checkpoint", attempt["detail"])
        self.on_both(check)

    def test_one_that_talks_garbage(self):
        def check(node):
            self.ended("garbage", node, "SUCCEEDED", "COMPLETED")
            job = self.jobs["garbage", node]
            log = self.cluster.ok("logs", str(job))
            self.assertEqual(len(re.findall(r"\[spillway\] ignored: message on SPILLWAY_SOCKET", log)), 1, "said once, however often it happens")
            self.assertEqual(self.cluster.ask("checkpoints", "list", str(job)).get("checkpoints", []), [])
        self.on_both(check)

    def test_one_that_closes_or_floods_its_descriptors(self):
        def check(node):
            self.ended("close", node, "SUCCEEDED", "COMPLETED")
            self.ended("flood", node, "SUCCEEDED", "COMPLETED")
            self.assertIn("Too many open files", self.cluster.ok("logs", str(self.jobs["flood", node])))
        self.on_both(check)

    def test_one_that_prints_a_gigabyte(self):
        def check(node):
            self.ended("print", node, "SUCCEEDED", "COMPLETED", seconds=240)
            job = self.jobs["print", node]
            file = self.log_file(job)
            self.assertGreater(os.path.getsize(file), 1 << 30)
            self.assertLess(os.stat(file).st_blocks * 512, LOG_MAX + MIB, "the gap is a hole")
            shown = subprocess.run([program("spillway"), "logs", str(job)], env=self.cluster.env, capture_output=True, timeout=120, check=True).stdout
            self.assertLessEqual(len(shown), LOG_MAX + MIB)
            self.assertGreater(len(shown), LOG_MAX // 2)
            self.assertTrue(shown.startswith(b"line 000000000001 of a job"))
            self.assertRegex(shown[-200:], rb"\nlast line \d+\n$")
            self.assertEqual(len(re.findall(rb"^\[spillway: \d+ bytes left out\]$", shown, re.M)), 1, "the gap is marked")
            peak = int(re.search(r"VmHWM:\s+(\d+) kB", read_text(f"/proc/{self.cluster.supervisor_pid(node)}/status")).group(1))
            self.assertLess(peak, 64 << 10, "the supervisor holds no log in memory")
        self.on_both(check)

    def test_one_whose_clock_is_an_hour_off(self):
        def check(node):
            attempt = self.ended("late", node, "FAILED", "TIMEOUT")
            self.ran(attempt, 3)
            said = int(self.cluster.ok("logs", str(self.jobs["late", node])).split()[0])
            self.assertGreater(said, time.time() + 3_000, "it was lied to")
        self.on_both(check)

    @unittest.skipUnless(subprocess.run(["unshare", "--time", "--boottime", "3600", "true"], capture_output=True).returncode == 0,
                         "no time namespaces here")
    def test_one_in_a_time_namespace(self):
        self.submit("n1", "boottime", ["unshare", "--time", "--boottime", "3600", "--monotonic", "3600", "--fork", "sleep", "600"],
                    "limits: {max_duration: 1s}\ncheckpoint: {grace: 500ms}\n")
        attempt = self.ended("boottime", "n1", "FAILED", "TIMEOUT")
        self.ran(attempt, 1)

    def test_the_nodes_clock_jumps(self):
        """Neither the end of a job's time nor a lease moves when somebody sets the machine's clock."""
        more = "checkpoint: {grace: 500ms}\nlimits: {max_duration: %s}\n"
        self.addCleanup(self.set_clock, 0)
        self.submit("n2", "long", ["sleep", "600"], more % "1h")
        self.cluster.wait_running(self.jobs["long", "n2"])
        self.submit("n2", "short", ["sleep", "600"], more % "4s")
        self.cluster.wait_running(self.jobs["short", "n2"])
        for hours in (2, -2):
            self.set_clock(hours * 3600)
            self.cluster.ok("nodes")  # by then the supervisor has looked at its clocks
        self.ran(self.ended("short", "n2", "FAILED", "TIMEOUT"), 4)
        self.set_clock(0)
        self.assertEqual(self.cluster.task(self.jobs["long", "n2"])["state"], "ACTIVE")
        self.cluster.ok("cancel", "--now", str(self.jobs["long", "n2"]))
        self.ended("long", "n2", "CANCELLED", "CANCELLED")

    # --- last, because they are loud ---

    def test_y_one_that_forks_without_end(self):
        self.submit("n1", "bomb", [self.hostile, "bomb"])
        job = self.jobs["bomb", "n1"]
        self.cluster.wait_running(job)
        if self.enforced("n1", "processes", "cgroup"):
            wait_for("it to be refused", lambda: "no more processes" in self.cluster.ok("logs", str(job)), 20)
            self.assertLessEqual(len(self.cluster.marked(job, 1)), PROCESSES_MAX)
            # Its neighbours live on.
            self.assertEqual(self.cluster.cli("run", "--", "true").returncode, 0)
            self.cluster.ok("cancel", "--now", str(job))
            self.ended("bomb", "n1", "CANCELLED", "CANCELLED")
        else:
            self.ended("bomb", "n1", "FAILED", "USER_ERROR")

    def test_z_one_that_forks_without_end_where_nothing_stops_it(self):
        self.submit("n2", "bomb", [self.hostile, "bomb"])
        attempt = self.ended("bomb", "n2", "FAILED", "USER_ERROR")
        self.assertIn(f"more than its {PROCESSES_MAX}", attempt["detail"])

    def test_zz_the_node_says_what_it_can_hold(self):
        self.assertRegex(self.cluster.ok("describe", "node", "n2"),
                         r"isolation +reaper \(as asked\); memory: watched; processes: watched; disk: watched \(as asked\)")
        self.assertRegex(self.cluster.ok("describe", "node", "n1"),
                         r"isolation +(cgroup2|reaper \(.+\)); memory: (cgroup|watched); processes: (cgroup|watched); disk: (mount|watched \(.+\))")

    def test_zzz_nothing_is_left(self):
        for job in self.jobs.values():
            self.cluster.wait_state(job)
        self.assertEqual(marked_with("/", self.cluster.home), [])
        for node in ("n1", "n2"):
            for folder in self.cgroups_of(node):
                wait_for(f"{folder} to be empty", lambda: read_text(os.path.join(folder, "cgroup.procs")) == "", 30)
        mounts = [line.split()[1] for line in read_text("/proc/self/mounts").splitlines()]
        self.assertEqual([point for point in mounts if point.startswith(self.cluster.home + "/")], [])

    def ran(self, attempt, seconds):
        """By the clock that nobody lied to; what the attempt's two reports took on their way counts, an hour does not fit in."""
        self.assertIn(f"ran for its max_duration of {seconds}s", attempt["detail"])
        ran_ms = number(attempt["ended_utc_ms"]) - number(attempt["started_utc_ms"])
        self.assertTrue(250 * seconds < ran_ms < 600_000, ran_ms)

    def enforced(self, node, what, how):
        return f"{what}: {how}" in self.cluster.node(node)["isolation"]

    def log_file(self, job):
        for folder, _, names in os.walk(self.cluster.path("store", "logs")):
            for name in names:
                if f"/{job}/" in os.path.join(folder, name):
                    return os.path.join(folder, name)
        raise AssertionError(f"no log of job {job}")

    def cgroups_of(self, node):
        """Every cgroup of a node's attempts, in whatever hierarchy: their folder carries the id of the node's home."""
        value = 14695981039346656037
        for byte in self.cluster.path("nodes", node).encode():
            value = ((value ^ byte) * 1099511628211) % (1 << 64)
        name = f"spillway-{value & 0xffffffffffff:012x}"
        return [folder for folder, _, files in os.walk("/sys/fs/cgroup") if name in folder and "cgroup.procs" in files]


if __name__ == "__main__":
    unittest.main()
