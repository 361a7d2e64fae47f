"""PyTorch: state_dicts, optimisers, schedulers and random generators as checkpoints, bit for bit and without pickle.

    run = spillway.Run("runs/7")
    objects = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    newest = run.restore()
    sampler = {"epoch": 0, "at": 0}
    if newest: sampler = spillway.torch.load_into(newest, objects, rng=True)      # what was given as `extra`
    for step in run.steps(1000, save_every=50, state=lambda: spillway.torch.state_of(objects, rng=True, extra=sampler)):
        ...

state_of gives what Writer.save and Run.steps take. Tensors may lie on any device; they come back on the device that the objects are on."""
import ctypes
import json
import random

import torch

from ._library import DoesNotFit, InvalidArgument
from .checkpoint import Array

STRUCTURE = "spillway/structure"
_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64", torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16",
           torch.int32: "i32", torch.int64: "i64", torch.bool: "bool", torch.complex64: "c64", torch.complex128: "c128"}
_TYPES = {name: dtype for dtype, name in _DTYPES.items()}


def _memory(tensor):
    """The bytes of a contiguous tensor on the CPU, where they lie."""
    nbytes = tensor.numel() * tensor.element_size()
    return (ctypes.c_char * nbytes).from_address(tensor.data_ptr()) if nbytes else bytearray()


def to_array(tensor):
    """A tensor as an Array; shares memory where the tensor is contiguous and on the CPU. The tensor must outlive it."""
    if tensor.dtype not in _DTYPES:
        raise InvalidArgument("tensors of %s are not supported" % tensor.dtype)
    held = tensor.detach().to("cpu").contiguous()
    array = Array(_memory(held), _DTYPES[held.dtype], tuple(held.shape))
    array.tensor = held  # keeps the memory
    return array


def read_tensor(checkpoint, name):
    """One tensor of a checkpoint, on the CPU."""
    dtype, shape = checkpoint.tensors[name]
    if dtype not in _TYPES:
        raise DoesNotFit("tensor %r is %s, which torch %s does not have" % (name, dtype, torch.__version__))
    tensor = torch.empty(shape, dtype=_TYPES[dtype])
    if tensor.numel():
        checkpoint.read_into(name, Array(_memory(tensor), dtype, shape))
    return tensor


def _pack(value, path, tensors):
    """JSON for `value`, with every tensor put aside under its path."""
    if isinstance(value, torch.Tensor):
        while path in tensors:  # {"a/b": x, "a": {"b": y}}
            path += "+"
        tensors[path] = to_array(value)
        return {"tensor": path}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    if isinstance(value, dict):
        # Pairs, since keys need not be text: an optimiser counts its parameters.
        return {"dict": [[_pack(key, path + "/key", tensors), _pack(item, "%s/%s" % (path, key), tensors)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"tuple" if isinstance(value, tuple) else "list": [_pack(item, "%s/%d" % (path, i), tensors) for i, item in enumerate(value)]}
    raise InvalidArgument("%s is a %s; a checkpoint holds tensors, numbers, texts, lists, tuples and dicts of these" % (path, type(value).__name__))


def _unpack(packed, checkpoint):
    (kind, value), = packed.items()
    if kind == "tensor":
        return read_tensor(checkpoint, value)
    if kind == "value":
        return value
    if kind == "dict":
        return {_unpack(key, checkpoint): _unpack(item, checkpoint) for key, item in value}
    items = [_unpack(item, checkpoint) for item in value]
    return tuple(items) if kind == "tuple" else items


def rng_state():
    """Of torch on the CPU and on every device that is in use, and of Python's random. NumPy's is the program's own to give as `extra`."""
    state = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_rng_state(state):
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def state_of(objects, rng=True, extra=None):
    """Names and Arrays of everything: `objects` maps names to anything with state_dict(), `extra` is plain data."""
    tensors = {}
    structure = {name: _pack(thing.state_dict(), name, tensors) for name, thing in objects.items()}
    structure = {"objects": structure, "rng": _pack(rng_state(), "rng", tensors) if rng else None, "extra": _pack(extra, "extra", tensors)}
    tensors[STRUCTURE] = Array(json.dumps(structure).encode(), "u8")
    return tensors


def load_into(checkpoint, objects, rng=True):
    """Gives every object its state back, and the generators theirs; returns `extra`. Raises DoesNotFit when an object is not in the checkpoint."""
    if STRUCTURE not in checkpoint:
        raise DoesNotFit("%s was not saved with spillway.torch: it has no %s" % (checkpoint.path, STRUCTURE))
    structure = json.loads(checkpoint[STRUCTURE].tobytes())
    missing = sorted(set(objects) - set(structure["objects"]))
    if missing:
        raise DoesNotFit("the checkpoint has no state of %s; it has %s" % (", ".join(missing), ", ".join(sorted(structure["objects"]))))
    for name, thing in objects.items():
        thing.load_state_dict(_unpack(structure["objects"][name], checkpoint))
    if rng:
        if structure["rng"] is None:
            raise DoesNotFit("the checkpoint was saved without the states of the random generators")
        set_rng_state(_unpack(structure["rng"], checkpoint))
    return _unpack(structure["extra"], checkpoint)
