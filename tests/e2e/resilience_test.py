#!/usr/bin/env python3
"""kill -9 with real processes: the scheduler at random moments, the worker while its jobs run. No accepted job is lost, no attempt of a healthy node disturbed."""
import os
import random
import signal
import subprocess
import sys
import time
import unittest

from support import BIN, ClusterTest, number, processes_of, program, wait_for

SEED = int(os.environ.get("SPILLWAY_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
KILLS = int(os.environ.get("SPILLWAY_TEST_KILLS", "30"))


class Resilience(ClusterTest):
    def test_1_the_scheduler_is_killed_at_random_moments(self):
        print(f"seed {SEED}; again with SPILLWAY_TEST_SEED={SEED}", file=sys.stderr)
        rng = random.Random(SEED)
        cluster = self.cluster
        cluster.start_worker("n1", "cpus=64,memory=8GB,gpu=none")
        ticker = "name: ticker\nscript: |\n  i=0\n  while [ ! -e \"$STOP\" ]; do i=$((i+1)); echo tick $i; sleep 0.2; done\nenv: {STOP: '%s'}\n" % cluster.path("stop")
        tickers = [cluster.submit(ticker) for _ in range(4)]
        for job in tickers:
            cluster.wait_running(job)
        pids = {job: self.shell_of(job) for job in tickers}
        accepted, requests = [], 0
        for kill in range(KILLS):
            moment = time.monotonic() + rng.uniform(0.0, 0.3)
            while time.monotonic() < moment:
                requests += 1
                accepted += self.try_submit(f"s-{requests}")
            if rng.random() < 0.5:
                # Kill while a submit is on its way.
                requests += 1
                on_its_way = subprocess.Popen([program("spillway"), "submit", cluster.path("small.yaml"), "--request-id", f"s-{requests}", "-o", "json"],
                                              env=cluster.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                time.sleep(rng.uniform(0.0, 0.05))
                cluster.kill_scheduler()
                out, _ = on_its_way.communicate(timeout=120)
                if on_its_way.returncode == 0:
                    accepted.append(f"s-{requests}")
            else:
                cluster.kill_scheduler()
            cluster.start_scheduler()
        for job in tickers:
            attempts = cluster.attempts(job)
            self.assertEqual(len(attempts), 1, f"job {job} was disturbed: {attempts}")
            self.assertEqual(self.shell_of(job), pids[job])
        # Every accepted submit is there exactly once: sent again, it answers with the same job.
        for request in accepted:
            again = cluster.ask("submit", cluster.path("small.yaml"), "--request-id", request)
            self.assertTrue(again["repeated_request"], request)
            self.assertEqual(cluster.wait_state(number(again["job_ids"][0]), seconds=120), "SUCCEEDED")
        self.assertGreater(len(accepted), KILLS // 3)
        open(cluster.path("stop"), "w").close()
        for job in tickers:
            self.assertEqual(cluster.wait_state(job), "SUCCEEDED")
            ticks = [int(line.split()[1]) for line in cluster.ok("logs", str(job)).splitlines()]
            self.assertEqual(ticks, list(range(1, len(ticks) + 1)), "the log has no gap and nothing twice")

    def test_2_a_killed_worker_comes_back_to_its_jobs(self):
        cluster = self.cluster
        job = cluster.submit("name: survivor\nscript: |\n  for i in $(seq 1 40); do echo tick $i; sleep 0.1; done\n")
        cluster.wait_running(job)
        pid = self.shell_of(job)
        for _ in range(2):
            cluster.workers["n1"].send_signal(signal.SIGKILL)
            cluster.workers["n1"].wait()
            cluster.start_worker("n1", "cpus=64,memory=8GB,gpu=none")
        self.assertEqual(self.shell_of(job), pid)
        self.assertEqual(cluster.wait_state(job), "SUCCEEDED")
        self.assertEqual(len(cluster.attempts(job)), 1)
        self.assertEqual(cluster.ok("logs", str(job)), "".join(f"tick {i}\n" for i in range(1, 41)))

    def test_3_a_killed_supervisor_ends_its_jobs_with_a_known_cause(self):
        cluster = self.cluster
        job = cluster.submit("name: orphan\ncommand: [sleep, '876543']\nretry: {node_fault: 1}\n")
        cluster.wait_running(job)
        with open(cluster.path("nodes", "n1", "supervisor.pid"), encoding="utf-8") as source:
            os.kill(int(source.read().split()[0]), signal.SIGKILL)
        wait_for("a second attempt", lambda: len(cluster.attempts(job)) == 2, 90)
        self.assertEqual(cluster.attempts(job)[0]["end_cause"], "NODE_LOST")
        cluster.wait_running(job)
        sleeping = subprocess.run(["pgrep", "-fc", "^sleep 876543$"], capture_output=True, text=True).stdout.strip()
        self.assertEqual(sleeping, "1", "the first attempt's process must be gone")
        cluster.ok("cancel", "--now", str(job))
        cluster.wait_state(job)

    def test_4_the_events_replay_to_the_stored_state(self):
        self.cluster.scheduler.terminate()
        self.cluster.scheduler.wait()
        done = subprocess.run([program("spillwayd"), "--home", self.cluster.home, "--verify"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("byte for byte", done.stdout)

    def try_submit(self, request):
        path = self.cluster.path("small.yaml")
        if not os.path.exists(path):
            with open(path, "w", encoding="utf-8") as out:
                out.write("name: small\ncommand: ['true']\nresources: {cpus: 0.1}\n")
        return [request] if self.cluster.cli("submit", path, "--request-id", request).returncode == 0 else []

    def shell_of(self, job):
        """The pid of the job's own process: its environment names the job."""
        for pid in processes_of(f"SPILLWAY_JOB_ID={job}\0"):
            with open(f"/proc/{pid}/environ", "rb") as environment:
                text = environment.read()
            if f"SPILLWAY_JOB_ID={job}\0".encode() in text and self.cluster.home.encode() in text:
                with open(f"/proc/{pid}/cmdline", "rb") as command:
                    if b"sleep" not in command.read():
                        return pid
        return None


if __name__ == "__main__":
    unittest.main()
