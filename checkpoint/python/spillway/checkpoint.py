"""Saving and restoring named arrays, so that either the new checkpoint or the one before it is there, whatever happens.

    writer = Writer("runs/7", keep_last=2)
    writer.save(120, {"w": numpy_array, "rng": bytearray(32)}, {"loss": "0.31"})
    newest = open_newest("runs/7")
    newest["w"]                                  # an Array: a buffer with shape and dtype
    newest.read_into("w", numpy_array)           # straight into memory that is there

An array is anything with the buffer protocol that is C-contiguous: numpy arrays, array.array, bytearray, memoryview, torch.Tensor.numpy().
With key=, 32 bytes or 64 hex digits, checkpoints are encrypted, and only such are restored. None: what SPILLWAY_CHECKPOINT_KEY_FILE, _FD or _COMMAND names, or no
key where none is set; b"": no key whatever is set.

Types that buffers have no letter for (bf16, f8e4m3, f8e5m2) are given as Array(buffer, dtype, shape). Nothing is pickled."""
import ctypes
from ctypes import byref, c_char_p, c_int64, c_void_p, sizeof

from . import _library
from ._library import KEY_BYTES, InvalidArgument, check, encode, key_bytes, library, text_at

DTYPES = {"f32": 1, "f16": 2, "bf16": 3, "f64": 4, "i8": 5, "u8": 6, "i16": 7, "u16": 8, "i32": 9, "u32": 10, "i64": 11, "u64": 12, "bool": 13, "f8e4m3": 14,
          "f8e5m2": 15, "c64": 16, "c128": 17}
ITEM_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "bool": 1, "f8e4m3": 1,
              "f8e5m2": 1, "c64": 8, "c128": 16}
_NAMES = {code: name for name, code in DTYPES.items()}
# Letters of the buffer protocol; "l" and "L" have the size of a long.
_LETTERS = {"f": "f32", "e": "f16", "d": "f64", "b": "i8", "B": "u8", "c": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "q": "i64", "Q": "u64",
            "l": "i64" if ctypes.sizeof(ctypes.c_long) == 8 else "i32", "L": "u64" if ctypes.sizeof(ctypes.c_long) == 8 else "u32", "?": "bool",
            "Zf": "c64", "Zd": "c128"}


def _product(shape):
    total = 1
    for extent in shape:
        total *= extent
    return total


class Array:
    """Memory with a type and a shape: what is saved, and what a checkpoint gives back. Has the buffer protocol through memoryview(array.data)."""

    def __init__(self, data, dtype, shape=None):
        if dtype not in DTYPES:
            raise InvalidArgument("unknown dtype %r; one of %s" % (dtype, ", ".join(DTYPES)))
        self.data = memoryview(data)
        if not self.data.c_contiguous:
            raise InvalidArgument("the array is not contiguous in row order; copy it first")
        self.dtype = dtype
        self.shape = tuple(shape) if shape is not None else (self.data.nbytes // ITEM_BYTES[dtype],)
        if _product(self.shape) * ITEM_BYTES[dtype] != self.data.nbytes:
            raise InvalidArgument("%d bytes, but %s%s has %d" % (self.data.nbytes, dtype, list(self.shape), _product(self.shape) * ITEM_BYTES[dtype]))

    @classmethod
    def empty(cls, dtype, shape):
        if dtype not in DTYPES:
            raise InvalidArgument("unknown dtype %r; one of %s" % (dtype, ", ".join(DTYPES)))
        return cls(bytearray(_product(shape) * ITEM_BYTES[dtype]), dtype, shape)

    @classmethod
    def of(cls, value):
        """An Array as it is; anything else by its buffer."""
        if isinstance(value, Array):
            return value
        view = memoryview(value)
        letter = view.format.lstrip("@=<")
        if letter not in _LETTERS or (view.format[0] in ">!" and view.itemsize > 1):
            raise InvalidArgument("a buffer of format %r has no dtype here; give Array(buffer, dtype, shape)" % view.format)
        return cls(view, _LETTERS[letter], view.shape)

    def cast(self):
        """A memoryview with this shape, where buffers have a letter for the dtype."""
        for letter, dtype in _LETTERS.items():
            if dtype == self.dtype and letter not in ("c", "l", "L") and len(letter) == 1:
                flat = self.data.cast("B").cast(letter)
                return flat if len(self.shape) == 1 else self.data.cast("B").cast(letter, self.shape)
        raise InvalidArgument("buffers have no letter for %s" % self.dtype)

    def tobytes(self):
        return self.data.tobytes()

    def __repr__(self):
        return "Array(%s%s)" % (self.dtype, list(self.shape))


class Part:
    """A piece of a larger array, which other processes hold the rest of: it begins at `offset` of an array of `global_shape`."""

    def __init__(self, value, global_shape, offset):
        self.array = Array.of(value)
        self.global_shape = tuple(global_shape)
        self.offset = tuple(offset)
        if len(self.global_shape) != len(self.array.shape) or len(self.offset) != len(self.array.shape):
            raise InvalidArgument("global_shape %s and offset %s need as many dimensions as %s" %
                                  (list(self.global_shape), list(self.offset), list(self.array.shape)))


def _int64s(values):
    return (c_int64 * max(1, len(values)))(*values)


def _tensor(name, value, keep, writable=False):
    """The C structure for one array; `keep` holds what must outlive the call."""
    part = value if isinstance(value, Part) else None
    array = part.array if part else Array.of(value)
    if writable and array.data.readonly:
        raise InvalidArgument("tensor %r: the memory to restore to is read-only" % name)
    if array.data.nbytes == 0:
        address = None
    else:
        # ctypes takes the address of writable memory only: what is read-only (bytes) is copied.
        holder = (ctypes.c_char * array.data.nbytes).from_buffer(bytearray(array.data.tobytes()) if array.data.readonly else array.data)
        keep.append(holder)
        address = ctypes.addressof(holder)
    shape = _int64s(array.shape)
    encoded = encode(name)
    keep.extend([shape, encoded, array])
    tensor = _library.Tensor(sizeof(_library.Tensor), encoded, DTYPES[array.dtype], len(array.shape), shape, address, array.data.nbytes, None, None)
    if part:
        tensor.global_shape, tensor.offset = _int64s(part.global_shape), _int64s(part.offset)
        keep.extend([tensor.global_shape, tensor.offset])
    return tensor


class Saved:
    """A committed checkpoint."""

    def __init__(self, path, committed):
        self.path = path
        self.attempt, self.step, self.bytes = committed.attempt, committed.step, committed.bytes
        self.manifest_sha256 = committed.manifest_sha256.decode()
        self._committed = committed

    @property
    def ref(self):
        return self.attempt, self.step

    def __repr__(self):
        return "Saved(%r, attempt=%d, step=%d)" % (self.path, self.attempt, self.step)


class Writer:
    """Owns a directory until another writer is opened on it; then every save raises Fenced. `parent` is the (attempt, step) resumed from. With world_size > 1 every
    process opens one and calls save with the same steps. Outside Spillway keep_last (2 or more), keep_best by the metadata's `metric` and keep_every say what stays."""

    def __init__(self, directory, job_uid="", attempt=0, parent=None, rank=0, world_size=1, peers_wait=600.0, keep_last=0, keep_best=0, keep_every=0, metric="",
                 maximize=False, key=None):
        self._handle = None
        options = _library.WriterOptions()
        library().spw_writer_options_init(byref(options))
        options.directory, options.job_uid, options.attempt = encode(directory), encode(job_uid), attempt
        if parent is not None:
            options.parent_attempt, options.parent_step = parent
        options.rank, options.world_size, options.peers_wait_ms = rank, world_size, int(peers_wait * 1000)
        options.keep_last, options.keep_best, options.keep_every = keep_last, keep_best, keep_every
        options.metric, options.maximize = encode(metric), 1 if maximize else 0
        handle = c_void_p()
        if key is None:
            check(library().spw_writer_open(byref(options), byref(handle)))
        else:
            check(library().spw_writer_open_with_key(byref(options), key_bytes(key), byref(handle)))
        self._handle = handle
        self.attempt = library().spw_writer_attempt(handle)

    def save(self, step, tensors, metadata=None):
        """Returns once the checkpoint is committed and durable."""
        keep = []
        structures = (_library.Tensor * max(1, len(tensors)))(*[_tensor(name, value, keep) for name, value in tensors.items()])
        pairs = []
        for key, value in (metadata or {}).items():
            pairs += [encode(key), encode(value)]
        array = (c_char_p * max(1, len(pairs)))(*pairs)
        committed = _library.Committed(struct_size=sizeof(_library.Committed))
        check(library().spw_writer_save(self._handle, step, structures, len(tensors), array, len(pairs) // 2, byref(committed)))
        return Saved(library().spw_writer_saved_path(self._handle).decode("utf-8", "surrogateescape"), committed)

    @property
    def pruning_error(self):
        """Why pruning failed after the last save; "" when it did not."""
        return library().spw_writer_pruning_error(self._handle).decode("utf-8", "replace")

    def close(self):
        if self._handle is not None:
            library().spw_writer_close(self._handle)
            self._handle = None

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Checkpoint:
    """An opened checkpoint: a mapping of names to arrays, each read when it is asked for. `tensors` gives dtype and shape without reading."""

    def __init__(self, handle):
        self._handle = handle
        lib = library()
        committed = _library.Committed(struct_size=sizeof(_library.Committed))
        lib.spw_reader_checkpoint(handle, byref(committed))
        self.saved = Saved(lib.spw_reader_path(handle).decode("utf-8", "surrogateescape"), committed)
        self.path, self.attempt, self.step = self.saved.path, committed.attempt, committed.step
        self.tensors = {}
        for i in range(lib.spw_reader_tensor_count(handle)):
            info = _library.TensorInfo(struct_size=sizeof(_library.TensorInfo))
            check(lib.spw_reader_tensor(handle, i, byref(info)))
            self.tensors[info.name.decode("utf-8", "surrogateescape")] = (_NAMES[info.dtype], tuple(info.shape[d] for d in range(info.dims)))
        self.metadata = dict(text_at(lib.spw_reader_metadata, handle, i) for i in range(lib.spw_reader_metadata_count(handle)))
        # Newer ones that could not be used, newest first: (path, why).
        self.skipped = [text_at(lib.spw_reader_skipped, handle, i) for i in range(lib.spw_reader_skipped_count(handle))]

    def __getitem__(self, name):
        dtype, shape = self.tensors[name]
        array = Array.empty(dtype, shape)
        self.read_into(name, array)
        return array

    def __contains__(self, name):
        return name in self.tensors

    def __iter__(self):
        return iter(self.tensors)

    def __len__(self):
        return len(self.tensors)

    def read_part(self, name, offset, shape):
        """A piece of an array, whichever processes saved it."""
        dtype, global_shape = self.tensors[name]
        array = Array.empty(dtype, shape)
        self.read_into(name, Part(array, global_shape, offset))
        return array

    def read_into(self, name, target):
        """Fills memory that is there: anything writable with a buffer, an Array, or a Part."""
        keep = []
        check(library().spw_reader_read(self._handle, byref(_tensor(name, target, keep, writable=True))))

    def close(self):
        if self._handle is not None:
            library().spw_reader_close(self._handle)
            self._handle = None

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def open_checkpoint(path, key=None):
    """The checkpoint in one step directory."""
    handle = c_void_p()
    if key is None:
        check(library().spw_reader_open(encode(path), byref(handle)))
    else:
        check(library().spw_reader_open_with_key(encode(path), key_bytes(key), byref(handle)))
    return Checkpoint(handle)


def open_newest(resume_from, job_uid="", key=None):
    """The newest good checkpoint from there back: a step directory, or the directory of a run. Raises NotFound when there is none, DataLoss when all are damaged, KeyRefused
    when the key does not open the newest."""
    handle = c_void_p()
    if key is None:
        check(library().spw_reader_open_newest(encode(resume_from), encode(job_uid), byref(handle)))
    else:
        check(library().spw_reader_open_newest_with_key(encode(resume_from), encode(job_uid), key_bytes(key), byref(handle)))
    return Checkpoint(handle)


def key_from_file(path):
    """The key in a file of 64 hex digits that nobody but this user may read."""
    key = ctypes.create_string_buffer(KEY_BYTES)
    check(library().spw_key_from_file(encode(path), key))
    return key.raw


def rewrap(path, old_key, new_key, keep_old=False):
    """Lets new_key open the checkpoint in one step directory, and old_key no longer unless keep_old. Its data and its manifest stay as they are."""
    old, new = key_bytes(old_key), key_bytes(new_key)
    check(library().spw_rewrap(encode(path), old, new, 1 if keep_old else 0))
