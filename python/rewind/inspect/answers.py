"""What is found out of a machine: values, which are the same in the worker and outside of it."""

from collections.abc import Sequence
from typing import Any, Self

import attrs


@attrs.frozen(kw_only=True)
class Wait:
    """What a thread waits for."""

    what: str = "for something"
    """In words, after "waits": "for the end of 66", "to read from pipe 5, which 66 can write to".
    """
    call: str = ""
    """The system call in which it does; none for what the kernel does besides."""
    arguments: tuple[int, ...] = ()
    """The call's six."""
    who: tuple[int, ...] = ()
    """The job's threads, or processes, one of which can end the wait, where that is known."""
    address: int | None = None
    """The futex."""
    variable: str | None = None
    """Its name in the program, where that is known and was asked for."""

    def evolve(self, **changes: Any) -> Self:
        """It, with *changes*."""
        return attrs.evolve(self, **changes)


@attrs.frozen
class KernelPlaces:
    """Where a kernel has what `rewind.replay.watch` goes by."""

    current_task: int
    """The address of the pointer to the task that has the CPU."""
    switch_to: int
    """The function that changes it."""
    switch_to_size: int
    page_fault: int
    """Where page faults come in."""
    pid_offset: int
    """In ``struct task_struct``."""
    tgid_offset: int

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)


@attrs.frozen
class MessagePlace:
    """A function of a kernel that sends or receives through something of the kernel's."""

    function: int
    send: bool
    offsets: tuple[int, ...]
    """How to get from its first argument to that: what is read at each offset in turn."""


@attrs.frozen
class SyncPlaces:
    """Where a kernel has what orders threads, for `rewind.replay.races`: functions, and offsets."""

    preempt_count: int
    """The address of the count that says whether it is in an interrupt."""
    wake: int
    wake_new: int
    exit: int
    reap: int
    clone: int
    futex: int
    unmap: int
    clear: tuple[int, ...]
    """The functions that make a page one with other content."""
    messages: tuple[MessagePlace, ...]
    child_tid_offset: int
    """In ``struct task_struct``: where its end is written to."""
    stack_offset: int
    """In ``struct kernel_clone_args``, as the next two."""
    stack_size_offset: int
    tls_offset: int

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """What `to_data` was made of, by way of JSON."""
        messages = tuple(
            MessagePlace(one["function"], one["send"], tuple(one["offsets"]))
            for one in data["messages"]
        )
        return cls(**{**data, "clear": tuple(data["clear"]), "messages": messages})


@attrs.frozen
class Entry:
    """A file in a list."""

    path: str
    mode: int
    """As stat(2) has it."""
    size: int
    """In bytes."""
    target: str | None = None
    """Where it leads, if it is a link."""

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """What `to_data` was made of."""
        return cls(**data)


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
    wait: Wait | None = None
    """What it waits for, if it does."""
    process: int = 0
    """The kernel's own number of the process, ..."""
    number: int = 0
    """... and of the thread."""

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """What `to_data` was made of, by way of JSON."""
        wait = data["wait"]
        if wait is not None:
            sequences = {name: tuple(wait[name]) for name in ("arguments", "who")}
            wait = Wait(**{**wait, **sequences})
        return cls(**{**data, "wait": wait})


@attrs.frozen
class Place:
    """Something of a program's in its memory."""

    address: int
    size: int
    type: str
    """As C or C++ has it."""

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)


@attrs.frozen
class Page:
    """Bytes of a process's memory that are in one page."""

    address: int
    size: int
    physical: int | None
    """Where they are in the machine's memory; None if the page is not there: it was not touched."""
    file: str | None = None
    """The file that is mapped there, if one is, ..."""
    offset: int = 0
    """... and where in it they are."""
    shared: bool = False
    """Whether what is written there is the file's."""
    anonymous: bool = False
    """Whether the page is a process's, and not the file's."""

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)


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
    build_id: str | None = None
    """The build id of *module*, by which what was separated from it is found."""

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


@attrs.frozen(kw_only=True)
class ThreadRegisters:
    """What a thread has in its registers, in its program."""

    general: dict[str, int]
    """By the names of the kernel's ``struct pt_regs``, as `rewind.inspect.process.PT_REGS`."""
    fs_base: int
    """Where its thread-locals are."""
    gs_base: int
    floating: bytes = attrs.field(repr=False)
    """As FXSAVE would write them: 512 bytes, or none if they are not known."""

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return {**attrs.asdict(self), "floating": self.floating.hex()}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """What `to_data` was made of."""
        return cls(**{**data, "floating": bytes.fromhex(data["floating"])})


@attrs.frozen(kw_only=True)
class Mapped:
    """A part of a process's address space."""

    start: int
    """Its first address; *end* is the first behind it."""
    end: int
    offset: int
    """Of its beginning in the file, in bytes."""
    access: str
    """As in ``/proc/PID/maps``: "r-xp"."""
    path: str | None
    """The file that is mapped, as the kernel names it."""
    inode: int
    """The kernel's address of the file's inode; 0 if it is none."""
    is_input: bool
    """Whether that file is one of the job's inputs."""

    @property
    def executable(self) -> bool:
        """Whether there is code in it."""
        return "x" in self.access


@attrs.frozen(kw_only=True)
class ProcessLayout:
    """A process's program, and what is where."""

    executable: str | None
    """The path of its program, as the kernel names it."""
    auxv: bytes = attrs.field(repr=False)
    """The vector that the kernel gave the program when it began, up to AT_NULL."""
    mapped: tuple[Mapped, ...]

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return {**attrs.asdict(self), "auxv": self.auxv.hex()}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """What `to_data` was made of."""
        mapped = tuple(Mapped(**one) for one in data["mapped"])
        return cls(executable=data["executable"], auxv=bytes.fromhex(data["auxv"]), mapped=mapped)


def place(frames: Sequence[Frame]) -> Frame | None:
    """Where a thread is in its own program: the innermost frame that is no library's.

    One with a source line is preferred: of a program that was linked statically, the C library is a
    part. If there is none it is the innermost of which the source line is known, or of all.
    """
    own = [frame for frame in frames if frame.own]
    for some in (own, frames):
        for frame in some:
            if frame.line:
                return frame
        if some:
            return some[0]
    return None
