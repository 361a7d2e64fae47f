#!/usr/bin/env python3
"""A job end to end with the real binaries: submit, log, end; training that is preempted and resumes from its checkpoint; the bill."""
import os
import re
import subprocess
import unittest

from support import ClusterTest, number, program, wait_for

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


if __name__ == "__main__":
    unittest.main()
