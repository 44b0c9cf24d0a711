"""Watching a replay: where threads get to, and what accesses memory.

`vm-configs/plugin/watch.c` does it, in QEMU. It is told by a file that both have mapped, which is
written and read here while the machine does not run: before it starts, and while it is stopped. So
the same machine can go on under other conditions. It does the same as without the plugin.

Processes and threads are known by the kernel's own numbers (`Task.process` and `Task.number`).
"""

import ctypes
from pathlib import Path

import attrs

from rewind.inspect.answers import KernelPlaces
from rewind.machine import MachineError
from rewind.replay.control import PluginControl

VERSION = 1
"""Of the control file."""
HITS_MAX = 65536
BREAKPOINTS_MAX = 4096
ACCESSES_MAX = 256

_MAGIC = b"rwwatch\0"
_STOP, _LEAVING = 1, 2
_READS, _WRITES, _PHYSICAL = 1, 2, 4
_KINDS = {1: "breakpoint", 2: "leaving", 3: "read", 4: "write"}
_FOREVER = (1 << 63) - 1
_KERNEL = 1 << 63


class WatchError(MachineError):
    """A replay can't be watched."""


@attrs.frozen
class Access:
    """Memory of which reads or writes are wanted: *size* bytes from *address* on."""

    address: int
    size: int
    reads: bool = False
    writes: bool = True


@attrs.frozen(kw_only=True)
class Watch:
    """What is wanted."""

    process: int = 0
    """The process that all but `physical` is about; with 0 nothing else is wanted."""
    thread: int = 0
    """Which of its threads `leaving` is about; 0 for any of them."""
    breakpoints: frozenset[int] = frozenset()
    """Addresses in the program."""
    leaving: tuple[int, int] | None = None
    """The next instruction of the program that is not in [start, end): of a single step the two are
    equal. An instruction that begins again after a page fault is not the next one."""
    accesses: tuple[Access, ...] = ()
    """By the program's addresses; the kernel's accesses count that are made for it."""
    physical: tuple[Access, ...] = ()
    """By physical addresses, and whoever it is."""
    after: int = -1
    """Only what is later than this time, ..."""
    before: int | None = None
    """... and earlier than this."""
    until: int | None = None
    """When the machine stops if it has not before."""
    stop: bool = True
    """Stop at the first hit: before the instruction of a breakpoint or of `leaving`, and before the
    next one after an access."""
    keep: int = 1
    """How many hits are kept: the last ones."""


@attrs.frozen
class Hit:
    """Something wanted happened."""

    time: int
    """Before the instruction."""
    kind: str
    """"breakpoint", "leaving", "read" or "write"."""
    pc: int
    """The instruction's address."""
    pid: int
    """The process that the CPU was with, by the kernel's own number, as is *tid*."""
    tid: int
    address: int
    """What was accessed: a virtual address, and its *size*. 0 if it is no access."""
    size: int

    @property
    def kernel(self) -> bool:
        """Whether it was an instruction of the kernel's."""
        return self.pc >= _KERNEL


class _Access(ctypes.LittleEndianStructure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("address", "size")),
        *((name, ctypes.c_uint32) for name in ("flags", "reserved")),
    )


class _Hit(ctypes.LittleEndianStructure):
    _fields_ = (
        ("time", ctypes.c_int64),
        *((name, ctypes.c_uint64) for name in ("pc", "address")),
        *((name, ctypes.c_uint32) for name in ("size", "kind", "pid", "tid")),
    )


class _Control(ctypes.LittleEndianStructure):
    """``Control`` of watch.c."""

    _fields_ = (
        ("magic", ctypes.c_char * 8),
        *((name, ctypes.c_uint32) for name in ("version", "plugin_version")),
        *(
            (name, ctypes.c_uint64)
            for name in ("current_task", "switch_to", "switch_to_size", "page_fault")
        ),
        *((name, ctypes.c_uint32) for name in ("pid_offset", "tgid_offset")),
        ("generation", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("flags", "process", "thread", "keep")),
        *((name, ctypes.c_int64) for name in ("after", "before", "until")),
        *((name, ctypes.c_uint64) for name in ("leaving_start", "leaving_end")),
        *((name, ctypes.c_uint32) for name in ("breakpoints", "accesses")),
        *((name, ctypes.c_uint64) for name in ("total", "taken")),
        ("breakpoint", ctypes.c_uint64 * BREAKPOINTS_MAX),
        ("access", _Access * ACCESSES_MAX),
        ("hit", _Hit * HITS_MAX),
    )


class Watcher(PluginControl):
    """A plugin's control; a context manager. QEMU is started with `arguments` and `pass_fds`.

    :param plugin: watch.so.
    :param places: of the kernel that the machine runs: `Inspector.places`.
    """

    def __init__(self, plugin: Path, places: KernelPlaces) -> None:
        super().__init__(plugin, _Control, magic=_MAGIC, version=VERSION, error=WatchError)
        for name, value in attrs.asdict(places).items():
            setattr(self._control, name, value)
        self.set(Watch(stop=False))

    def set(self, watch: Watch) -> None:
        """Have the machine, which does not run, watch for *watch* from now on; no hits are left.

        :raises WatchError: if that is too much, or makes no sense.
        """
        accesses = [(access, 0) for access in watch.accesses]
        accesses += [(access, _PHYSICAL) for access in watch.physical]
        _check(watch, [access for access, _ in accesses])
        control = self._control
        control.generation += 1
        control.total = 0
        control.process, control.thread = watch.process, watch.thread
        control.flags = _STOP if watch.stop else 0
        if watch.leaving is not None:
            control.flags |= _LEAVING
            control.leaving_start, control.leaving_end = watch.leaving
        control.keep = watch.keep
        control.after = watch.after
        control.before = _FOREVER if watch.before is None else watch.before
        control.until = -1 if watch.until is None else watch.until
        control.breakpoints = len(watch.breakpoints)
        for number, address in enumerate(sorted(watch.breakpoints)):
            control.breakpoint[number] = address
        control.accesses = len(accesses)
        for number, (access, flags) in enumerate(accesses):
            flags |= _READS * access.reads | _WRITES * access.writes
            control.access[number] = (access.address, access.size, flags, 0)

    def forget(self) -> None:
        """Have the machine, which does not run, go on watching for the same; no hits are left.

        It does not stop again before the instruction that it stopped before.
        """
        self._control.total = 0

    @property
    def total(self) -> int:
        """How many hits there were; more than `keep` are not kept."""
        self._check_taken("watch for")
        return int(self._control.total)

    def hits(self) -> list[Hit]:
        """The hits that are kept, in order; the machine must not run.

        :raises WatchError: if no plugin that understands this has watched.
        """
        total, keep = self.total, int(self._control.keep)
        return [self._hit(number % keep) for number in range(max(total - keep, 0), total)]

    def _hit(self, number: int) -> Hit:
        hit = self._control.hit[number]
        return Hit(hit.time, _KINDS[hit.kind], hit.pc, hit.pid, hit.tid, hit.address, hit.size)


def _check(watch: Watch, accesses: list[Access]) -> None:
    if len(watch.breakpoints) > BREAKPOINTS_MAX:
        raise WatchError(f"there can be {BREAKPOINTS_MAX:,} breakpoints")
    if len(accesses) > ACCESSES_MAX:
        raise WatchError(f"{ACCESSES_MAX} places in memory can be watched")
    if not 1 <= watch.keep <= HITS_MAX:
        raise WatchError(f"1 to {HITS_MAX:,} hits can be kept, not {watch.keep:,}")
    for access in accesses:
        if access.size < 1 or access.address < 0 or access.address + access.size > _KERNEL:
            raise WatchError(f"{access.size:,} bytes at {access.address:#x} can't be watched")
        if not (access.reads or access.writes):
            raise WatchError("neither reads nor writes are wanted")
    if not watch.process and (watch.breakpoints or watch.leaving or watch.accesses):
        raise WatchError("it is not said of which process")
