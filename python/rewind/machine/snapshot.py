"""Boot snapshots: a machine as it is after its boot, before it knows of any job.

A directory of four files:

``state``
    QEMU's migration stream without the machine's memory (capability x-ignore-shared).

``memory``
    the guest's memory, without the pages that are zero. In little endian: the 8 bytes
    "rwmemory", u32 version, u32 number of extents, u64 bytes of guest memory; then for each
    extent u64 offset and u64 length, both multiples of a page; then, from the next page
    boundary of the file on, the extents' bytes, in order and without gaps. Not compressed: to
    restore it is to copy it.

``console``
    what the kernel said.

``snapshot.json``
    an object: ``format`` "rewind-boot-snapshot", ``version``, ``machine`` (`Settings.guest`),
    ``memory`` (MiB).

Equal machines make equal snapshots, byte for byte.
"""

import contextlib
import errno
import json
import mmap
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

import attrs

from rewind.machine import MachineError, qemu
from rewind.machine.monitor import Monitor
from rewind.machine.settings import Settings

FORMAT = "rewind-boot-snapshot"
VERSION = 1

_PAGE = 4096
_ZERO = bytes(_PAGE)
_MAGIC = b"rwmemory"
_HEADER = struct.Struct("<8sIIQ")
_EXTENT = struct.Struct("<QQ")
_CHUNK = 1 << 20


@attrs.frozen(kw_only=True)
class Snapshot:
    """A boot snapshot in the directory *path*."""

    path: Path
    machine: dict[str, object]
    """`Settings.guest` of the machine that was booted."""
    memory: int
    """MiB."""
    console: bytes

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read all but the state and the memory.

        :raises MachineError: if *path* is no boot snapshot, or is of another version.
        """
        try:
            data = json.loads((path / "snapshot.json").read_bytes())
            console = (path / "console").read_bytes()
        except (OSError, ValueError) as error:
            raise MachineError(f"the boot snapshot can't be read: {path}: {error}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise MachineError(f"this is no boot snapshot: {path}")
        if data.get("version") != VERSION:
            raise MachineError(
                f"the boot snapshot {path} is of version {data.get('version')}; "
                f"this rewind reads version {VERSION}"
            )
        machine, memory = data.get("machine"), data.get("memory")
        if not (isinstance(machine, dict) and isinstance(memory, int)):
            raise MachineError(f"the boot snapshot is damaged: {path}")
        return cls(path=path, machine=machine, memory=memory, console=console)

    def state(self) -> bytes:
        """QEMU's state of the machine.

        :raises MachineError: if it can't be read.
        """
        try:
            return (self.path / "state").read_bytes()
        except OSError as error:
            raise MachineError(f"the boot snapshot can't be restored: {error}") from None

    def fill(self, memory: int) -> None:
        """Fill the file descriptor *memory*, which is all zeros, with the guest's memory.

        :raises MachineError: if the file is damaged, or the machine's size is another.
        """
        unpack(self.path / "memory", memory)

    def save(self) -> None:
        """Write ``console`` and ``snapshot.json``."""
        data = {
            "format": FORMAT,
            "version": VERSION,
            "machine": self.machine,
            "memory": self.memory,
        }
        (self.path / "console").write_bytes(self.console)
        (self.path / "snapshot.json").write_text(json.dumps(data, indent=2, sort_keys=True) + "\n")


def pack(memory: int, path: Path) -> None:
    """Write the file *path* from the machine's memory, the file descriptor *memory*."""
    size = os.fstat(memory).st_size
    with mmap.mmap(memory, size, prot=mmap.PROT_READ) as pages:
        extents = list(_extents(memory, pages))
        with path.open("wb") as file:
            file.write(_HEADER.pack(_MAGIC, VERSION, len(extents), size))
            for extent in extents:
                file.write(_EXTENT.pack(*extent))
            file.write(bytes(-file.tell() % _PAGE))
            for offset, length in extents:
                for at in range(offset, offset + length, _CHUNK):
                    file.write(pages[at : min(at + _CHUNK, offset + length)])


def unpack(path: Path, memory: int) -> None:
    """Fill the file descriptor *memory*, which is all zeros, with what `pack` wrote.

    :raises MachineError: if the file is damaged, or the machine's size is another.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            _unpack(data, memory, path)
    # The first is of an empty file, or one whose extents make no sense.
    except (ValueError, struct.error):
        raise MachineError(f"the boot snapshot is damaged: {path}") from None


def _unpack(data: mmap.mmap, memory: int, path: Path) -> None:
    magic, version, count, size = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != VERSION or size != os.fstat(memory).st_size:
        raise MachineError(f"this is not the memory of such a machine: {path}")
    at = -(-(_HEADER.size + count * _EXTENT.size) // _PAGE) * _PAGE
    with memoryview(data) as view:
        for number in range(count):
            offset, length = _EXTENT.unpack_from(data, _HEADER.size + number * _EXTENT.size)
            if at + length > len(data) or offset + length > size:
                raise MachineError(f"the boot snapshot is cut short: {path}")
            done = 0
            while done < length:
                with view[at + done : at + length] as rest:
                    done += os.pwrite(memory, rest, offset + done)
            at += length


def _extents(memory: int, pages: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Offset and length of the runs of pages in *memory* (mapped: *pages*) that are not zero."""
    start = end = 0
    for low, high in allocated(memory):
        for page in range(low - low % _PAGE, high, _PAGE):
            if pages[page : page + _PAGE] == _ZERO:
                continue
            if page != end:
                if end > start:
                    yield start, end - start
                start = page
            end = page + _PAGE
    if end > start:
        yield start, end - start


def allocated(file: int) -> Iterator[tuple[int, int]]:
    """Start and end of the parts of *file* that are no holes: reading a hole would fill it."""
    end = 0
    while True:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end


@contextlib.contextmanager
def restore(
    settings: Settings,
    snapshot: Snapshot,
    *,
    scratch: Path,
    device: Mapping[str, object],
    pass_fds: Sequence[int] = (),
) -> Iterator[qemu.Qemu]:
    """Start a machine from *snapshot*; the arguments are those of `rewind.machine.qemu.run`.

    :raises MachineError: if it can't be started.
    """

    with resume(
        settings,
        memory=snapshot.memory,
        state=snapshot.state(),
        fill=snapshot.fill,
        scratch=scratch,
        device=device,
        pass_fds=pass_fds,
    ) as (machine, _):
        yield machine


@contextlib.contextmanager
def resume(
    settings: Settings,
    *,
    memory: int,
    state: bytes,
    scratch: Path,
    device: Mapping[str, object],
    fill: Callable[[int], None] | None = None,
    base: int | None = None,
    pass_fds: Sequence[int] = (),
    arguments: Sequence[str] = (),
) -> Iterator[tuple[qemu.Qemu, Monitor]]:
    """Start a machine that goes on from *state*; it runs when this yields, or soon after.

    QEMU starts while its memory is being filled. It reads its state from a pipe, runs as soon
    as it has all of it, and is told so ahead of time: nothing waits for it but the pipe.

    :param memory: MiB.
    :param state: QEMU's migration stream without memory.
    :param fill: fills the file descriptor it is given with the guest's memory.
    :param base: the file descriptor of the memory that the machine begins with, instead of
        *fill*; see `rewind.machine.qemu.run`.
    :param arguments: more of QEMU's: a plugin that watches the guest.
    :raises MachineError: if it can't be started.
    """
    with contextlib.ExitStack() as stack:
        read_fd, write_fd = os.pipe()
        reader = stack.enter_context(os.fdopen(read_fd, "rb"))
        writer = stack.enter_context(os.fdopen(write_fd, "wb"))
        ours, theirs = socket.socketpair()
        stack.enter_context(theirs)
        monitor = stack.enter_context(Monitor(ours))
        monitor.submit("qmp_capabilities")
        monitor.submit(
            "migrate-set-capabilities",
            {
                "capabilities": [
                    {"capability": name, "state": True} for name in ("events", "x-ignore-shared")
                ]
            },
        )
        monitor.submit("migrate-incoming", {"uri": f"fd:{reader.fileno()}"})
        machine = stack.enter_context(
            qemu.run(
                settings,
                memory=memory,
                base=base,
                scratch=scratch,
                device=device,
                start=[*qemu.monitor_arguments(theirs), "-incoming", "defer", *arguments],
                pass_fds=(*pass_fds, reader.fileno(), theirs.fileno()),
            )
        )
        reader.close()
        theirs.close()
        try:
            if fill is not None:
                fill(machine.memory)
            for command in ("qmp_capabilities", "migrate-set-capabilities", "migrate-incoming"):
                monitor.answer(command)
            with writer:
                writer.write(state)
        except (BrokenPipeError, ConnectionError):
            machine.process.wait()
            raise machine.failure("the machine could not be restored") from None
        except OSError as error:
            raise MachineError(f"the machine can't be restored: {error}") from None
        yield machine, monitor
