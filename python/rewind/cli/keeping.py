"""What is kept for a person: links that keep runs from being collected as garbage.

A run that somebody looks at is kept for `KEPT` from then on: the link's own time says when that
was. ``rewind gc`` removes the links that are older, and then what nothing keeps.
"""

import contextlib
import datetime
import os
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
    """A link that keeps what it leads to."""

    link: Path
    target: Path
    looked_at: float
    """Seconds since 1970."""

    def ends(self, kept: datetime.timedelta = KEPT) -> float:
        """Until when it is kept, in seconds since 1970."""
        return self.looked_at + kept.total_seconds()


def roots() -> list[Root]:
    """All links that there are, of runs, of searches, and of runs that are only known."""
    return [
        root
        for directory in (places.roots(), places.searches(), places.known())
        for root in _in(directory)
    ]


def looked_at(run: Run) -> None:
    """Somebody has looked at *run*: from now on it is kept again, if it is the store's."""
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
    try:
        links = sorted(directory.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise Failure(f"{directory}: {error.strerror}") from None
    for link in links:
        # It may be removed just now.
        with contextlib.suppress(OSError):
            yield Root(link, link.readlink(), link.lstat().st_mtime)


@attrs.frozen
class Garbage:
    """What can go."""

    roots: Sequence[Root]
    """Links that are too old."""
    paths: Sequence[nix.PathInfo]
    """Runs and searches that nothing keeps but these."""
    derivers: Sequence[Path] = ()
    """What they were made by, if nothing keeps that."""

    @property
    def size(self) -> int:
        """Bytes of `paths`."""
        return sum(info.nar_size for info in self.paths)


def garbage(kept: datetime.timedelta) -> Garbage:
    """What nobody has looked at for *kept*, and what nothing keeps.

    :raises Failure: if Nix can't say.
    """
    now = time.time()
    old = [root for root in roots() if root.ends(kept) <= now]
    still = {root.target for root in roots()} - {root.target for root in old}
    dead = set(nix.dead())
    # What an old link alone keeps will be dead; whether it is, Nix says when it deletes it.
    mine = {path for path in dead | {root.target for root in old} if _is_made(path)} - still
    info = nix.path_info(sorted(mine))
    # With keep-outputs what a derivation has made is kept as long as that is there.
    derivers = {one.deriver for one in info.values() if one.deriver is not None}
    return Garbage(
        old,
        sorted(info.values(), key=lambda one: one.path),
        sorted(derivers & (dead | {root.target for root in old})),
    )


def _is_made(path: Path) -> bool:
    return path.suffix != ".drv" and any(part in path.name for part in _MADE)


def remove(found: Garbage) -> int:
    """Remove what was *found*, but for what is kept or used by somebody after all.

    :return: bytes of the paths that are gone.
    """
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
    return sum(info.nar_size for info in found.paths if info.path in gone)
