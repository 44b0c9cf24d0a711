"""The registers of the machine's CPU, as QEMU's monitor shows them."""

import re
import struct
from collections.abc import Mapping
from typing import Any, Self

import attrs

from rewind.inspect import InspectError

COMMAND = "info registers"
"""What to ask the monitor (QMP: human-monitor-command)."""

NAMES = (
    *("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp"),
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip", "rflags"),
)

_GENERAL = re.compile(r"\b([A-Z0-9]{2,3}) ?=([0-9a-f]{8,16})\b")
_LEVEL = re.compile(r"\bCPL=([0-3])\b")
_FS = re.compile(r"^FS =[0-9a-f]{4} ([0-9a-f]{16}) ", re.MULTILINE)
_CONTROL = re.compile(
    r"^FCW=([0-9a-f]{4}) FSW=([0-9a-f]{4}) \[ST=([0-7])\] FTW=([0-9a-f]{2}) MXCSR=([0-9a-f]{8})\b",
    re.MULTILINE,
)
_X87 = re.compile(r"\bFPR([0-7])=([0-9a-f]{16}) ([0-9a-f]{4})\b")
_VECTOR = re.compile(r"\b[XYZ]MM([0-9]{2})=((?:[0-9a-f]{16} ?)+)")

_FXSAVE = struct.Struct("<HHBxHQQII128s256s96x")


@attrs.frozen
class Registers:
    """What the CPU has in its registers."""

    general: dict[str, int]
    """By lower-case name: `NAMES`."""
    level: int
    """The privilege level: 3 in a program, 0 in the kernel."""
    fs_base: int
    floating: str = ""
    """Those for floating point and vectors, as FXSAVE would write them (512 bytes), in
    hexadecimal; empty if QEMU does not show them."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the monitor's answer to `COMMAND`.

        :raises InspectError: if something is missing in it.
        """
        found = {name.lower(): int(value, 16) for name, value in _GENERAL.findall(text)}
        found["rflags"] = found.pop("rfl", -1)
        level, base = _LEVEL.search(text), _FS.search(text)
        missing = [name for name in NAMES if found.get(name, -1) < 0]
        if missing or level is None or base is None:
            raise InspectError("QEMU shows the CPU's registers in a form that is not known")
        return cls(
            {name: found[name] for name in NAMES},
            int(level[1]),
            int(base[1], 16),
            _floating(text).hex(),
        )

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """What `to_data` was made of."""
        return cls(**data)


def _floating(text: str) -> bytes:
    """What FXSAVE writes, of the monitor's answer (Intel's manual, volume 1, table 10-2)."""
    control = _CONTROL.search(text)
    if control is None:
        return b""
    fcw, fsw, top, ftw, mxcsr = (int(value, 16) for value in control.groups())
    registers = {int(n): (int(low, 16), int(high, 16)) for n, low, high in _X87.findall(text)}
    # QEMU shows them by their number, the top of the stack in FSW; FXSAVE writes the top first.
    stack = b"".join(
        struct.pack("<QH6x", *registers.get((top + number) % 8, (0, 0))) for number in range(8)
    )
    vectors = {
        int(n): [int(part, 16) for part in words.split()] for n, words in _VECTOR.findall(text)
    }
    low = b"".join(
        # The highest part is shown first.
        struct.pack("<QQ", *reversed(vectors.get(number, [0, 0])[-2:]))
        for number in range(16)
    )
    fsw = fsw & ~(7 << 11) | top << 11
    return _FXSAVE.pack(fcw, fsw, ftw, 0, 0, 0, mxcsr, 0xFFFF, stack, low)
