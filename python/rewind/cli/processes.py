"""The processes of a job, from the trace alone."""

from pathlib import PurePosixPath

import attrs

from rewind.cli import render
from rewind.formats import trace
from rewind.formats.trace import Exec, Fork, Raw, Switch, TaskEnd, TraceReader


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

    def _thread(self, raw: Raw) -> Thread:
        """The thread of a record; the builder's is there when it is first seen."""
        process = self._current.get(raw.pid) or self._begin(Process(raw.pid, None, raw.step))
        thread = process.threads.get(raw.tid)
        if thread is None:
            thread = process.threads[raw.tid] = Thread(raw.tid, raw.step)
        return thread

    def _begin(self, process: Process) -> Process:
        self._current[process.pid] = process
        self.processes.append(process)
        return process

    def see(self, data: bytes, raw: Raw) -> None:
        """Take the next record into account."""
        if raw.type == trace.ENTER:
            self._calls[raw.tid] = data, raw
            return
        if raw.type == trace.EXIT:
            self._calls.pop(raw.tid, None)
            return
        record = trace.parse(data, raw)
        match record:
            case Fork():
                self._fork(record, raw)
            case Exec() if raw.pid:
                self._thread(raw)
                process = self._current[raw.pid]
                process.path, process.arguments = record.path, record.arguments
                for tid in [tid for tid in process.threads if tid != raw.tid]:
                    process.threads[tid].last = raw.step
                    process.threads[tid].state = "ended"
            case TaskEnd() if raw.pid:
                thread = self._thread(raw)
                thread.name = record.name
                thread.last = thread.since = raw.step
                thread.state = "ended"
                self._calls.pop(raw.tid, None)
                if record.last:
                    process = self._current.pop(raw.pid)
                    process.last, process.status = raw.step, record.code
            case Switch():
                self._switch(record, raw)

    def _fork(self, record: Fork, raw: Raw) -> None:
        if raw.pid:
            self._thread(raw)
        child = Thread(record.child_tid, raw.step, since=raw.step)
        if record.child_pid != record.child_tid:
            # Not always of who makes it: the kernel makes threads for io_uring.
            process = self._current.get(record.child_pid)
            if process is not None:
                process.threads[child.tid] = child
            return
        process = Process(record.child_pid, raw.pid or None, raw.step)
        maker = self._current.get(raw.pid)
        if maker is not None:
            process.path, process.arguments = maker.path, maker.arguments
        process.threads[child.tid] = child
        self._begin(process)

    def _switch(self, record: Switch, raw: Raw) -> None:
        process = self._current.get(raw.pid)
        thread = process.threads.get(raw.tid) if process else None
        if thread is not None and thread.state != "ended":
            left = render.state(record.state)
            thread.since = raw.step
            thread.state = {"preempted": "ready", "sleeps": "waits", "blocked": "waits"}.get(
                left, left
            )
        if record.next_pid:
            following = attrs.evolve(raw, pid=record.next_pid, tid=record.next_tid)
            thread = self._thread(following)
            thread.name, thread.state, thread.since = record.name, "runs", raw.step

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
            if raw.step == 0 and raw.pid:
                # Nobody switched to it: it was running.
                found._thread(raw).state = "runs"
            found.see(frame.data, raw)
        if done:
            break
    found.finish()
    return found
