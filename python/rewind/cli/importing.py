"""Runs from files that somebody else has made: see `rewind.travel.archive`.

A file is not to be trusted. What is taken of it is written to files of our own names, in a
directory that becomes the run's when all of it has been found good. Nothing of it comes into the
store, and nothing is executed, unless the user says that it is to be trusted.
"""

import base64
import contextlib
import fcntl
import filecmp
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs

from rewind.analysis.render import plain
from rewind.cli import drv as drvs
from rewind.cli import imported, nix, places, runs
from rewind.cli.errors import Failure
from rewind.cli.recording import Recording
from rewind.cli.runs import Run
from rewind.formats import FormatError, nixbase32
from rewind.travel import archive, bookmarks, check, paths
from rewind.travel.archive import Archive
from rewind.travel.bookmarks import Bookmark, Bookmarks
from rewind.travel.paths import Paths
from rewind.travel.places import load_sources, loads

FILES = {
    archive.MANIFEST: "manifest.cbor",
    archive.TRACE: "trace",
    archive.LOG: "log",
    archive.PLACES: "places.json",
    archive.SOURCES: "sources.json",
}
"""What entries become, in the run's directory."""
_SAME = ("manifest.cbor", "trace", "log")
"""What a run is."""
_MORE = ("places.json", "sources.json")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
SCRATCH = ".new-"
"""How directories begin that are no runs: what is being imported, or removed."""
_LEFT = 16 << 20
"""Bytes that are to be free on the disk after it."""


@attrs.frozen
class Imported:
    """What came of a file."""

    run: Run
    """As it is found from now on."""
    new: bool
    """Whether it was not there before."""
    differs: tuple[str, ...]
    """Files in which it is another than the run of that name that is there; it was not taken."""
    bookmarks: int
    """How many there had not been."""
    digest: str | None = None
    """The SHA-256 of what was fetched."""
    replayable: bool = False
    """Whether the file has what it takes to make the run again."""


def fetch(source: str, wanted: str | None, most: int) -> tuple[Path, str | None]:
    """The file at the URL or path *source*, and its SHA-256 if it was fetched.

    :param wanted: what its SHA-256 has to be, as Nix writes it.
    :param most: how many bytes are fetched.
    :raises Failure: if it is another one, or there is none, or a larger one.
    """
    digest = None if wanted is None else parse_hash(wanted)
    if _URL.match(source):
        base32 = None if digest is None else nixbase32.encode(digest)
        found, path = nix.prefetch(source, base32, most)
        return path, f"sha256:{found}"
    path = Path(source)
    if digest is not None:
        try:
            with path.open("rb") as file:
                is_ = hashlib.file_digest(file, "sha256").digest()
        except OSError as error:
            raise Failure(f"{path}: {error.strerror}") from None
        if is_ != digest:
            raise Failure(
                f"{path} has the hash sha256:{nixbase32.encode(is_)}, and not"
                f" sha256:{nixbase32.encode(digest)}"
            )
    return path, None


def parse_hash(text: str) -> bytes:
    """A SHA-256 in base 16, Nix's base 32, or as ``sha256-…`` in base 64.

    :raises Failure: if *text* is none.
    """
    digits = re.sub(r"\Asha256[:-]", "", text)
    with contextlib.suppress(ValueError):
        if len(digits) == 64:
            return bytes.fromhex(digits)
        if len(digits) == 52:
            return nixbase32.decode(digits)
        found = base64.b64decode(digits, validate=True)
        if len(found) == 32:
            return found
    raise Failure(f"{text!r} is no SHA-256 as Nix writes it")


def take(path: Path, *, trust: bool) -> Imported:
    """Import the file *path*.

    :param trust: whether what makes the run again is added to the store.
    :raises Failure: if it is no good; then nothing is there that was not there before.
    """
    directory = places.directory(places.imported())
    try:
        with (
            locked(directory),
            Archive(path) as source,
            tempfile.TemporaryDirectory(prefix=SCRATCH, dir=directory) as scratch,
        ):
            return _take(source, Path(scratch), path, trust)
    except FormatError as error:
        # It may have anything of the file in it.
        said = re.sub(r"\S*/\.new-[^/ ]*/", "", str(error))
        name = "" if str(path) in said else f"{path}: "
        raise Failure(plain(f"{name}{said}")) from None
    except OSError as error:
        raise Failure(f"{path} can't be imported: {error.strerror}") from None


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[Path]:
    """Be the only one that imports to *directory*; what somebody left who was killed is removed."""
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        for left in directory.glob(f"{SCRATCH}*"):
            remove(left)
        yield directory
    finally:
        os.close(file)


def remove(directory: Path) -> None:
    """Remove *directory*, in which there are only files."""
    for file in directory.iterdir():
        if file.is_dir() and not file.is_symlink():
            remove(file)
        else:
            file.unlink()
    directory.rmdir()


def _take(source: Archive, scratch: Path, path: Path, trust: bool) -> Imported:
    name = _about(source)
    _see_room(source, scratch, trust)
    made = scratch / "run"
    made.mkdir()
    for entry in source.entries:
        if entry.kind in FILES:
            with (made / FILES[entry.kind]).open("xb") as file:
                source.extract(entry, file)
    check.run_files(made, name)
    noted = source.read(archive.BOOKMARKS)
    marks = [] if noted is None else bookmarks.loads(noted)
    _check_places(made)
    travelling = source.read(archive.PATHS)
    again = None if travelling is None else paths.loads(travelling)
    if trust:
        if again is None:
            raise FormatError(
                "it does not have what makes the run again: rewind export --replayable puts it in"
            )
        _add(source, again, scratch, name)
    run, differs, new = _place(made, name)
    if differs:
        return Imported(run, False, differs, 0, replayable=again is not None)
    if trust and again is not None and run.imported:
        _keep(run, again)
    return Imported(run, new, (), _mark(run, marks), replayable=again is not None)


def _about(source: Archive) -> str:
    """What the run's store path is called."""
    try:
        about = json.loads(source.read(archive.ABOUT) or b"")
    except (ValueError, RecursionError):
        raise FormatError("it is damaged: it does not say what it is") from None
    match about:
        case {"name": str(name)} if check.NAME.fullmatch(name):
            return name
    raise FormatError("it is damaged: it does not say what it is")


def _see_room(source: Archive, directory: Path, trust: bool) -> None:
    """Refuse a file that needs more room than there is, before it takes any."""
    needed = sum(entry.size for entry in source.entries if entry.kind in FILES)
    if trust:
        needed += sum(entry.packed for entry in source.nars())
    disk = os.statvfs(directory)
    free = disk.f_bavail * disk.f_frsize
    if needed + _LEFT > free:
        raise FormatError(f"it takes {needed:,} bytes, and {free:,} are free in {directory.parent}")


def _check_places(made: Path) -> None:
    """See that what it has of places can be read."""
    for name, read in (("places.json", loads), ("sources.json", load_sources)):
        if (made / name).exists():
            read((made / name).read_bytes())


def _place(made: Path, name: str) -> tuple[Run, tuple[str, ...], bool]:
    """Put the run *made* where it is found, unless it is there.

    :return: the run that is found, in which files it is another one, and whether it is new.
    """
    there = runs.from_path(nix.STORE / name)
    if there is not None and nix.valid([there.path]):
        return there, _differ(made, there.path), False
    target = places.imported() / name
    run = Run(target, name[:32], name.partition("-rewind-run-")[2])
    if not target.exists():
        made.rename(target)
        return run, (), True
    differs = _differ(made, target)
    if not differs:
        for more in _MORE:
            # It may have been exported with fewer of these, and they go together.
            if (made / more).exists():
                (made / more).replace(target / more)
    return run, differs, False


def _differ(made: Path, there: Path) -> tuple[str, ...]:
    return tuple(
        file for file in _SAME if not filecmp.cmp(made / file, there / file, shallow=False)
    )


def _mark(run: Run, marks: list[Bookmark]) -> int:
    """Merge the bookmarks of *run*; how many there had not been."""
    return Bookmarks(places.bookmarks()).add(run.hash, marks) if marks else 0


# --- what makes it again


def _add(source: Archive, again: Paths, scratch: Path, name: str) -> None:
    """Add what makes the run *name* again to the store.

    :raises Failure: if Nix does not take it.
    """
    cache = scratch / "cache"
    cache.mkdir()
    paths.cache(source, again.paths, cache)
    try:
        nix.copy_from(cache, [Path(root) for root in again.roots])
    except nix.NixFailure as error:
        _sweep([Path(path.path) for path in again.paths])
        text = str(error)
        hint = ""
        if "signature" in text or "trusted" in text:
            hint = "; nobody has signed them, so only a user whom Nix trusts can add them"
        raise Failure(
            f"what makes the run again can't be added to the store: {text}{hint}"
        ) from None
    made = Recording.of(drvs.read(Path(again.drv)))
    if made.out.name != name:
        raise FormatError(f"what it has makes another run: {made.out.name}")


def _sweep(added: list[Path]) -> None:
    """Remove what Nix has unpacked of *added* and not taken: it is there, and not valid."""
    there = [path for path in added if path.exists()]
    valid = set(nix.valid(there))
    nix.delete([[path] for path in there if path not in valid])


def _keep(run: Run, again: Paths) -> None:
    """Keep what makes *run* again from being collected as garbage, and remember it."""
    nix.add_roots([Path(root) for root in again.roots], run.path / "kept")
    made = run.path / f".{imported.TRUSTED}"
    made.write_text(json.dumps({"drv": again.drv}))
    made.replace(run.path / imported.TRUSTED)
