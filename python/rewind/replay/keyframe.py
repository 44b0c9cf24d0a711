"""Keyframes as files: a machine's state, and the pages that differ from those of an earlier one.

A file, in little endian: the header (`_HEADER`), QEMU's state of the machine, at a page boundary
the pages, and the table of extents, a u64 guest offset and a u64 length each, whose pages follow
one another in that order. The digest in the header is that of the whole file with zeros in its
place.

A keyframe stands on another one of the same run, or on the boot snapshot: what it does not have of
the guest's memory is as it is there. A chain of them has at most `DEPTH_MAX`.
"""

import bisect
import hashlib
import os
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import attrs

from rewind.formats.schedule import Position
from rewind.machine.snapshot import allocated

VERSION = 1
DEPTH_MAX = 12

_MAGIC = b"rwkeyfrm"
_HEADER = struct.Struct("<8sII16sQ16sQQQQQQQ32s")
"""Magic, version, depth, key, time, parent's key and time, step, offset, bytes of guest memory,
bytes of state, number of extents, where the pages begin, digest."""
_DIGEST = 32
_EXTENT = struct.Struct("<QQ")
_PAGE = 4096
_CHUNK = 1 << 20
_ZEROS = bytes(_CHUNK)


class DamagedError(Exception):
    """A file is no keyframe, or not what was written; the text says in what way."""


@attrs.frozen
class Name:
    """What a keyframe is known by."""

    key: bytes
    """16 bytes that stand for all that decides the machine's state, but the time."""
    time: int
    """The guest's, in ns since the machine was started."""

    def __str__(self) -> str:
        return f"{self.key.hex()}-{self.time}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """What `str` was made of, or None."""
        key, _, time = text.partition("-")
        if len(key) != 32 or not (time.isascii() and time.isdigit() and len(time) <= 20):
            return None
        try:
            return cls(bytes.fromhex(key), int(time))
        except ValueError:
            return None


_NO_NAME = Name(bytes(16), 0)


@attrs.frozen
class Level:
    """Some of a guest's memory, in a file."""

    file: int
    extents: Sequence[tuple[int, int, int]] = attrs.field(repr=False)
    """Start and end in the guest's memory, and where in the file it is; in order, and disjoint."""

    @classmethod
    def of_memory(cls, memory: int) -> Self:
        """All that the file descriptor *memory* has, which is a guest's memory."""
        return cls(memory, [(start, end, start) for start, end in allocated(memory)])

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int | None]]:
        """The range from *start* to *end* in pieces, with where in the file each is, if it is."""
        number = bisect.bisect_right(self.extents, start, key=lambda extent: extent[0])
        number = max(number - 1, 0)
        while start < end:
            while number < len(self.extents) and self.extents[number][1] <= start:
                number += 1
            low, high, at = self.extents[number] if number < len(self.extents) else (end, end, 0)
            if low > start:
                yield start, min(low, end), None
                start = min(low, end)
            else:
                yield start, min(high, end), at + start - low
                start = min(high, end)


@attrs.frozen
class Header:
    """What stands at the beginning of a keyframe's file."""

    name: Name
    parent: Name | None
    depth: int
    position: Position
    memory: int
    """Bytes of the guest's memory."""
    state: int
    """Bytes."""
    extents: int
    pages: int
    """Where in the file they begin."""
    digest: bytes

    @classmethod
    def read(cls, file: int) -> Self:
        """The header in the file descriptor *file*.

        :raises DamagedError: if there is none of this version.
        """
        data = os.pread(file, _HEADER.size, 0)
        if len(data) < _HEADER.size:
            raise DamagedError("it is cut short")
        magic, version, depth, *rest = _HEADER.unpack(data)
        if magic != _MAGIC:
            raise DamagedError("it is no keyframe")
        if version != VERSION:
            raise DamagedError(f"it is of version {version}, and not of version {VERSION}")
        key, time, parent_key, parent_time, step, offset, *counts = rest
        parent = Name(parent_key, parent_time)
        return cls(
            Name(key, time),
            None if parent == _NO_NAME else parent,
            depth,
            Position(step, offset),
            *counts,
        )

    def pack(self) -> bytes:
        """What `read` reads."""
        parent = self.parent or _NO_NAME
        return _HEADER.pack(
            *(_MAGIC, VERSION, self.depth, self.name.key, self.name.time),
            *(parent.key, parent.time, self.position.step, self.position.offset),
            *(self.memory, self.state, self.extents, self.pages, self.digest),
        )


class Keyframe:
    """A keyframe's file, open; it is closed when nobody has it any more.

    *parent* is what it stands on, if not the boot snapshot.
    """

    def __init__(
        self,
        file: int,
        header: Header,
        parent: "Keyframe | None",
        state: bytes,
        extents: Sequence[tuple[int, int]],
    ) -> None:
        self.file = file
        self.header = header
        self.parent = parent
        self.state = state
        """QEMU's."""
        placed, at = [], header.pages
        for offset, length in extents:
            placed.append((offset, offset + length, at))
            at += length
        self.level = Level(file, placed)
        self.size = at + len(placed) * _EXTENT.size
        """Bytes of the file."""
        self.volatile = False
        """Whether the file is in memory, and gone with this process."""
        weakref.finalize(self, os.close, file)

    @property
    def name(self) -> Name:
        """What it is known by."""
        return self.header.name

    @property
    def time(self) -> int:
        """The guest's, in ns since the machine was started."""
        return self.header.name.time

    @property
    def position(self) -> Position:
        """The same place, as a position of its run."""
        return self.header.position

    @property
    def depth(self) -> int:
        """How many keyframes it takes, this one included."""
        return self.header.depth

    def chain(self) -> list["Keyframe"]:
        """The keyframes that it takes, the lowest first, this one last."""
        below = [] if self.parent is None else self.parent.chain()
        return [*below, self]

    def fill(self, memory: int) -> None:
        """Write its own pages to the file descriptor *memory*, which has those it stands on."""
        for start, end, at in self.level.extents:
            while start < end:
                os.lseek(memory, start, os.SEEK_SET)
                # Within the kernel, and not by way of a buffer of ours.
                done = os.sendfile(memory, self.file, at, end - start)
                if not done:
                    raise OSError("a keyframe was cut short while it was read")
                start, at = start + done, at + done

    @classmethod
    def read(cls, file: int, parent: Callable[[Name], "Keyframe"]) -> Self:
        """The keyframe in the file descriptor *file*, which is the result's from now on.

        :param parent: opens the one that it stands on.
        :raises DamagedError: if it is damaged; the file is closed then.
        """
        try:
            header = Header.read(file)
            size = os.fstat(file).st_size
            table = header.extents * _EXTENT.size
            if header.pages < _HEADER.size + header.state or size < header.pages + table:
                raise DamagedError("it is cut short")
            if _digest(file, header) != header.digest:
                raise DamagedError("it does not have its checksum")
            state = os.pread(file, header.state, _HEADER.size)
            extents = list(_EXTENT.iter_unpack(os.pread(file, table, size - table)))
            below = None if header.parent is None else parent(header.parent)
        except BaseException:
            os.close(file)
            raise
        return cls(file, header, below, state, extents)


def write(
    file: int,
    *,
    name: Name,
    position: Position,
    parent: Keyframe | None,
    base: Level,
    state: bytes,
    memory: int,
) -> Keyframe:
    """Write a keyframe to the file descriptor *file*, which is the result's from now on.

    :param parent: what it stands on; it may come to stand on one that is below that.
    :param base: the boot snapshot's memory.
    :param state: QEMU's.
    :param memory: the file descriptor of the machine's memory.
    :raises OSError: if it can't be written; the file is open still.
    """
    while parent is not None and parent.depth >= DEPTH_MAX:
        parent = parent.chain()[DEPTH_MAX // 2 - 1]
    below = [base, *(one.level for one in ([] if parent is None else parent.chain()))]
    pages = -(-(_HEADER.size + len(state)) // _PAGE) * _PAGE
    at = _HEADER.size + _write(file, state, _HEADER.size)
    at += _write(file, bytes(pages - at), at)
    extents: list[tuple[int, int]] = []
    for offset, data in differences(memory, below):
        at += _write(file, data, at)
        if extents and sum(extents[-1]) == offset:
            extents[-1] = (extents[-1][0], extents[-1][1] + len(data))
        else:
            extents.append((offset, len(data)))
    _write(file, b"".join(_EXTENT.pack(*extent) for extent in extents), at)
    header = Header(
        name,
        None if parent is None else parent.name,
        1 if parent is None else parent.depth + 1,
        position,
        os.fstat(memory).st_size,
        *(len(state), len(extents), pages, bytes(_DIGEST)),
    )
    header = attrs.evolve(header, digest=_digest(file, header))
    _write(file, header.pack(), 0)
    return Keyframe(file, header, parent, state, extents)


def differences(memory: int, levels: Sequence[Level]) -> Iterator[tuple[int, bytes]]:
    """The pages of the file descriptor *memory* that *levels*, the lowest first, do not have so.

    What is in no level is zero. Pages next to one another may come together.

    :return: where they are in *memory*, and what is in them.
    """
    for start, end in allocated(memory):
        low, high = start - start % _PAGE, -(-end // _PAGE) * _PAGE
        for first, last, level, at in _pieces(levels, low, high):
            for place in range(first, last, _CHUNK):
                count = min(_CHUNK, last - place)
                now = os.pread(memory, count, place)
                if level is None:
                    before = bytes(count) if count < _CHUNK else _ZEROS
                else:
                    before = os.pread(level.file, count, at + place - first)
                if now != before:
                    yield from _different(place, now, before)


def _different(place: int, now: bytes, before: bytes) -> Iterator[tuple[int, bytes]]:
    """The pages of *now*, which is at *place*, that are not as in *before*."""
    start: int | None = None
    for at in range(0, len(now), _PAGE):
        if now[at : at + _PAGE] != before[at : at + _PAGE]:
            if start is None:
                start = at
        elif start is not None:
            yield place + start, now[start:at]
            start = None
    if start is not None:
        yield place + start, now[start:]


def _pieces(
    levels: Sequence[Level], start: int, end: int
) -> Iterator[tuple[int, int, Level | None, int]]:
    """The range from *start* to *end* in pieces: the highest level that has each, and where."""
    if not levels:
        yield start, end, None, 0
        return
    for low, high, at in levels[-1].pieces(start, end):
        if at is None:
            yield from _pieces(levels[:-1], low, high)
        else:
            yield low, high, levels[-1], at


def _digest(file: int, header: Header) -> bytes:
    digest = hashlib.sha256(attrs.evolve(header, digest=bytes(_DIGEST)).pack())
    at = _HEADER.size
    while data := os.pread(file, _CHUNK, at):
        digest.update(data)
        at += len(data)
    return digest.digest()


def _write(file: int, data: bytes, at: int) -> int:
    done = 0
    with memoryview(data) as view:
        while done < len(data):
            done += os.pwrite(file, view[done:], at + done)
    return done
