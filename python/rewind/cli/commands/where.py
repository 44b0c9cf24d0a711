"""``rewind where``: where a thread is in its program, at a step."""

from collections.abc import Sequence
from typing import Any

import click

from rewind.analysis.render import plain
from rewind.cli import debuginfo, imported, params
from rewind.cli.errors import Failure
from rewind.cli.imported import NotThere
from rewind.cli.located import located
from rewind.cli.output import say, say_json
from rewind.cli.params import Whole
from rewind.cli.runs import Run
from rewind.cli.stacks import kept_stack, say_stack, stack_of
from rewind.cli.standing import Standing as ThreadStanding
from rewind.cli.standing import named, say_threads, state, threads
from rewind.cli.stopped import opened
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import TraceReader
from rewind.inspect.answers import Task
from rewind.replay.timeline import Standing


@click.command("where")
@params.run_argument
@click.argument("position", metavar="POSITION", type=params.PositionType(named=True))
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
    position: Position | Named,
    tid: int | None,
    count: int | None,
    number: int | None,
    as_json: bool,
) -> None:
    """Where a thread is in its program at POSITION: STEP+N, or T:C+K.

    The run is made again up to there. Shown is the innermost frame of the program's own code, with
    its callers. For the thread that has the CPU there is another name of the position, T:C+K: the
    job's T-th task, after its C-th system call and K instructions in user mode. It is the same in
    other runs of the job, whatever happened in other threads before, and can be given instead of
    STEP+N.
    """
    with TraceReader(run.trace) as reader:
        position = located(run, reader, position)
    why = imported.why_not(run)
    if why is not None:
        _from_file(run, position, tid, count, number, as_json, why)
        return
    with (
        debuginfo.known() as outside,
        opened(run) as around,
        around.machine(position, debug_directories=outside.directories) as replayed,
    ):
        machine = around.inspector
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
        place = replayed.standing() if chosen.state == "runs" else None
        chosen = named(machine, chosen)
        stack = stack_of(machine, chosen, outside, number, whole=as_json or count is not None)
    if as_json:
        say_json(
            {
                "position": str(position),
                **_named_data(place),
                **chosen.to_data(),
                **stack.to_data(),
            }
        )
        return
    say(_head(chosen, position))
    if place is not None and place.named is not None:
        say(f"{place.named}" + ("" if place.user else ", in the kernel"))
    say_stack(stack, count)


def _named_data(place: Standing | None) -> dict[str, Any]:
    """Of a position its other name."""
    if place is None or place.named is None:
        return {"named": None, "in_user_mode": None}
    return {"named": str(place.named), "in_user_mode": place.user}


def _from_file(
    run: Run,
    position: Position,
    tid: int | None,
    count: int | None,
    number: int | None,
    as_json: bool,
    why: NotThere,
) -> None:
    """The same by what the file says that *run* was imported from."""
    answer = imported.at(run, position, tid, why)
    if tid is None and not any(one.task.state == "runs" for one in answer.threads):
        standing = [ThreadStanding(one.task, one.frames, one.why) for one in answer.threads]
        if as_json:
            say_json({"position": str(position), "threads": [one.to_data() for one in standing]})
        else:
            say(f"no thread of the job has the CPU at step {position}")
            say_threads(standing)
        return
    (thread,) = answer.threads
    if not thread.frames:
        raise Failure(thread.why or f"thread {thread.task.tid} is in no program")
    stack = kept_stack(thread.frames, imported.sources(run), number)
    if as_json:
        say_json(
            {
                "position": str(position),
                **_named_data(None),
                **thread.task.to_data(),
                **stack.to_data(),
            }
        )
        return
    say(_head(thread.task, position))
    say_stack(stack, count)


def _choose(tasks: Sequence[Task], tid: int | None) -> Task | None:
    if tid is None:
        return next((task for task in tasks if task.state == "runs"), None)
    for task in tasks:
        if task.tid == tid:
            return task
    there = ", ".join(str(task.tid) for task in tasks)
    raise Failure(f"there is no thread {tid} at this step; there are {there}")


def _head(task: Task, position: Position) -> str:
    does = "" if task.state == "runs" else f", {state(task)},"
    return f"process {task.pid} ({plain(task.name)}), thread {task.tid}{does} at step {position}"
