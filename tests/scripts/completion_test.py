#!/usr/bin/env python3
"""The bash completion as bash runs it: which words stand where. The program it asks for names is a stand-in that writes down what it was asked."""
import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts/completion/spillway.bash")


class Bash(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="spillway-completion-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.asked = os.path.join(self.folder, "asked")
        program = os.path.join(self.folder, "spillway")
        with open(program, "w", encoding="utf-8") as out:
            out.write('#!/bin/sh\necho "$@" >> "$ASKED"\ncase $2 in jobs) printf "12\\nbert\\n" ;; nodes) printf "gpu-1\\ngpu-2\\n" ;; esac\n')
        os.chmod(program, 0o755)

    def words(self, *line):
        """What may stand in place of the last word of `spillway LINE...`."""
        text = " ".join("'" + word + "'" for word in ("spillway", *line))
        done = subprocess.run(["bash", "-c", f'source "{SCRIPT}"; COMP_WORDS=({text}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _spillway; printf "%s\\n" "${{COMPREPLY[@]}}"'],
                              env={"PATH": self.folder + ":/usr/bin:/bin", "ASKED": self.asked}, capture_output=True, text=True, timeout=30, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_verbs_and_options(self):
        self.assertIn("describe", self.words(""))
        self.assertEqual(self.words("expl"), ["explain"])
        self.assertIn("--request-id", self.words("submit", "--r"))
        self.assertFalse(os.path.exists(self.asked), "nothing of this needs a scheduler")

    def test_jobs_where_a_job_may_stand(self):
        for verb in ("describe", "explain", "logs", "cancel", "preempt", "pause", "resume", "update", "wait"):
            self.assertLessEqual({"12", "bert", "last"}, set(self.words(verb, "")), verb)
        self.assertEqual(self.words("logs", "be"), ["bert"])
        self.assertEqual(set(self.words("checkpoints", "")), {"list", "show", "verify", "export", "import", "prune", "diff", "rewrap", "last", "12", "bert"})

    def test_nodes_where_a_node_may_stand(self):
        self.assertEqual(self.words("drain", "gpu-"), ["gpu-1", "gpu-2"])
        self.assertEqual(self.words("describe", "node", ""), ["gpu-1", "gpu-2"])
        self.assertIn("node", self.words("describe", ""))

    def test_files_and_commands(self):
        with open(os.path.join(self.folder, "train.yaml"), "w", encoding="utf-8"):
            pass
        self.assertEqual(self.words("submit", "tr"), ["train.yaml"])
        self.assertIn("spillway", self.words("run", "spillw"))

    def test_another_scheduler_is_not_asked(self):
        self.assertEqual(self.words("cancel", "--server", "other:7070", "b"), [])
        self.assertFalse(os.path.exists(self.asked))


if __name__ == "__main__":
    unittest.main()
