"""Spillway for training programs in Python: checkpoints that are there whole or not at all, under Spillway and outside it.
Built on the C library (libspillway_checkpoint.so.1) with ctypes; needs nothing but Python 3. spillway.torch adds PyTorch."""
from ._library import AlreadyExists, DataLoss, DiskFull, DoesNotFit, Fenced, InvalidArgument, KeyRefused, NotFound, PeerMissing, SpillwayError
from .checkpoint import Array, Checkpoint, Part, Saved, Writer, key_from_file, open_checkpoint, open_newest, rewrap
from .run import EXIT_RUN_ME_AGAIN, Run

__all__ = ["AlreadyExists", "Array", "Checkpoint", "DataLoss", "DiskFull", "DoesNotFit", "EXIT_RUN_ME_AGAIN", "Fenced", "InvalidArgument", "KeyRefused", "NotFound",
           "Part", "PeerMissing", "Run", "Saved", "SpillwayError", "Writer", "key_from_file", "open_checkpoint", "open_newest", "rewrap"]
