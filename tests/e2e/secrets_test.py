#!/usr/bin/env python3
"""Secrets with the real programs: a job reads what it names and nobody else does, nothing of it is left behind, and what lacks is told."""
import os
import pty
import select
import subprocess
import time
import unittest

import support

VALUE = "hf_0123456789abcdefghij"


def holding(folder, text):
    """Files below it that hold `text`."""
    found = []
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                if text.encode() in file.read():
                    found.append(os.path.relpath(path, folder))
    return found


class Secrets(support.ClusterTest):
    def setUp(self):
        if not self.cluster.workers:
            self.cluster.start_worker("n1")

    def set(self, name, value):
        done = subprocess.run([support.program("spillway"), "secrets", "set", name], env=self.cluster.env, input=value, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(value.strip(), done.stdout + done.stderr)
        return done.stdout

    def let_go(self, name):
        with open(self.cluster.path(name), "w", encoding="utf-8"):
            pass

    def test_a_job_reads_its_secrets_and_nothing_is_left(self):
        own = self.cluster
        self.assertEqual(self.set("HF_TOKEN", VALUE + "\n"), "HF_TOKEN: set\n")
        self.assertIn("replaced", self.set("HF_TOKEN", VALUE + "\n"))
        self.set("OTHER", "of-another-job")
        digest = subprocess.run(["sha256sum"], input=VALUE, capture_output=True, text=True, check=True).stdout.split()[0]
        job = own.submit(f"""
name: reads
secrets: [HF_TOKEN]
env: {{EXPECTED: "{digest}", GO: "{own.path("go")}"}}
script: |
  stat -c '%a %n' "$SPILLWAY_SECRETS_DIR" "$SPILLWAY_SECRETS_DIR"/*
  test "$(sha256sum < "$SPILLWAY_SECRETS_DIR/HF_TOKEN" | cut -c1-64)" = $EXPECTED
  while ! test -e "$GO"; do sleep 0.05; done
""")
        own.wait_running(job)
        support.wait_for("the job to read it", lambda: "HF_TOKEN" in own.cli("logs", str(job)).stdout)
        # While it runs its own file is the only one with the value: no database, log, journal or report has it, nor any environment.
        self.assertEqual(holding(own.home, VALUE), [os.path.join("nodes", "n1", "secrets", f"{job}.0@1", "HF_TOKEN")])
        for pid in support.processes_of(own.home):
            text = support.read_text(f"/proc/{pid}/environ") + support.read_text(f"/proc/{pid}/cmdline")
            self.assertNotIn(VALUE, text)
        lines = own.ok("logs", str(job)).splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["700", "400"], "the other secret is not its own")
        self.let_go("go")
        self.assertEqual(own.wait_state(job), "SUCCEEDED", own.ok("logs", str(job)))
        support.wait_for("the files to go", lambda: not os.path.exists(own.path("nodes", "n1", "secrets", f"{job}.0@1")))
        self.assertEqual(holding(own.home, VALUE), [])
        self.assertNotIn(VALUE, own.ok("describe", str(job)) + own.ok("describe", str(job), "-o", "json") + own.ok("secrets", "list", "-o", "json"))

    def test_they_outlive_a_kill_of_scheduler_and_worker(self):
        own = self.cluster
        self.set("KEPT", VALUE)
        text = f"""
name: waits
secrets: [KEPT]
script: |
  while ! test -e {own.path("go-on")}; do sleep 0.05; done
  test "$(wc -c < "$SPILLWAY_SECRETS_DIR/KEPT")" = {len(VALUE)}
"""
        job = own.submit(text)
        own.wait_running(job)
        own.kill_scheduler()
        own.workers["n1"].kill()
        own.workers["n1"].wait()
        own.start_scheduler()
        own.start_worker("n1")
        self.assertIn("KEPT", own.ok("secrets", "list"))
        self.let_go("go-on")
        self.assertEqual(own.wait_state(job), "SUCCEEDED")
        self.assertEqual(len(own.attempts(job)), 1, "nothing disturbed it")
        self.assertEqual(own.wait_state(own.submit(text)), "SUCCEEDED", "the next life of the scheduler gives them too")

    def test_values_go_with_the_attempt_also_where_no_worker_lives(self):
        own = self.cluster
        self.set("KEPT", VALUE)
        job = own.submit(f"""
name: alone
secrets: [KEPT]
script: |
  while ! test -e {own.path("end-alone")}; do sleep 0.05; done
""")
        own.wait_running(job)
        value = own.path("nodes", "n1", "secrets", f"{job}.0@1", "KEPT")
        self.assertTrue(os.path.exists(value))
        own.workers["n1"].kill()
        own.workers["n1"].wait()
        self.let_go("end-alone")
        support.wait_for("the value to go", lambda: not os.path.exists(value))
        own.start_worker("n1")
        self.assertEqual(own.wait_state(job), "SUCCEEDED")

    def test_what_lacks_is_refused_at_submit_and_told_at_start(self):
        own = self.cluster
        self.set("WANDB_KEY", VALUE)
        path = own.path("lacks.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write("name: lacks\nsecrets: [WANDB_KYE]\ncommand: [/bin/true]\n")
        done = own.cli("submit", path)
        self.assertEqual(done.returncode, 2)
        self.assertIn("lacks.yaml:2: secrets[0]: there is no secret called `WANDB_KYE`, did you mean `WANDB_KEY`?", done.stderr)
        # Removed while the job waits.
        job = own.submit("name: waits\nsecrets: [WANDB_KEY]\ncommand: [/bin/true]\n", "--hold")
        own.ok("secrets", "rm", "WANDB_KEY", "--yes")
        own.ok("resume", str(job))
        support.wait_for("the attempt that cannot begin", lambda: len(own.attempts(job)) == 1 and own.attempts(job)[0].get("end_cause") == "LAUNCH_FAILED")
        self.assertEqual(own.job(job)["state"], "HELD", "it waits for the secret, and is not lost")
        self.assertIn("WANDB_KEY is not there; `spillway secrets set WANDB_KEY`", own.ok("describe", str(job)))
        why = own.ok("explain", str(job))
        self.assertIn("paused after secrets: WANDB_KEY is not there", why)
        self.assertIn(f"spillway resume {job}", why)
        self.assertEqual(own.cli("secrets", "rm", "WANDB_KEY", "--yes").returncode, 3)
        self.set("WANDB_KEY", VALUE)
        own.ok("resume", str(job))
        self.assertEqual(own.wait_state(job), "SUCCEEDED")

    def typed(self, name, text):
        """Exit status and what a terminal shows when `text` is typed at the question."""
        master, slave = pty.openpty()
        with subprocess.Popen([support.program("spillway"), "secrets", "set", name], env=self.cluster.env, stdin=slave, stdout=slave, stderr=slave,
                              start_new_session=True) as asked:
            os.close(slave)
            shown, end, typed = b"", time.monotonic() + 60, False
            while time.monotonic() < end:
                if not select.select([master], [], [], 0.1)[0]:
                    if asked.poll() is not None:
                        break
                    continue
                try:
                    shown += os.read(master, 1000)
                except OSError:
                    break
                if b"not shown" in shown and not typed:
                    os.write(master, text.encode())
                    typed = True
            if asked.poll() is None:
                asked.kill()
            status = asked.wait(timeout=60)
        os.close(master)
        self.assertNotIn(text.split("\n")[0].encode(), shown)
        return status, shown.decode()

    def test_what_is_typed_is_not_shown(self):
        status, shown = self.typed("TYPED", VALUE + "\n")
        self.assertEqual(status, 0, shown)
        self.assertIn("TYPED: set", shown)

    def test_what_a_terminal_would_cut_is_refused(self):
        status, shown = self.typed("PASTED", "-----BEGIN KEY-----\nabcdef\n-----END KEY-----\n")
        self.assertEqual(status, 2, shown)
        self.assertIn("more than one line: use --file", shown)
        status, shown = self.typed("PASTED", "x" * 4095 + "\n")
        self.assertEqual(status, 2, shown)
        self.assertIn("no more than 4095 bytes of a line", shown)
        self.assertNotIn("PASTED", self.cluster.ok("secrets", "list"))


if __name__ == "__main__":
    unittest.main()
