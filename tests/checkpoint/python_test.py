#!/usr/bin/env python3
"""The Python package over the C library, with real processes: what is saved comes back, several processes save one checkpoint, a killed run goes on as if nothing
had happened, and the library shows the names of its header and no others."""
import array
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE = os.environ.get("SPILLWAY_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.environ.get("SPILLWAY_BIN") or os.path.join(SOURCE, "build", "bin"))
LIBRARY = os.path.join(BUILD, "lib", "libspillway_checkpoint.so.1")
os.environ["SPILLWAY_CHECKPOINT_LIBRARY"] = LIBRARY
sys.path.insert(0, os.path.join(SOURCE, "checkpoint", "python"))
for name in [name for name in os.environ if name.startswith("SPILLWAY_") and name not in ("SPILLWAY_SOURCE", "SPILLWAY_BIN", "SPILLWAY_CHECKPOINT_LIBRARY")]:
    del os.environ[name]

import spillway  # noqa: E402

# A training whose state is a few numbers: each step depends on all before it, so that a lost or repeated one shows.
TRAINING = r"""
import sys, os, array, signal
import spillway
total, every, die_at = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
run = spillway.Run(sys.argv[1], keep_last=2)
weights, rng = array.array("d", [1.0] * 1000), array.array("Q", [88172645463325252])
newest = run.restore()
if newest:
    newest.read_into("weights", weights)
    newest.read_into("rng", rng)
for step in run.steps(total, every, state=lambda: {"weights": weights, "rng": rng}, metadata=lambda: {"loss": str(weights[0])}):
    for _ in range(50):
        x = rng[0]
        x ^= (x << 13) & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 7
        x ^= (x << 17) & 0xFFFFFFFFFFFFFFFF
        rng[0] = x
        weights[x % 1000] = weights[(x >> 20) % 1000] * 0.75 + step
    if step == die_at:
        os.kill(os.getpid(), signal.SIGKILL)
    print("step", step, flush=True)
"""


class Package(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="spillway-python-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def python(self, code, *arguments, env=None, **keywords):
        environment = dict(os.environ, PYTHONPATH=os.path.join(SOURCE, "checkpoint", "python"), PYTHONDONTWRITEBYTECODE="1", **(env or {}))
        return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords)

    def finish(self, process, code=0):
        out, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, err)
        return out, err

    def test_what_is_saved_comes_back(self):
        tensors = {"f": array.array("f", [1.5, -2.5, 3.0]), "i64": array.array("q", [-5]), "bytes": b"abc", "empty": bytearray(),
                   "matrix": memoryview(array.array("i", range(12))).cast("B").cast("i", (3, 4)),
                   "half": spillway.Array(bytes(range(8)), "bf16", (2, 2)), "scalar": spillway.Array(b"\1\0\0\0\0\0\0\0", "u64", ()), "na\u00efve/\u6743\u91cd": array.array("d", [0.1])}
        with spillway.Writer(self.path("run")) as writer:
            saved = writer.save(7, tensors, {"loss": "0.5", "text": "\u00fc"})
        self.assertEqual(saved.path, self.path("run", "step-000000000007"))
        self.assertEqual((saved.attempt, saved.step, len(saved.manifest_sha256)), (1, 7, 64))
        with spillway.open_newest(self.path("run")) as newest:
            self.assertEqual(newest.path, saved.path)
            self.assertEqual(newest.metadata, {"loss": "0.5", "text": "\u00fc"})
            self.assertEqual(newest.skipped, [])
            self.assertEqual(set(newest), set(tensors))
            self.assertEqual(newest.tensors["matrix"], ("i32", (3, 4)))
            self.assertEqual(newest.tensors["half"], ("bf16", (2, 2)))
            self.assertEqual(newest.tensors["scalar"], ("u64", ()))
            for name, value in tensors.items():
                self.assertEqual(newest[name].tobytes(), spillway.Array.of(value).tobytes(), name)
            self.assertEqual(newest["matrix"].cast().tolist(), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]])
            self.assertEqual(newest.read_part("matrix", (1, 2), (2, 2)).cast().tolist(), [[6, 7], [10, 11]])
            into = array.array("f", [0, 0, 0])
            newest.read_into("f", into)
            self.assertEqual(into, tensors["f"])

    def test_errors_say_what_to_do(self):
        with spillway.Writer(self.path("run")) as writer:
            writer.save(1, {"w": array.array("f", [1, 2])})
            with self.assertRaisesRegex(spillway.AlreadyExists, "committed already"):
                writer.save(1, {"w": array.array("f", [1, 2])})
            with self.assertRaisesRegex(spillway.InvalidArgument, "step -1"):
                writer.save(-1, {})
            with self.assertRaisesRegex(spillway.InvalidArgument, "8 bytes, but f32\\[3\\] has 12"):
                spillway.Array(bytes(8), "f32", (3,))
            with self.assertRaisesRegex(spillway.InvalidArgument, "unknown dtype 'float'"):
                spillway.Array(bytes(8), "float")
            with self.assertRaisesRegex(spillway.InvalidArgument, "not contiguous"):
                spillway.Array.of(memoryview(array.array("f", [1, 2, 3, 4]))[::2])
            with self.assertRaisesRegex(spillway.InvalidArgument, "zero byte"):
                writer.save(2, {"a\0b": bytearray(1)})
        newest = spillway.open_newest(self.path("run"))
        with self.assertRaisesRegex(spillway.DoesNotFit, "nearest: w"):
            newest.read_into("v", array.array("f", [0, 0]))
        with self.assertRaisesRegex(spillway.DoesNotFit, "wanted f64"):
            newest.read_into("w", array.array("d", [0, 0]))
        with self.assertRaisesRegex(spillway.InvalidArgument, "read-only"):
            newest.read_into("w", bytes(8))
        with self.assertRaises(spillway.NotFound):
            spillway.open_newest(self.path("nothing"))
        with open(self.path("run", "step-000000000001", "rank-00000.bin"), "r+b") as container:
            container.seek(4096)
            container.write(b"\xff")
        with self.assertRaisesRegex(spillway.DataLoss, "no usable checkpoint"):
            spillway.open_newest(self.path("run"))
        with self.assertRaisesRegex(spillway.DoesNotFit, "only the scheduler"):
            spillway.Writer(self.path("0b1f6e0c-7a54-4d0e-9a51-5d2f6c3a9e10/5/0/a1"), keep_last=2)

    def test_falls_back_and_says_so(self):
        with spillway.Writer(self.path("run")) as writer:
            for step in (1, 2):
                writer.save(step, {"w": array.array("q", [step])})
        with open(self.path("run", "step-000000000002", "MANIFEST"), "a") as manifest:
            manifest.write(" ")
        newest = spillway.open_newest(self.path("run"))
        self.assertEqual(newest["w"].cast().tolist(), [1])
        self.assertEqual([os.path.basename(path) for path, _ in newest.skipped], ["step-000000000002"])
        self.assertIn("digest does not match", newest.skipped[0][1])

    def test_the_stale_writer_is_fenced(self):
        old = spillway.Writer(self.path("run"))
        old.save(1, {"w": bytearray(1)})
        new = spillway.Writer(self.path("run"))
        self.assertEqual((old.attempt, new.attempt), (1, 2))
        with self.assertRaisesRegex(spillway.Fenced, "taken over by attempt 2"):
            old.save(2, {"w": bytearray(1)})
        new.save(2, {"w": bytearray(1)})

    def test_keeps_what_it_is_told_to(self):
        with spillway.Writer(self.path("run"), keep_last=2, keep_best=1, metric="loss", keep_every=40) as writer:
            for step, loss in ((10, 3), (20, 1), (30, 2), (40, 5), (50, 6), (60, 7)):
                writer.save(step, {"w": bytearray(1)}, {"loss": str(loss)})
                self.assertEqual(writer.pruning_error, "")
        left = sorted(name for name in os.listdir(self.path("run")) if name.startswith("step-"))
        self.assertEqual([int(name[5:]) for name in left], [20, 40, 50, 60])

    def test_two_processes_save_and_one_or_four_restore(self):
        saver = r"""
import sys, array, spillway
rank = int(sys.argv[2])
writer = spillway.Writer(sys.argv[1], attempt=1, rank=rank, world_size=2, peers_wait=60)
for step in (1, 2, 3):
    rows = memoryview(array.array("d", [step * 1000 + i for i in range(32 * rank, 32 * rank + 32)])).cast("B").cast("d", (4, 8))
    saved = writer.save(step, {"m": spillway.Part(rows, (8, 8), (4 * rank, 0)), "lr": array.array("d", [0.5])}, {"step": str(step)})
print(saved.path, saved.manifest_sha256)
"""
        reader = r"""
import sys, json, spillway
readers, me = int(sys.argv[2]), int(sys.argv[3])
newest = spillway.open_newest(sys.argv[1])
assert newest["lr"].cast().tolist() == [0.5]
print(json.dumps([newest.step, newest.read_part("m", (0, me * 8 // readers), (8, 8 // readers)).cast().tolist()]))
"""
        processes = [self.python(saver, self.path("run"), rank) for rank in (1, 0)]
        told = [self.finish(process)[0] for process in processes]
        self.assertEqual(told[0], told[1])
        for readers in (1, 2, 4):
            parts = []
            for me in range(readers):
                step, part = json.loads(self.finish(self.python(reader, self.path("run"), readers, me))[0])
                self.assertEqual(step, 3)
                parts.append(part)
            whole = [sum((part[row] for part in parts), []) for row in range(8)]
            self.assertEqual(whole, [[3000.0 + row * 8 + column for column in range(8)] for row in range(8)])

    def weights(self, run):
        newest = spillway.open_newest(self.path(run))
        return newest.step, newest["weights"].tobytes(), newest["rng"].tobytes()

    def test_a_run_killed_three_times_ends_as_if_nothing_had_happened(self):
        self.finish(self.python(TRAINING, self.path("whole"), 60, 7, 0))
        for die_at in (5, 23, 44):
            self.finish(self.python(TRAINING, self.path("killed"), 60, 7, die_at), -signal.SIGKILL)
        out, _ = self.finish(self.python(TRAINING, self.path("killed"), 60, 7, 0))
        self.assertTrue(out.startswith("step 43\n"), out[:100])  # 42 was saved, 44 was lost
        self.assertEqual(self.weights("killed"), self.weights("whole"))
        self.assertLessEqual(len([name for name in os.listdir(self.path("killed")) if name.startswith("step-")]), 3)

    def test_told_to_stop_it_saves_and_asks_to_be_run_again(self):
        self.finish(self.python(TRAINING, self.path("whole"), 3000, 0, 0))
        process = self.python(TRAINING, self.path("stopped"), 3000, 0, 0)
        for _ in range(10):
            process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        self.finish(process, spillway.EXIT_RUN_ME_AGAIN)
        stopped_at = self.weights("stopped")[0]
        self.assertGreaterEqual(stopped_at, 10)
        self.assertLess(stopped_at, 3000)
        self.finish(self.python(TRAINING, self.path("stopped"), 3000, 0, 0))
        self.assertEqual(self.weights("stopped"), self.weights("whole"))

    def test_under_spillway(self):
        attempt = self.path("0b1f6e0c-7a54-4d0e-9a51-5d2f6c3a9e10/5/0/a2")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(listener.close)
        listener.bind(self.path("socket"))
        listener.settimeout(30)
        notice = self.path("notice")
        process = self.python(TRAINING, self.path("not-used"), 100000, 5, 0, env={
            "SPILLWAY_JOB_ID": "5", "SPILLWAY_JOB_UID": "uid-5", "SPILLWAY_ATTEMPT": "2", "SPILLWAY_CHECKPOINT_DIR": attempt, "SPILLWAY_SOCKET": self.path("socket"),
            "SPILLWAY_NOTICE_FILE": notice})
        checkpoints = []
        while len(checkpoints) < 2:
            message = json.loads(listener.recv(65536))
            if message["type"] == "checkpoint":
                checkpoints.append(message)
        self.assertEqual([c["step"] for c in checkpoints], [5, 10])
        self.assertEqual(checkpoints[0]["path"], os.path.join(attempt, "step-000000000005"))
        with open(notice + ".tmp", "w") as file:
            json.dump({"reason": "preempted", "seconds_left": 30}, file)
        os.rename(notice + ".tmp", notice)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            try:
                listener.settimeout(0.1)
                listener.recv(65536)  # a full socket must not hold the program up
            except socket.timeout:
                pass
        _, err = self.finish(process, spillway.EXIT_RUN_ME_AGAIN)
        self.assertIn("preempted", err)
        newest = spillway.open_newest(attempt, "uid-5")
        self.assertEqual(newest.attempt, 2)
        with self.assertRaisesRegex(spillway.SpillwayError, "of job uid-5"):
            spillway.open_newest(attempt, "uid-6")
        # All are still there: here the scheduler deletes, whatever keep_last says.
        self.assertIn("step-000000000005", os.listdir(attempt))


class Encryption(unittest.TestCase):
    KEY, OTHER = bytes(range(32)), "ab" * 32

    setUp, path, python, finish = Package.setUp, Package.path, Package.python, Package.finish

    def key_file(self, key=KEY, mode=0o600):
        with open(self.path("key"), "w") as out:
            out.write(key.hex() + "\n")
        os.chmod(self.path("key"), mode)
        return self.path("key")

    def save(self, step, **keywords):
        with spillway.Writer(self.path("run"), **keywords) as writer:
            return writer.save(step, {"w": array.array("f", [1.5, step])}, {"loss": "told to the key alone"})

    def test_what_is_saved_under_a_key_comes_back_under_it_alone(self):
        saved = self.save(7, key=self.KEY)
        for name in os.listdir(saved.path):
            with open(os.path.join(saved.path, name), "rb") as file:
                content = file.read()
            self.assertNotIn(b"told to the key alone", content)
            self.assertNotIn(array.array("f", [1.5, 7]).tobytes(), content)
        with spillway.open_newest(self.path("run"), key=self.KEY.hex()) as newest:
            self.assertEqual(newest["w"].tobytes() if hasattr(newest["w"], "tobytes") else bytes(newest["w"].data), array.array("f", [1.5, 7]).tobytes())
            self.assertEqual(newest.metadata, {"loss": "told to the key alone"})
        for attempt in (lambda: spillway.open_newest(self.path("run")), lambda: spillway.open_checkpoint(saved.path, key=b"")):
            with self.assertRaisesRegex(spillway.KeyRefused, "is encrypted, and no key is given"):
                attempt()
        with self.assertRaisesRegex(spillway.KeyRefused, "wrong key"):
            spillway.open_newest(self.path("run"), key=self.OTHER)
        with self.assertRaisesRegex(spillway.InvalidArgument, "32 bytes or 64 hex digits"):
            spillway.open_newest(self.path("run"), key="secret")
        self.save(8)
        with self.assertRaisesRegex(spillway.KeyRefused, "is not encrypted, and a key is given"):
            spillway.open_newest(self.path("run"), key=self.KEY)

    def test_rewrapping_changes_who_can_open_it_and_nothing_else(self):
        saved = self.save(7, key=self.KEY)
        spillway.rewrap(saved.path, self.KEY, self.OTHER, keep_old=True)
        for key in (self.KEY, self.OTHER):
            self.assertEqual(spillway.open_checkpoint(saved.path, key).saved.manifest_sha256, saved.manifest_sha256)
        spillway.rewrap(saved.path, self.OTHER, self.OTHER)
        with self.assertRaises(spillway.KeyRefused):
            spillway.open_checkpoint(saved.path, self.KEY)
        self.assertEqual(spillway.open_checkpoint(saved.path, self.OTHER).saved.manifest_sha256, saved.manifest_sha256)

    def test_a_key_file_is_its_owners_alone(self):
        self.assertEqual(spillway.key_from_file(self.key_file()), self.KEY)
        with self.assertRaisesRegex(spillway.KeyRefused, "chmod 600"):
            spillway.key_from_file(self.key_file(mode=0o640))

    def test_the_environment_names_the_key_for_a_whole_run(self):
        """A killed training goes on from its encrypted checkpoint; without the key, or with another one, it ends instead of beginning anew."""
        sources = [{"SPILLWAY_CHECKPOINT_KEY_FILE": self.key_file()}, {"SPILLWAY_CHECKPOINT_KEY_COMMAND": json.dumps(["cat", self.key_file()])}]
        whole, _ = self.finish(self.python(TRAINING, self.path("whole"), 30, 10, 0))
        out, _ = self.finish(self.python(TRAINING, self.path("run"), 30, 10, 14, env=sources[0]), -signal.SIGKILL)
        for env, words in (({}, "is encrypted, and no key is given"), ({"SPILLWAY_CHECKPOINT_KEY_FILE": self.path("nothing")}, "cannot be opened"),
                           ({"SPILLWAY_CHECKPOINT_KEY_COMMAND": '["false"]'}, "false exited with 1")):
            _, err = self.finish(self.python(TRAINING, self.path("run"), 30, 10, 0, env=env), 1)
            self.assertIn("KeyRefused", err)
            self.assertIn(words, err)
        rest, _ = self.finish(self.python(TRAINING, self.path("run"), 30, 10, 0, env=sources[1]))
        self.assertEqual(rest.split("\n")[0], "step 11")
        plain, hidden = spillway.open_newest(self.path("whole")), spillway.open_newest(self.path("run"), key=self.KEY)
        for name in ("weights", "rng"):
            self.assertEqual(bytes(plain[name].data), bytes(hidden[name].data))

    def test_a_descriptor_gives_it_to_restore_and_save(self):
        read, write = os.pipe()
        os.write(write, self.KEY.hex().encode())
        os.close(write)
        process = self.python(TRAINING, self.path("run"), 6, 2, 0, env={"SPILLWAY_CHECKPOINT_KEY_FD": str(read)}, pass_fds=[read])
        os.close(read)
        self.finish(process)
        self.assertEqual(spillway.open_newest(self.path("run"), key=self.KEY).step, 6)


class Library(unittest.TestCase):
    SECOND = {"spw_key_from_file", "spw_rewrap", "spw_writer_open_with_key", "spw_reader_open_with_key", "spw_reader_open_newest_with_key"}

    def test_shows_the_names_of_its_header_each_under_its_version(self):
        with open(os.path.join(SOURCE, "checkpoint", "capi", "include", "spillway", "checkpoint_c.h"), encoding="utf-8") as header:
            declared = set(re.findall(r"\b(spw_\w+)\(", header.read()))
        listed = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
        shown = [line.split()[-1] for line in listed.splitlines()]
        self.assertEqual({name for name in shown if not name.startswith("SPILLWAY_")},
                         {"%s@@SPILLWAY_CHECKPOINT_%d" % (name, 2 if name in self.SECOND else 1) for name in declared})
        self.assertGreater(len(declared), 25)

    def test_the_package_declares_what_the_header_does(self):
        with open(os.path.join(SOURCE, "checkpoint", "capi", "include", "spillway", "checkpoint_c.h"), encoding="utf-8") as header:
            declared = set(re.findall(r"\b(spw_\w+)\(", header.read()))
        from spillway import _library
        self.assertEqual(set(_library._FUNCTIONS), declared)

    def test_structures_have_the_sizes_of_c(self):
        """A C program prints what the compiler makes of the header; the package must agree. It also shows that the header is C."""
        from spillway import _library
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            self.skipTest("no C compiler")
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "sizes.c")
            with open(source, "w") as out:
                out.write('#include <spillway/checkpoint_c.h>\n#include <stdio.h>\nint main(void) { printf("%zu %zu %zu %zu %u", sizeof(spw_tensor), sizeof(spw_tensor_info),'
                          ' sizeof(spw_checkpoint), sizeof(spw_writer_options), spw_abi_version()); return 0; }\n')
            program = os.path.join(folder, "sizes")
            subprocess.run([compiler, "-std=c99", "-Wall", "-Werror", "-pedantic", "-I", os.path.join(SOURCE, "checkpoint", "capi", "include"), source, "-o", program,
                            LIBRARY, "-Wl,-rpath," + os.path.dirname(LIBRARY)], check=True)
            sizes = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        import ctypes
        self.assertEqual(sizes, " ".join(str(ctypes.sizeof(s)) for s in (_library.Tensor, _library.TensorInfo, _library.Committed, _library.WriterOptions)) + " 2")
        self.assertEqual(sizes, "64 32 104 104 2")  # what a program that was built against the first version has


if __name__ == "__main__":
    unittest.main()
