"""Records as lines."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from rewind.analysis import render, syscalls
from rewind.analysis.render import Lines, join, quote
from rewind.cli import parallel
from rewind.cli.commands import events
from rewind.formats import FormatError
from rewind.formats.trace import Frame, TraceReader

LINES = """\
 0  1          # job starts
 1  1          becomes "/bin/sh" ["sh", "-c", "make"]
 2  1          openat(AT_FDCWD, "/nix/store/hello", O_RDONLY|O_CLOEXEC) = 3
 4  1          read(3, 0x7f1000, 4096) = 5 "hello"
 6  1          forks 2
 7  1          sleeps, next is 2 (sh)
 8  2          write(1, "line\\n\\xff") = 6
10  2          starts thread 3
11  2          preempted, next is 2/3 (make)
12  2/3        perturbation: stall of 1,000,000 ns at 0x401234
13  2/3        sends SIGTERM to 2
14  2/3        thread ends
15  2          gets SIGTERM from 2
16  2          killed by SIGTERM
17  2          ended, next is 1 (sh)
18  1          wait4(-1, NULL, 0, NULL) = -ECHILD
20  1          exited 3
"""


WOKEN = """\
 0  1          starts thread 2
 1  1          futex(0x7f0000, FUTEX_WAIT|PRIVATE, 0, 0, NULL, 0)
 2  1          sleeps, next is 1/2 (pool)
 3  1/2        futex(0x7f0000, FUTEX_WAKE|PRIVATE, 1, 0, NULL, 0) = 1
 6  1/2        write(1, "sum")
 7  1/2        perturbation: stall of 1,000,000 ns at 0x401234 (in the kernel, 0xffffffff81000123)
 8  1/2        … write = 3
 9  1/2        blocked, next is 1 (pool)
10  1          … futex = 0
11  1          sleeps, next is other (swapper)
13  other      preempted, next is 1/2 (pool)
14  1/2        sendto(5, 0x7f3000, 1, 0, NULL, 0) = 1
17  1/2        exited 0
"""

WAKES = [
    [
        " 3  1/2        futex(0x7f0000, FUTEX_WAKE|PRIVATE, 1, 0, NULL, 0)",
        " 4  1/2        wakes 1",
        " 5  1/2        … futex = 1",
    ],
    ["12  other      wakes 1/2 (interrupt)"],
    [
        "14  1/2        sendto(5, 0x7f3000, 1, 0, NULL, 0)",
        "15  1/2        wakes 1 (interrupt)",
        "16  1/2        … sendto = 1",
    ],
]


def text(records: list[bytes], size: int = 4, **options: int) -> str:
    lines = Lines(start=traces.START, steps=len(records), **options)  # type: ignore[arg-type]
    return b"".join(join(map(lines, traces.frames(records, size)))).decode()


def line(*records: bytes) -> str:
    """The lines of *records*, without step and task."""
    return "\n".join(line[14:] for line in text(list(records)).splitlines())


@pytest.mark.parametrize("size", range(1, 22))
def test_lines(size: int) -> None:
    """However the records are put into frames."""
    assert text(traces.sample(), size) == LINES


@pytest.mark.parametrize("size", range(1, 19))
def test_wakes_are_left_out(size: int) -> None:
    """Then they do not come between a call and its result, wherever a frame begins."""
    assert text(traces.woken(), size) == WOKEN


@pytest.mark.parametrize("size", range(1, 19))
def test_wakes(size: int) -> None:
    every = text(traces.woken(), size, wakes=True).splitlines()
    assert len(every) == 18
    for lines in WAKES:
        at = every.index(lines[0])
        assert every[at : at + len(lines)] == lines


def test_range_of_wakes() -> None:
    """A range that has nothing to show is empty."""
    assert text(traces.woken(), first=4, last=4) == ""
    assert text(traces.woken(), first=4, last=4, wakes=True) == " 4  1/2        wakes 1\n"


def test_times() -> None:
    assert text(traces.sample(), time=True).splitlines()[2] == (
        " 2             200  1          "
        'openat(AT_FDCWD, "/nix/store/hello", O_RDONLY|O_CLOEXEC) = 3'
    )


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 21))
def test_range(first: int, last: int, size: int) -> None:
    """A range has the lines of its steps; a result whose call is not in it has its own."""
    whole = LINES.splitlines()
    steps = {int(line[:2]) for line in whole}
    got = text(traces.sample(), size, first=first, last=last).splitlines()
    wanted = [line for line in whole if first <= int(line[:2]) <= last]
    if first <= last and first not in steps:
        assert "… " in got[0]
        assert int(got[0][:2]) == first
        got = got[1:]
    assert len(got) == len(wanted)
    if last in steps or first > last:
        assert all(full.startswith(line) for full, line in zip(wanted, got, strict=True))


def test_result_apart() -> None:
    """A call that waits has its result where it returns."""
    assert text(
        [
            traces.enter(1, 0, 3, 0x1000, 5),
            traces.switch(1, 2, b"cat", state=1),
            traces.leave(2, 1, -32),
            traces.leave(1, 0, 0),
        ]
    ).splitlines() == [
        "0  1          read(3, 0x1000, 5)",
        "1  1          sleeps, next is 2 (cat)",
        "2  2          … write = -EPIPE",
        "3  1          … read = 0",
    ]


@pytest.mark.parametrize(
    ("call", "args", "more", "expected"),
    [
        (
            "openat",
            (-100, 9, 0o101, 0o644),
            traces.detail(1, 1, b"x"),
            'AT_FDCWD, "x", O_WRONLY|O_CREAT, 0644',
        ),
        ("open", (9, 2, 0o644), traces.detail(0, 1, b"x"), '"x", O_RDWR'),
        ("open", (0x99, 2, 0o644), b"", "0x99, O_RDWR"),
        ("write", (1, 9, 3), traces.detail(1, 2, b"a\n\0"), r'1, "a\n\x00"'),
        ("write", (1, 9, 4000), traces.detail(1, 2, b"a", cut=True), '1, "a"…, 4000'),
        ("pwrite64", (1, 9, 1, 5), traces.detail(1, 2, b"a"), '1, "a", 1, 5'),
        (
            "mmap",
            (0, 8192, 3, 0x22, -1, 0),
            b"",
            "NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0",
        ),
        (
            "clone",
            (0x1200011, 0, 0, 9, 0),
            b"",
            "CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, NULL, NULL, 0x9, 0",
        ),
        ("futex", (9, 0x80, 2, 0, 0, 0), b"", "0x9, FUTEX_WAIT|PRIVATE, 2, 0, NULL, 0"),
        ("kill", (-1, 9), b"", "-1, SIGKILL"),
        ("kill", (1, 34), b"", "1, SIGRT_2"),
        ("fcntl", (3, 1030, 10), b"", "3, F_DUPFD_CLOEXEC, 10"),
        ("ioctl", (1, 0x5401, 9), b"", "1, TCGETS, 9"),
        ("ioctl", (1, 0x12345, 300), b"", "1, 0x12345, 0x12c"),
        ("socket", (1, 0o2000001, 0), b"", "AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0"),
        (
            "execve",
            (9, 8, 7),
            traces.detail(0, 1, b"/bin/ls") + traces.detail(1, 3, b"ls\0-l\0"),
            '"/bin/ls", ["ls", "-l"], 0x7',
        ),
        ("execve", (9, 8, 7), traces.detail(1, 3, b"ls\0", cut=True), '0x9, ["ls", …], 0x7'),
        ("madvise", (9, 1, 4), b"", "0x9, 1, MADV_DONTNEED"),
        ("getpid", (), b"", ""),
        ("connect", (3, 9, 8), traces.detail(1, 2, b"\1\0/tmp/x\0y"), '3, "/tmp/x", 8'),
        ("bind", (3, 9, 8), traces.detail(1, 2, b"\1\0\0x"), '3, @"x", 8'),
        (
            "connect",
            (3, 9, 16),
            traces.detail(1, 2, b"\2\0\x1f\x90\x7f\0\0\1" + bytes(8)),
            "3, 127.0.0.1:8080, 16",
        ),
        (
            "connect",
            (3, 9, 28),
            traces.detail(1, 2, b"\x0a\0\x1f\x90" + bytes(19) + b"\1" + bytes(4)),
            "3, [::1]:8080, 28",
        ),
        ("connect", (3, 9, 3), traces.detail(1, 2, b"\2\0\1"), r'3, "\x02\x00\x01", 3'),
        ("umask", (0,), b"", "0"),
    ],
)
def test_call(call: str, args: tuple[int, ...], more: bytes, expected: str) -> None:
    number = render.CALLS.number(call)
    assert line(traces.enter(1, number, *args, more=more)) == f"{call}({expected})"


def test_unknown_call() -> None:
    assert line(traces.enter(1, 999, 1, 2, 3, 4, 5, 0x600)) == "syscall_999(1, 2, 3, 4, 5, 0x600)"


@pytest.mark.parametrize(
    ("call", "value", "more", "expected"),
    [
        (9, 0x7F0000001000, b"", "… mmap = 0x7f0000001000"),
        (9, -12, b"", "… mmap = -ENOMEM"),
        (35, -516, b"", "… nanosleep = -ERESTART_RESTARTBLOCK"),
        (0, -5000, b"", "… read = -5000"),
        (2, 3, traces.detail(0, 1, b"/x"), '… open = 3 "/x"'),
    ],
)
def test_result(call: int, value: int, more: bytes, expected: str) -> None:
    assert line(traces.leave(1, call, value, more)) == expected


def test_table_is_whole() -> None:
    """Every argument of every call has a kind that is known, and no call has more than six."""
    known = {*syscalls.KINDS, *syscalls.FLAGS, *syscalls.VALUES}
    for entry in syscalls.CALLS.strip().splitlines():
        number, name, *kinds = entry.partition("=")[0].split()
        assert number.isdigit(), entry
        assert set(kinds) <= known, entry
        assert len(kinds) <= 6, entry
        assert render.CALLS[int(number)].name == name


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", '""'),
        (b"plain /path", '"plain /path"'),
        (b'"\\\n\t\r\x1b\x7f', r'"\"\\\n\t\r\x1b\x7f"'),
        ("für …".encode(), '"für …"'),
        ("\u202e\u0085".encode(), r'"\u202e\x85"'),
        (b"\xff\xc3\xbc", r'"\xff\xc3\xbc"'),
    ],
)
def test_quote(data: bytes, expected: str) -> None:
    assert quote(data) == expected


@given(st.binary(max_size=50))
def test_quote_is_one_line(data: bytes) -> None:
    assert quote(data).isprintable()


def test_binary_data_is_short() -> None:
    """Text is shown as far as the trace has it, other bytes not."""
    number = render.CALLS.number("write")
    for data, shown in ((b"x" * 60, "x" * 60), (b"\1" * 60, r"\x01" * 16)):
        got = line(traces.enter(1, number, 1, 9, 64, more=traces.detail(1, 2, data, cut=True)))
        assert got == f'write(1, "{shown}"…, 64)'


def test_names_are_one_line() -> None:
    assert "\n" not in line(traces.switch(1, 2, b"a\nb"))
    assert "\n" not in line(traces.record(1, 1, 1, payload=b"a\nb"))


@pytest.mark.parametrize("made", [traces.sample, traces.woken])
@given(data=st.data())
@settings(deadline=None)
def test_damage(made: Callable[[], list[bytes]], data: st.DataObject) -> None:
    """Damaged records are rendered or refused; nothing else happens."""
    whole = made()
    content = bytearray(b"".join(whole))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        Lines(start=0, steps=len(whole))(Frame(0, 0, len(whole), bytes(content)))
    except FormatError as error:
        assert "damaged at step" in str(error)


def test_endless_record() -> None:
    """A size of nothing does not make a loop."""
    with pytest.raises(FormatError):
        Lines(start=0, steps=2, first=1)(Frame(0, 0, 2, struct.pack("<QHBBIII", *[0] * 7)))


def test_in_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes write what one does."""
    path = traces.write(tmp_path / "trace", traces.sample() * 50, 3)
    with TraceReader(path) as reader:
        for make in (events.lines, events.json_lines):
            monkeypatch.setattr(parallel, "workers", lambda most: 1)
            single = b"".join(make(reader, 0, 1049))
            monkeypatch.setattr(parallel, "workers", lambda most: 3)
            assert b"".join(make(reader, 0, 1049)) == single
            assert single.count(b"\n") > 800


def test_damage_in_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process finds wrong is raised where its lines would be."""
    records = traces.sample() * 10
    records[100] = traces.record(99, 1, 1)
    path = traces.write(tmp_path / "trace", records)
    monkeypatch.setattr(parallel, "workers", lambda most: 2)
    seen = b""
    with TraceReader(path) as reader, pytest.raises(FormatError, match="damaged at step 100"):
        for block in events.lines(reader, 0, 209):
            seen += block
    assert b"\n 95  " in seen


def test_reader_that_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes whose lines nobody wants end."""
    path = traces.write(tmp_path / "trace", traces.sample() * 2000, 500)
    monkeypatch.setattr(parallel, "workers", lambda most: 2)
    with TraceReader(path) as reader:
        blocks = events.lines(reader, 0, 41_999)
        assert next(blocks)
        blocks.close()  # type: ignore[attr-defined]
