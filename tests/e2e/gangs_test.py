#!/usr/bin/env python3
"""Jobs on several nodes with the real binaries: the members meet, save together, and are one attempt whatever becomes of one of them."""
import os
import re
import signal
import unittest

from support import Cluster, ClusterTest, number, wait_for

SOURCE = os.environ.get("SPILLWAY_SOURCE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
TRAIN = os.path.abspath(os.path.join(SOURCE, "examples/gang/train.py"))
PYTHON = os.path.abspath(os.path.join(SOURCE, "checkpoint/python"))


class QuickLease(Cluster):
    lease = "duration: 8s, renew_every: 300ms, silence: 2s, grace: 1s"
    more = "policy: {gang_hold: 3s}\n"


class Gangs(ClusterTest):
    cluster_type = QuickLease

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("n1", "n2"):
            cls.cluster.start_worker(name, resources="cpus=2,memory=2GB,gpu=none")

    def train(self, name, *words, more=""):
        command = ", ".join(f'"{word}"' for word in ("/usr/bin/python3", TRAIN, *words))
        return self.cluster.submit(f"name: {name}\ncommand: [{command}]\nresources: {{nodes: 2, cpus: 2}}\nenv: {{PYTHONPATH: {PYTHON}}}\n"
                                   f"checkpoint: {{grace: 5s}}\n{more}")

    def log(self, job, member, attempt=1):
        done = self.cluster.cli("logs", str(job), "--attempt", str(attempt), "--member", str(member))
        return done.stdout

    def pid_of(self, job, rank, attempt=1):
        """Of the member's main process."""
        for pid in self.cluster.marked(job, str(attempt)):
            try:
                with open(f"/proc/{pid}/environ", "rb") as environment:
                    words = environment.read().split(b"\0")
            except OSError:
                continue
            if f"SPILLWAY_NODE_RANK={rank}".encode() in words:
                return pid
        return None

    def saved(self, job):
        return number(self.cluster.task(job).get("checkpoint", {}).get("step"))

    def test_the_members_meet_and_are_done_together(self):
        job = self.train("meet", "--steps", "30", "--save-every", "10", "--step-seconds", "0.01")
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED", self.log(job, 0) + self.log(job, 1))
        for member in (0, 1):
            self.assertIn(f"member {member} of 2 on n1,n2, from step 0" if "n1,n2" in self.log(job, 0) else f"member {member} of 2 on n2,n1, from step 0", self.log(job, member))
        done = [re.search(r"is done: (.*)", self.log(job, member)).group(1) for member in (0, 1)]
        self.assertEqual(done[0], done[1], "both went the same way")
        self.assertEqual(self.saved(job), 30)
        members = self.cluster.attempts(job)[0]["members"]
        self.assertEqual(sorted(member["node_name"] for member in members), ["n1", "n2"])
        self.assertEqual([member["state"] for member in members], ["ENDED", "ENDED"])
        self.assertIn("no member 2; its members are 0 to 1", self.cluster.cli("logs", str(job), "--member", "2").stderr)

    def test_the_example_runs_from_its_file(self):
        file = os.path.abspath(os.path.join(SOURCE, "examples/jobs/two-nodes.yaml"))
        job = self.cluster.ok("submit", file, "--set", "command=[/usr/bin/python3, train.py, --steps, '20', --step-seconds, '0.01']").split()[1]
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED", self.log(job, 0) + self.log(job, 1))
        self.assertEqual(self.saved(job), 20)

    def test_the_trainer_for_one_node_says_so(self):
        job = self.cluster.submit("name: one\ncommand: [spillway-train, --data, none, --steps, '5']\nresources: {nodes: 2, cpus: 1}\nretry: {user_error: 0}\n")
        self.assertEqual(self.cluster.wait_state(job), "FAILED")
        self.assertIn("it trains on one node, and this job has 2", self.log(job, 0) + self.log(job, 1))

    def test_one_that_fails_takes_the_other_along(self):
        job = self.train("fails", "--steps", "400", "--save-every", "5", "--step-seconds", "0.02", more="retry: {user_error: 1}\n")
        wait_for("a checkpoint", lambda: self.saved(job) >= 10)
        self.assertIn("member 1 on", self.cluster.ok("describe", str(job)))
        other = self.pid_of(job, 0)
        os.kill(self.pid_of(job, 1), signal.SIGKILL)
        wait_for("the other one to be gone", lambda: not os.path.exists(f"/proc/{other}"))
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED", self.log(job, 0, 2))
        first, second = self.cluster.attempts(job)
        self.assertEqual((first["end_cause"], second["end_cause"]), ("USER_ERROR", "COMPLETED"))
        self.assertIn("member", first["detail"])
        self.assertGreaterEqual(number(second["from_step"]), 10)
        self.assertIn(f"from step {second['from_step']}", self.log(job, 0, 2))

    def test_a_lost_node_ends_all_and_they_go_on_together(self):
        job = self.train("lost", "--steps", "500", "--save-every", "5", "--step-seconds", "0.02")
        wait_for("a checkpoint", lambda: self.saved(job) >= 10)
        attempt = self.cluster.attempts(job)[0]
        lost = attempt["members"][1]["node_name"]
        worker = self.cluster.workers[lost]
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        # The machine goes with it: what runs there, its supervisor, and what the supervisor remembers.
        supervisor = self.cluster.supervisor_pid(lost)
        doomed = self.pid_of(job, 1)
        os.kill(supervisor, signal.SIGKILL)
        os.kill(doomed, signal.SIGKILL)
        ended = wait_for("the attempt to end", lambda: (lambda a: a if a["state"] == "ENDED" else None)(self.cluster.attempts(job)[0]))
        self.assertEqual(ended["end_cause"], "NODE_LOST", ended)
        self.assertEqual(self.cluster.marked(job, "1"), [], "every member is gone before the next attempt")
        self.assertEqual(len(self.cluster.attempts(job)), 1)
        self.assertIn("GANG_INCOMPLETE", self.cluster.ok("explain", str(job), "-o", "json"))
        # Others pass while it waits.
        small = self.cluster.submit("name: small\ncommand: ['true']\nresources: {cpus: 2}\n")
        self.assertEqual(self.cluster.wait_state(small), "SUCCEEDED")
        self.cluster.start_worker(lost, resources="cpus=2,memory=2GB,gpu=none")
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED", self.log(job, 0, 2))
        self.assertGreaterEqual(number(self.cluster.attempts(job)[1]["from_step"]), 10)

    def test_a_pause_reaches_both_and_they_go_on_from_the_same_step(self):
        job = self.train("paused", "--steps", "300", "--save-every", "1000", "--step-seconds", "0.02")
        wait_for("both", lambda: "from step" in self.log(job, 0) and "from step" in self.log(job, 1))
        wait_for("some steps", lambda: number(self.cluster.task(job).get("progress", {}).get("step")) >= 10)
        self.cluster.ok("pause", str(job))
        self.cluster.wait_state(job, "HELD")
        stops = [re.search(r"stops after step (\d+)", self.log(job, member)).group(1) for member in (0, 1)]
        self.assertEqual(stops[0], stops[1])
        self.assertEqual(self.saved(job), int(stops[0]))
        self.cluster.ok("resume", str(job))
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED", self.log(job, 0, 2))
        self.assertIn(f"from step {stops[0]}", self.log(job, 1, 2))

    def test_one_that_does_not_come_together_lets_others_pass(self):
        self.cluster.ok("cordon", "n2")
        try:
            gang = self.train("waits", "--steps", "3", "--step-seconds", "0.01")
            self.assertIn("needs 2 nodes at once: 1 has room now", wait_for("why", lambda: self.cluster.ok("explain", str(gang))))
            small = self.cluster.submit("name: small\ncommand: ['true']\nresources: {cpus: 2}\n")
            self.assertEqual(self.cluster.wait_state(small), "SUCCEEDED")
            self.assertEqual(self.cluster.attempts(gang), [])
        finally:
            self.cluster.ok("uncordon", "n2")
        self.assertEqual(self.cluster.wait_state(gang), "SUCCEEDED")

    def test_a_silent_worker_does_not_hold_the_other_node(self):
        """It was offered its part and never answers: after gang_hold the offer is taken back and the node that accepted is free."""
        self.cluster.workers["n2"].send_signal(signal.SIGSTOP)
        try:
            gang = self.train("half", "--steps", "3", "--step-seconds", "0.01")
            wait_for("the offer", lambda: self.cluster.attempts(gang))
            small = self.cluster.submit("name: small\ncommand: ['true']\nresources: {cpus: 2}\n")
            self.assertEqual(self.cluster.wait_state(small), "SUCCEEDED")
        finally:
            self.cluster.workers["n2"].send_signal(signal.SIGCONT)
        self.assertEqual(self.cluster.wait_state(gang), "SUCCEEDED", self.log(gang, 0, 2))


if __name__ == "__main__":
    unittest.main()
