"""What is found out of a machine: values, which are the same in the worker and outside of it."""

from collections.abc import Sequence
from typing import Any, Self

import attrs


@attrs.frozen
class Task:
    """A thread of the job. *pid* and *tid* are as the job's PID namespace shows them."""

    pid: int
    tid: int
    parent: int
    """The process that is told of its end; 0 if that is none of the job's."""
    name: str
    state: str
    """"runs", "ready", "waits", "stopped" or "ended"."""

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """What `to_data` was made of."""
        return cls(**data)


@attrs.frozen
class Frame:
    """A function's call, or one that was inlined into another's."""

    pc: int
    """The address: for a caller, the one to return to."""
    function: str | None = None
    """By the DWARF, or else the symbol's name."""
    offset: int | None = None
    """From the symbol's beginning."""
    module: str | None = None
    """The path of the file in which the function is."""
    address: int | None = None
    """The same place in the file, as objdump has it."""
    file: str | None = None
    """The source file."""
    line: int | None = None
    column: int | None = None
    inlined: bool = False
    own: bool = False
    """Whether it is the program's own code, and not a library's that the job was given."""
    why: str | None = None
    """Why there is no source line, if there is none."""

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """What `to_data` was made of."""
        return cls(**data)

    def __str__(self) -> str:
        where = self.function or f"{self.pc:#x}"
        if self.line:
            return f"{where} ({self.file}:{self.line})"
        if self.function and self.offset is not None:
            where += f"+{self.offset:#x}"
        return f"{where} in {self.module}" if self.module else where


def place(frames: Sequence[Frame]) -> Frame | None:
    """Where a thread is in its own program: the innermost frame that is no library's.

    If there is none it is the innermost of which the source line is known, or of all.
    """
    for frame in frames:
        if frame.own:
            return frame
    for frame in frames:
        if frame.line:
            return frame
    return frames[0] if frames else None
