"""Which step wrote which line of the log."""

from pathlib import Path

import traces
from rewind.analysis.render import CALLS
from rewind.cli.writes import written
from rewind.formats.trace import TraceReader
from traces import detail, end, enter, execute, fork, leave

CLONE_FILES = 0x400


def call(tid: int, name: str, *args: int, value: int = 0, more: bytes = b"") -> list[bytes]:
    number = CALLS.number(name)
    return [enter(tid, number, *args, more=more), leave(tid, number, value)]


def write(tid: int, fd: int, data: bytes, size: int | None = None) -> list[bytes]:
    size = len(data) if size is None else size
    more = detail(1, 2, data, cut=size > len(data))
    return call(tid, "write", fd, 0x1000, size, value=size, more=more)


def lines(tmp_path: Path, log: bytes, *records: bytes) -> list[tuple[int | None, str]]:
    path = traces.write(tmp_path / "trace", list(records))
    with TraceReader(path) as reader:
        return [(line.step, line.text.decode()) for line in written(reader, log)]


def test_plain(tmp_path: Path) -> None:
    """stdout and stderr; a line that several writes make has the step of its first byte."""
    assert lines(
        tmp_path,
        b"one\ntwo\nthree\n",
        *write(1, 1, b"one\nt"),
        *write(1, 5, b"wo\n"),
        *write(1, 2, b"wo\n"),
        *write(1, 1, b"three\n"),
    ) == [(0, "one"), (0, "two"), (6, "three")]


def test_long_write(tmp_path: Path) -> None:
    """The trace has only the beginning of what is written."""
    log = b"x" * 5000 + b"\n" + b"next\n"
    assert lines(tmp_path, log, *write(1, 1, b"xxx", 5001), *write(1, 1, b"next\n")) == [
        (0, "x" * 5000),
        (2, "next"),
    ]


def test_redirected(tmp_path: Path) -> None:
    """In the child, descriptor 1 is a pipe, and 7 the log."""
    assert lines(
        tmp_path,
        b"log\n",
        fork(1, 2),
        *call(2, "dup", 1, value=7),
        *call(2, "dup2", 5, 1, value=1),
        *write(2, 1, b"log\n"),
        *write(2, 7, b"log\n"),
    ) == [(7, "log")]


def test_parent_keeps_its_own(tmp_path: Path) -> None:
    """What a child does to its descriptors, its maker does not see; a thread does."""
    assert lines(
        tmp_path,
        b"a\nb\n",
        fork(1, 2),
        fork(1, 3, CLONE_FILES, child_pid=1),
        *call(2, "close", 1),
        *write(1, 1, b"a\n"),
        *call(3, "dup3", 1, 9, 0, value=9),
        *write(1, 9, b"b\n"),
    ) == [(4, "a"), (8, "b")]


def test_exec_closes(tmp_path: Path) -> None:
    assert lines(
        tmp_path,
        b"b\n",
        *call(1, "fcntl", 1, 1030, 10, value=10),
        *call(1, "fcntl", 2, 0, 10, value=11),
        execute(1, b"/bin/x", b"x"),
        *write(1, 10, b"b\n"),
        *write(1, 11, b"b\n"),
    ) == [(7, "b")]


def test_close_range(tmp_path: Path) -> None:
    assert lines(
        tmp_path,
        b"b\n",
        *call(1, "dup", 1, value=8),
        *call(1, "close_range", 3, 0xFFFFFFFF, 0),
        *write(1, 8, b"b\n"),
        *write(1, 1, b"b\n"),
    ) == [(6, "b")]


def test_opened(tmp_path: Path) -> None:
    opened = call(1, "openat", -100, 0x1000, 1, value=5, more=detail(1, 1, b"/dev/stderr"))
    assert lines(tmp_path, b"x\n", *opened, *write(1, 5, b"x\n")) == [(2, "x")]


def test_reused_number(tmp_path: Path) -> None:
    """A file that gets the number of a closed descriptor is not the log."""
    opened = call(1, "openat", -100, 0x1000, 1, value=1, more=detail(1, 1, b"/build/x"))
    assert lines(
        tmp_path, b"x\n", *call(1, "close", 1), *opened, *write(1, 1, b"x\n"), *write(1, 2, b"x\n")
    ) == [(6, "x")]


def test_unexplained(tmp_path: Path) -> None:
    """Lines that no write explains have no step, and those after them do."""
    assert lines(tmp_path, b"a\nstrange\nb\nend", *write(1, 1, b"a\n"), *write(1, 1, b"b\n")) == [
        (0, "a"),
        (None, "strange"),
        (2, "b"),
        (None, "end"),
    ]


def test_failed_write(tmp_path: Path) -> None:
    failed = call(1, "write", 1, 0x1000, 2, value=-5, more=detail(1, 2, b"a\n"))
    assert lines(tmp_path, b"a\n", *failed, *write(1, 1, b"a\n"), end(1, 0, b"x")) == [(2, "a")]


def test_sendfile(tmp_path: Path) -> None:
    """What has no bytes in the trace is taken to be where it should be."""
    assert lines(tmp_path, b"ab\n", *call(1, "sendfile", 1, 5, 0, 3, value=3)) == [(0, "ab")]


def test_data_in_the_result(tmp_path: Path) -> None:
    """The page was not there when the call began."""
    number = CALLS.number("write")
    late = [enter(1, number, 1, 0x1000, 2), leave(1, number, 2, detail(1, 2, b"b\n"))]
    assert lines(tmp_path, b"strange\nb\n", *late) == [(None, "strange"), (0, "b")]
