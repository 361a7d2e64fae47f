#!/usr/bin/env python3
"""The main job, for people to watch: two reserved nodes, a cloud in a box, eight trainings on real text.

Two trainings fill the reserved nodes, the others burst to spot and on-demand. The cloud takes spot nodes away, at least one without notice in the
middle of a checkpoint interval; the scheduler is killed with -9 once and started again. At the end every training's weights are compared with those of
an uninterrupted run, and the bill with all-on-demand. Exit code 0 only if every job succeeded, every hash is equal, no process is left and nothing bills.

Owns the story and the report; everything it shows it asks of the real programs. Never reads the scheduler's database.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

JOBS = 8
STEPS = 240
CHECKPOINT_EVERY = 20
NON_INTERRUPTIBLE = "demo-8"
SCALE = 60                      # cloud time passes this many times faster: a boot of 60 s takes one
RESERVED_PRICE = 1.20           # an hour of one node, amortised
TIMEOUT_S = 600

OFFERS = """
  - {name: spot-a, market: spot, instance_type: g1, zone: zone-a, region: demo, gpus: {model: simulated, count: 1, memory: 16GB}, cpus: 1, memory: 2GB,
     price_per_hour: "0.0150", billing: {increment: 1s, minimum: 60s}, capacity: 3, boot: 60s, notice: 120s, reclaim: {after: [%s]}}
  - {name: spot-b, market: spot, instance_type: g1, zone: zone-b, region: demo, gpus: {model: simulated, count: 1, memory: 16GB}, cpus: 1, memory: 2GB,
     price_per_hour: "0.0160", billing: {increment: 1s, minimum: 60s}, capacity: 3, boot: 60s, notice: 30s, reclaim: {after: [%s]}}
  - {name: on-demand, market: on_demand, instance_type: g1, zone: zone-a, region: demo, gpus: {model: simulated, count: 1, memory: 16GB}, cpus: 1,
     memory: 2GB, price_per_hour: "0.0500", billing: {increment: 1s, minimum: 60s}, capacity: 8, boot: 60s}
"""
ON_DEMAND_PRICE_MICROS_PER_CLOUD_HOUR = 50_000
MINIMUM_CLOUD_MS, BOOT_CLOUD_MS = 60_000, 60_000


class DemoError(Exception):
    pass


def say(text):
    print(text, flush=True)


class Stage:
    """The programs of one demo: starting, asking, stopping. Every process is known by its Popen or pid file."""

    def __init__(self, options):
        self.bin = os.path.abspath(options.bin)
        self.home = os.path.abspath(options.home) if options.home else tempfile.mkdtemp(prefix="spillway-demo-")
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        self.scheduler = None
        self.playground = None
        self.workers = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
        self.env["SPILLWAY_HOME"] = self.home

    def path(self, *parts):
        return os.path.join(self.home, *parts)

    def program(self, name):
        return os.path.join(self.bin, name)

    def start(self, name, argv):
        log = open(self.path("run", name + ".log"), "ab")
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, start_new_session=True)

    def cli(self, *arguments, check=True):
        done = subprocess.run([self.program("spillway"), *arguments], env=self.env, capture_output=True, text=True, timeout=60)
        if check and done.returncode != 0:
            raise DemoError(f"spillway {' '.join(arguments)}: exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
        return done

    def ask(self, *arguments):
        return json.loads(self.cli(*arguments, "-o", "json").stdout)

    def cloud(self, method, path, body=None):
        request = urllib.request.Request(self.cloud_url + path, method=method, data=json.dumps(body).encode() if body is not None else None,
                                         headers={"Authorization": "Bearer " + self.cloud_token, "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else {}

    def wait_for(self, what, condition, seconds=30.0):
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                raise DemoError(f"waited {seconds:.0f} s for {what}; the logs are in {self.path('run')}")
            time.sleep(0.05)

    # --- programs ---

    def start_playground(self, seed, reclaims):
        os.makedirs(self.path("run"), exist_ok=True)
        config = self.path("playground.yaml")
        with open(config, "w") as out:
            out.write(f"seed: {seed}\nscale: {SCALE}\noffers:\n" + OFFERS % reclaims)
        cloud_home = self.path("cloud")
        os.makedirs(cloud_home, mode=0o700, exist_ok=True)
        self.playground = self.start("playground", [self.program("spillway-playground"), "--config", config, "--home", cloud_home, "--port", "0",
                                                    "--terminate-on-exit"])
        port = self.wait_for("the playground", lambda: read_text(self.path("cloud", "playground.port")))
        self.cloud_token = self.wait_for("the playground's token", lambda: read_text(self.path("cloud", "playground.token")))
        self.cloud_url = f"http://127.0.0.1:{port}"
        self.wait_for("the playground's API", lambda: answers(lambda: self.cloud("GET", "/v1/offers")))

    def write_config(self):
        with open(self.path("config.yaml"), "w") as out:
            out.write(f"""# Written by the demo.
listen: {{user: "127.0.0.1:0", worker: "127.0.0.1:0", http: "127.0.0.1:0"}}
lease: {{renew_every: 1s}}
providers:
  - {{name: static, kind: static}}
  - {{name: playground, kind: playground, url: "{self.cloud_url}", token_file: "{self.path('cloud', 'playground.token')}", idle_release: 2s, boot_timeout: 30s}}
reservations:
  - {{name: demo, nodes: [reserved-1, reserved-2], price_per_hour: "{RESERVED_PRICE:.2f}"}}
""")

    def start_scheduler(self):
        for name in ("user", "worker"):
            if os.path.exists(self.path("run", name + ".port")):
                os.remove(self.path("run", name + ".port"))
        self.scheduler = self.start("spillwayd", [self.program("spillwayd"), "--home", self.home])
        self.wait_for("the scheduler", lambda: self.cli("nodes", check=False).returncode == 0)

    def kill_scheduler(self):
        self.scheduler.send_signal(signal.SIGKILL)
        self.scheduler.wait()

    def pin_ports(self):
        """Later starts use the ports of the first: workers find the scheduler again where it was."""
        user, worker = read_text(self.path("run", "user.port")), read_text(self.path("run", "worker.port"))
        config = open(self.path("config.yaml")).read()
        config = config.replace('user: "127.0.0.1:0"', f'user: "127.0.0.1:{user}"').replace('worker: "127.0.0.1:0"', f'worker: "127.0.0.1:{worker}"')
        with open(self.path("config.yaml"), "w") as out:
            out.write(config)

    def start_reserved(self):
        port = read_text(self.path("run", "worker.port"))
        for i in (1, 2):
            home = self.path("nodes", f"reserved-{i}")
            os.makedirs(home, mode=0o700, exist_ok=True)
            self.workers.append(self.start(f"reserved-{i}", [
                self.program("spillway-worker"), "--home", home, "--server", f"127.0.0.1:{port}", "--token-file", self.path("tokens", "worker"),
                "--node-name", f"reserved-{i}", "--provider", "static", "--market", "reserved", "--zone", "rack-1", "--region", "home",
                "--resources", "cpus=1,memory=2GB,gpu=simulated:1:16GB:simulated", "--stop-jobs-on-exit"]))
        self.wait_for("two reserved nodes", lambda: sum(n.get("state") == "READY" for n in self.ask("nodes").get("nodes", [])) == 2)

    def stop(self):
        """The scheduler last: a worker that stops its jobs stays until the scheduler has taken down how they ended."""
        for group in [[*self.workers, self.playground], [self.scheduler]]:
            running = [process for process in group if process and process.poll() is None]
            for process in running:
                process.terminate()
            for process in running:
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def read_text(path):
    try:
        with open(path) as source:
            return source.read().strip()
    except OSError:
        return ""


def answers(call):
    try:
        call()
        return True
    except (OSError, urllib.error.URLError, ValueError):
        return False


def number(value):
    """Protobuf's JSON writes 64-bit integers as text."""
    return int(value or 0)


# --- the story ---

def job_file(stage, i, data):
    name = f"demo-{i}"
    command = [stage.program("spillway-train"), "--data", data, "--steps", str(STEPS), "--checkpoint-every", str(CHECKPOINT_EVERY), "--seed", str(100 + i),
               "--name", name]
    placement = "placement: {interruptible: false}\n" if name == NON_INTERRUPTIBLE else ""
    path = stage.path("jobs", name + ".yaml")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write(f"name: {name}\ncommand: {json.dumps(command)}\nresources: {{gpu: {{count: 1}}, cpus: 1}}\n{placement}checkpoint: {{grace: 10s}}\n")
    return path, command


def tasks_of(stage):
    jobs = {}
    for job in stage.ask("queue", "--all").get("jobs", []):
        jobs[number(job["job_id"])] = job
    return jobs


def task_of(job):
    tasks = job.get("tasks", [])
    return tasks[0] if tasks else {}


def living_attempt(task):
    attempts = task.get("attempts", [])
    return attempts[-1] if attempts and attempts[-1].get("state") in ("OFFERED", "STARTING", "RUNNING", "STOPPING") else None


def step_of(job, seen={}):
    """The newest step of the newest attempt. A scheduler that just started has heard no progress yet: what was seen before still holds."""
    task = task_of(job)
    attempts = task.get("attempts", [])
    if job.get("state") == "SUCCEEDED":
        return STEPS
    if not attempts:
        return 0
    attempt = (job["job_id"], len(attempts))
    step = max(number(task.get("progress", {}).get("step")), number(attempts[-1].get("from_step")), seen.get(attempt, 0))
    seen[attempt] = step
    return step


class Table:
    """Progress bars, redrawn in place on a terminal, one line now and then elsewhere."""

    def __init__(self):
        self.terminal = sys.stdout.isatty()
        self.lines = 0
        self.last = 0.0

    def show(self, jobs, note):
        rows = []
        for job_id in sorted(jobs):
            job = jobs[job_id]
            attempt = living_attempt(task_of(job)) or (task_of(job).get("attempts") or [{}])[-1]
            step = step_of(job)
            bar = "#" * (24 * step // STEPS)
            where = f"{attempt.get('node_name', '')} ({attempt.get('market', '').lower()})" if attempt else ""
            tries = number(task_of(job).get("attempts_total"))
            rows.append(f"  {job['name']:8} {job['state']:10} [{bar:24}] {step:4}/{STEPS}  attempt {tries}  {where:38.38}")
        if self.terminal:
            if self.lines:
                sys.stdout.write(f"\033[{self.lines}A")
            for row in [*rows, f"  {note}"]:
                sys.stdout.write("\033[2K" + row + "\n")
            sys.stdout.flush()
            self.lines = len(rows) + 1
        elif time.monotonic() - self.last > 5:
            self.last = time.monotonic()
            say(f"  {note}: " + "  ".join(f"{jobs[j]['name'][5:]}:{step_of(jobs[j])}" for j in sorted(jobs)))


def real_seconds(cloud_ms):
    """What a time of the cloud is here."""
    return f"{cloud_ms / SCALE / 1000:.1f} s"


def scaled_notices():
    """A notice shrinks with everything else of the cloud, the time to save does not."""
    return (f"  cloud time passes {SCALE} times faster: a notice of 120 s is {real_seconds(120_000)} here, one of 30 s {real_seconds(30_000)}. That may be too short "
            "to save: then the work since the last checkpoint is done again")


class Notices:
    """Which machines the cloud has begun to take; each is told once."""

    def __init__(self):
        self.told = set()

    def news(self, instances):
        lines = []
        for instance in instances:
            name, gone = instance.get("node_name") or instance.get("name", ""), instance.get("end_reason") or ""
            if name in self.told:
                continue
            if instance.get("announced_after_ms") is not None:
                self.told.add(name)
                left = instance.get("notice_left_ms")
                if left is None:
                    lines.append(f"  !! the cloud gave notice to {name} and has taken it: what ran there goes on elsewhere")
                else:
                    lines.append(f"  !! the cloud gives notice to {name} ({number(left) / 1000:.1f} s left): what runs there saves, where there is time, and goes on elsewhere")
            elif gone == "reclaimed_without_notice":
                self.told.add(name)
                lines.append(f"  !! the cloud takes {name} without notice")
        return lines


def run_story(stage, rng, kill_at):
    """Watches until every job ended. Returns (scheduler restarts, reclaims the demo itself ordered without notice)."""
    table = Table()
    restarts, ordered = 0, 0
    notices = Notices()
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        jobs = tasks_of(stage)
        done = sum(step_of(job) for job in jobs.values()) / (STEPS * JOBS)
        for line in notices.news(instances(stage)):
            table.lines = 0
            say(line)
        table.show(jobs, f"{100 * done:3.0f} % done")
        if all(job.get("state") in ("SUCCEEDED", "FAILED", "CANCELLED") for job in jobs.values()):
            return restarts, ordered
        if restarts == 0 and done >= kill_at:
            table.lines = 0
            say(f"  !! kill -9 of the scheduler at {100 * done:.0f} % (drawn: {100 * kill_at:.0f} %); it starts again, the trainings do not notice")
            stage.kill_scheduler()
            time.sleep(rng.uniform(0.2, 1.5))
            stage.start_scheduler()
            restarts += 1
        if ordered == 0 and done > 0.15:
            victim = mid_interval(jobs)
            if victim:
                name = take_without_notice(stage, victim)
                if name:
                    notices.told.add(name)
                    table.lines = 0
                    say(f"  !! the cloud takes {name} without notice, in the middle of a checkpoint interval")
                    ordered += 1
        time.sleep(0.25)
    raise DemoError(f"not done after {TIMEOUT_S} s")


def mid_interval(jobs):
    """A running spot attempt whose step lies between two checkpoints, with one saved already."""
    for job in jobs.values():
        task = task_of(job)
        attempt = living_attempt(task)
        if not attempt or attempt.get("state") != "RUNNING" or attempt.get("market") != "SPOT":
            continue
        step, saved = number(task.get("progress", {}).get("step")), number(task.get("checkpoint", {}).get("step"))
        if saved > 0 and 5 <= step - saved <= CHECKPOINT_EVERY - 8 and step < STEPS - CHECKPOINT_EVERY:
            return attempt["node_name"]
    return None


def take_without_notice(stage, node_name):
    for instance in stage.cloud("GET", "/v1/instances").get("instances", []):
        if instance.get("name") == node_name and instance.get("state") in ("running", "RUNNING"):
            try:
                stage.cloud("POST", f"/v1/instances/{instance['id']}/reclaim", {"notice": "0s"})
                return node_name
            except urllib.error.HTTPError:
                return None
    return None


# --- the report ---

def reference_hash(command, scratch):
    done = subprocess.run(command, capture_output=True, text=True, cwd=scratch, env={"PATH": os.environ.get("PATH", "")}, timeout=TIMEOUT_S)
    found = re.search(r"weights sha256 ([0-9a-f]{64})", done.stdout)
    if done.returncode != 0 or not found:
        raise DemoError(f"the reference run failed ({done.returncode}): {done.stderr.strip()[-300:]}")
    return found.group(1)


def final_hash(stage, job_id):
    checkpoints = stage.ask("checkpoints", "list", str(job_id)).get("checkpoints", [])
    final = [c for c in checkpoints if number(c.get("step")) == STEPS]
    if not final:
        return ""
    done = subprocess.run([stage.program("spillway-train"), "--hash", stage.path("store", "checkpoints", final[0]["path"])], capture_output=True, text=True)
    found = re.search(r"[0-9a-f]{64}", done.stdout)
    return found.group(0) if found else ""


def attempts_report(task):
    rows = []
    for attempt in task.get("attempts", []):
        rows.append({"node": attempt.get("node_name", ""), "market": attempt.get("market", "").lower(), "from_step": number(attempt.get("from_step")),
                     "to_step": number(attempt.get("to_step")), "end_cause": attempt.get("end_cause", "")})
    return rows


def work_lost(rows):
    """Steps done that the next attempt had to do again."""
    return sum(max(0, rows[i]["to_step"] - rows[i + 1]["from_step"]) for i in range(len(rows) - 1))


def all_on_demand_micros(jobs):
    """Boot + uninterrupted run time of each task at the on-demand price under the same billing rule. The run time is what a step took in the job's own
    attempts, times the steps: the eight share this machine's cores, so a lone run would compare apples with pears."""
    total = 0
    for job in jobs:
        run_ms = steps = 0
        for attempt in task_of(job).get("attempts", []):
            done = number(attempt.get("to_step")) - number(attempt.get("from_step"))
            if number(attempt.get("started_utc_ms")) and done > 0:
                run_ms += number(attempt["ended_utc_ms"]) - number(attempt["started_utc_ms"])
                steps += done
        uninterrupted_ms = run_ms * STEPS // max(1, steps)
        billed_ms = max(BOOT_CLOUD_MS // SCALE + uninterrupted_ms, MINIMUM_CLOUD_MS // SCALE)
        increment_ms = max(1, 1000 // SCALE)
        billed_ms = -(-billed_ms // increment_ms) * increment_ms
        total += ON_DEMAND_PRICE_MICROS_PER_CLOUD_HOUR * SCALE * billed_ms // 3_600_000
    return total


def ancestors():
    pids, pid = set(), os.getpid()
    while pid > 0:
        pids.add(pid)
        try:
            with open(f"/proc/{pid}/stat") as source:
                pid = int(source.read().rsplit(")", 1)[1].split()[1])
        except OSError:
            break
    return pids


def leftovers(stage):
    """Processes of this demo that still run: their command line or environment names its home."""
    marker = stage.home.encode()
    ours = ancestors()   # whoever started the demo may have named its home
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) in ours:
            continue
        try:
            text = open(f"/proc/{pid}/cmdline", "rb").read() + open(f"/proc/{pid}/environ", "rb").read()
        except OSError:
            continue
        if marker in text:
            found.append(int(pid))
    return found


def thin(home):
    """Removes what nobody needs who recomputes the report: of each job every checkpoint but the newest, which holds the final weights."""
    root = os.path.join(home, "store", "checkpoints")
    for cluster in listed(root):
        for job in listed(os.path.join(root, cluster)):
            steps = [os.path.join(folder, name) for folder, names, _ in os.walk(os.path.join(root, cluster, job)) for name in names
                     if re.fullmatch(r"step-\d+", name)]
            newest = max((int(os.path.basename(path)[5:]) for path in steps), default=0)
            for path in steps:
                if int(os.path.basename(path)[5:]) < newest:
                    shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(os.path.join(home, "reference"), ignore_errors=True)


def listed(folder):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def megabytes(home):
    total = 0
    for folder, _, names in os.walk(home):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                pass
    return max(1, round(total / 2**20))


def print_report(report, seconds):
    say("")
    for job in report["jobs"]:
        equal = "equal" if job["weights_sha256"] == job["reference_sha256"] else "DIFFERENT"
        say(f"  {job['name']} {job['state']}: work lost {job['work_lost_steps']} steps, weights {job['weights_sha256'][:12]} {equal} to the uninterrupted run")
        for attempt in job["attempts"]:
            say(f"      {attempt['node']:28} {attempt['market']:10} steps {attempt['from_step']:4} to {attempt['to_step']:4}  {attempt['end_cause']}")
    bill = report["bill"]
    total, all_on_demand = bill["total_micros"], bill["all_on_demand_micros"]
    say("")
    say(f"  bill: {total / 1e6:.4f} (burst and reserved hours used); all on demand it would be {all_on_demand / 1e6:.4f}"
        + (f": {100 * (1 - total / all_on_demand):.0f} % saved" if 0 < total <= all_on_demand else ""))
    say(f"  reclaims {report['reclaims']} ({report['reclaims_without_notice']} without notice), scheduler restarts {report['scheduler_restarts']}, "
        f"processes left over {report['leftover_processes']}, instances still billing {report['billing_instances']}")
    say(f"  {'everything holds' if report['ok'] else 'SOMETHING DOES NOT HOLD'} ({seconds:.0f} s)")


def print_kept(home, thinned):
    what = "database, logs, the cloud's ledger, " + ("of each training the final checkpoint" if thinned else "every checkpoint")
    say(f"  kept in {home} ({megabytes(home)} MB): {what}. Remove it with: rm -r {home}")


def main():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.split("\n\n")[0])
    parser.add_argument("--bin", default="build/bin", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=None, help="decides when nodes are taken and the scheduler is killed (default: drawn, printed)")
    parser.add_argument("--data", default="/usr/share/common-licenses/GPL-3", help="the text to train on")
    parser.add_argument("--report", help="write the report as JSON to this file")
    parser.add_argument("--home", help="where everything lives (default: a new folder under the temporary one); kept")
    options = parser.parse_args()
    if not os.path.isfile(options.data):
        parser.error(f"--data {options.data}: no such file")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1, 1_000_000)
    rng = random.Random(seed)
    began = time.monotonic()
    stage = Stage(options)
    say(f"Spillway demo: seed {seed}, home {stage.home}")
    report = {"ok": False, "seed": seed, "home": stage.home, "jobs": []}
    try:
        report = tell(stage, rng, seed, os.path.abspath(options.data), report)
    except (DemoError, KeyboardInterrupt, subprocess.TimeoutExpired) as error:
        say(f"demo: {str(error) or 'interrupted'}")
    finally:
        stage.stop()
    stage_left = leftovers(stage)
    end = time.monotonic() + 15
    while stage_left and time.monotonic() < end:   # supervisors leave a moment after their workers
        time.sleep(0.1)
        stage_left = leftovers(stage)
    report["leftover_processes"] = len(stage_left)
    report["ok"] = bool(report.get("complete")) and report["ok"] and not stage_left
    report.pop("complete", None)
    if options.report:
        with open(options.report, "w") as out:
            json.dump(report, out, indent=2)
            out.write("\n")
    if report["ok"]:
        thin(stage.home)
    if report.get("bill"):
        print_report(report, time.monotonic() - began)
    print_kept(stage.home, report["ok"])
    return 0 if report["ok"] else 1


def tell(stage, rng, seed, data, report):
    lifetimes = lambda: ", ".join(f"{rng.randrange(8, 30)}m" for _ in range(3)) + ", 300m"
    stage.start_playground(seed, (lifetimes(), lifetimes()))
    stage.write_config()
    stage.start_scheduler()
    stage.pin_ports()
    stage.start_reserved()
    say("  two reserved nodes are ready; the cloud offers spot in two zones and on-demand")
    say(scaled_notices())
    commands = {}
    for i in range(1, JOBS + 1):
        path, command = job_file(stage, i, data)
        answer = stage.ask("submit", path)
        commands[number(answer["job_ids"][0])] = command
    say(f"  {JOBS} trainings of {STEPS} steps submitted, a checkpoint every {CHECKPOINT_EVERY}; {NON_INTERRUPTIBLE} must not be interrupted")
    restarts, ordered = run_story(stage, rng, rng.uniform(0.2, 0.6))

    stage.wait_for("the cloud to be empty", lambda: not billing(stage), 60)
    jobs = [stage.ask("describe", str(job_id)) for job_id in sorted(commands)]
    cost = stage.ask("cost", "report")
    # An instance that was given back after its notice counts: it was being taken away.
    reclaims = [i for i in instances(stage) if (i.get("end_reason") or "").startswith("reclaimed") or i.get("announced_after_ms") is not None]
    hashes = {job_id: final_hash(stage, job_id) for job_id in commands}
    report["billing_instances"] = len(billing(stage))
    stage.stop()

    say("  the same trainings again, uninterrupted, to compare the weights")
    scratch = stage.path("reference")
    os.makedirs(scratch, exist_ok=True)
    with ThreadPoolExecutor(max_workers=max(1, os.cpu_count() or 1)) as pool:
        references = dict(zip(commands, pool.map(lambda job_id: reference_hash(commands[job_id], scratch), commands)))
    for job in jobs:
        job_id = number(job["job_id"])
        rows = attempts_report(task_of(job))
        report["jobs"].append({"id": job_id, "name": job["name"], "state": job["state"], "attempts": rows, "work_lost_steps": work_lost(rows),
                               "weights_sha256": hashes[job_id], "reference_sha256": references[job_id]})
    report["bill"] = {"total_micros": number(cost.get("total_micros")), "all_on_demand_micros": all_on_demand_micros(jobs)}
    report["reclaims"] = len(reclaims)
    report["reclaims_without_notice"] = sum(i.get("end_reason") == "reclaimed_without_notice" for i in reclaims)
    report["scheduler_restarts"] = restarts
    report["ok"] = (all(j["state"] == "SUCCEEDED" and j["weights_sha256"] and j["weights_sha256"] == j["reference_sha256"] for j in report["jobs"])
                    and report["billing_instances"] == 0 and restarts == 1)
    report["complete"] = True
    return report


def instances(stage):
    return stage.cloud("GET", "/v1/instances").get("instances", [])


def billing(stage):
    """From the cloud's own ledger, never from the scheduler's."""
    return [i for i in instances(stage) if i.get("state", "").lower() in ("pending", "booting", "running", "stopping", "noticed")]


if __name__ == "__main__":
    sys.exit(main())
