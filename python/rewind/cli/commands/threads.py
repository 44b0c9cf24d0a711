"""``rewind threads``: who had the CPU."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import click

from rewind.analysis import render
from rewind.analysis.lanes import READY, RUNS, STATES, History, Lane, history, step_at
from rewind.cli import params
from rewind.cli.commands.events import step_range
from rewind.cli.errors import Failure
from rewind.cli.lanes import LEGEND, PERTURBED, Axis, coloured, draw, idle, ruler
from rewind.cli.located import located
from rewind.cli.output import console, count, say, say_json
from rewind.cli.runs import Run
from rewind.formats.schedule import Named, Position
from rewind.formats.spans import span
from rewind.formats.trace import Perturbed, TraceReader
from rewind.inspect.answers import Task

MOST_LANES = 40
_MOST_PERTURBATIONS = 20
_WIDTH = 100
"""Of what is not written to a terminal, unless COLUMNS says another one."""
_LEAST_COLUMNS = 20
_LABEL = 28
"""The longest that a lane's label can be."""


@attrs.frozen
class Window:
    """A part of a run, by its steps (both included) and times."""

    first: int
    last: int
    start: int
    end: int

    @classmethod
    def of(cls, reader: TraceReader, first: int, last: int) -> "Window":
        """From the record *first* to the record *last*, or the trace's end if that is the last."""
        if first > last:
            raise Failure(f"there is nothing from step {first:,} to step {last:,}")
        (begin,) = reader.records(first, first)
        end = reader.duration
        if last + 1 < reader.steps:
            (record,) = reader.records(last, last)
            end = record.time
        return cls(first, last, begin.time, max(end, begin.time + 1))


@click.command("threads")
@params.run_argument
@click.argument(
    "position",
    metavar="[POSITION]",
    required=False,
    type=params.PositionType(named=True),
)
@click.option("--from", "first", type=params.PositionType(), help="Begin there: STEP or STEP+N.")
@click.option("--to", "last", type=params.PositionType(), help="End there, included.")
@click.option(
    "--program", "programs", multiple=True, metavar="NAME|PID", help="Only this one's threads."
)
@click.option("--all", "every", is_flag=True, help="Show also threads that only waited.")
@params.json_option
def command(
    run: Run,
    position: Position | Named | None,
    first: Position | None,
    last: Position | None,
    programs: tuple[str, ...],
    every: bool,
    as_json: bool,
) -> None:
    """Who had the CPU in RUN: a lane a thread, time from left to right.

    With POSITION it is what each thread does there: where it is in its program, and what it waits
    for.

    Shown are threads that ran or could have run, in the order in which they appeared; of many,
    those that ran longest. A time in which no thread of the job could run is drawn short. Above
    the lanes are steps, and below them what the schedule did to the run.

    With --program, the time is that from the program's start to its end, unless --from and --to
    say another one.
    """
    if position is not None:
        if (first, last) != (None, None) or every:
            raise Failure(
                "a POSITION is one point of the run: --from, --to and --all don't go with it"
            )
        _standing(run, position, programs, as_json)
        return
    with TraceReader(run.trace) as reader:
        if not reader.steps:
            raise Failure(f"{run.short} has no steps: there is nothing to show")
        begin, end = step_range(reader, first, last)
        found = history(reader, end)
        lanes = found.lanes
        if programs:
            lanes = [lane for lane in lanes if _is_of(lane, programs)]
            if not lanes:
                raise Failure(f"{run.short} has no threads of {' or '.join(programs)}")
            if first is None:
                begin = min(lane.steps[0] for lane in lanes)
            if last is None:
                end = max(_end(lane, reader) for lane in lanes)
        window = Window.of(reader, begin, end)
        lanes = [lane for lane in lanes if any(lane.segments(window.start, window.end))]
        perturbations = [
            record for record in found.perturbations if window.first <= record.step <= window.last
        ]
        if as_json:
            say_json(_data(run, window, lanes, perturbations))
            return
        _show(reader, window, lanes, perturbations, found, every)


def _standing(run: Run, position: Position | Named, programs: Sequence[str], as_json: bool) -> None:
    """What the threads do at *position*."""
    # Most calls of this command do without.
    from rewind.cli import imported
    from rewind.cli.standing import Standing, say_threads, threads
    from rewind.cli.stopped import stopped

    with TraceReader(run.trace) as reader:
        position = located(run, reader, position)
    why = imported.why_not(run)
    if why is not None:
        kept = imported.whole(run, position, why)
        tasks = _of(programs, [one.task for one in kept], position)
        standing = [Standing(one.task, one.frames, one.why) for one in kept if one.task in tasks]
    else:
        with stopped(run, position) as machine:
            standing = threads(machine, _of(programs, machine.tasks(), position))
    if as_json:
        say_json({"position": str(position), "threads": [one.to_data() for one in standing]})
    else:
        say_threads(standing)


def _of(programs: Sequence[str], tasks: Sequence[Task], position: Position) -> Sequence[Task]:
    """Those of *tasks* that are of *programs*, if some are named."""
    if not programs:
        return tasks
    # A process is called as its first thread is.
    names = {task.pid: task.name for task in tasks if task.tid == task.pid}
    found = [
        task
        for task in tasks
        if not {str(task.pid), task.name, names.get(task.pid)}.isdisjoint(programs)
    ]
    if not found:
        raise Failure(f"there are no threads of {' or '.join(programs)} at {position}")
    return found


def _is_of(lane: Lane, programs: Sequence[str]) -> bool:
    names = {lane.program, lane.program.rpartition("/")[2], str(lane.pid)}
    return not names.isdisjoint(programs)


def _end(lane: Lane, reader: TraceReader) -> int:
    """The last step at which *lane* is there."""
    return lane.steps[-1] if STATES[lane.states[-1]] == "ended" else reader.steps - 1


# --- for a program


def _data(
    run: Run, window: Window, lanes: Sequence[Lane], perturbations: Sequence[Perturbed]
) -> dict[str, Any]:
    return {
        "hash": run.hash,
        "from": {"step": window.first, "time": window.start},
        "to": {"step": window.last, "time": window.end},
        "threads": [
            {
                "pid": lane.pid,
                "tid": lane.tid,
                "name": lane.name,
                "program": lane.program,
                "segments": list(_segments(lane, window)),
            }
            for lane in lanes
        ],
        "perturbations": [
            {
                "step": record.step,
                "time": record.time,
                "pid": record.pid,
                "tid": record.tid,
                "kind": record.kind,
                "ns": record.ns,
                "nothing": record.nothing,
            }
            for record in perturbations
        ],
    }


def _segments(lane: Lane, window: Window) -> Iterator[dict[str, Any]]:
    """Each lasts until the next begins; the first may have begun before the window."""
    for place, (time, step, state) in enumerate(
        zip(lane.times, lane.steps, lane.states, strict=True)
    ):
        until = lane.times[place + 1] if place + 1 < len(lane.times) else window.end
        if time < window.end and until > window.start:
            yield {"step": step, "time": time, "state": STATES[state]}


# --- for a person


def _show(
    reader: TraceReader,
    window: Window,
    lanes: Sequence[Lane],
    perturbations: Sequence[Perturbed],
    found: History,
    every: bool,
) -> None:
    shown, notes = _chosen(lanes, window, every)
    out = console(sys.stdout)
    colour = out.is_terminal and not out.no_color and not out.is_dumb_terminal
    labels = [_label(lane) for lane in shown]
    indent = max(map(len, labels), default=0) + 2
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    columns = max(width - indent, _LEAST_COLUMNS)
    axis = Axis(window.start, window.end, columns, idle(found.lanes, window.start, window.end))
    say(
        f"steps {window.first:,} to {window.last:,}, from {_seconds(window.start)} to"
        f" {_seconds(window.end)}: a column is {_about(axis.column_ns)}"
    )
    for line in ruler(list(_steps(reader, window, axis)), columns):
        say(" " * indent + line)
    marks = _marks(shown, perturbations)
    for label, lane in zip(labels, shown, strict=True):
        cells = draw(lane, axis, marks.get(lane, ())).rstrip()
        say(f"{label:<{indent}}{coloured(cells) if colour else cells}".rstrip())
    say(LEGEND)
    for record in perturbations[:_MOST_PERTURBATIONS]:
        who = render.task(record.pid, record.tid)
        what = f"stall of {span(record.ns)}" if record.kind == "stall" else record.kind
        nothing = " (no task of the job was running)" if record.nothing else ""
        say(f"{PERTURBED} {record.step}  {who}  {what}{nothing}")
    if len(perturbations) > _MOST_PERTURBATIONS:
        say(f"{PERTURBED} and {len(perturbations) - _MOST_PERTURBATIONS:,} more")
    if axis.cut:
        total = _about(sum(until - begin for begin, until in axis.cut))
        times = f", in {len(axis.cut):,} parts" if len(axis.cut) > 1 else ""
        say(f"drawn short: {total} in which nobody could run{times}")
    for note in notes:
        say(note)


def _chosen(lanes: Sequence[Lane], window: Window, every: bool) -> tuple[list[Lane], list[str]]:
    """Which of *lanes* to show, and what to say of the others."""
    if every:
        return list(lanes), []
    ran: dict[Lane, int] = {}
    for lane in lanes:
        for state, begin, until in lane.segments(window.start, window.end):
            if state in (RUNS, READY):
                ran[lane] = ran.get(lane, 0) + (until - begin if state == RUNS else 0)
    if not ran:
        # All wait: who for whom is what somebody wants to know.
        ran = dict.fromkeys(lanes, 0)
    notes = []
    longest = sorted(ran, key=lambda lane: -ran[lane])[:MOST_LANES]
    if len(ran) > len(longest):
        left_out = count(len(ran) - len(longest), "more thread")
        notes.append(f"{left_out} ran, for less time: --all, --program, --from and --to show them")
    if len(lanes) > len(ran):
        notes.append(f"{count(len(lanes) - len(ran), 'more thread')} only waited: --all shows them")
    kept = set(longest)
    return [lane for lane in ran if lane in kept], notes


def _label(lane: Lane) -> str:
    text = f"{render.task(lane.pid, lane.tid)} {render.plain(lane.label)}".rstrip()
    return text if len(text) <= _LABEL else text[: _LABEL - 1] + "…"


def _marks(lanes: Sequence[Lane], perturbations: Sequence[Perturbed]) -> dict[Lane, list[int]]:
    """When each lane is perturbed."""
    marks: dict[Lane, list[int]] = {}
    for record in perturbations:
        for lane in lanes:
            if lane.tid == record.tid and lane.steps[0] <= record.step:
                last = lane.steps[-1] if STATES[lane.states[-1]] == "ended" else record.step
                if record.step <= last:
                    marks.setdefault(lane, []).append(record.time)
    return marks


def _steps(reader: TraceReader, window: Window, axis: Axis) -> Iterator[tuple[int, str]]:
    """Columns, and the step that is the first in each; none for columns without another one."""
    distance = max(len(str(window.last)) + 4, 10)
    last = -1
    for column in range(0, axis.columns, distance):
        step = window.first if column == 0 else step_at(reader, axis.time(column))
        if last < step <= window.last:
            yield column, str(step)
            last = step


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:,.6f} s"


def _about(ns: float) -> str:
    """A time span, rounded to three digits."""
    size = max(len(str(int(ns))) - 3, 0)
    return span(round(ns / 10**size) * 10**size) if ns >= 1 else "less than 1 ns"
