"""What goes between a user and a shell in a machine."""

import os
import pty
import struct
import termios
import threading
import time
from collections.abc import Iterator

import pytest

from rewind.cli.relay import Left, Relay, raw, window


class Machine:
    """The machine's ends of pipes, and the relay at the other ones."""

    def __init__(self, source: int, *, terminal: bool = False) -> None:
        self.input, to_machine = os.pipe()
        from_output, self.output = os.pipe()
        from_errors, self.errors = os.pipe()
        from_result, self.result = os.pipe()
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = os.pipe()
        self.relay = Relay(
            to_machine, source, {from_output: stdout, from_errors: stderr}, from_result, terminal
        )
        self.open = [
            *(self.input, to_machine, from_output, self.output, from_errors, self.errors),
            *(from_result, self.result, self.stdout, stdout, self.stderr, stderr),
        ]

    def end(self, result: bytes) -> None:
        """The machine says *result*, and ends."""
        os.write(self.result, result)
        for fd in (self.input, self.output, self.errors, self.result):
            self.close(fd)

    def close(self, fd: int) -> None:
        """Close one end."""
        self.open.remove(fd)
        os.close(fd)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe for what the user types; the writing end is the test's to close."""
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)


def frames(fd: int, count: int) -> list[tuple[bytes, bytes]]:
    """The next frames that come to the machine."""
    found = []
    for _ in range(count):
        kind, length = struct.unpack("<cxH", os.read(fd, 4))
        data = b""
        while len(data) < length:
            data += os.read(fd, length - len(data))
        found.append((kind, data))
    return found


def close_all(machine: Machine) -> None:
    for fd in list(machine.open):
        machine.close(fd)


def test_both_ways(pipe: tuple[int, int]) -> None:
    machine = Machine(pipe[0])
    os.write(pipe[1], b"ls\n\0\xff")
    os.close(pipe[1])
    os.write(machine.output, b"out\xff")
    os.write(machine.errors, b"err")
    found: list[tuple[bytes, bytes]] = []

    def play() -> None:
        found.extend(frames(machine.input, 2))
        machine.end(b"exited 3\n")

    thread = threading.Thread(target=play)
    thread.start()
    assert machine.relay.run() == b"exited 3\n"
    thread.join()
    assert found == [(b"d", b"ls\n\0\xff"), (b"e", b"")]
    assert os.read(machine.stdout, 100) == b"out\xff"
    assert os.read(machine.stderr, 100) == b"err"
    close_all(machine)


def test_a_machine_that_takes_nothing(pipe: tuple[int, int]) -> None:
    """What it sends still comes through, and little of the input is held."""
    machine = Machine(pipe[0])
    os.set_blocking(pipe[1], False)
    written = 0

    def feed() -> None:
        nonlocal written
        for _ in range(50):
            try:
                written += os.write(pipe[1], bytes(1 << 14))
            except BlockingIOError:
                time.sleep(0.002)
        machine.end(b"exited 0\n")

    thread = threading.Thread(target=feed)
    thread.start()
    assert machine.relay.run() == b"exited 0\n"
    thread.join()
    # Two pipes and a chunk.
    assert written <= 3 * (1 << 16)
    os.close(pipe[1])
    close_all(machine)


def test_a_machine_that_is_gone(pipe: tuple[int, int]) -> None:
    """Nobody takes what is typed, and what was said before is returned."""
    machine = Machine(pipe[0])
    machine.end(b"")
    os.write(pipe[1], b"x")
    assert machine.relay.run() == b""
    os.close(pipe[1])
    close_all(machine)


def test_leaving() -> None:
    """Three times Ctrl-] at once, and no other key between; the terminal is as it was."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    machine = Machine(slave, terminal=True)
    with raw(slave):
        os.write(master, b"\x1d\x1da\x1d")
        thread = threading.Timer(0.3, os.write, (master, b"\x1d\x1d"))
        thread.start()
        with pytest.raises(Left):
            machine.relay.run()
        thread.join()
    assert termios.tcgetattr(slave) == before
    assert frames(machine.input, 1) == [(b"d", b"\x1d\x1da\x1d")]
    close_all(machine)
    os.close(master)
    os.close(slave)


def test_window() -> None:
    """Of a terminal that was told no size, and of what is none."""
    master, slave = pty.openpty()
    assert window(slave) == (24, 80)
    termios.tcsetwinsize(slave, (30, 100))
    assert window(slave) == (30, 100)
    os.close(master)
    os.close(slave)
    reader, writer = os.pipe()
    assert window(reader) == (24, 80)
    os.close(reader)
    os.close(writer)
