#!/usr/bin/env python3
"""Every file that the documents name exists, every function in the tables of ARCHITECTURE.md stands in its file, every test that GUARANTEES.md names exists,
and the two READMEs show the same commands."""
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as source:
        return source.read()


def documents():
    for folder in ("", "docs", "docs/adr", "docs/reference"):
        path = os.path.join(ROOT, folder)
        if os.path.isdir(path):
            yield from (os.path.join(folder, name) for name in sorted(os.listdir(path)) if name.endswith(".md"))


class Names(unittest.TestCase):
    def test_functions_of_the_architecture_stand_in_their_files(self):
        rows = re.findall(r"^\|[^|]*\| `([\w./]+)` \| `([\w:]+)` \|$", read("docs/ARCHITECTURE.md"), re.M)
        self.assertGreater(len(rows), 25)
        for path, function in rows:
            with self.subTest(path=path, function=function):
                self.assertRegex(read(path), r"\b" + re.escape(function) + r"\b")

    def test_linked_files_exist(self):
        for document in documents():
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", read(document)):
                with self.subTest(document=document, target=target):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, os.path.dirname(document), target)))

    def test_named_files_exist(self):
        for document in ("docs/ARCHITECTURE.md", "docs/GUARANTEES.md", "CONTRIBUTING.md"):
            for path in re.findall(r"`((?:base|spec|pricing|checkpoint|scheduler|worker|client|sim|playground|tests|scripts|proto)/[\w./]+\.(?:cc|h|proto|py|sh))`", read(document)):
                with self.subTest(document=document, path=path):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, path)))

    def test_tests_named_by_the_guarantees_exist(self):
        text = read("docs/GUARANTEES.md")
        names = re.findall(r"`(tests/[\w/.]+)`(?:: `([\w.]+)`)?", text)
        self.assertGreater(len(names), 10)
        for path, test in names:
            with self.subTest(path=path, test=test):
                source = read(path)
                for part in test.split(".") if test else []:
                    self.assertRegex(source, r"\b" + re.escape(part) + r"\b")

    def test_every_promise_stands_in_the_guarantees(self):
        promises = [int(n) for n in re.findall(r"^## (\d+)\.", read("docs/GUARANTEES.md"), re.M)]
        self.assertEqual(promises, list(range(1, 13)))

    def test_the_chinese_readme_is_in_step(self):
        def commands(path):
            return [re.sub(r"\s+#.*", "", line).strip() for block in re.findall(r"```(?:yaml)?\n(.*?)```", read(path), re.S) for line in block.splitlines()
                    if not re.search(r"[─►◄│▼└]", line)]
        self.assertEqual(commands("README.md"), commands("README.zh-CN.md"))


if __name__ == "__main__":
    unittest.main()
