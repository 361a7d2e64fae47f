#!/usr/bin/env python3
"""Real PyTorch training (python3-torch, CPU): a small transformer with dropout, AdamW, a learning rate schedule and a shuffled loader, killed with -9 at three moments,
ends with weights bit-equal to an uninterrupted run. The negative control leaves the optimiser out, and must not be equal."""
import os
import signal
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("SPILLWAY_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.dirname(os.environ.get("SPILLWAY_BIN") or os.path.join(SOURCE, "build", "bin"))
os.environ["SPILLWAY_CHECKPOINT_LIBRARY"] = os.path.join(BUILD, "lib", "libspillway_checkpoint.so.1")
sys.path.insert(0, os.path.join(SOURCE, "checkpoint", "python"))

try:
    import torch
except ImportError:
    torch = None
import spillway

TRAINING = r"""
import hashlib, os, signal, sys
import torch
import spillway, spillway.torch
directory, total, die_at, what = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.manual_seed(11)
torch.set_num_threads(1)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(32, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2)
        self.head = torch.nn.Linear(16, 32)
    def forward(self, x):
        return self.head(self.encoder(self.embed(x)))

class Sampler:
    # A shuffled loader whose place is part of the state: the epoch's order comes from its own generator.
    def __init__(self, n, batch):
        self.n, self.batch, self.at, self.order = n, batch, 0, None
        self.generator = torch.Generator().manual_seed(5)
    def next(self):
        if self.order is None or self.at + self.batch > self.n:
            self.order, self.at = torch.randperm(self.n, generator=self.generator), 0
        taken = self.order[self.at:self.at + self.batch]
        self.at += self.batch
        return taken
    def state_dict(self):
        return {"at": self.at, "order": self.order, "generator": self.generator.get_state()}
    def load_state_dict(self, state):
        self.at, self.order = state["at"], state["order"]
        self.generator.set_state(state["generator"])

data = torch.randint(0, 32, (40, 9), generator=torch.Generator().manual_seed(3))
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
sampler = Sampler(len(data), 8)
objects = {"model": model, "optimizer": optimizer, "schedule": schedule, "sampler": sampler}
if what == "without-optimizer":
    del objects["optimizer"]
run = spillway.Run(directory, keep_last=2)
newest = run.restore()
if newest:
    assert spillway.torch.load_into(newest, objects) == {"name": "tiny", "shape": (1, 2)}
for step in run.steps(total, 4, state=lambda: spillway.torch.state_of(objects, extra={"name": "tiny", "shape": (1, 2)})):
    batch = data[sampler.next()]
    loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step == die_at:
        os.kill(os.getpid(), signal.SIGKILL)
digest = hashlib.sha256()
for name, tensor in sorted(model.state_dict().items()):
    digest.update(name.encode() + bytes(spillway.torch.to_array(tensor).tobytes()))
print(digest.hexdigest())
"""


@unittest.skipIf(torch is None, "python3-torch is not installed")
class Torch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="spillway-torch-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def train(self, run, die_at=0, what="all"):
        environment = dict(os.environ, PYTHONPATH=os.path.join(SOURCE, "checkpoint", "python"), PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run([sys.executable, "-c", TRAINING, os.path.join(self.folder, run), "26", str(die_at), what], env=environment, capture_output=True, text=True,
                              timeout=200)
        self.assertEqual(done.returncode, -signal.SIGKILL if die_at else 0, done.stderr)
        return done.stdout.strip()

    def test_a_killed_training_ends_bit_equal(self):
        whole = self.train("whole")
        self.assertEqual(len(whole), 64)
        self.assertEqual(self.train("again"), whole, "the training itself repeats")
        for die_at in (3, 11, 22):
            self.train("killed", die_at)
        self.assertEqual(self.train("killed"), whole)
        for die_at in (3, 11, 22):
            self.train("control", die_at, "without-optimizer")
        self.assertNotEqual(self.train("control", what="without-optimizer"), whole)

    def test_types_and_structures_come_back(self):
        import spillway.torch
        from collections import OrderedDict

        class Thing:
            def __init__(self, state):
                self.state = state

            def state_dict(self):
                return self.state

            def load_state_dict(self, state):
                self.state = state

        state = OrderedDict(a=torch.arange(6).reshape(2, 3).t(), b=torch.tensor(1.5, dtype=torch.bfloat16), c={0: {"step": torch.tensor(3.0)}, 1: [1, (2.5, None), "x", True]},
                            d=torch.empty(0, 3), e=torch.tensor([True, False]), f=float("inf"))
        saved, restored = Thing(state), Thing(None)
        with spillway.Writer(os.path.join(self.folder, "run")) as writer:
            writer.save(1, spillway.torch.state_of({"thing": saved}, rng=False))
        newest = spillway.open_newest(os.path.join(self.folder, "run"))
        self.assertIsNone(spillway.torch.load_into(newest, {"thing": restored}, rng=False))

        def same(a, b):
            if isinstance(a, torch.Tensor):
                return a.dtype == b.dtype and torch.equal(a, b)
            if isinstance(a, dict):
                return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
            if isinstance(a, (list, tuple)):
                return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
            return a == b and type(a) is type(b)

        self.assertTrue(same(dict(state), restored.state), restored.state)
        with self.assertRaisesRegex(spillway.DoesNotFit, "no state of other; it has thing"):
            spillway.torch.load_into(newest, {"other": restored}, rng=False)
        with self.assertRaisesRegex(spillway.DoesNotFit, "without the states"):
            spillway.torch.load_into(newest, {"thing": restored})
        with self.assertRaisesRegex(spillway.InvalidArgument, "thing/x is a set"):
            spillway.torch.state_of({"thing": Thing({"x": {1}})})


if __name__ == "__main__":
    unittest.main()
