"""The guest's kernel, read by drgn with the DWARF of vmlinux.

drgn takes a program for a kernel if a core dump says so: a note VMCOREINFO. The core that it is
given here has that note, which is written by hand (no address of this kernel is random), and no
memory; that comes from `Kernel.memory`. So the DWARF can be loaded before there is a machine.
"""

import mmap
import os
import struct
from pathlib import Path
from typing import Any

from drgn import Architecture, FaultError, Platform, Program, offsetof

from rewind.inspect import InspectError
from rewind.inspect.answers import KernelPlaces, MessagePlace, SyncPlaces
from rewind.inspect.memory import Fault, Memory

_ELF = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")
_NOTE_HEADER = struct.Struct("<III")
_SYMBOL = struct.Struct("<IBBHQQ")
_IDENT = b"\x7fELF\2\1\1".ljust(16, b"\0")
_CORE, _X86_64 = 4, 62
_LOAD, _PT_NOTE = 1, 4
_SYMTAB, _SHT_NOTE = 2, 7
_BUILD_ID = 3

_DIRECT_MAP = 0xFFFF_8880_0000_0000
"""Where the kernel sees all of memory: with CONFIG_RANDOMIZE_BASE=n and four levels."""


class Kernel:
    """vmlinux, loaded, and the memory of a machine that runs it.

    *memory* can be set, and set to another machine's, at any time.

    :raises InspectError: if *vmlinux* is none with DWARF.
    """

    memory: Memory | None = None

    def __init__(self, vmlinux: Path) -> None:
        self.path = vmlinux
        self.build_id, symbols = _look_up(vmlinux, ("init_uts_ns", "init_top_pgt"))
        core = os.memfd_create("rewind-core", os.MFD_CLOEXEC)
        os.write(core, _core(_vmcoreinfo(self.build_id, symbols)))
        self.program = Program(Platform(Architecture.X86_64))
        try:
            # drgn closes it.
            self.program.set_core_dump(core)
            self.program.add_memory_segment(0, 1 << 40, self._read, True)
            # Else each address in it would be looked up in the kernel's page tables.
            self.program.add_memory_segment(_DIRECT_MAP, 1 << 40, self._read)
            module = self.program.main_module("kernel", create=True)
            module.try_file(str(vmlinux))
            # The first look-up makes drgn's index, which is most of the work.
            self.program.type("struct task_struct")
        except LookupError:
            raise InspectError(f"{vmlinux} has no debug information") from None
        # drgn raises Exception itself.
        except Exception as error:
            raise InspectError(f"the kernel's debug information can't be read: {error}") from None

    def _read(self, address: int, count: int, offset: int, physical: bool) -> bytes:
        if self.memory is None:
            raise FaultError("there is no machine", address)
        try:
            return self.memory.read(offset, count)
        except Fault:
            raise FaultError("there is no memory", address) from None

    def read(self, address: int, count: int) -> bytes:
        """*count* bytes at the kernel's *address*.

        :raises InspectError: if nothing is there.
        """
        try:
            return bytes(self.program.read(address, count))
        except FaultError:
            raise InspectError(f"nothing is at {address:#x}") from None

    def physical(self, address: int) -> int:
        """The physical address of what the kernel has at *address*, in memory that it allocated.

        :raises InspectError: if that is no such address.
        """
        if not _DIRECT_MAP <= address < _DIRECT_MAP + (1 << 40):
            raise InspectError(f"{address:#x} is not in the kernel's memory")
        return address - _DIRECT_MAP

    def symbol(self, name: str) -> tuple[int, int]:
        """The address and the size of *name*.

        :raises InspectError: if the kernel has no such symbol.
        """
        try:
            found = self.program.symbol(name)
        except LookupError:
            raise InspectError(f"the kernel has no {name}") from None
        return int(found.address), int(found.size)

    def variable(self, name: str, file: str | None = None) -> Any:
        """The variable *name*, of the source file *file*, as drgn's object.

        :raises InspectError: if the kernel has no such variable.
        """
        try:
            return self.program.variable(name, file)
        except LookupError:
            raise InspectError(f"the kernel has no {name}") from None

    def places(self) -> KernelPlaces:
        """Where it has what a plugin that watches it goes by.

        :raises InspectError: if it has not.
        """
        switch_to, size = self.symbol("__switch_to")
        hot, _ = self.symbol("pcpu_hot")
        try:
            return KernelPlaces(
                current_task=hot + offsetof(self.program.type("struct pcpu_hot"), "current_task"),
                switch_to=switch_to,
                switch_to_size=size,
                page_fault=self.symbol("asm_exc_page_fault")[0],
                pid_offset=offsetof(self.program.type("struct task_struct"), "pid"),
                tgid_offset=offsetof(self.program.type("struct task_struct"), "tgid"),
            )
        except LookupError as error:
            raise InspectError(f"the kernel is not as it should be: {error}") from None

    def sync_places(self) -> SyncPlaces:
        """Where it has what orders threads.

        :raises InspectError: if it has not.
        """

        def at(kind: str, *members: str) -> tuple[int, ...]:
            return tuple(offsetof(self.program.type(f"struct {kind}"), one) for one in members)

        def function(name: str) -> int:
            return self.symbol(name)[0]

        try:
            private = at("file", "private_data")
            received = at("kiocb", "ki_filp") + private
            socket = at("socket", "sk")
            clone = at("kernel_clone_args", "stack", "stack_size", "tls")
            return SyncPlaces(
                preempt_count=function("pcpu_hot") + at("pcpu_hot", "preempt_count")[0],
                wake=function("try_to_wake_up"),
                wake_new=function("wake_up_new_task"),
                exit=function("do_exit"),
                reap=function("release_task"),
                clone=function("kernel_clone"),
                futex=function("do_futex"),
                unmap=function("__x64_sys_munmap"),
                clear=tuple(
                    function(name)
                    for name in (
                        "clear_page_orig",
                        "clear_page_rep",
                        "clear_page_erms",
                        "copy_page",
                    )
                ),
                messages=(
                    MessagePlace(function("pipe_write"), True, received),
                    MessagePlace(function("pipe_read"), False, received),
                    MessagePlace(function("eventfd_write"), True, private),
                    MessagePlace(function("eventfd_read"), False, received),
                    MessagePlace(
                        function("unix_stream_sendmsg"), True, socket + at("unix_sock", "peer")
                    ),
                    MessagePlace(function("unix_stream_recvmsg"), False, socket),
                ),
                child_tid_offset=at("task_struct", "clear_child_tid")[0],
                stack_offset=clone[0],
                stack_size_offset=clone[1],
                tls_offset=clone[2],
            )
        except LookupError as error:
            raise InspectError(f"the kernel is not as it should be: {error}") from None


def build_id(path: Path) -> str:
    """The build id of the ELF file *path*, in hexadecimal.

    :raises InspectError: if it has none.
    """
    return _look_up(path, ())[0]


def _look_up(path: Path, names: tuple[str, ...]) -> tuple[str, dict[str, int]]:
    """The build id of the ELF file *path*, and the addresses of the symbols *names*.

    A kernel has 30,000 symbols: pyelftools would need half a second to go through them.

    :raises InspectError: if it lacks one of these.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            ident, *_, sections, _, _, _, _, size, count, _ = _ELF.unpack_from(data)
            if ident != _IDENT or size != _SECTION_HEADER.size:
                raise ValueError
            headers = [
                _SECTION_HEADER.unpack_from(data, sections + number * size)
                for number in range(count)
            ]
            found: dict[str, int] = {}
            identity = ""
            for _, kind, _, _, at, length, link, *_ in headers:
                if kind == _SYMTAB:
                    strings = headers[link]
                    names_at = data[strings[4] : strings[4] + strings[5]]
                    symbols = data[at : at + length]
                    found = {name: _symbol(symbols, names_at, name) for name in names}
                elif kind == _SHT_NOTE:
                    identity = identity or _gnu_build_id(data[at : at + length])
    except OSError as error:
        raise InspectError(f"the kernel can't be read: {path}: {error.strerror}") from None
    except (ValueError, struct.error, IndexError):
        raise InspectError(f"this is no kernel: {path}") from None
    missing = [name for name in names if not found.get(name)]
    if missing or not identity:
        raise InspectError(f"this is no kernel: {path} has no {(missing or ['build id'])[0]}")
    return identity, found


def _symbol(symbols: bytes, strings: bytes, name: str) -> int:
    """The address of the symbol *name*, or 0."""
    wanted = name.encode() + b"\0"
    # A name may stand as the end of a longer one.
    at = strings.find(wanted)
    while at >= 0:
        place = symbols.find(struct.pack("<I", at))
        while place >= 0:
            if place % _SYMBOL.size == 0:
                return int(_SYMBOL.unpack_from(symbols, place)[4])
            place = symbols.find(struct.pack("<I", at), place + 1)
        at = strings.find(wanted, at + 1)
    return 0


def _gnu_build_id(note: bytes) -> str:
    name_size, size, kind = _NOTE_HEADER.unpack_from(note)
    at = _NOTE_HEADER.size + 4
    if kind == _BUILD_ID and name_size == 4 and note[_NOTE_HEADER.size : at] == b"GNU\0":
        return note[at : at + size].hex()
    return ""


def _vmcoreinfo(identity: str, symbols: dict[str, int]) -> bytes:
    lines = (
        "OSRELEASE=6.12",
        # Without it drgn does not take vmlinux for this kernel's.
        f"BUILD-ID={identity}",
        "PAGESIZE=4096",
        f"SYMBOL(init_uts_ns)={symbols['init_uts_ns']:x}",
        f"SYMBOL(swapper_pg_dir)={symbols['init_top_pgt']:x}",
        "NUMBER(pgtable_l5_enabled)=0",
        "NUMBER(phys_base)=0",
        "KERNELOFFSET=0",
        "NUMBER(KERNEL_IMAGE_SIZE)=1073741824",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _core(vmcoreinfo: bytes) -> bytes:
    """A core dump with that note."""
    name = b"VMCOREINFO\0\0"
    note = _NOTE_HEADER.pack(len(name) - 1, len(vmcoreinfo), 0) + name
    note += vmcoreinfo + bytes(-len(vmcoreinfo) % 4)
    headers = 2
    start = _ELF.size + headers * _PROGRAM_HEADER.size
    return (
        _ELF.pack(
            _IDENT, _CORE, _X86_64, 1, 0, _ELF.size, 0, 0,
            _ELF.size, _PROGRAM_HEADER.size, headers, 0, 0, 0,
        )
        + _PROGRAM_HEADER.pack(_PT_NOTE, 0, start, 0, 0, len(note), 0, 0)
        # With no memory at all it would be a core of before there were physical addresses in them.
        + _PROGRAM_HEADER.pack(_LOAD, 7, 0, _DIRECT_MAP, 0, 0, 1 << 40, 4096)
        + note
    )  # fmt: skip
