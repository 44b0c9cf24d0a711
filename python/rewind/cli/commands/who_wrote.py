"""``rewind who-wrote``: the last instruction that wrote to memory before a step."""

import re
from collections.abc import Sequence
from typing import Any

import attrs
import click

from rewind.analysis import render
from rewind.analysis.render import plain
from rewind.cli import debuginfo, params
from rewind.cli.errors import Failure
from rewind.cli.located import located
from rewind.cli.output import say, say_json
from rewind.cli.params import Whole
from rewind.cli.runs import Run
from rewind.cli.stacks import Stack, say_stack, stack_of
from rewind.cli.standing import title
from rewind.cli.stopped import opened
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import Enter, Exit, TraceReader
from rewind.inspect import InspectError
from rewind.inspect.answers import Place, Task
from rewind.inspect.memory import USER_END
from rewind.inspect.worker import Inspector
from rewind.replay.timeline import Replayed
from rewind.replay.writers import SIZE_MAX, Written, who_wrote

NOBODY = 3
"""The exit status if nobody has written there."""
WORD = 8
"""Bytes at an address, if it is not said how many."""

_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")


@click.command("who-wrote")
@params.run_argument
@click.argument("position", metavar="POSITION", type=params.PositionType(named=True))
@click.argument("what", metavar="ADDRESS|EXPRESSION")
@click.option("--size", type=Whole(1, SIZE_MAX), metavar="N", help="Bytes; else the variable's.")
@click.option("--tid", type=Whole(1), metavar="T", help="Of a thread; else of the one that runs.")
@click.option("--pid", type=Whole(1), metavar="P", help="Of a process, in its first thread.")
@params.json_option
def command(
    run: Run,
    position: Position | Named,
    what: str,
    size: int | None,
    tid: int | None,
    pid: int | None,
    as_json: bool,
) -> int:
    """The last instruction that wrote to a place in memory before POSITION: STEP+N, or T:C+K.

    The place is an address, or an expression as balance, a.b, p->next, a[3] or *p of the variables
    that the program has there. The exit status is 3 if nobody has written there.
    """
    if tid is not None and pid is not None:
        raise Failure("--tid and --pid can't be used together")
    with TraceReader(run.trace) as reader:
        position = located(run, reader, position)
    with debuginfo.known() as outside, opened(run) as around:
        inspector, timeline = around.inspector, around.timeline
        time = timeline.time(position)
        stacks: list[Stack] = []

        def look_at(machine: Replayed) -> None:
            around.look_at(machine, outside.directories)

        def tell(task: Task) -> None:
            try:
                stacks.append(stack_of(inspector, task, outside, whole=as_json))
            except InspectError:
                # One that is about to become another program, or to end, has none.
                return

        with timeline.machine(time) as machine:
            look_at(machine)
            task = _choose(inspector.tasks(), tid, pid, position)
            place = _place(inspector, task, what, size, outside)
            pages = inspector.pages(task.tid, place.address, place.size)
        with around.watcher() as watcher:
            written = who_wrote(timeline, watcher, inspector, look_at, tell, pages, time, task)
        with TraceReader(run.trace) as reader:
            answer = _Answer(
                what=what,
                place=place,
                position=position,
                written=written,
                at=None if written.hit is None else timeline.position(written.hit.time),
                copied=[timeline.position(hit.time) for hit in written.copied],
                call=_call(reader, written, timeline.position(written.hit.time))
                if written.hit is not None and written.hit.kernel
                else None,
                stack=stacks[0] if stacks else None,
                untouched=all(page.physical is None for page in pages),
            )
    if as_json:
        say_json(answer.data())
    else:
        answer.say(run)
    return 0 if answer.somebody else NOBODY


def _choose(tasks: Sequence[Task], tid: int | None, pid: int | None, position: Position) -> Task:
    if tid is None and pid is None:
        for task in tasks:
            if task.state == "runs":
                return task
        raise Failure(
            f"no thread of the job has the CPU at {position}: say whose memory with --pid"
        )
    kind, number = ("thread", tid) if tid is not None else ("process", pid)
    for task in tasks:
        if number == (task.tid if tid is not None else task.pid):
            return task
    there = ", ".join(
        map(str, sorted({task.tid if tid is not None else task.pid for task in tasks}))
    )
    raise Failure(f"there is no {kind} {number} at this step; there are {there}")


def _place(
    inspector: Inspector,
    task: Task,
    what: str,
    size: int | None,
    outside: debuginfo.DebugInfo,
) -> Place:
    """Where *what* is."""
    text = what.strip()
    if _NUMBER.fullmatch(text):
        address = int(text, 16 if text[:2] in ("0x", "0X") else 10)
        size = WORD if size is None else size
        if address + size > USER_END:
            raise Failure(f"{text} is no address of a program's")
        return Place(address, size, "")
    # What was separated from the program counts.
    own = [frame for frame in inspector.frames(task.tid) if frame.own]
    outside.complete(inspector, own)
    place = inspector.evaluate(task.tid, text)
    if size is not None:
        place = attrs.evolve(place, size=size)
    if not 1 <= place.size <= SIZE_MAX:
        raise Failure(f"{text} has {place.size:,} bytes; 1 to {SIZE_MAX:,} can be asked for")
    return place


def _call(reader: TraceReader, written: Written, at: Position) -> Enter | None:
    """The system call that the thread that wrote was in *at* that position, if it was in one."""
    assert written.hit is not None
    if written.task is None:
        return None
    for number in range(reader.find(at.step), -1, -1):
        first = reader.entries[number].first_step
        last = min(first + reader.entries[number].records - 1, at.step)
        found = [
            record
            for record in reader.records(first, last)
            if record.tid == written.task.tid and isinstance(record, Enter | Exit)
        ]
        if found:
            return found[-1] if isinstance(found[-1], Enter) else None
    return None


@attrs.frozen(kw_only=True)
class _Answer:
    what: str
    place: Place
    position: Position
    written: Written
    at: Position | None
    copied: Sequence[Position]
    call: Enter | None
    stack: Stack | None
    untouched: bool
    """Whether no page was there at all."""

    @property
    def somebody(self) -> bool:
        return self.written.hit is not None and not self.written.zeros

    def say(self, run: Run) -> None:
        place = self.place
        kind = f", {plain(place.type)}" if place.type else ""
        name = f"{plain(self.what)}: " if place.type else ""
        size = "1 byte" if place.size == 1 else f"{place.size:,} bytes"
        say(f"{name}{size} at {place.address:#x}{kind}, before step {self.position}")
        for at in self.copied:
            say(f"copied by the kernel at {at}, to be written to")
        if not self.somebody:
            say(self._nobody())
            return
        say(f"written at {self.at} by {self._who()}")
        if self.stack is not None:
            say_stack(self.stack)
        say(f"rewind where {run.short} {self.at}")

    def _who(self) -> str:
        written = self.written
        task = written.task
        whose = (
            "none of the job's"
            if task is None
            else (f"process {task.pid} ({plain(task.name)}), thread {task.tid}")
        )
        if written.function is None:
            if self.stack is None or self.stack.shown == 0:
                return whose
            # What is shown below is the program's own code.
            return f"{whose}, in {title(self.stack.frames[0])}"
        call = (
            ""
            if self.call is None
            else (
                f", in its call of {render.CALLS[self.call.call].name} at step {self.call.step:,}"
            )
        )
        return f"the kernel, in {written.function}, for {whose}{call}"

    def _nobody(self) -> str:
        written = self.written
        if written.file is not None:
            file = plain(written.file)
            return f"nobody has written there: it is as in {file}, at {written.offset:#x}"
        if written.zeros:
            return f"nobody has written there since the kernel made it zeros, at {self.at}"
        if self.untouched:
            return "nobody has written there: it was not touched yet"
        return "nobody has written there"

    def data(self) -> dict[str, Any]:
        written, hit = self.written, self.written.hit
        by = None
        if hit is not None and self.somebody:
            by = {
                "position": str(self.at),
                "time": hit.time,
                "pc": hit.pc,
                "address": hit.address,
                "size": hit.size,
                "pid": None if written.task is None else written.task.pid,
                "tid": None if written.task is None else written.task.tid,
                "name": None if written.task is None else written.task.name,
                "kernel": written.function,
                "call": None
                if self.call is None
                else {"name": render.CALLS[self.call.call].name, "step": self.call.step},
                "stack": None if self.stack is None else self.stack.to_data(),
            }
        return {
            "position": str(self.position),
            **self.place.to_data(),
            "written": by,
            "zeros": str(self.at) if written.zeros else None,
            "file": written.file,
            "offset": written.offset if written.file is not None else None,
            "copied": [str(at) for at in self.copied],
        }
