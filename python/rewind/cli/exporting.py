"""A run as a file for somebody else: see `rewind.travel.archive`."""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from rewind.cli import drv as drvs
from rewind.cli import nix, places
from rewind.cli.errors import Failure
from rewind.cli.output import warn
from rewind.cli.runs import Run
from rewind.formats import FormatError
from rewind.formats.schedule import Position
from rewind.travel import archive, bookmarks, check
from rewind.travel import paths as travelling
from rewind.travel.archive import Content, Entry
from rewind.travel.bookmarks import Bookmarks
from rewind.travel.paths import Paths, StorePath
from rewind.travel.places import dump_sources, dumps


def export(run: Run, target: Path, *, look: bool, replayable: bool) -> list[Entry]:
    """Write *run* to the file *target*, which is there when it is whole.

    :param look: whether the file says where threads were; if that can't be found out the user is
        told, and it does not.
    :param replayable: whether it has what it takes to make the run again.
    :return: what is in it.
    :raises Failure: if it can't be done.
    """
    if target.is_dir():
        raise Failure(f"{target} is a directory")
    with _temporary(target) as file:
        try:
            check.run_files(run.path, run.store_path.name)
        except FormatError as error:
            raise Failure(f"{run.short} can't be exported: {error}") from None
        about = json.dumps({"name": run.store_path.name}, separators=(",", ":")).encode()
        contents = [
            Content.of_bytes(archive.ABOUT, about),
            Content.of_file(archive.MANIFEST, run.path / "manifest.cbor"),
            Content.of_file(archive.TRACE, run.trace),
            Content.of_file(archive.LOG, run.log),
        ]
        noted = Bookmarks(places.bookmarks()).of(run.hash)
        if noted:
            contents.append(Content.of_bytes(archive.BOOKMARKS, bookmarks.dumps(noted)))
        if look:
            contents += _places(run, [bookmark.position for bookmark in noted])
        if replayable:
            made = _paths(run)
            contents.append(Content.of_bytes(archive.PATHS, travelling.dumps(made)))
            contents += [Content(archive.NAR, _dump(path.path)) for path in made.paths]
        try:
            return archive.write(file, contents)
        except OSError as error:
            raise Failure(f"{target}: {error.strerror}") from None


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[BinaryIO]:
    """A file that becomes *target* when the ``with`` ends well, and else is gone."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise Failure(f"{target}: {error.strerror}") from None
    path = Path(name)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123
            yield file
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        path.chmod(0o666 & ~mask)
        path.replace(target)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _places(run: Run, marked: list[Position]) -> list[Content]:
    # It takes a while to import, and is not always wanted.
    from rewind.cli.seen import see

    if run.imported:
        # Those that it came with.
        kept = [(archive.PLACES, "places.json"), (archive.SOURCES, "sources.json")]
        there = [(kind, run.path / name) for kind, name in kept if (run.path / name).exists()]
        return [Content.of_file(kind, path) for kind, path in there]
    try:
        found = see(run, marked)
    except Failure as error:
        warn(f"where threads were is not in the file: {error}")
        return []
    return [
        Content.of_bytes(archive.PLACES, dumps(found.looks)),
        Content.of_bytes(archive.SOURCES, dump_sources(found.sources)),
    ]


# --- what makes it again


def _paths(run: Run) -> Paths:
    """What it takes to make *run* again; it is had if it is not there.

    :raises Failure: if it can't be.
    """
    from rewind.cli.stopped import derivation_of, vmlinux_of

    drv = drvs.read(derivation_of(run))
    wanted = [f"{path}!{','.join(names)}" for path, names in drv.input_drvs.items()]
    roots = sorted({*nix.run("nix-store", "--realise", *wanted).split()})
    attributes = drv.attributes
    roots += [str(vmlinux_of(Path(attributes["settings"])).parent), str(drv.path)]
    job = Path(run.manifest().drv)
    if job.exists():
        # What rewind show names, and rewind fork takes.
        roots.append(str(job))
    roots = sorted({str(nix.STORE / Path(root).name) for root in roots})
    names = nix.run("nix-store", "--query", "--requisites", *roots).split()
    info = nix.info(names)
    found = []
    for path in sorted(info, key=lambda path: Path(path).name):
        one = info[path]
        ca = one.get("ca")
        found.append(
            StorePath(
                path,
                tuple(sorted(Path(name).name for name in one["references"])),
                Path(one["deriver"]).name if one.get("deriver") else None,
                ca if isinstance(ca, str) else None,
            )
        )
    return Paths(str(drv.path), tuple(roots), tuple(found))


def _dump(path: str) -> Callable[[], contextlib.AbstractContextManager[BinaryIO]]:
    @contextlib.contextmanager
    def opened() -> Iterator[BinaryIO]:
        with nix.stream("nix-store", "--dump", path) as stream:
            yield stream

    return opened
