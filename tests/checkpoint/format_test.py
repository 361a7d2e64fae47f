#!/usr/bin/env python3
"""Reads tests/checkpoint/golden by docs/reference/checkpoint-format.md alone: the offsets and sizes come out of the page's tables, so that page and files cannot part.
XXH3 is not in Python's library; golden_test.cc holds these digests. Everything else is checked here. AES-256-GCM is libcrypto's, HKDF is written out here."""
import ctypes
import ctypes.util
import hashlib
import hmac
import json
import os
import re
import struct
import unittest

SOURCE = os.environ.get("SPILLWAY_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEP = os.path.join(SOURCE, "tests", "checkpoint", "golden", "0b1f6e0c-7a54-4d0e-9a51-5d2f6c3a9e10", "5", "0", "a3", "step-000000000120")
ENCRYPTED_STEP = os.path.join(os.path.dirname(os.path.dirname(STEP)), "a4", "step-000000000160")
USER_KEY = bytes(range(32))
LETTERS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i64": "q"}


def page():
    with open(os.path.join(SOURCE, "docs", "reference", "checkpoint-format.md"), encoding="utf-8") as file:
        return file.read()


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class Document:
    """What the page says, as tables."""

    def __init__(self):
        text = page()
        container = text[text.index("## Container:"):text.index("## MANIFEST")]
        # Preamble: offset, size, content.
        self.preamble = [(int(offset), int(size), content) for offset, size, content in re.findall(r"^\| (\d+) \| (\d+) \| (.+) \|$", container, re.M)]
        body = container[container.index("Header body"):]
        rows = [(size.strip(), content.strip()) for size, content in re.findall(r"^\|([^|]*)\|([^|]*)\|$", body, re.M)]
        each = next(i for i, (_, content) in enumerate(rows) if content.startswith("for each tensor"))
        self.body = [(size, content) for size, content in rows[:each] if size.isdigit()]
        self.tensor = rows[each + 1:]
        self.dtypes = {int(code): name.split()[0] for code, name in re.findall(r"\| (\d+) \| ([a-z]\w+(?: \([^)]*\))?) (?=\|)", body)}
        self.segment_multiple = int(re.search(r"zeros up to a multiple of (\d+)", container).group(1))
        encryption = text[text.index("## Encryption"):text.index("## Falling back")]
        # What each key is derived for, and the rows of an encrypted container: the block's, and the tag's.
        self.infos = {use: info for info, use in re.findall(r"^\| [a-z' ]+ \| `([^`]+)` \| ([^|]+) \|$", encryption, re.M)}
        rows = re.findall(r"^\| (\d+)( each)? \| ([^|]+) \|$", encryption, re.M)
        self.block = [(int(size), what) for size, each, what in rows if not each]
        self.tag_bytes = [int(size) for size, each, what in rows if each and what.startswith("tag")][0]
        self.data_key_info = re.search(r"without salt, info `([^`]+)`", encryption.replace("\n", " ")).group(1)
        self.manifest_keys = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*`) \|", text[text.index("## MANIFEST"):text.index("## Encryption")], re.M))))


class Reader:
    def __init__(self, content, at=0):
        self.content, self.at = content, at

    def take(self, size, kind=None):
        raw = self.content[self.at:self.at + size]
        assert len(raw) == size, "it ends early"
        self.at += size
        if kind is None:
            return raw
        assert struct.calcsize("<" + LETTERS[kind]) == size, (kind, size)
        return struct.unpack("<" + LETTERS[kind], raw)[0]


def kind_of(content):
    found = re.match(r"(u8|u16|u32|u64|i64)\b", content)
    return found.group(1) if found else None


def container(document, content):
    """The preamble's values, the header's and the tensors, by the page."""
    values = {}
    for offset, size, what in document.preamble:
        assert offset == sum(s for o, s, _ in document.preamble if o < offset), "the table's rows follow each other"
        reader = Reader(content, offset)
        values[what] = reader.take(size, kind_of(what))
    body = Reader(content, sum(size for _, size, _ in document.preamble))
    header = {what: body.take(int(size), kind_of(what)) for size, what in document.body}
    encrypted = next(value for what, value in values.items() if "version" in what) == 2
    if encrypted:
        header["associated"] = content[64:84]
        for size, what in document.block:
            header[what.split(",")[0]] = body.take(size)
    tensors = []
    for _ in range(next(value for what, value in header.items() if "number of tensors" in what)):
        tensor = {}
        for size, what in document.tensor:
            if what == "name":
                tensor["name"] = body.take(tensor["u16 bytes of the name"]).decode("utf-8")
            elif what.startswith("for each dimension"):
                tensor["dims"] = [[body.take(8, "i64") for _ in range(3)] for _ in range(tensor["dimensions"])]
                assert size == "24 *d*"
            elif size == "16 each":
                tensor["digests"] = [body.take(16) for _ in range(tensor["number of chunks"])]
                tensor["tags"] = [body.take(document.tag_bytes) for _ in range(tensor["number of chunks"])] if encrypted else []
            else:
                value = body.take(int(size), kind_of(what))
                for key in ("u16 bytes of the name", "offset of the segment", "bytes of the segment", "number of chunks", "dimensions", "dtype"):
                    if key in what:
                        tensor[key] = value
                        break
        tensors.append(tensor)
    return values, header, tensors, body.at


def hkdf(secret, salt, info, size):
    """RFC 5869 with SHA-256."""
    key = hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()
    out, block = b"", b""
    while len(out) < size:
        block = hmac.new(key, block + info + bytes([len(out) // 32 + 1]), hashlib.sha256).digest()
        out += block
    return out[:size]


def gcm_open(key, nonce, associated, sealed, tag):
    """AES-256-GCM; None when it is not authentic."""
    crypto = ctypes.CDLL(ctypes.util.find_library("crypto"))
    for name in ("EVP_CIPHER_CTX_new", "EVP_aes_256_gcm"):
        getattr(crypto, name).restype = ctypes.c_void_p
    context, cipher = ctypes.c_void_p(crypto.EVP_CIPHER_CTX_new()), ctypes.c_void_p(crypto.EVP_aes_256_gcm())
    out, n = ctypes.create_string_buffer(len(sealed) + 16), ctypes.c_int()
    set_tag = 0x11
    assert crypto.EVP_DecryptInit_ex(context, cipher, None, key, nonce) == 1
    assert crypto.EVP_DecryptUpdate(context, None, ctypes.byref(n), associated, len(associated)) == 1
    assert crypto.EVP_DecryptUpdate(context, out, ctypes.byref(n), sealed, len(sealed)) == 1
    assert crypto.EVP_CIPHER_CTX_ctrl(context, set_tag, len(tag), tag) == 1
    authentic = crypto.EVP_DecryptFinal_ex(context, ctypes.create_string_buffer(16), ctypes.byref(n)) == 1
    crypto.EVP_CIPHER_CTX_free(context)
    return out.raw[:len(sealed)] if authentic else None


def nonce(counter, last):
    return counter.to_bytes(11, "big") + bytes([1 if last else 0])


class Encrypted(unittest.TestCase):
    """With the user's key, from KEY to the metadata and the tensors; what each step is called, and how long it is, the page says."""

    def setUp(self):
        self.document = Document()
        self.key_file = json.loads(bytes_of(os.path.join(ENCRYPTED_STEP, "KEY")))
        wrap = {name: bytes.fromhex(text) for name, text in self.key_file["wraps"][0].items()}
        derived = hkdf(USER_KEY, wrap["salt"], self.document.infos["one wrap of the data key"].encode(), 64)
        self.assertEqual(derived[32:], wrap["check"])
        self.data_key = gcm_open(derived[:32], nonce(0, True), self.key_file["data_key"].encode(), wrap["wrapped"][:-16], wrap["wrapped"][-16:])
        self.assertIsNotNone(self.data_key)

    def test_key_file(self):
        content = bytes_of(os.path.join(ENCRYPTED_STEP, "KEY"))
        self.assertEqual(content[11:75].decode(), hashlib.sha256(content[78:]).hexdigest())
        self.assertEqual((self.key_file["format"], self.key_file["version"]), ("spillway-checkpoint-key", 1))
        self.assertEqual(set(self.key_file), {"sha256", "format", "version", "data_key", "wraps"})
        self.assertEqual(hkdf(self.data_key, b"", self.document.data_key_info.encode(), 32).hex(), self.key_file["data_key"])

    def test_manifest(self):
        content = bytes_of(os.path.join(ENCRYPTED_STEP, "MANIFEST"))
        manifest = json.loads(content)
        encryption = manifest["encryption"]
        self.assertEqual((manifest["version"], manifest["metadata"], encryption["cipher"], encryption["data_key"]), (2, {}, "AES-256-GCM", self.key_file["data_key"]))
        derived = hkdf(self.data_key, bytes.fromhex(encryption["salt"]), self.document.infos["the metadata of one manifest"].encode(), 64)
        self.assertEqual(derived[32:].hex(), encryption["commitment"])
        sealed = bytes.fromhex(encryption["metadata"])
        associated = content[78:].replace(encryption["metadata"].encode(), b"")
        metadata = gcm_open(derived[:32], nonce(0, True), associated, sealed[:-16], sealed[-16:])
        self.assertEqual(metadata, '{"loss":"0.5","note":"gr\u00fc\u00df"}'.encode())
        self.assertIsNone(gcm_open(derived[:32], nonce(0, True), associated + b" ", sealed[:-16], sealed[-16:]))

    def test_containers(self):
        found = {}
        for rank in range(2):
            content = bytes_of(os.path.join(ENCRYPTED_STEP, "rank-%05d.bin" % rank))
            _, header, tensors, _ = container(self.document, content)
            derived = hkdf(self.data_key, header["salt"], self.document.infos["one container"].encode(), 64)
            self.assertEqual(derived[32:], header["commitment"])
            associated = header["associated"] + header["salt"] + header["commitment"]
            self.assertEqual(len(associated), 84)
            number, chunks = 0, sum(tensor["number of chunks"] for tensor in tensors)
            for tensor in tensors:
                plain, begin = b"", tensor["offset of the segment"]
                for tag in tensor["tags"]:
                    sealed = content[begin + len(plain):begin + min(len(plain) + 4096, tensor["bytes of the segment"])]
                    chunk = gcm_open(derived[:32], nonce(number, number == chunks - 1), associated, sealed, tag)
                    self.assertIsNotNone(chunk, (tensor["name"], number))
                    plain += chunk
                    number += 1
                found[tensor["name"], rank] = plain
        self.assertEqual(found["model/weights", 0] + found["model/weights", 1], struct.pack("<12f", *(i * 0.5 - 1 for i in range(12))))
        self.assertEqual(found["model/big", 0], struct.pack("<3000h", *(i * 7 - 9000 for i in range(3000))))
        self.assertEqual(found["lr", 0], struct.pack("<d", 0.001))
        self.assertEqual(found["lr", 1], found["lr", 0])
        self.assertEqual(found["state/rng", 1], struct.pack("<2Q", 0x0123456789abcdef, 0xfedcba9876543210))
        self.assertEqual(found["state/nothing", 1], b"")


class Format(unittest.TestCase):
    def setUp(self):
        self.document = Document()

    def value(self, values, words):
        found = [value for what, value in values.items() if words in what]
        self.assertEqual(len(found), 1, words)
        return found[0]

    def test_the_page_has_the_tables(self):
        self.assertEqual(len(self.document.preamble), 8)
        self.assertEqual(len(self.document.body), 5)
        self.assertEqual(len(self.document.dtypes), 17)
        self.assertEqual(self.document.dtypes[1], "f32")

    def test_containers(self):
        expected = {"model/weights": ("f32", [4, 3], struct.pack("<12f", *(i * 0.5 - 1 for i in range(12)))),
                    "model/big": ("i16", [3000], struct.pack("<3000h", *(i * 7 - 9000 for i in range(3000)))),
                    "lr": ("f64", [], struct.pack("<d", 0.001)), "state/rng": ("u64", [2], struct.pack("<2Q", 0x0123456789abcdef, 0xfedcba9876543210)),
                    "state/nothing": ("u8", [0], b"")}
        found = {}
        for rank in range(2):
            content = bytes_of(os.path.join(STEP, "rank-%05d.bin" % rank))
            values, header, tensors, end = container(self.document, content)
            self.assertEqual(values["`SPWYCKPT`"], b"SPWYCKPT")
            self.assertEqual(self.value(values, "version"), 1)
            self.assertEqual(self.value(values, "flags"), 0)
            self.assertEqual(self.value(values, "i64 bytes of the header body") + 64, end)
            region = self.value(values, "header region")
            multiple = self.document.segment_multiple
            self.assertEqual(region, (end + multiple - 1) // multiple * multiple)
            self.assertEqual(content[end:region].strip(b"\0"), b"")
            self.assertEqual(self.value(values, "i64 bytes of the file"), len(content))
            self.assertEqual((self.value(header, "u32 rank"), self.value(header, "world size"), self.value(header, "step"), self.value(header, "chunk size")),
                             (rank, 2, 120, 4096))
            at = region
            for tensor in tensors:
                self.assertEqual(tensor["offset of the segment"], at)
                data = content[at:at + tensor["bytes of the segment"]]
                padded = (len(data) + multiple - 1) // multiple * multiple
                self.assertEqual(content[at + len(data):at + padded].strip(b"\0"), b"", "the padding is zero")
                at += padded
                self.assertEqual(tensor["number of chunks"], -(-len(data) // 4096))
                found.setdefault(tensor["name"], []).append((self.document.dtypes[tensor["dtype"]], tensor["dims"], data))
            self.assertEqual(at, len(content))
        self.assertEqual(set(found), set(expected))
        for name, (dtype, shape, data) in expected.items():
            parts = found[name]
            self.assertTrue(all(part[0] == dtype and [d[0] for d in part[1]] == shape for part in parts), name)
            if name == "model/weights":  # rows 0 to 2, and row 3
                self.assertEqual([part[1] for part in parts], [[[4, 0, 3], [3, 0, 3]], [[4, 3, 1], [3, 0, 3]]])
                self.assertEqual(b"".join(part[2] for part in parts), data)
            else:
                self.assertTrue(all(part[2] == data for part in parts), name)

    def test_manifest(self):
        content = bytes_of(os.path.join(STEP, "MANIFEST"))
        first, rest = content.split(b"\n", 1)
        self.assertRegex(first.decode(), r'^\{"sha256":"[0-9a-f]{64}",$')
        self.assertEqual(len(first) + 1, 78)
        self.assertIn("from the 79th byte of the file on", page())
        self.assertEqual(first[11:75].decode(), hashlib.sha256(rest).hexdigest())
        manifest = json.loads(content)
        self.assertEqual(set(manifest) - {"sha256"}, self.document.manifest_keys - {"name", "bytes", "header_sha256", "null"})
        self.assertEqual((manifest["format"], manifest["version"], manifest["step"], manifest["attempt"], manifest["world_size"]), ("spillway-checkpoint", 1, 120, 3, 2))
        self.assertEqual(manifest["parent"], {"attempt": 2, "step": 80})
        for rank, file in enumerate(manifest["files"]):
            container_bytes = bytes_of(os.path.join(STEP, file["name"]))
            self.assertEqual(file["name"], "rank-%05d.bin" % rank)
            self.assertEqual(file["bytes"], len(container_bytes))
            region = struct.unpack_from("<q", container_bytes, 24)[0]
            self.assertEqual(file["header_sha256"], hashlib.sha256(container_bytes[:region]).hexdigest())


if __name__ == "__main__":
    unittest.main()
