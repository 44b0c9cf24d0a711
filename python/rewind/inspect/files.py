"""The guest's files: what its page cache has of them, and what the layers have.

A build's own files are in tmpfs, and so in the page cache, whole. Inputs are in layers, of which
the page cache has what was read; those are read from the layer itself. A root of the job's own
(docs/roots.md) is an overlay: each of its files is one in tmpfs, if it was written to, or else one
in the layer, and a directory can be both.
"""

import itertools
import re
import stat
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs
from drgn import container_of
from drgn.helpers.linux.fs import d_path, fget, for_each_file
from drgn.helpers.linux.list import hlist_for_each_entry, list_for_each_entry
from drgn.helpers.linux.mm import for_each_vma
from drgn.helpers.linux.xarray import xa_for_each

from rewind.inspect import InspectError, NoSuchFile
from rewind.inspect.answers import Entry
from rewind.inspect.erofs import Inode, Layer
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
_LISTED_MAX = 1 << 20
_DCACHE_MOUNTED = 1 << 16
"""include/linux/dcache.h of 6.12."""
_IN_MEMORY = ("tmpfs", "ramfs", "rootfs", "devtmpfs")
"""File systems whose files are whole in the kernel's caches."""
_LISTED = (*_IN_MEMORY, "erofs", "devpts")
_DELETED = " (deleted)"
_OPEN_FILES = re.compile(r"/proc/(self|[0-9]{1,9})/fd/?")
_DEPTH_MAX = 1 << 12
"""Of a directory, and of the mounts that it is in."""


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
    path = d_path(file.f_path).decode(errors="surrogateescape")
    return File(path, _real(file.f_inode.read_()))


def _overlaid(inode: Any) -> "tuple[Any, Any] | None":
    """The dentries that a file of an overlay is made of, which has one lower layer.

    The one in tmpfs and the one in the layer, each None if there is none; None if *inode* is of
    another file system. (struct ovl_inode in fs/overlayfs/ovl_entry.h of 6.12)
    """
    if inode.i_sb.s_type.name.string_() != b"overlay":
        return None
    whole = container_of(inode, "struct ovl_inode", "vfs_inode")
    upper = whole.member_("__upperdentry").read_()
    entry = whole.oe.read_()
    lower = None
    if entry and int(entry.member_("__numlower")):
        lower = entry.member_("__lowerstack")[0].dentry.read_()
    if not upper and lower is None:
        raise InspectError("a file of the root makes no sense")
    return upper if upper else None, lower


def _real(inode: Any) -> Any:
    """The inode that has the content of *inode*, which is itself unless it is an overlay's."""
    parts = _overlaid(inode)
    if parts is None:
        return inode
    upper, lower = parts
    return (lower if upper is None else upper).d_inode.read_()


def _is_whiteout(inode: Any) -> bool:
    """Whether it says, in what was written to an overlay, that a file of the layer is gone."""
    return stat.S_ISCHR(int(inode.i_mode)) and int(inode.i_rdev) == 0


@attrs.frozen
class Node:
    """A file at its place: as the kernel has it in its cache, or as only a layer has it."""

    path: str
    """From the root of who asked."""
    mount: Any = attrs.field(default=None, repr=False)
    dentry: Any = attrs.field(default=None, repr=False)
    layer: Layer | None = attrs.field(default=None, repr=False)
    inode: Inode | None = None
    """In the layer, if the kernel has none."""

    @property
    def file(self) -> File:
        """It as the kernel has it."""
        return File(self.path, _real(self.dentry.d_inode.read_()))

    @property
    def overlaid(self) -> tuple[Any, Any] | None:
        """What it is made of, if it is in an overlay: the dentries in tmpfs and in the layer."""
        return None if self.dentry is None else _overlaid(self.dentry.d_inode.read_())

    @property
    def mode(self) -> int:
        """As stat(2) has it."""
        return self.file.mode if self.inode is None else self.inode.mode

    @property
    def size(self) -> int:
        """In bytes."""
        return self.file.size if self.inode is None else self.inode.size

    @property
    def file_system(self) -> str:
        """What kind of file system it is in."""
        return self.file.file_system if self.inode is None else "erofs"

    @property
    def listed(self) -> bool:
        """Whether it can be told what is in it, if it is a directory."""
        return self.file_system in _LISTED

    @property
    def is_mount(self) -> bool:
        """Whether it is where a file system is mounted."""
        return self.dentry is not None and self.mount.mnt.mnt_root == self.dentry

    @property
    def is_deleted(self) -> bool:
        """Whether it has no name any more."""
        return self.dentry is not None and not self.dentry.d_hash.pprev

    def below(self, name: bytes, mount: Any, dentry: Any) -> Self:
        """What is in it, and in the kernel's cache."""
        return type(self)(self._join(name), mount, dentry)

    def in_layer(self, name: bytes, layer: Layer, inode: Inode) -> Self:
        """What is in it, and in a layer only."""
        return type(self)(self._join(name), layer=layer, inode=inode)

    def _join(self, name: bytes) -> str:
        return f"{self.path.rstrip('/')}/{name.decode(errors='surrogateescape')}"


class View:
    """What *task* sees of the files.

    :param tasks: the job's, by the numbers that it knows them by.
    :raises InspectError: if it has ended, and sees nothing any more.
    """

    def __init__(self, task: Any, tasks: Mapping[int, Any]) -> None:
        if not task.fs:
            raise InspectError("it has ended, and has no files any more")
        self._task = task
        self._tasks = tasks
        self.root = _node("/", task.fs.root)
        """Its root directory."""

    def working_directory(self) -> list[Node]:
        """The directories from the root to where it works."""
        return self._nodes(self._task.fs.pwd)

    def of_process(self, name: str, kind: str) -> list[Node] | None:
        """The root, the working directory, the program or an open file (*kind*: its number) of a
        process, *name* as in /proc, with the directories on the way there; None if there is none.
        """
        task = self._named(name)
        if task is None:
            return None
        if kind in ("root", "cwd"):
            if not task.fs:
                return None
            return self._nodes(task.fs.root if kind == "root" else task.fs.pwd)
        if kind == "exe":
            file = task.mm.exe_file if task.mm else None
        else:
            number = int(kind)
            opened = task.files and number < int(task.files.fdt.max_fds)
            file = fget(task, number) if opened else None
        return self._nodes(file.f_path) if file else None

    def open_numbers(self, name: str) -> list[tuple[int, Node]] | None:
        """What a process, *name* as in /proc, has open, by number; None if there is none."""
        task = self._named(name)
        if task is None:
            return None
        opened = itertools.islice(for_each_file(task), _NAMES_MAX) if task.files else ()
        return [(number, self._nodes(file.f_path)[-1]) for number, file in opened]

    def _named(self, name: str) -> Any:
        if name in ("self", "thread-self"):
            return self._task
        digits = name.isascii() and name.isdigit() and len(name) < 10
        return self._tasks.get(int(name)) if digits else None

    def open_files(self) -> Iterator[Node]:
        """What the job's processes have open, or mapped, each with the path that it had."""
        seen = set()
        for task in self._tasks.values():
            opened: list[Any] = []
            files, mm = int(task.files), int(task.mm)
            if files and files not in seen:
                seen.add(files)
                opened += [file for _, file in itertools.islice(for_each_file(task), _NAMES_MAX)]
            if mm and mm not in seen:
                seen.add(mm)
                mapped = itertools.islice(for_each_vma(task.mm), _NAMES_MAX)
                opened += [vma.vm_file for vma in mapped if vma.vm_file]
            for file in opened:
                yield self._nodes(file.f_path)[-1]

    def _nodes(self, path: Any) -> list[Node]:
        """What leads from the root to the ``struct path`` *path*.

        Of what cannot be reached from the root, it leads from the top of where that is.
        """
        mount = container_of(path.mnt.read_(), "struct mount", "mnt")
        dentry = path.dentry.read_()
        found: list[tuple[Any, Any, bytes]] = []
        for _ in range(_DEPTH_MAX):
            here = mount, dentry
            # What is mounted has the name of the place where it is.
            for _ in range(_MOUNTS_MAX):
                at_top = mount.mnt_parent == mount
                if self._is_root(mount, dentry) or dentry != mount.mnt.mnt_root or at_top:
                    break
                mount, dentry = mount.mnt_parent.read_(), mount.mnt_mountpoint.read_()
            if self._is_root(mount, dentry) or dentry == mount.mnt.mnt_root:
                break
            found.append((*here, dentry.d_name.name.string_()))
            # A pipe's and a memfd's is in no directory.
            if dentry.d_parent == dentry:
                break
            dentry = dentry.d_parent.read_()
        else:
            raise InspectError("the path of a file makes no sense")
        nodes = [self.root]
        for mount, dentry, name in reversed(found):
            nodes.append(nodes[-1].below(name, mount, dentry))
        return nodes

    def _is_root(self, mount: Any, dentry: Any) -> bool:
        return bool(mount == self.root.mount and dentry == self.root.dentry)


def _title(node: Node) -> str:
    """What the link of an open file says."""
    for kind, name in ((stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket")):
        if kind(node.mode) and node.file_system in ("pipefs", "sockfs"):
            return f"{name}:[{node.file.number}]"
    return node.path + (_DELETED if node.is_deleted else "")


def _node(path: str, place: Any) -> Node:
    """The ``struct path`` *place*."""
    return Node(path, container_of(place.mnt.read_(), "struct mount", "mnt"), place.dentry.read_())


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
        if kind in _IN_MEMORY:
            return self._cached(file)
        if kind == "erofs":
            layer = self._layer(file)
            return layer.read(layer.inode(self._erofs_number(file)), limit)
        raise InspectError(f"{file.path} is in a file system of the kind {kind}")

    def read_path(self, view: "View", path: str, limit: int = LIMIT) -> bytes:
        """What is in the file at *path*, as *view* has it; links are followed.

        :raises NoSuchFile: if there is none.
        :raises InspectError: as `read` does.
        """
        return self._content(self.find(view, path), limit)

    def list_path(self, view: "View", path: str, *, recursive: bool = False) -> list[Entry]:
        """What is in the directory at *path*, in order of the names; or *path*, if it is none.

        :param recursive: also what is in the directories there, each after its own entry.
        :raises NoSuchFile: if there is none.
        :raises InspectError: if it is in a file system that is not kept in memory.
        """
        opened = _OPEN_FILES.fullmatch(path)
        if opened is not None:
            return self._list_open(view, opened[1])
        node = self.find(view, path)
        if not stat.S_ISDIR(node.mode):
            return [self._entry(node)]
        found: list[Entry] = []
        # The next one is the last.
        todo = sorted(self._children(node), key=lambda child: child.path, reverse=True)
        while todo:
            child = todo.pop()
            if len(found) >= _LISTED_MAX:
                raise InspectError(f"{path}: there are more than {_LISTED_MAX:,} files")
            found.append(self._entry(child))
            if recursive and stat.S_ISDIR(child.mode) and child.listed:
                below = self._children(child)
                todo += sorted(below, key=lambda node: node.path, reverse=True)
        return found

    def _list_open(self, view: "View", name: str) -> list[Entry]:
        """What /proc/*name*/fd has in it."""
        found = view.open_numbers(name)
        if found is None:
            raise NoSuchFile(f"there is no process {name}")
        return [
            Entry(f"/proc/{name}/fd/{number}", stat.S_IFLNK | 0o700, 64, _title(node))
            for number, node in found
        ]

    def find(self, view: "View", path: str) -> "Node":
        """The file at *path*, as *view* has it; links are followed.

        :raises NoSuchFile: if there is none.
        :raises InspectError: if that can't be told.
        """
        nodes = [view.root] if path.startswith("/") else view.working_directory()
        rest = path.split("/")[::-1]
        links = 0
        while rest:
            name = rest.pop()
            if name in ("", "."):
                continue
            if name == "..":
                # The root's parent is the root.
                if len(nodes) > 1:
                    nodes.pop()
                continue
            here = nodes[-1]
            if here.file_system == "proc" and here.is_mount:
                target = self._of_process(view, name, rest)
                if target is not None:
                    nodes = target
                    continue
            found = self._child(here, name)
            if found is None:
                if stat.S_ISDIR(here.mode) and not here.listed:
                    raise InspectError(
                        f"{path} is in a file system of the kind {here.file_system}, which makes"
                        " its files when somebody asks for them"
                    )
                return self._deleted(view, path)
            if stat.S_ISLNK(found.mode):
                links += 1
                if links > _LINKS_MAX:
                    raise InspectError(f"{path}: too many links")
                text = self._target(found)
                if text.startswith("/"):
                    del nodes[1:]
                    nodes[0] = view.root
                rest += text.split("/")[::-1]
            else:
                nodes.append(found)
        return nodes[-1]

    def _of_process(self, view: "View", name: str, rest: list[str]) -> "list[Node] | None":
        """What /proc/*name* and some of *rest*, the next names being the last, stand for.

        These links are not where their text says, but at what a process has.
        """
        match rest[::-1]:
            case ["fd", number, *_] if number.isascii() and number.isdigit():
                count, kind = 2, number
            case [("cwd" | "root" | "exe") as kind, *_]:
                count = 1
            case _:
                return None
        found = view.of_process(name, kind)
        if found is None:
            raise NoSuchFile(f"there is no /proc/{'/'.join([name, *rest[: -count - 1 : -1]])}")
        del rest[-count:]
        return found

    def _deleted(self, view: "View", path: str) -> "Node":
        """The file that *path* was the name of, if somebody still has it open."""
        name = path.removesuffix(_DELETED)
        if name != path:
            for node in view.open_files():
                if node.path == name and node.is_deleted:
                    return node
        raise NoSuchFile(f"there is no {path}")

    def _content(self, node: "Node", limit: int) -> bytes:
        if node.layer is not None and node.inode is not None:
            if not stat.S_ISREG(node.mode):
                raise InspectError(f"{node.path} is no regular file")
            if node.size > limit:
                raise InspectError(
                    f"{node.path} has {node.size:,} bytes, and {limit:,} are the limit"
                )
            return node.layer.read(node.inode, limit)
        return self.read(node.file, limit)

    def _entry(self, node: "Node") -> Entry:
        target = None
        if stat.S_ISLNK(node.mode):
            target = "?" if node.file_system == "proc" else self._target(node)
        return Entry(node.path, node.mode, node.size, target)

    def _children(self, node: "Node") -> "Iterator[Node]":
        """What is in the directory *node*.

        :raises InspectError: if its file system makes files when they are asked for.
        """
        if not node.listed:
            raise InspectError(f"{node.path} is in a file system of the kind {node.file_system}")
        cached: dict[bytes, Node] = {}
        if node.dentry is not None:
            for name, dentry in self._dentries(node.dentry):
                cached[name] = node.below(name, *self._mounted(node.mount, dentry))
        parts = node.overlaid
        if parts is not None:
            # The kernel's cache has the names that were asked for.
            yield from self._uncached(node, parts, cached)
        elif node.file_system == "erofs":
            # Of an input the kernel knows the names that were asked for; a layer has them all.
            layer, inode = self._in_layer(node)
            for name, number in layer.entries(inode):
                if name not in (b".", b"..") and name not in cached:
                    yield node.in_layer(name, layer, layer.inode(number))
        yield from cached.values()

    def _in_layer(self, node: "Node") -> tuple[Layer, Inode]:
        if node.layer is not None and node.inode is not None:
            return node.layer, node.inode
        layer = self._layer(node.file)
        return layer, layer.inode(self._erofs_number(node.file))

    def _child(self, node: "Node", name: str) -> "Node | None":
        """*name* in *node*; None if there is none, or that is no directory."""
        wanted = name.encode(errors="surrogateescape")
        if not stat.S_ISDIR(node.mode):
            return None
        cached = set()
        if node.dentry is not None:
            for found, dentry in self._dentries(node.dentry):
                if found == wanted:
                    return node.below(wanted, *self._mounted(node.mount, dentry))
                cached.add(found)
        parts = node.overlaid
        if parts is not None:
            path = node.below(wanted, None, None).path
            uncached = self._uncached(node, parts, cached)
            return next((child for child in uncached if child.path == path), None)
        if node.file_system == "erofs":
            layer, inode = self._in_layer(node)
            below = layer.lookup(inode, name)
            return None if below is None else node.in_layer(wanted, layer, below)
        return None

    def _uncached(
        self, node: "Node", parts: tuple[Any, Any], cached: Container[bytes]
    ) -> "Iterator[Node]":
        """What is in the directory *node*, made of *parts*, as these have it; less *cached*."""
        upper, lower = parts
        below: dict[bytes, Inode] = {}
        layer = None
        if lower is not None:
            file = File(node.path, lower.d_inode.read_())
            layer = self._layer(file)
            inode = layer.inode(self._erofs_number(file))
            entries = layer.entries(inode)
            below = {name: layer.inode(number) for name, number in entries}
        for name, dentry in () if upper is None else self._dentries(upper):
            hidden = below.pop(name, None)
            if name in cached or _is_whiteout(dentry.d_inode):
                continue
            written = node.below(name, node.mount, dentry)
            if stat.S_ISDIR(written.mode) and hidden is not None and stat.S_ISDIR(hidden.mode):
                # Whether it is another one than the layer's, the kernel knew.
                raise InspectError(f"the kernel has forgotten what {written.path} is made of")
            yield written
        for name, inode in below.items():
            if layer is not None and name not in (b".", b"..") and name not in cached:
                yield node.in_layer(name, layer, inode)

    def _dentries(self, directory: Any) -> Iterator[tuple[bytes, Any]]:
        """The names in *directory* that the kernel has in its cache, with their dentries."""
        children = hlist_for_each_entry(
            "struct dentry", directory.d_children.address_of_(), "d_sib"
        )
        for count, child in enumerate(children):
            if count >= _NAMES_MAX:
                raise InspectError("a directory's names make no sense")
            if child.d_inode and child.d_hash.pprev:
                yield child.d_name.name.string_(), child.read_()

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

    def _target(self, node: "Node") -> str:
        if node.file_system == "erofs":
            layer, inode = self._in_layer(node)
            target = layer.read(inode, PAGE)
        elif node.file.inode.i_link:
            target = node.file.inode.i_link.string_()
        elif node.file_system in _IN_MEMORY:
            target = self._cached(node.file).rstrip(b"\0")
        else:
            raise InspectError(f"{node.path} is in a file system of the kind {node.file_system}")
        return target.decode(errors="surrogateescape")

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
