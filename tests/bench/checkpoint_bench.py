#!/usr/bin/env python3
"""Checkpoints of float32 tensors: saved until they would survive a power cut, and restored from the disk, beside what fio writes and reads on the same disk
with the same block size and as many requests under way, torch.save and torch.load, plain safetensors by one thread, and one copy in memory. Everybody's
tensors lie in huge pages; nobody's file is in memory when it is read. All contenders in every round, in turns of changing order."""
import json
import os
import shutil
import subprocess
import tempfile

from harness import Beside, Bench, HERE

BLOCK, DEPTH = "1m", 8
HUGE_PAGES = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # malloc asks for them: fio's buffers, PyTorch's tensors


def fio(path, size, direction, engine):
    """Seconds, the sync at the end included."""
    arguments = ["--name=raw", f"--filename={path}", f"--size={size}", f"--bs={BLOCK}", f"--iodepth={DEPTH}", f"--rw={direction}", f"--ioengine={engine}",
                 "--direct=1", "--end_fsync=1", "--output-format=json"]
    done = subprocess.run(["fio", *arguments], capture_output=True, text=True, env=HUGE_PAGES, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout.strip())
    told = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0][direction]
    if told["io_bytes"] != size:
        raise RuntimeError(f"{told['io_bytes']} of {size} bytes")
    return told["runtime"] / 1e3


def engine_here(folder):
    path = os.path.join(folder, "probe")
    for engine in ("io_uring", "libaio"):
        try:
            fio(path, 1 << 20, "write", engine)
            return engine
        except RuntimeError as error:
            why = error
        finally:
            if os.path.exists(path):
                os.remove(path)
    raise SystemExit(f"bench: fio writes nothing here: {why}")


def forget(path):
    """Nothing of it stays in memory; it has been synced."""
    files = [path] if os.path.isfile(path) else [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    for name in files:
        fd = os.open(name, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


class Contest:
    """The contenders; each takes seconds, or what it has told."""

    def __init__(self, folder, size, engine, ours, torch):
        self.folder, self.size, self.engine, self.ours, self.torch = folder, size, engine, ours, torch

    def path(self, name):
        return os.path.join(self.folder, name)

    def raw(self):
        path = self.path("raw")
        yield "fio_write", {"seconds": fio(path, self.size, "write", self.engine)}
        yield "fio_read", {"seconds": fio(path, self.size, "read", self.engine)}
        os.remove(path)

    def checkpoint(self, how, key):
        directory = self.path("run")
        told = self.ours.ask("save", directory, how)
        yield "save" + key, told
        if how != "trusted":
            forget(told["path"])
            yield "restore" + key, self.ours.ask("restore", told["path"], how)
        shutil.rmtree(directory)

    def file(self, program, verbs, key):
        path = self.path("file")
        yield "save" + key, program.ask(verbs[0], path)
        forget(path)
        yield "restore" + key, program.ask(verbs[1], path)
        os.remove(path)

    def memory(self):
        yield "copy", self.ours.ask("copy")
        yield "stall", self.ours.ask("stall", self.path("beside"))
        yield "digest", self.ours.ask("digest")

    def round(self, number):
        turns = [self.raw(), self.checkpoint("plain", ""), self.checkpoint("trusted", "_trusted"), self.checkpoint("encrypted", "_encrypted"),
                 self.file(self.torch, ("save", "restore"), "_torch"), self.file(self.ours, ("write", "read"), "_safetensors"), self.memory()]
        # The first two are what is compared most: always side by side, each of them first in half of the rounds.
        pair = turns[:2] if number % 2 == 0 else turns[1::-1]
        rest = turns[2:] if number % 2 == 0 else turns[:1:-1]
        told = {}
        for turn in [*pair, *rest]:
            told.update(turn)
        return told


def main():
    bench = Bench("checkpoint", __doc__)
    bench.parser.add_argument("--bytes", type=int, default=2 << 30, help="of the tensors, at least")
    bench.parser.add_argument("--rounds", type=int, default=9)
    options = bench.parse()
    rounds = []
    with tempfile.TemporaryDirectory(prefix="spillway-bench-") as folder:
        engine = engine_here(folder)
        with Beside("training", "--bytes", bench.of(options.bytes, 64 << 20)) as ours:
            shapes = os.path.join(folder, "tensors.json")
            with open(shapes, "w", encoding="utf-8") as file:
                json.dump(ours.said["tensors"], file)
            with Beside("training", shapes, program=("/usr/bin/python3", os.path.join(HERE, "torch_files.py")), environment=HUGE_PAGES) as torch:
                size = ours.said["bytes"] // (1 << 20) * (1 << 20)
                contest = Contest(folder, size, engine, ours, torch)
                contest.round(0)  # warm
                for number in bench.rounds(options.rounds):
                    rounds.append(contest.round(number))
                torch.end()
            ours.end()
    total = ours.said["bytes"]

    def rate(key):
        return [(size if key.startswith("fio") else total) / each[key]["seconds"] / 1e9 for each in rounds]

    def ms(key, what="seconds"):
        return [each[key][what] * 1e3 for each in rounds]

    write, read = rate("fio_write"), rate("fio_read")
    bench.figure("save", "save, read back and committed (raw: fio's write)", "GB/s", rate("save"), write, share=0.95)
    bench.figure("save_trusted", "  not read back", "GB/s", rate("save_trusted"), write)
    bench.figure("save_torch", "  torch.save and fsync", "GB/s", rate("save_torch"), write)
    bench.figure("save_safetensors", "  plain safetensors by one thread, and fsync", "GB/s", rate("save_safetensors"), write)
    bench.figure("restore", "restore (raw: fio's read)", "GB/s", rate("restore"), read, share=0.95, never_below=0.85)
    bench.figure("restore_torch", "  torch.load", "GB/s", rate("restore_torch"), read)
    bench.figure("restore_safetensors", "  plain safetensors by one thread", "GB/s", rate("restore_safetensors"), read)
    bench.figure("stall", "how long a save beside the training holds it up (raw: one copy in memory)", "ms", ms("stall"), ms("copy"), share_most=1.1)
    bench.figure("checksums", "checksums: XXH3-128 of every chunk, by itself (raw: the save)", "ms", ms("digest"), ms("save"))
    bench.figure("save_encrypted", "encryption: save (raw: the save without)", "GB/s", rate("save_encrypted"), rate("save"))
    bench.figure("restore_encrypted", "  restore (raw: the restore without)", "GB/s", rate("restore_encrypted"), rate("restore"))
    bench.figure("save_cpu", "processor time of a save", "ms", ms("save", "processor_seconds"))
    bench.figure("restore_cpu", "  of a restore", "ms", ms("restore", "processor_seconds"))
    bench.facts["tensors"] = f"{len(ours.said['tensors'])} of float32, {total:,} bytes"
    bench.facts["fio"] = f"ioengine={engine} bs={BLOCK} iodepth={DEPTH} direct=1 end_fsync=1"
    bench.finish()


if __name__ == "__main__":
    main()
