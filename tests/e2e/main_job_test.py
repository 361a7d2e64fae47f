#!/usr/bin/env python3
"""A job end to end with the real binaries: submit, log, end; training that is preempted and resumes from its checkpoint; the bill."""
import os
import re
import subprocess
import unittest

from support import Cluster, ClusterTest, number, program, wait_for

TEXT = "/usr/share/common-licenses/GPL-3"


class MainJob(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.start_worker("n1")

    def test_run_prints_the_log_and_exits_with_the_jobs_result(self):
        done = self.cluster.cli("run", "--", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("out\n", done.stdout)
        self.assertEqual(self.cluster.cli("run", "--", "sh", "-c", "exit 3").returncode, 1)

    def test_a_script_with_its_environment(self):
        job = self.cluster.submit("name: envs\nscript: |\n  echo model=$MODEL job=$SPILLWAY_JOB_ID attempt=$SPILLWAY_ATTEMPT rank=$SPILLWAY_NODE_RANK/$SPILLWAY_NUM_NODES\nenv: {MODEL: bert}\n")
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        self.assertIn(f"model=bert job={job} attempt=1 rank=0/1\n", self.cluster.ok("logs", str(job)))

    def test_a_command_that_does_not_exist(self):
        job = self.cluster.submit("name: none\ncommand: [/no/such/program]\n")
        self.assertEqual(self.cluster.wait_state(job), "FAILED")
        self.assertEqual(self.cluster.attempts(job)[-1]["end_cause"], "LAUNCH_FAILED")

    def test_cancel_ends_the_whole_tree(self):
        job = self.cluster.submit("name: tree\nscript: |\n  setsid sleep 987654 &\n  sleep 987654\ncheckpoint: {grace: 1s}\n")
        self.cluster.wait_running(job)
        self.cluster.ok("cancel", str(job))
        self.assertEqual(self.cluster.wait_state(job), "CANCELLED")
        self.assertEqual(self.cluster.attempts(job)[-1]["end_cause"], "CANCELLED")
        left = subprocess.run(["pgrep", "-f", "^sleep 987654$"], capture_output=True, text=True).stdout
        self.assertEqual(left, "")

    def test_training_resumes_where_it_was_preempted_and_ends_with_equal_weights(self):
        command = [program("spillway-train"), "--data", TEXT, "--steps", "60", "--checkpoint-every", "10", "--seed", "5", "--dim", "32", "--layers", "1"]
        reference = subprocess.run(command, capture_output=True, text=True, cwd=self.cluster.home, env={"PATH": os.environ["PATH"]}, check=True).stdout
        paced = ["spillway-train"] + command[1:] + ["--step-delay-ms", "40"]  # by its name, as in the README
        job = self.cluster.submit(f"name: train\ncommand: {paced!r}\n".replace("'", '"'))
        wait_for("a checkpoint", lambda: number(self.cluster.task(job).get("checkpoint", {}).get("step")) >= 10)
        self.cluster.ok("preempt", str(job))
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        attempts = self.cluster.attempts(job)
        self.assertEqual([a["end_cause"] for a in attempts], ["PREEMPTED", "COMPLETED"])
        self.assertGreaterEqual(number(attempts[1]["from_step"]), 10)
        self.assertEqual(number(attempts[1]["from_step"]), number(attempts[0]["to_step"]), "nothing was lost: it saved on notice")
        digest = re.search(r"weights sha256 ([0-9a-f]{64})", reference).group(1)
        self.assertIn(digest, self.cluster.ok("logs", str(job)))
        steps = [number(c["step"]) for c in self.cluster.ask("checkpoints", "list", str(job))["checkpoints"]]
        self.assertEqual(steps, sorted(steps, reverse=True))
        self.assertEqual(steps[0], 60)

    def test_logs_follow_a_running_job(self):
        job = self.cluster.submit("name: talk\nscript: |\n  for i in 1 2 3 4 5; do echo line $i; sleep 0.2; done\n")
        self.assertEqual(self.cluster.ok("logs", "-f", str(job)), "".join(f"line {i}\n" for i in range(1, 6)))

    def test_what_waits_says_why(self):
        job = self.cluster.submit("name: big\ncommand: [sleep, '30']\nresources: {cpus: 2}\n")
        self.cluster.wait_running(job)
        waiting = self.cluster.submit("name: second\ncommand: ['true']\nresources: {cpus: 2}\n")
        reasons = self.cluster.ask("explain", str(waiting))["reasons"]
        self.assertTrue(reasons and all(r["message"] for r in reasons), reasons)
        self.cluster.ok("cancel", "--now", str(job))
        self.assertEqual(self.cluster.wait_state(waiting), "SUCCEEDED")

    def test_events_tell_the_story(self):
        job = self.cluster.submit("name: story\ncommand: ['true']\n")
        self.cluster.wait_state(job)
        story = self.cluster.ok("events")
        for kind in ("job_submitted", "attempt_offered", "attempt_started", "attempt_ended"):
            self.assertIn(kind, story)


class CostSoFar(unittest.TestCase):
    def test_what_runs_has_a_cost_before_it_is_charged(self):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        cluster.write_config(more="reservations: [{name: base, nodes: [n1], price_per_hour: 3600}]\n")  # one a second
        cluster.start_scheduler()
        cluster.start_worker("n1")
        go = cluster.path("go")
        job = cluster.submit(f"name: paid\nscript: 'while [ ! -e {go} ]; do sleep 0.05; done'\n")
        cluster.wait_running(job)
        first = wait_for("the job to have cost something", lambda: number(cluster.job(job)["reserved_micros"]))
        more = wait_for("it to cost more", lambda: (lambda now: now if now > first else None)(number(cluster.job(job)["reserved_micros"])))
        self.assertEqual(number(cluster.job(job)["cost_micros"]), 0, "reserved hours are no burst money")
        self.assertIn("so far", cluster.ok("describe", str(job)))
        self.assertGreater(number(cluster.nodes()[0]["charged_micros"]), first)
        with open(go, "w", encoding="utf-8"):
            pass
        self.assertEqual(cluster.wait_state(job), "SUCCEEDED")
        ended = number(cluster.job(job)["reserved_micros"])
        self.assertGreaterEqual(ended, more)
        self.assertEqual(ended, number(cluster.ask("cost", "report")["jobs"][0]["reserved_micros"]), "what it showed is what was charged")


if __name__ == "__main__":
    unittest.main()
