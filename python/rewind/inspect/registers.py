"""The registers of the machine's CPU, as QEMU's monitor shows them."""

import re
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


@attrs.frozen
class Registers:
    """What the CPU has in its registers."""

    general: dict[str, int]
    """By lower-case name: `NAMES`."""
    level: int
    """The privilege level: 3 in a program, 0 in the kernel."""
    fs_base: int

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
        return cls({name: found[name] for name in NAMES}, int(level[1]), int(base[1], 16))

    def to_data(self) -> dict[str, Any]:
        """It as what JSON can hold."""
        return attrs.asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """What `to_data` was made of."""
        return cls(**data)
