"""Bookmarks: their file, and what may have happened to it."""

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind.formats import FormatError
from rewind.formats.schedule import Position
from rewind.travel import bookmarks
from rewind.travel.bookmarks import Bookmark, Bookmarks

RUN = "a" * 32


def at(step: int, note: str = "x", offset: int = 0) -> Bookmark:
    return Bookmark(Position(step, offset), note)


def test_they_are_kept_in_order_and_once(tmp_path: Path) -> None:
    kept = Bookmarks(tmp_path / "new")
    assert kept.of(RUN) == []
    assert kept.add(RUN, [at(9), at(3, "y", 2)]) == 2
    assert kept.add(RUN, [at(9), at(9, "z")]) == 1
    assert kept.of(RUN) == [at(3, "y", 2), at(9), at(9, "z")]
    assert kept.remove(RUN, Position(9)) == 2
    assert kept.remove(RUN, Position(9)) == 0
    assert kept.remove(RUN, Position(3, 2)) == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["lock"]


@given(st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 2**63), st.text(min_size=1))))
def test_what_is_written_is_read(entries: list[tuple[int, int, str]]) -> None:
    made = []
    for step, offset, note in entries:
        try:
            made.append(at(step, note, offset))
        except FormatError:
            continue
    assert bookmarks.loads(bookmarks.dumps(made)) == sorted(set(made))


@pytest.mark.parametrize("note", ["", "  ", "a\nb", "\x1b[2J", "x" * 1001])
def test_a_note_is_a_line(note: str) -> None:
    with pytest.raises(FormatError):
        at(1, note)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no bookmarks"),
        (b'{"format": "rewind-bookmarks", "version": 2}', "of version 2"),
        (b'{"format": "rewind-bookmarks", "version": 1}', "damaged"),
        (b'{"format": "rewind-bookmarks", "version": 1, "bookmarks": [1]}', "no bookmark"),
        (
            json.dumps(
                {
                    "format": "rewind-bookmarks",
                    "version": 1,
                    "bookmarks": [{"at": "-1", "note": "x"}],
                }
            ).encode(),
            "no position",
        ),
    ],
)
def test_a_damaged_file_is_refused_and_not_replaced(tmp_path: Path, data: bytes, says: str) -> None:
    file = tmp_path / f"{RUN}.json"
    file.write_bytes(data)
    with pytest.raises(FormatError, match=says):
        Bookmarks(tmp_path).of(RUN)
    with pytest.raises(FormatError):
        Bookmarks(tmp_path).add(RUN, [at(1)])
    assert file.read_bytes() == data


def test_many_at_once_lose_nothing(tmp_path: Path) -> None:
    kept = Bookmarks(tmp_path)
    threads = [threading.Thread(target=kept.add, args=(RUN, [at(number)])) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert kept.of(RUN) == [at(number) for number in range(20)]
