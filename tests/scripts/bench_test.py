#!/usr/bin/env python3
"""./dev bench: every benchmark runs in its small form against the real programs, and its JSON has what people compare. No timing is asserted."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TORCH = subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, check=False).returncode == 0
DECIDE = os.path.join(os.environ.get("SPILLWAY_BIN", os.path.join(ROOT, "build", "bin")), "..", "tests", "bench-decide")
SCRIPT = os.path.join(ROOT, "scripts", "bench.sh")

SITUATIONS = {name + size for name in ("FullCluster", "TenthFree", "OneFree", "OneFreeForArray", "NextTime")
              for size in ("", "_half_the_nodes", "_half_the_queue", "_ten_queues")} - {"TenthFree_ten_queues"}
# The figures of each, and of those the ones that stand beside a raw limit.
FIGURES = {
    "submit": ({"single", "single_p50", "single_p99", "single_cpu", "batch", "batch_cpu", "raw_write", "raw_bare", "raw_bare_batch"}, {"single", "batch"}),
    "launch": ({"true", "array", "cpu_spillwayd", "cpu_worker", "cpu_supervisor", "spawn", "idle_p50", "idle_p99", "busy_p50", "busy_p99"}, {"true", "array"}),
    "restart": ({"restart", "memory_grown", "memory_loaded", "page_p50", "page_p99"}, {"restart"}),
    "sessions": ({"cores", "renewals", "renewal_p50", "renewal_p99"}, {"cores"}),
    "null": ({"null", "null_cpu", "disk_queued", "disk_ended"}, {"null"}),
    "arrays": ({"null", "null_cpu", "disk_ended", "submit", "memory", "disk_waiting", "restart", "page_p50", "page_p99", "cancel"}, {"null"}),
    "decide": (SITUATIONS | {key + "_p50" for key in SITUATIONS}, SITUATIONS),
    "checkpoint": ({"save", "save_trusted", "save_encrypted", "save_torch", "save_safetensors", "restore", "restore_encrypted", "restore_torch", "restore_safetensors", "stall",
                    "checksums", "save_cpu", "restore_cpu"},
                   {"save", "save_trusted", "save_encrypted", "save_torch", "save_safetensors", "restore", "restore_encrypted", "restore_torch", "restore_safetensors", "stall",
                    "checksums"}),
}


class Quick(unittest.TestCase):
    def run_quick(self, name):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out.json")
            done = subprocess.run([SCRIPT, name, "--quick", "--out", out], capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("its figures mean nothing", done.stdout)
            with open(out, encoding="utf-8") as file:
                told = json.load(file)
        self.assertEqual((told["bench"], told["quick"]), (name, True))
        self.assertLessEqual({"cores", "processor", "kernel", "file_system"}, set(told["machine"]))
        figures, with_raw = FIGURES[name]
        self.assertEqual(set(told["figures"]), figures)
        for key, figure in told["figures"].items():
            with self.subTest(figure=key):
                self.assertIn(figure["what"], done.stdout)
                self.assertTrue(min(figure["values"]) <= figure["median"] <= max(figure["values"]))
                self.assertEqual("met" in figure, "aim" in figure)
                self.assertEqual("ratio" in figure, key in with_raw)
                if key in with_raw:
                    self.assertEqual(len(figure["raw"]), len(figure["values"]), "a raw limit in every round")
                    self.assertGreater(figure["raw_median"], 0)
        return told

    def ordered(self, told, *keys):
        """Of the same measurements: a percentile is not below a lower one."""
        for low, high in zip(*(told["figures"][key]["values"] for key in keys)):
            self.assertLessEqual(low, high)

    def nothing_missing(self, told):
        self.assertTrue(told["facts"]["crashes"])
        for crash in told["facts"]["crashes"]:
            self.assertEqual(crash["missing"], 0)
            self.assertLessEqual(crash["acknowledged"], crash["states"].get("SUCCEEDED", 0))

    def test_submit(self):
        told = self.run_quick("submit")
        self.ordered(told, "single_p50", "single_p99")
        self.assertGreater(told["figures"]["single"]["median"], 0)

    def test_launch(self):
        told = self.run_quick("launch")
        self.ordered(told, "idle_p50", "idle_p99")
        self.ordered(told, "busy_p50", "busy_p99")

    def test_restart(self):
        told = self.run_quick("restart")
        self.ordered(told, "page_p50", "page_p99")

    def test_sessions(self):
        told = self.run_quick("sessions")
        self.ordered(told, "renewal_p50", "renewal_p99")
        self.assertGreater(told["figures"]["renewals"]["median"], 0)

    def test_null(self):
        told = self.run_quick("null")
        self.assertGreater(told["figures"]["disk_queued"]["median"], 200, "its spec alone has as many bytes")
        self.nothing_missing(told)

    def test_arrays(self):
        told = self.run_quick("arrays")
        self.ordered(told, "page_p50", "page_p99")
        self.assertLess(told["figures"]["disk_waiting"]["median"], 20, "a row for each would be longer")
        self.nothing_missing(told)

    @unittest.skipUnless(os.path.exists(DECIDE), "libbenchmark-dev is not installed: ./dev bench decide installs it")
    def test_decide(self):
        told = self.run_quick("decide")
        self.assertGreater(told["facts"]["placed"]["TenthFree"], 5, "every tenth of 100 nodes is free")

    @unittest.skipUnless(shutil.which("fio") and TORCH, "fio and python3-torch are not installed: ./dev bench checkpoint installs them")
    def test_checkpoint(self):
        told = self.run_quick("checkpoint")
        for key in ("save", "restore"):
            self.assertGreater(told["figures"][key]["median"], 0)
        self.assertIn("direct=1", told["facts"]["fio"])

    def test_an_unknown_name_is_told_with_those_there_are(self):
        done = subprocess.run([SCRIPT, "submits"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("'submits'; there are: submit launch restart sessions null arrays decide checkpoint placement", done.stderr)


if __name__ == "__main__":
    unittest.main()
