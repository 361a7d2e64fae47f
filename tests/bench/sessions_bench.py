#!/usr/bin/env python3
"""2,000 worker sessions, each a connection of its own that renews every 10 s: cores that spillwayd uses, beside a server that only acknowledges."""
import time

from harness import Beside, Bench, cluster, cpu_seconds


def cores(pid, seconds):
    before, began = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began)


def main():
    bench = Bench("sessions", __doc__)
    bench.parser.add_argument("--sessions", type=int, default=2_000)
    options = bench.parse()
    sessions, seconds, renew_ms = bench.of(options.sessions, 20), bench.of(30, 2), bench.of(10_000, 500)
    values = {key: [] for key in ("bare", "cores", "p50", "p99", "rate")}

    def renew(server, pid):
        with Beside("renew", *server, "--workers", sessions, "--renew-ms", renew_ms, "--seconds", seconds + 1) as workers:
            used = cores(pid, seconds)
            return used, workers.end()
    with cluster() as own, Beside("serve-bare") as bare:
        idle = cores(own.scheduler.pid, bench.of(10, 1))
        for _ in bench.rounds(3, 1):
            values["bare"].append(renew(["--server", f"127.0.0.1:{bare.said['port']}"], bare.process.pid)[0])
            used, told = renew(own.worker(), own.scheduler.pid)
            values["cores"].append(used)
            values["p50"].append(told["renewal_ms"]["p50"])
            values["p99"].append(told["renewal_ms"]["p99"])
            values["rate"].append(told["per_second"])
        nodes = sum(node["state"] == "READY" for node in own.nodes())
        if nodes != sessions:
            raise SystemExit(f"bench: {sessions} workers renewed, and {nodes} nodes are ready")
    bench.figure("cores", f"{sessions:,} sessions that renew every {renew_ms / 1000:g} s (raw: gRPC alone)", "cores", values["cores"], values["bare"], most=0.5)
    bench.figure("renewals", "  renewals acknowledged", "/s", values["rate"])
    bench.figure("renewal_p50", "  a renewal until its acknowledgement, p50", "ms", values["p50"])
    bench.figure("renewal_p99", "  a renewal until its acknowledgement, p99", "ms", values["p99"])
    bench.facts["without sessions"] = f"{idle:.3f} cores"
    bench.finish()


if __name__ == "__main__":
    main()
