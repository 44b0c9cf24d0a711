"""``rewind ps``: a run's processes."""

from collections.abc import Iterator
from typing import Any

import attrs
import click

from rewind.analysis import render
from rewind.cli import params
from rewind.cli.commands.events import step_range
from rewind.cli.output import say_json, table
from rewind.cli.processes import Process, history
from rewind.cli.runs import Run
from rewind.formats.schedule import Position
from rewind.formats.trace import TraceReader


def tree(processes: list[Process], parents: dict[int, int | None]) -> Iterator[tuple[int, Process]]:
    """*processes*, each after its parent, with how deep it is.

    *parents* has the parent's pid by place in the list.
    """
    children: dict[int | None, list[int]] = {}
    pids: dict[int, int] = {}
    for place, process in enumerate(processes):
        # A pid can be used again: the latest before it is meant.
        parent = parents[place]
        children.setdefault(pids.get(parent) if parent is not None else None, []).append(place)
        pids[process.pid] = place
    stack = [(0, place) for place in reversed(children.get(None, ()))]
    while stack:
        depth, place = stack.pop()
        yield depth, processes[place]
        stack += [(depth + 1, child) for child in reversed(children.get(place, ()))]


@click.command("ps")
@params.run_argument
@click.argument("position", metavar="[STEP]", required=False, type=params.PositionType())
@params.json_option
def command(run: Run, position: Position | None, as_json: bool) -> None:
    """RUN's processes: all that there were, or those at STEP and what their threads do."""
    with TraceReader(run.trace) as reader:
        step = None if position is None else step_range(reader, None, position)[1]
        found = history(reader, step)
    if step is None:
        processes = found.processes
        parents = {place: process.parent for place, process in enumerate(processes)}
    else:
        processes = [process for process in found.processes if process.last is None]
        parents = {place: found.parent(process) for place, process in enumerate(processes)}
    if as_json:
        say_json([_data(process) for process in processes])
    elif step is None:
        _all(tree(processes, parents))
    else:
        _living(tree(processes, parents))


def _data(process: Process) -> dict[str, Any]:
    data = attrs.asdict(process)
    data["threads"] = [attrs.asdict(thread) for thread in process.threads.values()]
    return data


def _all(rows: Iterator[tuple[int, Process]]) -> None:
    table(
        ("pid", "first", "last", "threads", "end", "command"),
        [
            (
                "  " * depth + str(process.pid),
                str(process.first),
                "" if process.last is None else str(process.last),
                str(len(process.threads)),
                "was there" if process.status is None else render.status(process.status),
                process.command,
            )
            for depth, process in rows
        ],
        right=("first", "last", "threads"),
    )


def _living(rows: Iterator[tuple[int, Process]]) -> None:
    lines = []
    for depth, process in rows:
        for thread in process.threads.values():
            if thread.last is None:
                first = thread.tid == process.pid
                lines.append(
                    (
                        "  " * depth + render.task(process.pid, thread.tid),
                        thread.state,
                        str(thread.since),
                        thread.call,
                        process.command if first else thread.name,
                    )
                )
    table(("task", "state", "since", "call", "command"), lines, right=("since",))
