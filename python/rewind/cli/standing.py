"""Where the threads of a stopped machine are, and what they wait for, in words."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import attrs

from rewind.analysis import render
from rewind.analysis.render import plain
from rewind.cli.output import say
from rewind.inspect import InspectError
from rewind.inspect.answers import Frame, Task, place
from rewind.inspect.worker import Inspector

_STATES = {
    "runs": "runs",
    "ready": "could run",
    "waits": "waits",
    "stopped": "is stopped",
    "ended": "has ended",
}


@attrs.frozen
class Standing:
    """A thread, and the frames of its program."""

    task: Task
    frames: Sequence[Frame] = ()
    why: str | None = None
    """Why there are none, if there are none."""

    def to_data(self) -> dict[str, Any]:
        """It for a program."""
        frames = [frame.to_data() for frame in self.frames]
        return {**self.task.to_data(), "frames": frames, "why": self.why}


def threads(machine: Inspector, tasks: Sequence[Task]) -> list[Standing]:
    """Where *tasks* are, with the names of what they wait for."""
    found = []
    for task in tasks:
        try:
            frames = machine.frames(task.tid)
        except InspectError as error:
            found.append(Standing(task, why=str(error)))
        else:
            found.append(Standing(named(machine, task), frames))
    return found


def named(machine: Inspector, task: Task) -> Task:
    """*task*, with the name of the variable that it waits at, if it is known."""
    wait = task.wait
    if wait is None or wait.address is None:
        return task
    address = f"{wait.address:#x}"
    # What stands there when one waits for a thread's end is the C library's own.
    name = machine.variable(task.tid, wait.address) if address in wait.what else None
    if name is None:
        return task
    what = wait.what.replace(address, f"{address} ({name})", 1)
    return attrs.evolve(task, wait=wait.evolve(what=what, variable=name))


def state(task: Task) -> str:
    """What *task* does: ``runs``, ``waits for the end of 66``, …"""
    return f"waits {plain(task.wait.what)}" if task.wait else _STATES[task.state]


def title(frame: Frame) -> str:
    """``deposit (bank.c:24)``, or as much of it as is known."""
    if frame.line is not None and frame.file is not None:
        name = plain(frame.function or "?")
        return f"{name} ({plain(PurePosixPath(frame.file).name)}:{frame.line})"
    name = frame.function or f"{frame.pc:#x}"
    if frame.function is not None and frame.offset is not None:
        name += f"+{frame.offset:#x}"
    elif frame.module is not None and frame.address is not None:
        name = f"{PurePosixPath(frame.module).name}+{frame.address:#x}"
        return plain(name)
    return plain(f"{name} in {PurePosixPath(frame.module).name}" if frame.module else name)


def say_threads(found: Sequence[Standing]) -> None:
    """A line for each: who it is, what it does, and where it is in its program."""
    names = [render.task(one.task.pid, one.task.tid) for one in found]
    width = max(map(len, names), default=0)
    for name, one in zip(names, found, strict=True):
        here = place(one.frames)
        line = f"{name:<{width}}  {plain(one.task.name)}: {state(one.task)}"
        if here is not None:
            line += f", in {title(here)}"
        elif one.why is not None and one.task.state != "ended":
            line += f" ({plain(one.why)})"
        say(line)
