"""``rewind ps``: a run's processes."""

from collections.abc import Iterator
from typing import Any

import attrs
import click

from rewind.analysis import render
from rewind.cli import params
from rewind.cli.commands.events import step_range
from rewind.cli.errors import Failure
from rewind.cli.located import located
from rewind.cli.output import say_json, table
from rewind.cli.processes import Process, commands, history
from rewind.cli.runs import Run
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import TraceReader
from rewind.inspect.answers import Task


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
@click.argument(
    "position",
    metavar="[POSITION]",
    required=False,
    type=params.PositionType(named=True),
)
@click.option("--all", "every", is_flag=True, help="What the kernel knows: what threads wait for.")
@params.json_option
def command(run: Run, position: Position | Named | None, every: bool, as_json: bool) -> None:
    """RUN's processes: all that there were, or those at POSITION and what their threads do.

    With --all it is read from the machine, which is made again up to there: what each thread that
    waits is waiting for, and who can end that.
    """
    if every:
        if position is None:
            raise Failure(
                "--all needs a POSITION: what threads wait for is read from the machine there"
            )
        _from_machine(run, position, as_json)
        return
    with TraceReader(run.trace) as reader:
        step = None
        if position is not None:
            step = step_range(reader, None, located(run, reader, position))[1]
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


def _from_machine(run: Run, position: Position | Named, as_json: bool) -> None:
    """The threads at *position*, by the kernel's own structures."""
    # Most calls of this command do without.
    from rewind.cli import imported
    from rewind.cli.standing import named, state
    from rewind.cli.stopped import stopped

    with TraceReader(run.trace) as reader:
        position = located(run, reader, position)
        why = imported.why_not(run)
        if why is not None:
            tasks = [one.task for one in imported.whole(run, position, why)]
            started = commands(reader, step_range(reader, None, position)[1])
        else:
            with stopped(run, position) as machine:
                # While the kernel's debug information is being loaded.
                started = commands(reader, step_range(reader, None, position)[1])
                tasks = [named(machine, task) for task in machine.tasks()]
    if as_json:
        say_json([{**task.to_data(), "command": started.get(task.pid)} for task in tasks])
        return
    depths: dict[int, int] = {}
    children: dict[int, list[Task]] = {}
    for task in tasks:
        if task.tid == task.pid:
            children.setdefault(task.parent, []).append(task)
    pids = {task.pid for task in tasks}
    roots = [task for parent, below in children.items() if parent not in pids for task in below]
    order: list[int] = []
    stack = [(0, task) for task in reversed(roots)]
    while stack:
        depth, task = stack.pop()
        if task.pid not in depths:
            depths[task.pid] = depth
            order.append(task.pid)
            stack += [(depth + 1, child) for child in reversed(children.get(task.pid, []))]
    lines = []
    for pid in [*order, *sorted(pids - depths.keys())]:
        for task in tasks:
            if task.pid == pid:
                first = task.tid == pid
                lines.append(
                    (
                        "  " * depths.get(pid, 0) + render.task(pid, task.tid),
                        render.plain(task.name),
                        state(task),
                        started.get(pid, "") if first else "",
                    )
                )
    table(("task", "name", "state", "command"), lines)


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
