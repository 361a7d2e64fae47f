"""The C ABI of libspillway_checkpoint.so.1 (checkpoint/capi/include/spillway/checkpoint_c.h), declared for ctypes. Nothing but that."""
import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_void_p

ABI_VERSION = 2
KEY_BYTES = 32


class Tensor(Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("dtype", c_int32), ("dims", c_int32), ("shape", POINTER(c_int64)), ("data", c_void_p),
                ("bytes", c_int64), ("global_shape", POINTER(c_int64)), ("offset", POINTER(c_int64))]


class TensorInfo(Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("dtype", c_int32), ("dims", c_int32), ("shape", POINTER(c_int64))]


class Committed(Structure):
    _fields_ = [("struct_size", c_size_t), ("attempt", c_int64), ("step", c_int64), ("bytes", c_int64), ("manifest_sha256", c_char * 65)]


class WriterOptions(Structure):
    _fields_ = [("struct_size", c_size_t), ("directory", c_char_p), ("job_uid", c_char_p), ("attempt", c_int64), ("parent_attempt", c_int64),
                ("parent_step", c_int64), ("rank", c_int32), ("world_size", c_int32), ("peers_wait_ms", c_int64), ("keep_last", c_int64),
                ("keep_best", c_int64), ("keep_every", c_int64), ("metric", c_char_p), ("maximize", c_int32)]


class SpillwayError(Exception):
    """What the library refused or could not do. The subclass says what can be done about it."""


class InvalidArgument(SpillwayError):
    """Correct the call."""


class PeerMissing(SpillwayError):
    """Another process of a joint save did not come in time."""


class NotFound(SpillwayError):
    """There is nothing to restore: start anew."""


class AlreadyExists(SpillwayError):
    """This step is committed already, and good."""


class DiskFull(SpillwayError):
    """Go on training; a later save may work again."""


class DoesNotFit(SpillwayError):
    """The checkpoint has another tensor, shape, dtype or job."""


class Fenced(SpillwayError):
    """Another attempt owns the directory: stop."""


class DataLoss(SpillwayError):
    """Damaged."""


class KeyRefused(SpillwayError):
    """The key: missing, another one, or not to be had. What is there is there: never a reason to start anew."""


_ERRORS = {3: InvalidArgument, 4: PeerMissing, 5: NotFound, 6: AlreadyExists, 8: DiskFull, 9: DoesNotFit, 10: Fenced, 15: DataLoss, 16: KeyRefused}

_FUNCTIONS = {
    "spw_abi_version": (c_uint32, []),
    "spw_library_version": (c_char_p, []),
    "spw_last_error": (c_char_p, []),
    "spw_key_from_file": (c_int32, [c_char_p, c_char_p]),
    "spw_rewrap": (c_int32, [c_char_p, c_char_p, c_char_p, c_int32]),
    "spw_writer_options_init": (None, [POINTER(WriterOptions)]),
    "spw_writer_open": (c_int32, [POINTER(WriterOptions), POINTER(c_void_p)]),
    "spw_writer_open_with_key": (c_int32, [POINTER(WriterOptions), c_char_p, POINTER(c_void_p)]),
    "spw_writer_close": (None, [c_void_p]),
    "spw_writer_attempt": (c_int64, [c_void_p]),
    "spw_writer_save": (c_int32, [c_void_p, c_int64, POINTER(Tensor), c_size_t, POINTER(c_char_p), c_size_t, POINTER(Committed)]),
    "spw_writer_saved_path": (c_char_p, [c_void_p]),
    "spw_writer_pruning_error": (c_char_p, [c_void_p]),
    "spw_reader_open": (c_int32, [c_char_p, POINTER(c_void_p)]),
    "spw_reader_open_newest": (c_int32, [c_char_p, c_char_p, POINTER(c_void_p)]),
    "spw_reader_open_with_key": (c_int32, [c_char_p, c_char_p, POINTER(c_void_p)]),
    "spw_reader_open_newest_with_key": (c_int32, [c_char_p, c_char_p, c_char_p, POINTER(c_void_p)]),
    "spw_reader_close": (None, [c_void_p]),
    "spw_reader_checkpoint": (None, [c_void_p, POINTER(Committed)]),
    "spw_reader_path": (c_char_p, [c_void_p]),
    "spw_reader_tensor_count": (c_size_t, [c_void_p]),
    "spw_reader_tensor": (c_int32, [c_void_p, c_size_t, POINTER(TensorInfo)]),
    "spw_reader_metadata_count": (c_size_t, [c_void_p]),
    "spw_reader_metadata": (c_int32, [c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_char_p)]),
    "spw_reader_skipped_count": (c_size_t, [c_void_p]),
    "spw_reader_skipped": (c_int32, [c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_char_p)]),
    "spw_reader_read": (c_int32, [c_void_p, POINTER(Tensor)]),
    "spw_run_from_environment": (c_int32, [POINTER(c_void_p)]),
    "spw_run_close": (None, [c_void_p]),
    "spw_run_under_spillway": (c_int32, [c_void_p]),
    "spw_run_attempt": (c_int64, [c_void_p]),
    "spw_run_job_uid": (c_char_p, [c_void_p]),
    "spw_run_checkpoint_dir": (c_char_p, [c_void_p]),
    "spw_run_resume_from": (c_char_p, [c_void_p]),
    "spw_run_notice": (c_int32, [c_void_p, POINTER(c_char_p), POINTER(c_int64)]),
    "spw_run_progress": (None, [c_void_p, c_int64, c_int64, POINTER(c_char_p), POINTER(c_double), c_size_t]),
    "spw_run_report_checkpoint": (c_int32, [c_void_p, POINTER(Committed), c_char_p]),
    "spw_run_report_completed": (c_int32, [c_void_p]),
}

_loaded = None


def _candidates():
    named = os.environ.get("SPILLWAY_CHECKPOINT_LIBRARY")
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    return [os.path.join(here, "libspillway_checkpoint.so.1"), os.path.join(here, "..", "..", "..", "build", "lib", "libspillway_checkpoint.so.1"),
            "libspillway_checkpoint.so.1"]


def library():
    """The library, found once: SPILLWAY_CHECKPOINT_LIBRARY, beside this package, in the build of this source tree, or where the loader looks."""
    global _loaded
    if _loaded is None:
        problems = []
        for path in _candidates():
            try:
                found = ctypes.CDLL(path)
                break
            except OSError as e:
                problems.append(str(e))
        else:
            raise SpillwayError("libspillway_checkpoint.so.1 is not found; build the target spillway_checkpoint_c or set SPILLWAY_CHECKPOINT_LIBRARY: " +
                                "; ".join(problems))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
        if found.spw_abi_version() < ABI_VERSION:
            raise SpillwayError("libspillway_checkpoint.so.1 has version %d of its interface; this package needs %d" % (found.spw_abi_version(), ABI_VERSION))
        _loaded = found
    return _loaded


def check(code):
    if code != 0:
        raise _ERRORS.get(code, SpillwayError)(library().spw_last_error().decode("utf-8", "replace"))


def encode(text):
    """A path or text for C. The empty one stays empty; a zero byte would cut it short and is refused."""
    raw = os.fsencode(text) if not isinstance(text, str) else text.encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise InvalidArgument("a zero byte in %r" % text)
    return raw


def text_at(function, handle, index):
    first, second = c_char_p(), c_char_p()
    check(function(handle, index, byref(first), byref(second)))
    return first.value.decode("utf-8", "surrogateescape"), second.value.decode("utf-8", "surrogateescape")


def key_bytes(key):
    """A key for C: 32 bytes or 64 hex digits; b"" is none, as NULL."""
    if isinstance(key, str):
        try:
            raw = bytes.fromhex(key)
        except ValueError:
            raw = key.encode()
    else:
        raw = bytes(key)
    if len(raw) not in (0, KEY_BYTES):
        raise InvalidArgument("a checkpoint key is %d bytes or %d hex digits" % (KEY_BYTES, 2 * KEY_BYTES))
    return raw or None
