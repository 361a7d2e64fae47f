#!/usr/bin/env python3
"""kill -9 with real processes at random moments, start-up included: the scheduler, workers, supervisors, while jobs run.

Afterwards: no accepted job is lost and none is there twice, no attempt of a healthy node was disturbed (those of a killed supervisor end with a known
cause), no task ever had two living attempts, the stored events replay to the stored state, and nothing is left running.
SPILLWAY_TEST_SEED repeats a run's draws; SPILLWAY_TEST_KILLS=SCHEDULER[,WORKER[,SUPERVISOR]] says how often (200,100,50).
"""
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest

from support import Cluster, number, processes_of, program, read_text, wait_for

SEED = int(os.environ.get("SPILLWAY_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
KILLS = [int(n) for n in os.environ.get("SPILLWAY_TEST_KILLS", "200,100,50").split(",")]
SCHEDULER_KILLS, WORKER_KILLS, SUPERVISOR_KILLS = KILLS + [200, 100, 50][len(KILLS):]
NODE = "cpus=64,memory=8GB,gpu=none"


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


class Guarded(Cluster):
    """Every job takes a lock of its task and keeps it for as long as one of its processes lives: the kernel says when two attempts live at once."""

    def __init__(self, more=""):
        super().__init__()
        os.mkdir(self.path("locks"))
        self.more = more
        self.start_scheduler()

    def write_config(self, user=0, worker=0, more=""):
        super().write_config(user, worker, more or getattr(self, "more", ""))
        if user:
            self.env["SPILLWAY_SERVER"] = f"127.0.0.1:{user}"

    def guarded(self, name, script, more=""):
        guard = 'task=$SPILLWAY_JOB_ID.$SPILLWAY_TASK_INDEX\n  exec 9>>"$LOCKS/$task"\n  flock -n 9 || echo "$task@$SPILLWAY_ATTEMPT" >> "$LOCKS/twice"\n  '
        return f"name: {name}\nscript: |\n  {guard}{script}\nenv: {{LOCKS: '{self.path('locks')}', STOP: '{self.path('stop')}'}}\nresources: {{cpus: 0.1}}\n{more}"

    def write_job(self, name, text):
        path = self.path(name + ".yaml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def start_tickers(self, count, more=""):
        script = 'i=0\n  while [ ! -e "$STOP" ]; do i=$((i+1)); echo tick $i; sleep 0.2; done'
        jobs = [self.submit(self.guarded(f"ticker-{n}", script, more)) for n in range(count)]
        for job in jobs:
            self.wait_running(job)
        return {job: self.process_of(job) for job in jobs}

    def process_of(self, job):
        """The pid of the job's shell: its lock file is open there, and its parent is no process of the job."""
        pids = {}
        for pid in processes_of(f"SPILLWAY_JOB_ID={job}\0"):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environment, open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                    if self.path("locks").encode() in environment.read():
                        pids[pid] = int(stat.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
        return next((pid for pid, parent in pids.items() if parent not in pids), None)

    def all_jobs(self):
        return json.loads(self.ok("queue", "--all", "-n", "10000", "-o", "json")).get("jobs", [])

    def wait_all_ended(self, seconds=60):
        wait_for("every job to end", lambda: not json.loads(self.ok("queue", "-n", "10000", "-o", "json")).get("jobs"), seconds)

    def check_tickers(self, test, pids):
        """Untouched: one attempt, the same process; and their logs have no gap and nothing twice."""
        for job, pid in pids.items():
            test.assertEqual(len(self.attempts(job)), 1, f"job {job} was disturbed: {self.attempts(job)}")
            test.assertEqual(self.process_of(job), pid)
        open(self.path("stop"), "w").close()
        for job in pids:
            test.assertEqual(self.wait_state(job), "SUCCEEDED")
            ticks = [int(line.split()[1]) for line in self.ok("logs", str(job)).splitlines()]
            test.assertEqual(ticks, list(range(1, len(ticks) + 1)))

    def check_end(self, test):
        test.assertEqual(read_text(self.path("locks", "twice")), "", "these tasks had two living attempts")
        self.scheduler.terminate()
        self.scheduler.wait()
        done = subprocess.run([program("spillwayd"), "--home", self.home, "--verify"], capture_output=True, text=True)
        test.assertEqual(done.returncode, 0, done.stderr)
        test.assertIn("byte for byte", done.stdout)


class Submitter:
    """Submits one job after the other from a thread of its own; what got no answer is sent again with the same request id, until it has one."""

    def __init__(self, cluster, script, more="", pause=0.0):
        self.cluster, self.script, self.more, self.pause = cluster, script, more, pause
        self.accepted, self.sent, self.repeats, self.error = {}, 0, 0, None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.stopping.is_set():
                self.sent += 1
                name = f"s-{self.sent}"
                path = self.cluster.write_job(name, self.cluster.guarded(name, self.script, self.more))
                tries = 0
                while name not in self.accepted:
                    tries += 1
                    done = self.cluster.cli("submit", path, "--request-id", name, "-o", "json")
                    if done.returncode == 0:
                        self.accepted[name] = number(json.loads(done.stdout)["job_ids"][0])
                    elif done.returncode != 5:
                        raise AssertionError(f"submit said {done.returncode}: {done.stderr}")
                    elif self.stopping.wait(0.005):
                        return
                self.repeats += tries > 1
                self.stopping.wait(self.pause)
        except BaseException as error:
            self.error = error

    def stop(self):
        self.stopping.set()
        self.thread.join(timeout=150)
        if self.error:
            raise self.error

    def check(self, test):
        """Each accepted job is there, once, under the number that was answered; what was not answered is there once or not at all."""
        ids = {}
        for job in self.cluster.all_jobs():
            if job["name"].startswith("s-"):
                ids.setdefault(job["name"], []).append(job)
        for name, job in self.accepted.items():
            test.assertEqual([number(j["job_id"]) for j in ids.get(name, [])], [job], name)
        for name, jobs in ids.items():
            test.assertEqual(len(jobs), 1, f"{name} is there twice")
            test.assertEqual(jobs[0]["state"], "SUCCEEDED", name)
        return {name: jobs[0] for name, jobs in ids.items()}


def zombie_of(parents, pid):
    stat = read_text(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split()
    return len(stat) > 1 and stat[0] == "Z" and int(stat[1]) in parents


class Resilience(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed {SEED}; again with SPILLWAY_TEST_SEED={SEED}", file=sys.stderr)

    def guarded(self, more=""):
        cluster = Guarded(more)
        self.addCleanup(lambda: self.assertEqual(cluster.close(), [], "processes left over"))
        return cluster

    def test_1_the_scheduler_is_killed_at_random_moments(self):
        rng = random.Random(SEED)
        cluster = self.guarded()
        for node in ("n1", "n2"):
            cluster.start_worker(node, NODE)
        tickers = cluster.start_tickers(4)
        cluster.kill_scheduler()
        began = time.monotonic()
        cluster.start_scheduler()
        startup = time.monotonic() - began  # moments are drawn in proportion: a loaded machine tries the same as an idle one
        cluster.kill_scheduler()
        submitter = Submitter(cluster, "true")
        self.addCleanup(submitter.stopping.set)
        starts, ups = 0, 0
        for _ in range(SCHEDULER_KILLS):
            # A third dies while it starts; most live for a moment, and every tenth long enough to have its workers back.
            port = cluster.path("run", "user.port")
            if os.path.exists(port):
                os.remove(port)
            cluster.scheduler = cluster.spawn("spillwayd", [program("spillwayd"), "--home", cluster.home])
            draw = rng.random()
            if draw < 0.33:
                time.sleep(rng.uniform(0.0, startup))
                starts += not os.path.exists(port)
            else:
                wait_for("the scheduler", lambda: cluster.scheduler.poll() is not None or os.path.exists(port))
                ups += 1
                time.sleep(rng.uniform(0.3, 0.9) if draw > 0.9 else rng.uniform(0.0, 1.5 * startup))
            self.assertIsNone(cluster.scheduler.poll(), "spillwayd ended: " + read_text(cluster.path("run", "spillwayd.log"))[-500:])
            cluster.kill_scheduler()
        cluster.start_scheduler()
        submitter.stop()
        cluster.check_tickers(self, tickers)
        cluster.wait_all_ended()
        jobs = submitter.check(self)
        for name, job in jobs.items():
            self.assertEqual([a["end_cause"] for a in job["tasks"][0]["attempts"]], ["COMPLETED"], f"{name} was disturbed")
        print(f"{SCHEDULER_KILLS} kills, {starts} while starting; {len(submitter.accepted)} accepted, {submitter.repeats} of them after a repeat", file=sys.stderr)
        self.assertGreater(starts, SCHEDULER_KILLS // 20)
        self.assertGreater(len(submitter.accepted), ups // 20)
        self.assertGreater(submitter.repeats, 0)
        cluster.check_end(self)

    def test_2_a_killed_worker_comes_back_to_its_jobs(self):
        rng = random.Random(SEED + 1)
        cluster = self.guarded()
        cluster.start_worker("n1", NODE)
        tickers = cluster.start_tickers(4)
        submitter = Submitter(cluster, "sleep 0.1", pause=0.1)
        self.addCleanup(submitter.stopping.set)
        for _ in range(WORKER_KILLS):
            cluster.workers["n1"].send_signal(signal.SIGKILL)
            cluster.workers["n1"].wait()
            cluster.start_worker("n1", NODE, ready=False)
            draw = rng.random()
            time.sleep(rng.uniform(0.0, 0.06) if draw < 0.3 else rng.uniform(0.0, 0.3))
            self.assertIsNone(cluster.workers["n1"].poll(), "the worker ended: " + read_text(cluster.path("run", "n1.log"))[-500:])
        submitter.stop()
        cluster.check_tickers(self, tickers)
        cluster.wait_all_ended()
        jobs = submitter.check(self)
        for name, job in jobs.items():
            self.assertEqual([a["end_cause"] for a in job["tasks"][0]["attempts"]], ["COMPLETED"], f"{name} was disturbed")
        print(f"{WORKER_KILLS} kills; {len(jobs)} jobs meanwhile", file=sys.stderr)
        self.assertGreater(len(jobs), WORKER_KILLS // 20)
        cluster.check_end(self)

    def test_3_a_killed_supervisor_ends_its_jobs_with_a_known_cause(self):
        rng = random.Random(SEED + 2)
        cluster = self.guarded("policy: {retry_backoff: 20ms}\n")
        cluster.start_worker("healthy", "cpus=0.4,memory=8GB,gpu=none")
        tickers = cluster.start_tickers(4)  # it is full with these
        victims = ["v1", "v2", "v3"]
        for node in victims:
            cluster.start_worker(node, NODE)
        # A daemon of its own, which a killed supervisor's successor must find; and time enough to be hit.
        script = "(setsid sleep 60 >/dev/null 2>&1 &)\n  sleep 0.3"
        submitter = Submitter(cluster, script, more="retry: {node_fault: 100}\n", pause=0.02)
        self.addCleanup(submitter.stopping.set)
        kills = {node: [] for node in victims}
        for i in range(SUPERVISOR_KILLS):
            node = victims[i % len(victims)]
            file = cluster.path("nodes", node, "supervisor.pid")
            before = kills[node][-1] if kills[node] else 0

            def successor():
                pid = int((read_text(file).split() or ["0"])[0])
                return pid if pid not in (0, before) and str(pid) in os.listdir("/proc") else None
            pid = wait_for(f"the supervisor of {node}", successor)
            time.sleep(rng.uniform(0.0, 0.02) if rng.random() < 0.3 else rng.uniform(0.0, 0.25))
            self.assertTrue(kill(pid), f"the supervisor of {node} had ended: " + read_text(cluster.path("nodes", node, "supervisor.log"))[-500:])
            kills[node].append(pid)
        submitter.stop()
        wait_for("every short job to end", lambda: len(json.loads(cluster.ok("queue", "-n", "10000", "-o", "json")).get("jobs", [])) == len(tickers), 90)
        cluster.check_tickers(self, tickers)
        jobs = submitter.check(self)
        hit = 0
        for name, job in jobs.items():
            attempts = job["tasks"][0]["attempts"]
            self.assertEqual(attempts[-1]["end_cause"], "COMPLETED", name)
            for attempt in attempts[:-1]:
                hit += 1
                self.assertEqual((attempt["end_cause"], attempt["node_name"] in victims), ("NODE_LOST", True), f"{name}: {attempt}")
        print(f"{SUPERVISOR_KILLS} kills; {len(jobs)} jobs meanwhile, {hit} attempts ended by a kill", file=sys.stderr)
        self.assertGreater(hit, SUPERVISOR_KILLS // 5)
        workers = {cluster.workers[node].pid for node in victims}
        wait_for("every killed supervisor to be reaped", lambda: not any(zombie_of(workers, pid) for pid in os.listdir("/proc") if pid.isdigit()))
        self.assertEqual([p for p in processes_of(cluster.home) if read_text(f"/proc/{p}/cmdline").startswith("sleep")], [], "left over by an attempt that ended")
        cluster.check_end(self)


if __name__ == "__main__":
    unittest.main()
