"""Places: where threads were in their programs, for a reader who can't make the run again.

A trace has of a system call the address that the C library calls from, which is the same for all
callers; a program's own line is in the stack, and that in the machine's memory. So the stacks are
read when a run is exported, at the positions of which somebody may ask: the schedule's, bookmarks,
the end, and calls of the program's own threads. A thread that is in a call stands where it was when
the call began.

In a file they are JSON::

    {"frames": [what `Frame.to_data` gives, …],
     "looks": [{"at": "19043+437", "whole": true,
                "threads": [{"task": what `Task.to_data` gives, "stack": [0, 7, …], "why": null},
                            …]}, …]}

*whole*: all threads of the job are there. The source files that frames name, as far as they were
to be had, are an entry of their own, so that no path is written to::

    {"files": [["/build/source/bank.c", "…"], …]}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from rewind.formats import FormatError
from rewind.formats.schedule import Position
from rewind.inspect.answers import Frame, Task, Wait

LOOKS_MAX = 2_000
FRAMES_MAX = 100_000
DEPTH_MAX = 1_000
TEXT_MAX = 1 << 20
"""Bytes of a source file; a longer one is left out."""

_FRAME = {
    "pc": int,
    "function": str | None,
    "offset": int | None,
    "module": str | None,
    "address": int | None,
    "file": str | None,
    "line": int | None,
    "column": int | None,
    "inlined": bool,
    "own": bool,
    "why": str | None,
    "build_id": str | None,
}
_TASK = {
    "pid": int,
    "tid": int,
    "parent": int,
    "name": str,
    "state": str,
    "process": int,
    "number": int,
}
_WAIT = {"what": str, "call": str, "address": int | None, "variable": str | None}
_STATES = ("runs", "ready", "waits", "stopped", "ended")


@attrs.frozen
class Thread:
    """Where a thread is; *why* says why there are no frames, if there are none."""

    task: Task
    frames: tuple[Frame, ...] = ()
    why: str | None = None


@attrs.frozen
class Look:
    """What was seen at a position."""

    position: Position
    whole: bool
    """Whether all threads of the job are there."""
    threads: tuple[Thread, ...]

    def thread(self, tid: int) -> Thread | None:
        """The thread *tid*, if it is there."""
        return next((thread for thread in self.threads if thread.task.tid == tid), None)


def dumps(looks: Iterable[Look]) -> bytes:
    """The entry's content."""
    numbers: dict[Frame, int] = {}
    data = []
    for look in sorted(looks, key=lambda look: look.position):
        threads = [
            {
                "task": thread.task.to_data(),
                "stack": [numbers.setdefault(frame, len(numbers)) for frame in thread.frames],
                "why": thread.why,
            }
            for thread in look.threads
        ]
        data.append({"at": str(look.position), "whole": look.whole, "threads": threads})
    found = {"frames": [frame.to_data() for frame in numbers], "looks": data}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def loads(data: bytes) -> list[Look]:
    """The looks of an entry's content, in order.

    :raises FormatError: if it is damaged.
    """
    found = _json(data, "the places")
    frames = [Frame(**_fields(one, _FRAME)) for one in _list(found.get("frames"), FRAMES_MAX)]
    looks = [_look(one, frames) for one in _list(found.get("looks"), LOOKS_MAX)]
    return sorted(looks, key=lambda look: look.position)


def _look(data: Any, frames: Sequence[Frame]) -> Look:
    fields = _fields(data, {"at": str, "whole": bool, "threads": list})
    threads = []
    for one in _list(fields["threads"], FRAMES_MAX):
        thread = _fields(one, {"task": dict, "stack": list, "why": str | None})
        stack = _list(thread["stack"], DEPTH_MAX)
        if not all(type(number) is int and 0 <= number < len(frames) for number in stack):
            raise FormatError("the places are damaged: a frame is missing")
        threads.append(
            Thread(_task(thread["task"]), tuple(frames[at] for at in stack), thread["why"])
        )
    return Look(Position.parse(fields["at"]), fields["whole"], tuple(threads))


def _task(data: Mapping[str, Any]) -> Task:
    wait = data.get("wait")
    made = None
    if wait is not None:
        numbers = _fields(wait, {"arguments": list, "who": list})
        for value in numbers.values():
            if not all(type(number) is int for number in _list(value, DEPTH_MAX)):
                raise FormatError("the places are damaged")
        made = Wait(
            **_fields(wait, _WAIT),
            arguments=tuple(numbers["arguments"]),
            who=tuple(numbers["who"]),
        )
    fields = _fields(data, _TASK)
    if fields["state"] not in _STATES:
        raise FormatError("the places are damaged: a thread does what no thread does")
    return Task(**fields, wait=made)


def dump_sources(files: Mapping[str, str]) -> bytes:
    """The content of the entry with source files, by path."""
    data = {"files": [[path, text] for path, text in sorted(files.items())]}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(
        errors="backslashreplace"
    )


def load_sources(data: bytes) -> dict[str, str]:
    """The source files of an entry's content, by path.

    :raises FormatError: if it is damaged.
    """
    files = {}
    for entry in _list(_json(data, "the sources").get("files"), FRAMES_MAX):
        match entry:
            case [str(path), str(text)]:
                files[path] = text
            case _:
                raise FormatError("the sources are damaged")
    return files


def _json(data: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise FormatError(f"{what} are damaged: they are no JSON") from None
    if not isinstance(found, dict):
        raise FormatError(f"{what} are damaged")
    return found


def _list(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise FormatError("the places are damaged, or too many")
    return value


def _fields(data: Any, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Those of *data* that *kinds* names, which have to be of these kinds."""
    if not isinstance(data, dict):
        raise FormatError("the places are damaged")
    for name, kind in kinds.items():
        value = data.get(name)
        good = isinstance(value, kind) and not (kind is not bool and isinstance(value, bool))
        if not good or (isinstance(value, int) and not -(1 << 63) <= value < 1 << 64):
            raise FormatError(f"the places are damaged: {name} is not what it should be")
    return {name: data.get(name) for name in kinds}
