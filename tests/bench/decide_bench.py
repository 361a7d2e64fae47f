#!/usr/bin/env python3
"""Decide alone, on made-up clusters: a whole cycle over 10,000 nodes and 100,000 queued jobs of 200 shapes, full, with every tenth node free, and after one event;
the same with half as many nodes, with half as long a queue and with ten times as long a queue, and with one array in its place. No program, no store: the
processor time of one call. Beside it, in every round, the raw limit: one look at every node and at every queued task, in the order in which they lie there."""
import json
import os
import subprocess
import sys

from harness import TOOLS, Bench

PROGRAM = os.path.join(TOOLS, "bench-decide")
# What it is called there, what it is, and the aim of its p99 in ms.
SITUATIONS = [("FullCluster", "a cycle, nothing can start", 50), ("TenthFree", "a cycle, every tenth node is free", 50), ("OneFree", "after one event", 1),
              ("OneFreeForArray", "after one event, one array waits", 1), ("NextTime", "when to decide again", 1)]


def measure(nodes, queued, calls, situations):
    """By situation: its counters."""
    done = subprocess.run([PROGRAM, str(nodes), str(queued), str(calls), f"--benchmark_filter=^({'|'.join(situations)})/", "--benchmark_format=json"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("bench: bench-decide: " + done.stderr.strip())
    return {run["name"].split("/")[0]: run for run in json.loads(done.stdout)["benchmarks"]}


def main():
    bench = Bench("decide", __doc__)
    bench.parse()
    nodes, queued, calls = bench.of(10_000, 100), bench.of(100_000, 1_000), bench.of(100, 5)
    sizes = {"": (nodes, queued), "half_the_nodes": (nodes // 2, queued), "half_the_queue": (nodes, queued // 2), "ten_queues": (nodes, 10 * queued)}
    found = {size: [] for size in sizes}
    for number in bench.rounds(3, 1):
        for size, (some_nodes, some_queued) in sizes.items():
            if size == "ten_queues" and number > 0:
                continue  # takes long to make up
            # With a tenth free and a longer queue as many are placed as with a shorter one.
            names = [name for name, _, _ in SITUATIONS if size != "ten_queues" or name != "TenthFree"]
            found[size].append(measure(some_nodes, some_queued, calls, [*names, "Look"]))
    for name, what, aim in SITUATIONS:
        for size, (some_nodes, some_queued) in sizes.items():
            runs = [run for run in found[size] if name in run]
            if not runs:
                continue
            key = name + ("_" + size if size else "")
            at = f"{some_nodes:,} nodes, {some_queued:,} queued"
            bench.figure(key, f"{what}: {at}, p99", "ms", [run[name]["p99_ms"] for run in runs], raw=[run["Look"]["p50_ms"] for run in runs], most=None if size else aim)
            bench.figure(key + "_p50", "p50", "ms", [run[name]["p50_ms"] for run in runs])
            if "placed" in runs[0][name]:
                bench.facts.setdefault("placed", {})[key] = runs[0][name]["placed"]
    bench.finish()


if __name__ == "__main__":
    main()
