"""``rewind where``: where a thread is in its program, at a step."""

from collections.abc import Sequence
from typing import Any

import attrs
import click

from rewind.analysis.render import plain
from rewind.cli import debuginfo, params
from rewind.cli.commands.events import check_position
from rewind.cli.debuginfo import DebugInfo
from rewind.cli.errors import Failure
from rewind.cli.output import say, say_json
from rewind.cli.params import Whole
from rewind.cli.runs import Run
from rewind.cli.standing import named, say_threads, state, threads, title
from rewind.cli.stopped import stopped
from rewind.formats.schedule import Position
from rewind.formats.trace import TraceReader
from rewind.inspect import InspectError, NoSuchFile
from rewind.inspect.answers import Frame, Task, place
from rewind.inspect.worker import Inspector

AROUND = 2
"""Lines of the source that are shown before and after the one."""
CALLERS = 8
"""Callers that are shown if it is not said how many."""
SOURCE_LIMIT = 16 << 20
"""Bytes of a source file."""


@attrs.frozen
class Excerpt:
    """Lines of a source file; *first* is the number of the first."""

    first: int
    lines: tuple[str, ...]


@click.command("where")
@params.run_argument
@click.argument("position", metavar="STEP[+N]", type=params.PositionType())
@click.option("--tid", type=Whole(1), metavar="T", help="A thread; else the one that has the CPU.")
@click.option(
    "--frames",
    "count",
    type=Whole(1),
    metavar="N",
    help="The innermost N frames, and not only those of the program's own code.",
)
@click.option("--frame", "number", type=Whole(0), metavar="K", help="Show frame K's source.")
@params.json_option
def command(
    run: Run,
    position: Position,
    tid: int | None,
    count: int | None,
    number: int | None,
    as_json: bool,
) -> None:
    """Where a thread is in its program at STEP, or N instructions later.

    The run is made again up to there. Shown is the innermost frame of the program's own code, with
    its callers.
    """
    with TraceReader(run.trace) as reader:
        check_position(reader, position)
    with (
        debuginfo.known() as outside,
        stopped(run, position, debug_directories=outside.directories) as machine,
    ):
        tasks = machine.tasks()
        chosen = _choose(tasks, tid)
        if chosen is None:
            standing = threads(machine, tasks)
            if as_json:
                say_json(
                    {"position": str(position), "threads": [one.to_data() for one in standing]}
                )
            else:
                say(f"no thread of the job has the CPU at step {position}")
                say_threads(standing)
            return
        chosen = named(machine, chosen)
        frames = machine.frames(chosen.tid)
        # Unless a library's frames are wanted, what is known of the program's own is enough.
        own = [frame for frame in frames if frame.own]
        wanted = frames if as_json or count is not None or number is not None else own or frames
        if outside.complete(machine, wanted):
            frames = machine.frames(chosen.tid)
        shown = _frame(frames, number)
        excerpt = _excerpt(machine, frames[shown], outside)
    if as_json:
        say_json(_data(position, chosen, frames, shown, excerpt))
        return
    say(_head(chosen, position))
    callers = [at for at, frame in enumerate(frames) if at > shown and frame.own]
    if count is not None:
        listed = {shown, *range(min(count, len(frames)))}
    else:
        listed = {shown, *callers[:CALLERS]}
    for at in sorted(listed):
        say(f"{'called from ' if at > shown else ''}#{at} {title(frames[at])}")
        if at == shown:
            _say_source(excerpt, frames[at])
    if count is None and len(callers) > CALLERS:
        say(f"and {len(callers) - CALLERS:,} more, which --frames {len(frames)} shows")


def _choose(tasks: Sequence[Task], tid: int | None) -> Task | None:
    if tid is None:
        return next((task for task in tasks if task.state == "runs"), None)
    for task in tasks:
        if task.tid == tid:
            return task
    there = ", ".join(str(task.tid) for task in tasks)
    raise Failure(f"there is no thread {tid} at this step; there are {there}")


def _frame(frames: Sequence[Frame], number: int | None) -> int:
    """The number of the frame that is shown."""
    if number is None:
        found = place(frames)
        return frames.index(found) if found is not None else 0
    if number >= len(frames):
        raise Failure(f"there is no frame {number}: the stack has {len(frames)}")
    return number


def _head(task: Task, position: Position) -> str:
    does = "" if task.state == "runs" else f", {state(task)},"
    return f"process {task.pid} ({plain(task.name)}), thread {task.tid}{does} at step {position}"


def _say_source(excerpt: Excerpt | None, frame: Frame) -> None:
    if frame.file is None:
        say(f"     no source line: {plain(frame.why or '?')}")
        return
    if excerpt is None:
        say(f"     {plain(frame.file)} is not to be found")
        return
    for number, line in enumerate(excerpt.lines, excerpt.first):
        mark = ">" if number == frame.line else " "
        say(f"{mark} {number:>6}  {plain(line.expandtabs())}".rstrip())


def _excerpt(machine: Inspector, frame: Frame, outside: DebugInfo) -> Excerpt | None:
    """The lines around *frame*'s, if the source is to be had."""
    if frame.file is None or frame.line is None:
        return None
    try:
        text: bytes | None = machine.read_file(frame.file, SOURCE_LIMIT)
    except NoSuchFile:
        text = outside.source(frame)
    except InspectError:
        return None
    if text is None:
        return None
    lines = text.decode(errors="replace").removesuffix("\n").split("\n")
    first = max(frame.line - AROUND, 1)
    found = lines[first - 1 : frame.line + AROUND]
    return Excerpt(first, tuple(found)) if frame.line <= len(lines) else None


def _data(
    position: Position, task: Task, frames: Sequence[Frame], shown: int, excerpt: Excerpt | None
) -> dict[str, Any]:
    return {
        "position": str(position),
        **task.to_data(),
        "frame": shown,
        "source": None if excerpt is None else attrs.asdict(excerpt),
        "frames": [frame.to_data() for frame in frames],
    }
