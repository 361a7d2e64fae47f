#!/usr/bin/env python3
"""Null tasks: distinct jobs, each placed on its own, to workers that accept, start and end each at once; beside SQLite writing as many rows. Then the same with
kill -9 at a random moment: every end that was acknowledged must still be there. ./dev bench arrays does it with one array."""
import random
import time

from harness import Beside, Bench, cluster, cpu_seconds, load

SPEC_BYTES = 200


def submit(own, jobs):
    per_call = min(jobs, 1_000)
    load("submit", *own.user(), "--callers", 1, "--count", jobs // per_call, "--per-call", per_call, "--spec-bytes", SPEC_BYTES)


def null(own, options, jobs, finished=""):
    keep = ["--finished", finished] if finished else []
    return Beside("null", *own.worker(), "--workers", options.workers, "--slots", options.slots, "--count", jobs, *keep)


def main():
    bench = Bench("null", __doc__)
    bench.parser.add_argument("--jobs", type=int, default=40_000)
    bench.parser.add_argument("--workers", type=int, default=32)
    bench.parser.add_argument("--slots", type=int, default=128, help="tasks that a worker may have at a time")
    bench.parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the moments of kill -9")
    options = bench.parse()
    jobs = bench.of(options.jobs, 500)
    jobs -= jobs % min(jobs, 1_000)
    values = {key: [] for key in ("raw", "rate", "cpu", "queued", "ended", "seconds")}
    for _ in bench.rounds(3):
        with cluster() as own:
            values["raw"].append(load("raw-commits", "--folder", own.path("run"), "--rows", 1_000, "--seconds", bench.of(1, 0.05))["per_second"])
            submit(own, jobs)
            values["queued"].append(own.database_bytes() / jobs)
            before = cpu_seconds(own.scheduler.pid)
            with null(own, options, jobs) as workers:
                told = workers.end()
            values["cpu"].append((cpu_seconds(own.scheduler.pid) - before) / jobs * 1e6)
            values["rate"].append(told["per_second"])
            values["seconds"].append(told["seconds"])
            states = load("states", *own.user())["states"]
            if states != {"SUCCEEDED": jobs}:
                raise SystemExit(f"bench: of {jobs} jobs: {states}")
            values["ended"].append(own.database_bytes() / jobs)
    moments = random.Random(options.seed)
    crashes = []
    for _ in bench.rounds(3, 1):
        with cluster() as own:
            submit(own, jobs)
            finished = own.path("run", "finished")
            with null(own, options, jobs, finished) as workers:
                time.sleep(moments.uniform(0.1, 0.9) * min(values["seconds"]))
                own.kill_scheduler()
                acknowledged = workers.end()["ended"]
            own.start_scheduler()
            told = load("states", *own.user(), "--finished", finished)
            if told["missing"] or told["acknowledged"] != acknowledged or sum(told["states"].values()) != jobs:
                raise SystemExit(f"bench: after kill -9 something acknowledged is gone: {told}")
            crashes.append({"acknowledged": acknowledged, "missing": told["missing"], "states": told["states"]})
    bench.figure("null", f"null tasks, distinct jobs, {options.workers} workers of {options.slots} slots (raw: SQLite rows)", "tasks/s",
                 values["rate"], values["raw"], least=20_000)
    bench.figure("null_cpu", "  spillwayd, processor time a task", "us", values["cpu"])
    bench.figure("disk_queued", f"  on disk, queued, a spec of {SPEC_BYTES} bytes included", "bytes/task", values["queued"])
    bench.figure("disk_ended", "  on disk, ended", "bytes/task", values["ended"])
    acknowledged = [crash["acknowledged"] for crash in crashes]
    bench.facts["kill -9"] = f"{len(crashes)} times (seed {options.seed}), acknowledged ends {acknowledged} of {jobs:,}, missing 0"
    bench.facts["crashes"] = crashes
    bench.finish()


if __name__ == "__main__":
    main()
