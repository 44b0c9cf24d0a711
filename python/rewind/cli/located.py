"""Positions that are named by a task: where they are in a run."""

from rewind.analysis.calls import Calls, Span
from rewind.cli.commands.events import check_position
from rewind.cli.errors import Failure
from rewind.cli.output import count
from rewind.cli.runs import Run
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import TraceReader


def span_of(reader: TraceReader, named: Named) -> Span:
    """The steps between which *named* is in a run, if its task executes so many instructions.

    :raises Failure: if there is no such task, or it makes fewer calls.
    """
    calls = Calls.of(reader.frames())
    span = calls.span(named)
    if span is not None:
        return span
    if named.task > calls.tasks:
        raise Failure(f"there is no {named}: the run has {count(calls.tasks, 'task')}")
    raise Failure(
        f"there is no {named}: task {named.task} makes"
        f" {count(calls.count(named.task), 'system call')}"
    )


def located(run: Run, reader: TraceReader, position: Position | Named) -> Position:
    """*position* of *run*, by steps; *reader* reads its trace.

    A named one takes a replay up to there, from which what comes next can go on.

    :raises Failure: if the run does not get there, or can't be made again.
    """
    if isinstance(position, Named):
        # Most calls of a command do without.
        from rewind.cli.stopped import timeline_of

        named, span = position, span_of(reader, position)
        with timeline_of(run) as (_, timeline):
            found = timeline.find(named, span.first, span.last)
        if found is None:
            raise Failure(
                f"there is no {named}: task {named.task} executes fewer instructions between its"
                f" system calls {named.call:,} and {named.call + 1:,}"
                if span.last is not None
                else f"there is no {named}: the run ends before"
            )
        position = found
    check_position(reader, position)
    return position
