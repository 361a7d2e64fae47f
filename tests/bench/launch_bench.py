#!/usr/bin/env python3
"""Processes: /bin/true jobs through the whole path, each in a cgroup and with a log of its own, beside a bare posix_spawn + wait loop; and the time from a
submit until the process runs, beside one spawn, on an idle cluster and while many other tasks run."""
from harness import MARK, Beside, Bench, cluster, cpu_seconds, load

CONCURRENCY = 8


def main():
    bench = Bench("launch", __doc__)
    bench.parser.add_argument("--others", type=int, default=10_000, help="tasks that run meanwhile, on a played node: no process of theirs is here")
    options = bench.parse()
    count, submits, others = bench.of(400, 20), bench.of(100, 5), bench.of(options.others, 40)
    per_call = min(others, 1_000)
    others -= others % per_call
    keys = ("true", "array", "raw", "idle_p50", "idle_p99", "busy_p50", "busy_p99", "spawn", "cpu_spillwayd", "cpu_worker", "cpu_supervisor")
    values = {key: [] for key in keys}

    def latency(own, kind, round_number):
        told = load("latency", *own.user(), "--node", "real", "--mark", MARK, "--socket", own.path("run", "mark"), "--count", submits,
                    "--tag", f"{kind}-{round_number}")
        values[kind + "_p50"].append(told["above_spawn_ms"]["p50"])
        values[kind + "_p99"].append(told["above_spawn_ms"]["p99"])
        values["spawn"].append(told["spawn_ms"]["p50"])

    with cluster() as own:
        own.start_worker("real", resources=f"cpus={CONCURRENCY},memory=2GB,gpu=none")
        bench.facts["held by"] = own.node("real").get("isolation", "")
        load("run", *own.user(), "--node", "real", "--count", CONCURRENCY, "--tag", "first")  # cgroups are reused: the first are made
        programs = {"spillwayd": own.scheduler.pid, "worker": own.workers["real"].pid, "supervisor": own.supervisor_pid("real")}
        for number in bench.rounds(5):
            values["raw"].append(load("raw-spawns", "--count", count, "--concurrency", CONCURRENCY)["per_second"])
            before = {name: cpu_seconds(pid) for name, pid in programs.items()}
            values["true"].append(load("run", *own.user(), "--node", "real", "--count", count, "--tag", f"true-{number}")["per_second"])
            for name, pid in programs.items():
                values["cpu_" + name].append((cpu_seconds(pid) - before[name]) / count * 1e3)
            values["array"].append(load("run", *own.user(), "--node", "real", "--count", 1, "--array", count, "--tag", f"array-{number}")["per_second"])
            latency(own, "idle", number)
        states = load("states", *own.user())["states"]
        if set(states) != {"SUCCEEDED"}:
            raise SystemExit(f"bench: not every job succeeded: {states}")
        with Beside("hold", *own.worker(), "--name", "others", "--workers", 1, "--slots", others, "--count", others) as hold:
            load("submit", *own.user(), "--node", "others-0", "--count", others // per_call, "--per-call", per_call, "--tag", "others")
            hold.hear()
            for number in bench.rounds(5):
                latency(own, "busy", number)
            hold.end()
    bench.figure("true", f"/bin/true jobs, {CONCURRENCY} at a time (raw: posix_spawn + wait)", "jobs/s", values["true"], values["raw"], share=0.7)
    bench.figure("array", "the same as tasks of one array", "tasks/s", values["array"], values["raw"], share=0.7)
    for name in programs:
        bench.figure("cpu_" + name, f"  processor time a job, {name}", "ms", values["cpu_" + name])
    bench.figure("spawn", "raw: one spawn until it runs, p50", "ms", values["spawn"])
    bench.figure("idle_p50", "submit to running, above one spawn, p50", "ms", values["idle_p50"], most=5)
    bench.figure("idle_p99", "submit to running, above one spawn, p99", "ms", values["idle_p99"], most=20)
    bench.figure("busy_p50", f"the same while {others:,} others run, p50", "ms", values["busy_p50"], most=5)
    bench.figure("busy_p99", f"the same while {others:,} others run, p99", "ms", values["busy_p99"], most=20)
    bench.facts["others"] = f"{others:,} tasks that the scheduler holds for running on a played node: no process of theirs is on this machine"
    bench.finish()


if __name__ == "__main__":
    main()
