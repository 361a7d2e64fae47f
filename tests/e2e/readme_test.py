#!/usr/bin/env python3
"""The README's first five minutes, word for word, against the built programs: what a newcomer pastes works, and leaves nothing behind.

Only `./dev build` is a stand-in (the programs are built), and the ports are free ones, written into the configuration that `up` finds.
"""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from support import BIN, processes_of, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def first_five_minutes(document, heading):
    """(shell text, job file): what the blocks of the section hold."""
    with open(os.path.join(ROOT, document), encoding="utf-8") as source:
        section = source.read().split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"```(yaml)?\n(.*?)```", section, re.S)
    return "".join(text for kind, text in blocks if not kind), "".join(text for kind, text in blocks if kind)


class FirstFiveMinutes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="spillway-readme-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
        self.env["HOME"] = os.path.join(self.folder, "home")
        os.makedirs(os.path.join(self.env["HOME"], ".spillway"), mode=0o700)
        self.write("home/.spillway/config.yaml", 'listen: {user: "127.0.0.1:0", worker: "127.0.0.1:0", http: "127.0.0.1:0"}\n')
        self.write("dev", '#!/bin/sh\n[ "$*" = build ]\n')
        os.makedirs(os.path.join(self.folder, "build"))
        os.symlink(os.path.abspath(BIN), os.path.join(self.folder, "build", "bin"))
        self.addCleanup(self.down)

    def write(self, path, text):
        path = os.path.join(self.folder, path)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, 0o700)

    def down(self):
        for words in (["cancel", "all", "--now", "--yes"], ["down"]):
            subprocess.run([os.path.join(BIN, "spillway"), *words], env=self.env, capture_output=True, timeout=120)

    def test_what_the_readme_says_works(self):
        shell, job = first_five_minutes("README.md", "The first five minutes")
        self.assertGreater(len(shell.splitlines()), 10)
        self.write("train.yaml", job)
        script = "trap 'echo \"this line failed: $BASH_COMMAND\" >&2' ERR\n" + shell
        done = subprocess.run(["bash", "-Eeuo", "pipefail", "-c", script], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=240,
                              stdin=subprocess.DEVNULL)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, said[-4000:])
        self.assertIn("hello\n", done.stdout)
        self.assertIn("submitted 2 bert-base", done.stdout)
        self.assertIn("PREEMPTED by user", done.stdout, "describe shows how the first attempt ended")
        self.assertRegex(done.stdout, r"job 2 +bert-base +SUCCEEDED")
        self.assertIn("resumed from step", said, "the second attempt went on from the checkpoint of the first")
        self.assertEqual(wait_for("nothing to be left", lambda: [] if processes_of(self.folder) else ["nothing"], 20), ["nothing"])

    def test_the_chinese_readme_says_the_same(self):
        def bare(document, heading):
            shell, job = first_five_minutes(document, heading)
            return [re.sub(r"\s+#.*", "", line) for line in shell.splitlines()], job
        self.assertEqual(bare("README.md", "The first five minutes"), bare("README.zh-CN.md", "最初五分钟"))


if __name__ == "__main__":
    unittest.main()
