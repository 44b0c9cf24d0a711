"""The directory in which keyframes are kept: any of them may go at any time, and be made again.

Many processes use it at once, and any of them may be killed. A file is written under another name,
and is what it should be when it has its own; who uses a keyframe opens all files of its chain
before, and they stay readable. What was not used for long is removed when there is too much, and a
keyframe always before those that it stands on.

That nothing can be written there, or that there is no room, is no reason to give up: keyframes are
then kept in memory, as long as the process is there.
"""

import contextlib
import errno
import fcntl
import os
import tempfile
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import attrs

from rewind.replay.keyframe import DamagedError, Header, Keyframe, Name

LIMIT = 2 << 30
"""Bytes of the files, unless somebody says otherwise."""

_SUFFIX = ".keyframe"
_NEW = ".new"
_LOCK = "lock"
_STALE = 60
"""Seconds after which a file that nobody writes any more is one of a process that was killed."""
_PATIENCE = 2.0
"""Seconds to wait for the lock, which is never held for long."""
_POLL = 0.01


@attrs.frozen
class _Stored:
    name: Name
    size: int
    used: float
    parent: Name | None


class Cache:
    """Keyframes in the directory *path*, which need not be there.

    :param path: None for no directory.
    :param limit: bytes that may be in it; 0 for nothing.
    :param warn: told of what the user may want to know: a damaged file, a full disk.
    """

    def __init__(
        self, path: Path | None, limit: int = LIMIT, warn: Callable[[str], None] = lambda _: None
    ) -> None:
        self._path = path if limit else None
        self._limit = limit
        self._warn = warn
        self._gave_up = False
        self._open: weakref.WeakValueDictionary[Name, Keyframe] = weakref.WeakValueDictionary()

    def names(self, keys: Collection[bytes], last: int) -> list[Name]:
        """The keyframes with one of *keys* that there are up to the time *last*, latest first."""
        found = {name for name in self._stored() if name.key in keys and name.time <= last}
        return sorted(found, key=lambda name: name.time, reverse=True)

    def find(self, keys: Collection[bytes], last: int) -> Keyframe | None:
        """The latest keyframe with one of *keys* up to the time *last*, open with its chain."""
        for name in self.names(keys, last):
            keyframe = self.get(name)
            if keyframe is not None:
                return keyframe
        return None

    def get(self, name: Name) -> Keyframe | None:
        """The keyframe of that *name*, open with its chain; None if it is not there any more."""
        try:
            with self._locked(shared=True):
                keyframe = self._get(name)
        except (FileNotFoundError, DamagedError):
            return None
        except OSError as error:
            self._warn(f"the keyframes in {self._path} can't be read: {error.strerror}")
            return None
        for one in reversed(keyframe.chain()):
            # Those below are used as often, and are never older.
            with contextlib.suppress(OSError):
                os.utime(self._file(one.name))
        return keyframe

    def _get(self, name: Name) -> Keyframe:
        keyframe = self._open.get(name)
        if keyframe is not None:
            return keyframe
        path = self._file(name)
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            keyframe = Keyframe.read(file, self._get)
            if keyframe.name != name:
                raise DamagedError("it is another one")
        except FileNotFoundError:
            # What it stands on is gone, by another hand than ours.
            _remove(path)
            raise
        except DamagedError as error:
            # Of a damaged one below has been told.
            if not isinstance(error, _BelowError):
                self._warn(f"a keyframe is damaged, and is made anew: {path}: {error}")
            _remove(path)
            raise _BelowError from None
        self._open[name] = keyframe
        return keyframe

    def put(self, name: Name, write: Callable[[int], Keyframe]) -> Keyframe:
        """A new keyframe, which is kept for others if that can be done.

        :param write: writes it to the empty file whose descriptor it is given, and may be called
            twice.
        :raises OSError: if it can't be written anywhere.
        """
        keyframe = self._put(name, write)
        if keyframe is None:
            file = os.memfd_create("rewind-keyframe", os.MFD_CLOEXEC)
            try:
                keyframe = write(file)
            except BaseException:
                os.close(file)
                raise
            keyframe.volatile = True
        self._open[name] = keyframe
        return keyframe

    def _put(self, name: Name, write: Callable[[int], Keyframe]) -> Keyframe | None:
        if self._path is None or self._gave_up:
            return None
        path = None
        file = -1
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            file, path = tempfile.mkstemp(_NEW, dir=self._path)
            fcntl.flock(file, fcntl.LOCK_EX)
            keyframe = write(file)
            # It is the keyframe's from here on.
            file = -1
            with self._locked(shared=False):
                # It may have come to stand on one that was evicted meanwhile.
                parent = keyframe.header.parent
                if parent is None or self._file(parent).exists():
                    Path(path).rename(self._file(name))
                    path = None
                self._evict()
            return keyframe
        except OSError as error:
            # What does not work once is not tried, and told of, again and again.
            self._gave_up = True
            # That it may not be written somebody has decided: there is nothing to be done about it.
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR):
                self._warn(f"no keyframe can be kept in {self._path}: {error.strerror}")
            return None
        finally:
            if path is not None:
                _remove(Path(path))
            if file >= 0:
                os.close(file)

    def size(self) -> int:
        """Bytes of all files."""
        total = 0
        for name in self._stored():
            with contextlib.suppress(OSError):
                total += self._file(name).stat().st_size
        return total

    def clear(self) -> int:
        """Remove all; who uses some goes on. How many bytes that were.

        :raises OSError: if another process does not let it.
        """
        if self._path is None or not self._path.is_dir():
            return 0
        with self._locked(shared=False):
            before = self.size()
            for name in self._stored():
                _remove(self._file(name))
            for path in self._path.glob(f"*{_NEW}"):
                _collect(path)
            return before - self.size()

    def _evict(self) -> None:
        """Remove what nobody writes any more and, over the limit, what was not used for longest."""
        assert self._path is not None
        for path in self._path.glob(f"*{_NEW}"):
            _collect(path)
        found = {}
        for name in self._stored():
            path = self._file(name)
            try:
                with path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    parent = Header.read(file.fileno()).parent
            except DamagedError:
                # Who wants to use it says so; here it only stands on nothing.
                parent = None
            except OSError:
                continue
            found[name] = _Stored(name, status.st_size, status.st_mtime, parent)
        size = sum(one.size for one in found.values())
        while size > self._limit and found:
            below = {one.parent for one in found.values()}
            last = min(
                (one for one in found.values() if one.name not in below), key=lambda one: one.used
            )
            _remove(self._file(last.name))
            del found[last.name]
            size -= last.size

    def _stored(self) -> Iterator[Name]:
        if self._path is None:
            return
        try:
            files = list(self._path.iterdir())
        except OSError:
            # There is none yet, or none that can be used.
            return
        for file in files:
            name = Name.parse(file.stem) if file.suffix == _SUFFIX else None
            if name is not None:
                yield name

    def _file(self, name: Name) -> Path:
        if self._path is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self._path / f"{name}{_SUFFIX}"

    @contextlib.contextmanager
    def _locked(self, *, shared: bool) -> Iterator[None]:
        """Have no file removed (*shared*), or be alone to remove and to add some.

        :raises TimeoutError: if it should be alone, and another process does not let go.
        """
        if self._path is None:
            yield
            return
        flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
        try:
            file = os.open(self._path / _LOCK, flags | os.O_CLOEXEC, 0o600)
        except OSError:
            if not shared:
                raise
            # Nobody has ever written anything here.
            yield
            return
        try:
            end = time.monotonic() + _PATIENCE
            while not _lock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX):
                if time.monotonic() > end:
                    if shared:
                        # A file that is open stays; one that is gone is made again.
                        break
                    raise TimeoutError(errno.ETIMEDOUT, "another process has it locked")
                time.sleep(_POLL)
            yield
        finally:
            os.close(file)


class _BelowError(DamagedError):
    """A keyframe in the chain is damaged, and the user has been told."""


def _lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _collect(path: Path) -> None:
    """Remove *path*, which was being written, if nobody does so any more."""
    try:
        with path.open("rb") as file:
            old = time.time() - os.fstat(file.fileno()).st_mtime > _STALE
            if old and _lock(file.fileno(), fcntl.LOCK_SH):
                _remove(path)
    except OSError:
        # It has come to an end just now, or is none of ours.
        return


def _remove(path: Path) -> None:
    # Gone already, or in a directory that may not be written.
    with contextlib.suppress(OSError):
        path.unlink()
