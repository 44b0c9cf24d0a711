"""Which file each descriptor of each process is, and what paths mean, from a trace's records.

Files have no numbers in a trace. One is known here by the name that it was opened by, and keeps its
identity when it is renamed or linked. What symbolic links mean is not known: a file has as many
identities as there are ways to it that differ by one.
"""

import posixpath
from collections import deque

import attrs

from rewind.analysis.clocks import Actor

O_WRITE = 3
O_CREAT, O_TRUNC, O_APPEND, O_CLOEXEC = 0o100, 0o1000, 0o2000, 0o2000000
AT_FDCWD = 2**64 - 100
CLONE_FS, CLONE_FILES, CLONE_THREAD = 0x200, 0x400, 0x10000

BUILD = "/build"
"""Where a job's first process begins."""
NAMES_MAX = 1 << 16
"""Of how many names it is known which file they have."""


@attrs.define(eq=False)
class File:
    """A file, whatever its name is now."""

    path: str
    """The name that it was first seen by."""


@attrs.define(eq=False)
class Pipe:
    """A pipe, or a pair of sockets; or what somebody has written into it that nobody has read."""

    number: int
    kind: str
    chunks: deque[tuple[int, dict[Actor, int]]] = attrs.field(factory=deque, repr=False)
    """Bytes, and what their writer knew."""
    left: dict[Actor, int] = attrs.field(factory=dict, repr=False)
    """What those knew who have closed what they wrote to."""


@attrs.define(eq=False)
class Open:
    """An open file description: what descriptors that were copied share."""

    target: File | Pipe | None
    """None: of no concern, or not known."""
    flags: int = 0
    path: str = ""
    """Of a directory: what is looked up from there."""
    offset: int = 0
    end: str = ""
    """Of a pipe: "read" or "write"; of a pair of sockets "both"."""
    uses: int = 0
    """How many descriptors there are of it."""
    shared: bool = False
    """Another process has had it, too."""

    @property
    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return bool(self.flags & O_WRITE) or self.end in ("write", "both")


@attrs.define(eq=False)
class Table:
    """The descriptors of a process, or of several that share them."""

    fds: dict[int, tuple[Open, bool]] = attrs.field(factory=dict)
    """And whether exec closes it."""
    users: int = 1
    """How many tasks have it."""
    threads: bool = False
    """Whether several have, or had."""

    def get(self, fd: int) -> Open | None:
        """What *fd* is."""
        found = self.fds.get(fd & 0xFFFFFFFF)
        return None if found is None else found[0]

    def put(self, fd: int, what: Open, *, cloexec: bool = False) -> Open | None:
        """*fd* is *what* from now on; what is closed by that."""
        what.uses += 1
        old = self.drop(fd)
        self.fds[fd] = (what, cloexec)
        return old

    def drop(self, fd: int) -> Open | None:
        """*fd* is closed; what it was."""
        found = self.fds.pop(fd & 0xFFFFFFFF, None)
        if found is None:
            return None
        found[0].uses -= 1
        return found[0]

    def free(self, count: int) -> list[int]:
        """The *count* lowest numbers that are free: those that the kernel gives next."""
        found: list[int] = []
        number = 0
        while len(found) < count:
            if number not in self.fds:
                found.append(number)
            number += 1
        return found

    def copy(self) -> "Table":
        """What a process has that is forked."""
        for what, _ in self.fds.values():
            what.uses += 1
            what.shared = True
        return Table(dict(self.fds))

    def executed(self) -> list[Open]:
        """A program is executed: what is closed by that."""
        gone = [fd for fd, (_, cloexec) in self.fds.items() if cloexec]
        return [what for fd in gone if (what := self.drop(fd)) is not None]

    def ended(self) -> list[Open]:
        """All is closed; what that was."""
        return [what for fd in list(self.fds) if (what := self.drop(fd)) is not None]


@attrs.define(eq=False)
class Where:
    """A process's working directory."""

    path: str = BUILD

    def resolve(self, path: str, base: str | None = None) -> str:
        """*path*, from the directory *base* on."""
        return posixpath.normpath(posixpath.join(base or self.path, path))


class Names:
    """Which file each name has, as far as the records tell."""

    def __init__(self) -> None:
        self._files: dict[str, File | None] = {}
        """None: there is no such file."""
        self.lost = 0
        """Names that were forgotten."""

    def file(self, path: str) -> File:
        """The file *path*, which there is."""
        found = self._files.get(path)
        if found is None:
            found = File(path)
            self._set(path, found)
        return found

    def is_there(self, path: str) -> bool | None:
        """Whether there is a file *path*; None if it is not known."""
        return self._files[path] is not None if path in self._files else None

    def gone(self, path: str) -> None:
        """There is no file *path*."""
        self._set(path, None)

    def link(self, path: str, file: File) -> None:
        """*file* has the name *path*."""
        self._set(path, file)

    def _set(self, path: str, file: File | None) -> None:
        if path not in self._files and len(self._files) >= NAMES_MAX:
            del self._files[next(iter(self._files))]
            self.lost += 1
        self._files[path] = file
