"""The boot block: what the firmware and a PVH kernel need to know to start.

The firmware (vm-configs/firmware) reads three 32-bit numbers at `BLOCK`: the magic "RWBT", the
kernel's entry, the address of the start info. From `BLOCK` + 0x100 on follow the start info and
what it points to. Start info, module list and memory map are those of Xen's PVH boot protocol,
version 1 (include/xen/interface/hvm/start_info.h of Linux); Linux copies all of it before it
hands out the first page of memory, and never hands out the first MiB.

QEMU's own -kernel would do the same by way of a firmware image, an option ROM and the fw_cfg
device: a longer boot, with more of the host's files in the guest.
"""

import contextlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import NoteSegment

from rewind.machine import MachineError, qemu
from rewind.machine.settings import Settings

BLOCK = 0x7000
INITRD = 128 << 20
"""Where the initrd is put: above any kernel, a page boundary."""

COMMAND_LINE_MAX = 2047
"""What an x86 kernel takes (COMMAND_LINE_SIZE), without the final NUL."""

LOW_MEMORY_END = 640 << 10
HIGH_MEMORY = 1 << 20
GAP = 0xC000_0000
"""Memory of a microvm ends here, at 3 GiB; what is left of it is above 4 GiB."""
ABOVE_GAP = 1 << 32

_MAGIC = int.from_bytes(b"RWBT", "little")
_START_INFO_MAGIC = 0x336EC578
_RAM = 1
_XEN_ELFNOTE_PHYS32_ENTRY = 18

_HEADER = struct.Struct("<III")
_START_INFO = struct.Struct("<IIIIQQQQII")
_MODULE = struct.Struct("<QQQQ")
_MEMORY = struct.Struct("<QQII")


def entry(kernel: Path) -> int:
    """The physical address at which the ELF file *kernel* is entered by PVH.

    :raises MachineError: if the file is no such kernel.
    """
    try:
        with kernel.open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_NOTE"):
                assert isinstance(segment, NoteSegment)
                for note in segment.iter_notes():
                    # Types that pyelftools has no name for are numbers.
                    kind: object = note["n_type"]
                    if note["n_name"] == "Xen" and kind == _XEN_ELFNOTE_PHYS32_ENTRY:
                        return int.from_bytes(note["n_descdata"], "little")
    except (OSError, ELFError) as error:
        raise MachineError(f"the kernel can't be read: {kernel}: {error}") from None
    raise MachineError(f"the kernel has no PVH entry (CONFIG_PVH): {kernel}")


def memory_map(memory: int) -> list[tuple[int, int]]:
    """Address and size, in bytes, of each piece of a machine's *memory* bytes."""
    pieces = [(0, LOW_MEMORY_END), (HIGH_MEMORY, min(memory, GAP) - HIGH_MEMORY)]
    if memory > GAP:
        pieces.append((ABOVE_GAP, memory - GAP))
    return pieces


def block(*, entry: int, memory: int, initrd_size: int, command_line: Sequence[str]) -> bytes:
    """The bytes at `BLOCK` for a machine with *memory* bytes.

    :raises MachineError: if the command line is too long.
    """
    line = " ".join(command_line).encode()
    if len(line) > COMMAND_LINE_MAX:
        raise MachineError(
            f"the kernel's parameters are {len(line)} bytes; at most {COMMAND_LINE_MAX} fit"
        )
    pieces = memory_map(memory)
    info = BLOCK + 0x100
    module = info + _START_INFO.size
    map_ = module + _MODULE.size
    line_ = map_ + len(pieces) * _MEMORY.size
    data = _START_INFO.pack(_START_INFO_MAGIC, 1, 0, 1, module, line_, 0, map_, len(pieces), 0)
    data += _MODULE.pack(INITRD, initrd_size, 0, 0)
    data += b"".join(_MEMORY.pack(address, size, _RAM, 0) for address, size in pieces)
    return _HEADER.pack(_MAGIC, entry, info).ljust(info - BLOCK, b"\0") + data + line + b"\0"


@contextlib.contextmanager
def cold_boot(
    settings: Settings,
    *,
    memory: int,
    scratch: Path,
    device: Mapping[str, object],
    start: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
) -> Iterator[qemu.Qemu]:
    """Start a machine with its kernel; the arguments are those of `rewind.machine.qemu.run`.

    :raises MachineError: if it can't be started, or kernel or initrd are not what they should be.
    """
    try:
        initrd_size = settings.initrd.stat().st_size
    except OSError as error:
        raise MachineError(f"the initrd can't be read: {error}") from None
    if INITRD + initrd_size > memory * qemu.MIB:
        raise MachineError(f"an initrd of {initrd_size:,} bytes needs more than {memory} MiB")
    path = scratch / "boot-block"
    path.write_bytes(
        block(
            entry=entry(settings.kernel),
            memory=memory * qemu.MIB,
            initrd_size=initrd_size,
            command_line=settings.kernel_params,
        )
    )
    # Loaders fill memory when the machine is reset and do nothing after; so a machine that is
    # restored from a snapshot has none.
    loaders = [
        qemu.options("loader", file=settings.kernel),
        qemu.options("loader", file=settings.initrd, addr=INITRD, force_raw="on"),
        qemu.options("loader", file=path, addr=BLOCK, force_raw="on"),
    ]
    with qemu.run(
        settings,
        memory=memory,
        scratch=scratch,
        device=device,
        start=[*(word for loader in loaders for word in ("-device", loader)), *start],
        pass_fds=pass_fds,
    ) as machine:
        yield machine
