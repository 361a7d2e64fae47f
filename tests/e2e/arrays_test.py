#!/usr/bin/env python3
"""Arrays with the real binaries: many tasks of one job, a limit of how many run at once, and every verb on single tasks."""
import os
import unittest

from support import ENDED, ClusterTest, number, read_text, wait_for


class Arrays(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.start_worker("n1", resources="cpus=6,memory=2GB,gpu=none")

    def counts(self, job):
        return {state: number(count) for state, count in self.cluster.job(job)["counts"].items()}

    def tasks(self, job):
        return {number(task["task_index"]): task for task in self.cluster.ask("queue", "--tasks", str(job), "-n", "1000")["tasks"]}

    def wait_task(self, job, index, state):
        return wait_for(f"task {job}.{index} to be {state}", lambda: self.tasks(job)[index]["state"] == state)

    def gated(self, name, count, parallel, *lines):
        """Tasks that say which they are and wait for the file go.INDEX, or go.all."""
        gate = self.cluster.path("gate-" + name)
        os.makedirs(gate)
        script = f'echo "task $SPILLWAY_TASK_INDEX of $SPILLWAY_TASK_COUNT"; cd {gate}; touch here.$SPILLWAY_TASK_INDEX; ' \
                 'while [ ! -e go.$SPILLWAY_TASK_INDEX ] && [ ! -e go.all ]; do sleep 0.05; done; rm here.$SPILLWAY_TASK_INDEX'
        text = "\n".join((f"name: {name}", f"script: '{script}'", f"array: {{count: {count}, parallel: {parallel}}}", *lines))
        return self.cluster.submit(text + "\n"), gate

    @staticmethod
    def go(gate, which="all"):
        with open(os.path.join(gate, f"go.{which}"), "w", encoding="utf-8"):
            pass

    @staticmethod
    def here(gate):
        return sorted(int(name.split(".")[1]) for name in os.listdir(gate) if name.startswith("here."))

    def test_never_more_than_the_limit_at_once_and_every_task_once(self):
        told = self.cluster.path("told")
        # Each task counts those that are there with it: the machine itself has room for six.
        script = f'mkdir -p {told}/now; cd {told}; touch now/$SPILLWAY_TASK_INDEX; sleep 0.1; ls now | wc -l >> seen; echo $SPILLWAY_TASK_INDEX >> all; rm now/$SPILLWAY_TASK_INDEX'
        os.makedirs(told)
        job = self.cluster.submit(f"name: twenty\nscript: '{script}'\narray: {{count: 20, parallel: 3}}\n")
        most = []

        def ended():
            most.append(self.counts(job)["active"])
            return self.cluster.job(job)["state"] in ENDED
        wait_for("the array", ended)
        self.assertLessEqual(max(most), 3)
        self.assertLessEqual(max(int(line) for line in read_text(os.path.join(told, "seen")).split()), 3)
        self.assertEqual(sorted(int(line) for line in read_text(os.path.join(told, "all")).split()), list(range(20)))
        self.assertEqual(self.counts(job)["succeeded"], 20)
        self.assertIn("SUCCEEDED: 20 succeeded", self.cluster.cli("wait", str(job)).stderr)

    def test_single_tasks_are_told_cancelled_logged_and_waited_for(self):
        job, gate = self.gated("gated", 10, 2, "checkpoint: {grace: 1s}")
        wait_for("two of them", lambda: self.here(gate) == [0, 1])
        self.assertIn("8 queued, 2 active", self.cluster.ok("queue"))
        self.assertIn("at most 2 may be at once", self.cluster.ok("explain", f"{job}.7"))
        self.assertIn("task 1 of 10", wait_for("its log", lambda: self.cluster.ok("logs", f"{job}.1")))
        # Before they began, as a task and as a range; and while it runs.
        self.assertEqual(self.cluster.ok("cancel", f"{job}.5", f"{job}.7-8"), f"{job}.5,7-8: cancelled 3 tasks\n")
        self.assertIn("stopping within its grace of 1s", self.cluster.ok("cancel", f"{job}.1"))
        self.wait_task(job, 1, "CANCELLED_STATE")
        wait_for("the next one", lambda: self.here(gate)[-1] == 2)
        self.assertIn("CANCELLED", self.cluster.ok("describe", f"{job}.5"))
        self.assertIn("has ended", self.cluster.cli("cancel", f"{job}.5").stderr)
        self.assertIn("no task 10; its tasks are 0 to 9", self.cluster.cli("cancel", f"{job}.10").stderr)
        waited = self.cluster.cli("wait", f"{job}.1")
        self.assertEqual(waited.returncode, 1, waited.stderr)
        self.go(gate, 0)
        waited = self.cluster.cli("wait", f"{job}.0")
        self.assertEqual((waited.returncode, waited.stderr), (0, f"spillway: task {job}.0 SUCCEEDED\n"))
        self.assertIn("parallel 4, was 2", self.cluster.ok("update", str(job), "--parallel", "4"))
        wait_for("four of them", lambda: len(self.here(gate)) >= 4)
        self.go(gate)
        self.assertEqual(self.cluster.wait_state(job), "CANCELLED")
        self.assertEqual(self.counts(job), {"queued": 0, "held": 0, "active": 0, "succeeded": 6, "failed": 0, "cancelled": 4})
        tasks = self.tasks(job)
        self.assertEqual(sorted(i for i, task in tasks.items() if task["state"] == "SUCCEEDED"), [0, 2, 3, 4, 6, 9])
        self.assertEqual([i for i in (5, 7, 8) if number(tasks[i]["attempts_total"])], [], "they never began")

    def test_a_task_is_preempted_and_retried_by_itself(self):
        job, gate = self.gated("retried", 3, 3, "checkpoint: {grace: 1s}")
        wait_for("all", lambda: self.here(gate) == [0, 1, 2])
        self.cluster.ok("preempt", f"{job}.1")
        wait_for("its second attempt", lambda: number(self.tasks(job)[1]["attempts_total"]) == 2)
        self.go(gate)
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        self.assertEqual([number(self.tasks(job)[i]["attempts_total"]) for i in range(3)], [1, 2, 1])

    def test_a_million_tasks_are_one_row_and_end_as_one(self):
        job = self.cluster.submit("name: million\ncommand: ['true']\n", "--hold", "--array", "1000000")
        self.assertIn("1000000 held", self.cluster.ok("queue"))
        page = self.cluster.ok("queue", "--tasks", f"{job}.999990-999999")
        self.assertIn(f"{job}.999999", page)
        self.assertEqual(page.count("HELD paused"), 10)
        self.assertEqual(self.cluster.ok("cancel", f"{job}.10-999"), f"{job}.10-999: cancelled 990 tasks\n")
        self.cluster.ok("cancel", str(job))
        self.assertEqual(self.counts(job)["cancelled"], 1_000_000)

    def test_an_array_survives_the_scheduler(self):
        job, gate = self.gated("survives", 6, 2)
        wait_for("two of them", lambda: self.here(gate) == [0, 1])
        self.cluster.ok("cancel", f"{job}.3-4")
        self.cluster.kill_scheduler()
        self.cluster.start_scheduler()
        self.cluster.wait_connected("n1")
        self.go(gate)
        self.assertEqual(self.cluster.wait_state(job), "CANCELLED")
        self.assertEqual({i for i, task in self.tasks(job).items() if task["state"] == "SUCCEEDED"}, {0, 1, 2, 5})


if __name__ == "__main__":
    unittest.main()
