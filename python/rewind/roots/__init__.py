"""Root directories that have nothing to do with Nix, as images for the machine (docs/roots.md).

A directory or a tarball becomes an erofs image, which is a function of what is in it: the names,
what they stand for, and of a tarball also owners and times. In which order a tarball has them, how
it is compressed and where a directory is makes no difference.

Nothing is unpacked: the files go into the image as a tar stream that is written anew. So no name or
link in a tarball is ever one of a file of the host's, and no privileges are needed.
"""

import contextlib
import gzip
import lzma
import os
import stat
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO, cast

import attrs
import zstandard

SIZE_MAX = 64 << 30
"""Bytes of an image: what the machine can see of a layer."""

_MTIME = 1
"""Of what has no time of its own, seconds since 1970."""
_BLOCK = 512
_CHUNK = 1 << 20
_EROFS_AT, _EROFS = 1024, b"\xe2\xe1\xf5\xe0"
_UUID = "00000000-0000-0000-0000-000000000000"


class RootError(Exception):
    """A root that no image can be made of; the text is a sentence for the user."""


@attrs.frozen
class Entry:
    """A file of a root: its header, and how to read it, if it has a content."""

    header: tarfile.TarInfo
    open: Callable[[], IO[bytes]] | None = None
    same: object = None
    """What all names of one file have in common."""


def is_image(source: Path) -> bool:
    """Whether the file *source* begins as an erofs image does."""
    with source.open("rb") as file:
        file.seek(_EROFS_AT)
        return file.read(len(_EROFS)) == _EROFS


def make(source: Path, out: Path, mkfs: str) -> None:
    """Make the image *out* of the directory or tarball *source*, with the program *mkfs*.

    :raises RootError: if that can't be.
    """
    if source.is_dir():
        _write(_directory(source), source, out, mkfs)
        return
    with _plain(source) as file:
        try:
            with tarfile.open(fileobj=file, mode="r:") as archive:
                entries = _tarball(archive, source)
                _check_end(archive, file, source)
                _write(entries, source, out, mkfs)
        # Numbers in a header that are none raise whatever the arithmetic with them does.
        except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
            raise RootError(f"{source} is no tarball, or is damaged: {error}") from None


@contextlib.contextmanager
def _plain(source: Path) -> Iterator[BinaryIO]:
    """The tarball *source* without its compression, as a file that can be read from anywhere."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(source.open("rb"))
        head = file.read(6)
        file.seek(0)
        unpacked = _unpacked(file, head)
        if unpacked is None:
            yield file
            return
        stack.enter_context(unpacked)
        copy = cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile(prefix="rewind-")))
        size = 0
        try:
            while data := unpacked.read(_CHUNK):
                size += len(data)
                if size > SIZE_MAX:
                    raise _too_large(source)
                copy.write(data)
        except (EOFError, zstandard.ZstdError, lzma.LZMAError, zlib.error) as error:
            raise RootError(f"{source} is damaged, or ends too early: {error}") from None
        except gzip.BadGzipFile as error:
            raise RootError(f"{source} is damaged: {error}") from None
        copy.seek(0)
        yield copy


def _unpacked(file: BinaryIO, head: bytes) -> IO[bytes] | None:
    """What is in *file*, which begins with *head*; None if that is not compressed."""
    if head.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if head == b"\xfd7zXZ\0":
        return lzma.LZMAFile(file)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return cast(IO[bytes], reader)
    return None


def _too_large(source: Path) -> RootError:
    return RootError(f"{source} has more than {SIZE_MAX:,} bytes in it, too many for the machine")


def _check_end(archive: tarfile.TarFile, file: BinaryIO, source: Path) -> None:
    """See that *archive*, which was read, ends as one does, which its reader does not ask for."""
    file.seek(archive.offset)
    block = file.read(_BLOCK)
    if len(block) < _BLOCK:
        raise RootError(f"{source} ends too early: it is only the beginning of a tarball")
    if any(block):
        raise RootError(f"{source} is damaged at byte {archive.offset:,}: no header is there")


def _name(given: str, source: Path) -> str:
    """A path in a tarball, from the root; "" is the root itself."""
    parts = [part for part in given.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise RootError(f"{source} has {given} in it, which leads out of the root")
    return "/".join(parts)


def _tarball(archive: tarfile.TarFile, source: Path) -> dict[str, Entry]:
    """What is in *archive*, by the path from the root."""
    found: dict[str, Entry] = {}
    links: dict[str, str] = {}
    seen: set[str] = set()
    for header in archive:
        name = _name(header.name, source)
        if name in seen and not (header.isdir() and name in found and found[name].header.isdir()):
            raise RootError(f"{source} has {name or '/'} in it twice")
        seen.add(name)
        if header.islnk():
            links[name] = _name(header.linkname, source)
        elif header.isreg():
            found[name] = Entry(header, partial(_opened, archive, header), header)
        elif header.isdir() or header.issym() or header.isfifo():
            found[name] = Entry(header)
        # Devices are left out: those that there are, are in the machine's own /dev.
    if "manifest.json" in found and ("oci-layout" in found or "repositories" in found):
        raise RootError(
            f"{source} is an image as `docker save` writes it, in layers: `docker export` of a"
            " container writes its root"
        )
    for name, target in links.items():
        end = target
        for _ in links:
            end = links.get(end, end)
        if end not in found or found[end].header.isdir():
            raise RootError(f"{source}: {name} is a link to {target}, which is no file in it")
        found[name] = found[end]
    return found


def _opened(archive: tarfile.TarFile, header: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(header)
    assert file is not None
    return file


def _read(path: Path) -> IO[bytes]:
    return path.open("rb")


def _directory(source: Path) -> dict[str, Entry]:
    """What is in the directory *source*, by the path from there; nothing is followed."""
    found = {"": Entry(_header(source.lstat()))}

    def fail(error: OSError) -> None:
        raise RootError(f"{error.filename}: {error.strerror}")

    for above, directories, files in os.walk(source, onerror=fail):
        for base in (*directories, *files):
            path = Path(above, base)
            status = path.lstat()
            header = _header(status)
            name = path.relative_to(source).as_posix()
            if stat.S_ISREG(status.st_mode):
                same = status.st_dev, status.st_ino
                found[name] = Entry(header, partial(_read, path), same)
            elif stat.S_ISLNK(status.st_mode):
                header.linkname = str(path.readlink())
                found[name] = Entry(header)
            elif stat.S_ISDIR(status.st_mode) or stat.S_ISFIFO(status.st_mode):
                found[name] = Entry(header)
    return found


def _header(status: os.stat_result) -> tarfile.TarInfo:
    """That of a file of the host, whose owners and times mean nothing in a root."""
    header = tarfile.TarInfo()
    header.mode = stat.S_IMODE(status.st_mode)
    header.mtime = _MTIME
    kinds = {
        stat.S_IFDIR: tarfile.DIRTYPE,
        stat.S_IFLNK: tarfile.SYMTYPE,
        stat.S_IFIFO: tarfile.FIFOTYPE,
    }
    header.type = kinds.get(stat.S_IFMT(status.st_mode), tarfile.REGTYPE)
    if header.isreg():
        header.size = status.st_size
    if header.issym():
        # As Linux has it; a directory's link has the same on every host.
        header.mode = 0o777
    return header


def _with_parents(entries: Mapping[str, Entry], source: Path) -> dict[str, Entry]:
    """*entries* and the directories that they are in, if nobody spoke of them."""
    complete = dict(entries)
    for name in entries:
        path = PurePosixPath(name)
        for parent in path.parents if name else ():
            above = "" if parent == PurePosixPath() else str(parent)
            known = complete.get(above)
            if known is None:
                header = tarfile.TarInfo()
                header.type, header.mode, header.mtime = tarfile.DIRTYPE, 0o755, _MTIME
                complete[above] = Entry(header)
            elif not known.header.isdir():
                raise RootError(f"{source} has {name} in it, and {above} is no directory")
    if not entries:
        raise RootError(f"{source} is empty: there is nothing in it to run")
    return complete


def _write(entries: Mapping[str, Entry], source: Path, out: Path, mkfs: str) -> None:
    """Make the image *out* of *entries*."""
    complete = _with_parents(entries, source)
    if sum(entry.header.size for entry in complete.values() if entry.open) > SIZE_MAX:
        raise _too_large(source)
    command = [mkfs, "--quiet", "--tar=f", "-x-1", "-T1", "--mkfs-time", f"-U{_UUID}", str(out)]
    # It would take the place of -T.
    environment = {key: os.environ[key] for key in os.environ if key != "SOURCE_DATE_EPOCH"}
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=said, env=environment
        ) as process:
            assert process.stdin is not None
            try:
                with tarfile.open(
                    fileobj=process.stdin, mode="w|", format=tarfile.GNU_FORMAT
                ) as stream:
                    _stream(complete, source, stream)
                process.stdin.close()
            except BrokenPipeError:
                # It says why it has ended.
                pass
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise RootError(f"no image could be made of {source}: {lines[-1]}")
    if out.stat().st_size > SIZE_MAX:
        raise _too_large(source)


def _stream(entries: Mapping[str, Entry], source: Path, stream: tarfile.TarFile) -> None:
    """Write *entries* in the order of their names, each as everybody would write it."""
    first: dict[object, str] = {}
    for name in sorted(entries):
        entry = entries[name]
        given = entry.header
        header = tarfile.TarInfo(name or ".")
        header.mode, header.type = given.mode & 0o7777, given.type
        header.uid, header.gid = given.uid, given.gid
        # Of a time with a fraction, and of one before 1970, which an image has no room for.
        header.mtime = max(0, int(given.mtime))
        header.linkname = given.linkname if given.issym() else ""
        if entry.open is None:
            stream.addfile(header)
            continue
        if entry.same in first:
            header.type, header.linkname = tarfile.LNKTYPE, first[entry.same]
            stream.addfile(header)
            continue
        first[entry.same] = header.name
        header.type, header.size = tarfile.REGTYPE, given.size
        with _readable(entry.open, source) as content:
            try:
                stream.addfile(header, content)
            except BrokenPipeError:
                raise
            except OSError as error:
                raise RootError(f"{source}: {name} can't be read: {error}") from None


def _readable(opened: Callable[[], IO[bytes]], source: Path) -> IO[bytes]:
    try:
        return opened()
    except OSError as error:
        raise RootError(f"{error.filename or source}: {error.strerror}") from None
