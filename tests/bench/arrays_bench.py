#!/usr/bin/env python3
"""Arrays: null tasks of one array, each placed on its own, to workers that accept, start and end each at once, beside SQLite writing as many rows; the same with
kill -9 at a random moment, when every end that was acknowledged must still be there; and an array of a million tasks: submit, memory, any page of its tasks,
the time after kill -9 until the scheduler serves again, cancel."""
import random
import time

from harness import Beside, Bench, cluster, cpu_seconds, load, serves_again

SPEC_BYTES = 200


def submit(own, tasks):
    """Seconds; the job is the first of this scheduler's."""
    return load("submit", *own.user(), "--spec-bytes", SPEC_BYTES, "--array", tasks)["seconds"]


def null(own, options, tasks, finished=""):
    keep = ["--finished", finished] if finished else []
    return Beside("null", *own.worker(), "--workers", options.workers, "--slots", options.slots, "--count", tasks, *keep)


def run_to_the_end(bench, options, tasks, values):
    with cluster() as own:
        values["raw"].append(load("raw-commits", "--folder", own.path("run"), "--rows", 1_000, "--seconds", bench.of(1, 0.05))["per_second"])
        submit(own, tasks)
        stored = own.database_bytes()
        before = cpu_seconds(own.scheduler.pid)
        with null(own, options, tasks) as workers:
            told = workers.end()
        values["cpu"].append((cpu_seconds(own.scheduler.pid) - before) / tasks * 1e6)
        values["rate"].append(told["per_second"])
        values["seconds"].append(told["seconds"])
        states = load("states", *own.user(), "--job", 1)["states"]
        if states != {"SUCCEEDED": tasks}:
            raise SystemExit(f"bench: of {tasks} tasks: {states}")
        values["disk"].append((own.database_bytes() - stored) / tasks)


def crash(options, tasks, after_s):
    with cluster() as own:
        submit(own, tasks)
        finished = own.path("run", "finished")
        with null(own, options, tasks, finished) as workers:
            time.sleep(after_s)
            own.kill_scheduler()
            acknowledged = workers.end()["ended"]
        own.start_scheduler()
        told = load("states", *own.user(), "--job", 1, "--finished", finished)
        if told["missing"] or told["acknowledged"] != acknowledged or sum(told["states"].values()) != tasks:
            raise SystemExit(f"bench: after kill -9 something acknowledged is gone: {told}")
        return {"acknowledged": acknowledged, "missing": told["missing"], "states": told["states"]}


def many(bench, options, tasks, begun, values):
    with cluster() as own:
        submit(own, 2)  # what the first of all submits takes besides
        own.ok("cancel", "1")
        empty, stored = own.resident_bytes(), own.database_bytes()
        values["submit"].append(submit(own, tasks) * 1e3)
        values["grown"].append((own.resident_bytes() - empty) / tasks)
        values["stored"].append((own.database_bytes() - stored) / tasks)
        with null(own, options, begun) as workers:
            workers.end()
        own.kill_scheduler()
        values["restart"].append(serves_again(own))
        told = load("list-tasks", *own.user(), "--count", bench.of(500, 20), "--job", 2, "--tasks", tasks)
        values["p50"].append(told["page_ms"]["p50"])
        values["p99"].append(told["page_ms"]["p99"])
        began = time.monotonic()
        own.ok("cancel", "--now", "2")
        values["cancel"].append((time.monotonic() - began) * 1e3)
        counts = {state: int(count) for state, count in own.job(2)["counts"].items() if int(count)}
        if counts.get("succeeded", 0) < begun or counts.get("queued", 0) or sum(counts.values()) != tasks:
            raise SystemExit(f"bench: of {tasks} tasks, {begun} of which had ended before the others were cancelled: {counts}")


def main():
    bench = Bench("arrays", __doc__)
    bench.parser.add_argument("--tasks", type=int, default=40_000, help="of the array that runs to its end")
    bench.parser.add_argument("--many", type=int, default=1_000_000, help="of the array that is listed, restarted with and cancelled")
    bench.parser.add_argument("--begun", type=int, default=20_000, help="of those, how many end before the scheduler is killed")
    bench.parser.add_argument("--workers", type=int, default=32)
    bench.parser.add_argument("--slots", type=int, default=128, help="tasks that a worker may have at a time")
    bench.parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="of the moments of kill -9")
    options = bench.parse()
    tasks, total, begun = bench.of(options.tasks, 500), bench.of(options.many, 10_000), bench.of(options.begun, 500)
    values = {key: [] for key in ("raw", "rate", "cpu", "disk", "seconds", "submit", "grown", "stored", "restart", "p50", "p99", "cancel")}
    for _ in bench.rounds(3):
        run_to_the_end(bench, options, tasks, values)
    moments = random.Random(options.seed)
    crashes = [crash(options, tasks, moments.uniform(0.1, 0.9) * min(values["seconds"])) for _ in bench.rounds(3, 1)]
    for _ in bench.rounds(3, 1):
        many(bench, options, total, begun, values)
    bench.figure("null", f"null tasks, one array, {options.workers} workers of {options.slots} slots (raw: SQLite rows)", "tasks/s",
                 values["rate"], values["raw"], least=50_000)
    bench.figure("null_cpu", "  spillwayd, processor time a task", "us", values["cpu"])
    bench.figure("disk_ended", "  on disk, ended", "bytes/task", values["disk"])
    bench.figure("submit", f"submit of an array of {total:,}", "ms", values["submit"])
    bench.figure("memory", "  memory a task that has not started", "bytes", values["grown"], most=1)
    bench.figure("disk_waiting", "  on disk, not started", "bytes/task", values["stored"])
    bench.figure("restart", f"  kill -9 to serving, {begun:,} of them ended", "s", values["restart"])
    bench.figure("page_p50", "  any page of 100 of its tasks, p50", "ms", values["p50"])
    bench.figure("page_p99", "  any page of 100 of its tasks, p99", "ms", values["p99"], most=10)
    bench.figure("cancel", "  cancel of all that is left, the command line included", "ms", values["cancel"])
    acknowledged = [each["acknowledged"] for each in crashes]
    bench.facts["kill -9"] = f"{len(crashes)} times (seed {options.seed}), acknowledged ends {acknowledged} of {tasks:,}, missing 0"
    bench.facts["crashes"] = crashes
    bench.finish()


if __name__ == "__main__":
    main()
