"""Who had the CPU when: for each thread, from when on it ran, could run or waited."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import PurePosixPath

import attrs

from rewind.analysis.tasks import Tasks
from rewind.formats import trace
from rewind.formats.trace import Exec, Fork, Perturbed, Record, Switch, TaskEnd, TraceReader, Wake

RUNS, READY, WAITS, ENDED = range(4)
STATES = ("runs", "ready", "waits", "ended")
"""What a thread does, by number; "ready": it could run, and another does."""

_SELECTED = frozenset(
    {trace.SWITCH, trace.WAKE, trace.FORK, trace.EXEC, trace.TASK_END, trace.PERTURBED}
)


@attrs.define(eq=False)
class Lane:
    """A thread; its n-th state lasts from ``times[n]``, and the record ``steps[n]``, to the next.

    Times are in ns since the job's start. The last state is `ENDED`, or lasts to the trace's end.
    """

    pid: int
    tid: int
    program: str = ""
    """The path that its process executed last."""
    name: str = ""
    """As the kernel has it."""
    times: "array[int]" = attrs.field(factory=lambda: array("q"))
    steps: "array[int]" = attrs.field(factory=lambda: array("q"))
    states: bytearray = attrs.field(factory=bytearray)

    @property
    def label(self) -> str:
        """What to call it: the kernel's name, or its program's, of which that is the beginning."""
        program = PurePosixPath(self.program).name
        return program if program.startswith(self.name) else self.name

    def segments(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """State, beginning and end of what is between the times *start* and *end*, cut there."""
        times, states = self.times, self.states
        for place in range(max(bisect_right(times, start) - 1, 0), len(times)):
            begin = times[place]
            if begin >= end or states[place] == ENDED:
                return
            until = times[place + 1] if place + 1 < len(times) else end
            begin, until = max(begin, start), min(until, end)
            if begin < until:
                yield states[place], begin, until


@attrs.define
class History:
    """All threads of a run in the order of their appearance, and what perturbed them."""

    lanes: list[Lane] = attrs.field(factory=list)
    perturbations: list[Perturbed] = attrs.field(factory=list)
    _tasks: Tasks = attrs.field(factory=Tasks)
    _living: dict[int, Lane] = attrs.field(factory=dict)

    def see(self, record: Record) -> None:
        """Take the next record into account."""
        tasks = self._tasks
        if not tasks.count and record.pid:
            # The builder's first thread ran all the time.
            tasks.feed(record)
            self._set(record.tid, record)
        else:
            tasks.feed(record)
        match record:
            case Switch():
                self._set(record.tid, record)
                self._set(record.next_tid, record)
                lane = self._living.get(record.next_tid)
                if lane is not None:
                    lane.name = record.name
            case Wake():
                self._set(record.woken_tid, record)
            case Fork():
                self._set(record.child_tid, record)
                child, maker = self._living[record.child_tid], self._living.get(record.tid)
                child.name = maker.name if maker else ""
            case Exec():
                for tid in [tid for tid, lane in self._living.items() if lane.pid == record.pid]:
                    self._set(tid, record)
                self._set(record.tid, record)
                lane = self._living[record.tid]
                # The kernel cuts it.
                lane.name = PurePosixPath(record.path).name[:15]
                lane.program = record.path
            case TaskEnd():
                lane = self._living.get(record.tid)
                if lane is not None:
                    lane.name = record.name
                self._set(record.tid, record)
            case Perturbed():
                self.perturbations.append(record)

    def _set(self, tid: int, record: Record) -> None:
        """Write down what the thread *tid* does from *record* on."""
        tasks = self._tasks
        task = tasks.alive.get(tid)
        lane = self._living.get(tid)
        if task is None:
            if lane is None:
                return
            state = ENDED
            del self._living[tid]
        else:
            if lane is None:
                lane = self._living[tid] = Lane(task.pid, tid, task.program)
                self.lanes.append(lane)
            state = RUNS if tid == tasks.current else READY if tid in tasks.runnable else WAITS
        if not lane.states or lane.states[-1] != state:
            lane.times.append(record.time)
            lane.steps.append(record.step)
            lane.states.append(state)


def history(reader: TraceReader, last: int | None = None) -> History:
    """What the threads did up to the step *last* (included; default: all the time)."""
    found = History()
    if reader.steps:
        (first,) = reader.records(0, 0)
        found.see(first)
        for record in reader.records(1, last, select=lambda kind, _: kind in _SELECTED):
            found.see(record)
    return found


def step_at(reader: TraceReader, time: int) -> int:
    """The first step whose record was taken at *time* (ns since the job's start) or later.

    The number of steps, if there is none.
    """
    starts = [entry.first_time - reader.end.start for entry in reader.entries]
    # Records of one time may be on both sides of a frame's border.
    for number in range(max(bisect_left(starts, time) - 1, 0), len(starts)):
        for raw in trace.walk(reader.frame(number), reader.end.start):
            if raw.time >= time:
                return raw.step
    return reader.steps
