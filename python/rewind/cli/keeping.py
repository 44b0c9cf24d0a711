"""What is kept for a person: links that keep runs from being collected as garbage.

A run that somebody looks at is kept for `KEPT` from then on: the link's own time says when that
was. ``rewind gc`` removes the links that are older, and then what nothing keeps.

A run that was imported is no path of the store, and no link keeps it: its directory's own time
says when somebody looked at it. Who reads it has a lock on the directory.
"""

import contextlib
import datetime
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from rewind.cli import nix, places
from rewind.cli.errors import Failure
from rewind.cli.output import warn
from rewind.cli.runs import Run

KEPT = datetime.timedelta(days=30)

_MADE = ("-rewind-run-", "-rewind-search-")
"""In the names of what rewind makes in the store."""


@attrs.frozen
class Root:
    """A link that keeps what it leads to; or an imported run, which both are then."""

    link: Path
    target: Path
    looked_at: float
    """Seconds since 1970."""

    @property
    def imported(self) -> bool:
        """Whether it is an imported run."""
        return self.link == self.target

    def ends(self, kept: datetime.timedelta = KEPT) -> float:
        """Until when it is kept, in seconds since 1970."""
        return self.looked_at + kept.total_seconds()


def roots() -> list[Root]:
    """All links that there are, of runs, of searches, and of runs that are only known.

    And the runs that were imported.
    """
    links = [
        root
        for directory in (places.roots(), places.searches(), places.known())
        for root in _in(directory)
    ]
    return [*links, *_imported()]


@contextlib.contextmanager
def in_use(run: Run) -> Iterator[None]:
    """As long as the ``with`` lasts nobody removes *run* if it was imported.

    Of one that is in the store Nix sees that it is not removed.

    :raises Failure: if it has just been removed.
    """
    if not run.imported:
        yield
        return
    try:
        file = _hold(run.path)
    except FileNotFoundError:
        raise Failure(f"{run.short} has just been removed") from None
    try:
        # In a directory that is somebody else's it cannot be, and need not.
        with contextlib.suppress(PermissionError):
            os.utime(run.path)
        yield
    finally:
        os.close(file)


def _hold(path: Path) -> int:
    """A descriptor of the directory *path*, with a lock that keeps it there until it is closed.

    :raises FileNotFoundError: if it is not there.
    """
    while True:
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Who has the other kind is about to remove it.
            fcntl.flock(file, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        except BaseException:
            os.close(file)
            raise
        # It was removed, and has come again.
        os.close(file)


def looked_at(run: Run) -> None:
    """Somebody has looked at *run*: from now on it is kept again, if it is the store's.

    Of one that was imported `in_use` takes that down.
    """
    if run.imported:
        return
    link = places.roots() / run.path.name
    now = time.time()
    try:
        if link.is_symlink() and link.readlink() == run.path:
            os.utime(link, (now, now), follow_symlinks=False)
            return
        places.directory(places.roots())
        nix.add_root(run.path, link)
    except (OSError, Failure) as error:
        warn(f"{run.short} is not kept for you: {error}")


def _in(directory: Path) -> Iterator[Root]:
    for link in _listed(directory):
        # It may be removed just now.
        with contextlib.suppress(OSError):
            yield Root(link, link.readlink(), link.lstat().st_mtime)


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Failure(f"{directory}: {error.strerror}") from None


def _imported() -> Iterator[Root]:
    for link in _listed(places.imported()):
        with contextlib.suppress(OSError):
            if link.name.partition("-")[2].startswith("rewind-run-") and not link.is_symlink():
                yield Root(link, link, link.stat().st_mtime)


@attrs.frozen
class Garbage:
    """What can go."""

    roots: Sequence[Root]
    """Links that are too old."""
    imported: Sequence[Root]
    """Imported runs that nobody has looked at for as long."""
    paths: Sequence[nix.PathInfo]
    """Runs and searches that nothing keeps but these."""
    derivers: Sequence[Path] = ()
    """What they were made by, if nothing keeps that."""

    @property
    def size(self) -> int:
        """Bytes of `paths`, and of the imported runs."""
        return sum(info.nar_size for info in self.paths) + sum(map(_size, self.imported))


def garbage(kept: datetime.timedelta) -> Garbage:
    """What nobody has looked at for *kept*, and what nothing keeps.

    :raises Failure: if Nix can't say.
    """
    now = time.time()
    every = roots()
    imported = [root for root in every if root.imported and root.ends(kept) <= now]
    old = [root for root in every if not root.imported and root.ends(kept) <= now]
    still = {root.target for root in every} - {root.target for root in old}
    dead = set(nix.dead())
    # What an old link alone keeps will be dead; whether it is, Nix says when it deletes it.
    mine = {path for path in dead | {root.target for root in old} if _is_made(path)} - still
    info = nix.path_info(sorted(mine))
    # With keep-outputs what a derivation has made is kept as long as that is there.
    derivers = {one.deriver for one in info.values() if one.deriver is not None}
    return Garbage(
        old,
        imported,
        sorted(info.values(), key=lambda one: one.path),
        sorted(derivers & (dead | {root.target for root in old})),
    )


def _is_made(path: Path) -> bool:
    return path.suffix != ".drv" and any(part in path.name for part in _MADE)


def remove(found: Garbage) -> int:
    """Remove what was *found*, but for what is kept or used by somebody after all.

    :return: bytes of what is gone.
    :raises Failure: if Nix, or the disk, does not let go of something.
    """
    size = sum(map(_remove, found.imported))
    for root in found.roots:
        # Somebody may have looked at it meanwhile, or removed it.
        with contextlib.suppress(OSError):
            if root.link.lstat().st_mtime == root.looked_at:
                root.link.unlink()
    groups: dict[Path, list[Path]] = {}
    for info in found.paths:
        groups.setdefault(info.deriver or info.path, []).append(info.path)
    for deriver in found.derivers:
        groups[deriver].append(deriver)
    gone = nix.delete(list(groups.values()))
    return size + sum(info.nar_size for info in found.paths if info.path in gone)


def _size(run: Root) -> int:
    """Bytes of an imported run; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return sum(file.lstat().st_size for file in run.link.iterdir())
    return 0


def _remove(run: Root) -> int:
    """Remove an imported run, but for one that somebody uses or has looked at; its bytes."""
    from rewind.cli import importing

    # Nobody imports it meanwhile, and what is left if we are killed goes with the next import.
    with importing.locked(places.imported()) as directory:
        try:
            file = os.open(run.link, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_mtime != run.looked_at:
                return 0
            size = _size(run)
            doomed = Path(tempfile.mkdtemp(prefix=importing.SCRATCH, dir=directory))
            run.link.rename(doomed / "run")
            importing.remove(doomed)
            return size
        except BlockingIOError:
            return 0
        except OSError as error:
            raise Failure(f"{run.link} can't be removed: {error.strerror}") from None
        finally:
            os.close(file)
