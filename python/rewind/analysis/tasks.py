"""Which task of a job runs at any time, which others could, and what the rest wait for.

`Tasks` is fed a run's records from the first on, and is as the last one left things::

    tasks = Tasks()
    for record in reader.records():
        tasks.feed(record)
        if tasks.current in tasks.alive and tasks.runnable:
            ...  # another task of the job could run here
"""

from typing import Any

import attrs

from rewind.formats.trace import Enter, Exec, Exit, Fork, Record, Switch, TaskEnd, Wake

_FUTEX = 202
_FUTEX_COMMAND = 0x7F
_FUTEX_WAITS = frozenset({0, 6, 9, 11, 13})
"""FUTEX_WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2: those that take a timeout."""

_SLEEPS = frozenset({35, 219, 230})
"""nanosleep, restart_syscall (after a signal, for what has some time left), clock_nanosleep."""
_TIMEOUT_POINTER = {
    23: 4,  # select
    128: 2,  # rt_sigtimedwait
    208: 4,  # io_getevents
    220: 3,  # semtimedop
    242: 4,  # mq_timedsend
    243: 4,  # mq_timedreceive
    270: 4,  # pselect6
    271: 2,  # ppoll
    299: 4,  # recvmmsg
    333: 4,  # io_pgetevents
    441: 3,  # epoll_pwait2
    449: 3,  # futex_waitv
    455: 4,  # futex_wait
}
"""Which argument is a timeout, or NULL for none, by call."""
_TIMEOUT_MS = {7: 2, 232: 3, 281: 3}
"""The same of poll, epoll_wait and epoll_pwait, where it is an int, and negative for none."""


def wakes_by_itself(call: Enter) -> bool:
    """Whether *call* ends after some time even if nothing else happens."""
    number, args = call.call, call.args
    if number == _FUTEX:
        return args[1] & _FUTEX_COMMAND in _FUTEX_WAITS and args[3] != 0
    if number in _TIMEOUT_POINTER:
        return args[_TIMEOUT_POINTER[number]] != 0
    if number in _TIMEOUT_MS:
        return args[_TIMEOUT_MS[number]] & 0x80000000 == 0
    return number in _SLEEPS


@attrs.define(eq=False)
class Task:
    """A thread of the job."""

    pid: int
    tid: int
    parent_tid: int
    """Who made it; 0 for a task outside the job."""
    order: int
    """How many tasks there were before it."""
    program: str = ""
    """The path that its process, or the one it was forked from, executed last."""
    arguments: tuple[str, ...] = ()
    """Those of that program."""
    exec_index: int = 0
    """Which execution of a program of all the run's it belongs to, from 1 on; 0: before the first.

    Threads share it, and so do processes that were forked and have executed nothing since.
    """
    blocked_in: Enter | None = None
    """The system call that it is in."""

    @property
    def timed(self) -> bool:
        """Whether the call that it is in ends after some time even if nothing else happens."""
        return self.blocked_in is not None and wakes_by_itself(self.blocked_in)


class Tasks:
    """The job's tasks, as the records say that were fed so far.

    A task is known from its fork on, and the builder's first from its first record on. It can
    run then. A `Switch` that leaves it in the state 0 leaves it able to run, any other one does not
    until somebody wakes it.
    """

    def __init__(self) -> None:
        self.current = 0
        """The tid of the task that has the CPU; 0 for one outside the job.

        One that has ended still has it until there is a switch, and is not in `alive`.
        """
        self.runnable: set[int] = set()
        """Tids of those that could run and do not have the CPU."""
        self.alive: dict[int, Task] = {}
        """By tid, in the order in which they appeared."""
        self.count = 0
        """How many tasks there have been."""
        self.executions = 0
        """How many programs have been executed."""
        self._handlers: dict[str, Any] = {
            "enter": self._enter,
            "exit": self._exit,
            "switch": self._switch,
            "wake": self._wake,
            "fork": self._fork,
            "exec": self._exec,
            "end": self._end,
        }

    def feed(self, record: Record) -> None:
        """Take the next record into account."""
        handler = self._handlers.get(record.type)
        if handler is not None:
            handler(record)

    def _task(self, record: Record) -> Task | None:
        """Whose record it is; the builder's first task is there when it is first seen."""
        task = self.alive.get(record.tid)
        if task is None and record.pid and not self.count:
            task = self.alive[record.tid] = Task(record.pid, record.tid, 0, 0)
            self.count = 1
            # Nobody switched to it: it was running.
            self.current = record.tid
        return task

    def _enter(self, record: Enter) -> None:
        task = self.alive.get(record.tid) or self._task(record)
        if task is not None:
            task.blocked_in = record

    def _exit(self, record: Exit) -> None:
        task = self.alive.get(record.tid) or self._task(record)
        if task is not None:
            task.blocked_in = None

    def _switch(self, record: Switch) -> None:
        if record.state == 0 and (record.tid in self.alive or self._task(record) is not None):
            self.runnable.add(record.tid)
        self.runnable.discard(record.next_tid)
        self.current = record.next_tid

    def _wake(self, record: Wake) -> None:
        if record.woken_tid in self.alive and record.woken_tid != self.current:
            self.runnable.add(record.woken_tid)

    def _fork(self, record: Fork) -> None:
        maker = self._task(record)
        child = Task(record.child_pid, record.child_tid, record.tid, self.count)
        # A thread may be made by the kernel, or another process: it has the program of its own.
        first = self.alive.get(record.child_pid) if record.child_pid != record.child_tid else maker
        like = first or maker
        if like is not None:
            child.program, child.arguments = like.program, like.arguments
            child.exec_index = like.exec_index
        self.alive[child.tid] = child
        self.runnable.add(child.tid)
        self.count += 1

    def _exec(self, record: Exec) -> None:
        self._task(record)
        # The others of its process are gone. If it was not the first it has that one's number now.
        gone = [
            task
            for task in self.alive.values()
            if task.pid == record.pid and task.tid != record.tid
        ]
        for task in gone:
            del self.alive[task.tid]
            self.runnable.discard(task.tid)
        if record.tid not in self.alive:
            old = gone[-1] if gone else None
            parent, order = (old.parent_tid, old.order) if old else (0, self.count)
            self.alive[record.tid] = Task(record.pid, record.tid, parent, order)
            self.current = record.tid
        task = self.alive[record.tid]
        self.executions += 1
        task.program, task.arguments = record.path, record.arguments
        task.exec_index = self.executions

    def _end(self, record: TaskEnd) -> None:
        self._task(record)
        self.alive.pop(record.tid, None)
        self.runnable.discard(record.tid)
