#!/usr/bin/env python3
"""Deadlines with the real binaries on a playground: time that is left is spent on spot, and what has none left goes on demand and is on time."""
import json
import os
import unittest
from datetime import datetime, timedelta, timezone

from support import ClusterTest, OnCloud, number, program, wait_for

TEXT = "/usr/share/common-licenses/GPL-3"
OFFER = '{name: %s, market: %s, instance_type: g1, zone: z, region: %s, gpus: {model: simulated, count: 1, memory: 16GB}, cpus: 1, memory: 2GB, ' \
        'price_per_hour: "%s", billing: {increment: 1s, minimum: 1s}, capacity: 4, boot: 10s%s}'


class Cloud(OnCloud):
    """In region `dry` there is no spot for the first half hour, in `wet` always."""

    def __init__(self):
        drought = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dry.json")
        self.offers = "seed: 7\nscale: 20\noffers:\n" + "".join(f"  - {offer}\n" for offer in (
            OFFER % ("dry-spot", "spot", "dry", "0.01", f", notice: 30s, reclaim: {{trace: {drought}}}"),
            OFFER % ("wet-spot", "spot", "wet", "0.01", ", notice: 30s, reclaim: none"),
            OFFER % ("dry-od", "on_demand", "dry", "0.05", ""),
            OFFER % ("wet-od", "on_demand", "wet", "0.05", "")))
        super().__init__()


class Deadlines(ClusterTest):
    cluster_type = Cloud

    def setUp(self):
        # How long machines take to come up is learned from those that did.
        first = self.job("first", "command: ['true']")
        self.assertEqual(self.cluster.wait_state(first), "SUCCEEDED")
        wait_for("its machine, which is paid for already, to be let go", lambda: not self.cluster.nodes())

    def job(self, name, program_line, region="dry", *flags):
        return self.cluster.submit(f"name: {name}\n{program_line}\nresources: {{gpu: {{count: 1}}, cpus: 1}}\nplacement: {{regions: [{region}]}}\n"
                                   "checkpoint: {grace: 1s}\n", *flags)

    def markets(self, job):
        return [attempt["market"] for attempt in self.cluster.attempts(job)]

    def codes(self, job):
        return [reason["code"] for reason in self.cluster.ask("explain", str(job)).get("reasons", [])]

    def check_on_time(self, job):
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        told = self.cluster.job(job)
        self.assertLessEqual(number(told["ended_utc_ms"]), number(told["deadline_utc_ms"]))
        self.assertIn("met, ", self.cluster.ok("describe", str(job)))

    def test_time_is_spent_waiting_for_spot_and_what_has_none_left_moves(self):
        waits = self.job("waits", "command: [sleep, '5']", "dry", "--deadline", "35s", "--expect", "5s")
        # Between its deadline and what it needs there is time for two starts, and less than it runs: so it begins on spot, and must leave.
        # It saves only when it is asked to stop, so that the last safe moment comes while it runs.
        train = [program("spillway-train"), "--data", TEXT, "--steps", "600", "--checkpoint-every", "100000", "--seed", "5", "--dim", "16", "--layers", "1",
                 "--step-delay-ms", "50"]
        moves = self.job("moves", f"command: {json.dumps(train)}", "wet", "--deadline", "50s", "--expect", "30s")
        wait_for("it to wait for spot", lambda: "WAITS_FOR_SPOT" in self.codes(waits))
        self.assertEqual(self.cluster.task(waits)["state"], "QUEUED")
        self.assertIn("SLACK", self.cluster.ok("queue"))
        wait_for("the other to run on spot", lambda: self.markets(moves) == ["SPOT"])
        self.assertIn("DEADLINE", self.codes(moves))
        self.check_on_time(waits)
        self.assertEqual(self.markets(waits), ["ON_DEMAND"])
        self.check_on_time(moves)
        attempts = self.cluster.attempts(moves)
        # With what it saved on the way out it may have time for spot again.
        self.assertEqual([a["end_cause"] for a in attempts], ["MOVED"] * (len(attempts) - 1) + ["COMPLETED"])
        self.assertEqual(attempts[0]["market"], "SPOT")
        self.assertGreater(len(attempts), 1)
        self.assertGreater(number(attempts[1]["from_step"]), 0, "what it saved on the way out is where it went on")
        self.assertIn("leaves no more time for machines that can be taken away", self.cluster.ok("events"))

    def test_an_update_makes_it_urgent_and_what_cannot_be_met_is_said(self):
        job = self.job("later", "command: [sleep, '1']", "dry", "--deadline", "1h", "--expect", "1s")
        wait_for("it to wait for spot", lambda: "WAITS_FOR_SPOT" in self.codes(job))
        self.assertIn("deadline", self.cluster.ok("update", str(job), "--deadline", "10s"))
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        self.assertEqual(self.markets(job), ["ON_DEMAND"])
        lost = self.cluster.cli("submit", self.cluster.path("job.yaml"), "--deadline", "1h", "--expect", "3h")
        self.assertEqual(lost.returncode, 0, lost.stderr)
        self.assertIn("cannot be met: it ends at ", lost.stderr)
        over = self.cluster.cli("submit", self.cluster.path("job.yaml"), "--deadline", (datetime.now(timezone.utc) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                                "--expect", "3h")
        self.assertNotEqual(over.returncode, 0)
        self.assertIn("is over", over.stderr)
        self.cluster.ok("cancel", "--now", lost.stdout.split()[1])


if __name__ == "__main__":
    unittest.main()
