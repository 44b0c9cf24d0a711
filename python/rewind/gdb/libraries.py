"""The shared libraries of a process, as its dynamic linker has noted them for a debugger.

The linker keeps a list of ``struct link_map``, which ``DT_DEBUG`` of the program's dynamic section
leads to (glibc's and musl's <link.h>, both the same there). gdb could follow it itself; it is
done here because the names in it are those by which a library was asked for, often links, and gdb
is given the files that are mapped.
"""

import struct
from collections.abc import Callable
from xml.sax.saxutils import quoteattr

import attrs

from rewind.inspect.answers import ProcessLayout

LIBRARIES_MAX = 10_000

_AUXV = struct.Struct("<QQ")
_AT_PHDR, _AT_PHNUM = 3, 5
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")
_PT_DYNAMIC, _PT_PHDR = 2, 6
_DYNAMIC = struct.Struct("<QQ")
_DT_NULL, _DT_DEBUG = 0, 21
_DYNAMIC_MAX = 1000
_R_DEBUG = struct.Struct("<I4xQ")
_LINK_MAP = struct.Struct("<QQQQQ")
_HEADERS_MAX = 1000

Read = Callable[[int, int], bytes]
"""Reads at an address as many of a number of bytes as there are."""


@attrs.frozen
class Library:
    """A shared library: its file's *path*, where its ``link_map`` is, and what that says."""

    path: str
    link_map: int
    address: int
    """What is added to the addresses in the file."""
    dynamic: int


@attrs.frozen
class Libraries:
    """*main* is the program's own ``link_map``; 0 if there are none, or not yet."""

    main: int
    libraries: tuple[Library, ...]

    def xml(self) -> str:
        """As ``qXfer:libraries-svr4:read`` gives it."""
        lines = [
            f'<library name={quoteattr(one.path)} lm="{one.link_map:#x}"'
            f' l_addr="{one.address:#x}" l_ld="{one.dynamic:#x}" lmid="0x0"/>'
            for one in self.libraries
        ]
        main = f' main-lm="{self.main:#x}"' if self.main else ""
        return "\n".join(
            [f'<library-list-svr4 version="1.0"{main}>', *lines, "</library-list-svr4>", ""]
        )


def clean(path: str) -> str:
    """*path*, as the kernel names a file, without that it was deleted."""
    return path.removesuffix(" (deleted)")


def libraries(layout: ProcessLayout, read: Read) -> Libraries:
    """Those of the process with *layout*, whose memory *read* reads."""
    try:
        first = _first(layout, read)
        return _follow(layout, first, read) if first else Libraries(0, ())
    except struct.error:
        # The linker has not got there yet.
        return Libraries(0, ())


def _first(layout: ProcessLayout, read: Read) -> int:
    """The address of the program's ``link_map``; 0 if there is none."""
    vector = dict(_AUXV.iter_unpack(layout.auxv))
    table, count = vector.get(_AT_PHDR, 0), min(vector.get(_AT_PHNUM, 0), _HEADERS_MAX)
    headers = list(_PROGRAM_HEADER.iter_unpack(read(table, count * _PROGRAM_HEADER.size)))
    bias = next((table - address for kind, _, _, address, *_ in headers if kind == _PT_PHDR), 0)
    dynamic = next((a + bias for kind, _, _, a, *_ in headers if kind == _PT_DYNAMIC), 0)
    for number in range(_DYNAMIC_MAX if dynamic else 0):
        tag, value = _DYNAMIC.unpack(read(dynamic + number * _DYNAMIC.size, _DYNAMIC.size))
        if tag == _DT_NULL:
            break
        if tag == _DT_DEBUG and value:
            _, first = _R_DEBUG.unpack(read(value, _R_DEBUG.size))
            return int(first)
    return 0


def _follow(layout: ProcessLayout, first: int, read: Read) -> Libraries:
    found = []
    at = first
    for number in range(LIBRARIES_MAX):
        address, _, dynamic, following, _ = _LINK_MAP.unpack(read(at, _LINK_MAP.size))
        path = next(
            (m.path for m in layout.mapped if m.start <= dynamic < m.end and m.path is not None),
            None,
        )
        # The first is the program itself, and the kernel's vDSO is no file.
        if number and path is not None:
            found.append(Library(clean(path), at, address, dynamic))
        if not following:
            break
        at = following
    return Libraries(first, tuple(found))
