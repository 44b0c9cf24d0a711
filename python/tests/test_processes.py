"""Processes from the trace."""

from pathlib import Path

import pytest

import traces
from rewind.cli.processes import History, commands, history
from rewind.formats.trace import TraceReader
from traces import end, enter, execute, fork, leave, record, switch


def at(tmp_path: Path, records: list[bytes], step: int | None = None) -> History:
    path = traces.write(tmp_path / "trace", records)
    with TraceReader(path) as reader:
        return history(reader, step)


def states(found: History) -> dict[int, tuple[str, int, str]]:
    return {
        thread.tid: (thread.state, thread.since, thread.call)
        for process in found.processes
        for thread in process.threads.values()
    }


RECORDS = [
    execute(1, b"/bin/sh", b"sh", b"-c", b"x"),  # 0
    fork(1, 2),  # 1
    enter(1, 61, -1, 0, 0, 0),  # 2
    switch(1, 2, b"sh", state=1),  # 3
    execute(2, b"/bin/make", b"make", b"all"),  # 4
    fork(2, 3, child_pid=2, pid=2),  # 5
    fork(2, 4, pid=2),  # 6
    switch(2, 3, b"make", pid=2, next_pid=2),  # 7
    enter(3, 0, 5, 0x10, 1, pid=2),  # 8
    switch(3, 4, b"make", pid=2, state=1),  # 9
    switch(4, 2, b"make", state=0, next_pid=2),  # 10
    end(3, 0, b"make", last=False, pid=2),  # 11
    end(2, 0x100, b"make"),  # 12
    switch(2, 1, b"sh", state=0x80),  # 13
    leave(1, 61, 2),  # 14
    switch(1, 0, b"swapper", state=1),  # 15
    record(2, 0, 0, 0, bytes(56)),  # 16
    switch(0, 4, b"make"),  # 17
    end(4, 9, b"make"),  # 18
]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, {1: ("runs", 0, "")}),
        (1, {1: ("runs", 0, ""), 2: ("ready", 1, "")}),
        (3, {1: ("waits", 3, "wait4(-1, NULL, 0, NULL)"), 2: ("runs", 3, "")}),
        (
            9,
            {
                1: ("waits", 3, "wait4(-1, NULL, 0, NULL)"),
                2: ("ready", 7, ""),
                3: ("waits", 9, "read(5, 0x10, 1)"),
                4: ("runs", 9, ""),
            },
        ),
        (
            18,
            {
                1: ("waits", 15, ""),
                2: ("ended", 12, ""),
                3: ("ended", 11, ""),
                4: ("ended", 18, ""),
            },
        ),
    ],
)
def test_states(tmp_path: Path, step: int, expected: object) -> None:
    assert states(at(tmp_path, RECORDS, step)) == expected


def test_tree(tmp_path: Path) -> None:
    found = at(tmp_path, RECORDS)
    assert [(p.pid, p.parent, p.first, p.last, p.status) for p in found.processes] == [
        (1, None, 0, None, None),
        (2, 1, 1, 12, 0x100),
        (4, 2, 6, 18, 9),
    ]
    assert [p.command for p in found.processes] == ["sh -c x", "make all", "make all"]


def test_orphans_go_to_the_builder(tmp_path: Path) -> None:
    before, after = at(tmp_path, RECORDS, 11), at(tmp_path, RECORDS, 12)
    assert before.parent(before.processes[2]) == 2
    assert after.parent(after.processes[2]) == 1


def test_exec_ends_other_threads(tmp_path: Path) -> None:
    found = at(tmp_path, [*RECORDS[:6], execute(2, b"/bin/cc", b"cc")])
    assert states(found)[3][0] == "ended"
    assert found.processes[1].command == "cc"


def test_exec_of_another_thread_than_the_first(tmp_path: Path) -> None:
    """The first one ends, and the other one takes its number, and its place."""
    records = [
        execute(1, b"/bin/first", b"first"),
        fork(1, 2, child_pid=1, pid=1),
        switch(1, 2, b"first", state=1, next_pid=1),
        enter(2, 59, 0x10, 0x20, 0x30, pid=1),
        switch(2, 1, b"first", state=2, pid=1, next_pid=1),
        end(1, 0, b"first", last=False),
        switch(1, 2, b"first", state=0x80, next_pid=1),
        execute(1, b"/bin/second", b"second"),
    ]
    found = at(tmp_path, records)
    assert states(found) == {1: ("runs", 7, ""), 2: ("ended", 7, "")}
    (process,) = found.processes
    assert process.command == "second" and process.threads[1].name == "second"


def test_pid_used_again(tmp_path: Path) -> None:
    found = at(tmp_path, [fork(1, 2), end(2, 0, b"a"), fork(1, 2), fork(2, 3)])
    assert [(p.pid, p.first, p.last) for p in found.processes] == [
        (1, 0, None),
        (2, 0, 1),
        (2, 2, None),
        (3, 3, None),
    ]


def test_after_the_end(tmp_path: Path) -> None:
    """A task that has ended gives the CPU away, gets it again, and sends a signal."""
    rest = [switch(2, 1, b"sh"), switch(1, 2, b"x"), record(9, 2, 2, 17, bytes(12))]
    found = at(tmp_path, [fork(1, 2), switch(1, 2, b"sh"), end(2, 0, b"x"), *rest])
    assert [(p.pid, p.last) for p in found.processes] == [(1, None), (2, 2)]
    assert states(found) == {1: ("ready", 4, ""), 2: ("ended", 2, "")}


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (3, {1: ("waits", 2), 2: ("runs", 2)}),
        (4, {1: ("ready", 4), 2: ("runs", 2)}),
        (11, {1: ("waits", 11), 2: ("waits", 9)}),
        (12, {1: ("waits", 11), 2: ("ready", 12)}),
        (15, {1: ("ready", 15), 2: ("runs", 13)}),
    ],
)
def test_who_was_woken_is_ready(
    tmp_path: Path, step: int, expected: dict[int, tuple[str, int]]
) -> None:
    found = states(at(tmp_path, traces.woken(), step))
    assert {tid: (state, since) for tid, (state, since, _) in found.items()} == expected


def test_made_from_outside(tmp_path: Path) -> None:
    """A process by init, a thread by the kernel."""
    found = at(tmp_path, [fork(0, 1), fork(0, 2, child_pid=1), fork(0, 9, child_pid=8)])
    assert [(p.pid, p.parent, list(p.threads)) for p in found.processes] == [(1, None, [1, 2])]


@pytest.mark.parametrize("last", range(len(RECORDS)))
def test_commands(tmp_path: Path, last: int) -> None:
    """They are those of the whole history."""
    path = traces.write(tmp_path / "trace", [*RECORDS, fork(1, 2), execute(2, b"/bin/ls", b"ls")])
    with TraceReader(path) as reader:
        expected = {process.pid: process.command for process in history(reader, last + 2).processes}
        assert commands(reader, last + 2) == expected
