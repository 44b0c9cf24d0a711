"""Where what two runs' programs do parts."""

import random
import struct
from pathlib import Path

import pytest

import traces
from rewind.analysis.parting import Event, Parting, Selection, Thread, part, part_traces, processes
from rewind.formats.trace import TraceReader
from traces import detail, end, enter, execute, fork, leave, record, switch

READ, WRITE, MMAP, BRK, SIGRETURN, NANOSLEEP = 0, 1, 9, 12, 15, 35
GETPID, FUTEX, RESTART, WAIT4, KILL, CLONE = 39, 202, 219, 61, 62, 56
THREAD = 0x3D0F00


def parting(
    tmp_path: Path, a: list[bytes], b: list[bytes], selection: Selection | None = None
) -> Parting | None:
    """Of both ways to find it, which are to agree, whatever the traces' frames are."""
    found = []
    for size in (3, 1000):
        files = (traces.write(tmp_path / name, records, size) for name, records in zip(
            "ab", (a, b), strict=True
        ))  # fmt: skip
        first, second = map(TraceReader, files)
        with first, second:
            found.append(part(first.records(), second.records(), selection))
            found.append(part_traces(first, second, selection))
    assert found == [found[0]] * 4
    return found[0]


def parted(
    lineage: tuple[int, ...],
    first: Event | None,
    second: Event | None,
    tid: int = 1,
) -> Parting:
    """A parting of threads of sh, which have the same numbers."""
    thread = Thread(1, tid, 0 if tid == 1 else 2)
    return Parting(lineage, "/bin/sh", first, second, thread, thread)


def write(tid: int, text: bytes, pid: int = 0) -> list[bytes]:
    more = detail(1, 2, text)
    size = len(text)
    return [
        enter(tid, WRITE, 1, 0x7F0000, size, more=more, pid=pid),
        leave(tid, WRITE, size, pid=pid),
    ]


def signal(tid: int, number: int, sender: int) -> bytes:
    return record(8, tid, tid, number, struct.pack("<iI", 1, sender))


def program(*rest: bytes) -> list[bytes]:
    """The process 1 executes sh and starts the thread 2; then *rest*."""
    return [
        execute(1, b"/bin/sh", b"sh"),
        leave(1, 59, 0),
        fork(1, 2, THREAD, child_pid=1),
        *rest,
    ]


def test_same(tmp_path: Path) -> None:
    assert parting(tmp_path, traces.sample(), traces.sample()) is None


def test_order_and_times_do_not_matter(tmp_path: Path) -> None:
    mine, yours = write(1, b"mine"), write(2, b"yours", pid=1)
    late = [record(1, 0, 0, payload=b"nobody's", time=900), *mine]
    a = program(*mine, switch(1, 2, b"sh", next_pid=1), *yours)
    b = program(switch(1, 2, b"sh", next_pid=1), *yours, *late)
    assert parting(tmp_path, a, b) is None


def test_result_differs(tmp_path: Path) -> None:
    call = enter(1, READ, 0, 0x7F0000, 100)
    a = program(call, leave(1, READ, 3, detail(1, 2, b"abc")))
    b = program(call, switch(1, 2, b"sh", next_pid=1), leave(1, READ, 3, detail(1, 2, b"abd")))
    assert parting(tmp_path, a, b) == parted((), Event(1, 1, 3, 4), Event(1, 1, 3, 5))


def test_the_earliest_of_several(tmp_path: Path) -> None:
    """Thread 2 writes another text before the first thread does."""
    a = program(*write(1, b"one"), *write(2, b"two", pid=1))
    b = program(*write(1, b"ONE"), *write(2, b"TWO", pid=1))
    assert parting(tmp_path, a, b) == parted((), Event(1, 1, 3, 4), Event(1, 1, 3, 4))
    b = program(*write(2, b"TWO", pid=1), *write(1, b"one"), *write(1, b"more"))
    assert parting(tmp_path, a, b) == parted((0,), Event(1, 2, 5, 6), Event(1, 2, 3, 4), 2)


def test_one_does_more(tmp_path: Path) -> None:
    a = program(*write(1, b"one"))
    b = program(*write(1, b"one"), *write(2, b"two", pid=1))
    assert parting(tmp_path, a, b) == parted((0,), None, Event(1, 2, 5, 6), 2)
    assert parting(tmp_path, b, a) == parted((0,), Event(1, 2, 5, 6), None, 2)


def test_no_such_thread(tmp_path: Path) -> None:
    a = program(*write(1, b"one"))
    b = program(*write(1, b"one"), fork(1, 9, THREAD, child_pid=1), *write(9, b"two", pid=1))
    assert parting(tmp_path, a, b) == Parting(
        (1,), "/bin/sh", None, Event(1, 9, 6, 7), None, Thread(1, 9, 5)
    )


def test_one_never_returns(tmp_path: Path) -> None:
    """What counts is when the other one did: everybody waits for somebody from the start."""
    call = enter(1, READ, 5, 0x7F0000, 1)
    a = program(call, *write(2, b"a", pid=1), leave(1, READ, 1))
    b = program(call, *write(2, b"b", pid=1))
    assert parting(tmp_path, a, b) == parted((0,), Event(1, 2, 4, 5), Event(1, 2, 4, 5), 2)
    b = program(call, *write(2, b"a", pid=1))
    assert parting(tmp_path, a, b) == parted((), Event(1, 1, 3, 6), Event(1, 1, 3, None))


def test_addresses_and_numbers_of_tasks_do_not_matter(tmp_path: Path) -> None:
    def run(child: int, address: int) -> list[bytes]:
        return program(
            enter(1, CLONE, 0x1200011, 0, 0, address, 0),
            fork(1, child, 0x1200011),
            leave(1, CLONE, child),
            leave(child, CLONE, 0),
            enter(child, GETPID),
            leave(child, GETPID, child),
            enter(1, KILL, child, 15),
            leave(1, KILL, 0),
            signal(child, 15, 1),
            end(child, 15, b"sh"),
            enter(1, WAIT4, child, address, 0, 0),
            leave(1, WAIT4, child),
            enter(1, READ, 0, address, 100),
            leave(1, READ, 0),
        )

    assert parting(tmp_path, run(3, 0x7F0000), run(7, 0x55550000)) is None
    found = parting(tmp_path, run(3, 0x7F0000), run(3, 0))
    assert found is not None
    assert found.first == Event(1, 1, 3, 5)
    wrong = run(3, 0x7F0000)
    wrong[9] = enter(1, KILL, 1, 15)
    found = parting(tmp_path, run(3, 0x7F0000), wrong)
    assert found is not None
    assert found.first == Event(1, 1, 9, 10)


def test_waits_and_memory_do_not_matter(tmp_path: Path) -> None:
    anonymous = (0, 4096, 3, 0x22, -1, 0)
    a = program(*write(1, b"x"))
    more = [
        enter(1, FUTEX, 0x7F0000, 128, 2, 0),
        leave(1, FUTEX, -11),
        enter(1, MMAP, *anonymous),
        leave(1, MMAP, 0x7F0000),
        enter(1, BRK, 0),
        leave(1, BRK, 0x5555),
    ]
    assert parting(tmp_path, a, program(*more, *write(1, b"x"))) is None
    failed = [enter(1, MMAP, *anonymous), leave(1, MMAP, -12)]
    of_a_file = [enter(1, MMAP, 0, 4096, 1, 2, 3, 0), leave(1, MMAP, 0x7F0000)]
    for calls in (failed, of_a_file):
        found = parting(tmp_path, a, program(*calls, *write(1, b"x")))
        assert found == parted((), Event(1, 1, 3, 4), Event(1, 1, 3, 4))


HANDLED = [enter(1, 13, 10, 0x7F0000, 0, 8), leave(1, 13, 0)]
"""The process 1 says what to do with SIGUSR1."""


def handler(text: bytes, number: int = 10) -> list[bytes]:
    """What is done then: something is written."""
    return [
        signal(1, number, 2),
        *write(1, text),
        enter(1, SIGRETURN),
        leave(1, SIGRETURN, 0),
    ]


@pytest.mark.parametrize("again", [READ, RESTART])
def test_interrupted_and_gone_on(tmp_path: Path, again: int) -> None:
    """A call that is interrupted by a signal, whose handler may come earlier or later."""
    call, done = enter(1, READ, 0, 0x7F0000, 100), leave(1, READ, 3)
    interrupted, result = leave(1, READ, -512), leave(1, again, 3)
    if again == RESTART:
        # It returns what the call would have.
        call, done = enter(1, NANOSLEEP, 0x7F0000, 0), leave(1, NANOSLEEP, 0)
        interrupted, result = leave(1, NANOSLEEP, -516), leave(1, RESTART, 0)
    a = program(*HANDLED, call, done, *handler(b"h"))
    restart = enter(1, again, 0, 0x7F0000, 100)
    b = program(*HANDLED, call, interrupted, *handler(b"h"), restart, result)
    assert parting(tmp_path, a, b) is None
    # It is not the same if the program was told, and did something else then.
    a = program(*HANDLED, call, done, *handler(b"h"), *write(1, b"x"))
    told = program(*HANDLED, call, interrupted, *handler(b"h"), *write(1, b"x"))
    found = parting(tmp_path, a, told)
    assert found == parted((), Event(1, 1, 5, 6), Event(1, 1, 5, 12))


def test_the_handlers_own_calls_are_compared(tmp_path: Path) -> None:
    a = program(*HANDLED, *write(1, b"main"), *handler(b"x"))
    assert parting(tmp_path, a, program(*HANDLED, *handler(b"x"), *write(1, b"main"))) is None
    found = parting(tmp_path, a, program(*HANDLED, *handler(b"y"), *write(1, b"main")))
    assert found == parted((), Event(1, 1, 8, 9), Event(1, 1, 6, 7))


def test_the_end_of_children(tmp_path: Path) -> None:
    """A shell sees it in the handler of SIGCHLD, or waits for it, as it happens to come."""
    handled = [enter(1, 13, 17, 0x7F0000, 0, 8), leave(1, 13, 0)]
    wait = [enter(1, WAIT4, -1, 0x7F0000, 0, 0), leave(1, WAIT4, 2)]
    a = program(*handled, *wait, *write(1, b"x"), *handler(b"none", 17))
    b = program(*handled, *handler(b"one", 17), *write(1, b"x"))
    assert parting(tmp_path, a, b) is None
    found = parting(tmp_path, a, program(*handled, *handler(b"one", 17), *write(1, b"y")))
    assert found == parted((), Event(1, 1, 7, 8), Event(1, 1, 10, 11))


def test_a_signal_without_a_handler(tmp_path: Path) -> None:
    """What follows is no part of it."""
    a = program(signal(1, 17, 2), *write(1, b"x"))
    assert parting(tmp_path, a, program(*write(1, b"x"), signal(1, 17, 2))) is None
    found = parting(tmp_path, a, program(signal(1, 17, 2), *write(1, b"y")))
    assert found == parted((), Event(1, 1, 4, 5), Event(1, 1, 4, 5))
    # Another program has another one's handlers no more.
    other = execute(1, b"/bin/y", b"y")
    found = parting(
        tmp_path,
        program(*HANDLED, other, signal(1, 10, 2), *write(1, b"x")),
        program(*HANDLED, other, *write(1, b"x"), signal(1, 10, 2)),
    )
    assert found is not None


def test_death_by_signal(tmp_path: Path) -> None:
    a = program(*write(1, b"x"), end(1, 0, b"sh"))
    b = program(*write(1, b"x"), signal(1, 13, 0), end(1, 13, b"sh"))
    found = parting(tmp_path, a, b)
    assert found == parted((), Event(1, 1, 5, 5), Event(1, 1, 5, 5))


def test_a_path_that_is_read_late(tmp_path: Path) -> None:
    """The kernel has it at the call's end if its page was not there before."""
    path = detail(1, 1, b"/etc/passwd")
    a = program(enter(1, 257, -100, 0x7F0000, 0, more=path), leave(1, 257, 3))
    b = program(enter(1, 257, -100, 0x7F0000, 0), leave(1, 257, 3, path))
    assert parting(tmp_path, a, b) is None
    b = program(enter(1, 257, -100, 0x7F0000, 0), leave(1, 257, 3, detail(1, 1, b"/etc/group")))
    assert parting(tmp_path, a, b) is not None


def test_random_numbers_do_not_matter(tmp_path: Path) -> None:
    def run(data: bytes) -> list[bytes]:
        return program(enter(1, 318, 0x7F0000, 8), leave(1, 318, 8, detail(0, 2, data)))

    assert parting(tmp_path, run(b"8 bytes."), run(b"8 others")) is None


EXCLUSIVE = 0o302


def temporary(name: bytes, flags: int = EXCLUSIVE, used: bytes = b"") -> list[bytes]:
    """Makes a file, and has another program use it."""
    used = used or name
    path = detail(1, 1, b"/build/" + name)
    return program(
        enter(1, 257, -100, 0x7F0000, flags, 0o600, more=path),
        leave(1, 257, 3),
        fork(1, 3, 0x11),
        execute(3, b"/bin/as", b"as", b"-o", b"/build/" + used),
        *write(3, b"in " + used + b"/x:"),
    )


def test_random_names_stand_for_each_other(tmp_path: Path) -> None:
    a, b = temporary(b"ccXEl51Y.s"), temporary(b"ccM0l2aQ.s")
    assert parting(tmp_path, a, b) is None
    # One that is used where the other run uses another one.
    found = parting(tmp_path, a, temporary(b"ccM0l2aQ.s", used=b"ccM0l2aQ.o"))
    assert found is not None
    assert found.first == Event(3, 3, 6, 6)


@pytest.mark.parametrize(
    ("name", "flags"),
    [(b"ccXEl51Z.s", EXCLUSIVE), (b"ccM0l2aQQ.s", EXCLUSIVE), (b"ccM0l2aQ.s", 0o102)],
)
def test_names_that_are_not_random(tmp_path: Path, name: bytes, flags: int) -> None:
    found = parting(tmp_path, temporary(b"ccXEl51Y.s", flags), temporary(name, flags))
    assert found is not None
    assert found.first == Event(1, 1, 3, 4)


def make(first: bytes, second: bytes) -> list[bytes]:
    """sh starts cc, which writes *first*, and ld, which writes *second*."""
    return program(
        fork(1, 3, 0x11),
        fork(1, 4, 0x11),
        execute(3, b"/bin/cc", b"cc"),
        execute(4, b"/bin/ld", b"ld"),
        *write(3, first),
        *write(4, second),
        end(3, 0, b"cc"),
        end(4, 0, b"ld"),
    )


def test_selected_programs(tmp_path: Path) -> None:
    a, b = make(b"a", b"a"), make(b"b", b"b")
    for names, program_ in (((), "/bin/cc"), (["ld"], "/bin/ld"), (["/bin/ld"], "/bin/ld")):
        found = parting(tmp_path, a, b, Selection(names))
        assert found is not None
        assert found.program == program_
    assert parting(tmp_path, a, b, Selection(["sh"])) is None
    assert parting(tmp_path, a, b, Selection(["cc", "ld"])) == parting(tmp_path, a, b)


def test_selected_processes(tmp_path: Path) -> None:
    """By whose child they are, as the numbers may be other ones."""
    a, b = make(b"a", b"a"), make(b"b", b"b")
    with TraceReader(traces.write(tmp_path / "trace", a)) as reader:
        known = processes(reader.records())
    assert known == {1: [()], 3: [(1,)], 4: [(2,)]}
    found = parting(tmp_path, a, b, Selection(processes=known[4]))
    assert found is not None
    assert (found.lineage, found.program) == ((2,), "/bin/ld")


def test_a_thread_that_executes_a_program_takes_the_first_ones_number(tmp_path: Path) -> None:
    a = program(
        enter(2, 59, 0x7F0000, pid=1),
        end(1, 0, b"sh", last=False),
        execute(1, b"/bin/x", b"x"),
        leave(1, 59, 0),
        *write(1, b"x"),
        end(1, 0, b"x"),
    )
    assert parting(tmp_path, a, a) is None
    b = [*a[:-3], *write(1, b"y"), a[-1]]
    found = parting(tmp_path, a, b)
    assert found is not None
    assert (found.lineage, found.program, found.first) == ((), "/bin/x", Event(1, 1, 7, 8))


def test_parts_within_what_has_begun_before(tmp_path: Path) -> None:
    """The calls that threads are in where the traces' bytes part have been read by then."""
    head = program(
        enter(1, READ, 0, 0x7F0000, 9), *write(2, b"a" * 9, pid=1), *write(2, b"b", pid=1)
    )
    a = [*head, leave(1, READ, 1, detail(1, 2, b"1"))]
    b = [*head, leave(1, READ, 1, detail(1, 2, b"2"))]
    assert parting(tmp_path, a, b) == parted((), Event(1, 1, 3, 8), Event(1, 1, 3, 8))
    # A signal's handler, too, and a call that was interrupted.
    head = program(
        *HANDLED,
        enter(1, READ, 0, 0x7F0000, 9),
        leave(1, READ, -512),
        signal(1, 10, 0),
        enter(1, SIGRETURN),
        leave(1, SIGRETURN, 0),
        *write(2, b"x", pid=1),
    )
    tail = [enter(1, READ, 0, 0x7F0000, 9), leave(1, READ, 1)]
    middle = switch(1, 2, b"sh", next_pid=1)
    assert parting(tmp_path, [*head, *tail], [*head, middle, *tail]) is None


def test_any_interleaving_is_the_same(tmp_path: Path) -> None:
    """Threads that do the same in any order; and one event less is found."""
    chance = random.Random(1)
    count = 5
    head = program(*(fork(1, 3 + n, THREAD, child_pid=1) for n in range(count - 2)))
    scripts = [
        [call for n in range(20) for call in write(tid, b"%d %d" % (tid, n), pid=1)]
        for tid in range(1, count + 1)
    ]

    def mixed(scripts: list[list[bytes]]) -> list[bytes]:
        left = [list(script) for script in scripts]
        out = list(head)
        while any(left):
            script = chance.choice([script for script in left if script])
            out.append(script.pop(0))
        return out

    for _ in range(5):
        assert parting(tmp_path, mixed(scripts), mixed(scripts)) is None
    less = [list(script) for script in scripts]
    del less[2][20:22]
    found = parting(tmp_path, mixed(scripts), mixed(less))
    assert found is not None
    assert found.lineage == (1,)
    assert found.first is not None
    assert found.first.tid == 3
