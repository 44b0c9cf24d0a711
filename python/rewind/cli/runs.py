"""The runs in the store, and which of them a user means."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from rewind.cli import nix, places
from rewind.cli.errors import Failure
from rewind.cli.output import warn
from rewind.formats.manifest import Manifest

if TYPE_CHECKING:
    from rewind.cli.recording import Recording

_NAME = re.compile(r"([0-9a-df-np-sv-z]{32})-rewind-run-(.+)")
_DIGITS = re.compile(r"[0-9a-df-np-sv-z]+")
SHORT = 8
"""How many characters of a hash a table shows."""
MOST_KNOWN = 400
"""How many runs that nobody has built are remembered."""


@attrs.frozen
class Run:
    """A run in the store, or one that is known and not built (see `remember`)."""

    path: Path
    hash: str
    """The first 32 characters of its store path's name: what it is known by."""
    name: str
    registered: int = 0
    """When it came into the store, or to be known, seconds since 1970."""
    drv: Path | None = None
    """What makes it, if it is not built: then there are no files of it yet."""

    @property
    def short(self) -> str:
        """The beginning of its hash, for tables."""
        return self.hash[:SHORT]

    @property
    def trace(self) -> Path:
        """Its trace's file."""
        return self.path / "trace"

    @property
    def imported(self) -> bool:
        """Whether it came by ``rewind import``, and is no path of the store."""
        return self.path.parent == places.imported()

    @property
    def store_path(self) -> Path:
        """What its path in the store is, or would be."""
        return nix.STORE / f"{self.hash}-rewind-run-{self.name}"

    @property
    def log(self) -> Path:
        """Its log's file."""
        return self.path / "log"

    def manifest(self) -> Manifest:
        """Its manifest, read from the store.

        :raises FormatError: if it cannot be read.
        """
        return Manifest.load(self.path / "manifest.cbor")


def summary(run: Run, manifest: Manifest | None) -> dict[str, Any]:
    """What there is to say of *run* in short, for a program; no *manifest*: it is not built."""
    return {
        "hash": run.hash,
        "path": str(run.path),
        "name": run.name,
        "built": manifest is not None,
        "imported": run.imported,
        "outcome": attrs.asdict(manifest.outcome) if manifest else None,
        "steps": manifest.steps if manifest else None,
        "guest_time": manifest.guest_time if manifest else None,
    }


def from_path(path: Path) -> Run | None:
    """The run at *path*, if its name is one's and it has a manifest."""
    found = _NAME.fullmatch(path.name)
    if found is None or not (path / "manifest.cbor").exists():
        return None
    return Run(path, found[1], found[2].removesuffix(".check"))


def remember(made: "Recording") -> None:
    """See that the run *made* can be found although it is not built.

    Its derivation is kept from being collected as garbage, until there are many later ones.

    :raises Failure: if there can be no link to it.
    """
    directory = places.directory(places.known())
    nix.add_root(made.drv, directory / made.out.name)
    links = sorted(directory.iterdir(), key=lambda link: link.lstat().st_mtime_ns)
    for link in links[:-MOST_KNOWN]:
        link.unlink(missing_ok=True)


def unbuilt() -> list[Run]:
    """The runs that are known and not built, the latest to be known first."""
    try:
        links = list(places.known().iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Failure(f"{places.known()}: {error.strerror}") from None
    found = []
    for link in links:
        name = _NAME.fullmatch(link.name)
        path = nix.STORE / link.name
        if name is None or not link.exists() or (path / "manifest.cbor").exists():
            continue
        since = int(link.lstat().st_mtime)
        found.append(Run(path, name[1], name[2], since, link.readlink()))
    return sorted(found, key=lambda run: (-run.registered, run.path))


def built(run: Run) -> Run:
    """*run*, which is built if it is not: then somebody is told, and waits.

    :raises Failure: if that fails.
    """
    if run.drv is None:
        return run
    # Imported here: it takes a while, and nearly all runs are built.
    from rewind.cli import drv as drvs
    from rewind.cli import recording
    from rewind.cli.recording import Recording

    warn(f"{run.short}  {run.name} is not built yet: building it")
    recording.record(run.name, Recording.of(drvs.read(run.drv)))
    return attrs.evolve(run, drv=None)


def scan(text: str | None = None) -> list[Run]:
    """All that looks like a run, without asking Nix; in no order.

    :param text: only those that have this name, or whose hash begins so.
    """
    try:
        with os.scandir(nix.STORE) as entries:
            names = [entry.name for entry in entries if "-rewind-run-" in entry.name]
            # There are many, and it takes a look at each to know that it is one.
            if text is not None:
                end = f"-rewind-run-{text}"
                names = [name for name in names if name.startswith(text) or name.endswith(end)]
    except OSError as error:
        raise Failure(f"the store {nix.STORE} cannot be read: {error.strerror}") from None
    found = (from_path(nix.STORE / name) for name in names if not name.endswith(".check"))
    return [run for run in found if run is not None]


def imported() -> list[Run]:
    """The runs that were imported, and are not in the store, the latest to come first."""
    try:
        entries = [entry for entry in places.imported().iterdir() if not entry.is_symlink()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Failure(f"{places.imported()}: {error.strerror}") from None
    found = []
    for entry in entries:
        run = from_path(entry)
        if run is not None and from_path(run.store_path) is None:
            # The directory's own time is when somebody looked at it (`rewind.cli.keeping`).
            came = run.path / "manifest.cbor"
            found.append(attrs.evolve(run, registered=int(came.stat().st_mtime)))
    return sorted(found, key=lambda run: (-run.registered, run.path))


def newest_first() -> list[Run]:
    """All runs that are valid in the store, the latest to come first."""
    known = scan()
    info = nix.path_info([run.path for run in known])
    runs = [
        attrs.evolve(run, registered=info[run.path].registered) for run in known if run.path in info
    ]
    return sorted(runs, key=lambda run: (-run.registered, run.path))


def _everything() -> list[Run]:
    return [*_newest([*newest_first(), *imported()]), *unbuilt()]


def _newest(found: list[Run]) -> list[Run]:
    return sorted(found, key=lambda run: (-run.registered, run.path))


def find(text: str) -> Run:
    """The run that *text* means: a hash's beginning, ``@``, ``@2``, a name or a path.

    It may be one that is not built, but not by ``@``.

    :raises Failure: if there is none, or several.
    """
    if not text:
        raise Failure("'' is no run: rewind ls lists them")
    if "/" in text:
        return _at(text)
    if text.startswith("@"):
        return _nth(text)
    here = imported()
    # What was imported is there, and what is only known is not.
    there = {run.hash for run in here}
    known = [*scan(text), *here, *(run for run in unbuilt() if run.hash not in there)]
    named = [run for run in known if run.name == text]
    candidates = named or [run for run in known if run.hash.startswith(text)]
    if len(candidates) > 1:
        paths = {run.path for run in candidates}
        candidates = [run for run in _everything() if run.path in paths]
    match candidates:
        case [run]:
            return run
        case []:
            what = "hash or name" if _DIGITS.fullmatch(text) else "name"
            raise Failure(f"there is no run of the {what} {text}: rewind ls lists them")
        case _:
            lines = "".join(f"\n  {run.hash}  {run.name}" for run in candidates)
            raise Failure(f"{text} could be any of {len(candidates)} runs:{lines}")


def _at(text: str) -> Run:
    path = Path(text).resolve()
    for place in (path, *path.parents):
        run = from_path(place) or _from_drv(place)
        if run is not None:
            return run
    for run in unbuilt():
        if run.path == path:
            return run
    raise Failure(f"{text} is not the path of a run")


def _from_drv(path: Path) -> Run | None:
    """The run that the derivation *path* makes, built or not."""
    if path.suffix != ".drv" or _NAME.fullmatch(path.stem) is None or not path.exists():
        return None
    from rewind.cli import drv as drvs
    from rewind.cli.recording import Recording

    out = Recording.of(drvs.read(path)).out
    name = _NAME.fullmatch(out.name)
    return None if name is None else from_path(out) or Run(out, name[1], name[2], drv=path)


def _nth(text: str) -> Run:
    digits = text[1:] or "1"
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 10**9):
        raise Failure(f"{text} is no run: @ is the newest, @2 the one before, and so on")
    runs = _newest([*newest_first(), *imported()])
    if not runs:
        raise Failure("there are no runs yet: rewind nix makes one")
    if int(digits) > len(runs):
        raise Failure(f"there is no run {text}: the store has {len(runs):,}")
    return runs[int(digits) - 1]
