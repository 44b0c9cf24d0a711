"""The ways out of a machine: a pipe for its trace, and a FIFO for each of its channels.

Nothing is held in memory, or on the disk twice, and a machine that is faster than who listens
waits, which its guest can't see.
"""

import contextlib
import fcntl
import io
import os
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import attrs

CHUNK = 1 << 16
PIPE = 1 << 20
"""Bytes that a pipe is asked to hold: as much as an unprivileged process may ask for."""


class StreamError(Exception):
    """A stream could not be taken up; the text is a sentence for the user."""


@attrs.define
class Fifo:
    """A FIFO that the device writes to, at *path*; it can be opened before and after QEMU does."""

    path: Path
    _reader: int = attrs.field(init=False)
    _writer: int | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        os.mkfifo(self.path)
        # Without O_NONBLOCK this would wait for QEMU. The writer of our own keeps the reader from
        # seeing an end before QEMU has opened the FIFO.
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._writer = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC)
        os.set_blocking(self._reader, True)
        _enlarge(self._reader)

    def end(self) -> None:
        """Nothing more will come: QEMU has ended."""
        if self._writer is not None:
            os.close(self._writer)
            self._writer = None

    def waiting(self) -> bool:
        """Whether something was sent that was not read yet."""
        count = fcntl.ioctl(self._reader, termios.FIONREAD, bytes(4))
        return int.from_bytes(count, sys.byteorder) > 0

    def __iter__(self) -> Iterator[bytes]:
        """What comes, until its end."""
        try:
            while data := os.read(self._reader, CHUNK):
                yield data
        finally:
            os.close(self._reader)


class Pipe(io.BufferedReader):
    """A large pipe, to be read from here; QEMU writes to the file descriptor *writer*."""

    over = False
    """Whether its end was met."""

    def __init__(self) -> None:
        reader, self.writer = os.pipe()
        _enlarge(reader)
        super().__init__(io.FileIO(reader), CHUNK)

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.over = self.over or not data
        return data


def _enlarge(fd: int) -> None:
    # A user who has many pipes already gets small ones.
    with contextlib.suppress(PermissionError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE)
