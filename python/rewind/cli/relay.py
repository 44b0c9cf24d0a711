"""What goes between a user and a shell in a machine: keys and window one way, output the other.

Towards the machine it is frames, as vm-configs/init/shell.c takes them: a letter, a byte of
nothing, the length of what follows with 16 bits, and that: ``d``, data; ``e``, the end of the data;
``w``, the window's rows and columns, 16 bits each. A machine takes its time, and may take nothing:
what it has not taken is kept here, and little of it.
"""

import contextlib
import os
import selectors
import signal
import struct
import termios
import time
import tty
from collections.abc import Iterator
from types import FrameType

import attrs

_CHUNK = 1 << 14
_FRAME = struct.Struct("<cxH")
_WINDOW = struct.Struct("<HH")

_ESCAPE = 0x1D
_ESCAPES = 3
_ESCAPE_SECONDS = 1.0


class Left(Exception):
    """The user has left a shell that did not end by itself."""


def window(terminal: int) -> tuple[int, int]:
    """Rows and columns of *terminal*."""
    try:
        size = os.get_terminal_size(terminal)
    except OSError:
        return 24, 80
    # A terminal that nobody has told its size says 0.
    return size.lines or 24, size.columns or 80


@contextlib.contextmanager
def raw(terminal: int) -> Iterator[None]:
    """Every key on *terminal* is for who reads it, Ctrl-C too; at the end it is as it was."""
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizes() -> Iterator[int]:
    """A file descriptor that can be read after each change of the terminal's size."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def changed(number: int, frame: FrameType | None) -> None:
        # One that was not read yet is as good.
        with contextlib.suppress(BlockingIOError):
            os.write(writer, b"\0")

    before = signal.signal(signal.SIGWINCH, changed)
    try:
        yield reader
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(reader)
        os.close(writer)


@attrs.define
class Relay:
    """Hands on what is typed to *machine*, and what it sends to those who read it.

    :param machine: the writing end of the machine's input.
    :param terminal: the user's input is a terminal, in raw mode.
    """

    machine: int
    source: int
    """Where the user's input comes from."""
    outputs: dict[int, int]
    """Where what comes from a file descriptor goes."""
    result: int
    """Where the end is told."""
    terminal: bool
    _waiting: bytearray = attrs.field(factory=bytearray, init=False)
    _over: bool = attrs.field(default=False, init=False)
    _escapes: list[float] = attrs.field(factory=list, init=False)

    def run(self) -> bytes:
        """Do so until all that comes from the machine has ended; what the end was.

        :raises Left: if the user has pressed Ctrl-] three times.
        """
        os.set_blocking(self.machine, False)
        said = b""
        coming = {*self.outputs, self.result}
        with selectors.PollSelector() as selector, contextlib.ExitStack() as stack:
            resized = stack.enter_context(_resizes()) if self.terminal else None
            for fd in coming:
                selector.register(fd, selectors.EVENT_READ)
            if resized is not None:
                selector.register(resized, selectors.EVENT_READ)
            while coming:
                self._listen(selector)
                for key, _ in selector.select():
                    fd = key.fd
                    if fd == resized:
                        os.read(fd, _CHUNK)
                        self._send(b"w", _WINDOW.pack(*window(self.source)))
                    elif fd == self.source:
                        self._take()
                    elif fd == self.machine:
                        self._give()
                    elif data := os.read(fd, _CHUNK):
                        if fd == self.result:
                            said += data
                        else:
                            _write(self.outputs[fd], data)
                    else:
                        selector.unregister(fd)
                        coming.discard(fd)
        return said

    def _listen(self, selector: selectors.BaseSelector) -> None:
        """Take more from the user only if the machine has taken what there was."""
        for fd, wanted, event in (
            (self.source, not self._waiting and not self._over, selectors.EVENT_READ),
            (self.machine, bool(self._waiting), selectors.EVENT_WRITE),
        ):
            known = fd in selector.get_map()
            if wanted and not known:
                selector.register(fd, event)
            elif known and not wanted:
                selector.unregister(fd)

    def _take(self) -> None:
        try:
            data = os.read(self.source, _CHUNK)
        except OSError:
            # A terminal that was closed.
            data = b""
        if not data:
            self._over = True
            self._send(b"e", b"")
            return
        if self.terminal:
            self._look_for_escape(data)
        self._send(b"d", data)

    def _look_for_escape(self, data: bytes) -> None:
        now = time.monotonic()
        for key in data:
            self._escapes = [*self._escapes, now][-_ESCAPES:] if key == _ESCAPE else []
            if len(self._escapes) == _ESCAPES and now - self._escapes[0] < _ESCAPE_SECONDS:
                raise Left

    def _send(self, kind: bytes, data: bytes) -> None:
        self._waiting += _FRAME.pack(kind, len(data)) + data
        self._give()

    def _give(self) -> None:
        try:
            written = os.write(self.machine, self._waiting)
        except BlockingIOError:
            return
        except BrokenPipeError:
            # The machine has ended; what it said last is still to be read.
            written = len(self._waiting)
            self._over = True
        del self._waiting[:written]


def _write(fd: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
