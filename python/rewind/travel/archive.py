"""``.rwd``: a run in one file, for somebody who does not have it.

All numbers are little endian::

    head      8 bytes "rwdfile\\n", u32 version, u32 how many entries
    table     each entry: u32 kind, u32 0, u64 packed bytes, u64 bytes, 32 bytes SHA-256
    checksum  32 bytes SHA-256 of head and table
    contents  each entry's, one behind the other and nothing else, each compressed by zstd

*Packed bytes* are those in the file; *bytes* and the SHA-256 are those of the content itself.

The entries are in the order of their kinds, of which each is there once, but the last, and the
optional ones perhaps not:

    1  about      JSON: {"name": that of the run's store path}
    2  manifest   manifest.cbor, as in the store
    3  trace      so, too
    4  log        so, too
    5  bookmarks  as `rewind.travel.bookmarks` has them            (optional)
    6  places     where threads were: `rewind.travel.places`       (optional)
    7  sources    the source files that places name: so, too       (optional)
    8  paths      what makes it again: `rewind.travel.paths`       (optional)
    9  nar        a store path's NAR, in the order of "paths"

Equal runs and equal bookmarks make equal files, with the same version of zstd.

A file is not to be trusted. Nothing in it names a file that is written; what it claims is compared
with a bound before anything is allocated, and what comes out of the decompressor with what was
claimed. ``docs/rwd.md`` says what else is checked.
"""

import contextlib
import hashlib
import io
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

import attrs
import zstandard

from rewind.formats import FormatError

VERSION = 1
LEVEL = 9
"""Of zstd's compression. Of what makes a run again, 12 makes 4 % less in three times the time."""
WINDOW_LOG = 23
"""Of zstd's windows: a file that wants a larger one is refused."""
NAR_WINDOW_LOG = 27
"""What Nix's decompressor takes at most."""

ABOUT, MANIFEST, TRACE, LOG, BOOKMARKS, PLACES, SOURCES, PATHS, NAR = range(1, 10)
NAMES = ("about", "manifest", "trace", "log", "bookmarks", "places", "sources", "paths", "nar")
"""What entries are called, from kind 1 on."""
NEEDED = frozenset((ABOUT, MANIFEST, TRACE, LOG))
BOUNDS = {
    ABOUT: 4 << 10,
    MANIFEST: 16 << 20,
    TRACE: 64 << 30,
    LOG: 4 << 30,
    BOOKMARKS: 16 << 20,
    PLACES: 4 << 20,
    SOURCES: 16 << 20,
    PATHS: 4 << 20,
    NAR: 64 << 30,
}
"""The bytes that an entry has at most, by kind."""
ENTRIES_MAX = 20_000

_MAGIC = b"rwdfile\n"
_HEAD = struct.Struct("<8sII")
_ENTRY = struct.Struct("<IIQQ32s")
_CHUNK = 1 << 20


@attrs.frozen
class Entry:
    """A line of the table; *offset* is where its content begins in the file."""

    kind: int
    packed: int
    size: int
    digest: bytes
    offset: int

    @property
    def name(self) -> str:
        """What it is called in sentences."""
        return NAMES[self.kind - 1]


@attrs.frozen
class Content:
    """What is to be an entry: *open* gives it, as a stream that is closed after use."""

    kind: int
    open: Callable[[], contextlib.AbstractContextManager[BinaryIO]]

    @classmethod
    def of_bytes(cls, kind: int, data: bytes) -> Self:
        """An entry with *data*."""
        return cls(kind, lambda: io.BytesIO(data))

    @classmethod
    def of_file(cls, kind: int, path: Path) -> Self:
        """An entry with what is in the file *path*."""
        return cls(kind, lambda: path.open("rb"))


def write(target: BinaryIO, contents: Iterable[Content]) -> list[Entry]:
    """Write a file with *contents*, which are in the order of their kinds.

    :param target: an empty file, which can be sought in.
    :return: the table.
    :raises FormatError: if a content is larger than its kind's can be.
    """
    everything = list(contents)
    if len(everything) > ENTRIES_MAX:
        raise FormatError(f"a file has up to {ENTRIES_MAX:,} entries, not {len(everything):,}")
    offset = _HEAD.size + len(everything) * _ENTRY.size + 32
    entries = []
    for content in everything:
        target.seek(offset)
        with content.open() as source:
            entry = _pack(target, content.kind, source, offset)
        entries.append(entry)
        offset += entry.packed
    table = _HEAD.pack(_MAGIC, VERSION, len(entries)) + b"".join(
        _ENTRY.pack(entry.kind, 0, entry.packed, entry.size, entry.digest) for entry in entries
    )
    target.seek(0)
    target.write(table + hashlib.sha256(table).digest())
    return entries


def _pack(target: BinaryIO, kind: int, source: BinaryIO, offset: int) -> Entry:
    if kind == NAR:
        # One that has workers gives other bytes than one that has none, however many they are.
        parameters = zstandard.ZstdCompressionParameters.from_level(
            LEVEL, window_log=NAR_WINDOW_LOG, enable_ldm=True, threads=os.cpu_count() or 1
        )
    else:
        parameters = zstandard.ZstdCompressionParameters.from_level(LEVEL, write_checksum=False)
    digest = hashlib.sha256()
    size = 0
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    with compressor.stream_writer(target, closefd=False) as writer:
        while data := source.read(_CHUNK):
            digest.update(data)
            size += len(data)
            if size > BOUNDS[kind]:
                raise FormatError(
                    f"{NAMES[kind - 1]} has more than {BOUNDS[kind]:,} bytes, for which there is"
                    " no room in a file"
                )
            writer.write(data)
    return Entry(kind, target.tell() - offset, size, digest.digest(), offset)


class Archive:
    """A file, open for reading; a context manager.

    :raises FormatError: if it is none, is damaged or cut short, or is of a later version; reading
        an entry raises it, too.
    """

    entries: tuple[Entry, ...]
    """The table."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # It may be a pipe that nobody writes to.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise FormatError(f"{path}: {error.strerror}") from None
        try:
            self.entries = tuple(self._read_table())
        except BaseException:
            self.close()
            raise

    def find(self, kind: int) -> Entry | None:
        """The first entry of *kind*, if there is one."""
        return next((entry for entry in self.entries if entry.kind == kind), None)

    def nars(self) -> list[Entry]:
        """The NARs, in order."""
        return [entry for entry in self.entries if entry.kind == NAR]

    def read(self, kind: int) -> bytes | None:
        """The content of the entry of *kind*, which is one of those that fit into memory."""
        entry = self.find(kind)
        if entry is None:
            return None
        return b"".join(self.chunks(entry))

    def extract(self, entry: Entry, target: BinaryIO) -> None:
        """Write the content of *entry* to *target*."""
        for data in self.chunks(entry):
            target.write(data)

    def chunks(self, entry: Entry) -> Iterator[bytes]:
        """The content of *entry*, piece by piece; only at its end it is known to be good."""
        window = NAR_WINDOW_LOG if entry.kind == NAR else WINDOW_LOG
        decompressor = zstandard.ZstdDecompressor(max_window_size=1 << window)
        source = io.BufferedReader(_Part(self._fd, entry.offset, entry.packed), _CHUNK)
        digest = hashlib.sha256()
        left = entry.size
        try:
            # What follows the first frame is to be none, or damage, and is to be seen.
            reader = decompressor.stream_reader(source, read_across_frames=True)
            while data := reader.read(_CHUNK):
                left -= len(data)
                if left < 0:
                    raise self._error(
                        f"{entry.name} has more than the {entry.size:,} bytes it says"
                    )
                digest.update(data)
                yield data
        except zstandard.ZstdError as error:
            raise self._error(f"{entry.name} can't be decompressed: {error}") from None
        except OSError as error:
            raise FormatError(f"{self._path}: {error.strerror}") from None
        if left:
            raise self._error(f"{entry.name} is {left:,} bytes short")
        if digest.digest() != entry.digest:
            raise self._error(f"{entry.name} does not have its checksum")

    def packed(self, entry: Entry) -> Iterator[bytes]:
        """The content of *entry* as it is in the file, piece by piece; it is not looked at."""
        part = _Part(self._fd, entry.offset, entry.packed)
        while data := part.read(_CHUNK):
            yield data

    def _error(self, why: str) -> FormatError:
        return FormatError(f"{self._path} is damaged: {why}")

    def _read(self, size: int, offset: int) -> bytes:
        try:
            return os.pread(self._fd, size, offset)
        except OSError as error:
            raise FormatError(f"{self._path}: {error.strerror}") from None

    def _read_table(self) -> Iterator[Entry]:
        head = self._read(_HEAD.size, 0)
        if not head.startswith(_MAGIC) or len(head) != _HEAD.size:
            raise FormatError(f"{self._path} is no .rwd file")
        _, version, count = _HEAD.unpack(head)
        if version > VERSION:
            raise FormatError(
                f"{self._path} is of version {version}; this rewind reads versions up to {VERSION}"
            )
        if not version or count > ENTRIES_MAX:
            raise self._error("its head makes no sense")
        size = _HEAD.size + count * _ENTRY.size
        table = self._read(size + 32, 0)
        if len(table) != size + 32:
            raise FormatError(f"{self._path} is cut short")
        if hashlib.sha256(table[:size]).digest() != table[size:]:
            raise self._error("its table does not have its checksum")
        offset, before, seen = size + 32, 0, set()
        end = os.fstat(self._fd).st_size
        for kind, zero, packed, raw, digest in _ENTRY.iter_unpack(table[_HEAD.size : size]):
            if kind not in BOUNDS or zero or kind < before or (kind == before and kind != NAR):
                raise self._error("its table makes no sense")
            if raw > BOUNDS[kind]:
                raise self._error(
                    f"{NAMES[kind - 1]} says to have {raw:,} bytes, and may have {BOUNDS[kind]:,}"
                )
            if packed > end - offset:
                raise FormatError(f"{self._path} is cut short")
            yield Entry(kind, packed, raw, digest, offset)
            before = kind
            seen.add(kind)
            offset += packed
        if offset != end:
            raise self._error("something follows its end")
        missing = sorted(NEEDED - seen)
        if missing:
            raise self._error(f"it has no {NAMES[missing[0] - 1]}")
        if NAR in seen and PATHS not in seen:
            raise self._error("it has NARs and does not say whose")

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Part(io.RawIOBase):
    """Some bytes of a file, as a stream."""

    def __init__(self, fd: int, offset: int, size: int) -> None:
        super().__init__()
        self._fd = fd
        self._at = offset
        self._end = offset + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = os.pread(self._fd, min(len(buffer), self._end - self._at), self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
