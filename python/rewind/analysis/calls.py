"""Which steps of a run a named position lies between: its tasks, and the calls of each.

`Calls` counts as the rewind device does, which acts at such positions::

    calls = Calls.of(reader.frames())
    span = calls.span(Named.parse("12:3+437"))
"""

import struct
from collections.abc import Iterable
from typing import Self

import attrs

from rewind.formats.schedule import Named, NamedPerturbation, Schedule
from rewind.formats.trace import ENTER, EXEC, FORK, TASK_END, Frame, Raw, walk

_CHILD = struct.Struct("<I")
"""The child's pid, in the record of a fork."""


def _wanted(kind: int, aux: int) -> bool:
    return kind in (ENTER, FORK, EXEC, TASK_END)


@attrs.frozen
class Span:
    """Some of a run: from the record *first* to the record *last*; None: to its end."""

    first: int
    last: int | None


@attrs.define
class _Task:
    """A task: the step at which it appeared, those of its calls, and that of its end."""

    pid: int
    begin: int
    calls: list[int] = attrs.Factory(list)
    end: int | None = None


class Calls:
    """The tasks of a run by order of appearance, and the steps of their system calls."""

    def __init__(self) -> None:
        self._tasks = [_Task(1, 0)]
        self._alive = {1: self._tasks[0]}

    @classmethod
    def of(cls, frames: Iterable[Frame]) -> Self:
        """Those of the run with *frames*.

        :raises FormatError: at the first record that is malformed.
        """
        calls = cls()
        for frame in frames:
            for raw in walk(frame, select=_wanted):
                calls._feed(raw, frame.data)
        return calls

    def _feed(self, raw: Raw, data: bytes) -> None:
        task = self._alive.get(raw.tid)
        if raw.type == FORK:
            (pid,) = _CHILD.unpack_from(data, raw.payload)
            child = self._alive[raw.aux] = _Task(pid, raw.step)
            self._tasks.append(child)
        elif raw.type == EXEC:
            if task is None:
                self._take_tid(raw.pid, raw.tid)
        elif task is not None:
            if raw.type == ENTER:
                task.calls.append(raw.step)
            else:
                task.end = raw.step
                del self._alive[raw.tid]

    def _take_tid(self, pid: int, tid: int) -> None:
        """A thread that execs takes the tid of its process's first, which has ended."""
        for old, task in self._alive.items():
            if task.pid == pid:
                self._alive[tid] = self._alive.pop(old)
                return

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return len(self._tasks)

    def count(self, number: int) -> int:
        """How many system calls task *number*, from 1 on, makes; 0 if there is no such task."""
        return len(self._tasks[number - 1].calls) if 0 < number <= self.tasks else 0

    def span(self, named: Named) -> Span | None:
        """The records between which *named* lies, if it comes; None if it can't.

        What comes before the first of them has nothing to do with it.
        """
        if not 0 < named.task <= self.tasks:
            return None
        task = self._tasks[named.task - 1]
        if named.call > len(task.calls):
            return None
        first = task.calls[named.call - 1] if named.call else task.begin
        last = task.calls[named.call] if named.call < len(task.calls) else task.end
        return Span(first, last)

    def first(self, schedule: Schedule) -> int | None:
        """The step before which nothing of *schedule* comes, in this run or any that it perturbs.

        (As far as this run was perturbed by none of it.) None if all of it can't come.
        """
        steps = []
        for one in schedule:
            if isinstance(one, NamedPerturbation):
                span = self.span(one.position)
                if span is not None:
                    steps.append(span.first)
            else:
                steps.append(one.step)
        return min(steps, default=None)
