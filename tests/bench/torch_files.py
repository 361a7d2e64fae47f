#!/usr/bin/env python3
"""PyTorch's own way with the same tensors: torch_files.py training TENSORS.json. Says {"ready": true}, then obeys a line of its input at a time: save FILE
(torch.save and fsync), restore FILE (torch.load). Ends with its input."""
import json
import os
import sys
import time

import torch


def say(told):
    print(json.dumps(told), flush=True)


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        shapes = json.load(file)
    torch.manual_seed(20)
    state = {name: torch.rand(elements) for name, elements in shapes}
    say({"ready": True})
    done = 0
    for line in sys.stdin:
        verb, path = line.split()
        used, began = time.process_time(), time.monotonic()
        if verb == "save":
            with open(path, "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
        else:
            loaded = torch.load(path)
        told = {"seconds": time.monotonic() - began, "processor_seconds": time.process_time() - used}
        if verb == "restore":
            if any(not torch.equal(state[name], loaded[name]) for name in state):
                sys.exit("torch.load brought something else")
            del loaded
        done += 1
        say(told)
    say({"done": done})


if __name__ == "__main__":
    main()
