"""Where what two runs' programs do parts, whenever it is that they do it.

A perturbed run has other switches and other times from its first perturbation on, and mostly
nothing else. What a program could notice is compared here, thread by thread:

- Threads are matched by order of appearance: the builder's first thread is that of both runs, and
  a thread's third child is its third child. Their numbers may differ: where a call takes or returns
  one, it stands for the thread it belongs to.
- Compared are calls with their arguments, what those point to and their results, programs that are
  executed, signals, and how threads end. What a signal's handler does is compared with what that
  signal's handler does in the same thread, wherever it came in between.
- Not compared are steps, times and switches; addresses (of which only NULL is told from others);
  and what says no more than when something happened: that a thread waited for another in the
  kernel (futex), for a child (wait4, and SIGCHLD with all that its handler does) or a signal, gave
  way (sched_yield) or held signals back, that a call was interrupted and went on, and memory that
  was had or given back (a thread's stack may be one that another has left), unless that failed.
- Random numbers depend on who asked for some before. What getrandom gives is not compared, and a
  new file with a random name (that of mkstemp or mkdtemp) stands for the other run's from then on,
  wherever its name is found.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import attrs

from rewind.analysis import syscalls
from rewind.analysis.difference import same_until
from rewind.formats import trace
from rewind.formats.trace import (
    Detail,
    Enter,
    Exec,
    Exit,
    Fork,
    Mark,
    Raw,
    Record,
    SignalDelivered,
    TaskEnd,
    TraceReader,
)

Lineage = tuple[int, ...]
"""Which thread, in every run of the same job: the first is ``()``, and a thread's n-th child (from
0) has its parent's and n."""


@attrs.frozen
class Event:
    """What a thread does, from the record *begin* to *step*: the same but for a call's result.

    *step* is None if a call does not return as long as the trace lasts.
    """

    pid: int
    tid: int
    begin: int
    step: int | None


@attrs.frozen
class Thread:
    """A thread of one of the runs, with the step at which it was first seen."""

    pid: int
    tid: int
    first: int


@attrs.frozen
class Parting:
    """What the thread *lineage* of a program does differs; None: it does nothing more there."""

    lineage: Lineage
    program: str
    """The path that its process executed last, "" if it never did."""
    first: Event | None
    second: Event | None
    first_thread: Thread | None
    """None: there is none."""
    second_thread: Thread | None


@attrs.frozen
class Selection:
    """Which programs are compared: by path or its last part, and by process; all if empty."""

    programs: Collection[str] = ()
    processes: Collection[Lineage] = ()
    """The lineages of their first threads."""


def part(
    a: Iterable[Record], b: Iterable[Record], selection: Selection | None = None
) -> Parting | None:
    """Where what the programs do parts in two runs, whose records are *a* and *b* from step 0 on.

    Of several threads the one whose event is the earliest in either run; None if they all do
    the same. The records are read once, and no further than needed.
    """
    names = _Lineages()
    first, second = (_Side(names, selection or Selection()) for _ in "ab")
    return _Comparison(names, (first, second), (first.events(a), second.events(b))).run()


def part_traces(
    a: TraceReader, b: TraceReader, selection: Selection | None = None
) -> Parting | None:
    """`part` of two traces; what they have in common at the beginning takes little time."""
    step = same_until(a, b)
    if step == a.steps == b.steps:
        return None
    names = _Lineages()
    first = _Side(names, selection or Selection())
    # Both sides are in the same state there, and all events had their match.
    for frame in a.frames(0, step - 1) if step else ():
        for raw in trace.walk(frame, a.end.start, _matters):
            first.skip(frame.data, raw)
    second = first.copy()
    sides = first, second
    return _Comparison(names, sides, (first.trace(a, step), second.trace(b, step))).run()


def processes(records: Iterable[Record]) -> dict[int, list[Lineage]]:
    """The lineages of the processes in a run, by pid, which may have been used again.

    Of all records only forks, programs and ends matter; others may be left out, but the first.
    """
    names = _Lineages()
    side = _Side(names, Selection())
    found: dict[int, list[Lineage]] = {}
    for record in records:
        side.see(record)
        for pid in (record.pid, record.child_pid if isinstance(record, Fork) else 0):
            process = side.processes.get(pid)
            if process is None:
                continue
            lineage = names.lineage(process.first)
            if lineage not in found.setdefault(pid, []):
                found[pid].append(lineage)
    return found


class _Lineages:
    """Lineages as numbers, the same for both sides."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._origins: list[tuple[int, int]] = [(-1, 0)]

    def child(self, parent: int, place: int) -> int:
        """The child *place* of the thread *parent*."""
        number = self._numbers.get((parent, place))
        if number is None:
            number = self._numbers[parent, place] = len(self._origins)
            self._origins.append((parent, place))
        return number

    def lineage(self, number: int) -> Lineage:
        """What *number* stands for."""
        places = []
        while number:
            number, place = self._origins[number]
            places.append(place)
        return tuple(reversed(places))

    def number(self, lineage: Lineage) -> int:
        """What stands for *lineage*."""
        number = 0
        for place in lineage:
            number = self.child(number, place)
        return number


@attrs.define
class _Process:
    first: int
    """Its first thread's lineage."""
    program: str = ""
    handled: frozenset[int] = frozenset()
    """The signals for which it has said what is to be done with them."""
    wanted: bool = True


@attrs.define
class _Thread:
    pid: int
    tid: int
    lineage: int
    children: int = 0
    call: "_Call | None" = None
    """What it is in."""
    interrupted: "_Call | None" = None
    """What it will go on with, unless it does something else."""
    handlers: list[tuple[int, "_Call | None"]] = attrs.field(factory=list)
    """The signals that it handles, with what each interrupted."""


@attrs.frozen
class _Call:
    record: Enter
    args: tuple[Any, ...]


_Key = tuple[int, int]
"""A thread's lineage, and the signal that it handles or 0."""


@attrs.frozen
class _Event:
    """An `Event` on its way: *what* happens and, apart, with which *result*, if it has one."""

    key: _Key
    pid: int
    tid: int
    begin: int
    step: int | None
    program: str
    what: Any
    result: Any

    def public(self) -> Event:
        return Event(self.pid, self.tid, self.begin, self.step)


# --- what of a call is compared

_FUTEX, _MMAP, _RESTART, _SIGACTION, _SIGRETURN = 202, 9, 219, 13, 15
_WHEN = frozenset({_FUTEX, 449, 454, 455, 456, 24, 61, 247, 34, 130, 14})
"""futex and its like, sched_yield, wait4, waitid, pause, rt_sigsuspend, rt_sigprocmask."""
_SIGCHLD = 17
_MEMORY = frozenset({_MMAP, 10, 11, 12, 25, 28})
"""mmap, mprotect, munmap, brk, mremap, madvise."""
_MAP_ANONYMOUS = 0x20
_RETURN_TASK = frozenset({39, 56, 57, 58, 61, 110, 111, 112, 121, 124, 186, 218, 435})
"""getpid, clone, fork, vfork, wait4, getppid, getpgrp, setsid, getpgid, getsid, gettid,
set_tid_address, clone3."""
_RETURN_ADDRESS = frozenset({_MMAP, 12, 25, 30, 453})
"""mmap, brk, mremap, shmat, map_shadow_stack."""
_GETRANDOM = 318
_RETURN_TIME = frozenset({37, 100, 201})
"""alarm, times, time."""
_INTERRUPTED = frozenset({-512, -513, -514, -516})
"""The kernel's ERESTARTSYS and so on, of which programs see at most EINTR."""
_EINTR = -4

_POINTERS = frozenset({"ptr", "path", "data", "argv", "address"})
_TASK_NUMBERS = frozenset({"pid"})
_ADDRESSES_FROM = 1 << 32
"""A number whose meaning is not known is taken for an address from here on."""
_32_BITS = 0xFFFFFFFF

_KINDS = {
    int(number): tuple(kinds)
    for number, _, *kinds in (
        line.partition("=")[0].split() for line in syscalls.CALLS.strip().splitlines()
    )
}
_UNKNOWN = ("hex",) * 6


def is_compared(call: Enter, value: int | None) -> bool:
    """Whether a call that returned *value* (None: it did not) counts, or says only when it was."""
    if call.call in _WHEN:
        return False
    memory = call.call in _MEMORY and (call.call != _MMAP or call.args[3] & _MAP_ANONYMOUS != 0)
    return not memory or (value is not None and _is_error(value))


def _is_error(value: int) -> bool:
    return -4096 < value < 0


@attrs.define
class _Side:
    """One of the runs: who its tasks are, and what they do."""

    names: _Lineages
    selection: Selection
    processes: dict[int, _Process] = attrs.field(factory=dict)
    threads: dict[int, _Thread] = attrs.field(factory=dict)
    """Those that live, by tid."""
    owners: dict[int, int] = attrs.field(factory=dict)
    """The lineage of whom a tid belongs to or belonged to last."""
    known: dict[int, Thread] = attrs.field(factory=dict)
    """All that there have been, by lineage."""
    others: int = 0
    """How many tasks have come from outside the job."""
    _wanted: frozenset[int] = frozenset()
    _calls: dict[int, tuple[bytes, Raw]] = attrs.field(factory=dict)
    """Calls that were skipped and have not returned, by tid."""

    def __attrs_post_init__(self) -> None:
        self._wanted = frozenset(map(self.names.number, self.selection.processes))

    def copy(self) -> "_Side":
        """Another side, in the same state."""
        return attrs.evolve(
            self,
            processes={pid: attrs.evolve(process) for pid, process in self.processes.items()},
            threads={
                tid: attrs.evolve(thread, handlers=list(thread.handlers))
                for tid, thread in self.threads.items()
            },
            owners=dict(self.owners),
            known=dict(self.known),
            calls=dict(self._calls),
        )

    # --- tasks

    def _thread(self, record: Record) -> _Thread | None:
        """Whose record it is; the builder's first is there when it is first seen."""
        thread = self.threads.get(record.tid)
        if thread is None and record.pid and not self.owners:
            thread = self._begin(_Thread(record.pid, record.tid, 0), record.step)
            self.processes[record.pid] = self._process(_Process(0))
        return thread

    def _begin(self, thread: _Thread, step: int) -> _Thread:
        self.threads[thread.tid] = thread
        self.owners[thread.tid] = thread.lineage
        self.known[thread.lineage] = Thread(thread.pid, thread.tid, step)
        return thread

    def _process(self, process: _Process) -> _Process:
        programs = self.selection.programs
        process.wanted = (
            process.first in self._wanted
            or process.program in programs
            or process.program.rpartition("/")[2] in programs
            if programs or self._wanted
            else True
        )
        return process

    def _fork(self, record: Fork) -> None:
        maker = self._thread(record)
        if maker is None:
            # The kernel itself, such as for io_uring.
            place = -1 - self.others
            self.others += 1
            lineage = self.names.child(0, place)
        else:
            lineage = self.names.child(maker.lineage, maker.children)
            maker.children += 1
        self._begin(_Thread(record.child_pid, record.child_tid, lineage), record.step)
        if record.child_pid == record.child_tid:
            parent = self.processes.get(record.pid)
            child = _Process(lineage)
            if parent is not None:
                child.program, child.handled = parent.program, parent.handled
            self.processes[record.child_pid] = self._process(child)

    def _exec(self, record: Exec) -> None:
        self._thread(record)
        process = self.processes.get(record.pid)
        if process is None:
            return
        process.program = record.path
        process.handled = frozenset()
        self._process(process)
        if record.tid not in self.threads:
            # A thread that is not the first, which has ended, takes its number.
            self._begin(_Thread(record.pid, record.tid, process.first), record.step)

    def _end(self, record: TaskEnd) -> None:
        self.threads.pop(record.tid, None)
        if record.last:
            self.processes.pop(record.pid, None)

    # --- what they do

    def skip(self, data: bytes, raw: Raw) -> None:
        """Take into account a record of which no event is wanted.

        Most are calls that return, of which nothing is kept.
        """
        thread = self.threads.get(raw.tid)
        if raw.type == trace.ENTER and not (
            raw.aux == _SIGACTION or (thread is not None and thread.interrupted is not None)
        ):
            self._calls[raw.tid] = data, raw
        elif raw.type == trace.EXIT and raw.aux != _SIGRETURN and not _interrupts(data, raw):
            self._calls.pop(raw.tid, None)
            if thread is not None:
                thread.call = None
        else:
            self.see(trace.parse(data, raw))

    def see(self, record: Record) -> None:
        """Take the next record into account."""
        for _ in self._see(record):
            pass

    def events(self, records: Iterable[Record]) -> "Iterator[_Event | int]":
        """The events in *records*, each when it is complete, and the steps of other records."""
        for record in records:
            yield record.step
            yield from self._see(record)
        yield from self._rest()

    def trace(self, reader: TraceReader, step: int) -> "Iterator[_Event | int]":
        """The same of the records of *reader* from *step* on, without reading all in them."""
        for frame in reader.frames(step, None):
            data = frame.data
            for raw in trace.walk(frame, reader.end.start, _matters):
                if raw.step < step:
                    continue
                process = self.processes.get(raw.pid)
                if process is not None and not process.wanted:
                    self.skip(data, raw)
                else:
                    yield raw.step
                    yield from self._see(trace.parse(data, raw))
        yield from self._rest()

    def _rest(self) -> Iterator[_Event]:
        for thread in self.threads.values():
            yield from self._unfinished(thread)

    def _see(self, record: Record) -> Iterator[_Event]:
        """The events that *record* completes."""
        match record:
            case Enter():
                yield from self._enter(record)
            case Exit():
                yield from self._exit(record)
            case Fork():
                self._fork(record)
            case Exec():
                self._exec(record)
                yield from self._plain(record, ("exec", record.path, record.arguments))
            case SignalDelivered():
                self._handle(record)
                sender = self._number(record.sender)
                yield from self._plain(record, ("signal", record.signal, record.code, sender))
            case TaskEnd():
                thread = self._thread(record)
                if thread is not None:
                    yield from self._unfinished(thread)
                    # It may have died of the last one.
                    thread.handlers.clear()
                yield from self._plain(record, ("end", record.code))
                self._end(record)
            case Mark():
                yield from self._plain(record, ("mark", record.text))

    def _handle(self, record: SignalDelivered) -> None:
        """A handler begins, unless the signal is one of which nobody was to be told."""
        thread = self._thread(record)
        process = self.processes.get(record.pid)
        if thread is not None and process is not None and record.signal in process.handled:
            thread.handlers.append((record.signal, thread.interrupted))
            thread.interrupted = None

    def _event(
        self, thread: _Thread, begin: int, step: int | None, what: Any, result: Any = None
    ) -> Iterator[_Event]:
        process = self.processes.get(thread.pid)
        if process is not None and process.wanted:
            signals = [signal for signal, _ in thread.handlers]
            if _SIGCHLD in signals or what[:2] == ("signal", _SIGCHLD):
                return
            key = thread.lineage, signals[-1] if signals else 0
            yield _Event(key, thread.pid, thread.tid, begin, step, process.program, what, result)

    def _plain(self, record: Record, what: Any) -> Iterator[_Event]:
        thread = self._thread(record)
        if thread is not None:
            yield from self._event(thread, record.step, record.step, what)

    def _enter(self, record: Enter) -> Iterator[_Event]:
        thread = self._thread(record)
        if thread is None:
            return
        if record.call == _SIGACTION and record.args[1] and record.pid in self.processes:
            self.processes[record.pid].handled |= {record.args[0] & _32_BITS}
        before, thread.interrupted = thread.interrupted, None
        call = _Call(record, self._args(record))
        if before is not None:
            again = before.record
            if record.call == _RESTART or (
                (again.call, again.args, again.ip) == (record.call, record.args, record.ip)
            ):
                call = before
            else:
                yield from self._done(thread, before, record.step, _EINTR)
        thread.call = call

    def _exit(self, record: Exit) -> Iterator[_Event]:
        thread = self._thread(record)
        if thread is None:
            return
        call, thread.call = thread.call, None
        if call is None:
            call = self._skipped(record.tid)
        if call is None:
            # Of a call that another has made: clone(2) returns twice, and so does the job's start.
            value = self._value(record.call, record.value)
            yield from self._plain(record, ("returns", record.call, value))
        elif record.value in _INTERRUPTED:
            thread.interrupted = call
        else:
            yield from self._done(thread, call, record.step, record.value, record.details)
        if record.call == _SIGRETURN and thread.handlers:
            _, thread.interrupted = thread.handlers.pop()

    def _done(
        self,
        thread: _Thread,
        call: _Call,
        step: int | None,
        value: int | None,
        details: tuple[Detail, ...] = (),
    ) -> Iterator[_Event]:
        """The event of a call that has returned, or will not."""
        if not is_compared(call.record, value):
            return
        number = call.record.call
        kinds = _KINDS.get(number, _UNKNOWN)
        given: list[Detail] = []
        got: list[Detail] = []
        # A string that was not in memory when the call began is in the record of its end.
        for detail in sorted((*call.record.details, *details), key=_argument):
            if number == _GETRANDOM:
                continue
            filled = kinds[detail.argument : detail.argument + 1] == ("ptr",)
            (got if filled else given).append(detail)
        what = number, call.args, tuple(given)
        result = None if value is None else (self._value(number, value), tuple(got))
        yield from self._event(thread, call.record.step, step, what, result)

    def _unfinished(self, thread: _Thread) -> Iterator[_Event]:
        """What a thread was in when it or the trace ended."""
        call = thread.call or self._skipped(thread.tid) or thread.interrupted
        thread.call = None
        if call is not None:
            yield from self._done(thread, call, None, None)

    def _skipped(self, tid: int) -> _Call | None:
        """The call that *tid* is in since before there were events."""
        found = self._calls.pop(tid, None)
        if found is None:
            return None
        enter = trace.parse(*found)
        assert isinstance(enter, Enter)
        return _Call(enter, self._args(enter))

    # --- values

    def _number(self, value: int) -> Any:
        """A task's number as whose it is; -N is N's process group."""
        owner = self.owners.get(abs(value))
        return value if owner is None else ("task", owner, value < 0)

    def _args(self, record: Enter) -> tuple[Any, ...]:
        found: list[Any] = []
        for kind, value in zip(_KINDS.get(record.call, _UNKNOWN), record.args, strict=False):
            if kind in _POINTERS:
                found.append(value != 0)
            elif kind == "hex":
                found.append(value if value < _ADDRESSES_FROM else "address")
            elif kind in ("size", "long"):
                found.append(value)
            else:
                value &= _32_BITS
                if kind in _TASK_NUMBERS:
                    found.append(self._number(value - (value >> 31 << 32)))
                else:
                    found.append(value)
        return tuple(found)

    def _value(self, call: int, value: int) -> Any:
        if _is_error(value):
            return value
        if call in _RETURN_TASK:
            return self._number(value)
        if call in _RETURN_ADDRESS or call in _RETURN_TIME:
            return 0
        return value


def _argument(detail: Detail) -> tuple[int, int]:
    return detail.argument, detail.kind


_MATTERS = frozenset(
    {
        trace.MARK,
        trace.ENTER,
        trace.EXIT,
        trace.FORK,
        trace.EXEC,
        trace.TASK_END,
        trace.DELIVERED,
    }
)


def _matters(kind: int, aux: int) -> bool:
    return kind in _MATTERS


def _interrupts(data: bytes, raw: Raw) -> bool:
    """Whether *raw*, a call's end, says that it was interrupted."""
    return (
        int.from_bytes(data[raw.payload : raw.payload + 8], "little", signed=True) in _INTERRUPTED
    )


# --- both sides

_MAKES_NAME = {2: 1, 257: 2, 83: None, 258: None}
"""open, openat, mkdir, mkdirat: what makes a name, and which argument has its flags."""
_EXCLUSIVE = 0o300
"""O_CREAT and O_EXCL."""
_FEWEST_RANDOM = 3
"""How many places of two random names differ at least."""


def _new_name(event: _Event) -> tuple[bytes, bytes] | None:
    """Directory and name of what a call has made that is there for nobody else."""
    if not isinstance(event.what[0], int) or event.what[0] not in _MAKES_NAME:
        return None
    number, args, details = event.what
    flags = _MAKES_NAME[number]
    failed = event.result is None or _is_error(event.result[0])
    if failed or (flags is not None and args[flags] & _EXCLUSIVE != _EXCLUSIVE):
        return None
    if len(details) != 1 or details[0].cut:
        return None
    directory, _, name = details[0].data.rpartition(b"/")
    return directory, name


def _renamed(value: Any, names: dict[bytes, bytes]) -> Any:
    """*value* with the first run's names replaced by the second's."""
    if isinstance(value, bytes):
        for old, new in names.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, str):
        return _renamed(value.encode(errors="surrogateescape"), names).decode(
            errors="surrogateescape"
        )
    if isinstance(value, tuple):
        return tuple(_renamed(part, names) for part in value)
    if isinstance(value, Detail):
        return attrs.evolve(value, data=_renamed(value.data, names))
    return value


class _Comparison:
    """Matches the events of two sides, thread by thread."""

    def __init__(
        self,
        names: _Lineages,
        sides: tuple[_Side, _Side],
        sources: tuple[Iterator[_Event | int], Iterator[_Event | int]],
    ) -> None:
        self._names = names
        self._sides = sides
        self._sources = sources
        self._waiting: tuple[dict[_Key, deque[_Event]], dict[_Key, deque[_Event]]] = ({}, {})
        """Events without a match, by side."""
        self._steps = [0, 0]
        self._parted: set[_Key] = set()
        self._renamed: dict[bytes, bytes] = {}
        """Random names of the first run, with what they are in the second."""
        self._best: tuple[int, Parting] | None = None

    def run(self) -> Parting | None:
        """The earliest parting."""
        live = [True, True]
        rounds = 0
        while any(live):
            side = self._behind(live)
            item = next(self._sources[side], None)
            if item is None:
                live[side] = False
            elif isinstance(item, int):
                self._steps[side] = item
            else:
                self._take(side, item)
            rounds += 1
            if self._best is not None and rounds % 1024 == 0 and self._settled(live):
                break
        for side in (0, 1):
            for events in self._waiting[side].values():
                if events:
                    self._found(side, events[0], None)
        return None if self._best is None else self._best[1]

    def _behind(self, live: list[bool]) -> int:
        if not all(live):
            return 0 if live[0] else 1
        return 0 if self._steps[0] <= self._steps[1] else 1

    def _settled(self, live: list[bool]) -> bool:
        """Whether nothing that is yet to come can be earlier than the best."""
        assert self._best is not None
        best = self._best[0]
        return all(
            step > best or not alive for step, alive in zip(self._steps, live, strict=True)
        ) and all(
            events[0].begin > best
            for waiting in self._waiting
            for events in waiting.values()
            if events
        )

    def _take(self, side: int, event: _Event) -> None:
        if event.key in self._parted:
            return
        others = self._waiting[1 - side].get(event.key)
        if not others:
            self._waiting[side].setdefault(event.key, deque()).append(event)
            return
        other = others.popleft()
        if not (self._same(event, other) if side == 0 else self._same(other, event)):
            self._found(side, event, other)
            self._parted.add(event.key)
            for waiting in self._waiting:
                waiting.pop(event.key, None)

    def _same(self, first: _Event, second: _Event) -> bool:
        if first.what == second.what and first.result == second.result:
            return True
        what, result = (_renamed(part, self._renamed) for part in (first.what, first.result))
        if result != second.result:
            return False
        return bool(what == second.what) or self._is_random_name(what, first, second)

    def _is_random_name(self, what: Any, first: _Event, second: _Event) -> bool:
        """Whether both make a file, which has another name for no other reason than chance."""
        one, other = _new_name(attrs.evolve(first, what=what)), _new_name(second)
        if one is None or other is None or what[:2] != second.what[:2]:
            return False
        (directory, name), (other_directory, other_name) = one, other
        if directory != other_directory or len(name) != len(other_name):
            return False
        if sum(a != b for a, b in zip(name, other_name, strict=True)) < _FEWEST_RANDOM:
            return False
        self._renamed[name] = other_name
        return True

    def _found(self, side: int, event: _Event, other: _Event | None) -> None:
        if other is None:
            step = event.begin
        elif event.what != other.what:
            step = min(event.begin, other.begin)
        else:
            # The same call that ends in another way, or does not in one of the runs.
            step = min(one.step for one in (event, other) if one.step is not None)
        if self._best is None or step < self._best[0]:
            events = [event.public(), None if other is None else other.public()]
            first, second = events if side == 0 else reversed(events)
            number = event.key[0]
            lineage = self._names.lineage(number)
            threads = [found.known.get(number) for found in self._sides]
            self._best = step, Parting(lineage, event.program, first, second, *threads)
