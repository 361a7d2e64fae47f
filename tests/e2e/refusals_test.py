#!/usr/bin/env python3
"""Bad input: the documented message and exit code, and nothing half-applied."""
import os
import subprocess
import unittest

from support import Cluster, ClusterTest, program


class Refusals(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cluster.start_worker("n1", "cpus=2,memory=2GB,gpu=none")

    def setUp(self):
        self.before = len(self.cluster.ask("queue", "--all").get("jobs", []))

    def refused(self, text, code, *words, flags=()):
        path = self.cluster.path("bad.yaml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        done = self.cluster.cli("submit", path, *flags)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(len(self.cluster.ask("queue", "--all").get("jobs", [])), self.before, "nothing may be half-applied")

    def test_unknown_key(self):
        self.refused("name: a\ncommand: ['true']\nresources: {cpu: 1}\n", 2, "bad.yaml:3", "cpus")

    def test_duplicate_key(self):
        self.refused("name: a\ncommand: ['true']\nname: b\n", 2, "bad.yaml:3", "name")

    def test_wrong_type(self):
        self.refused("name: a\ncommand: ['true']\npriority: high\n", 2, "bad.yaml:3", "priority")

    def test_octal_looking_number(self):
        self.refused("name: a\ncommand: ['true']\npriority: 010\n", 2, "bad.yaml:3")

    def test_not_built_yet_is_refused_by_name(self):
        self.refused("name: a\ncommand: ['true']\nsweep: {method: grid}\n", 2, "bad.yaml:3", "sweep", "not built yet")

    def test_never_fits(self):
        self.refused("name: a\ncommand: ['true']\nresources: {gpu: {model: H100, count: 8}}\n", 2, "never fits")
        self.refused("name: a\ncommand: ['true']\nresources: {nodes: 200}\n", 2, "never fits", "needs 200 nodes")
        self.refused("name: a\ncommand: ['true']\nresources: {cpus: 64}\n", 2, "never fits")

    def test_no_command(self):
        self.refused("name: a\n", 2, "command")

    def test_five_megabytes(self):
        self.refused("name: a\ncommand: ['true']\nenv: {BIG: '" + "x" * (5 << 20) + "'}\n", 2, "larger than")

    def test_what_the_system_would_not_start(self):
        self.refused("name: a\ncommand: ['true', '" + "x" * 131072 + "']\n", 2, "bad.yaml:2", "command[1]", "131071")
        self.refused("name: a\ncommand: ['true']\nenv: {BIG: '" + "x" * 131072 + "'}\n", 2, "bad.yaml:3", "env.BIG", "131071")

    def test_what_is_just_short_enough_runs(self):
        env = ", ".join(f"V{i}: '{'x' * 120000}'" for i in range(2))
        path = self.cluster.path("long.yaml")
        with open(path, "w", encoding="utf-8") as out:
            out.write("name: long\ncommand: ['sh', '-c', 'test ${#V1} = 120000 && test ${#0} = 131071', '" + "y" * 131071 + "']\nenv: {" + env + "}\n")
        done = self.cluster.cli("submit", "--wait", path)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_an_output_that_cannot_be_written(self):
        for words in (["queue"], ["queue", "-o", "json"], ["describe", "--help"], ["completion", "bash"], ["nodes"], ["version"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([program("spillway"), *words], env=self.cluster.env, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            self.assertEqual(done.returncode, 4, words)
            self.assertIn("the output could not be written: No space left on device", done.stderr, words)

    def test_a_reader_that_has_gone_is_no_error(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([program("spillway"), "completion", "bash"], env=self.cluster.env, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_parts_that_are_not_there(self):
        job = self.cluster.submit("name: whole\ncommand: ['true']\n")
        self.cluster.wait_state(job)
        for verb, code in (("describe", 3), ("explain", 3), ("logs", 3), ("preempt", 4)):  # of what has ended nothing can be preempted
            done = self.cluster.cli(verb, f"{job}.5")
            self.assertEqual(done.returncode, code, verb + ": " + done.stdout + done.stderr)
        self.assertEqual(self.cluster.cli("describe", f"{job}.0@7").returncode, 3)
        done = self.cluster.cli("describe", f"#{job}")
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"did you mean `{job}`?", done.stderr)

    def test_files_of_the_home_that_hold_something_else(self):
        for path, verb_free in ((self.cluster.path("run", "user.port"), "--server"), (self.cluster.path("tokens", "user"), "new one is made")):
            with open(path, encoding="utf-8") as source:
                before = source.read()
            with open(path, "w", encoding="utf-8") as out:
                out.write("no such\nthing")
            try:
                done = self.cluster.cli("queue")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(path, done.stderr)
                self.assertIn(verb_free, done.stderr)
            finally:
                with open(path, "w", encoding="utf-8") as out:
                    out.write(before)

    def test_the_same_request_again(self):
        path = self.cluster.path("twice.yaml")
        with open(path, "w", encoding="utf-8") as out:
            out.write("name: twice\ncommand: ['true']\n")
        first = self.cluster.ask("submit", path, "--request-id", "r-1")
        again = self.cluster.ask("submit", path, "--request-id", "r-1")
        self.assertEqual(first["job_ids"], again["job_ids"])
        self.assertTrue(again["repeated_request"])
        with open(path, "w", encoding="utf-8") as out:
            out.write("name: other\ncommand: ['true']\n")
        self.assertEqual(self.cluster.cli("submit", path, "--request-id", "r-1").returncode, 4)
        self.assertEqual(len(self.cluster.ask("queue", "--all")["jobs"]), self.before + 1)

    def test_wrong_ids(self):
        for verb in ("describe", "explain", "logs", "cancel", "preempt", "wait"):
            done = self.cluster.cli(verb, "4711")
            self.assertEqual(done.returncode, 3, verb + ": " + done.stderr)
            self.assertIn("4711", done.stderr)
        self.assertEqual(self.cluster.cli("cancel", "no-such-name").returncode, 3)

    def test_no_server(self):
        done = self.cluster.cli("queue", "--server", "127.0.0.1:1")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("127.0.0.1:1", done.stderr)

    def test_wrong_token(self):
        done = self.cluster.cli("queue", env={"SPILLWAY_TOKEN": "0" * 64})
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("token", done.stderr)
        self.assertIn("it stands in SPILLWAY_TOKEN", done.stderr)

    def test_a_token_that_others_can_read(self):
        path = self.cluster.path("tokens", "user")
        os.chmod(path, 0o644)
        try:
            done = self.cluster.cli("queue")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("chmod", done.stderr)
        finally:
            os.chmod(path, 0o600)

    def test_words_that_cannot_be_meant(self):
        path = self.cluster.path("fine.yaml")
        with open(path, "w", encoding="utf-8") as out:
            out.write("name: fine\ncommand: ['true']\n")
        latin = "caf\udce9"  # a byte that is no UTF-8
        for words, said in (
                (("run", "--", "echo", latin), "COMMAND... word 2: `caf\\xe9` is not UTF-8 text"),
                (("run", "--env", "A=" + latin, "--", "true"), "--env: `A=caf\\xe9` is not UTF-8 text"),
                (("run", "--env", "NO_SUCH_VARIABLE", "--", "true"), "--env NO_SUCH_VARIABLE: no such variable is set here"),
                (("run", "--gpus", "H100", "--", "true"), "expected N or MODEL:N"),
                (("run", "--gpus", "H100:64", "--", "true"), "the job `true` never fits: "),
                (("cancel", "1", "--reason", latin), "--reason: `caf\\xe9` is not UTF-8 text"),
                (("submit", "--request-id", "", path), "--request-id: the value is empty"),
                (("submit", "--", "./train"), "spillway run --detach -- COMMAND"),
                (("list",), "did you mean `queue`?"),
                (("drain", "n1", "--grace", "0"), "--grace 0"),
                (("cost", "report", "--from", "2026-02-01T00:00:00Z", "--to", "2026-01-01T00:00:00Z"), "is not after --from")):
            done = self.cluster.cli(*words)
            self.assertEqual(done.returncode, 2, f"{words}: {done.stdout}{done.stderr}")
            self.assertIn(said, done.stderr)
            self.assertNotIn("libprotobuf", done.stderr)
        self.assertEqual(len(self.cluster.ask("queue", "--all").get("jobs", [])), self.before, "nothing may be half-applied")

    def test_a_refused_submission_says_that_last_is_an_earlier_job(self):
        self.refused("name: a\ncommand: ['true']\nresources: {accelerators: 2}\n", 2, "bad.yaml:3", "did you mean `gpu`?", "nothing was submitted; `last` still means an earlier job")
        self.refused("name: a\ncommand: ['true']\nresources: {gpu: 'H100:64'}\n", 2, "bad.yaml: the job never fits", "`last` still means an earlier job")

    def test_without_a_price_the_bill_says_so(self):
        job = self.cluster.submit("name: unpriced\ncommand: ['true']\n")
        self.cluster.wait_state(job)
        self.assertIn("no price declared", self.cluster.ok("cost", "report"))

    def test_a_verb_that_is_not_built(self):
        done = self.cluster.cli("sweep", "create")
        self.assertEqual(done.returncode, 2)
        self.assertIn("sweep", done.stderr)

    def test_a_misspelt_verb(self):
        done = self.cluster.cli("quue")
        self.assertEqual(done.returncode, 2)
        self.assertIn("queue", done.stderr)


class Configuration(unittest.TestCase):
    def start(self, text):
        cluster = Cluster()
        self.addCleanup(cluster.close)
        with open(cluster.path("config.yaml"), "w", encoding="utf-8") as out:
            out.write(text)
        process = cluster.spawn("spillwayd", ["/usr/bin/env", os.path.join(os.environ["SPILLWAY_BIN"], "spillwayd"), "--home", cluster.home])
        code = process.wait(timeout=20)
        with open(cluster.path("run", "spillwayd.log"), encoding="utf-8") as log:
            return code, log.read()

    def test_unknown_key(self):
        code, log = self.start("lisen: {user: '127.0.0.1:0'}\n")
        self.assertEqual(code, 2)
        self.assertIn("config.yaml:1", log)
        self.assertIn("listen", log)

    def test_an_address_that_is_not_loopback(self):
        code, log = self.start("listen: {user: '0.0.0.0:0', worker: '127.0.0.1:0', http: '127.0.0.1:0'}\n")
        self.assertEqual(code, 2)
        self.assertIn("loopback", log)


if __name__ == "__main__":
    unittest.main()
