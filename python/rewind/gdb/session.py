"""A process of a run, at a time, and the way to other times.

We stand on a machine that was stopped at an instruction. A step forwards goes on with that machine,
under a plugin that stops it at the first place that is wanted. A step backwards makes the run again
from a keyframe to where we stand, under the same plugin, which keeps the last of those places; then
we go there. Forwards, we stop behind an instruction that accesses what is watched, and backwards
before it.

The history of a process begins with the first instruction of its program (an exec makes another
program of it), and ends with the last.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import attrs

from rewind.formats import trace
from rewind.formats.schedule import Position
from rewind.formats.trace import Enter, Exec, Exit, Fork, SignalDelivered, TaskEnd, TraceReader
from rewind.gdb.libraries import Libraries, libraries
from rewind.inspect.answers import ProcessLayout, Task, ThreadRegisters
from rewind.inspect.worker import Inspector
from rewind.machine import MachineError
from rewind.machine.monitor import MonitorClosed
from rewind.replay.timeline import Replayed, Timeline
from rewind.replay.watch import Access, Hit, Watch, Watcher

NEAR = 2_000_000
"""ns of guest time: how far back a keyframe is taken for what is looked for backwards."""
FURTHER = 16
"""How much further than the last time is gone back when nothing was found."""
FILE_MAX = 1 << 30
"""Bytes of a file that gdb reads."""
_ACCESSES = frozenset(("read", "write"))
_POLL = 0.02
"""Seconds between questions whether gdb has had enough."""
_KINDS = frozenset((trace.FORK, trace.EXEC, trace.TASK_END, trace.DELIVERED))
_EXECS = frozenset((59, 322))
"""The numbers of execve and execveat."""
_STOPS_MAX = 1000
"""Signals at which a machine can stop."""


class NotHere(Exception):
    """What gdb asks for does not exist at this time; the text says what."""


@attrs.frozen
class Signal:
    """A signal that a thread of the process is given."""

    time: int
    tid: int
    number: int


@attrs.frozen
class History:
    """What the trace has of a process's program; times are ns since the machine's start."""

    pid: int
    begin: int
    """When the program was there, and had not begun."""
    end: int
    """When it has ended: its process, by itself or by the run's end, or became another program."""
    signals: tuple[Signal, ...]


def history(reader: TraceReader, pid: int, time: int) -> History | None:
    """The history of the process *pid* around *time*; None if it does not exist then."""
    start = reader.end.start
    begin = end = None
    signals: list[Signal] = []
    execs: dict[int, int] = {}
    """The threads of the process that have called for another program, and since when only they
    could run."""

    def select(kind: int, aux: int) -> bool:
        return kind in _KINDS or (kind in (trace.ENTER, trace.EXIT) and aux in _EXECS)

    for record in reader.records(select=select):
        now = record.time + start
        if begin is None and record.pid == pid:
            # It was there before: the builder.
            begin = start
        match record:
            case Fork() if record.child_pid == record.child_tid == pid:
                begin = now
                signals.clear()
            case _ if record.pid != pid:
                pass
            case Exec() if now <= time:
                begin = now
                signals.clear()
            case TaskEnd(last=True) if now < time:
                begin = None
            case Enter():
                execs[record.tid] = now
            case Exit():
                execs.pop(record.tid, None)
            case TaskEnd(last=False):
                # Others run until that ends them.
                execs = dict.fromkeys(execs, now)
            case Exec() | TaskEnd(last=True):
                # What the kernel writes behind the call's instruction belongs to the other program.
                called = max(execs.values(), default=now) if isinstance(record, Exec) else now
                end = called if called > time else now
                break
            case SignalDelivered(signal=number):
                signals.append(Signal(now, record.tid, number))
    if begin is None or begin > time:
        return None
    # A machine whose run has ended can't be stopped any more.
    last = reader.end.time - 1 if end is None else end
    return History(pid, begin, last, tuple(signals[:_STOPS_MAX]))


@attrs.frozen(kw_only=True)
class Wanted:
    """Where to stop."""

    breakpoints: frozenset[int]
    accesses: tuple[Access, ...]
    tid: int
    """The thread that makes a step; 0 if none does."""
    span: tuple[int, int] | None
    """The addresses that a step does not stop at: from the first on and before the second."""
    signals: Callable[[int], bool] = lambda number: True
    """Whether to stop at a signal."""


@attrs.frozen
class Stop:
    """Why we are where we are, and which thread of the process it is about."""

    reason: Literal[
        "arrived", "breakpoint", "step", "access", "signal", "begin", "end", "interrupt"
    ]
    tid: int
    address: int = 0
    """Of the breakpoint, or of the access."""
    size: int = 0
    write: bool = False
    signal: int = 0


class Session:
    """A process on *timeline*, at *time*; a context manager.

    :param reader: the run's trace.
    :param inspector: reads the machines; it is used by nobody else.
    :param layers: those of the job, the lowest first.
    :param watcher: makes a plugin that watches a machine.
    :param pid: which process; else it is that of *tid*, or the one that has the CPU.
    :raises MachineError: if there can be no machine.
    :raises InspectError: if it can't be read.
    :raises NotHere: if there is no such process at that time.
    """

    def __init__(
        self,
        timeline: Timeline,
        reader: TraceReader,
        inspector: Inspector,
        time: int,
        *,
        layers: Sequence[Path],
        watcher: Callable[[], Watcher],
        pid: int | None = None,
        tid: int | None = None,
    ) -> None:
        self._timeline = timeline
        self._inspector = inspector
        self._layers = layers
        self._make_watcher = watcher
        self._live = contextlib.ExitStack()
        self._here: Replayed | None = None
        self._watcher: Watcher | None = None
        self._tasks: dict[int, Task] = {}
        self._registers: dict[int, ThreadRegisters] = {}
        self._layout: ProcessLayout | None = None
        self._libraries: Libraries | None = None
        self._first: int | None = None
        self._last: int | None = None
        self._on_arrival: list[Callable[[], None]] = []
        self.time = time
        """Where we are, in ns since the machine's start."""
        self.pid = pid or 0
        """The process's number."""
        self.tid = tid or 0
        """The thread that it is about."""
        try:
            self.go(time)
            found = history(reader, self.pid, time)
        except BaseException:
            self.close()
            raise
        if found is None:
            self.close()
            raise NotHere(f"there is no process {self.pid} at {self.position}")
        self._history = found
        self._stops = sorted({found.end, *(signal.time for signal in found.signals)})

    def _choose(self, tasks: Sequence[Task]) -> None:
        """Choose the process and the thread, of *tasks*, that it is about."""
        there = [task for task in tasks if task.state != "ended"]
        if self.pid:
            there = [task for task in there if task.pid == self.pid]
            if not there:
                raise NotHere(f"there is no process {self.pid} at {self.position}")
        threads = ", ".join(str(task.tid) for task in there)
        if self.tid:
            found = next((task for task in there if task.tid == self.tid), None)
            if found is None:
                raise NotHere(
                    f"there is no thread {self.tid} at {self.position}; there are {threads}"
                )
        else:
            running = [task for task in there if task.state == "runs"]
            if not running and not self.pid:
                pids = ", ".join(str(pid) for pid in sorted({task.pid for task in there}))
                raise NotHere(
                    f"no process of the job has the CPU at {self.position}: choose one with --pid,"
                    f" of {pids}"
                )
            found = (running or there)[0]
        self.pid, self.tid = found.pid, found.tid

    def close(self) -> None:
        """End the machine."""
        self._live.close()
        self._here = self._watcher = None

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- here

    @property
    def position(self) -> Position:
        """Where we are in the run."""
        return self._timeline.position(self.time)

    def on_arrival(self, call: Callable[[], None]) -> None:
        """Have *call* called whenever we have got somewhere, and now."""
        self._on_arrival.append(call)
        call()

    def threads(self) -> list[Task]:
        """The process's threads that have not ended."""
        return list(self._tasks.values())

    def thread(self, tid: int) -> Task:
        """The thread *tid*, or if that is 0 the one that it is about.

        :raises NotHere: if there is none.
        """
        try:
            return self._tasks[tid or self.tid]
        except KeyError:
            raise NotHere(f"there is no thread {tid} at {self.position}") from None

    def registers(self, tid: int) -> ThreadRegisters:
        """The registers of the thread *tid*, in its program.

        :raises NotHere: if there is none.
        """
        task = self.thread(tid)
        if task.tid not in self._registers:
            self._registers[task.tid] = self._inspector.registers(task.tid)
        return self._registers[task.tid]

    def read(self, tid: int, address: int, count: int) -> bytes:
        """What the thread *tid* would read: as many of *count* bytes as there are."""
        return self._inspector.read_memory(self.thread(tid).tid, address, count)

    def layout(self) -> ProcessLayout:
        """The process's program, and what is mapped where."""
        if self._layout is None:
            self._layout = self._inspector.layout(self.thread(0).tid)
        return self._layout

    def libraries(self) -> Libraries:
        """The shared libraries that the process has loaded."""
        if self._libraries is None:
            self._libraries = libraries(self.layout(), functools.partial(self.read, 0))
        return self._libraries

    def read_mapped(self, start: int) -> bytes:
        """The file that is mapped at *start*, whole."""
        return self._inspector.read_mapped(self.thread(0).tid, start)

    def read_file(self, path: str) -> bytes:
        """The file *path* of the run.

        :raises NoSuchFile: if there is none.
        """
        return self._inspector.read_file(path, FILE_MAX)

    def _running(self) -> int:
        return next((task.tid for task in self._tasks.values() if task.state == "runs"), 0)

    def _by_kernel(self, number: int) -> int:
        """The thread that the kernel itself calls *number*; the one that it is about otherwise."""
        return next((task.tid for task in self._tasks.values() if task.number == number), self.tid)

    # --- going elsewhere

    def go(self, time: int) -> None:
        """Stand at *time*."""
        self._live.close()
        self._here = None
        self._watcher = self._live.enter_context(self._make_watcher())
        self._here = self._live.enter_context(
            self._timeline.machine(
                time, arguments=self._watcher.arguments, pass_fds=self._watcher.pass_fds
            )
        )
        self.time = time
        self._look()

    def _look(self) -> None:
        """Take up what is to be seen where we have got to."""
        assert self._here is not None
        self._inspector.look_at(self._here.memory, self._here.registers(), layers=self._layers)
        self._registers.clear()
        self._layout = self._libraries = None
        tasks = self._inspector.tasks()
        if not self._tasks:
            self._choose(tasks)
        self._tasks = {
            task.tid: task for task in tasks if task.pid == self.pid and task.state != "ended"
        }
        if self.tid not in self._tasks and self._tasks:
            self.tid = self._running() or next(iter(self._tasks))
        for call in self._on_arrival:
            call()

    def _watch(self, wanted: Wanted, *, after: int, until: int | None, stop: bool) -> Watch:
        task = self.thread(0)
        stepper = self._tasks.get(wanted.tid)
        return Watch(
            process=task.process,
            thread=stepper.number if stepper else 0,
            breakpoints=wanted.breakpoints,
            leaving=wanted.span if stepper or not wanted.tid else None,
            accesses=wanted.accesses,
            after=after,
            until=until,
            before=until,
            stop=stop,
        )

    def forward(self, wanted: Wanted, interrupted: Callable[[], bool]) -> Stop:
        """Go on until the first place that is *wanted*, or the program's end.

        :param interrupted: asked now and then; if it says so, go no further.
        :raises MachineError: if the machine fails.
        """
        if self._last is not None and self.time >= self._last:
            return Stop("end", self.tid)
        assert self._here is not None and self._watcher is not None
        signals = {signal.time: signal for signal in self._history.signals}
        # A thread that makes a step first has to execute the instruction that it stands before. It
        # may not do so now, but when it gets the CPU again.
        before = self._before(wanted)
        broken = False
        # Whatever the instruction here accesses is yet to come.
        after = self.time - 1
        begun = False
        while True:
            until = next(stop for stop in self._stops if stop > self.time)
            if begun:
                # It does not stop before this instruction again, and what that accesses counts.
                self._watcher.forget()
            else:
                self._watcher.set(self._watch(wanted, after=after, until=until, stop=True))
            begun = False
            if self._wait(self._here, interrupted if not broken else lambda: False):
                # It stands wherever it was; from there to an instruction of the process.
                broken = True
                wanted = attrs.evolve(wanted, tid=0, span=(0, 0))
                continue
            hits = self._watcher.hits()
            if hits:
                (hit,) = hits
                begins = before is not None and (hit.tid, hit.pc) == before
                if hit.kind not in _ACCESSES and (begins or hit.time == self.time):
                    before = None
                    begun = True
                    continue
                return self._arrive_at(hit, broken)
            self.time = until
            after = until - 1
            if until == self._history.end:
                return self._arrive_at_end()
            signal = signals[until]
            if wanted.signals(signal.number) or broken:
                self._look()
                self.tid = signal.tid if signal.tid in self._tasks else self.tid
                return Stop("signal", self.tid, signal=signal.number)

    def _before(self, wanted: Wanted) -> tuple[int, int] | None:
        """The thread, as the kernel numbers it, and the instruction that a step is to execute."""
        task = self._tasks.get(wanted.tid)
        if task is None or wanted.span is None:
            return None
        address = self.registers(task.tid).general["ip"]
        low, high = wanted.span
        return None if low <= address < high else (task.number, address)

    def _arrive_at(self, hit: Hit, broken: bool) -> Stop:
        # After an access it stands behind the instruction that made it.
        self.time = hit.time + (hit.kind in _ACCESSES)
        self._look()
        return self._stopped_at(hit, broken)

    def _stopped_at(self, hit: Hit, broken: bool = False) -> Stop:
        self.tid = self._by_kernel(hit.tid)
        match hit.kind:
            case "read" | "write":
                return Stop("access", self.tid, hit.address, hit.size, hit.kind == "write")
            case "breakpoint":
                return Stop("breakpoint", self.tid, hit.pc)
        return Stop("interrupt" if broken else "step", self.tid)

    def _wait(self, replayed: Replayed, interrupted: Callable[[], bool]) -> bool:
        """Have *replayed*'s machine go on until it stops; True if that was an interruption."""
        broken = False
        try:
            replayed.monitor.execute("cont")
            while True:
                event = replayed.monitor.event("STOP", "SHUTDOWN", timeout=_POLL)
                if event is not None and event["event"] == "STOP":
                    return broken
                if event is not None:
                    raise MachineError("the run ended before it was to be stopped")
                if not broken and interrupted():
                    broken = True
                    replayed.monitor.submit("stop")
        except MonitorClosed:
            replayed.machine.process.wait()
            raise replayed.machine.failure("the machine ended") from None

    def _arrive_at_end(self) -> Stop:
        if self._last is None:
            # The program's last instruction is somewhere before.
            hit = self._find_back(
                Wanted(breakpoints=frozenset(), accesses=(), tid=0, span=(0, 0)),
                self._history.end,
                lambda: False,
            )
            self._last = hit.time if hit is not None else self._history.begin
        self.go(self._last)
        return Stop("end", self.tid)

    def backward(self, wanted: Wanted, interrupted: Callable[[], bool]) -> Stop:
        """Go back to the last place that is *wanted*, or to the program's beginning.

        :param interrupted: asked now and then; if it says so, stay where we are.
        :raises MachineError: if the machine fails.
        """
        try:
            hit = self._find_back(wanted, self.time, interrupted)
        except _Interrupted:
            return Stop("interrupt", self.tid)
        if hit is not None:
            self.go(hit.time)
            return self._stopped_at(hit)
        self.go(self._beginning())
        return Stop("begin", self.tid)

    @property
    def at_begin(self) -> bool:
        """Whether this is the first instruction of the program, if that is known."""
        return self._first is not None and self.time <= self._first

    def _beginning(self) -> int:
        """When the program executed its first instruction."""
        if self._first is None:
            anything = Wanted(breakpoints=frozenset(), accesses=(), tid=0, span=(0, 0))
            begin = self._history.begin
            with self._make_watcher() as watcher:
                until = self.time if self.time > begin else None
                watcher.set(self._watch(anything, after=begin, until=until, stop=True))
                with self._timeline.machine(
                    begin, arguments=watcher.arguments, pass_fds=watcher.pass_fds
                ) as replayed:
                    self._wait(replayed, lambda: False)
                    hits = watcher.hits()
            self._first = hits[0].time if hits else self.time
        return self._first

    def _find_back(self, wanted: Wanted, until: int, interrupted: Callable[[], bool]) -> Hit | None:
        """The last place before *until* that is *wanted*.

        :raises _Interrupted: if *interrupted* says so.
        """
        begin = self._history.begin
        distance = NEAR
        while until > begin:
            start = self._start(until, distance)
            hit = self._last_between(wanted, start, until, interrupted)
            if hit is not None:
                return hit
            until = start
            distance *= FURTHER
            if start <= begin:
                break
        return None

    def _start(self, until: int, distance: int) -> int:
        """From where to look for what is at most *distance* before *until*, if anywhere."""
        begin = self._history.begin
        target = max(begin, until - distance)
        if target == begin:
            return begin
        known = self._timeline.before(until - 1)
        if known is None or known.time < target:
            known = self._timeline.keyframe(target)
        return known.time

    def _last_between(
        self, wanted: Wanted, start: int, until: int, interrupted: Callable[[], bool]
    ) -> Hit | None:
        """The last place that is *wanted* from *start* on and before *until*."""
        with self._make_watcher() as watcher:
            watcher.set(self._watch(wanted, after=start - 1, until=until, stop=False))
            with self._timeline.machine(
                start, arguments=watcher.arguments, pass_fds=watcher.pass_fds
            ) as replayed:
                if self._wait(replayed, interrupted):
                    raise _Interrupted
                hits = watcher.hits()
        return hits[-1] if hits else None


class _Interrupted(Exception):
    """gdb has had enough."""
