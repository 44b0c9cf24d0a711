"""Bookmarks: notes at positions of a run.

They are the user's and no part of the run: a file for each run, JSON::

    {"format": "rewind-bookmarks", "version": 1,
     "bookmarks": [{"at": "19043+437", "note": "the store that is lost"}, …]}

in order of position. The file is replaced whole; who changes it has a lock on the directory.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import attrs

from rewind.formats import FormatError
from rewind.formats.schedule import Position

FORMAT = "rewind-bookmarks"
VERSION = 1
NOTE_MAX = 1000
"""Characters of a note."""
BOOKMARKS_MAX = 10_000
"""Of a run."""
BYTES_MAX = 64 << 20
"""Of a file: all notes as long as they can be."""


@attrs.frozen(order=True)
class Bookmark:
    """A *note* at a position.

    :raises FormatError: if the note is empty, too long, or has lines.
    """

    position: Position
    note: str

    def __attrs_post_init__(self) -> None:
        if not self.note.strip():
            raise FormatError("a bookmark has a note that says something")
        if len(self.note) > NOTE_MAX:
            raise FormatError(
                f"a bookmark's note has up to {NOTE_MAX:,} characters, not {len(self.note):,}"
            )
        if not self.note.isprintable():
            raise FormatError("a bookmark's note is one line, without control characters")

    def to_data(self) -> dict[str, str]:
        """It as what JSON can hold."""
        return {"at": str(self.position), "note": self.note}

    @classmethod
    def from_data(cls, data: Any) -> Self:
        """What `to_data` was made of.

        :raises FormatError: if *data* is no bookmark.
        """
        match data:
            case {"at": str(at), "note": str(note)}:
                return cls(Position.parse(at), note)
        raise FormatError("this is no bookmark")


def dumps(bookmarks: Iterable[Bookmark]) -> bytes:
    """The file's content."""
    data = {
        "format": FORMAT,
        "version": VERSION,
        "bookmarks": [bookmark.to_data() for bookmark in sorted(set(bookmarks))],
    }
    return json.dumps(data, ensure_ascii=False, indent=1).encode() + b"\n"


def loads(data: bytes) -> list[Bookmark]:
    """The bookmarks of a file's content, in order.

    :raises FormatError: if it is none, damaged, or of a later version.
    """
    try:
        found = json.loads(data)
    # The last is of a list in a list in a list …
    except (ValueError, RecursionError):
        raise FormatError("the bookmarks are damaged: they are no JSON") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise FormatError("these are no bookmarks")
    if found.get("version") != VERSION:
        raise FormatError(
            f"the bookmarks are of version {found.get('version')}; this rewind reads version"
            f" {VERSION}"
        )
    entries = found.get("bookmarks")
    if not isinstance(entries, list) or len(entries) > BOOKMARKS_MAX:
        raise FormatError(f"the bookmarks are damaged, or more than {BOOKMARKS_MAX:,}")
    return sorted({Bookmark.from_data(entry) for entry in entries})


@attrs.frozen
class Bookmarks:
    """The bookmarks of runs in *directory*, which need not be there."""

    directory: Path

    def of(self, run: str) -> list[Bookmark]:
        """Those of the run with the hash *run*, in order.

        :raises FormatError: if they can't be read.
        """
        try:
            with self._path(run).open("rb") as file:
                data = file.read(BYTES_MAX + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FormatError(f"{self._path(run)}: {error.strerror}") from None
        if len(data) > BYTES_MAX:
            raise FormatError(f"{self._path(run)} is larger than any bookmarks are")
        try:
            return loads(data)
        except FormatError as error:
            raise FormatError(f"{self._path(run)}: {error}") from None

    def add(self, run: str, bookmarks: Iterable[Bookmark]) -> int:
        """Add *bookmarks* to those of *run*; how many there had not been.

        :raises FormatError: if there would be too many, or those there are can't be read.
        :raises OSError: if they can't be written.
        """
        new = set(bookmarks)
        return self._change(run, lambda old: old | new)

    def remove(self, run: str, position: Position) -> int:
        """Remove those at *position*; how many there were.

        :raises FormatError: if they can't be read.
        :raises OSError: if they can't be written.
        """
        return self._change(run, lambda old: {one for one in old if one.position != position})

    def _path(self, run: str) -> Path:
        return self.directory / f"{run}.json"

    def _change(self, run: str, change: Callable[[set[Bookmark]], set[Bookmark]]) -> int:
        self.directory.mkdir(parents=True, exist_ok=True)
        with self._locked():
            old = set(self.of(run))
            new = change(old)
            if len(new) > BOOKMARKS_MAX:
                raise FormatError(f"a run has up to {BOOKMARKS_MAX:,} bookmarks")
            if not new:
                self._path(run).unlink(missing_ok=True)
            elif new != old:
                _replace(self._path(run), dumps(new))
            return len(new ^ old)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        # It stays: a lock on a file that somebody removes is none.
        file = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)


def _replace(path: Path, data: bytes) -> None:
    file, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(file, "wb") as new:  # noqa: PTH123
            new.write(data)
            new.flush()
            os.fsync(new.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
