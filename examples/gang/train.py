#!/usr/bin/env python3
"""Training on several nodes with nothing but Python's standard library, in the shape of torchrun's programs: every member has its part of the data, and after each
step all go on with the same sum of their gradients. Spillway starts it on each node of a job (`resources: {nodes: 2}`) and says by SPILLWAY_NODE_RANK,
SPILLWAY_NUM_NODES, MASTER_ADDR and MASTER_PORT who it is and where member 0 listens.

With our `spillway` package on PYTHONPATH it saves every few steps, all members as one checkpoint, and goes on from there on whatever nodes it gets
next. Told to stop (a machine is taken away, say: all members hear of it), they agree on the step after which they save and leave."""
import argparse
import array
import json
import os
import signal
import socket
import sys
import time

try:
    import spillway
except ImportError:
    spillway = None

RANK, NODES = int(os.environ.get("SPILLWAY_NODE_RANK", 0)), int(os.environ.get("SPILLWAY_NUM_NODES", 1))
RUN_ME_AGAIN = 85


class Group:
    """The members' connections: every one to member 0, which adds up what all of them say, in the order of their ranks."""

    def __init__(self, seconds=60):
        address = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", 0)))
        if RANK > 0:
            self.peers = [self.connect(address, time.monotonic() + seconds)]
            self.send(self.peers[0], RANK)
            return
        with socket.create_server(("", address[1]), backlog=NODES) as server:
            server.settimeout(seconds)
            found = {}
            while len(found) < NODES - 1:
                peer = server.accept()[0].makefile("rw")
                found[json.loads(peer.readline())] = peer
        self.peers = [found[rank] for rank in sorted(found)]

    @staticmethod
    def connect(address, end):
        while True:
            try:
                return socket.create_connection(address, timeout=5).makefile("rw")
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)  # member 0 may start a moment later

    @staticmethod
    def send(peer, value):
        peer.write(json.dumps(value) + "\n")
        peer.flush()

    @staticmethod
    def receive(peer):
        line = peer.readline()
        if not line:
            sys.exit("a member has gone")
        return json.loads(line)

    def sum(self, values):
        if RANK > 0:
            self.send(self.peers[0], values)
            return self.receive(self.peers[0])
        for peer in self.peers:
            values = [a + b for a, b in zip(values, self.receive(peer))]
        for peer in self.peers:
            self.send(peer, values)
        return values


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--save-every", type=int, default=20)
    options.add_argument("--step-seconds", type=float, default=0.05, help="how long a step of a real training would take")
    options = options.parse_args()
    told = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))

    weights, done = array.array("d", [0.0, 0.0]), 0
    run = spillway.Run(rank=RANK, world_size=NODES) if spillway and os.environ.get("SPILLWAY_CHECKPOINT_DIR") else None
    newest = run.restore() if run else None
    if newest:
        newest.read_into("weights", weights)
        done = newest.step
    if not run:
        print("nothing is saved: %s" % ("there is no SPILLWAY_CHECKPOINT_DIR" if spillway else "no package `spillway` on PYTHONPATH"), flush=True)
    group = Group()
    print("member %d of %d on %s, from step %d" % (RANK, NODES, os.environ.get("SPILLWAY_NODE_LIST", "this machine"), done), flush=True)
    # Points on the line 3 x + 1, dealt out to the members.
    data = [(x / 50.0, 3 * x / 50.0 + 1) for x in range(100)][RANK::NODES]
    for step in range(done + 1, options.steps + 1):
        errors = [(weights[0] * x + weights[1] - y, x) for x, y in data]
        slope, offset, stop = group.sum([sum(e * x for e, x in errors), sum(e for e, _ in errors), float(bool(told or (run and run.notice())))])
        weights[0] -= 0.005 * slope
        weights[1] -= 0.005 * offset
        if run:
            if RANK == 0:
                run.progress(step, options.steps)
            if stop or step % options.save_every == 0 or step == options.steps:
                run.save(step, {"weights": weights})
        if stop and step < options.steps:
            print("member %d stops after step %d" % (RANK, step), flush=True)
            return RUN_ME_AGAIN
        time.sleep(options.step_seconds)
    print("member %d is done: %s %s" % (RANK, weights[0].hex(), weights[1].hex()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
