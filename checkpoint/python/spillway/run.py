"""A training run, under Spillway or in a plain directory: where to resume, when to save, when to stop.

    run = spillway.Run("runs/7")                     # the directory counts outside Spillway only
    newest = run.restore()                           # None for a fresh start
    if newest: newest.read_into("w", w)
    for step in run.steps(1000, save_every=50, state=lambda: {"w": w}):
        ...                                          # one step of training; step counts from 1
    # after the last step: saved and told; a notice ends the loop with a save and exit code 85"""
import signal
import sys
from ctypes import byref, c_char_p, c_double, c_int64, c_void_p

from ._library import DataLoss, Fenced, KeyRefused, NotFound, SpillwayError, check, encode, library
from .checkpoint import Writer, open_newest

EXIT_RUN_ME_AGAIN = 85


class Run:
    def __init__(self, directory=None, job_uid="", rank=0, world_size=1, key=None, **keep):
        lib = library()
        self._handle = c_void_p()
        check(lib.spw_run_from_environment(byref(self._handle)))

        def text(function):
            return function(self._handle).decode("utf-8", "surrogateescape")

        self.under_spillway = lib.spw_run_under_spillway(self._handle) == 1
        given = text(lib.spw_run_checkpoint_dir)
        self.directory = given or (str(directory) if directory is not None else None)
        self.job_uid = text(lib.spw_run_job_uid) or job_uid
        self._resume_from = text(lib.spw_run_resume_from)
        self._attempt = lib.spw_run_attempt(self._handle) if given else 0
        # Under Spillway deleting is for the scheduler to order, and nothing is deleted yet.
        self._keep = {} if given else keep
        self.rank, self.world_size, self._key = rank, world_size, key
        self.step = 0
        self.restored = None
        self._writer = None
        self._saved_step = None
        self._stop_signal = None

    def restore(self):
        """The newest good checkpoint, or None. What this very attempt has saved comes before what it was started from."""
        damaged = None
        for source in (self.directory, self._resume_from):
            if not source:
                continue
            try:
                self.restored = open_newest(source, self.job_uid, self._key)
            except NotFound:
                continue
            except DataLoss as e:
                damaged = e
                continue
            for path, why in self.restored.skipped:
                print("spillway: skipped %s: %s" % (path, why), file=sys.stderr)
            self.step = self._saved_step = self.restored.step
            return self.restored
        if damaged is not None:
            raise damaged  # to start anew is for the user to decide
        return None

    def save(self, step, tensors, metadata=None):
        """Commits and tells Spillway. Raises what Writer.save raises."""
        if self.directory is None:
            raise SpillwayError("nowhere to save: give a directory, or run under Spillway")
        if self._writer is None:
            self._writer = Writer(self.directory, self.job_uid, self._attempt, self.restored.saved.ref if self.restored else None, self.rank, self.world_size,
                                  key=self._key, **self._keep)
        saved = self._writer.save(step, tensors, metadata)
        self._saved_step = step
        if self.rank == 0:
            # Found at the end of the attempt all the same when nobody hears it now.
            if library().spw_run_report_checkpoint(self._handle, byref(saved._committed), encode(saved.path)) != 0:
                print("spillway: the checkpoint could not be reported", file=sys.stderr)
        return saved

    def progress(self, step, total=0, **metrics):
        names = (c_char_p * max(1, len(metrics)))(*[encode(name) for name in metrics])
        values = (c_double * max(1, len(metrics)))(*metrics.values())
        library().spw_run_progress(self._handle, step, total, names, values, len(metrics))

    def notice(self):
        """Why this process is to stop: a notice file, or SIGTERM while steps() runs. None: go on."""
        if self._stop_signal is not None:
            return "signal %d" % self._stop_signal
        reason, left = c_char_p(), c_int64()
        if library().spw_run_notice(self._handle, byref(reason), byref(left)):
            return reason.value.decode("utf-8", "replace")
        return None

    def steps(self, total, save_every=0, state=None, metadata=None):
        """Yields the numbers of the steps left, and between two of them saves what state() gives (and metadata()): every save_every steps, after the last one, and
        when told to stop, after which the process exits with 85 to be run again. A full disk costs a checkpoint, never the training."""
        previous = None
        try:
            previous = signal.signal(signal.SIGTERM, lambda number, _: setattr(self, "_stop_signal", number))
        except ValueError:
            pass  # not the main thread: the notice file is what is left
        first = self.step
        try:
            while self.step < total:
                why = self.notice()
                if why is not None:
                    self._stop(why, first, state, metadata)
                yield self.step + 1
                self.step += 1
                self.progress(self.step, total)
                if state is not None and self.step < total and save_every and self.step % save_every == 0:
                    self._save_or_say(state, metadata)
            if state is not None and self.directory is not None and self._saved_step != self.step:
                self.save(self.step, state(), metadata() if metadata else None)
            check(library().spw_run_report_completed(self._handle))
        finally:
            if previous is not None:
                signal.signal(signal.SIGTERM, previous)

    def _save_or_say(self, state, metadata):
        try:
            self.save(self.step, state(), metadata() if metadata else None)
        except (Fenced, KeyRefused):  # none of the saves to come would work either
            raise
        except SpillwayError as e:
            print("spillway: checkpoint of step %d failed, going on: %s" % (self.step, e), file=sys.stderr)

    def _stop(self, why, first, state, metadata):
        print("spillway: stopping after step %d: %s" % (self.step, why), file=sys.stderr)
        if state is not None and self.step > first and self._saved_step != self.step:
            self.save(self.step, state(), metadata() if metadata else None)
        sys.exit(EXIT_RUN_ME_AGAIN if self.step > first else 1)
