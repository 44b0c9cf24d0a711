"""A map over processes, for work that is all in Python."""

import contextlib
import fcntl
import os
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TypeVar

from rewind.formats import FormatError

T = TypeVar("T")

_LENGTH = struct.Struct("<qq")
_ERROR = -1


def workers(most: int) -> int:
    """How many processes can work at once here, at most *most*."""
    return max(1, min(most, len(os.sched_getaffinity(0))))


def ordered_map(
    work: Callable[[T], tuple[bytes, bytes]], items: Sequence[T], processes: int
) -> Iterator[tuple[bytes, bytes]]:
    """*work* of each of *items*, in order, done by *processes* forks of this process.

    The results are two strings of bytes each. The n-th process has every n-th item: so no process
    is far ahead, and what it has ready waits in its pipe.

    :raises FormatError: that *work* raised, in its place.
    """
    if processes < 2 or len(items) < 2:
        yield from map(work, items)
        return
    # What is buffered would be written by every process.
    sys.stdout.flush()
    sys.stderr.flush()
    children: list[int] = []
    pipes: list[int] = []
    try:
        for number in range(processes):
            reader, writer = os.pipe()
            # Room for what is ready; without, a process only works while it is being read. A
            # user may have no more pipes of this size, and then it is slower.
            with contextlib.suppress(PermissionError):
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
            child = os.fork()
            if child == 0:
                for pipe in (*pipes, reader):
                    os.close(pipe)
                _serve(work, items[number::processes], writer)
            os.close(writer)
            children.append(child)
            pipes.append(reader)
        files = [os.fdopen(pipe, "rb", 1 << 20) for pipe in pipes]
        pipes = []
        try:
            for number in range(len(items)):
                file = files[number % processes]
                head = file.read(_LENGTH.size)
                if len(head) < _LENGTH.size:
                    raise ChildProcessError("a worker process died")
                first, second = _LENGTH.unpack(head)
                if first == _ERROR:
                    raise FormatError(file.read(second).decode())
                yield file.read(first), file.read(second)
        finally:
            for file in files:
                file.close()
    finally:
        for pipe in pipes:
            os.close(pipe)
        # A child that still writes has nobody to read it now, and ends.
        for child in children:
            os.waitpid(child, 0)


def _serve(work: Callable[[T], tuple[bytes, bytes]], items: Sequence[T], writer: int) -> NoReturn:
    status = 1
    try:
        with os.fdopen(writer, "wb", 1 << 20) as file:
            for item in items:
                try:
                    first, second = work(item)
                except FormatError as error:
                    text = str(error).encode()
                    file.write(_LENGTH.pack(_ERROR, len(text)) + text)
                    break
                file.write(_LENGTH.pack(len(first), len(second)))
                file.write(first)
                file.write(second)
                file.flush()
        status = 0
    except BrokenPipeError:
        status = 0
    finally:
        # Without what the parent has registered to be done at its exit.
        os._exit(status)
