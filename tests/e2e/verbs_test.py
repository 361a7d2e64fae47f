#!/usr/bin/env python3
"""What holds jobs back and lets them go, with the real binaries: pause and resume, jobs that wait for others, priorities."""
import os
import re
import subprocess
import unittest

from support import ClusterTest, number, program, read_text, wait_for

TEXT = "/usr/share/common-licenses/GPL-3"


class Verbs(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.start_worker("n1")

    def trainer(self, name, *lines):
        """A training job on the whole machine, and the digest of the weights that it must end with."""
        command = [program("spillway-train"), "--data", TEXT, "--steps", "60", "--checkpoint-every", "10", "--seed", "5", "--dim", "32", "--layers", "1"]
        out = subprocess.run(command, capture_output=True, text=True, cwd=self.cluster.home, env={"PATH": os.environ["PATH"]}, check=True).stdout
        paced = ["spillway-train"] + command[1:] + ["--step-delay-ms", "40"]
        job = self.cluster.submit("\n".join((f"name: {name}", f"command: {paced!r}".replace("'", '"'), "resources: {cpus: 2}", *lines)) + "\n")
        return job, re.search(r"weights sha256 ([0-9a-f]{64})", out).group(1)

    def wait_checkpoint(self, job):
        return wait_for("a checkpoint", lambda: number(self.cluster.task(job).get("checkpoint", {}).get("step")))

    def files(self, **texts):
        paths = []
        for name, text in texts.items():
            paths.append(self.cluster.path(name + ".yaml"))
            with open(paths[-1], "w", encoding="utf-8") as out:
                out.write(f"name: {name}\n{text}\n")
        return paths

    def submit_together(self, *flags, **texts):
        return [number(id) for id in self.cluster.ask("submit", *flags, *self.files(**texts))["job_ids"]]

    def test_a_paused_job_goes_on_from_its_checkpoint(self):
        job, digest = self.trainer("paused")
        self.wait_checkpoint(job)
        self.assertIn("saves and stops", self.cluster.ok("pause", str(job)))
        self.cluster.wait_state(job, "HELD")
        self.assertIn("paused by the user", self.cluster.ok("explain", str(job)))
        self.assertIn("HELD paused", self.cluster.ok("queue"))
        # The machine is free for others all the while.
        other = self.cluster.submit("name: other\ncommand: ['true']\nresources: {cpus: 2}\n")
        self.assertEqual(self.cluster.wait_state(other), "SUCCEEDED")
        self.assertEqual(self.cluster.job(job)["state"], "HELD")
        self.cluster.ok("resume", str(job))
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        attempts = self.cluster.attempts(job)
        self.assertEqual([a["end_cause"] for a in attempts], ["PREEMPTED", "COMPLETED"])
        self.assertEqual(number(attempts[1]["from_step"]), number(attempts[0]["to_step"]), "nothing was lost: it saved on notice")
        self.assertIn(digest, self.cluster.ok("logs", str(job)))

    def test_an_encrypted_job_goes_on_and_only_its_program_has_the_key(self):
        key = self.cluster.path("training.key")
        with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w") as out:
            out.write("5a" * 32 + "\n")
        job, digest = self.trainer("encrypted", f"env: {{SPILLWAY_CHECKPOINT_KEY_FILE: {key}}}")
        self.wait_checkpoint(job)
        self.cluster.ok("pause", str(job))
        self.cluster.wait_state(job, "HELD")
        # Sealed and registered without the key, which the command line has not either.
        self.assertIn("locked    no key is given", self.cluster.ok("checkpoints", "show", str(job)))
        self.assertIn("without the key", self.cluster.ok("checkpoints", "verify", str(job)))
        self.cluster.ok("resume", str(job))
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        self.assertGreaterEqual(len(self.cluster.attempts(job)), 2)
        log = self.cluster.ok("logs", str(job), "--attempt", "all")
        self.assertIn("resumed from step", log)
        self.assertIn(digest, log)

    def test_a_pause_survives_the_scheduler(self):
        job = self.submit_together("--hold", held="command: ['true']")[0]
        self.assertEqual(self.cluster.job(job)["state"], "HELD")
        self.cluster.kill_scheduler()
        self.cluster.start_scheduler()
        self.cluster.wait_connected("n1")
        self.assertEqual(self.cluster.job(job)["state"], "HELD")
        self.cluster.ok("resume", str(job))
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")

    def test_jobs_run_in_the_order_in_which_they_need_each_other(self):
        told = self.cluster.path("told")
        say = "script: 'echo %s >> " + told + "'"
        jobs = self.submit_together(
            final=say % "last" + "\nafter_ok: [middle, first]", first="script: 'sleep 0.5; echo first >> " + told + "'", middle=say % "middle" + "\nafter: first")
        for job in jobs:
            self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        self.assertEqual(read_text(told).split(), ["first", "middle", "last"])

    def test_who_needs_what_failed_never_runs(self):
        failed = self.cluster.submit("name: fails\nscript: 'sleep 0.3; exit 3'\n")
        never, anyway = self.submit_together(never=f"command: ['true']\nafter: [{failed}]", anyway=f"command: ['true']\nafter_any: [{failed}]")
        done = self.cluster.cli("wait", str(never))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"DEPENDENCY_FAILED (job {failed}, which it needs, ended FAILED)", done.stderr)
        self.assertEqual(self.cluster.job(never)["end_cause"], "DEPENDENCY_FAILED")
        self.assertEqual(self.cluster.attempts(never), [])
        self.assertEqual(self.cluster.wait_state(anyway), "SUCCEEDED")
        self.assertIn("job_failed", self.cluster.ok("events"))

    def test_circles_and_strangers_are_refused_whole(self):
        before = len(self.cluster.ask("queue", "--all").get("jobs", []))
        done = self.cluster.cli("submit", *self.files(a="command: ['true']\nafter: b", b="command: ['true']\nafter: a"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("a -> b -> a", done.stderr)
        done = self.cluster.cli("submit", *self.files(c="command: ['true']", d="command: ['true']\nafter:\n- c\n- nobody"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("d.yaml:5: after[1]: there is no job `nobody`", done.stderr)
        self.assertEqual(len(self.cluster.ask("queue", "--all").get("jobs", [])), before)

    def test_the_lower_priority_makes_room_and_goes_on_later(self):
        low, digest = self.trainer("low", "priority: 10")
        self.wait_checkpoint(low)
        high = self.cluster.submit("name: high\nscript: 'sleep 0.3'\nresources: {cpus: 2}\npriority: 90\n")
        self.assertEqual(self.cluster.wait_state(high), "SUCCEEDED")
        self.assertEqual(self.cluster.wait_state(low), "SUCCEEDED")
        attempts = self.cluster.attempts(low)
        self.assertEqual([a["end_cause"] for a in attempts], ["PREEMPTED", "COMPLETED"])
        self.assertEqual(attempts[0]["initiator"], "BY_SCHEDULER")
        self.assertEqual(number(attempts[1]["from_step"]), number(attempts[0]["to_step"]), "nothing was lost: it saved on notice")
        self.assertLess(number(self.cluster.job(high)["ended_utc_ms"]), number(attempts[1]["started_utc_ms"]) + 1, "the higher one was first")
        self.assertIn(digest, self.cluster.ok("logs", str(low)))
        self.assertIn(f"makes room for {high}.0 (high), priority 90 over 10", self.cluster.ok("events"))

    def test_an_update_is_enough_to_go_first(self):
        go = self.cluster.path("go")
        running = self.cluster.submit(f"name: running\nscript: 'while [ ! -e {go} ]; do sleep 0.05; done'\nresources: {{cpus: 2}}\nplacement: {{interruptible: false}}\n")
        self.cluster.wait_running(running)
        told = self.cluster.path("order")
        early, late = self.submit_together(early=f"script: 'echo early >> {told}'\nresources: {{cpus: 2}}", late=f"script: 'echo late >> {told}'\nresources: {{cpus: 2}}")
        self.assertIn("priority 60, was 50", self.cluster.ok("update", str(late), "--priority", "60"))
        self.assertIn("may not be interrupted", self.cluster.ok("explain", str(late)))
        with open(go, "w", encoding="utf-8"):
            pass
        for job in (running, early, late):
            self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        self.assertEqual(read_text(told).split(), ["late", "early"])


if __name__ == "__main__":
    unittest.main()
