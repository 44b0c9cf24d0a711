"""The memory of a machine, by guest-physical address, and what x86's page tables make of it."""

import os
import struct
from pathlib import Path

import attrs

from rewind.inspect import InspectError

PAGE = 4096

# As in rewind.machine.boot, which takes long to import.
GAP = 0xC000_0000
ABOVE_GAP = 1 << 32

_ENTRY = struct.Struct("<Q")
_PRESENT = 1 << 0
_LARGE = 1 << 7
_FRAME = 0x000F_FFFF_FFFF_F000
_SHIFTS = (39, 30, 21, 12)
"""Of the four levels of page tables."""

USER_END = 1 << 47
"""User addresses are below."""


class Fault(Exception):
    """There is nothing at an address."""

    def __init__(self, address: int) -> None:
        super().__init__(f"nothing is at {address:#x}")
        self.address = address


@attrs.frozen
class Memory:
    """A machine's memory in a file.

    That is the memfd that QEMU was given. A machine which keeps what it writes to itself has it
    in its process: `of_process`.
    """

    file: int
    """The file descriptor; whoever opened it closes it."""
    size: int
    """Bytes of memory."""
    start: int = 0
    """Where in the file it begins."""

    @classmethod
    def of_process(cls, pid: int, size: int, file: int) -> "Memory":
        """The memory that the QEMU process *pid* has mapped from the memfd *file*, as it sees it.

        The caller closes the result's file descriptor. It is of use as long as the process lives.

        :raises InspectError: if there is no such mapping, or we may not look.
        """
        inode = os.fstat(file).st_ino
        try:
            lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        except OSError as error:
            raise InspectError(f"the machine's process can't be read: {error.strerror}") from None
        for line in lines:
            fields = line.split(maxsplit=5)
            low, _, high = fields[0].partition("-")
            start = int(low, 16) - int(fields[2], 16)
            # Above the gap it may be a second mapping, of the rest.
            if int(fields[4]) == inode and "/memfd:" in fields[-1] and int(fields[2], 16) == 0:
                if int(high, 16) - start < size:
                    raise InspectError("the machine's memory is in more than one piece")
                try:
                    return cls(os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC), size, start)
                except OSError as error:
                    raise InspectError(
                        f"the machine's process can't be read: {error.strerror}"
                    ) from None
        raise InspectError("the machine's process has no such memory")

    def pieces(self) -> list[tuple[int, int]]:
        """Address and size of each piece: there is none between `GAP` and `ABOVE_GAP`."""
        if self.size <= GAP:
            return [(0, self.size)]
        return [(0, GAP), (ABOVE_GAP, self.size - GAP)]

    def read(self, address: int, count: int) -> bytes:
        """*count* bytes at the physical *address*.

        :raises Fault: if not all of them are memory.
        """
        for start, size in self.pieces():
            if start <= address and address + count <= start + size:
                offset = address if start == 0 else address - ABOVE_GAP + GAP
                # Not by a mapping: to read a hole of the file by it would fill the hole.
                data = os.pread(self.file, count, self.start + offset)
                if len(data) != count:
                    break
                return data
        raise Fault(address)


@attrs.frozen
class AddressSpace:
    """What a process sees: *root* is the physical address of its top page table."""

    memory: Memory
    root: int

    def translate(self, address: int) -> int:
        """The physical address of the user *address*.

        :raises Fault: if no page is present there.
        """
        if not 0 <= address < USER_END:
            raise Fault(address)
        table = self.root
        for shift in _SHIFTS:
            place = (table & _FRAME) + (address >> shift & 511) * _ENTRY.size
            try:
                (entry,) = _ENTRY.unpack(self.memory.read(place, _ENTRY.size))
            except Fault:
                raise Fault(address) from None
            if not entry & _PRESENT:
                raise Fault(address)
            if shift == 12 or (entry & _LARGE and shift != 39):
                low = (1 << shift) - 1
                return int(entry & _FRAME & ~low | address & low)
            table = entry
        raise AssertionError

    def read_page(self, address: int) -> bytes:
        """The page that *address*, a multiple of `PAGE`, is the beginning of.

        :raises Fault: if it is not present.
        """
        return self.memory.read(self.translate(address), PAGE)
