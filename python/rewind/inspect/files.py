"""The guest's files: what its page cache has of them, and what the layers have.

A build's own files are in tmpfs, and so in the page cache, whole. Inputs are in layers, of which
the page cache has what was read; those are read from the layer itself.
"""

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from drgn import container_of
from drgn.helpers.linux.fs import d_path
from drgn.helpers.linux.list import hlist_for_each_entry, list_for_each_entry
from drgn.helpers.linux.xarray import xa_for_each

from rewind.inspect import InspectError, NoSuchFile
from rewind.inspect.erofs import Layer
from rewind.inspect.kernel import Kernel
from rewind.inspect.memory import PAGE, Fault

LIMIT = 1 << 30
"""Bytes of a file; larger ones are not read unless that is asked for."""

_HEAD = 6
"""PG_head: the first page of several that are one (include/linux/page-flags.h of 6.12)."""
_ORDER = 0xFF
"""Which bits of the second page's flags say how many."""
_LINKS_MAX = 40
_MOUNTS_MAX = 16
"""On top of one another."""
_NAMES_MAX = 1 << 20
"""In a directory."""
_DCACHE_MOUNTED = 1 << 16
"""include/linux/dcache.h of 6.12."""


@attrs.frozen
class File:
    """A file's inode, and by what path it was come by."""

    path: str
    inode: Any = attrs.field(repr=False)

    @property
    def mode(self) -> int:
        """As stat(2) has it."""
        return int(self.inode.i_mode)

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.inode.i_size)

    @property
    def number(self) -> int:
        """The inode's number."""
        return int(self.inode.i_ino)

    @property
    def file_system(self) -> str:
        """What kind of file system it is in: "tmpfs", "erofs", …"""
        return str(self.inode.i_sb.s_type.name.string_().decode(errors="replace"))

    @property
    def is_input(self) -> bool:
        """Whether it is one of the job's inputs, and not something that the job made."""
        return self.file_system == "erofs"


def of_file(file: Any) -> File:
    """What the kernel's ``struct file *`` stands for."""
    return File(d_path(file.f_path).decode(errors="surrogateescape"), file.f_inode.read_())


class Files:
    """A machine's files. *layers* are those it was started with, the lowest first."""

    def __init__(self, kernel: Kernel, layers: Sequence[Path]) -> None:
        self._kernel = kernel
        self._paths = layers
        self._layers: dict[int, Layer] = {}

    def close(self) -> None:
        """Close the layers."""
        for layer in self._layers.values():
            layer.close()
        self._layers.clear()

    def read(self, file: File, limit: int = LIMIT) -> bytes:
        """What is in *file*.

        :raises InspectError: if it has more than *limit* bytes, or no content that is there.
        """
        if not stat.S_ISREG(file.mode):
            raise InspectError(f"{file.path} is no regular file")
        if not 0 <= file.size <= limit:
            raise InspectError(f"{file.path} has {file.size:,} bytes, and {limit:,} are the limit")
        kind = file.file_system
        if kind in ("tmpfs", "ramfs", "rootfs"):
            return self._cached(file)
        if kind == "erofs":
            layer = self._layer(file)
            return layer.read(layer.inode(self._erofs_number(file)), limit)
        raise InspectError(f"{file.path} is in a file system of the kind {kind}")

    def read_path(self, root: Any, path: str, limit: int = LIMIT) -> bytes:
        """What is in the file at *path*, from the ``struct path`` *root*; links are followed.

        :raises NoSuchFile: if there is none.
        :raises InspectError: as `read` does.
        """
        places = [(container_of(root.mnt.read_(), "struct mount", "mnt"), root.dentry.read_())]
        names: list[str] = []
        rest = path.split("/")[::-1]
        links = 0
        while rest:
            name = rest.pop()
            if name in ("", "."):
                continue
            if name == "..":
                # The root's parent is the root.
                if names:
                    places.pop()
                    names.pop()
                continue
            found = self._child(*places[-1], name)
            if found is None:
                # Of an input the kernel knows the names that were asked for; a layer has them all.
                return self._from_layers("/".join(["", *names, name, *rest[::-1]]), limit)
            file = File("/".join(["", *names, name]), found[1].d_inode.read_())
            if stat.S_ISLNK(file.mode):
                links += 1
                if links > _LINKS_MAX:
                    raise InspectError(f"{path}: too many links")
                target = self._target(file)
                if target.startswith("/"):
                    del places[1:], names[:]
                rest += target.split("/")[::-1]
            else:
                places.append(found)
                names.append(name)
        return self.read(File("/".join(["", *names]), places[-1][1].d_inode.read_()), limit)

    def _child(self, mount: Any, directory: Any, name: str) -> tuple[Any, Any] | None:
        """The mount and the dentry of *name* in *directory*, if the kernel has it in its cache."""
        wanted = name.encode(errors="surrogateescape")
        children = hlist_for_each_entry(
            "struct dentry", directory.d_children.address_of_(), "d_sib"
        )
        for count, child in enumerate(children):
            if count >= _NAMES_MAX:
                raise InspectError("a directory's names make no sense")
            if child.d_name.name.string_() == wanted and child.d_inode and child.d_hash.pprev:
                return self._mounted(mount, child.read_())
        return None

    def _mounted(self, mount: Any, place: Any) -> tuple[Any, Any]:
        """What is mounted on the dentry *place* in *mount*, or these two."""
        for _ in range(_MOUNTS_MAX):
            if not int(place.d_flags) & _DCACHE_MOUNTED:
                break
            mounts = list_for_each_entry(
                "struct mount", mount.mnt_mounts.address_of_(), "mnt_child"
            )
            for count, inner in enumerate(mounts):
                if count >= _NAMES_MAX:
                    raise InspectError("a file system's mounts make no sense")
                if inner.mnt_mountpoint == place:
                    mount, place = inner.read_(), inner.mnt.mnt_root.read_()
                    break
            else:
                break
        return mount, place

    def _target(self, file: File) -> str:
        if file.file_system == "erofs":
            layer = self._layer(file)
            target = layer.read(layer.inode(self._erofs_number(file)), PAGE)
        elif file.inode.i_link:
            target = file.inode.i_link.string_()
        else:
            target = self._cached(file).rstrip(b"\0")
        return target.decode(errors="surrogateescape")

    def _from_layers(self, path: str, limit: int) -> bytes:
        for number in range(len(self._paths)):
            layer = self._open(number)
            try:
                inode = layer.find(path)
            except NoSuchFile:
                continue
            if not stat.S_ISREG(inode.mode):
                raise InspectError(f"{path} is no regular file")
            return layer.read(inode, limit)
        raise NoSuchFile(f"there is no {path}")

    def _open(self, number: int) -> Layer:
        if number not in self._layers:
            if number >= len(self._paths):
                raise InspectError("the machine has layers that are not known")
            self._layers[number] = Layer(self._paths[number])
        return self._layers[number]

    def _layer(self, file: File) -> Layer:
        # The device's name: pmem0 to pmem3.
        name = file.inode.i_sb.s_id.string_().decode(errors="replace")
        digits = name.removeprefix("pmem")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 4):
            raise InspectError(f"{file.path} is on {name}, which is no layer")
        return self._open(int(digits))

    def _erofs_number(self, file: File) -> int:
        return int(container_of(file.inode, "struct erofs_inode", "vfs_inode").nid)

    def _cached(self, file: File) -> bytes:
        """The content of a file that is in the page cache, whole."""
        size = file.size
        content = bytearray(size)
        pages = self._kernel.variable("vmemmap_base").value_()
        unit = self._kernel.program.type("struct page").size
        memory = self._kernel.memory
        assert memory is not None
        most = -(-size // PAGE)
        seen = 0
        for index, entry in xa_for_each(file.inode.i_mapping.i_pages.address_of_()):
            seen += 1
            if seen > most:
                break
            address = int(entry)
            # Odd ones are no pages: of swap, of which there is none, and marks.
            number, rest = divmod(address - pages, unit)
            if address & 1 or rest or number < 0:
                continue
            index -= index % (1 << self._order(address))
            count = PAGE << self._order(address)
            at = index * PAGE
            if at >= size:
                continue
            try:
                data = memory.read(number * PAGE, count)
            except Fault:
                raise InspectError(f"{file.path}: what the kernel has of it is damaged") from None
            content[at : min(at + count, size)] = data[: min(count, size - at)]
        return bytes(content)

    def _order(self, page: int) -> int:
        """How many pages are one at *page*, as a power of 2."""
        program = self._kernel.program
        if not program.read_u64(page) >> _HEAD & 1:
            return 0
        second = program.read_u64(page + program.type("struct page").size)
        return min(int(second) & _ORDER, 9)
