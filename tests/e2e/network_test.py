#!/usr/bin/env python3
"""A bad network between real processes: partitions, one-way and half-open connections, resets, slow lines; a scheduler that is down; nodes that are gone
or silent; a zombie. Jobs are disturbed only where a promise allows it. The lease of ten minutes is scaled to seconds, and is long wherever it is not what
a test waits for. The classes run side by side.
"""
import json
import os
import re
import signal
import subprocess
import threading
import time
import unittest

from faulty_proxy import FaultyProxy
from support import Cluster, ClusterTest, OnCloud, living, main, number, program, read_text, wait_for

TEXT = "/usr/share/common-licenses/GPL-3"
WIDE = "cpus=32,memory=8GB,gpu=none"


class Networked(Cluster):
    """With proxies between, and a lease of which `silence_s` without a word is only a part."""

    lease_s, silence_s = 40, 3

    def __init__(self):
        self.lease = f"duration: {self.lease_s}s, renew_every: 500ms, silence: {self.silence_s}s, grace: 1s"
        self.proxies = {}
        super().__init__()

    def join_through_proxy(self, name):
        self.proxies[name] = FaultyProxy(int(self.worker_port()))
        self.start_worker(name, WIDE, ready=False, server=self.proxies[name].address)

    def waiting(self, name, node, more=""):
        """A job on `node` that runs until the file of its name appears, counting."""
        return self.submit(f"name: {name}\nscript: |\n  i=0\n  while [ ! -e \"$STOP\" ]; do i=$((i+1)); echo tick $i; sleep 0.1; done\n"
                           f"env: {{STOP: '{self.path('stop-' + name)}'}}\nplacement: {{nodes: [{node}]}}\nresources: {{cpus: 0.5}}\n{more}")

    def finish(self, name):
        open(self.path("stop-" + name), "w").close()

    def log_of(self, job):
        for folder, _, names in os.walk(self.path("store", "logs")):
            for name in names:
                if f"/{job}/" in os.path.join(folder, name):
                    return os.path.join(folder, name)
        raise AssertionError(f"no log of job {job}")

    def silent_for(self, name):
        return time.time() - number(self.node(name)["last_seen_utc_ms"]) / 1000

    def close(self):
        for proxy in self.proxies.values():
            proxy.close()
        return super().close()


class Network(ClusterTest):
    cluster_type = Networked

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("n1", "n2", "n3"):
            cls.cluster.join_through_proxy(name)
        cls.user = FaultyProxy(int(read_text(cls.cluster.path("run", "user.port"))))
        cls.cluster.proxies["user"] = cls.user
        for name in ("n1", "n2", "n3"):
            cls.cluster.wait_connected(name)
        cls.jobs = {name: cls.cluster.waiting("steady-" + name, name) for name in ("n1", "n2", "n3")}
        for job in cls.jobs.values():
            cls.cluster.wait_running(job)
        cls.processes = {job: cls.cluster.marked(job, 1)[0] for job in cls.jobs.values()}

    def tearDown(self):
        for proxy in self.cluster.proxies.values():
            proxy.heal()

    def undisturbed(self):
        for name, job in self.jobs.items():
            attempts = self.cluster.attempts(job)
            self.assertEqual([(a["state"], number(a["key"]["attempt"])) for a in attempts], [("RUNNING", 1)], name)
            self.assertTrue(living(self.processes[job]))
            self.assertNotIn("[spillway]", self.cluster.ok("logs", str(job)), "the job was asked for nothing")

    def works(self, node):
        job = self.cluster.submit(f"name: probe\ncommand: ['true']\nplacement: {{nodes: [{node}]}}\nresources: {{cpus: 0.1}}\n")
        self.assertEqual(self.cluster.wait_state(job), "SUCCEEDED")
        self.assertEqual(len(self.cluster.attempts(job)), 1)

    def test_a_partition_shorter_than_the_lease(self):
        """Whole, and in either direction alone; reports of that time arrive afterwards, once."""
        cluster = self.cluster
        ends = {name: cluster.waiting("ends-" + name, name) for name in self.jobs}
        for job in ends.values():
            cluster.wait_running(job)
        for name, directions in (("n1", ("up", "down")), ("n2", ("up",)), ("n3", ("down",))):
            cluster.proxies[name].hold(*directions)
        for name in ends:
            cluster.finish("ends-" + name)
        # A client that cannot get through says so, in bounded time.
        self.user.hold("down")
        away = subprocess.Popen([program("spillway"), "queue", "--server", self.user.address], env=cluster.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
        wait_for("the nodes to be silent", lambda: cluster.silent_for("n1") > cluster.silence_s + 1 and cluster.silent_for("n2") > cluster.silence_s + 1)
        states = {node["name"]: node["state"] for node in cluster.nodes()}
        for name in self.jobs:
            cluster.proxies[name].heal()
        self.assertEqual(states, dict.fromkeys(self.jobs, "READY"), "unreachable is not failed")
        for name, job in ends.items():
            self.assertEqual(cluster.wait_state(job), "SUCCEEDED")
            self.assertEqual([a["end_cause"] for a in cluster.attempts(job)], ["COMPLETED"])
            cluster.wait_connected(name)
            self.works(name)
        self.undisturbed()
        error = away.communicate(timeout=120)[1]
        self.assertEqual(away.returncode, 5, error)
        self.assertIn(f"the scheduler at {self.user.address} does not answer", error)

    def test_b_half_open_connections(self):
        """One side was told that the connection is gone, the other waits for ever: it finds out by itself, well within its lease."""
        cluster = self.cluster
        for name, side in (("n1", "server"), ("n2", "client")):
            cluster.proxies[name].forget(side)
        for name in ("n1", "n2"):
            self.works(name)
        self.undisturbed()

    def test_c_resets_without_end(self):
        """Ever seldomer, so that a slow machine gets through as well."""
        cluster = self.cluster
        stop = threading.Event()

        def storm():
            calm = 0.3
            while not stop.wait(calm):
                calm *= 1.05
                for proxy in cluster.proxies.values():
                    proxy.reset()
        thread = threading.Thread(target=storm)
        thread.start()
        try:
            # The same request again, until it is answered: there is one job in the end.
            path = cluster.path("stormy.yaml")
            with open(path, "w", encoding="utf-8") as out:
                out.write("name: stormy\nscript: |\n  for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i; sleep 0.1; done\nresources: {cpus: 0.1}\n")
            submit = lambda: cluster.cli("submit", path, "--request-id", "stormy", "--server", self.user.address, "-o", "json")
            done = wait_for("a submit that gets through", lambda: (lambda d: d if d.returncode == 0 else None)(submit()))
            job = number(json.loads(done.stdout)["job_ids"][0])
            followed = wait_for("a follower that gets its first answer", lambda: (lambda d: d if d.returncode == 0 else None)(
                cluster.cli("logs", "-f", str(job), "--server", self.user.address)))
            self.assertEqual(followed.stdout, "".join(f"line {i}\n" for i in range(1, 11)), "followed through every reset, nothing twice and no gap")
        finally:
            stop.set()
            thread.join()
        self.assertEqual(cluster.wait_state(job), "SUCCEEDED")
        self.assertEqual(len(cluster.attempts(job)), 1)
        self.assertEqual([number(j) for j in cluster.ask("submit", path, "--request-id", "stormy")["job_ids"]], [job])
        for name in self.jobs:
            cluster.wait_connected(name)
        self.undisturbed()

    def test_d_slow_lines(self):
        cluster = self.cluster
        for name in ("n1", "user"):
            cluster.proxies[name].delay(0.2, "up", "down")
            cluster.proxies[name].throttle(20_000, "up", "down")
        done = cluster.cli("run", "--server", self.user.address, "--", "echo", "slow but sure")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("slow but sure\n", done.stdout)
        self.works("n1")
        self.undisturbed()


class Outage(ClusterTest):
    cluster_type = Networked

    def test_the_scheduler_is_down_for_half_a_lease(self):
        """Five minutes of ten. What ended meanwhile is reported once it is back."""
        cluster = self.cluster
        cluster.start_worker("n1", WIDE)
        jobs = [cluster.waiting(f"steady-{i}", "n1") for i in range(3)]
        ends = cluster.waiting("meanwhile", "n1")
        for job in [*jobs, ends]:
            cluster.wait_running(job)
        processes = [cluster.marked(job, 1)[0] for job in jobs]
        cluster.kill_scheduler()
        since = time.monotonic()
        cluster.finish("meanwhile")
        ticks = lambda: [read_text(cluster.log_of(job)).count("\n") for job in jobs]
        before = ticks()
        wait_for("half a lease", lambda: time.monotonic() - since >= cluster.lease_s / 2)
        self.assertTrue(all(now > then for now, then in zip(ticks(), before)), "jobs and their logs need no scheduler")
        cluster.start_scheduler()
        cluster.wait_connected("n1")
        self.assertEqual(cluster.wait_state(ends), "SUCCEEDED")
        self.assertEqual([a["end_cause"] for a in cluster.attempts(ends)], ["COMPLETED"])
        for job, process in zip(jobs, processes):
            self.assertEqual([(a["state"], number(a["key"]["attempt"])) for a in cluster.attempts(job)], [("RUNNING", 1)])
            self.assertTrue(living(process))


class Zombie(ClusterTest):
    cluster_type = Networked

    def test_a_zombie_changes_and_removes_nothing(self):
        """Cut off, given up by its owner's wish, sealed; its supervisor stands still, so that nobody ends it. Then it saves a hundred checkpoints, and the
        next attempt knows nothing of them."""
        cluster = self.cluster
        cluster.join_through_proxy("z1")
        cluster.start_worker("z2", WIDE)
        cluster.wait_connected("z1")
        cluster.ok("cordon", "z2")
        train = f"{program('spillway-train')} --data {TEXT} --dim 32 --layers 1 --seed 3 --steps 140"
        job = cluster.submit(f"""
name: zombie
script: |
  if [ $SPILLWAY_ATTEMPT = 1 ]; then
    {train} --checkpoint-every 10 --step-delay-ms 100 &
    while [ ! -e $SPILLWAY_CHECKPOINT_DIR/step-000000000010/MANIFEST ]; do sleep 0.02; done
    sleep 0.4
    kill -9 $!
    while [ ! -e $GO ]; do sleep 0.05; done
    SPILLWAY_RESUME_FROM=$(ls -d $SPILLWAY_CHECKPOINT_DIR/step-* | tail -n 1)
    export SPILLWAY_RESUME_FROM
    env -u SPILLWAY_SOCKET -u SPILLWAY_NOTICE_FILE {train} --checkpoint-every 1
    sleep 600
  fi
  echo resumes from $SPILLWAY_RESUME_FROM
  while [ ! -e $FINISH ]; do sleep 0.05; done
  {train} --checkpoint-every 50
env: {{GO: '{cluster.path('go')}', FINISH: '{cluster.path('finish')}'}}
placement: {{nodes: [z1, z2], max_silence: 10s}}
""")
        cluster.wait_running(job)
        wait_for("its checkpoint", lambda: number(cluster.task(job).get("checkpoint", {}).get("step")) >= 10)
        cluster.ok("uncordon", "z2")
        supervisor = cluster.supervisor_pid("z1")
        cluster.proxies["z1"].hold("up", "down")
        os.kill(supervisor, signal.SIGSTOP)
        self.addCleanup(lambda: os.kill(supervisor, signal.SIGCONT) if living(supervisor) else None)
        wait_for("a second attempt", lambda: any(a["state"] == "RUNNING" and number(a["key"]["attempt"]) == 2 for a in cluster.attempts(job)))
        self.assertEqual(len(self.cluster.marked(job, 1)) > 0, True, "the first still runs: it is a zombie now")
        open(cluster.path("go"), "w").close()
        folder = os.path.dirname(os.path.join(cluster.path("store", "checkpoints"), cluster.task(job)["checkpoint"]["path"]))
        saved = lambda: [name for name in os.listdir(folder) if os.path.exists(os.path.join(folder, name, "MANIFEST"))]
        listed = lambda: cluster.ask("checkpoints", "list", str(job))["checkpoints"]
        sealed = listed()
        wait_for("a hundred checkpoints of the zombie", lambda: len(saved()) >= 100 + len(sealed))
        self.assertEqual(listed(), sealed)
        newest = number(sealed[0]["step"])
        cluster.proxies["z1"].heal()
        os.kill(supervisor, signal.SIGCONT)
        wait_for("the zombie to be ended", lambda: not self.cluster.marked(job, 1))
        open(cluster.path("finish"), "w").close()
        self.assertEqual(cluster.wait_state(job), "SUCCEEDED")
        attempts = cluster.attempts(job)
        self.assertEqual([a["end_cause"] for a in attempts], ["NODE_LOST", "COMPLETED"], attempts)
        self.assertEqual(number(attempts[1]["from_step"]), newest)
        self.assertIn(f"a1/step-{newest:012d}\n", cluster.ok("logs", str(job)))
        after = listed()
        self.assertEqual((number(after[0]["step"]), number(after[0]["attempt"]["attempt"])), (140, 2))
        self.assertEqual([c["path"] for c in after if number(c["attempt"]["attempt"]) == 1], [c["path"] for c in sealed])
        for checkpoint in after:
            self.assertTrue(os.path.exists(cluster.path("store", "checkpoints", checkpoint["path"], "MANIFEST")))
        cluster.wait_connected("z1")


class ShorterLease(Networked):
    lease_s = 24


class Machines(ClusterTest):
    """Network namespaces as machines: cables are pulled, packets really get lost."""

    cluster_type = ShorterLease

    @classmethod
    def setUpClass(cls):
        cls.cables = {}
        for number_of, name in enumerate(("away", "far")):
            cls.add_machine(name, f"spw{os.getpid()}{name[0]}", f"10.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}", 4 * number_of)
        super().setUpClass()
        cluster = cls.cluster
        for name, (_, host_address, space) in cls.cables.items():
            # The scheduler serves loopback only; the proxy stands for its address in the network.
            cluster.proxies[name] = FaultyProxy(int(cluster.worker_port()), listen=host_address)
            cluster.start_worker(name, WIDE, server=cluster.proxies[name].address, prefix=("ip", "netns", "exec", space))
        cluster.start_worker("near", WIDE, ready=False)
        cluster.wait_connected("near")

    @classmethod
    def add_machine(cls, name, space, net, at):
        made = subprocess.run(["ip", "netns", "add", space], capture_output=True, text=True)
        if made.returncode != 0:
            raise unittest.SkipTest("no network namespaces here: " + made.stderr.strip())
        cls.addClassCleanup(subprocess.run, ["ip", "netns", "del", space], check=False, capture_output=True)
        entered = subprocess.run(["ip", "netns", "exec", space, "true"], capture_output=True, text=True)
        if entered.returncode != 0:  # a root that is no mount point, as in a chroot
            raise unittest.SkipTest("a network namespace cannot be entered here: " + entered.stderr.strip())
        host, guest = space + "h", space + "g"
        for words in (f"link add {host} type veth peer name {guest} netns {space}", f"addr add {net}.{at + 1}/30 dev {host}", f"link set {host} up",
                      f"-n {space} addr add {net}.{at + 2}/30 dev {guest}", f"-n {space} link set {guest} up", f"-n {space} link set lo up"):
            subprocess.run(["ip", *words.split()], check=True)
        cls.cables[name] = (host, f"{net}.{at + 1}", space)

    def cable_is(self, name, state):
        subprocess.run(["ip", "link", "set", self.cables[name][0], state], check=True)

    def test_one_cable_is_pulled_for_less_than_a_lease_another_for_good(self):
        cluster = self.cluster
        steady = cluster.waiting("steady", "away")
        cluster.ok("cordon", "near")
        moves = cluster.waiting("moves", "far, near")
        processes = {}
        for job in (steady, moves):
            cluster.wait_running(job)
            processes[job] = cluster.marked(job, 1)[0]
        cluster.ok("uncordon", "near")
        since = time.monotonic()
        for name in ("away", "far"):
            self.cable_is(name, "down")
        wait_for("the node to be silent", lambda: cluster.silent_for("away") > cluster.silence_s + 1)
        self.cable_is("away", "up")
        wait_for("it to be heard again", lambda: cluster.silent_for("away") < 2)
        # For good: its supervisor ends the job before the lease does, and nobody starts it elsewhere before that.
        second = wait_for("another attempt", lambda: next((a for a in cluster.attempts(moves) if number(a["key"]["attempt"]) == 2 and a["state"] == "RUNNING"), None))
        self.assertGreater(time.monotonic() - since, cluster.lease_s - 2)
        self.assertEqual(second["node_name"], "near")
        self.assertFalse(living(processes[moves]))
        self.assertEqual(cluster.marked(moves, 1), [])
        self.assertEqual(cluster.attempts(moves)[0]["end_cause"], "NODE_LOST")
        self.assertEqual([(a["state"], number(a["key"]["attempt"])) for a in cluster.attempts(steady)], [("RUNNING", 1)])
        self.assertTrue(living(processes[steady]))
        for name, job in (("steady", steady), ("moves", moves)):
            cluster.finish(name)
            self.assertEqual(cluster.wait_state(job), "SUCCEEDED")
        self.cable_is("far", "up")


OFFERS = """seed: 7
scale: 20
offers:
  - {name: a, market: spot, instance_type: g1, zone: z-a, region: r, gpus: {model: simulated, count: 1, memory: 16GB}, cpus: 1, memory: 2GB,
     price_per_hour: "0.01", billing: {increment: 1s, minimum: 1s}, capacity: 2, boot: 1s, notice: 0s, reclaim: none}
  - {name: b, market: on_demand, instance_type: g1, zone: z-b, region: r, gpus: {model: simulated, count: 1, memory: 16GB}, cpus: 1, memory: 2GB,
     price_per_hour: "0.05", billing: {increment: 1s, minimum: 1s}, capacity: 4, boot: 1s}
"""


class OnPlayground(OnCloud, Networked):
    lease_s, silence_s = 60, 10
    offers = OFFERS


class ProvidersWord(ClusterTest):
    cluster_type = OnPlayground

    def running(self, job, attempt):
        return wait_for(f"attempt {attempt}", lambda: next((a for a in self.cluster.attempts(job) if number(a["key"]["attempt"]) == attempt and
                                                             a["state"] == "RUNNING"), None))

    def instance_of(self, attempt):
        return self.cluster.node(attempt["node_name"])["instance_id"]

    def replaced_after(self, job, attempt, since):
        """Seconds from `since`, by the scheduler's own record, until there is a new attempt or a machine is asked for."""
        def look():
            attempts = self.cluster.attempts(job)
            if attempts[attempt - 1]["state"] != "ENDED":
                return None
            moments = [number(a["offered_utc_ms"]) for a in attempts[attempt:]]
            moments += [number(n["requested_utc_ms"]) for n in self.cluster.nodes() if number(n["requested_utc_ms"]) > since * 1000]
            return min(moments) if moments else None
        return wait_for("a replacement", look) / 1000 - since

    def test_nodes_that_are_gone_or_silent_are_replaced(self):
        cluster = self.cluster
        job = cluster.submit("name: burst\ncommand: [sleep, '600']\nresources: {gpu: {count: 1}}\n")
        # Gone by the provider's word: at once, without a lease. What this machine does besides may hold up one, but not one after the other.
        took = []
        while not took or (took[-1] >= 2 and len(took) < 3):
            attempt = self.running(job, len(took) + 1)
            since = time.time()
            cluster.cloud("POST", f"/v1/instances/{self.instance_of(attempt)}/reclaim", {"notice": "0s"})
            took.append(self.replaced_after(job, len(took) + 1, since))
        self.assertLess(took[-1], 2.0, took)
        last = len(took) + 1
        attempt = self.running(job, last)
        for gone in range(1, last):
            self.assertEqual(self.cluster.marked(job, gone), [])
        # Silent: the provider ends it and says so. Of the 75 s that are promised 60 are silence, which is shorter here.
        worker = self.worker_of(self.instance_of(attempt))
        os.kill(worker, signal.SIGSTOP)
        since = time.time()
        self.assertLess(self.replaced_after(job, last, since), cluster.silence_s + 15)
        self.running(job, last + 1)
        self.assertEqual(self.cluster.marked(job, last), [])
        self.assertFalse(living(worker))
        self.assertEqual([a["end_cause"] for a in cluster.attempts(job)][:-1], ["PREEMPTED"] * len(took) + ["NODE_LOST"])
        cluster.ok("cancel", "--now", str(job))
        cluster.wait_state(job)
        wait_for("nothing to bill", lambda: cluster.cloud("GET", "/v1/ledger")["billing_instances"] == 0)

    def worker_of(self, instance):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            words = read_text(f"/proc/{pid}/cmdline").split("\0")
            if words[0].endswith("spillway-worker") and instance in words and self.cluster.home in " ".join(words):
                return int(pid)
        raise AssertionError(f"no worker in {instance}")


if __name__ == "__main__":
    main([Network, Outage, Zombie, Machines, ProvidersWord])
