"""Where in a run a perturbation can matter: where a task of the job runs and another one could.

A *stretch* is the time from a record to the next one in which a task is in user mode. (One that is
in the kernel loses the CPU when it returns: that is the next stretch.) It is a place for a
perturbation if another task of the job

- could run: it was woken, or made, or has lost its turn; or
- sleeps, and will wake up by itself.

Left out is where a process with one thread does nothing any more, until it waits, that another
process could notice: a shell that has just forked goes on to its wait4, and when it does so is of
no consequence.

Stretches are grouped by whom the perturbation could put in which order: two programs, each with
its arguments, or a program and its own threads. A generator picks a group first: what a
build does a thousand times (a shell's subshells) shall not hide what happens once. Groups have
weights. What the job brings or has built itself weighs more than the tools that it is given, and
these more than its builder's script, which is the same in most packages; threads, which share
memory, weigh more than processes.
"""

import re
from collections.abc import Iterable

import attrs

from rewind.analysis.clocks import Who
from rewind.analysis.tasks import Task, Tasks
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import Enter, Exit, Record, Switch

Group = tuple[str, str]
"""The two sides: each a program's arguments, or path; twice the same text and a "threads" mark."""

THREADS = "threads"

OWN, TOOL, BUILDER = 16.0, 4.0, 1.0
"""What a group weighs with a program of the job's own, one of its inputs' programs, its builder."""
THREADS_FACTOR = 16.0

STORE = "/nix/store/"
_INTERPRETERS = re.compile(r"(?:ba|da|z|k|fi)?sh|(?:python|perl|ruby|node|lua|php|guile)[0-9.]*")

# Calls that are of no concern to another process, whatever they are given.
_PRIVATE = frozenset(
    {
        10,  # mprotect
        11,  # munmap
        12,  # brk
        13,  # rt_sigaction
        14,  # rt_sigprocmask
        15,  # rt_sigreturn
        24,  # sched_yield
        39,  # getpid
        61,  # wait4: comes back with the same child
        96,  # gettimeofday
        97,  # getrlimit
        102,  # getuid
        104,  # getgid
        107,  # geteuid
        108,  # getegid
        110,  # getppid
        111,  # getpgrp
        131,  # sigaltstack
        158,  # arch_prctl
        186,  # gettid
        201,  # time
        218,  # set_tid_address
        228,  # clock_gettime
        247,  # waitid
        273,  # set_robust_list
        334,  # rseq
    }
)

# And those by which a task only makes, or waits for, others, or gets memory.
_OWN_AFFAIRS = frozenset(
    {
        9,  # mmap
        28,  # madvise
        35,  # nanosleep
        56,  # clone
        57,  # fork
        58,  # vfork
        202,  # futex
        230,  # clock_nanosleep
        435,  # clone3
    }
)


@attrs.frozen
class Stretch:
    """A task's stretch of user mode in which another task could run."""

    step: int
    """The record that it begins with."""
    time: int
    """When, in ns since the job's start."""
    length: int
    """In ns, until the next record."""
    tid: int
    group: Group
    weight: float
    """The group's."""
    after_call: bool = False
    """Whether it begins where a call returns that others can notice, or by which the task notices
    what others did: what it has looked at, or said, may not be so any more when it acts on it."""
    named: Named | None = None
    """Its first position, by its task, where a call returns or a task begins; else None."""

    @property
    def position(self) -> Position:
        """Its first."""
        return Position(self.step)


@attrs.define
class _Open:
    """A stretch that has begun, and is not known yet to matter."""

    stretch: Stretch
    pid: int
    shared: bool
    """Other threads of the process are there: memory is no secret."""


class Positions:
    """Finds the stretches of a run while its records come."""

    def __init__(self, first: int = 0) -> None:
        self.tasks = Tasks()
        self.found: list[Stretch] = []
        """In order."""
        self._first = first
        self._last: Record | None = None
        self._calls: dict[int, int] = {}
        """How many system calls each task has begun, by the order in which they appeared."""
        self._undecided: dict[int, list[_Open]] = {}
        """Those of a task that has done nothing since which others could notice."""

    def feed(self, records: Iterable[Record]) -> None:
        """Take the next records into account."""
        for record in records:
            if self._last is not None:
                self._stretch(self._last, record)
            self.tasks.feed(record)
            if isinstance(record, Enter) and (task := self.tasks.alive.get(record.tid)):
                self._calls[task.order] = self._calls.get(task.order, 0) + 1
            self._decide(record)
            self._last = record

    def finish(self) -> list[Stretch]:
        """All that were found; no more records come."""
        self._undecided.clear()
        self.found.sort(key=lambda stretch: stretch.step)
        return self.found

    def _stretch(self, begin: Record, end: Record) -> None:
        """The stretch between two records in a row, if it is one."""
        tasks = self.tasks
        tid = tasks.current
        task = tasks.alive.get(tid)
        if task is None or task.blocked_in is not None or begin.step < self._first:
            return
        others = [tasks.alive[other] for other in tasks.runnable if other != tid]
        if not others:
            # A stall is long enough for somebody who sleeps.
            others = [other for other in tasks.alive.values() if other.timed and other.tid != tid]
            if not others:
                return
        other = min(others, key=lambda other: (other.pid != task.pid, -rank(other), other.order))
        weight = min(rank(task), rank(other))
        if other.pid == task.pid:
            weight *= THREADS_FACTOR
        calls = self._calls.get(task.order, 0)
        stretch = Stretch(
            begin.step,
            begin.time,
            end.time - begin.time,
            tid,
            _group(task, other),
            weight,
            isinstance(begin, Exit) and begin.call not in _PRIVATE | _OWN_AFFAIRS,
            Named(task.order + 1, calls) if isinstance(begin, Exit) or not calls else None,
        )
        shared = any(o.pid == task.pid and o.tid != tid for o in tasks.alive.values())
        self._undecided.setdefault(tid, []).append(_Open(stretch, task.pid, shared))

    def _decide(self, record: Record) -> None:
        """*record* tells of what its task did since the stretches that wait for it began."""
        waiting = self._undecided.get(record.tid)
        if not waiting:
            return
        if isinstance(record, Switch):
            if record.state:
                # It waits, and did nothing before.
                self._settle(record.tid, quiet=True)
            return
        if record.type in ("exit", "wake", "delivered", "perturbation"):
            return
        if not (isinstance(record, Enter) and _private(record)):
            self._settle(record.tid, quiet=False)

    def _settle(self, tid: int, *, quiet: bool) -> None:
        for waiting in self._undecided.pop(tid):
            if waiting.shared or not quiet:
                self.found.append(waiting.stretch)


def _private(call: Enter) -> bool:
    """Whether no other process can notice *call*."""
    if call.call == 9:  # mmap: of no file
        return call.args[4] & 0xFFFFFFFF == 0xFFFFFFFF
    return call.call in _PRIVATE


def _group(task: Task, other: Task) -> Group:
    if other.pid == task.pid:
        return (_name(task), THREADS)
    first, second = sorted((_name(task), _name(other)))
    return (first, second)


def rank(task: Task | Who) -> float:
    """How much of the job's own *task* is: `OWN`, `TOOL` or `BUILDER`."""
    if task.exec_index <= 1:
        return BUILDER
    if not task.program.startswith(STORE):
        return OWN
    script = task.arguments[1] if len(task.arguments) > 1 else "-"
    name = task.program.rpartition("/")[2]
    if _INTERPRETERS.fullmatch(name) and not script.startswith(("-", STORE)):
        return OWN
    return TOOL


def _name(task: Task) -> str:
    return "\0".join(task.arguments) or task.program


def groups(stretches: Iterable[Stretch]) -> dict[Group, list[Stretch]]:
    """The stretches of each group; both in order of appearance."""
    found: dict[Group, list[Stretch]] = {}
    for stretch in stretches:
        found.setdefault(stretch.group, []).append(stretch)
    return found
