"""Pairs of accesses to kernel objects, in records that are made by hand."""

import struct

import traces
from rewind.analysis.objects import Objects, Pair
from rewind.formats.schedule import Position
from rewind.formats.trace import decode
from rewind.search.objects import positions
from traces import detail, end, enter, execute, fork, leave, record, switch, wake

READ, WRITE, CLOSE, STAT, PIPE, DUP2, WAIT4 = 0, 1, 3, 4, 22, 33, 61
RENAME, MKDIR, UNLINK, OPENAT, CLONE, NANOSLEEP = 82, 83, 87, 257, 56, 35
CWD = -100
CREATE = 0o1101
THREAD = 0x3D0F00
SIGCHLD = 17


def objects(*records: bytes) -> Objects:
    """What is found in *records*, 10 ns apart."""
    found = Objects()
    stamped = [
        struct.pack("<Q", traces.START + 10 * step) + one[8:] for step, one in enumerate(records)
    ]
    for frame in traces.frames(stamped):
        for one in decode(frame, traces.START):
            found.feed(one)
    return found


def pairs(*records: bytes) -> list[Pair]:
    return objects(*records).pairs


def told(*records: bytes) -> list[tuple[str, str, str, str]]:
    """The kind, the object, and what the two did."""
    return [(p.kind, p.label, p.a.does, p.b.does) for p in pairs(*records)]


def path(tid: int, call: int, *names: str, value: int = 0) -> tuple[bytes, bytes]:
    """A call with paths, its first arguments."""
    more = b"".join(detail(at, 1, name.encode()) for at, name in enumerate(names))
    return enter(tid, call, more=more), leave(tid, call, value)


def opened(tid: int, name: str, flags: int = 0, fd: int = 3) -> tuple[bytes, bytes]:
    more = detail(1, 1, name.encode())
    return enter(tid, OPENAT, CWD, 0, flags, more=more), leave(tid, OPENAT, fd)


def call(tid: int, number: int, *args: int, value: int = 0, pid: int = 0) -> tuple[bytes, bytes]:
    return enter(tid, number, *args, pid=pid), leave(tid, number, value, pid=pid)


ONE = (execute(1, b"/bin/it", b"it"),)
TWO = (*ONE, fork(1, 2, 17), fork(1, 3, 17))
"""Steps 0 to 2: two children."""


def test_a_name_that_is_away_for_a_moment() -> None:
    """The stall is where the first step has returned, and so another task is in between."""
    found = pairs(
        *TWO,
        *path(2, UNLINK, "index"),
        *path(2, RENAME, "index.new", "index"),
        *opened(3, "index"),
    )
    assert [(p.kind, p.label, p.a.does, p.b.does) for p in found] == [
        ("file", "/build/index", "rename", "openat"),
        ("file", "/build/index", "unlink", "openat"),
    ]
    first = found[0]
    assert first.before is not None
    assert (first.before.step, first.before.end, first.a.step, first.b.step) == (3, 4, 5, 7)
    assert positions(found) == tuple(map(Position, (4, 2, 6)))


def test_a_file_keeps_its_identity_when_it_is_renamed() -> None:
    found = told(
        *TWO,
        *opened(2, "new", CREATE),
        *path(2, RENAME, "new", "it"),
        *opened(3, "it"),
        *call(3, READ, 3, value=5),
    )
    assert ("file", "/build/new", "openat", "read") in found


def test_what_is_waited_for_is_ordered() -> None:
    made = (*ONE, fork(1, 2, 17), *opened(2, "it", CREATE), end(2, 0, b"it"))
    assert told(*made, *opened(1, "it"))
    assert not told(*made, *call(1, WAIT4, 2, value=2), *opened(1, "it"))
    # And so it is for who is made then.
    later = (fork(1, 3, 17), *opened(3, "it"))
    assert not told(*made, *call(1, WAIT4, -1, value=2), *later)
    assert told(*made, *later)


def test_a_background_job_that_a_handler_took_note_of() -> None:
    """It went on without: nothing had to wait for it. That of what has input is waited for."""
    for null, ordered in ((opened(2, "/dev/null"), False), ((), True)):
        found = told(
            *ONE,
            fork(1, 2, 17),
            *null,
            *opened(2, "it", CREATE),
            end(2, 0, b"it"),
            record(8, 1, 1, SIGCHLD, struct.pack("<iI", 1, 2)),
            *call(1, WAIT4, -1, 0, 1, value=2),
            enter(1, 15),
            *opened(1, "it"),
        )
        assert (not found) == ordered


def test_who_is_woken_comes_after() -> None:
    made = (*TWO, enter(3, READ, 0), switch(3, 2, b"it", state=1), *opened(2, "it", CREATE))
    looks = (leave(3, READ, 0), *opened(3, "it"))
    assert told(*made, *looks)
    assert not told(*made, wake(2, 3), *looks)
    # By a timer, in the other one's time.
    assert told(*made, wake(2, 3, flags=1), *looks)


def test_ranges() -> None:
    """Who writes elsewhere in the file is no other's concern."""
    files = (*TWO, *opened(2, "it", 1), *opened(3, "it", 1))
    one = call(2, WRITE, 3, 0, 8, value=8)
    assert not told(*files, *one, enter(3, 18, 3, 0, 8, 8), leave(3, 18, 8))
    assert told(*files, *one, enter(3, 18, 3, 0, 8, 7), leave(3, 18, 8)) == [
        ("file", "/build/it", "write", "pwrite64")
    ]


def test_a_reader_that_goes_before_the_last_line() -> None:
    """Only the first byte had to be there; and of a reader to the end all had to."""
    piped = (
        *ONE,
        *call(1, PIPE),
        fork(1, 2, 17),
        fork(1, 3, 17),
        *call(1, CLOSE, 3),
        *call(1, CLOSE, 4),
        *call(2, CLOSE, 3),
        *call(3, CLOSE, 4),
        *call(2, WRITE, 4, 0, 4, value=4),
        *call(2, WRITE, 4, 0, 4, value=4),
    )
    read = call(3, READ, 3, value=8)
    assert told(*piped, *read, end(3, 0, b"head")) == [("pipe", "1", "write", "close")]
    both = (*piped, end(2, 0, b"it"), *read, *call(3, READ, 3, value=0), end(3, 0, b"cat"))
    assert not told(*both)


def test_a_fork_while_a_thread_has_a_file_open() -> None:
    found = pairs(
        *ONE,
        fork(1, 2, THREAD, child_pid=1),
        enter(2, OPENAT, CWD, 0, CREATE, more=detail(1, 1, b"tool"), pid=1),
        leave(2, OPENAT, 3, pid=1),
        *call(2, CLOSE, 3, pid=1),
        enter(1, CLONE),
        fork(1, 3, 17),
        leave(1, CLONE, 3),
    )
    assert [(p.kind, p.a.does, p.b.does) for p in found] == [
        ("descriptors", "close", "fork"),
        ("descriptors", "openat", "fork"),
    ]
    assert positions(found)[0] == Position(3)


def test_a_child_that_a_handler_may_find() -> None:
    waits = (
        *ONE,
        record(8, 1, 1, SIGCHLD, struct.pack("<iI", 1, 2)),
        fork(1, 2, 17),
        enter(1, WAIT4, 2),
        end(2, 0, b"it"),
        wake(2, 1),
        leave(1, WAIT4, 2),
    )
    assert told(*waits) == [("child", "2", "wait4", "end")]
    # Without a handler nobody else does.
    assert not told(waits[0], *waits[2:])


def test_directories_and_what_nobody_writes() -> None:
    store = "/nix/store/abc-it/file"
    assert not told(*TWO, *opened(2, store), *path(3, STAT, store))
    made = (*TWO, *path(2, MKDIR, "/nix/store/abc-it"), *opened(2, store, CREATE))
    assert ("file", store, "openat", "stat") in told(*made, *path(3, STAT, store))
    missing = told(*TWO, *path(3, MKDIR, "d/e", value=-2), *path(2, MKDIR, "d"))
    assert ("file", "/build/d", "mkdir", "mkdir") in missing


def test_pairs_that_look_the_same_are_one() -> None:
    found = pairs(
        *TWO,
        *opened(2, "it", CREATE),
        *(one for _ in range(3) for one in path(3, STAT, "it")),
    )
    assert [(p.a.does, p.b.does, p.count, len(p.others)) for p in found] == [
        ("openat", "stat", 3, 2)
    ]


def test_bounds(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("rewind.analysis.objects.PAIRS", 1)
    found = objects(
        *TWO,
        *opened(2, "a", CREATE),
        *opened(2, "b", CREATE, fd=4),
        *path(3, STAT, "a"),
        *path(3, STAT, "b"),
    )
    assert (len(found.pairs), found.lost_pairs, found.incomplete) == (1, 2, True)
