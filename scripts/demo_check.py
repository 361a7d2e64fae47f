#!/usr/bin/env python3
"""Recomputes what a demo's report says from the home it kept: hashes from the checkpoints on disk, attempts from a scheduler started on the kept database.

    scripts/demo_check.py [--bin build/bin] REPORT.json

Exit code 0 when everything agrees.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time


def number(value):
    return int(value or 0)


def recompute_hash(bin_folder, home, job_id):
    """The hash of the newest checkpoint of the job's last attempt, from the bytes on disk."""
    root = os.path.join(home, "store", "checkpoints")
    (cluster,) = os.listdir(root)
    steps = []
    for folder, names, _ in os.walk(os.path.join(root, cluster, str(job_id))):
        steps += [os.path.join(folder, name) for name in names if re.fullmatch(r"step-\d+", name)]
    newest = max(steps, key=lambda path: (int(os.path.basename(path)[5:]), path))
    done = subprocess.run([os.path.join(bin_folder, "spillway-train"), "--hash", newest], capture_output=True, text=True, check=True)
    return re.search(r"[0-9a-f]{64}", done.stdout).group(0)


def stored_jobs(bin_folder, home, count):
    """What a scheduler says that is started on a copy of the kept database, with nothing else around it."""
    with tempfile.TemporaryDirectory(prefix="spillway-check-") as copy:
        shutil.copytree(os.path.join(home, "data"), os.path.join(copy, "data"))
        with open(os.path.join(copy, "config.yaml"), "w", encoding="utf-8") as out:
            out.write('listen: {user: "127.0.0.1:0", worker: "127.0.0.1:0", http: "127.0.0.1:0"}\n')
        env = {"PATH": os.environ.get("PATH", ""), "SPILLWAY_HOME": copy}
        verify = subprocess.run([os.path.join(bin_folder, "spillwayd"), "--home", copy, "--verify"], capture_output=True, text=True, env=env)
        if verify.returncode != 0:
            raise SystemExit(f"the events do not replay to the stored state: {verify.stderr}")
        scheduler = subprocess.Popen([os.path.join(bin_folder, "spillwayd"), "--home", copy], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        try:
            end = time.monotonic() + 20
            while not os.path.exists(os.path.join(copy, "run", "user.port")):
                if time.monotonic() > end or scheduler.poll() is not None:
                    raise SystemExit("the scheduler does not start on the kept database")
                time.sleep(0.05)
            cli = os.path.join(bin_folder, "spillway")
            return [json.loads(subprocess.run([cli, "describe", str(i), "-o", "json"], capture_output=True, text=True, check=True, env=env).stdout)
                    for i in range(1, count + 1)]
        finally:
            scheduler.terminate()
            scheduler.wait(timeout=20)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", default="build/bin")
    parser.add_argument("report")
    options = parser.parse_args()
    with open(options.report, encoding="utf-8") as source:
        report = json.load(source)
    problems = [] if report["ok"] else ["the report itself says that something does not hold"]
    lost = []
    for said, stored in zip(report["jobs"], stored_jobs(options.bin, report["home"], len(report["jobs"]))):
        attempts = [{"node": a["node_name"], "market": a["market"].lower(), "from_step": number(a["from_step"]), "to_step": number(a["to_step"]),
                     "end_cause": a["end_cause"]} for a in stored["tasks"][0]["attempts"]]
        if attempts != said["attempts"]:
            problems.append(f"{said['name']}: the attempts differ: {attempts} and {said['attempts']}")
        if recompute_hash(options.bin, report["home"], said["id"]) != said["weights_sha256"]:
            problems.append(f"{said['name']}: the hash recomputed from disk differs")
        lost.append(said["work_lost_steps"])
    ledger = os.path.join(report["home"], "cloud", "ledger.jsonl")
    if not os.path.getsize(ledger):
        problems.append("the cloud's ledger is empty")
    for problem in problems:
        print("demo_check:", problem, file=sys.stderr)
    print(f"seed {report['seed']}: {'agrees' if not problems else 'DOES NOT AGREE'}; reclaims {report['reclaims']}, work lost {lost}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
