"""Where a perturbation can matter, in records that are made by hand."""

import struct

import pytest

import traces
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import Record, decode
from rewind.search.positions import (
    BUILDER,
    OWN,
    THREADS,
    THREADS_FACTOR,
    TOOL,
    Positions,
    Stretch,
    groups,
)
from traces import end, enter, execute, fork, leave, record, switch, wake

READ, WRITE, MMAP, GETPID, NANOSLEEP, CLONE, WAIT4, FUTEX = 0, 1, 9, 39, 35, 56, 61, 202
THREAD = 0x3D0F00


def told(*records: bytes) -> list[Record]:
    """*records*, 10 ns apart."""
    stamped = [
        struct.pack("<Q", traces.START + 10 * step) + one[8:] for step, one in enumerate(records)
    ]
    return [one for frame in traces.frames(stamped) for one in decode(frame, traces.START)]


def stretches(*records: bytes, first: int = 0) -> list[Stretch]:
    """Those of a run; whether the records come at once or one by one is no matter."""
    once, by_one = Positions(first), Positions(first)
    once.feed(told(*records))
    for one in told(*records):
        by_one.feed([one])
    found = once.finish()
    assert by_one.finish() == found
    return found


def at(*records: bytes, first: int = 0) -> list[tuple[int, int]]:
    """Step and thread of each."""
    return [(one.step, one.tid) for one in stretches(*records, first=first)]


def call(tid: int, number: int, *args: int, pid: int = 1) -> tuple[bytes, bytes]:
    """A call that does not wait."""
    return enter(tid, number, *args, pid=pid), leave(tid, number, 0, pid=pid)


ONE = (execute(1, b"/bin/bank", b"bank"), leave(1, 59, 0))
"""Steps 0 and 1: a process with one thread."""
TWO = (*ONE, enter(1, CLONE), fork(1, 2, THREAD, child_pid=1), leave(1, CLONE, 2))
"""And steps 2 to 4: a second thread, which has not run yet."""
WAITS = (enter(1, FUTEX), switch(1, 2, b"bank", state=1, next_pid=1))
"""And 5 and 6: the first one waits, and the second has the CPU."""
CHILD = (*ONE, enter(1, CLONE), fork(1, 2, 17), leave(1, CLONE, 2))
"""Steps 0 to 4: a second process, which has not run yet."""
BYE = (enter(1, 231, 0), end(1, 0, b"bank", last=False))


def test_nothing() -> None:
    assert at() == []


def test_one_task_is_alone() -> None:
    assert at(*ONE, *call(1, WRITE), *call(1, READ), *BYE) == []


@pytest.mark.parametrize(
    ("number", "noticed"), [(WRITE, True), (READ, True), (202, False), (12, False), (9, False)]
)
def test_a_call_that_others_can_notice(number: int, noticed: bool) -> None:
    """Not a futex, brk or mmap: a task's own affair."""
    found = stretches(*TWO, *call(1, number), *call(1, WRITE), *BYE)
    assert [stretch.after_call for stretch in found] == [False, noticed, True]


def test_another_thread_could_run() -> None:
    """From the return to user mode to the next call, and not within one."""
    weight = BUILDER * THREADS_FACTOR
    assert stretches(*TWO, *call(1, WRITE), *BYE) == [
        Stretch(4, 40, 10, 1, ("bank", THREADS), weight, named=Named(1, 1)),
        Stretch(6, 60, 10, 1, ("bank", THREADS), weight, after_call=True, named=Named(1, 2)),
    ]


def test_who_waits_is_no_other() -> None:
    """Before the second one runs it is another one; then the first is not, as it waits."""
    assert at(*TWO, *WAITS, *call(2, WRITE), *call(2, READ)) == [(4, 1)]


def test_who_was_woken_is_another() -> None:
    wakes = (
        enter(2, FUTEX, pid=1),
        wake(2, 1, pid=1, woken_pid=1),
        leave(2, FUTEX, 1, pid=1),
    )
    assert at(*TWO, *WAITS, *wakes, *call(2, WRITE)) == [(4, 1), (9, 2)]
    # An interrupt's wake-up comes in the middle of a stretch: a new one begins with it.
    expired = wake(0, 1, woken_pid=1, flags=1)
    assert at(*TWO, *WAITS, expired, *call(2, WRITE)) == [(4, 1), (7, 2)]


def test_who_lost_its_turn_is_another() -> None:
    records = (*TWO, switch(1, 2, b"bank", next_pid=1), *call(2, WRITE), *call(2, WRITE))
    back = (switch(2, 1, b"bank", state=1, pid=1, next_pid=1), *call(1, WRITE))
    assert at(*records, *back) == [(4, 1), (5, 2), (7, 2), (9, 2)]


def test_who_sleeps_will_wake_up() -> None:
    sleeps = (enter(1, NANOSLEEP, 0x7F0000), switch(1, 2, b"bank", state=1, next_pid=1))
    assert at(*TWO, *sleeps, *call(2, WRITE)) == [(4, 1), (6, 2)]
    limited = (enter(1, FUTEX, 0, 0, 0, 0x7F0000), switch(1, 2, b"b", state=1, next_pid=1))
    assert at(*TWO, *limited, *call(2, WRITE)) == [(4, 1), (6, 2)]


def test_nobody_of_the_job_runs() -> None:
    idle = (enter(1, READ), switch(1, 0, b"swapper", state=1))
    assert at(*TWO[:2], *idle, wake(0, 1, flags=1), switch(0, 1, b"bank")) == []
    other = (switch(1, 0, b"kworker"), switch(0, 1, b"bank"))
    assert at(*TWO, *other, *call(1, WRITE)) == [(4, 1), (6, 1)]


def test_from_a_step_on() -> None:
    records = (*TWO, *call(1, WRITE), *call(1, WRITE), *BYE)
    assert at(*records) == [(4, 1), (6, 1), (8, 1)]
    assert at(*records, first=4) == [(4, 1), (6, 1), (8, 1)]
    assert at(*records, first=5) == [(6, 1), (8, 1)]
    assert at(*records, first=9) == []


# --- what no other process can notice


WAIT4S = (enter(1, WAIT4, -1), switch(1, 2, b"sh", state=1))


def test_a_shell_that_waits_for_its_child_is_left_out() -> None:
    assert at(*CHILD, *WAIT4S, enter(2, WRITE)) == []


def test_what_it_does_before_that_nobody_sees() -> None:
    """Its own memory, its signals: when it does so is of no consequence."""
    private = [
        *call(1, GETPID),
        *call(1, 14),
        *call(1, MMAP, 0, 4096, 3, 0x22, -1),
    ]
    assert at(*CHILD, *private, *WAIT4S) == []


@pytest.mark.parametrize(
    "notable", [call(1, WRITE, 1), call(1, MMAP, 0, 4096, 1, 2, 3)], ids=["write", "a file's mmap"]
)
def test_what_somebody_could_see_makes_it_a_place(notable: tuple[bytes, bytes]) -> None:
    """All of the time before it; what comes after it is another matter."""
    records = (*CHILD, *call(1, GETPID), *notable, *call(1, GETPID), *WAIT4S)
    assert at(*records) == [(4, 1), (6, 1)]


def test_to_lose_its_turn_is_not_to_wait() -> None:
    """It goes on later, and only then is seen what it was about to do."""
    preempted = (switch(1, 2, b"sh"), enter(2, WRITE), switch(2, 1, b"sh", state=1))
    found = at(*CHILD, *preempted, *call(1, WRITE))
    assert found == [(4, 1), (5, 2)]
    assert at(*CHILD, *preempted, *WAIT4S) == [(5, 2)]


def test_the_end_of_a_process_is_seen() -> None:
    assert at(*CHILD, *BYE) == [(4, 1)]
    assert at(*CHILD, end(1, 9, b"sh")) == [(4, 1)]


def test_a_run_that_ends_in_between() -> None:
    assert at(*CHILD, *call(1, GETPID)) == []


def test_threads_have_no_secrets() -> None:
    """What one of them writes to memory another one reads, whatever calls there are."""
    records = (*TWO, *call(1, GETPID), *WAITS)
    assert at(*records) == [(4, 1), (6, 1)]


def test_records_in_between_say_nothing() -> None:
    """A signal that comes, a perturbation of the run that is searched around."""
    stall = record(10, 1, 1, 1, struct.pack("<QQQ", 1000, 0x401000, 0x401000))
    signal = record(8, 1, 1, 17, struct.pack("<iI", 1, 2))
    assert at(*CHILD, stall, signal, *WAIT4S) == []
    assert at(*CHILD, stall, signal, *call(1, WRITE)) == [(4, 1), (5, 1), (6, 1)]


def test_they_come_in_order() -> None:
    """Though of the first it is known late that it is one."""
    records = (
        *CHILD,
        switch(1, 2, b"sh"),
        *call(2, WRITE, pid=2),
        *call(2, WRITE, pid=2),
        switch(2, 1, b"sh", pid=2),
        *call(1, WRITE),
    )
    assert at(*records) == [(4, 1), (5, 2), (7, 2), (10, 1)]


# --- groups


def test_groups_of_threads_and_of_processes() -> None:
    records = (
        execute(1, b"/bin/make", b"make", b"-j2"),
        leave(1, 59, 0),
        *(enter(1, CLONE), fork(1, 2, 17), leave(1, CLONE, 2)),  # 2 to 4
        switch(1, 2, b"make"),  # 5
        enter(2, 59),
        execute(2, b"/bin/cc", b"cc"),
        leave(2, 59, 0),  # 8
        *call(2, WRITE, pid=2),  # 9 and 10
        *(enter(2, CLONE), fork(2, 3, THREAD, pid=2, child_pid=2), leave(2, CLONE, 3, pid=2)),
        *call(2, WRITE, pid=2),
        switch(2, 1, b"make", pid=2),  # 16
        *call(1, WRITE),  # 17 and 18
        *call(1, WRITE),
    )
    found = groups(stretches(*records))
    make, cc = "make\0-j2", "cc"
    names = {group: [one.step for one in members] for group, members in found.items()}
    # The two names are in order, whoever it is that could be perturbed: it is one group.
    assert names == {
        (make, make): [4, 5],
        (cc, make): [8, 10, 16, 18],
        (cc, THREADS): [13],
    }


def test_a_program_without_arguments_is_its_path() -> None:
    records = (*TWO[1:], *call(1, WRITE))
    (found,) = stretches(execute(1, b"/bin/bank"), *records)
    assert found.group == ("/bin/bank", THREADS)


def test_a_thread_of_its_own_comes_first() -> None:
    """Of several that could run."""
    records = (*CHILD, enter(1, CLONE), fork(1, 3, THREAD, child_pid=1), leave(1, CLONE, 3))
    found = stretches(*records, *call(1, WRITE))
    assert [one.group for one in found] == [("bank", "bank"), ("bank", THREADS)]


@pytest.mark.parametrize(
    ("program", "arguments", "weight"),
    [
        (b"/build/bank", [b"./bank"], OWN),
        (b"/nix/store/x-gcc/bin/cc1", [b"cc1"], TOOL),
        (b"/nix/store/x-bash/bin/bash", [b"bash", b"./jobs.sh"], OWN),
        (b"/nix/store/x-python/bin/python3.13", [b"python3", b"drain.py", b"-v"], OWN),
        (b"/nix/store/x-bash/bin/bash", [b"bash", b"-c", b"x"], TOOL),
        (b"/nix/store/x-bash/bin/bash", [b"bash"], TOOL),
        (b"/nix/store/x-bash/bin/bash", [b"bash", b"/nix/store/x-wrapper"], TOOL),
        (b"/nix/store/x-sed/bin/sed", [b"sed", b"script.sh"], TOOL),
    ],
)
def test_weights(program: bytes, arguments: list[bytes], weight: float) -> None:
    """Of threads, and with a process of the builder's: what the less important side has."""
    begin = (*CHILD, switch(1, 2, b"sh"), enter(2, 59), execute(2, program, *arguments))
    records = (*begin, leave(2, 59, 0), *call(2, WRITE, pid=2))
    (found,) = (one for one in stretches(*records) if one.step == 8)
    assert (found.tid, found.weight) == (2, BUILDER)
    child = (enter(2, CLONE), fork(2, 3, THREAD, pid=2, child_pid=2), leave(2, CLONE, 3, pid=2))
    *_, found = stretches(*begin, leave(2, 59, 0), *child, *call(2, WRITE, pid=2))
    assert found.weight == weight * THREADS_FACTOR
    twin = (enter(2, CLONE), fork(2, 3, 17, pid=2), leave(2, CLONE, 3, pid=2))
    *_, found = stretches(*begin, leave(2, 59, 0), *twin, *call(2, WRITE, pid=2))
    assert found.weight == weight


def test_helpers() -> None:
    assert Stretch(3, 30, 1, 1, ("x", THREADS), 1.0).position == Position(3)
    assert groups([]) == {}
