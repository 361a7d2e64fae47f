#!/usr/bin/env python3
"""The placement policies on recorded markets: prints their tables and writes build/bench/placement.json.

  bench_placement.py [--data FOLDER] [--bin FOLDER] [--out FILE] [--quick] [TABLE ...]

Every figure is a mean over whole runs of `spillway-sim`; the published figures stand beside it. The markets are not part of the project: the
folder of recorded traces is taken from --data (../shared/data beside the checkout by default). --quick leaves out the slow columns (omniscient)."""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

DEADLINES = [52, 56, 60, 64, 70, 80]
OVERHEADS = [0.02, 0.05, 0.1, 0.2, 0.4]
# The figures to be met: cost over all on demand.
BY_DEADLINE = {
    "greedy": [0.8797, 0.8266, 0.7898, 0.7643, 0.7247, 0.6546],
    "up": [0.8362, 0.7674, 0.7279, 0.6983, 0.6671, 0.6305],
    "up-without-hysteresis": [0.8395, 0.7597, 0.7276, 0.7021, 0.6732, 0.6345],
    "omniscient": [0.7155, 0.6784, 0.6534, 0.6323, 0.6035, 0.5625],
}
BY_OVERHEAD = {  # at 60 h
    "up": [0.6077, 0.6306, 0.6671, 0.7279, 0.8095],
    "up-without-hysteresis": [0.5986, 0.6158, 0.6510, 0.7276, 0.8266],
    "omniscient": [None, None, 0.6191, 0.6534, 0.7073],
}
LEADERBOARD = {"greedy": 119.03, "up": 101.68, "up-without-hysteresis": 97.24, "omniscient": 92.16}
LEADERBOARD_BEST = 95.35
LEADERBOARD_WINDOWS = [0, 107, 117, 126, 135, 145, 154, 163, 172, 182, 191, 20, 21, 219, 228, 238, 247, 256, 266, 275, 284, 294, 33, 42, 51, 61, 70, 8, 9, 99]
LEADERBOARD_WITHOUT = ("us-west-2a_k80_1.json", "us-west-2b_v100_8.json")
WINDOW_TICKS, TUNED_END = 554, 890
RATIOS = [1.05, 1.1, 1.2, 1.5, 2, 3]
BY_RATIO = {
    "omniscient": [840, 793, 721, 571, 426, 285],
    "skynomad": [882, 837, 766, 606, 444, 298],
}
BASELINES = ["fifo", "easy", "las", "laxity"]
PATIENCE = [0.02, 0.05, 0.1, 0.25, 0.5, 1]
# Pollux' workloads tell no durations: iterations until its target x seconds of a step with accumulation, from its simulator's measurements (to about 10 %).
POLLUX = {("bert", 6): 2680, ("bert", 8): 2010, ("bert", 12): 1580, ("bert", 16): 1270, ("cifar10", 6): 830, ("cifar10", 8): 710, ("cifar10", 12): 570,
          ("cifar10", 16): 490, ("deepspeech2", 6): 4000, ("deepspeech2", 8): 2970, ("deepspeech2", 12): 2550, ("imagenet", 24): 29500, ("imagenet", 32): 24700,
          ("imagenet", 48): 17500, ("ncf", 1): 230, ("yolov3", 4): 10200}
H100 = "us-central1-a,us-west1-a,europe-west1-c,europe-west3-c,asia-southeast1-b,asia-south2-b"


class Bench:
    def __init__(self, options, scratch):
        self.options, self.scratch, self.results = options, scratch, {}

    def path(self, *parts):
        return os.path.join(self.options.data, *parts)

    def run(self, policy, *arguments, game="deadline"):
        command = [os.path.join(self.options.bin, "spillway-sim"), game, "--policy", policy, "-o", "json", *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"bench: {' '.join(command)}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def runs(self, jobs):
        """[(policy, arguments)] on all cores, in order."""
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            return list(pool.map(lambda job: self.run(job[0], *job[1]), jobs))

    def one_zone(self, deadline, overhead, *more):
        return ["--traces", self.path("cant-be-late"), "--work", "48h", "--deadline", f"{deadline}h", "--overhead", f"{round(overhead * 3600)}s",
                "--od-price", "3.06", "--spot-price", "0.9731", *more]

    def policies(self, *names):
        return [name for name in names if not (self.options.quick and name == "omniscient")]


def mark(value, expected, tolerance):
    if expected is None:
        return ""
    return "=" if abs(value - expected) <= tolerance else f"!{expected}"


def row(name, cells):
    print(f"  {name:24}" + "".join(f"{cell:>15}" for cell in cells))


def late(reports):
    return sum(report["late_runs"] for report in reports)


def by_cell(bench, title, key, cells, expected, names):
    """cells: [(heading, arguments)]; one row a policy."""
    print(f"\n{title}")
    row("", [heading for heading, _ in cells])
    table = {}
    for name in names:
        reports = bench.runs([(name, arguments) for _, arguments in cells])
        values = [report["mean_cost_over_on_demand"] for report in reports]
        marks = [mark(value, want, 0.00005) for value, want in zip(values, expected.get(name, [None] * len(cells)))]
        row(name, [f"{value:.4f}{sign}" for value, sign in zip(values, marks)])
        table[name] = {"cost_over_on_demand": values, "published": expected.get(name), "late_runs": late(reports)}
    best = [min(a, b) for a, b in zip(table["up"]["cost_over_on_demand"], table["up-without-hysteresis"]["cost_over_on_demand"])]
    ours = table["spillway"]["cost_over_on_demand"]
    row("spillway over better UP", [f"{mine / other - 1:+.2%}" for mine, other in zip(ours, best)])
    print(f"  late runs: {sum(entry['late_runs'] for entry in table.values())}")
    bench.results[key] = {"cells": [heading for heading, _ in cells], "policies": table}


def single_pool(bench):
    names = bench.policies("greedy", "up", "up-without-hysteresis", "spillway", "omniscient")
    by_cell(bench, "One zone, cost over all on demand, 8 traces x 300 windows, overhead 0.2 h, by deadline ('=' as published)", "by_deadline",
            [(f"{deadline} h", bench.one_zone(deadline, 0.2)) for deadline in DEADLINES], BY_DEADLINE, names)
    by_cell(bench, "The same at 60 h, by overhead", "by_overhead", [(f"{overhead} h", bench.one_zone(60, overhead)) for overhead in OVERHEADS], BY_OVERHEAD, names)
    split = ("up", "up-without-hysteresis", "spillway")
    for title, key, limits in ((f"Only windows that end by tick {TUNED_END}: what our policy was tuned on", "tuned", ("--until", TUNED_END - WINDOW_TICKS)),
                               (f"Only windows that start at tick {TUNED_END + 1} or later: not tuned on", "untuned", ("--from", TUNED_END + 1))):
        for overhead in OVERHEADS:
            by_cell(bench, f"{title}; overhead {overhead} h", f"{key}_{overhead}",
                    [(f"{deadline} h", bench.one_zone(deadline, overhead, *limits)) for deadline in DEADLINES], {}, split)


def leaderboard(bench):
    folder = bench.path("cant-be-late")
    with open(os.path.join(folder, "window_starts.json"), encoding="utf-8") as source:
        starts = json.load(source)
    traces = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.startswith("us-") and name not in LEADERBOARD_WITHOUT]
    print(f"\nLeaderboard: {len(traces)} environments x 30 windows x deadlines 52 and 70 h x overheads 0.02, 0.05, 0.1 h; mean $ (published best online {LEADERBOARD_BEST})")
    row("", ["mean $", "tuned on", "not tuned on", "late"])
    sets = {"all": lambda start: True, "tuned": lambda start: start + WINDOW_TICKS <= TUNED_END, "untuned": lambda start: start > TUNED_END}
    table = {}
    for name in bench.policies("greedy", "up", "up-without-hysteresis", "spillway", "omniscient"):
        entry = {"late_runs": 0, "published": LEADERBOARD.get(name)}
        for key, wanted in sets.items():
            windows = os.path.join(bench.scratch, f"{key}.json")
            with open(windows, "w", encoding="utf-8") as out:
                json.dump([starts[i] for i in LEADERBOARD_WINDOWS if wanted(starts[i])], out)
            reports = bench.runs([(name, ["--traces", *traces, *bench.one_zone(deadline, overhead, "--windows", windows)[2:]])
                                  for deadline in (52, 70) for overhead in (0.02, 0.05, 0.1)])
            entry[key] = sum(report["mean_cost"] for report in reports) / len(reports)
            entry["late_runs"] += late(reports)
        row(name, [f"{entry['all']:.2f}{mark(entry['all'], entry['published'], 0.005)}", f"{entry['tuned']:.2f}", f"{entry['untuned']:.2f}", entry["late_runs"]])
        table[name] = entry
    bench.results["leaderboard"] = table


def zones(bench, title, key, common, deadline_s, ratios, names, published):
    print(f"\n{title}")
    row("", [f"ratio {ratio}" for ratio in ratios])
    table = {}
    for name in names:
        reports = bench.runs([(name, [*common, "--deadline", f"{deadline_s}s", "--work", f"{round(deadline_s / ratio)}s", "--each"]) for ratio in ratios])
        values = [report["mean_cost"] for report in reports]
        expected = published.get(name, [None] * len(ratios))
        row(name, [f"{value:.1f}{mark(value, want, 0.005 * (want or 0))}" for value, want in zip(values, expected)])
        table[name] = {"mean_cost": values, "published": published.get(name), "late_runs": late(reports), "windows": reports[0]["windows"],
                       "each": [[run["cost"] for run in report["runs"]] for report in reports]}
    if "omniscient" in table:
        row("gap closed to omniscient", [f"{(sky - ours) / (sky - best):.0%}" if sky - best > 0.005 else "-" for sky, ours, best in
                                         zip(table["skynomad"]["mean_cost"], table["spillway"]["mean_cost"], table["omniscient"]["mean_cost"])])
    print(f"  late runs: " + ", ".join(f"{name} {entry['late_runs']}" for name, entry in table.items()))
    bench.results[key] = {"ratios": ratios, "policies": table}


def several_zones(bench):
    names = bench.policies("up", "skynomad", "spillway", "omniscient")
    h100 = ["--traces", bench.path("skynomad/h100_16"), "--zones", H100, "--checkpoint-gb", "50", "--overhead", "12m"]
    zones(bench, "Six H100 zones, deadline 51.83 h, work = deadline / ratio, the six published windows, mean $ ('=' within 0.5 % of the published)", "h100_six",
          h100, 311 * 600, RATIOS, names, BY_RATIO)
    zones(bench, "The same zones, a window every 6 h", "h100_every_6h", [*h100, "--every", "6h"], 311 * 600, RATIOS, names, {})
    v100 = ["--traces", bench.path("skynomad/v100_4node_600s"), "--zones", "us-east-1f,us-east-2a,us-west-2c", "--overhead", "12m", "--every", "6h"]
    zones(bench, "Three V100 zones, deadline 51.83 h, a window every 6 h", "v100_every_6h", v100, 311 * 600, RATIOS, names, {})


def gangs(bench):
    counts = ["--traces", bench.path("skynomad/h100_16_counts.csv"), "--prices", bench.path("skynomad/prices"), "--deadline", f"{311 * 600}s", "--overhead", "12m",
              "--every", "6h", "--last-tick", "full"]
    print("\nGangs from the counts, 13 zones, ratio 1.2, a window every 6 h, mean $ (a gang as one instance)")
    row("", ["spillway", "UP, best zone", "that zone"])
    table = {}
    with open(bench.path("skynomad/h100_16_counts.csv"), encoding="utf-8") as source:
        names = source.readline().strip().split(",")[1:]
    for gang in (4, 8):
        arguments = [*counts, "--gang", gang, "--work", f"{round(311 * 600 / 1.2)}s"]
        ours = bench.run("spillway", *arguments, "--zones", ",".join(names))
        single = bench.runs([("up", [*arguments, "--zones", name]) for name in names])
        best = min(range(len(names)), key=lambda i: single[i]["mean_cost"])
        row(f"gang of {gang}", [f"{ours['mean_cost']:.1f}", f"{single[best]['mean_cost']:.1f}", names[best]])
        table[gang] = {"spillway": ours["mean_cost"], "late_runs": ours["late_runs"], "up_best_zone": single[best]["mean_cost"], "zone": names[best]}
    bench.results["gangs"] = table


# What is reported: recorded jobs on the V100 zones of SkyNomad, from four moments of their traces, each with a seed of its own for the deadlines.
def reported(bench):
    physical = [f"gavel/physical/{name}.trace" for name in ("artifact_evaluation", "max_min_fairness", "medium_test", "minimize_makespan", "small_test")]
    zones = [(zone, f"skynomad/v100_4node_600s/{zone}_v100_1.json", None) for zone in ("us-east-1f", "us-east-2a", "us-west-2c")]
    groups = {"gavel physical": (physical, 8), "msr 2869ce": (["gavel/msr/2869ce.trace"], 8), "pollux": ([f"pollux/workloads/workload-{i}.csv" for i in range(1, 9)], 4)}
    for name, (traces, gpus) in groups.items():
        yield name, [(trace, {"trace": bench.path(trace)}, gpus, zones, seed, 66 * seed) for trace in traces for seed in range(4)]


# What our policy's constants were tuned on: generated jobs, and Tiresias' sixty, on the zones of "Can't Be Late".
def tuned_on(bench):
    zones = [(zone, f"cant-be-late/{zone}_v100_1.json", 0.9731) for zone in ("us-west-2a", "us-west-2b")]
    short = {"generate": {"jobs": 150, "mean_gap": "6m", "gpus": [1, 1, 1, 2, 4, 8], "shortest": "2m", "longest": "8h"}}
    long = {"generate": {"jobs": 150, "mean_gap": "20m", "gpus": [1, 1, 2, 8, 8, 16], "shortest": "10m", "longest": "40h"}}
    bursts = {"generate": {"jobs": 100, "mean_gap": "30s", "gpus": [1, 2, 4], "shortest": "30m", "longest": "6h"}}
    gangs_of = {"generate": {"jobs": 150, "mean_gap": "3m", "gpus": [1, 1, 1, 6, 8, 12, 16], "shortest": "4m", "longest": "3h"}}
    for name, jobs, gpus in (("short jobs", short, 8), ("long jobs", long, 8), ("all at once", bursts, 8), ("gangs", gangs_of, 4),
                             ("tiresias", {"trace": bench.path("tiresias/60_job.csv")}, 8)):
        yield name, [(name, jobs, gpus, zones, seed, 50 * seed) for seed in range(4)]


def write_case(bench, number, jobs, gpus, zones, offset_hours):
    names = [os.path.join(bench.scratch, f"{kind}-{number}.yaml") for kind in ("jobs", "cluster")]
    text = {**jobs, "tenants": 4, "deadlines": [1.5, 3]}
    if "pollux" in str(jobs.get("trace")):
        text["durations"] = [{"application": name, "gpus": count, "duration": f"{seconds}s"} for (name, count), seconds in POLLUX.items()]
    pools = []
    for zone, trace, price in zones:
        pool = {"zone": zone, "trace": bench.path(trace), "machines": 64, "gpus": [1, 2, 4, 8], "trace_offset": f"{offset_hours}h"}
        pools.append({**pool, "price_per_gpu_hour": str(price)} if price else pool)
    cluster = {"reserved": {"peak_percent": 50, "gpus": gpus}, "spot": pools, "on_demand": {"gpus": [1, 2, 4, 8], "price_per_gpu_hour": "3.06"},
               "boot": "8m", "restore": "2m", "checkpoint_every": "10m"}
    for path, value in zip(names, (text, cluster)):
        with open(path, "w", encoding="utf-8") as out:
            json.dump(value, out)  # JSON is YAML
    return names


def cluster_group(bench, title, cases, patience):
    columns = [(name, []) for name in BASELINES] + [("spillway", [])] + [(f"spillway, patience {p:g}", ["--patience", p]) for p in patience]
    files = [write_case(bench, number, jobs, gpus, zones, offset) for number, (_, jobs, gpus, zones, _, offset) in enumerate(cases)]
    work = [(name.split(",")[0], ["--jobs", jobs, "--cluster", cluster, "--seed", case[4], "--each", *more]) for name, more in columns
            for (jobs, cluster), case in zip(files, cases)]
    with concurrent.futures.ThreadPoolExecutor(bench.options.jobs) as pool:
        runs = list(pool.map(lambda job: bench.run(job[0], *job[1], game="cluster"), work))
    by_policy = {name: runs[i * len(cases):(i + 1) * len(cases)] for i, (name, _) in enumerate(columns)}
    met = [{job["job"] for name in BASELINES for job in by_policy[name][i]["each"] if not job["missed"]} for i in range(len(cases))]
    print(f"\n{title}: {len(cases)} runs of {sum(run['jobs'] for run in by_policy['easy'])} jobs, half the peak reserved; sums of $, misses and preemptions, means of the rest")
    print(f"  {'':24}" + "".join(f"{heading:>13}" for heading in ("burst $", "of easy's", "completion h", "p99", "p99 wait h", "missed", "needlessly", "preempted", "moves", "Jain", "least")))
    mean = lambda values: sum(values) / len(values)
    table = {}
    for name, _ in columns:
        of = by_policy[name]
        entry = {"cost": sum(run["cost"]["burst"] for run in of), "on_demand": sum(run["cost"]["on_demand"] for run in of),
                 "completion_hours": mean([run["completion_hours"]["mean"] for run in of]), "completion_p99": mean([run["completion_hours"]["p99"] for run in of]),
                 "wait_p99": mean([run["wait_hours"]["p99"] for run in of]), "missed": sum(run["deadlines"]["missed"] for run in of),
                 "missed_that_a_baseline_met": sum(job["missed"] and job["job"] in met[i] for i, run in enumerate(of) for job in run["each"]),
                 "preemptions": sum(run["preemptions"] for run in of), "moves": sum(run["moves"] for run in of), "fairness": mean([run["fairness"] for run in of]),
                 "fairness_least": min(run["fairness"] for run in of), "utilization": mean([run["reserved"]["utilization"] for run in of])}
        table[name] = entry
        print(f"  {name:24}{entry['cost']:13.2f}{entry['cost'] / max(table.get('easy', entry)['cost'], 1e-9):13.3f}{entry['completion_hours']:13.3f}{entry['completion_p99']:13.3f}"
              f"{entry['wait_p99']:13.3f}{entry['missed']:13}{entry['missed_that_a_baseline_met']:13}{entry['preemptions']:13}{entry['moves']:13}{entry['fairness']:13.4f}"
              f"{entry['fairness_least']:13.4f}")
    return table


def cluster(bench):
    patience = [] if bench.options.quick else PATIENCE
    bench.results["cluster"] = {name: cluster_group(bench, f"Cluster, {name}", cases, patience) for name, cases in reported(bench)}


def cluster_tuning(bench):
    bench.results["cluster_tuning"] = {name: cluster_group(bench, f"Cluster, what our policy was tuned on: {name}", cases, [0.1, 0.5]) for name, cases in tuned_on(bench)}


TABLES = {"single_pool": single_pool, "leaderboard": leaderboard, "several_zones": several_zones, "gangs": gangs, "cluster": cluster, "cluster_tuning": cluster_tuning}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("SPILLWAY_DATA", os.path.join(ROOT, "../shared/data")))
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"))
    parser.add_argument("--out", default=os.path.join(ROOT, "build/bench/placement.json"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="without the omniscient column")
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"only these: {', '.join(TABLES)}")
    options = parser.parse_args()
    for name in options.tables:
        if name not in TABLES:
            parser.error(f"there is no table '{name}'; there are {', '.join(TABLES)}")
    if not os.path.isdir(options.data):
        print(f"bench placement: there are no recorded traces at {options.data}; name their folder with --data: nothing was measured")
        return
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(options, scratch)
        for name, table in TABLES.items():
            if not options.tables or name in options.tables:
                table(bench)
    os.makedirs(os.path.dirname(options.out), exist_ok=True)
    with open(options.out, "w", encoding="utf-8") as out:
        json.dump(bench.results, out, indent=2)
        out.write("\n")
    print(f"\nwritten: {options.out}")


if __name__ == "__main__":
    main()
