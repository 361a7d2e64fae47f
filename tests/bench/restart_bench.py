#!/usr/bin/env python3
"""A scheduler with many queued distinct jobs: its memory, any page of its list, and after kill -9 the time until it serves again, beside reading every row of
its database once. One job runs all the while and must not notice."""
from harness import Bench, cluster, load, serves_again


def main():
    bench = Bench("restart", __doc__)
    bench.parser.add_argument("--jobs", type=int, default=100_000)
    options = bench.parse()
    per_call = 1_000
    jobs = bench.of(options.jobs, 2_000) // per_call * per_call
    pages = bench.of(500, 20)
    values = {key: [] for key in ("restart", "scan", "grown", "loaded", "p50", "p99")}
    with cluster() as own:
        own.start_worker("real", resources="cpus=1,memory=2GB,gpu=none")
        runs = own.submit("name: stays\ncommand: [sleep, 1d]\nresources: {cpus: 1}\n")
        own.wait_running(runs)
        processes = own.marked(runs)
        empty = own.resident_bytes()
        load("submit", *own.user(), "--callers", 1, "--count", jobs // per_call, "--per-call", per_call, "--spec-bytes", 500)
        values["grown"].append((own.resident_bytes() - empty) / jobs)
        with cluster() as nothing:
            bare = nothing.resident_bytes()
        for _ in bench.rounds(5):
            own.kill_scheduler()
            values["scan"].append(load("raw-scan", "--database", own.path("data", "spillway.db"))["seconds"])
            values["restart"].append(serves_again(own))
            values["loaded"].append((own.resident_bytes() - bare) / jobs)
            told = load("list", *own.user(), "--count", pages, "--last-job", jobs)
            values["p50"].append(told["page_ms"]["p50"])
            values["p99"].append(told["page_ms"]["p99"])
            own.wait_connected("real")
            states = load("states", *own.user())["states"]
            if states != {"ACTIVE": 1, "QUEUED": jobs}:
                raise SystemExit(f"bench: {jobs} jobs were queued and one ran; now {states}")
            if own.marked(runs) != processes or [attempt["state"] for attempt in own.attempts(runs)] != ["RUNNING"]:
                raise SystemExit("bench: the job that ran was disturbed")
        bench.facts["on disk"] = f"{own.database_bytes() / jobs:,.0f} bytes a queued job, its spec of 500 bytes included"
    bench.figure("restart", f"kill -9 to serving, {jobs:,} queued jobs (raw: every row read once)", "s", values["restart"], values["scan"], most=3)
    bench.figure("memory_grown", "memory a queued job, as submitted", "bytes", values["grown"], most=1_024)
    bench.figure("memory_loaded", "memory a queued job, after a restart", "bytes", values["loaded"], most=1_024)
    bench.figure("page_p50", "any page of 100 jobs, p50", "ms", values["p50"])
    bench.figure("page_p99", "any page of 100 jobs, p99", "ms", values["p99"], most=10)
    bench.facts["disturbed"] = "nothing: the job that ran is the same process and the same attempt"
    bench.finish()


if __name__ == "__main__":
    main()
