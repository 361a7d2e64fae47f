#!/usr/bin/env python3
"""scripts/demo.py: what it tells of the cloud, and what it leaves behind. The programs themselves are not started."""
import importlib.util
import os
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def load(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(ROOT, "scripts", name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = load("demo")


class Told(unittest.TestCase):
    def test_each_machine_that_is_taken_is_told_once_with_notice_or_without(self):
        notices = demo.Notices()
        calm = {"node_name": "spot-1", "state": "running", "announced_after_ms": None, "end_reason": None}
        self.assertEqual(notices.news([calm]), [])
        noticed = {**calm, "announced_after_ms": 9000, "notice_left_ms": 500}
        (line,) = notices.news([noticed])
        self.assertTrue(line.startswith("  !! "))
        self.assertIn("gives notice to spot-1 (0.5 s left)", line)
        self.assertEqual(notices.news([{**noticed, "state": "ended", "end_reason": "reclaimed"}]), [], "once")
        (line,) = notices.news([{**noticed, "node_name": "spot-4", "notice_left_ms": None, "state": "ended", "end_reason": "reclaimed"}])
        self.assertIn("gave notice to spot-4 and has taken it", line)
        taken = {"node_name": "spot-2", "state": "ended", "announced_after_ms": None, "end_reason": "reclaimed_without_notice"}
        (line,) = notices.news([taken, calm])
        self.assertIn("takes spot-2 without notice", line)
        ended = {"node_name": "spot-3", "state": "ended", "announced_after_ms": None, "end_reason": "user"}
        self.assertEqual(notices.news([ended]), [], "given back is not taken")

    def test_what_a_notice_is_here_is_said_before_it_happens(self):
        text = demo.scaled_notices()
        self.assertIn(f"120 s is {120 / demo.SCALE:.1f} s here", text)
        self.assertIn("too short to save", text)


class Kept(unittest.TestCase):
    def test_of_each_job_the_newest_checkpoint_stays_and_the_rest_of_the_home(self):
        with tempfile.TemporaryDirectory() as home:
            def write(*parts):
                path = os.path.join(home, *parts)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as out:
                    out.write(b"x" * 5000)
                return path
            job = ("store", "checkpoints", "cluster", "1", "0")
            gone = [write(*job, "a1", "step-20", "part"), write(*job, "a2", "step-220", "part"), write("reference", "scratch")]
            stay = [write(*job, "a2", "step-240", "part"), write("data", "spillway.db"), write("cloud", "ledger.jsonl"), write("run", "spillwayd.log"),
                    write("store", "checkpoints", "cluster", "2", "0", "a1", "step-100", "part")]
            before = demo.megabytes(home)
            demo.thin(home)
            self.assertEqual([path for path in gone if os.path.exists(path)], [])
            self.assertEqual([path for path in stay if not os.path.exists(path)], [])
            self.assertLessEqual(demo.megabytes(home), before)

    def test_a_home_without_checkpoints_is_no_error(self):
        with tempfile.TemporaryDirectory() as home:
            demo.thin(home)
            self.assertEqual(demo.megabytes(home), 1)


if __name__ == "__main__":
    unittest.main()
