"""The runs in the store, and which of them a user means."""

import os
import re
from pathlib import Path
from typing import Any

import attrs

from rewind.cli import nix
from rewind.cli.errors import Failure
from rewind.formats.manifest import Manifest

_NAME = re.compile(r"([0-9a-df-np-sv-z]{32})-rewind-run-(.+)")
_DIGITS = re.compile(r"[0-9a-df-np-sv-z]+")
SHORT = 8
"""How many characters of a hash a table shows."""


@attrs.frozen
class Run:
    """A run in the store."""

    path: Path
    hash: str
    """The first 32 characters of its store path's name: what it is known by."""
    name: str
    registered: int = 0
    """When it came into the store, seconds since 1970."""

    @property
    def short(self) -> str:
        """The beginning of its hash, for tables."""
        return self.hash[:SHORT]

    @property
    def trace(self) -> Path:
        """Its trace's file."""
        return self.path / "trace"

    @property
    def log(self) -> Path:
        """Its log's file."""
        return self.path / "log"

    def manifest(self) -> Manifest:
        """Its manifest, read from the store.

        :raises FormatError: if it cannot be read.
        """
        return Manifest.load(self.path / "manifest.cbor")


def summary(run: Run, manifest: Manifest) -> dict[str, Any]:
    """What there is to say of *run* in short, for a program."""
    return {
        "hash": run.hash,
        "path": str(run.path),
        "name": run.name,
        "outcome": attrs.asdict(manifest.outcome),
        "steps": manifest.steps,
        "guest_time": manifest.guest_time,
    }


def from_path(path: Path) -> Run | None:
    """The run at *path*, if its name is one's and it has a manifest."""
    found = _NAME.fullmatch(path.name)
    if found is None or not (path / "manifest.cbor").exists():
        return None
    return Run(path, found[1], found[2].removesuffix(".check"))


def scan() -> list[Run]:
    """All that looks like a run, without asking Nix; in no order."""
    try:
        with os.scandir(nix.STORE) as entries:
            names = [entry.name for entry in entries if "-rewind-run-" in entry.name]
    except OSError as error:
        raise Failure(f"the store {nix.STORE} cannot be read: {error.strerror}") from None
    found = (from_path(nix.STORE / name) for name in names if not name.endswith(".check"))
    return [run for run in found if run is not None]


def newest_first() -> list[Run]:
    """All runs that are valid in the store, the latest to come first."""
    known = scan()
    info = nix.path_info([run.path for run in known])
    runs = [
        attrs.evolve(run, registered=info[run.path].registered) for run in known if run.path in info
    ]
    return sorted(runs, key=lambda run: (-run.registered, run.path))


def find(text: str) -> Run:
    """The run that *text* means: a hash's beginning, ``@``, ``@2``, a name or a path.

    :raises Failure: if there is none, or several.
    """
    if not text:
        raise Failure("'' is no run: rewind ls lists them")
    if "/" in text:
        return _at(text)
    if text.startswith("@"):
        return _nth(text)
    known = scan()
    named = [run for run in known if run.name == text]
    candidates = named or [run for run in known if run.hash.startswith(text)]
    if len(candidates) > 1:
        paths = {run.path for run in candidates}
        candidates = [run for run in newest_first() if run.path in paths]
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
        run = from_path(place)
        if run is not None:
            return run
    raise Failure(f"{text} is not the path of a run")


def _nth(text: str) -> Run:
    digits = text[1:] or "1"
    if not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 10**9):
        raise Failure(f"{text} is no run: @ is the newest, @2 the one before, and so on")
    runs = newest_first()
    if not runs:
        raise Failure("there are no runs yet: rewind nix makes one")
    if int(digits) > len(runs):
        raise Failure(f"there is no run {text}: the store has {len(runs):,}")
    return runs[int(digits) - 1]
