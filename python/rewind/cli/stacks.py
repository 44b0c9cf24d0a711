"""A thread's stack, as a person reads it: the innermost frame with its source, and its callers."""

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from rewind.analysis.render import plain
from rewind.cli.debuginfo import DebugInfo
from rewind.cli.errors import Failure
from rewind.cli.output import say
from rewind.cli.standing import title
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


@attrs.frozen
class Stack:
    """The stack of a thread."""

    frames: Sequence[Frame]
    """The innermost first."""
    shown: int
    """The number of the one whose source is shown."""
    excerpt: Excerpt | None
    """That, if it is to be had."""

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return {
            "frame": self.shown,
            "source": None if self.excerpt is None else attrs.asdict(self.excerpt),
            "frames": [frame.to_data() for frame in self.frames],
        }


def stack_of(
    machine: Inspector,
    task: Task,
    outside: DebugInfo,
    number: int | None = None,
    *,
    whole: bool = False,
) -> Stack:
    """The stack of *task*.

    :param number: the frame whose source is shown; else the innermost of the program's own code.
    :param whole: whether the frames of libraries are wanted: what is known of the program's own
        code may be enough.
    :raises InspectError: if it has none.
    """
    frames = machine.frames(task.tid)
    own = [frame for frame in frames if frame.own]
    wanted = frames if whole or number is not None else own or frames
    if outside.complete(machine, wanted):
        frames = machine.frames(task.tid)
    shown = _frame(frames, number)
    return Stack(frames, shown, _excerpt(machine, frames[shown], outside))


def kept_stack(
    frames: Sequence[Frame], sources: Mapping[str, str], number: int | None = None
) -> Stack:
    """The stack of a thread that was looked at when its run was exported.

    :param sources: the source files that there are, by path.
    """
    shown = _frame(frames, number)
    text = sources.get(frames[shown].file or "")
    return Stack(frames, shown, None if text is None else _around(text, frames[shown]))


def say_stack(stack: Stack, count: int | None = None) -> None:
    """Write *stack*.

    :param count: how many frames, of whatever code; else those of the program's own.
    """
    frames, shown = stack.frames, stack.shown
    callers = [at for at, frame in enumerate(frames) if at > shown and frame.own]
    if count is not None:
        listed = {shown, *range(min(count, len(frames)))}
    else:
        listed = {shown, *callers[:CALLERS]}
    for at in sorted(listed):
        say(f"{'called from ' if at > shown else ''}#{at} {title(frames[at])}")
        if at == shown:
            _say_source(stack.excerpt, frames[at])
    if count is None and len(callers) > CALLERS:
        say(f"and {len(callers) - CALLERS:,} more, which --frames {len(frames)} shows")


def _frame(frames: Sequence[Frame], number: int | None) -> int:
    """The number of the frame that is shown."""
    if number is None:
        found = place(frames)
        return frames.index(found) if found is not None else 0
    if number >= len(frames):
        raise Failure(f"there is no frame {number}: the stack has {len(frames)}")
    return number


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
    return None if text is None else _around(text.decode(errors="replace"), frame)


def _around(text: str, frame: Frame) -> Excerpt | None:
    """The lines of *text* around *frame*'s, if it has that many."""
    if frame.line is None or frame.line < 1:
        return None
    lines = text.removesuffix("\n").split("\n")
    first = max(frame.line - AROUND, 1)
    found = lines[first - 1 : frame.line + AROUND]
    return Excerpt(first, tuple(found)) if frame.line <= len(lines) else None
