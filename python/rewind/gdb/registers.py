"""The registers of x86-64, in the order and the sizes in which gdb wants them.

The features are those that gdb's manual lists under "i386 Features"; their numbers are given by
the order in which they stand in the description.
"""

import struct
from collections.abc import Iterator

import attrs

from rewind.inspect.answers import ThreadRegisters

# gdb's name, the name in struct pt_regs, bits, type.
_GENERAL = (
    *((f"r{name}", name, 64, "int64") for name in ("ax", "bx", "cx", "dx", "si", "di")),
    ("rbp", "bp", 64, "data_ptr"),
    ("rsp", "sp", 64, "data_ptr"),
    *((f"r{number}", f"r{number}", 64, "int64") for number in range(8, 16)),
    ("rip", "ip", 64, "code_ptr"),
    ("eflags", "flags", 32, "i386_eflags"),
    ("cs", "cs", 32, "int32"),
    ("ss", "ss", 32, "int32"),
    *((name, "", 32, "int32") for name in ("ds", "es", "fs", "gs")),
)
_X87_CONTROL = ("fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop")

_FXSAVE = struct.Struct("<HHBxHQQII")
_X87_AT, _XMM_AT = 32, 160

_FLAGS = (
    *(("", 0), ("CF", 0), ("", 1), ("PF", 2), ("AF", 4), ("ZF", 6), ("SF", 7), ("TF", 8)),
    *(("IF", 9), ("DF", 10), ("OF", 11), ("NT", 14), ("RF", 16), ("VM", 17), ("AC", 18)),
    *(("VIF", 19), ("VIP", 20), ("ID", 21)),
)


@attrs.frozen
class Register:
    """A register: its *name*, its *size* in bits, its type, as gdb calls them, and its feature."""

    name: str
    size: int
    type: str
    feature: str


def _registers() -> Iterator[Register]:
    core, sse = "org.gnu.gdb.i386.core", "org.gnu.gdb.i386.sse"
    for name, _, size, kind in _GENERAL:
        yield Register(name, size, kind, core)
    for number in range(8):
        yield Register(f"st{number}", 80, "i387_ext", core)
    for name in _X87_CONTROL:
        yield Register(name, 32, "int", core)
    for number in range(16):
        yield Register(f"xmm{number}", 128, "vec128", sse)
    yield Register("mxcsr", 32, "int", sse)
    yield Register("orig_rax", 64, "int64", "org.gnu.gdb.i386.linux")
    for name in ("fs_base", "gs_base"):
        yield Register(name, 64, "int64", "org.gnu.gdb.i386.segments")


REGISTERS = tuple(_registers())


def description() -> str:
    """The target description, in XML, as ``qXfer:features:read`` gives it."""
    lines = [
        '<?xml version="1.0"?>',
        '<!DOCTYPE target SYSTEM "gdb-target.dtd">',
        "<target>",
        "<architecture>i386:x86-64</architecture>",
        "<osabi>GNU/Linux</osabi>",
    ]
    feature = None
    for number, register in enumerate(REGISTERS):
        if register.feature != feature:
            if feature is not None:
                lines.append("</feature>")
            feature = register.feature
            lines.append(f'<feature name="{feature}">')
            lines += _types(feature)
        group = ' group="float"' if register.type == "i387_ext" else ""
        lines.append(
            f'<reg name="{register.name}" bitsize="{register.size}" type="{register.type}"'
            f' regnum="{number}"{group}/>'
        )
    return "\n".join([*lines, "</feature>", "</target>", ""])


def _types(feature: str) -> list[str]:
    if feature.endswith(".core"):
        flags = [
            f'<field name="{name}" start="{bit}" end="{bit}"/>'
            for name, bit in _FLAGS
            if name or bit == 1
        ]
        return ['<flags id="i386_eflags" size="4">', *flags, "</flags>"]
    if not feature.endswith(".sse"):
        return []
    parts = (
        *(("v4f", "ieee_single", 4), ("v2d", "ieee_double", 2), ("v16i8", "int8", 16)),
        *(("v8i16", "int16", 8), ("v4i32", "int32", 4), ("v2i64", "int64", 2)),
    )
    fields = (
        *(("v4_float", "v4f"), ("v2_double", "v2d"), ("v16_int8", "v16i8")),
        *(("v8_int16", "v8i16"), ("v4_int32", "v4i32"), ("v2_int64", "v2i64")),
        ("uint128", "uint128"),
    )
    return [
        *(f'<vector id="{name}" type="{kind}" count="{count}"/>' for name, kind, count in parts),
        '<union id="vec128">',
        *(f'<field name="{name}" type="{kind}"/>' for name, kind in fields),
        "</union>",
    ]


def values(registers: ThreadRegisters) -> list[bytes | None]:
    """What is in each of `REGISTERS`; None if it is not known."""
    general = registers.general
    found: list[bytes | None] = []
    for name, key, size, _ in _GENERAL:
        # In long mode a program's data segments are all flat, and their numbers do not matter.
        value = general[key] if key else 0
        if name == "cs" or name == "ss":
            value &= 0xFFFF
        found.append((value & ((1 << size) - 1)).to_bytes(size // 8, "little"))
    saved = registers.floating
    if len(saved) < 512:
        found += [None] * (8 + len(_X87_CONTROL) + 16 + 1)
    else:
        fcw, fsw, ftw, fop, ip, dp, mxcsr, _ = _FXSAVE.unpack_from(saved)
        found += [saved[_X87_AT + 16 * n :][:10] for n in range(8)]
        control = (fcw, fsw, _full_tags(ftw, fsw, saved), ip >> 32, ip, dp >> 32, dp, fop)
        found += [(value & 0xFFFF_FFFF).to_bytes(4, "little") for value in control]
        found += [saved[_XMM_AT + 16 * n :][:16] for n in range(16)]
        found.append(mxcsr.to_bytes(4, "little"))
    for value in (general["orig_ax"], registers.fs_base, registers.gs_base):
        found.append(value.to_bytes(8, "little"))
    return found


def _full_tags(short: int, fsw: int, saved: bytes) -> int:
    """The x87's tag word of which FXSAVE keeps whether a register is empty (3)."""
    tags, top = 0, fsw >> 11 & 7
    for number in range(8):
        if not short >> number & 1:
            tags |= 3 << 2 * number
            continue
        value = saved[_X87_AT + 16 * ((number - top) % 8) :][:10]
        mantissa = int.from_bytes(value[:8], "little")
        exponent = int.from_bytes(value[8:], "little") & 0x7FFF
        if exponent == 0 and mantissa == 0:
            tags |= 1 << 2 * number
        elif exponent in (0, 0x7FFF) or not mantissa >> 63:
            tags |= 2 << 2 * number
    return tags
