"""Races: accesses of two threads to the same memory, one of them a write, and what orders them.

`vm-configs/plugin/races.c` finds them in a replay, by a file that both have mapped, as
`rewind.replay.watch` does. It looks at processes that have several threads, from the moment on at
which they make the second, and at those that share memory that they have mapped. The machine is
stopped there, and where such a process maps more code or becomes another program, to say what of
its memory is whose.
"""

import ctypes
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from rewind.formats.schedule import Position
from rewind.formats.trace import (
    ENTER,
    EXEC,
    EXIT,
    FORK,
    TASK_END,
    Enter,
    Exec,
    Exit,
    Fork,
    Record,
    TaskEnd,
)
from rewind.inspect import InspectError
from rewind.inspect.answers import KernelPlaces, Mapped, ProcessLayout, SyncPlaces
from rewind.inspect.worker import Inspector
from rewind.machine import MachineError
from rewind.replay.control import PluginControl
from rewind.replay.timeline import Replayed, Timeline

VERSION = 4
"""Of the control file."""
PROCESSES_MAX = 256
RANGES_MAX = 4096
PAIRS_MAX = 8192
STOPS_MAX = 400
"""How often the machine is stopped to say what is new; what comes then is not looked at."""

CLASSES = {5: "inverted", 1: "unordered", 2: "atomics", 3: "locked", 4: "ordered"}
"""What has ordered the two accesses, the least first. Those of inverted pairs take two locks, each
with the other one held, so that two threads can wait for one another."""

_MAGIC = b"rwraces\0"
_WRITE, _LOCKED, _UPDATE, _UNMAP = 1, 2, 4, 8
_CHANNELS, _CLEARS, _OFFSETS = 8, 4, 4
_BSS_MAX = 4 << 20
"""Bytes behind what is mapped of a file that are taken to be its variables."""

_MMAP, _SHMAT = 9, 30
_PROT_WRITE, _PROT_EXEC = 2, 4
_MAP_SHARED = 1
_MAP_TYPE = 3
_CLONE_VM, _CLONE_THREAD = 0x100, 0x10000


class RacesError(MachineError):
    """A replay can't be looked at."""


@attrs.frozen
class Side:
    """One of the two accesses."""

    time: int
    """Before the instruction."""
    pc: int
    pid: int
    """The process, by the kernel's own number, as is *tid*, the thread."""
    tid: int
    write: bool
    locked: bool
    """Whether the instruction is one with a lock prefix, or an exchange."""
    update: bool
    """Whether it reads and writes at once: on one CPU nothing can come between."""
    size: int
    unmap: bool = False
    """Whether the memory is unmapped: that is a write, of all of it."""
    entered: int = 0
    """When it took the last lock that it had then; 0 if it had none."""


@attrs.frozen
class Pair:
    """Two accesses to the same memory, as they were the first time."""

    kind: str
    """One of `CLASSES`."""
    address: int
    """In the process of *b*."""
    other: int
    """Of the two locks of an inverted pair the one that *b* had; of others 0."""
    count: int
    """How often it was met, by the same two instructions."""
    a: Side
    """The earlier one."""
    b: Side

    @property
    def is_half(self) -> bool:
        """Whether it is by the read of an instruction that writes, too: that one's write says it
        all."""
        return any(side.update and not side.write for side in (self.a, self.b))


@attrs.frozen(kw_only=True)
class Found:
    """What a replay has shown."""

    pairs: tuple[Pair, ...] = ()
    """Those that nothing orders first; within a class by the number of times."""
    accesses: int = 0
    """How many were looked at."""
    lost_words: int = 0
    """Accesses to more words than can be known at a time: they were not compared."""
    lost_pairs: int = 0
    """Meetings of pairs for which there was no room."""
    lost_threads: int = 0
    """Turns of threads for which there was no room."""
    lost_atoms: int = 0
    """Atomic accesses, or messages, for which there was no room: too much is called unordered."""
    forgotten: int = 0
    """Earlier accesses of words of several threads that others have taken the place of."""
    unseen: int = 0
    """Changes of processes that came after `STOPS_MAX` others."""
    processes: dict[int, int] = attrs.Factory(dict)
    """Those that were looked at: by the kernel's own number, the job's."""

    @property
    def lost(self) -> bool:
        """Whether something was not looked at for want of room."""
        lost = (self.lost_words, self.lost_pairs, self.lost_threads, self.lost_atoms, self.unseen)
        return any(lost)


@attrs.frozen
class Change:
    """At *step* something of process *pid* has to be said anew."""

    step: int
    pid: int
    looked_at: bool = True
    """Whether it is one to look at from then on."""
    shared: tuple[int, int] | None = None
    """Memory that it shares from now on with processes that it will make: [start, end)."""


def changes(records: Iterable[Record]) -> Iterator[Change]:
    """What of a run's processes has to be told, from its *records*."""
    looked_at: set[int] = set()
    sharing: set[int] = set()
    calls: dict[int, Enter] = {}
    for record in records:
        if isinstance(record, Enter):
            if record.call in (_MMAP, _SHMAT):
                calls[record.tid] = record
        elif isinstance(record, Exit):
            call = calls.pop(record.tid, None)
            if call is not None and call.call == record.call and record.value > 0:
                shared = _shared(call, record.value)
                if shared is not None or (record.pid in looked_at and _is_code(call)):
                    looked_at.add(record.pid)
                    if shared is not None:
                        sharing.add(record.pid)
                    yield Change(record.step, record.pid, shared=shared)
        elif isinstance(record, Fork):
            if record.flags & _CLONE_THREAD:
                if record.pid not in looked_at:
                    looked_at.add(record.pid)
                    yield Change(record.step, record.pid)
            elif record.pid in sharing and not record.flags & _CLONE_VM:
                # Memory that its parent shares it shares, too.
                looked_at.add(record.child_pid)
                sharing.add(record.child_pid)
                yield Change(record.step, record.child_pid)
        elif isinstance(record, Exec):
            if record.pid in looked_at:
                looked_at.discard(record.pid)
                sharing.discard(record.pid)
                yield Change(record.step, record.pid, looked_at=False)
        elif isinstance(record, TaskEnd) and record.last:
            looked_at.discard(record.pid)
            sharing.discard(record.pid)


def is_told(kind: int, aux: int) -> bool:
    """Whether `changes` needs a record, by its type and aux."""
    return kind in (FORK, EXEC, TASK_END) or (kind in (ENTER, EXIT) and aux in (_MMAP, _SHMAT))


def _shared(call: Enter, value: int) -> tuple[int, int] | None:
    """What *call*, which has returned *value*, has mapped that other processes can write to."""
    if call.call == _SHMAT:
        # How much it is the call doesn't say.
        return None
    _, size, protection, flags, *_ = call.args
    if flags & _MAP_TYPE in (_MAP_SHARED, _MAP_TYPE) and protection & _PROT_WRITE:
        return value, value + (size + 4095 & -4096)
    return None


def _is_code(call: Enter) -> bool:
    return call.call == _MMAP and bool(call.args[2] & _PROT_EXEC)


@attrs.frozen
class Images:
    """Where a process has code and variables: [start, end), in order."""

    own: tuple[tuple[int, int], ...] = ()
    """The program, and what was made in the run."""
    foreign: tuple[tuple[int, int], ...] = ()
    """Files that the job was given."""


def images(layout: ProcessLayout) -> Images:
    """What is where in a process.

    What is between the first and the last part of a file is the file's, as are its variables that
    begin as zeros behind it.
    """
    found: dict[bool, list[tuple[int, int]]] = {False: [], True: []}
    last: Mapped | None = None
    some = found[False]
    for part in layout.mapped:
        end = some[-1][1] if some else 0
        if part.path is not None:
            if last is not None and last.inode == part.inode:
                some[-1] = (some[-1][0], part.end)
            else:
                some = found[part.is_input and part.path != layout.executable]
                some.append((part.start, part.end))
            last = part
        elif last is not None and part.start == end and part.end - end <= _BSS_MAX:
            some[-1] = (some[-1][0], part.end)
            last = None
    return Images(own=tuple(found[False]), foreign=tuple(found[True]))


class _Range(ctypes.LittleEndianStructure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("start", "end")),
        *((name, ctypes.c_uint32) for name in ("process", "reserved")),
    )


class _Channel(ctypes.LittleEndianStructure):
    _fields_ = (
        ("function", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("send", "depth")),
        ("offset", ctypes.c_uint32 * _OFFSETS),
    )


class _Side(ctypes.LittleEndianStructure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("time", "locked")),
        ("pc", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("pid", "tid", "flags", "size")),
    )


class _Pair(ctypes.LittleEndianStructure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("address", "other", "count")),
        *((name, ctypes.c_uint32) for name in ("kind", "reserved")),
        *((name, _Side) for name in ("a", "b")),
    )


_FUNCTIONS = ("wake", "wake_new", "exit", "reap", "clone", "futex", "unmap")
_LOST = ("lost_words", "lost_pairs", "lost_threads", "lost_atoms")


class _Control(ctypes.LittleEndianStructure):
    """``Control`` of races.c."""

    _fields_ = (
        ("magic", ctypes.c_char * 8),
        *((name, ctypes.c_uint32) for name in ("version", "plugin_version")),
        *(
            (name, ctypes.c_uint64)
            for name in (
                *("current_task", "preempt_count", "switch_to", "switch_to_size"),
                *_FUNCTIONS,
            )
        ),
        ("clear", ctypes.c_uint64 * _CLEARS),
        *((name, ctypes.c_uint32) for name in ("pid_offset", "tgid_offset", "child_tid_offset")),
        *((name, ctypes.c_uint32) for name in ("stack_offset", "stack_size_offset", "tls_offset")),
        ("channel", _Channel * _CHANNELS),
        ("generation", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("processes", "foreign", "images", "shared")),
        ("since", ctypes.c_int64),
        *((name, ctypes.c_uint64) for name in ("taken", "accesses", *_LOST, "forgotten", "pairs")),
        ("process", ctypes.c_uint32 * PROCESSES_MAX),
        ("foreign_range", _Range * RANGES_MAX),
        ("image_range", _Range * RANGES_MAX),
        ("shared_range", _Range * RANGES_MAX),
        ("pair", _Pair * PAIRS_MAX),
    )


class Analyser(PluginControl):
    """A plugin's control; a context manager. QEMU is started with `arguments` and `pass_fds`.

    :param plugin: races.so.
    :param places: of the kernel that the machine runs: `Inspector.places`, ...
    :param sync: ... and `Inspector.sync_places`.
    :param since: pairs of which the later access was made before that time are left out.
    """

    def __init__(
        self, plugin: Path, places: KernelPlaces, sync: SyncPlaces, since: int = 0
    ) -> None:
        super().__init__(plugin, _Control, magic=_MAGIC, version=VERSION, error=RacesError)
        control = self._control
        for name in ("current_task", "switch_to", "switch_to_size", "pid_offset", "tgid_offset"):
            setattr(control, name, getattr(places, name))
        for name in (
            *_FUNCTIONS,
            *("preempt_count", "child_tid_offset"),
            *("stack_offset", "stack_size_offset", "tls_offset"),
        ):
            setattr(control, name, getattr(sync, name))
        for number, function in enumerate(sync.clear):
            control.clear[number] = function
        for number, message in enumerate(sync.messages):
            channel = control.channel[number]
            channel.function, channel.send = message.function, message.send
            channel.depth = len(message.offsets)
            for at, offset in enumerate(message.offsets):
                channel.offset[at] = offset
        control.since = since
        self.look_at({}, [])

    def look_at(
        self,
        processes: dict[int, Images],
        shared: Sequence[tuple[int, int]],
    ) -> None:
        """Have the machine, which does not run, look at *processes* from now on.

        :param processes: by the kernel's own number.
        :param shared: where a process may have memory that it shares with others.
        :raises RacesError: if that is too much.
        """
        control = self._control
        foreign = [(number, one) for number, some in processes.items() for one in some.foreign]
        own = [(number, one) for number, some in processes.items() for one in some.own]
        for what, count, most in (
            ("processes", len(processes), PROCESSES_MAX),
            ("files that they have mapped", max(len(foreign), len(own)), RANGES_MAX),
            ("parts of memory that they share", len(shared), RANGES_MAX),
        ):
            if count > most:
                raise RacesError(f"{count:,} {what} are too many to look at; {most:,} can be")
        control.generation += 1
        control.processes = len(processes)
        for at, number in enumerate(processes):
            control.process[at] = number
        control.foreign, control.images = len(foreign), len(own)
        for ranges, some in ((control.foreign_range, foreign), (control.image_range, own)):
            for at, (number, (start, end)) in enumerate(some):
                ranges[at] = (start, end, number, 0)
        control.shared = len(shared)
        for at, (start, end) in enumerate(shared):
            control.shared_range[at] = (start, end, 0, 0)

    def found(self) -> Found:
        """What there is when the machine has ended.

        :raises RacesError: if no plugin that understands this has looked.
        """
        control = self._control
        self._check_taken("look at")
        order = list(CLASSES.values())
        pairs = [_pair(control.pair[at]) for at in range(control.pairs)]
        pairs.sort(
            key=lambda pair: (order.index(pair.kind), not pair.b.unmap, -pair.count, pair.b.time)
        )
        return Found(
            pairs=tuple(pairs),
            accesses=control.accesses,
            **{name: getattr(control, name) for name in _LOST},
            forgotten=control.forgotten,
        )


def _pair(pair: Any) -> Pair:
    sides = _side(pair.a), _side(pair.b)
    return Pair(CLASSES[pair.kind], pair.address, pair.other, pair.count, *sides)


def _side(side: Any) -> Side:
    flags = side.flags
    return Side(
        time=side.time,
        pc=side.pc,
        pid=side.pid,
        tid=side.tid,
        write=bool(flags & _WRITE),
        locked=bool(flags & _LOCKED),
        update=bool(flags & _UPDATE),
        size=side.size,
        unmap=bool(flags & _UNMAP),
        entered=side.locked,
    )


class Telling:
    """Tells an analyser what processes have, each time that a machine stands where that changes.

    :param told: the run's `changes`.
    """

    def __init__(self, analyser: Analyser, inspector: Inspector, told: Sequence[Change]) -> None:
        self._analyser = analyser
        self._inspector = inspector
        stops = [
            (step, list(group)) for step, group in itertools.groupby(told, key=lambda c: c.step)
        ]
        self._unseen = len(stops[STOPS_MAX:])
        self._todo = iter(stops[:STOPS_MAX])
        self.steps = [step for step, _ in stops[:STOPS_MAX]]
        """Where the machine is to stand."""
        self._looking: set[int] = set()
        self._known: dict[int, int] = {}
        self._shared: list[tuple[int, int]] = []

    def tell(self) -> None:
        """The machine, which the inspector looks at, stands at the next of `steps`.

        :raises RacesError: if the processes have too much.
        """
        _, group = next(self._todo)
        for change in group:
            if change.looked_at:
                self._looking.add(change.pid)
            else:
                self._looking.discard(change.pid)
            if change.shared is not None:
                self._shared.append(change.shared)
        self._analyser.look_at(
            _processes(self._inspector, self._looking, self._known), self._shared
        )

    def found(self) -> Found:
        """What there is when the machine has ended.

        :raises RacesError: if no plugin that understands this has looked.
        """
        found = self._analyser.found()
        return attrs.evolve(found, unseen=self._unseen, processes=self._known)


def find_races(
    timeline: Timeline,
    analyser: Analyser,
    inspector: Inspector,
    look_at: Callable[[Replayed], None],
    told: Sequence[Change],
) -> Found:
    """Make the run again, and find what its threads have accessed.

    :param look_at: have *inspector* look at a machine.
    :param told: the run's `changes`.
    """
    telling = Telling(analyser, inspector, told)
    stops = [timeline.time(Position(step, 0)) for step in telling.steps]
    if not stops:
        return Found()
    with timeline.machine(
        stops[0],
        stops=stops[1:],
        arguments=analyser.arguments,
        pass_fds=analyser.pass_fds,
    ) as replayed:
        for number in range(len(stops)):
            if number:
                replayed.stopped()
            look_at(replayed)
            telling.tell()
            replayed.monitor.execute("cont")
        if replayed.machine.process.wait():
            raise replayed.machine.failure("the machine ended before the run did")
        return telling.found()


def _processes(inspector: Inspector, pids: set[int], known: dict[int, int]) -> dict[int, Images]:
    """Those of *pids* that are there, by the kernel's number.

    :param known: what is added to: their numbers.
    """
    found: dict[int, Images] = {}
    for task in inspector.tasks():
        if task.pid not in pids or task.process in found or task.state == "ended":
            continue
        try:
            found[task.process] = images(inspector.layout(task.tid))
        except InspectError:
            # It is about to end, and has no memory any more.
            continue
        known[task.process] = task.pid
    return found
