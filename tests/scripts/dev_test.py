#!/usr/bin/env python3
"""./dev: what each subcommand builds, and that a long build is never silent. ninja, dpkg-query and the demo are stand-ins."""
import os
import pty
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

NINJA = """#!/bin/sh
echo "$@" >> "$ASKED"
i=0
while [ $i -lt 60 ]; do i=$((i + 1)); echo "[$i/60, 1.0 s] Building CXX object part$i.cc.o"; done
if [ -n "$BREAK" ]; then echo "FAILED: part7.cc.o"; echo "part7.cc:3:1: error: no such thing"; exit 1; fi
"""
PROGRAMS = ["spillwayd", "spillway-worker", "spillway-supervisor", "spillway-playground", "spillway-train", "spillway"]


class Dev(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="spillway-dev-")
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(os.path.join(ROOT, "dev"), self.folder)
        self.write("build/build.ninja", "")
        self.write("scripts/demo.py", "import sys; print('the demo runs with', *sys.argv[1:])\n")
        self.write("bin/ninja", NINJA)
        self.write("bin/dpkg-query", "#!/bin/sh\necho 'install ok installed'\n")
        self.write("bin/ctest", "#!/bin/sh\necho the tests run\n")
        self.asked = os.path.join(self.folder, "asked")
        self.env = {**os.environ, "PATH": os.path.join(self.folder, "bin") + ":" + os.environ["PATH"], "ASKED": self.asked, "SPILLWAY_JOBS": "2"}

    def write(self, path, text):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(path, 0o755)

    def dev(self, *arguments, **more):
        return subprocess.run([os.path.join(self.folder, "dev"), *arguments], env={**self.env, **more}, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)

    def targets(self):
        with open(self.asked, encoding="utf-8") as source:
            return source.read().split()[4:]  # after -C build -j 2

    def test_the_demo_builds_only_what_it_runs(self):
        done = self.dev("demo", "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.targets(), PROGRAMS)
        self.assertIn("the demo runs with --bin build/bin --seed 7", done.stdout)

    def test_what_is_built_for_the_demo_is_what_it_starts(self):
        with open(os.path.join(ROOT, "scripts/demo.py"), encoding="utf-8") as source:
            started = set(re.findall(r'program\("([\w-]+)"\)', source.read()))
        self.assertEqual(started | {"spillway-supervisor"}, set(PROGRAMS))  # the worker starts its supervisor

    def test_build_makes_the_programs_and_test_makes_everything(self):
        self.assertEqual(self.dev("build").returncode, 0)
        self.assertEqual(self.targets(), ["programs"])
        os.remove(self.asked)
        self.assertEqual(self.dev("build", "core_test").returncode, 0)
        self.assertEqual(self.targets(), ["core_test"])
        os.remove(self.asked)
        done = self.dev("test")
        self.assertEqual(self.targets(), [])
        self.assertIn("the tests run", done.stdout)

    def test_help_does_nothing_and_fits_the_terminal(self):
        usage = self.dev().stdout
        commands = re.findall(r"^  ([a-z]+)", usage, re.MULTILINE)
        self.assertEqual(commands, ["deps", "build", "demo", "test", "check", "bench", "soak", "fmt"])
        for line in usage.splitlines():
            self.assertLessEqual(len(line), 100, line)
        for command in commands:
            for words in ([command, "--help"], [command, "x", "-h"]):
                if words == ["bench", "x", "-h"]:
                    continue  # of one benchmark: its own
                done = self.dev(*words)
                self.assertEqual(done.returncode, 0, words)
                self.assertIn("the demo runs with --help" if command == "demo" else f"usage: ./dev {command}", done.stdout)
                self.assertNotIn("==", done.stdout)
        self.assertFalse(os.path.exists(self.asked), "nothing was built")

    def test_an_unknown_command_is_named_with_the_nearest(self):
        for word, meant in (("biuld", ", did you mean 'build'?"), ("tests", ", did you mean 'test'?"), ("xyzzyplugh", "")):
            done = self.dev(word)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr.splitlines()[0], f"dev: no command '{word}'{meant}")
        done = self.dev("fmt", "all")
        self.assertEqual((done.returncode, done.stderr), (2, "dev: fmt takes nothing more: all\n"))

    def test_a_build_into_a_file_shows_a_line_now_and_then(self):
        lines = [line for line in self.dev("build").stdout.splitlines() if line.startswith("[")]
        self.assertTrue(lines[0].startswith("[1/60, "), lines)
        self.assertTrue(lines[-1].startswith("[60/60, "), lines)
        self.assertLess(len(lines), 10)

    def test_a_build_on_a_terminal_shows_ninjas_own_lines(self):
        ours, theirs = pty.openpty()
        with subprocess.Popen([os.path.join(self.folder, "dev"), "build"], env=self.env, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL) as process:
            os.close(theirs)
            text = b""
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                text += part
        os.close(ours)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(text.count(b"Building CXX object"), 60)

    def test_a_failed_build_says_what_failed_and_stops(self):
        done = self.dev("demo", BREAK="1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("error: no such thing", done.stdout)
        self.assertNotIn("the demo runs", done.stdout)


if __name__ == "__main__":
    unittest.main()
