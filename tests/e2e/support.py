"""A Spillway of its own for each test: real binaries, loopback, free ports, a home in a temporary folder; nothing is left running.

Owns starting and stopping by process id; never waits a fixed time: `wait_for` polls a condition with a bound.
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

BIN = os.environ.get("SPILLWAY_BIN", os.path.join(os.path.dirname(__file__), "../../build/bin"))
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


def program(name):
    return os.path.join(BIN, name)


def number(value):
    """Protobuf's JSON writes 64-bit integers as text."""
    return int(value or 0)


def wait_for(what, condition, seconds=120.0):
    """Looks often at first and then less so: whoever is waited for needs the processor more. The bound is for a machine that has much else to do."""
    end = time.monotonic() + seconds
    pause = 0.02
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:.0f} s for {what}")
        time.sleep(pause)
        pause = min(pause * 1.2, 0.2)


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read()
    except OSError:
        return ""


def processes_of(home):
    """Living processes whose command line or environment names this home."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as source:
                if source.read().rsplit(")", 1)[1].split()[0] == "Z":
                    continue
            with open(f"/proc/{pid}/cmdline", "rb") as command, open(f"/proc/{pid}/environ", "rb") as environment:
                text = command.read() + environment.read()
        except (OSError, IndexError):
            continue
        if home.encode() in text:
            found.append(int(pid))
    return found


def parent_of(pid):
    return number((read_text(f"/proc/{pid}/stat").rsplit(")", 1)[-1].split() + ["", ""])[1])


def marked_with(text, home):
    """Living processes of attempts of this home: the supervisor's mark in their environment holds `text` ("/5.0@2", ...). Those that the supervisor started
    come before their children, whatever numbers they have: numbers begin anew at the highest."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment:
                text_of = environment.read()
        except OSError:
            continue  # gone, or a zombie
        if home.encode() in text_of and any(pair.startswith(b"SPILLWAY_ATTEMPT_KEY=") and text.encode() in pair for pair in text_of.split(b"\0")):
            found.append(int(pid))
    return sorted(found, key=lambda pid: parent_of(pid) in found)


def living(pid):
    stat = read_text(f"/proc/{pid}/stat")
    return bool(stat) and stat.rsplit(")", 1)[1].split()[0] not in ("Z", "X")


def compile_c(source, out, shared=False):
    """A helper of a test, from the file beside it."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), source)
    flags = ["-shared", "-fPIC", "-ldl"] if shared else []
    subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-o", out, source, *flags], check=True)
    return out


def unmount_below(folder):
    """What a killed worker left mounted, innermost first."""
    points = [line.split()[1] for line in read_text("/proc/self/mounts").splitlines()]
    for point in reversed([p for p in points if p.startswith(folder + "/")]):
        subprocess.run(["umount", "-l", point], check=False)


class Cluster:
    """A scheduler and static workers."""

    # What a test class of its own kind changes: `lease` as the configuration's keys, `more` as whole lines.
    lease = "renew_every: 500ms"
    more = ""

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="spillway-e2e-")
        # Should this test be killed, what it started would live on.
        subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support", "reap.py"), str(os.getpid()),
                        *os.path.split(self.home)], check=True, timeout=60)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("SPILLWAY_")}
        self.env["SPILLWAY_HOME"] = self.home
        self.scheduler = None
        self.workers = {}
        os.makedirs(self.path("run"), exist_ok=True)
        self.write_config()

    def path(self, *parts):
        return os.path.join(self.home, *parts)

    def write_config(self, user=0, worker=0, more=""):
        with open(self.path("config.yaml"), "w", encoding="utf-8") as out:
            out.write(f'listen: {{user: "127.0.0.1:{user}", worker: "127.0.0.1:{worker}", http: "127.0.0.1:0"}}\nlease: {{{self.lease}}}\n{more or self.more}')

    def spawn(self, name, argv, env=None):
        with open(self.path("run", name + ".log"), "ab") as log:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**self.env, **(env or {})}, start_new_session=True)

    def start_scheduler(self, env=None):
        for name in ("user", "worker"):
            if os.path.exists(self.path("run", name + ".port")):
                os.remove(self.path("run", name + ".port"))
        self.scheduler = self.spawn("spillwayd", [program("spillwayd"), "--home", self.home], env)
        wait_for("the scheduler", lambda: self.scheduler.poll() is not None or read_text(self.path("run", "user.port")))
        if self.scheduler.poll() is not None:
            raise AssertionError("spillwayd ended: " + read_text(self.path("run", "spillwayd.log"))[-500:])
        # From now on the same ports: workers and clients find it again.
        self.write_config(read_text(self.path("run", "user.port")).strip(), read_text(self.path("run", "worker.port")).strip())

    def kill_scheduler(self):
        self.scheduler.send_signal(signal.SIGKILL)
        self.scheduler.wait()

    def worker_port(self):
        return read_text(self.path("run", "worker.port")).strip()

    def start_worker(self, name, resources="cpus=2,memory=2GB,gpu=none", ready=True, server=None, flags=(), prefix=(), env=None):
        """`prefix`: words before the program, such as those that enter a network namespace."""
        home = self.path("nodes", name)
        os.makedirs(home, mode=0o700, exist_ok=True)
        self.workers[name] = self.spawn(name, [
            *prefix, program("spillway-worker"), "--home", home, "--server", server or "127.0.0.1:" + self.worker_port(), "--token-file",
            self.path("tokens", "worker"), "--node-name", name, "--provider", "static", "--market", "reserved", "--resources", resources, *flags], env)
        if ready:
            self.wait_connected(name)

    def node(self, name):
        return next((n for n in self.nodes() if n["name"] == name), {})

    def wait_connected(self, name, seconds=120.0):
        return wait_for(f"node {name}", lambda: (lambda n: n if n.get("state") == "READY" and n.get("connected") else None)(self.node(name)), seconds)

    def supervisor_pid(self, name):
        return int(read_text(self.path("nodes", name, "supervisor.pid")).split()[0])

    def cli(self, *arguments, env=None, timeout=120):
        return subprocess.run([program("spillway"), *arguments], env={**self.env, **(env or {})}, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL)

    def ok(self, *arguments):
        done = self.cli(*arguments)
        if done.returncode != 0:
            raise AssertionError(f"spillway {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ask(self, *arguments):
        return json.loads(self.ok(*arguments, "-o", "json"))

    def nodes(self):
        done = self.cli("nodes", "-o", "json")
        return json.loads(done.stdout).get("nodes", []) if done.returncode == 0 else []

    def job(self, job_id):
        return self.ask("describe", str(job_id))

    def marked(self, job_id, attempt=""):
        return marked_with(f"/{job_id}.0@{attempt}", self.home)

    def task(self, job_id):
        tasks = self.job(job_id).get("tasks", [])
        return tasks[0] if tasks else {}

    def attempts(self, job_id):
        return self.task(job_id).get("attempts", [])

    def submit(self, text, *flags):
        path = self.path("job.yaml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return number(self.ask("submit", path, *flags)["job_ids"][0])

    def wait_state(self, job_id, states=ENDED, seconds=120.0):
        states = (states,) if isinstance(states, str) else states
        return wait_for(f"job {job_id} to be {states}", lambda: (lambda s: s if s in states else None)(self.job(job_id)["state"]), seconds)

    def wait_running(self, job_id, seconds=120.0):
        return wait_for(f"job {job_id} to run", lambda: next((a for a in self.attempts(job_id) if a["state"] == "RUNNING"), None), seconds)

    def close(self):
        for process in [*self.workers.values(), self.scheduler]:
            if process and process.poll() is None:
                process.terminate()
        for process in [*self.workers.values(), self.scheduler]:
            if process:
                try:
                    process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        # Supervisors outlive their workers by design; SIGTERM makes them stop their attempts and leave.
        for name in self.workers:
            pid = read_text(self.path("nodes", name, "supervisor.pid")).split()
            if pid and int(pid[0]) in processes_of(self.home):
                os.kill(int(pid[0]), signal.SIGTERM)
        left = []
        end = time.monotonic() + 40
        while time.monotonic() < end:
            left = processes_of(self.home)
            if not left:
                break
            time.sleep(0.05)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        unmount_below(self.home)
        shutil.rmtree(self.home, ignore_errors=True)
        return left


class OnCloud(Cluster):
    """With a playground as its cloud; `offers` is its configuration."""

    offers = ""

    def __init__(self):
        super().__init__()
        os.makedirs(self.path("cloud"), mode=0o700)
        with open(self.path("cloud.yaml"), "w", encoding="utf-8") as out:
            out.write(self.offers)
        self.cloud_process = self.spawn("playground", [program("spillway-playground"), "--config", self.path("cloud.yaml"), "--home", self.path("cloud"),
                                                       "--port", "0", "--terminate-on-exit"])
        self.cloud_port = wait_for("the playground", lambda: self.cloud_process.poll() is not None or read_text(self.path("cloud", "playground.port")).strip())
        if self.cloud_process.poll() is not None:
            raise AssertionError("the playground ended: " + read_text(self.path("run", "playground.log"))[-500:])
        self.cloud_token = wait_for("its token", lambda: read_text(self.path("cloud", "playground.token")).strip())
        self.more = (f'providers:\n  - {{name: static, kind: static}}\n  - {{name: cloud, kind: playground, url: "http://127.0.0.1:{self.cloud_port}", '
                     f'token_file: "{self.path("cloud", "playground.token")}", idle_release: 2s, boot_timeout: 30s}}\n')
        self.write_config()

    def cloud(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.cloud_port}{path}", method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": "Bearer " + self.cloud_token, "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read() or b"{}")

    def close(self):
        if self.scheduler and self.scheduler.poll() is None:
            self.scheduler.terminate()
            self.scheduler.wait()
        self.cloud_process.terminate()
        self.cloud_process.wait()
        return super().close()


def main(classes):
    """The test classes of a file side by side, each a process of its own, when none is named: they mostly wait. For files whose classes share nothing."""
    if any(not word.startswith("-") for word in sys.argv[1:]):
        unittest.main()
    with contextlib.ExitStack() as files:
        running = []
        for one in classes:
            out = files.enter_context(tempfile.TemporaryFile("w+"))
            running.append((out, subprocess.Popen([sys.executable, sys.argv[0], one.__name__, *sys.argv[1:]], stdin=subprocess.DEVNULL, stdout=out,
                                                  stderr=subprocess.STDOUT)))
        failed = [process.wait() != 0 for _, process in running]
        for out, _ in running:
            out.seek(0)
            print(out.read(), end="", flush=True)
    sys.exit(1 if any(failed) else 0)


class ClusterTest(unittest.TestCase):
    """One cluster a test class."""

    cluster_type = Cluster

    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.cluster_type()
        cls.addClassCleanup(cls.close_cluster)
        cls.cluster.start_scheduler()

    @classmethod
    def close_cluster(cls):
        left = cls.cluster.close()
        if left:
            raise AssertionError(f"processes left over: {left}")
