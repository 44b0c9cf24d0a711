"""The processes of a job, from the trace alone."""

from pathlib import PurePosixPath

import attrs

from rewind.analysis import render
from rewind.formats import trace
from rewind.formats.trace import Exec, Fork, Raw, Switch, TaskEnd, TraceReader, Wake


@attrs.define
class Thread:
    """A thread, and what it does at the step that was asked for."""

    tid: int
    first: int
    """The step at which it was made."""
    last: int | None = None
    """The step at which it ended."""
    name: str = ""
    state: str = "ready"
    """"runs", "ready", "waits", "stopped", "ended"."""
    since: int = 0
    """The step at which that began."""
    call: str = ""
    """The system call that it is in."""


@attrs.define
class Process:
    """A process; *parent* is who made it."""

    pid: int
    parent: int | None
    first: int
    last: int | None = None
    status: int | None = None
    """As wait(2) has it, if it has ended."""
    path: str = ""
    arguments: tuple[str, ...] = ()
    threads: dict[int, Thread] = attrs.field(factory=dict)

    @property
    def command(self) -> str:
        """Its program's name and arguments, as far as the trace has them."""
        if not self.path:
            return ""
        return " ".join((PurePosixPath(self.path).name, *map(render.plain, self.arguments[1:])))


@attrs.define
class History:
    """What the records up to a step say of the job's tasks."""

    processes: list[Process] = attrs.field(factory=list)
    """All that there have been, in the order in which they began."""
    _current: dict[int, Process] = attrs.field(factory=dict)
    _calls: dict[int, tuple[bytes, Raw]] = attrs.field(factory=dict)

    def _thread(self, pid: int, tid: int, step: int) -> Thread | None:
        """The thread *tid*; the builder's is there when it is first seen.

        None is one that has ended: it still gives the CPU away, and sends its parent a signal.
        """
        process = self._current.get(pid)
        if process is None:
            if not pid or self.processes:
                return None
            process = self._begin(Process(pid, None, step))
        thread = process.threads.get(tid)
        if thread is None and not process.threads:
            thread = process.threads[tid] = Thread(tid, step)
        return thread if thread is not None and thread.last is None else None

    def _begin(self, process: Process) -> Process:
        self._current[process.pid] = process
        self.processes.append(process)
        return process

    def see(self, data: bytes, raw: Raw) -> None:
        """Take the next record into account."""
        if not self.processes:
            # Nobody switched to the builder: it was running.
            builder = self._thread(raw.pid, raw.tid, raw.step)
            if builder is not None:
                builder.state = "runs"
        if raw.type == trace.ENTER:
            self._calls[raw.tid] = data, raw
            return
        if raw.type == trace.EXIT:
            self._calls.pop(raw.tid, None)
            return
        record = trace.parse(data, raw)
        thread = self._thread(raw.pid, raw.tid, raw.step)
        match record:
            case Fork():
                self._fork(record)
            case Exec():
                self._exec(record)
            case TaskEnd() if thread is not None:
                self._end(record, thread)
            case Switch():
                self._switch(record, thread)
            case Wake():
                self._wake(record)

    def _fork(self, record: Fork) -> None:
        child = Thread(record.child_tid, record.step, since=record.step)
        if record.child_pid != record.child_tid:
            # Not always of who makes it: the kernel makes threads for io_uring.
            process = self._current.get(record.child_pid)
            if process is not None:
                process.threads[child.tid] = child
            return
        process = Process(record.child_pid, record.pid or None, record.step)
        maker = self._current.get(record.pid)
        if maker is not None:
            process.path, process.arguments = maker.path, maker.arguments
        process.threads[child.tid] = child
        self._begin(process)

    def _exec(self, record: Exec) -> None:
        process = self._current.get(record.pid)
        if process is None:
            return
        process.path, process.arguments = record.path, record.arguments
        # A thread that execs is the only one left. If it was not the first it has that one's number
        # now, which has ended before.
        for thread in process.threads.values():
            if thread.tid != record.tid and thread.last is None:
                thread.last = thread.since = record.step
                thread.state = "ended"
                self._calls.pop(thread.tid, None)
        thread = process.threads.setdefault(record.tid, Thread(record.tid, record.step))
        if thread.last is not None:
            thread.last, thread.state, thread.since = None, "runs", record.step
        # The kernel cuts it.
        thread.name = PurePosixPath(record.path).name[:15]

    def _end(self, record: TaskEnd, thread: Thread) -> None:
        thread.name = record.name
        thread.last = thread.since = record.step
        thread.state = "ended"
        self._calls.pop(record.tid, None)
        if record.last:
            process = self._current.pop(record.pid)
            process.last, process.status = record.step, record.code

    def _switch(self, record: Switch, thread: Thread | None) -> None:
        if thread is not None:
            left = render.state(record.state)
            thread.since = record.step
            thread.state = {"preempted": "ready", "sleeps": "waits", "blocked": "waits"}.get(
                left, left
            )
        following = self._thread(record.next_pid, record.next_tid, record.step)
        if following is not None:
            following.name, following.state, following.since = record.name, "runs", record.step

    def _wake(self, record: Wake) -> None:
        woken = self._thread(record.woken_pid, record.woken_tid, record.step)
        if woken is not None:
            woken.state, woken.since = "ready", record.step

    def finish(self) -> None:
        """Fill in what each thread is doing."""
        for process in self.processes:
            for thread in process.threads.values():
                found = self._calls.get(thread.tid)
                if found and thread.state != "ended":
                    data, raw = found
                    thread.call = render.CALLS[raw.aux].enter(data, raw.payload, raw.end)

    def parent(self, process: Process) -> int | None:
        """Who is its parent now: the builder, if who made it has ended."""
        if process.parent is None or process.parent in self._current:
            return process.parent
        return self.processes[0].pid


def history(reader: TraceReader, last: int | None = None) -> History:
    """What there was up to the step *last* (included; default: the whole trace)."""
    found = History()
    done = False
    for frame in reader.frames(0, last):
        for raw in trace.walk(frame, reader.end.start):
            if last is not None and raw.step > last:
                done = True
                break
            found.see(frame.data, raw)
        if done:
            break
    found.finish()
    return found


def commands(reader: TraceReader, last: int) -> dict[int, str]:
    """The `Process.command` of each process that there was up to the step *last*, by its pid.

    It takes a tenth of `history`'s time.
    """
    found: dict[int, Process] = {}
    for record in reader.records(0, last, lambda kind, _: kind in (trace.FORK, trace.EXEC)):
        if isinstance(record, Fork) and record.child_pid == record.child_tid:
            process = found[record.child_pid] = Process(record.child_pid, record.pid, record.step)
            maker = found.get(record.pid)
            if maker is not None:
                process.path, process.arguments = maker.path, maker.arguments
        elif isinstance(record, Exec):
            process = found.setdefault(record.pid, Process(record.pid, None, record.step))
            process.path, process.arguments = record.path, record.arguments
    return {pid: process.command for pid, process in found.items()}
