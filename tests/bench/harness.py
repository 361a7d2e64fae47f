"""What the benchmarks share: programs of their own on loopback, interleaved rounds, medians beside the raw limit of the same run, one table and one JSON file.

A benchmark measures and asserts nothing but that its run was whole; `--quick` is the same run made small, which shows that it works and measures nothing."""
import argparse
import contextlib
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import support  # noqa: E402

TOOLS = os.path.join(support.BIN, "..", "tests")
LOAD, MARK = os.path.join(TOOLS, "bench-load"), os.path.join(TOOLS, "bench-mark")


class Cluster(support.Cluster):
    lease = "renew_every: 10s"

    def user(self):
        return ["--server", "127.0.0.1:" + support.read_text(self.path("run", "user.port")).strip(), "--token-file", self.path("tokens", "user")]

    def worker(self):
        return ["--server", "127.0.0.1:" + self.worker_port(), "--token-file", self.path("tokens", "worker")]

    def database_bytes(self):
        """Without the ballast, which is of one size for ever."""
        return sum(os.path.getsize(path) for path in (self.path("data", "spillway.db" + end) for end in ("", "-wal")) if os.path.exists(path))

    def resident_bytes(self):
        status = support.read_text(f"/proc/{self.scheduler.pid}/status")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


@contextlib.contextmanager
def cluster():
    """A scheduler of its own in a folder of its own."""
    made = Cluster()
    try:
        made.start_scheduler()
        yield made
    finally:
        made.close()


def serves_again(own):
    """Seconds from its start until it has told its port to users."""
    port = own.path("run", "user.port")
    if os.path.exists(port):
        os.remove(port)
    began = time.monotonic()
    own.scheduler = own.spawn("spillwayd", [support.program("spillwayd"), "--home", own.home])
    while not support.read_text(port):
        if own.scheduler.poll() is not None:
            raise SystemExit("bench: spillwayd ended: " + support.read_text(own.path("run", "spillwayd.log"))[-500:])
        time.sleep(0.002)
    return time.monotonic() - began


def load(role, *arguments):
    """One role of bench-load, to its end."""
    done = subprocess.run([LOAD, role, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"bench: {role}: {done.stderr.strip() or done.stdout.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


class Beside:
    """A role of bench-load that goes on beside what is measured; it has said its first line when this is made."""

    def __init__(self, role, *arguments, program=(LOAD,), environment=None):
        self.role = role
        self.process = subprocess.Popen([*program, role, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.said = self.hear()

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"bench: {self.role} ended with {self.process.wait()} before it was ready")
        return json.loads(line)

    def ask(self, *words):
        """One line of its input, and its answer."""
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.hear()

    def end(self):
        """Its input ends, and it with it or by itself; what it said last."""
        out = self.process.communicate()[0]
        if self.process.returncode != 0:
            sys.exit(f"bench: {self.role} ended with {self.process.returncode}")
        return json.loads(out.splitlines()[-1])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def cpu_seconds(pid):
    """Of all its threads, those that have ended too, to the nanosecond: the clock that clock_getcpuclockid(3) names."""
    return time.clock_gettime((~pid << 3) | 2)


def file_system_of(folder):
    best = ("", "unknown")
    for line in support.read_text("/proc/self/mounts").splitlines():
        _, point, kind = line.split()[:3]
        inside = os.path.realpath(folder).startswith(point.rstrip("/") + "/") or point == "/"
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def machine():
    names = [line.split(":", 1)[1].strip() for line in support.read_text("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    return {"cores": os.cpu_count(), "processor": names[0] if names else platform.machine(), "kernel": platform.release(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30), "file_system": file_system_of(support.tempfile.gettempdir())}


def words(value):
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def interval(values):
    """Of the median, at least 90 %, from the order of the values alone; None where there are too few for that."""
    ordered, count = sorted(values), len(values)
    for low in reversed(range((count + 1) // 2)):
        # The median is outside when at most `low` of the values lie on one side of it.
        if 2 * sum(math.comb(count, k) for k in range(low + 1)) / 2**count <= 0.1:
            return [ordered[low], ordered[-1 - low]]
    return None


class Bench:
    """One run of one benchmark: its options, its figures, its table and its file."""

    def __init__(self, name, description):
        parser = argparse.ArgumentParser(prog="./dev bench " + name, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--quick", action="store_true", help="some seconds: shows that it works, measures nothing")
        parser.add_argument("--out", default=os.path.join(ROOT, "build", "bench", name + ".json"))
        self.parser, self.name = parser, name
        self.figures, self.facts, self.options = {}, {}, None
        self.began, self.load_before = time.monotonic(), os.getloadavg()[0]

    def parse(self):
        self.options = self.parser.parse_args()
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        return self.options

    def of(self, whole, quick):
        return quick if self.options.quick else whole

    def rounds(self, whole, quick=2):
        for number in range(self.of(whole, quick)):
            print(f"bench {self.name}: round {number + 1}", file=sys.stderr, flush=True)
            yield number

    def figure(self, key, what, unit, values, raw=None, least=None, most=None, share=None, share_most=None, never_below=None):
        """`raw`: the raw limit's values, one a round. The aim: at `least` or at `most` so much, or at least or at most this share of the raw limit; with
        `never_below` it is enough that the interval of the ratio reaches `share`, while its median is not below that."""
        median = statistics.median(values)
        entry = {"what": what, "unit": unit, "values": values, "median": median}
        if raw is not None:
            ratios = [mine / limit for mine, limit in zip(values, raw)]
            entry.update(raw=raw, raw_median=statistics.median(raw), ratio=statistics.median(ratios), interval=interval(ratios))
        if least is not None:
            entry.update(aim=f">= {words(least)}", met=median >= least)
        if most is not None:
            entry.update(aim=f"<= {words(most)}", met=median <= most)
        if share is not None:
            met = entry["ratio"] >= share
            if never_below is not None:
                met = entry["ratio"] >= never_below and (entry["interval"] or [0, entry["ratio"]])[1] >= share
            entry.update(aim=f">= {share} of raw", met=met)
        if share_most is not None:
            entry.update(aim=f"<= {share_most} of raw", met=entry["ratio"] <= share_most)
        self.figures[key] = entry

    def finish(self):
        rows = [["", "median", "unit", "raw limit", "ratio", "90 %", "aim", ""]]
        for entry in self.figures.values():
            between = entry.get("interval")
            rows.append([entry["what"], words(entry["median"]), entry["unit"], words(entry.get("raw_median")), words(entry.get("ratio")),
                         " to ".join(map(words, between)) if between else "", entry.get("aim", ""),
                         "" if "met" not in entry else "met" if entry["met"] else "missed"])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        for row in rows:
            print("  " + "  ".join(cell.ljust(width) if i in (0, 2, 6, 7) else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))).rstrip())
        for name, value in self.facts.items():
            if isinstance(value, str):
                print(f"  {name}: {value}")
        box = {**machine(), "load_before": round(self.load_before, 2)}
        print(f"  {box['cores']} cores ({box['processor']}), Linux {box['kernel']}, {box['file_system']}, {time.monotonic() - self.began:.0f} s")
        if self.load_before > 0.5:
            print(f"  the machine had other work (load {self.load_before:.1f} before): rates and latencies mean little, ratios and processor time more")
        if box["file_system"] == "tmpfs":
            print("  the temporary folder is in memory, where nothing is durable and a sync costs nothing: set TMPDIR to a folder on a disk")
        if self.options.quick:
            print("  --quick: this shows that the benchmark works; its figures mean nothing")
        out = {"bench": self.name, "quick": self.options.quick, "machine": box, "figures": self.figures, "facts": self.facts}
        os.makedirs(os.path.dirname(os.path.abspath(self.options.out)), exist_ok=True)
        with open(self.options.out, "w", encoding="utf-8") as file:
            json.dump(out, file, indent=2)
            file.write("\n")
        print(f"  written: {self.options.out}")
