#!/usr/bin/env python3
"""An exported file as others read it: a reader written from the format's description alone, and the reference reader (python3-safetensors) where it is installed.
And back: files written here, as the reference writes them, are imported bit for bit."""
import array
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("SPILLWAY_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("SPILLWAY_BIN") or os.path.join(SOURCE, "build", "bin")
os.environ["SPILLWAY_CHECKPOINT_LIBRARY"] = os.path.join(os.path.dirname(BIN), "lib", "libspillway_checkpoint.so.1")
sys.path.insert(0, os.path.join(SOURCE, "checkpoint", "python"))

import spillway  # noqa: E402

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "U16": 2, "U32": 4, "U64": 8, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1, "C64": 8}


def read(path):
    """{name: (dtype, shape, bytes)} and the metadata; refuses what the reference refuses."""
    with open(path, "rb") as file:
        content = file.read()
    length, = struct.unpack("<Q", content[:8])
    assert length <= 100_000_000 and (8 + length) % 8 == 0
    text = content[8:8 + length].decode("utf-8")
    assert text.startswith("{")
    header = json.loads(text)
    data = content[8 + length:]
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(value, str) for value in metadata.values())
    at, tensors = 0, {}
    for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert set(info) == {"dtype", "shape", "data_offsets"}
        begin, end = info["data_offsets"]
        elements = 1
        for extent in info["shape"]:
            elements *= extent
        assert begin == at and end - begin == elements * SIZES[info["dtype"]], (name, info)
        assert begin % SIZES[info["dtype"]] == 0, "not aligned to its element"
        tensors[name] = (info["dtype"], info["shape"], data[begin:end])
        at = end
    assert at == len(data)
    return tensors, metadata


def write(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Safetensors(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="spillway-safetensors-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def spillway(self, *arguments, code=0):
        done = subprocess.run([os.path.join(BIN, "spillway"), "checkpoints", *map(str, arguments)], env={"SPILLWAY_HOME": self.path("home"), "PATH": os.environ["PATH"]},
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def tensors(self):
        chance = random.Random(7)
        made = {}
        for i, (dtype, size) in enumerate([("f64", 8), ("f32", 4), ("f16", 2), ("bf16", 2), ("i64", 8), ("i32", 4), ("i16", 2), ("i8", 1), ("u8", 1), ("u16", 2), ("u32", 4),
                                           ("u64", 8), ("bool", 1), ("f8e4m3", 1), ("f8e5m2", 1), ("c64", 8)]):
            shape = [(), (3,), (2, 5), (1, 0, 4), (7, 1, 3)][i % 5]
            elements = 1
            for extent in shape:
                elements *= extent
            made["layer.%d/%s" % (i, dtype)] = spillway.Array(chance.randbytes(elements * size) if dtype != "bool" else bytes(elements), dtype, shape)
        return made

    def test_an_exported_file_is_what_others_read(self):
        tensors = self.tensors()
        with spillway.Writer(self.path("run")) as writer:
            writer.save(3, tensors, {"format": "pt", "note": "\u00fcber"})
        self.spillway("export", self.path("run"), self.path("all.safetensors"))
        found, metadata = read(self.path("all.safetensors"))
        self.assertEqual(metadata, {"format": "pt", "note": "\u00fcber"})
        self.assertEqual({name: (shape, data) for name, (_, shape, data) in found.items()},
                         {name: (list(a.shape), a.tobytes()) for name, a in tensors.items()})
        self.assertEqual({name: dtype.lower().replace("_", "") for name, (dtype, _, _) in found.items()}, {name: a.dtype for name, a in tensors.items()})

    def test_several_files_and_their_index(self):
        tensors = {"t%02d" % i: array.array("f", [i] * 1000) for i in range(10)}
        with spillway.Writer(self.path("run")) as writer:
            writer.save(3, tensors)
        self.spillway("export", self.path("run"), self.path("out"), "--shard-size", "12KB")
        with open(self.path("out", "model.safetensors.index.json"), encoding="utf-8") as file:
            index = json.load(file)
        self.assertEqual(index["metadata"], {"total_size": 40000})
        files = sorted(set(index["weight_map"].values()))
        self.assertEqual(files, ["model-%05d-of-00004.safetensors" % i for i in range(1, 5)])
        for name in tensors:
            self.assertEqual(read(self.path("out", index["weight_map"][name]))[0][name][2], tensors[name].tobytes())
        # And back.
        self.spillway("import", self.path("out"), self.path("back"), "--step", 9)
        self.assertIn("10 tensors, all equal", self.spillway("diff", self.path("run"), self.path("back")))

    def test_what_others_wrote_is_imported(self):
        tensors = {"a": ("F32", [2, 2], struct.pack("<4f", 1, 2, 3, 4)), "odd": ("U8", [3], b"xyz"), "b": ("BF16", [1], b"\x80\x3f"), "s": ("I64", [], struct.pack("<q", -1))}
        write(self.path("in.safetensors"), tensors, {"k": "v"})
        self.spillway("import", self.path("in.safetensors"), self.path("run"), "--step", 4)
        newest = spillway.open_newest(self.path("run"))
        self.assertEqual(newest.step, 4)
        self.assertEqual(newest.metadata, {"k": "v"})
        for name, (_, shape, data) in tensors.items():
            self.assertEqual((list(newest[name].shape), newest[name].tobytes()), (shape, data), name)

    def test_damaged_files_are_refused(self):
        tensors = {"a": ("F32", [2, 2], bytes(16)), "b": ("U8", [3], b"xyz")}
        write(self.path("in.safetensors"), tensors, {})
        with open(self.path("in.safetensors"), "rb") as file:
            good = file.read()
        for bad in (good[:-1], good + b"\0", good[:7], b"\xff" * 8 + good[8:], good[:8] + b"[" + good[9:], good.replace(b'"F32"', b'"F31"'), b""):
            with open(self.path("bad.safetensors"), "wb") as file:
                file.write(bad)
            self.spillway("import", self.path("bad.safetensors"), self.path("none"), "--step", 1, code=4)
        self.assertFalse(os.path.exists(self.path("none")))

    def test_the_reference_reader_agrees(self):
        try:
            from safetensors import safe_open
        except ImportError:
            self.skipTest("python3-safetensors is not installed")
        with spillway.Writer(self.path("run")) as writer:
            writer.save(3, {"w": array.array("f", [1, 2, 3])}, {"k": "v"})
        self.spillway("export", self.path("run"), self.path("all.safetensors"))
        with safe_open(self.path("all.safetensors"), framework="np") as found:
            self.assertEqual(found.metadata(), {"k": "v"})
            self.assertEqual(found.get_tensor("w").tolist(), [1, 2, 3])


if __name__ == "__main__":
    unittest.main()
