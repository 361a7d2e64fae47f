#!/usr/bin/env python3
"""The restore drill, with real processes: a backup is taken while jobs run, the scheduler goes on, is killed, and loses its data folder.

Afterwards: what ran all the time was never disturbed, nothing ever ran twice at once, what ended or began since the backup has a known cause and runs again
only after one node lease, no id is given twice, the stored events replay to the stored state, and a scheduler of before the restore is served by nobody.
"""
import os
import re
import shutil
import subprocess
import time
import unittest

from support import Cluster, ClusterTest, number, program, read_text, wait_for

# Each run of a job holds its lock from its first to its last moment; who finds it held says so for ever.
GUARDED = """name: {name}
command: ["sh", "-c", "exec 9>{lock}; flock -n 9 || {{ echo twice >> {doubled}; exit 1; }}; echo $SPILLWAY_ATTEMPT >> {runs}; {body}"]
resources: {{cpus: 0.1}}
"""


class Drill(Cluster):
    # Short, so that the drill waits for one lease and not for ten minutes.
    lease = "duration: 20s, renew_every: 500ms, silence: 3s, grace: 1s"

    def guarded(self, name, body):
        return GUARDED.format(name=name, body=body, lock=self.path(name + ".lock"), doubled=self.path("doubled"), runs=self.path(name + ".runs"))

    def runs(self, name):
        return read_text(self.path(name + ".runs")).split()

    def until(self, name):
        return f"while [ ! -e {self.path(name + '.stop')} ]; do sleep 0.1; done"

    def stop_job(self, name):
        with open(self.path(name + ".stop"), "w", encoding="utf-8"):
            pass


class Backups(ClusterTest):
    cluster_type = Drill

    def restore(self, backup, home=None):
        return subprocess.run([program("spillwayd"), "--home", home or self.cluster.home, "--restore", backup], env=self.cluster.env, capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)

    def test_the_data_folder_is_lost_and_a_backup_brings_it_back(self):
        cluster = self.cluster
        cluster.start_worker("n1")
        steady = cluster.submit(cluster.guarded("steady", cluster.until("steady")))
        brief = cluster.submit(cluster.guarded("brief", cluster.until("brief")))
        waits = cluster.submit(cluster.guarded("waits", cluster.until("waits")), "--hold")
        cluster.wait_running(steady)
        cluster.wait_running(brief)
        wait_for("both to have begun", lambda: cluster.runs("steady") and cluster.runs("brief"))
        backup = cluster.path("spillway.backup")
        said = cluster.ask("backup", backup)
        self.assertEqual(os.stat(backup).st_mode & 0o777, 0o600)
        self.assertEqual(said["path"], backup)

        # What only the life that will be lost knows of: an end, a beginning, and another job.
        cluster.stop_job("brief")
        cluster.wait_state(brief, "SUCCEEDED")
        cluster.ok("resume", str(waits))
        lost = cluster.submit(cluster.guarded("lost", cluster.until("lost")))
        cluster.wait_running(waits)
        cluster.wait_running(lost)
        wait_for("all to have begun", lambda: cluster.runs("waits") and cluster.runs("lost"))
        refused = self.restore(backup)
        self.assertEqual(refused.returncode, 1, "a scheduler runs")
        self.assertIn("runs in", refused.stderr)

        cluster.kill_scheduler()
        refused = self.restore(backup)
        self.assertEqual(refused.returncode, 1, "there is a data folder")
        self.assertIn("replaces nothing", refused.stderr)
        os.rename(cluster.path("data"), cluster.path("data.lost"))
        done = self.restore(backup)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("incarnation 2", done.stdout)
        first_job = int(re.search(r"new jobs begin at (\d+)", done.stdout).group(1))
        self.assertGreater(first_job, lost)
        restored_at = time.monotonic()
        cluster.start_scheduler()
        cluster.wait_connected("n1")

        # What ran all the time goes on; what the backup does not know of is ended.
        self.assertEqual(cluster.job(steady)["state"], "ACTIVE")
        self.assertNotEqual(cluster.cli("describe", str(lost)).returncode, 0)
        wait_for("what nobody knows to be ended", lambda: not cluster.marked(lost) and not cluster.marked(waits))
        ended = wait_for("the one that ended since to be known as such", lambda: next((a for a in cluster.attempts(brief) if a["state"] == "ENDED"), None))
        self.assertEqual(ended["end_cause"], "NODE_LOST")
        self.assertIn("after the backup", ended["detail"])

        # A job of now starts at once, under a number that nothing had; one of before waits for the lease, and says so.
        fresh = cluster.submit(cluster.guarded("fresh", "true"))
        self.assertEqual(fresh, first_job)
        cluster.wait_state(fresh, "SUCCEEDED")
        cluster.ok("resume", str(waits))
        self.assertIn("RESTORED", [reason["code"] for reason in cluster.ask("explain", str(waits))["reasons"]])
        self.assertEqual(len(cluster.runs("waits")), 1)
        again = cluster.wait_running(waits)
        self.assertGreater(time.monotonic() - restored_at, 15, "a lease is 20 s")
        self.assertGreater(number(again["key"]["attempt"]), 10_000)
        wait_for("its second run", lambda: len(cluster.runs("waits")) == 2)
        for name in ("steady", "waits"):
            cluster.stop_job(name)
        for job in (steady, brief, waits):
            cluster.wait_state(job, "SUCCEEDED")
        self.assertEqual([a["end_cause"] for a in cluster.attempts(steady)], ["COMPLETED"], "it was disturbed")
        self.assertEqual(len(cluster.runs("steady")), 1)
        self.assertEqual(read_text(cluster.path("doubled")), "")
        events = cluster.ok("events", "--after", "0", "-o", "json")
        self.assertEqual(events.count('"restored"'), 1)

        # The scheduler of before comes back from the dead: its nodes have served a later one.
        cluster.scheduler.terminate()
        cluster.scheduler.wait()
        os.rename(cluster.path("data"), cluster.path("data.restored"))
        os.rename(cluster.path("data.lost"), cluster.path("data"))
        cluster.start_scheduler()
        wait_for("the worker to refuse it", lambda: "this node has served 2" in read_text(cluster.path("run", "n1.log")))
        self.assertEqual(cluster.cli("version", "--scheduler").returncode, 0)
        cluster.scheduler.terminate()
        cluster.scheduler.wait()
        shutil.rmtree(cluster.path("data"))
        os.rename(cluster.path("data.restored"), cluster.path("data"))
        verified = subprocess.run([program("spillwayd"), "--home", cluster.home, "--verify"], env=cluster.env, capture_output=True, text=True, timeout=60,
                                  stdin=subprocess.DEVNULL)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertFalse([name for name in os.listdir(cluster.path("data")) if "backup" in name or "restoring" in name])
        cluster.start_scheduler()
        cluster.wait_connected("n1")


if __name__ == "__main__":
    unittest.main()
