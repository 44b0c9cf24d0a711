"""Reading the layers: erofs images without compression, as mkfs.erofs of lib/image.nix makes them.

The format is that of the kernel's Documentation/filesystems/erofs.rst and fs/erofs/erofs_fs.h, in
little endian. A file is found by its path, or by its number, which the kernel has in its inode.
"""

import mmap
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import attrs

from rewind.inspect import InspectError, NoSuchFile

_SUPER = struct.Struct("<I8xBxH24xI")
_SUPER_AT = 1024
_MAGIC = 0xE0F5E1E2
_COMPACT = struct.Struct("<HHHHI4xI12x")
_EXTENDED = struct.Struct("<HHHHQI44x")
_DIRENT = struct.Struct("<QHBx")
_NUMBER_UNIT = 32
_PLAIN, _INLINE, _CHUNKS = 0, 2, 4
_CHUNK_BITS = 0x1F
_CHUNK_INDEXES = 0x20
_HOLE = 0xFFFF_FFFF
_LINKS_MAX = 40


@attrs.frozen
class Inode:
    """A file in a layer."""

    number: int
    mode: int
    size: int
    layout: int
    data: int
    """The block at which its content begins, or what its chunks are like."""
    tail: int
    """Where in the image follows what stands beside the inode."""


class Layer:
    """An erofs image; a context manager.

    :raises InspectError: if *path* is none, or it is damaged; all that reads it raises that, too.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise InspectError(f"the layer {path} can't be read: {error.strerror}") from None
        try:
            self._data = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        except (OSError, ValueError):
            raise InspectError(f"{path} is no layer") from None
        finally:
            os.close(fd)
        magic, bits, self._root, meta = self._unpack(_SUPER, _SUPER_AT)
        if magic != _MAGIC or not 9 <= bits <= 16:
            raise InspectError(f"{path} is no layer")
        self._block = 1 << bits
        self._meta = meta * self._block

    def close(self) -> None:
        """Unmap the image."""
        self._data.close()

    def __enter__(self) -> "Layer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def inode(self, number: int) -> Inode:
        """The file with that *number*."""
        at = self._meta + number * _NUMBER_UNIT
        (form,) = struct.unpack("<H", self._bytes(at, 2))
        head = _EXTENDED if form & 1 else _COMPACT
        _, attributes, mode, _, size, data = self._unpack(head, at)
        tail = at + head.size
        if attributes:
            tail += 12 + (attributes - 1) * 4
        return Inode(number, mode, size, form >> 1 & 7, data, tail)

    def find(self, path: str) -> Inode:
        """The file at the absolute *path*; links are followed.

        :raises NoSuchFile: if there is none.
        """
        rest = path.split("/")[::-1]
        above: list[Inode] = []
        here = self.inode(self._root)
        links = 0
        while rest:
            name = rest.pop()
            if name in ("", "."):
                continue
            if name == "..":
                here = above.pop() if above else here
                continue
            found = self.lookup(here, name)
            if found is None:
                raise NoSuchFile(f"there is no {path}")
            if stat.S_ISLNK(found.mode):
                links += 1
                target = self.read(found, 4096).decode(errors="surrogateescape")
                if links > _LINKS_MAX:
                    raise InspectError(f"{path}: too many links")
                if target.startswith("/"):
                    above, here = [], self.inode(self._root)
                rest += target.split("/")[::-1]
            else:
                above.append(here)
                here = found
        return here

    def check(self) -> None:
        """See that the image has all of the files that are in it."""
        todo, seen = [self._root], {self._root}
        while todo:
            inode = self.inode(todo.pop())
            if inode.layout not in (_PLAIN, _INLINE, _CHUNKS):
                raise InspectError(f"{self.path} is compressed, which no layer is")
            if inode.layout == _CHUNKS:
                for _ in self._chunks(inode):
                    pass
            elif stat.S_ISREG(inode.mode) and inode.size:
                # Its content begins and ends in the image.
                short = inode.size % self._block if inode.layout == _INLINE else 0
                if inode.size > short:
                    end = inode.data * self._block + inode.size - short
                    self._bytes(end - 1, 1)
                self._bytes(inode.tail, short)
            elif stat.S_ISDIR(inode.mode):
                for name, number in self.entries(inode):
                    if name not in (b".", b"..") and number not in seen:
                        seen.add(number)
                        todo.append(number)

    def read(self, inode: Inode, limit: int) -> bytes:
        """The content of *inode*.

        :raises InspectError: if it has more than *limit* bytes.
        """
        if inode.size > limit:
            raise InspectError(f"a file of {inode.size:,} bytes is too large")
        if inode.layout == _PLAIN:
            return self._bytes(inode.data * self._block, inode.size)
        if inode.layout == _INLINE:
            short = inode.size % self._block
            whole = self._bytes(inode.data * self._block, inode.size - short)
            return whole + self._bytes(inode.tail, short)
        if inode.layout == _CHUNKS:
            return b"".join(self._chunks(inode))
        raise InspectError(f"{self.path}: a compressed file, which no layer has")

    def _chunks(self, inode: Inode) -> Iterator[bytes]:
        size = self._block << (inode.data & _CHUNK_BITS)
        unit = 8 if inode.data & _CHUNK_INDEXES else 4
        at = -(-inode.tail // unit) * unit
        for start in range(0, inode.size, size):
            (block,) = struct.unpack("<I", self._bytes(at + unit - 4, 4))
            at += unit
            count = min(size, inode.size - start)
            yield bytes(count) if block == _HOLE else self._bytes(block * self._block, count)

    def lookup(self, directory: Inode, name: str) -> Inode | None:
        """The file *name* in *directory*; None if there is none, or that is no directory."""
        if not stat.S_ISDIR(directory.mode):
            return None
        wanted = name.encode(errors="surrogateescape")
        for found, number in self.entries(directory):
            if found == wanted:
                return self.inode(number)
        return None

    def entries(self, directory: Inode) -> Iterator[tuple[bytes, int]]:
        """Names and numbers of what is in *directory*, itself and its parent included."""
        data = self.read(directory, 1 << 30)
        for start in range(0, len(data), self._block):
            block = data[start : start + self._block]
            try:
                entries = [
                    _DIRENT.unpack_from(block, at)
                    for at in range(0, _DIRENT.unpack_from(block)[1], _DIRENT.size)
                ]
            except struct.error:
                raise InspectError(f"{self.path}: a directory is damaged") from None
            ends = [entry[1] for entry in entries[1:]] + [len(block)]
            for (number, begin, _), end in zip(entries, ends, strict=True):
                yield block[begin:end].rstrip(b"\0"), number

    def _bytes(self, at: int, count: int) -> bytes:
        data = self._data[at : at + count] if at >= 0 else b""
        if len(data) != count:
            raise InspectError(f"{self.path}: the layer is damaged")
        return data

    def _unpack(self, form: struct.Struct, at: int) -> tuple[int, ...]:
        return form.unpack(self._bytes(at, form.size))
