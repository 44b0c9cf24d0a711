"""Races: what the plugin is told, and what is read of it."""

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import traces
from rewind.analysis import objects
from rewind.analysis.clocks import Actor, Who
from rewind.cli.commands import races as command
from rewind.cli.runs import Run
from rewind.formats.schedule import Position
from rewind.formats.trace import Enter, Exec, Exit, Fork, Record, TaskEnd, TraceReader
from rewind.inspect.answers import (
    Frame,
    KernelPlaces,
    Mapped,
    MessagePlace,
    ProcessLayout,
    SyncPlaces,
)
from rewind.replay import races
from rewind.replay.races import (
    Analyser,
    Change,
    Found,
    Images,
    Pair,
    RacesError,
    Side,
    changes,
    images,
    is_told,
)

PLACES = KernelPlaces(
    current_task=1, switch_to=2, switch_to_size=3, page_fault=4, pid_offset=5, tgid_offset=6
)
SYNC = SyncPlaces(
    preempt_count=11,
    wake=12,
    wake_new=13,
    exit=14,
    reap=15,
    clone=16,
    futex=17,
    unmap=26,
    clear=(18, 19),
    messages=(MessagePlace(20, True, (0, 8)), MessagePlace(21, False, (4,))),
    child_tid_offset=22,
    stack_offset=23,
    stack_size_offset=24,
    tls_offset=25,
)
PLUGIN = Path("/plugin/races.so")
THREAD, VM = 0x10000, 0x100
MMAP = 9


class Plugin:
    """Does in an analyser's file what the plugin would."""

    def __init__(self, analyser: Analyser, version: int = races.VERSION) -> None:
        (self.descriptor,) = analyser.pass_fds
        self.write("plugin_version", "<I", version)

    def write(self, name: str, form: str, *values: int, more: int = 0) -> None:
        at = getattr(races._Control, name).offset + more
        os.pwrite(self.descriptor, struct.pack(form, *values), at)

    def read(self, name: str, form: str, more: int = 0) -> tuple[int, ...]:
        at = getattr(races._Control, name).offset + more
        return struct.unpack(form, os.pread(self.descriptor, struct.calcsize(form), at))

    def take(self) -> None:
        """Be told what to look at."""
        self.write("taken", "<Q", *self.read("generation", "<Q"))

    def pair(self, kind: int, count: int, time: int) -> None:
        """Find a pair, which is by a read and a locked instruction that does both."""
        (number,) = self.read("pairs", "<Q")
        side = "qqQIIII"
        data = (
            *(0x4000 + number, 0, count, kind, 0),
            *(time, 0, 0x1000, 50, 51, 0, 8),
            *(time + 1, time - 5, 0x1004, 50, 52, 7, 4),
        )
        size = ctypes.sizeof(races._Pair)
        self.write("pair", f"<QQQII{side}{side}", *data, more=number * size)
        self.write("pairs", "<Q", number + 1)


@pytest.fixture
def analyser() -> Iterator[Analyser]:
    with Analyser(PLUGIN, PLACES, SYNC) as made:
        yield made


def test_the_layout_is_the_plugins() -> None:
    # By hand, from races.c: 8 bytes of magic, then as the compiler lays it out.
    offsets = {name: getattr(races._Control, name).offset for name, *_ in races._Control._fields_}
    assert offsets["current_task"] == 16
    assert offsets["wake"] == 48
    assert offsets["clear"] == 104
    assert offsets["pid_offset"] == 136
    assert offsets["channel"] == 160
    assert offsets["generation"] == 416
    assert offsets["since"] == 440
    assert offsets["taken"] == 448
    assert offsets["process"] == 512
    assert ctypes.sizeof(races._Pair) == 112


def test_the_plugin_knows_the_kernel(analyser: Analyser) -> None:
    plugin = Plugin(analyser)
    assert plugin.read("current_task", "<4Q") == (1, 11, 2, 3)
    assert plugin.read("wake", "<7Q") == (12, 13, 14, 15, 16, 17, 26)
    assert plugin.read("clear", "<4Q") == (18, 19, 0, 0)
    assert plugin.read("pid_offset", "<6I") == (5, 6, 22, 23, 24, 25)
    assert plugin.read("channel", "<QIIII") == (20, 1, 2, 0, 8)
    assert plugin.read("channel", "<QIII", more=32) == (21, 0, 1, 4)


def test_what_to_look_at(analyser: Analyser) -> None:
    plugin = Plugin(analyser)
    (before,) = plugin.read("generation", "<Q")
    one = Images(own=((7, 8),), foreign=((1, 2), (3, 4)))
    analyser.look_at({50: one, 60: Images()}, [(5, 6)])
    assert plugin.read("generation", "<Q") == (before + 1,)
    assert plugin.read("processes", "<4I") == (2, 2, 1, 1)
    assert plugin.read("process", "<2I") == (50, 60)
    assert plugin.read("foreign_range", "<QQIIQQI") == (1, 2, 50, 0, 3, 4, 50)
    assert plugin.read("image_range", "<QQI") == (7, 8, 50)
    assert plugin.read("shared_range", "<QQ") == (5, 6)


def test_too_much(analyser: Analyser) -> None:
    with pytest.raises(RacesError, match=r"257 processes are too many to look at; 256 can be"):
        analyser.look_at({number: Images() for number in range(257)}, [])


def test_pairs_that_nothing_orders_come_first(analyser: Analyser) -> None:
    plugin = Plugin(analyser)
    plugin.take()
    for kind, times in ((4, 9), (1, 1), (2, 5), (1, 3), (3, 1)):
        plugin.pair(kind, times, 1000)
    plugin.write("lost_words", "<Q", 2)
    found = analyser.found()
    assert [(pair.kind, pair.count) for pair in found.pairs] == [
        ("unordered", 3),
        ("unordered", 1),
        ("atomics", 5),
        ("locked", 1),
        ("ordered", 9),
    ]
    assert found.lost_words == 2
    a = Side(1000, 0x1000, 50, 51, write=False, locked=False, update=False, size=8)
    b = Side(1001, 0x1004, 50, 52, write=True, locked=True, update=True, size=4, entered=995)
    assert found.pairs[1] == Pair("unordered", 0x4001, 0, 1, a, b)


@pytest.mark.parametrize(
    ("version", "why"), [(0, "was not loaded"), (races.VERSION + 1, "is of version")]
)
def test_another_plugin(analyser: Analyser, version: int, why: str) -> None:
    Plugin(analyser, version).take()
    with pytest.raises(RacesError, match=why):
        analyser.found()


def test_a_machine_that_has_not_run(analyser: Analyser) -> None:
    Plugin(analyser)
    with pytest.raises(RacesError, match="has not run"):
        analyser.found()


# --- what of a run is looked at


class Trace:
    """Records, each a step."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def _where(self, pid: int, tid: int | None = None) -> dict[str, int]:
        step = len(self.records)
        return {"step": step, "time": 10 * step, "pid": pid, "tid": tid or pid}

    def fork(self, pid: int, child: int, flags: int = 0) -> int:
        """A thread or a process; the step."""
        child_pid = pid if flags & THREAD else child
        self.records.append(
            Fork(**self._where(pid), child_pid=child_pid, child_tid=child, flags=flags)
        )
        return len(self.records) - 1

    def map(self, pid: int, protection: int, flags: int, value: int = 0x7000_0000) -> int:
        """A call of mmap; the step at which it returns."""
        args = (0, 100, protection, flags, 0, 0)
        self.records.append(Enter(**self._where(pid), call=MMAP, args=args, ip=0, details=()))
        self.records.append(Exit(**self._where(pid), call=MMAP, value=value, details=()))
        return len(self.records) - 1

    def execute(self, pid: int) -> int:
        self.records.append(Exec(**self._where(pid), path="/program", arguments=()))
        return len(self.records) - 1

    def end(self, pid: int) -> None:
        self.records.append(TaskEnd(**self._where(pid), code=0, name="program", last=True))


def test_a_process_is_looked_at_from_its_second_thread_on() -> None:
    trace = Trace()
    trace.map(2, 5, 2)
    first = trace.fork(2, 3, THREAD | VM)
    trace.fork(2, 4, THREAD | VM)
    trace.fork(2, 5)
    code = trace.map(2, 5, 2)
    trace.map(2, 3, 2)
    assert list(changes(trace.records)) == [
        Change(first, 2),
        # What it has forked has a copy of its memory.
        Change(code, 2),
    ]


def test_another_program_has_no_threads() -> None:
    trace = Trace()
    first = trace.fork(2, 3, THREAD | VM)
    other = trace.execute(2)
    trace.map(2, 5, 2)
    again = trace.fork(2, 4, THREAD | VM)
    trace.end(2)
    trace.map(2, 5, 2)
    assert list(changes(trace.records)) == [
        Change(first, 2),
        Change(other, 2, looked_at=False),
        Change(again, 2),
    ]


def test_no_more_of_a_trace_is_read_than_it_takes(tmp_path: Path) -> None:
    path = traces.write(
        tmp_path / "trace",
        [
            *(traces.enter(2, 0, 3), traces.leave(2, 0, 1), traces.wake(2, 3)),
            traces.fork(2, 3, flags=THREAD | VM, child_pid=2),
            *(traces.enter(3, MMAP, 0, 100, 5, 2, pid=2), traces.leave(3, MMAP, 4096, pid=2)),
            traces.execute(2, b"/program"),
            traces.fork(2, 4, flags=THREAD | VM, child_pid=2),
            traces.end(2, 0, b"program"),
            traces.fork(2, 5, flags=THREAD | VM, child_pid=2),
        ],
    )
    with TraceReader(path) as reader:
        everything = list(changes(reader.records()))
        assert list(changes(reader.records(select=is_told))) == everything
    assert [change.step for change in everything] == [3, 5, 6, 7, 9]


def test_memory_that_processes_share() -> None:
    trace = Trace()
    trace.map(2, 1, 1)
    trace.map(2, 3, 2)
    shared = trace.map(2, 3, 1)
    trace.map(2, 3, 1, value=-12)
    child = trace.fork(2, 3)
    assert list(changes(trace.records)) == [
        Change(shared, 2, shared=(0x7000_0000, 0x7000_1000)),
        Change(child, 3),
    ]


def mapped(start: int, end: int, path: str | None, *, is_input: bool = True) -> Mapped:
    inode = hash(path) if path else 0
    return Mapped(
        start=start,
        end=end,
        offset=0,
        access="rw-p",
        path=path,
        inode=inode,
        is_input=is_input and path is not None,
    )


def test_what_is_the_programs_own() -> None:
    layout = ProcessLayout(
        executable="/nix/store/python",
        auxv=b"",
        mapped=(
            mapped(0x1000, 0x2000, "/nix/store/python"),
            mapped(0x2000, 0x3000, None),
            mapped(0x4000, 0x5000, "/build/own.so", is_input=False),
            mapped(0x5000, 0x6000, "/nix/store/libc.so"),
            mapped(0x7000, 0x8000, "/nix/store/libc.so"),
            mapped(0x8000, 0x9000, None),
            mapped(0x9000, 0xA000, None),
            mapped(0xA000, 0xB000, "/nix/store/ld.so"),
            mapped(0xC000, 0xD000, None),
        ),
    )
    assert images(layout) == Images(
        own=((0x1000, 0x3000), (0x4000, 0x5000)),
        foreign=((0x5000, 0x9000), (0xA000, 0xB000)),
    )


# --- what is said


@attrs.define
class Looker:
    """Stands for what stops the machine at accesses; *frames* says where an instruction is."""

    frames: dict[int, Frame]
    lined: set[str | None] = attrs.Factory(set)
    asked: int = 0

    def pair(self, pair: Pair) -> Any:
        self.asked += 1
        sides = []
        for side in (pair.a, pair.b):
            frame = self.frames[side.pc]
            if frame.line:
                self.lined.add(frame.module)
            where = command._Where(frame, None)
            sides.append(command._Access(side, Position(side.time, 1), 5, side.tid, where))
        names = (pair.address, "balance", pair.other, "forks[1]" if pair.other else None)
        return command._Shown(pair.kind, *names, pair.count, *sides)


def pair(kind: str, a: int, b: int, address: int = 0x4000, count: int = 1) -> Pair:
    first = Side(10, a, 50, 6, write=False, locked=False, update=False, size=8)
    second = Side(20, b, 50, 7, write=True, locked=False, update=False, size=8)
    return Pair(kind, address, 0, count, first, second)


def line(number: int, *, own: bool = True, module: str = "/bin/bank") -> Frame:
    return Frame(1, function="deposit", file="/b/bank.c", line=number, own=own, module=module)


def answered(pairs: list[Pair], looker: Looker, *, everything: bool = False) -> Any:
    run = Run(Path("/nix/store/aaaabbbb-rewind-run-bank"), "aaaabbbb", "bank")
    made = command._Answer(run, Found(processes={50: 5}), pairs)
    made.take(looker, everything)
    return made


def test_what_is_the_same_to_who_reads_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    looker = Looker({1: line(24), 2: line(24), 3: line(30)})
    pairs = [pair("unordered", 1, 3, count=2), pair("unordered", 2, 3), pair("ordered", 1, 3)]
    answer = answered(pairs, looker)
    assert answer.unordered
    answer.say(False)
    assert capsys.readouterr().out.splitlines() == [
        "unordered: balance at 0x4000, 3 times",
        "  10+1  5/6 reads, in deposit (bank.c:24)",
        "  20+1  5/7 writes, in deposit (bank.c:30)",
        "",
        "1 pair that nothing orders",
        "with --all: 1 ordered",
        "rewind where aaaabbbb 10+1",
    ]


def test_two_locks_in_either_order(capsys: pytest.CaptureFixture[str]) -> None:
    inverted = attrs.evolve(pair("inverted", 1, 2), other=0x5000)
    answer = answered([inverted], Looker({1: line(24), 2: line(30)}))
    answer.say(False)
    assert capsys.readouterr().out.splitlines() == [
        "inverted: forks[1] at 0x5000 and balance at 0x4000",
        "  10+1  5/6 has the second and takes the first, in deposit (bank.c:24)",
        "  20+1  5/7 has the first and takes the second, in deposit (bank.c:30)",
        "",
        "1 pair that can wait for one another",
        "0 pairs that nothing orders",
    ]
    assert not answer.unordered


def test_memory_that_is_unmapped(capsys: pytest.CaptureFixture[str]) -> None:
    given = pair("unordered", 1, 3)
    given = attrs.evolve(given, b=attrs.evolve(given.b, unmap=True))
    answered([given], Looker({1: line(24), 3: line(30)})).say(False)
    assert "  20+1  5/7 unmaps it, in deposit (bank.c:30)" in capsys.readouterr().out.splitlines()


def test_a_statically_linked_library_is_not_the_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    library = Frame(1, function="start_thread", own=True, module="/bin/bank")
    looker = Looker({1: library, 2: line(24)})
    pairs = [pair("unordered", 1, 1), pair("atomics", 2, 2)]
    answer = answered(pairs, looker)
    assert not answer.unordered
    assert answer.data()["not_shown"]["libraries"] == 1
    answer.say(False)
    assert "0 pairs that nothing orders" in capsys.readouterr().out
    # Of a program without debug information all is the program's.
    assert answered(pairs[:1], looker=Looker({1: library})).unordered
    assert answered(pairs, looker, everything=True).unordered


def test_not_more_than_can_be_read() -> None:
    looker = Looker({number: line(number) for number in range(1, 100)})
    pairs = [pair("unordered", number, 1) for number in range(1, 50)]
    answer = answered(pairs, looker)
    assert looker.asked == len(answer.data()["pairs"]) == command.SHOWN
    assert answer.data()["not_shown"]["more"] == 49 - command.SHOWN
    assert len(answered(pairs, looker, everything=True).data()["pairs"]) == 49


def test_what_was_lost_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(Path("/nix/store/aaaabbbb-rewind-run-bank"), "aaaabbbb", "bank")
    answer = command._Answer(run, Found(processes={50: 5}, lost_threads=1234), [])
    answer.say(False)
    said = capsys.readouterr()
    assert said.out == "0 pairs that nothing orders\n"
    assert said.err == ("rewind: 1,234 turns were not looked at: there are too many threads\n")


def test_kernel_objects(capsys: pytest.CaptureFixture[str]) -> None:
    """The likeliest pair of each; descriptors are a process's."""

    def access(pid: int, does: str, step: int) -> objects.Access:
        who = Who(pid, pid, "/build/replace", ("./replace",), 2)
        return objects.Access(Actor(who), who, does, does != "openat", step, step + 1, step)

    unlink, rename, look = (
        access(65, "unlink", 10),
        access(65, "rename", 12),
        access(64, "openat", 20),
    )
    found = objects.Objects()
    found.pairs += [
        objects.Pair("file", "/build/index", unlink, look, None),
        objects.Pair("file", "/build/index", rename, look, unlink),
        objects.Pair("descriptors", "64", unlink, look, None),
    ]
    command._say_objects(found, None, everything=False)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "file /build/index: nothing forces this order",
        "  10  65 (replace) unlink",
        "  12  65 (replace) rename",
        "  20  64 (replace) openat",
        "",
        "descriptors of 64: nothing forces this order",
        "  10  65 (replace) unlink",
        "  20  64 (replace) openat",
    ]
    command._say_objects(found, 7, everything=True)
    assert capsys.readouterr().out == ""
    data = command._object(found.pairs[1])
    assert (data["object"], data["before"]["does"], data["b"]["position"]) == (
        "/build/index",
        "unlink",
        "20",
    )
