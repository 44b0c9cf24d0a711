"""Store paths that travel with a run: what it takes to make the run again.

They are what the run's derivation refers to, as it was built, and the derivation with those that it
was evaluated from, so that Nix has nothing to build but the run. In a file they are JSON::

    {"drv": the run's .drv, "roots": [what is to be kept, …],
     "paths": [{"path": …, "references": [names, …], "deriver": name or null, "ca": … or null}, …]}

in the order of their names. NAR number N is that of the path number N, and its SHA-256 is Nix's
narHash. `cache` makes of them what Nix takes for a binary cache, so that it is Nix that compares
each NAR with its hash, and each derivation with its name.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from rewind.formats import FormatError, nixbase32
from rewind.travel.archive import ENTRIES_MAX, Archive
from rewind.travel.check import STORE_PATH

_CA = re.compile(r"(?:text|fixed(?::r)?|fixed:git):[a-z0-9]+:[0-9a-df-np-sv-z]{1,120}", re.ASCII)
_PREFIX = "/nix/store/"


@attrs.frozen
class StorePath:
    """A path of the store, and all that Nix wants to be told of it."""

    path: str
    references: tuple[str, ...]
    """Names of paths, without the store's directory."""
    deriver: str | None = None
    ca: str | None = None
    """By what rule its name follows from its content, if it does."""


@attrs.frozen
class Paths:
    """What makes a run again."""

    drv: str
    roots: tuple[str, ...]
    """What has to be kept."""
    paths: tuple[StorePath, ...]


def dumps(paths: Paths) -> bytes:
    """The entry's content."""
    return json.dumps(attrs.asdict(paths), separators=(",", ":")).encode()


def loads(data: bytes) -> Paths:
    """What `dumps` was given.

    :raises FormatError: if *data* is damaged.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise FormatError("the list of store paths is damaged: it is no JSON") from None
    match found:
        case {"drv": str(drv), "roots": [*roots], "paths": [*entries]}:
            paths = tuple(_path(entry) for entry in entries)
            known = {path.path for path in paths}
            good = (
                drv.endswith(".drv")
                and len(known) == len(paths) <= ENTRIES_MAX
                and all(isinstance(root, str) and root in known for root in (drv, *roots))
            )
            if good:
                return Paths(drv, tuple(roots), paths)
    raise FormatError("the list of store paths is damaged")


def _path(entry: Any) -> StorePath:
    match entry:
        case {
            "path": str(path),
            "references": [*references],
            "deriver": None | str() as deriver,
            "ca": None | str() as ca,
        } if (
            STORE_PATH.fullmatch(path)
            and all(_is_name(name) for name in references)
            and (deriver is None or _is_name(deriver))
            and (ca is None or _CA.fullmatch(ca))
        ):
            return StorePath(path, tuple(references), deriver, ca)
    raise FormatError("the list of store paths is damaged")


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and bool(STORE_PATH.fullmatch(_PREFIX + name))


def cache(archive: Archive, paths: Sequence[StorePath], directory: Path) -> None:
    """Make of *directory* a binary cache with *paths*, whose NARs *archive* has in that order.

    :raises FormatError: if there are others.
    :raises OSError: if there is no room.
    """
    nars = archive.nars()
    if len(nars) != len(paths):
        raise FormatError("there are more or fewer NARs than store paths")
    (directory / "nix-cache-info").write_text(f"StoreDir: {_PREFIX.rstrip('/')}\n")
    for number, (path, nar) in enumerate(zip(paths, nars, strict=True)):
        with (directory / f"{number}.nar.zst").open("wb") as file:
            for data in archive.packed(nar):
                file.write(data)
        name = path.path.removeprefix(_PREFIX)
        lines = [
            f"StorePath: {path.path}",
            f"URL: {number}.nar.zst",
            "Compression: zstd",
            f"NarHash: sha256:{nixbase32.encode(nar.digest)}",
            f"NarSize: {nar.size}",
            f"References: {' '.join(path.references)}",
            *([f"Deriver: {path.deriver}"] if path.deriver else []),
            *([f"CA: {path.ca}"] if path.ca else []),
        ]
        (directory / f"{name[:32]}.narinfo").write_text("\n".join(lines) + "\n")
