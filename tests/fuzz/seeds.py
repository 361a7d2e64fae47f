#!/usr/bin/env python3
"""Writes the first seeds of tests/fuzz/corpus from tests/checkpoint/golden: seeds.py. What libFuzzer finds is added beside them, by its SHA-1."""
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
STEP = os.path.join(HERE, "..", "checkpoint", "golden", "0b1f6e0c-7a54-4d0e-9a51-5d2f6c3a9e10", "5", "0", "a3", "step-000000000120")
ENCRYPTED_STEP = os.path.join(STEP, "..", "..", "a4", "step-000000000160")


def golden(name, step=STEP):
    with open(os.path.join(step, name), "rb") as file:
        return file.read()


def put(target, name, content):
    folder = os.path.join(HERE, "corpus", target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)


def region(container):
    return container[:struct.unpack_from("<q", container, 24)[0]]


def safetensors(data_bytes, header):
    return struct.pack("<q", data_bytes) + json.dumps(header).encode()


manifest = golden("MANIFEST")
put("manifest", "golden", manifest)
alone = json.loads(manifest)
alone.update(parent=None, world_size=1, files=alone["files"][:1], metadata={}, job_uid="")
del alone["sha256"]
put("manifest", "alone", b'{"sha256":"' + b"0" * 64 + b'",\n' + json.dumps(alone, indent=1, sort_keys=True).encode()[2:] + b"\n")
put("container_header", "rank-0", region(golden("rank-00000.bin")))
put("container_header", "rank-1", region(golden("rank-00001.bin")))
put("manifest", "encrypted", golden("MANIFEST", ENCRYPTED_STEP))
put("encrypted_header", "rank-0", region(golden("rank-00000.bin", ENCRYPTED_STEP)))
put("encrypted_header", "rank-1", region(golden("rank-00001.bin", ENCRYPTED_STEP)))
key_file = golden("KEY", ENCRYPTED_STEP)
put("key_file", "golden", key_file)
two = json.loads(key_file)
del two["sha256"]
two["wraps"] *= 2
put("key_file", "two", b'{"sha256":"' + b"0" * 64 + b'",\n' + json.dumps(two, indent=1, sort_keys=True).encode()[2:] + b"\n")
put("safetensors_header", "three", safetensors(52, {"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                                                    "b": {"dtype": "BF16", "shape": [2], "data_offsets": [24, 28]},
                                                    "n": {"dtype": "I64", "shape": [3], "data_offsets": [28, 52]}}))
put("safetensors_header", "scalar", safetensors(8, {"lr": {"dtype": "F64", "shape": [], "data_offsets": [0, 8]}, "none": {"dtype": "U8", "shape": [0], "data_offsets": [8, 8]}}))
