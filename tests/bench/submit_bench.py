#!/usr/bin/env python3
"""Durable submits: one job a call with 64 callers, and 1,000 distinct jobs a call; beside the disk, SQLite, and the same calls to a server that does
nothing but answer."""
from harness import Beside, Bench, cluster, cpu_seconds, load

CALLERS, SPEC_BYTES = 64, 500


def main():
    bench = Bench("submit", __doc__)
    bench.parse()
    seconds, singles = bench.of(1.0, 0.05), bench.of(8_000, 200)
    calls, per_call, callers = bench.of((40, 1_000, 4), (4, 50, 4))
    values = {key: [] for key in ("write", "commit", "rows", "bare", "single", "p50", "p99", "single_cpu", "bare_batch", "batch",
                                     "batch_cpu")}
    for _ in bench.rounds(5):
        with cluster() as own, Beside("serve-bare") as bare:
            def submit(server, tag, count, size, many):
                return load("submit", *server, "--callers", many, "--count", count, "--per-call", size, "--spec-bytes", SPEC_BYTES, "--tag", tag)
            def own_submit(tag, count, size, many):
                before = cpu_seconds(own.scheduler.pid)
                told = submit(own.user(), tag, count, size, many)
                values[tag].append(told["per_second"])
                values[tag + "_cpu"].append((cpu_seconds(own.scheduler.pid) - before) / told["jobs"] * 1e6)
                return told
            nothing = ["--server", f"127.0.0.1:{bare.said['port']}"]
            folder = own.path("run")
            values["write"].append(load("raw-writes", "--folder", folder, "--seconds", seconds)["per_second"])
            values["commit"].append(load("raw-commits", "--folder", folder, "--row-bytes", SPEC_BYTES, "--seconds", seconds)["per_second"])
            values["bare"].append(submit(nothing, "bare", singles, 1, CALLERS)["per_second"])
            single = own_submit("single", singles, 1, CALLERS)
            values["p50"].append(single["call_ms"]["p50"])
            values["p99"].append(single["call_ms"]["p99"])
            values["rows"].append(load("raw-commits", "--folder", folder, "--rows", 1_000, "--row-bytes", SPEC_BYTES, "--seconds", seconds)["per_second"])
            values["bare_batch"].append(submit(nothing, "bare", calls, per_call, callers)["per_second"])
            own_submit("batch", calls, per_call, callers)
            counted = load("states", *own.user())["states"]
            if counted != {"QUEUED": singles + calls * per_call}:
                raise SystemExit(f"bench: {singles + calls * per_call} jobs were accepted, and there are {counted}")
    bench.figure("raw_write", "raw: 4 KiB written and synced", "/s", values["write"])
    bench.figure("raw_bare", f"raw: gRPC alone, one job a call, {CALLERS} callers", "/s", values["bare"])
    bench.figure("single", f"one job a call, {CALLERS} callers (raw: one SQLite commit a row)", "jobs/s", values["single"], values["commit"], least=3_000)
    bench.figure("single_p50", "  its call, p50", "ms", values["p50"])
    bench.figure("single_p99", "  its call, p99", "ms", values["p99"])
    bench.figure("single_cpu", "  spillwayd, processor time a job", "us", values["single_cpu"])
    bench.figure("raw_bare_batch", f"raw: gRPC alone, {per_call} jobs a call, {callers} callers", "jobs/s", values["bare_batch"])
    bench.figure("batch", f"{per_call} jobs a call, {callers} callers (raw: SQLite, 1,000 rows a commit)", "jobs/s", values["batch"], values["rows"],
                 least=30_000)
    bench.figure("batch_cpu", "  spillwayd, processor time a job", "us", values["batch_cpu"])
    bench.facts["each job"] = f"a distinct spec of {SPEC_BYTES} bytes"
    bench.finish()


if __name__ == "__main__":
    main()
