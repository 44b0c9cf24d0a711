"""What is done with what comes out of a machine while it runs, each stream by its own thread."""

import contextlib
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from rewind.formats import FormatError
from rewind.formats.manifest import Output
from rewind.formats.nixbase32 import sha256
from rewind.formats.trace import Arrivals, End, FrameSource, TraceWriter
from rewind.recorder.pipes import Fifo, Pipe, StreamError

_PHASE = re.compile(rb"^@nix (\{.*\})$", re.MULTILINE)


class Workers:
    """Threads that each see to one stream; at the end of the ``with`` they have ended.

    For that, their streams must have: a machine is to be stopped within the ``with``.

    :param on_error: called, from its thread, when one has failed.
    """

    JOIN_LIMIT = 10.0
    """Seconds that a thread has to end after a failure elsewhere: it can be held up by whoever
    should read the log."""

    def __init__(self, on_error: Callable[[], None]) -> None:
        self._on_error = on_error
        self._threads: list[threading.Thread] = []
        self._errors: list[Exception] = []

    def start(self, what: str, work: Callable[[], None]) -> None:
        """Do *work* in a thread; *what* is the stream's name, for the user."""

        def run() -> None:
            try:
                work()
            except OSError as error:
                self._fail(StreamError(f"cannot write {what}: {error.strerror}"))
            except Exception as error:
                self._fail(error)

        thread = threading.Thread(target=run, name=what, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _fail(self, error: Exception) -> None:
        self._errors.append(error)
        self._on_error()

    def join(self) -> None:
        """Wait for all threads.

        :raises StreamError: (or whatever it was) if one has failed.
        """
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        limit = time.monotonic() + self.JOIN_LIMIT
        for thread in self._threads:
            thread.join(max(0.0, limit - time.monotonic()))


class Display:
    """What the user sees of a run: the job's log as it comes, and how far the run is.

    Nix reads lines that begin with ``@nix`` on a builder's stderr and shows their "phase" in its
    progress bar (Nix's manual is silent on it; stdenv's setup.sh does it, too). The job's own
    ones are in its log, and so reach Nix anyway.

    :param log: the file descriptor for the job's log.
    :param progress: the one for ``@nix`` lines, or None.
    :param interval: the least time between two of these, in seconds of the host's time.
    """

    def __init__(self, log: int, progress: int | None, interval: float = 1.0) -> None:
        self._log = log
        self._progress = progress
        self._interval = interval
        self._lock = threading.Lock()
        self._at_line_start = True
        self._last = time.monotonic()
        self._phase = ""

    def log(self, data: bytes) -> None:
        """Show a piece of the log."""
        for match in _PHASE.finditer(data):
            with contextlib.suppress(ValueError):
                message = json.loads(match[1])
                if message.get("action") == "setPhase":
                    self._phase = f"{message['phase']}, "
        with self._lock:
            _write(self._log, data)
            self._at_line_start = data.endswith(b"\n")

    def end(self) -> None:
        """End the line that the log has ended in: what is said next is no part of it."""
        with self._lock:
            if not self._at_line_start:
                _write(self._log, b"\n")
                self._at_line_start = True

    def reached(self, steps: int, guest_time: int) -> None:
        """Show, if it is time to, how far the run is: its *steps*, and ns of guest time."""
        now = time.monotonic()
        if self._progress is None or now < self._last + self._interval:
            return
        phase = f"{self._phase}{steps:,} steps, {guest_time / 1e9:.1f} s of guest time"
        message = json.dumps({"action": "setPhase", "phase": phase})
        with self._lock:
            # In the middle of a line it would be part of that line.
            if self._at_line_start:
                _write(self._progress, f"@nix {message}\n".encode())
                self._last = now


def copy_log(source: Fifo, path: Path, display: Display) -> None:
    """Write the job's log to the file *path* and show it."""
    with path.open("wb", buffering=0) as file:
        for data in source:
            file.write(data)
            display.log(data)
    display.end()


def read_text(source: Fifo, limit: int) -> str:
    """What *source* says.

    :raises StreamError: if that is more than *limit* bytes.
    """
    text = b""
    for data in source:
        text += data
        if len(text) > limit:
            raise StreamError(f"init said more than {limit:,} bytes")
    return text.decode(errors="backslashreplace")


def copy_nar(source: Fifo, path: Path, store_path: str) -> Output | None:
    """Write the NAR of the output *store_path* to the file *path*; None if there is none."""
    digest = hashlib.sha256()
    size = 0
    with contextlib.ExitStack() as stack:
        file = None
        for data in source:
            # The file is there only if the output is.
            file = file or stack.enter_context(path.open("wb", buffering=0))
            file.write(data)
            digest.update(data)
            size += len(data)
    return Output(store_path, sha256(digest.digest()), size) if size else None


def copy_trace(source: Pipe, path: Path, display: Display) -> tuple[End, Arrivals] | None:
    """Write the trace to the file *path*; None if the machine ended before the trace did.

    :return: its end, and where the perturbations of the schedule came.
    :raises FormatError: if what comes is no trace.
    """
    with source, TraceWriter(path) as writer:
        start = None
        try:
            frames = FrameSource(source)
            for frame in frames:
                if isinstance(frame, End):
                    writer.finish(frame)
                    return frame, frames.arrivals
                writer.add(frame)
                start = frame.first_time if start is None else start
                display.reached(frame.first_step + frame.records, frame.first_time - start)
        except FormatError:
            # Not what came is wrong, but that no more did.
            if not source.over:
                raise
    return None


def _write(fd: int, data: bytes) -> None:
    with memoryview(data) as view:
        while view:
            view = view[os.write(fd, view) :]
