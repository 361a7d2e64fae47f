#!/usr/bin/env python3
"""The programs at their k-th call that changes a file (io_shim.c): each dies there, or the call fails, once or for ever; then it is started again.

spillwayd: every accepted job is there and runs once. spillway-worker: every job ends once, whatever became of its report. spillway-train: the weights
at the end are those of an unbroken run. CI tries some of the k; SPILLWAY_TEST_EVERY=1 tries each.
"""
import json
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from support import Cluster, number, processes_of, program, read_text, wait_for  # noqa: E402

LIBRARY = os.environ["SPILLWAY_IO_SHIM"]
EVERY = os.environ.get("SPILLWAY_TEST_EVERY", "") == "1"
COUNTS, DIES, ERROR_ONCE, ERROR_STAYS, FULL_ONCE, FULL_STAYS = range(6)
NAMES = ["counts", "dies", "error once", "error for ever", "full once", "full for ever"]
SHIM_EXIT = 77
NODE = "cpus=8,memory=8GB,gpu=none"


class Shim:
    """The control block of io_shim.h."""

    def __init__(self, path, folder, name):
        with open(path, "wb") as out:
            out.write(bytes(264))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 264)
        self.variables = {"LD_PRELOAD": LIBRARY, "SPILLWAY_SHIM_CONTROL": path, "SPILLWAY_SHIM_FOLDER": folder, "SPILLWAY_SHIM_PROGRAM": name,
                          "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}

    def field(self, form, offset, value=None):
        if value is None:
            return struct.unpack_from(form, self.memory, offset)[0]
        struct.pack_into(form, self.memory, offset, value)
        return value

    @property
    def calls(self):
        return self.field("<q", 0)

    @property
    def struck(self):
        return self.field("<i", 20) == 1

    @property
    def what(self):
        return self.memory[24:264].split(b"\0")[0].decode(errors="replace")

    def fail_at(self, k, mode):
        self.field("<i", 20, 0)
        self.memory[24:264] = bytes(240)
        self.field("<i", 16, mode)
        self.field("<q", 8, self.calls + k)

    def disarm(self):
        self.field("<q", 8, 0)


class Home(Cluster):
    """A cluster some of whose programs run under a shim."""

    def __init__(self):
        super().__init__()
        self.shim = None
        self.requests = 0
        self.accepted = {}
        with open(self.path("quick.yaml"), "w", encoding="utf-8") as out:
            out.write("name: quick\nscript: |\n  echo once >> \"$DONE/$SPILLWAY_JOB_ID@$SPILLWAY_ATTEMPT\"\nenv: {DONE: '%s'}\n"
                      "resources: {cpus: 0.1}\nretry: {node_fault: 20}\n" % self.path("done"))
        os.mkdir(self.path("done"))

    def write_config(self, user=0, worker=0, more=""):
        super().write_config(user, worker, "policy: {retry_backoff: 20ms}\n")
        if user:
            self.env["SPILLWAY_SERVER"] = f"127.0.0.1:{user}"

    def under(self, shim, start):
        """Starts something with the shim in its environment."""
        kept, self.env = self.env, {**self.env, **shim.variables}
        try:
            return start()
        finally:
            self.env = kept

    def kill_worker(self, node):
        self.workers[node].kill()
        self.workers[node].wait()

    def submit_quick(self, patience=60):
        """The job's number, or None when nothing answered, or only that it is full."""
        self.requests += 1
        try:
            done = self.cli("submit", self.path("quick.yaml"), "--request-id", f"q-{self.requests}", "-o", "json", timeout=patience)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode != 0:
            return None
        job = number(json.loads(done.stdout)["job_ids"][0])
        self.accepted[f"q-{self.requests}"] = job
        return job

    def state_of(self, job):
        done = self.cli("describe", str(job), "-o", "json")
        return json.loads(done.stdout)["state"] if done.returncode == 0 else None

    def verify(self):
        return subprocess.run([program("spillwayd"), "--home", self.home, "--verify"], capture_output=True, text=True)

    def check_accepted(self, test):
        """Each is there once, and ended well."""
        jobs = json.loads(self.ok("queue", "--all", "-n", "10000", "-o", "json")).get("jobs", [])
        states = {number(job["job_id"]): job["state"] for job in jobs}
        for request, job in self.accepted.items():
            test.assertEqual(states.get(job), "SUCCEEDED", f"{request} is job {job}")
        test.assertEqual(len(set(self.accepted.values())), len(self.accepted))


class Programs(unittest.TestCase):
    def home(self):
        home = Home()
        self.addCleanup(lambda: self.assertEqual(home.close(), [], "processes left over"))
        return home

    def ks(self, shim_of_k, step):
        """k = 1, 2, 3, ... (or every `step`-th, from a random one on) until the work is over before call k."""
        k = 1 if EVERY else random.randint(1, step)
        while shim_of_k(k):
            k += 1 if EVERY else step
            self.assertLess(k, 5000)
        return k

    # ---- spillwayd ----

    def scheduler_at(self, home, k, mode):
        """One life of a scheduler that meets the fault at its k-th call; False when it did not come to that."""
        shim = home.shim
        shim.fail_at(k, mode)
        port = home.path("run", "user.port")
        if os.path.exists(port):
            os.remove(port)
        home.scheduler = home.under(shim, lambda: home.spawn("spillwayd", [program("spillwayd"), "--home", home.home]))
        wait_for("the scheduler", lambda: home.scheduler.poll() is not None or read_text(port))
        if home.scheduler.poll() is None:
            # A worker that lost many schedulers in a row would wait seconds before it tries again; a new one does not.
            home.kill_worker("n1")
            home.start_worker("n1", NODE, ready=False)
            job = home.submit_quick(3 if mode == FULL_STAYS else 60)
            if job:
                wait_for("the job to end", lambda: home.scheduler.poll() is not None or home.state_of(job) == "SUCCEEDED" or shim.struck)
        struck = shim.struck
        if mode == DIES and struck:
            self.assertEqual(home.scheduler.wait(timeout=30), SHIM_EXIT)
        shim.disarm()
        if home.scheduler.poll() is None:
            home.kill_scheduler()
        code = home.scheduler.returncode
        self.assertIn(code, (-9, 1, 70, SHIM_EXIT), f"{NAMES[mode]} at call {k}, {shim.what}: " + read_text(home.path("run", "spillwayd.log"))[-500:])
        verified = home.verify()
        # A home that was never begun has nothing to verify, and a new one says so by itself.
        self.assertEqual(verified.returncode, 0, f"{NAMES[mode]} at call {k}, {shim.what}: {verified.stderr}")
        return struck

    def test_1_the_scheduler(self):
        home = self.home()
        home.start_scheduler()  # so that the ports are known and the worker stays the same one
        home.start_worker("n1", NODE)
        home.kill_scheduler()
        home.shim = Shim(home.path("shim"), home.path("data"), "spillwayd")
        last = {}
        for mode, step in ((DIES, 9), (ERROR_ONCE, 29), (ERROR_STAYS, 41), (FULL_ONCE, 31), (FULL_STAYS, 43)):
            last[mode] = self.ks(lambda k: self.scheduler_at(home, k, mode), step)
        home.start_scheduler()
        job = home.submit_quick()
        for accepted in home.accepted.values():
            self.assertEqual(home.wait_state(accepted), "SUCCEEDED")
        home.check_accepted(self)
        for name in os.listdir(home.path("done")):
            self.assertEqual(read_text(home.path("done", name)), "once\n", name)
        self.assertIsNotNone(job)
        print(f"spillwayd: k up to {last}; {len(home.accepted)} jobs accepted", file=sys.stderr)
        self.assertGreater(last[DIES], 30)

    def test_2_a_scheduler_whose_first_start_dies(self):
        """Everything a home consists of: tokens, ports, the database, its folders."""
        home = self.home()
        shutil.rmtree(home.path("run"))
        shim = home.shim = Shim(home.home + ".shim", home.home, "spillwayd")
        self.addCleanup(lambda: os.remove(home.home + ".shim"))

        def first_start(k):
            for name in os.listdir(home.home):
                if name not in ("config.yaml", "quick.yaml", "done"):
                    shutil.rmtree(home.path(name))
            os.mkdir(home.path("run"))
            shim.fail_at(k, DIES)
            home.scheduler = home.under(shim, lambda: home.spawn("spillwayd", [program("spillwayd"), "--home", home.home]))
            wait_for("the scheduler", lambda: home.scheduler.poll() is not None or read_text(home.path("run", "user.port")))
            struck = shim.struck
            if home.scheduler.poll() is None:
                home.kill_scheduler()
            self.assertEqual(home.scheduler.returncode, SHIM_EXIT if struck else -9)
            shim.disarm()
            home.write_config()
            home.start_scheduler()
            self.assertIsNotNone(home.submit_quick(), f"after call {k}, {shim.what}")
            home.kill_scheduler()
            home.write_config()
            return struck
        last = self.ks(first_start, 13)
        print(f"spillwayd's first start: k up to {last}", file=sys.stderr)
        self.assertGreater(last, 30)

    # ---- spillway-worker ----

    def worker_at(self, home, k, mode):
        shim = home.shim
        shim.fail_at(k, mode)
        home.under(shim, lambda: home.start_worker("n1", NODE, ready=False))
        worker = home.workers["n1"]
        job = home.submit_quick()
        self.assertIsNotNone(job)
        # While its disk stays broken the node cannot stage a job, and says so.
        wait_for("the job to end", lambda: worker.poll() is not None or home.state_of(job) == "SUCCEEDED" or
                 (mode in (ERROR_STAYS, FULL_STAYS) and any(a["state"] == "ENDED" for a in home.attempts(job))))
        struck = shim.struck
        shim.disarm()
        if worker.poll() is None:
            worker.kill()  # what it could not write down must not matter to the next one
        code = worker.wait()
        self.assertIn(code, (-9, SHIM_EXIT) if mode == DIES else (-9, 1), f"{NAMES[mode]} at call {k}, {shim.what}: " + read_text(home.path("run", "n1.log"))[-500:])
        if home.state_of(job) != "SUCCEEDED":
            home.start_worker("n1", NODE, ready=False)
            self.assertEqual(home.wait_state(job), "SUCCEEDED", f"{NAMES[mode]} at call {k}, {shim.what}")
            home.kill_worker("n1")
        attempts = home.attempts(job)
        if mode == DIES:
            self.assertEqual([a["end_cause"] for a in attempts], ["COMPLETED"], f"at call {k}, {shim.what}: {attempts}")
        for attempt in attempts[:-1]:
            self.assertIn(attempt["end_cause"], ("LAUNCH_FAILED", "STAGING_FAILED", "DISK_FULL"), f"{NAMES[mode]} at call {k}, {shim.what}: {attempt}")
            self.assertEqual(attempt["initiator"], "BY_NODE", attempt)
        return struck

    def test_3_the_worker(self):
        home = self.home()
        home.start_scheduler()
        home.shim = Shim(home.path("shim"), home.path("nodes", "n1"), "spillway-worker")
        last = {}
        for mode, step in ((DIES, 2), (ERROR_ONCE, 11), (ERROR_STAYS, 17), (FULL_ONCE, 13), (FULL_STAYS, 17)):
            last[mode] = self.ks(lambda k: self.worker_at(home, k, mode), step)
        home.check_accepted(self)
        print(f"spillway-worker: k up to {last}; {len(home.accepted)} jobs", file=sys.stderr)
        self.assertGreater(last[DIES], 15)
        home.start_worker("n1", NODE)

    # ---- spillway-train ----

    def test_4_the_trainer(self):
        folder = tempfile.mkdtemp(prefix="spillway-crash-")
        self.addCleanup(shutil.rmtree, folder)
        data = os.path.join(folder, "data.txt")
        with open(data, "w", encoding="utf-8") as out:
            out.write("capacity is already paid for and the overflow spills to another machine\n" * 40)
        base = [program("spillway-train"), "--data", data, "--layers", "1", "--dim", "16", "--heads", "2", "--context", "8", "--batch", "2", "--steps", "8",
                "--checkpoint-every", "3"]

        def weights(checkpoints):
            done = subprocess.run([program("spillway-train"), "--hash", os.path.join(checkpoints, "step-000000000008")], env={}, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        unbroken = os.path.join(folder, "unbroken")
        subprocess.run([*base, "--checkpoint-dir", unbroken], env={}, check=True, capture_output=True)
        expected = weights(unbroken)
        last = {}
        for mode, step in ((DIES, 17), (ERROR_ONCE, 43), (ERROR_STAYS, 61), (FULL_ONCE, 47), (FULL_STAYS, 67)):
            def run_at(k):
                checkpoints = os.path.join(folder, f"{mode}-{k}")
                shim = Shim(os.path.join(folder, "shim"), checkpoints, "spillway-train")
                shim.fail_at(k, mode)
                first = subprocess.run([*base, "--checkpoint-dir", checkpoints], env=shim.variables, capture_output=True, text=True)
                struck, what = shim.struck, f"{NAMES[mode]} at call {k}, {shim.what}: {first.stderr}"
                if mode == DIES:
                    self.assertEqual(first.returncode, SHIM_EXIT if struck else 0, what)
                second = subprocess.run([*base, "--checkpoint-dir", checkpoints], env={}, capture_output=True, text=True)
                self.assertEqual(second.returncode, 0, what + second.stderr)
                self.assertEqual(weights(checkpoints), expected, what)
                return struck
            last[mode] = self.ks(run_at, step)
        print(f"spillway-train: k up to {last}", file=sys.stderr)
        self.assertGreater(last[DIES], 30)


if __name__ == "__main__":
    unittest.main()
