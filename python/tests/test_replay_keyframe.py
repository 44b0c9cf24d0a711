"""Keyframes as files: what is written is what is read, and nothing else is taken for it."""

import os
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind.formats.schedule import Position
from rewind.replay.keyframe import (
    DEPTH_MAX,
    DamagedError,
    Keyframe,
    Level,
    Name,
    differences,
    write,
)

PAGE = 4096
PAGES = 600
"""More than are compared at once."""
KEY = bytes(range(16))

Memory = Mapping[int, int]
"""What each page is full of, by number; zero if it is not there."""

memories = st.dictionaries(st.integers(0, PAGES - 1), st.integers(0, 3), max_size=12)


class File(int):
    """A file descriptor that is closed when nobody has it any more."""

    def __del__(self) -> None:
        os.close(self)


def file_of(memory: Memory) -> File:
    """A file descriptor of such a memory."""
    file = File(os.memfd_create("memory"))
    os.ftruncate(file, PAGES * PAGE)
    for page, value in memory.items():
        os.pwrite(file, bytes([value]) * PAGE, page * PAGE)
    return file


def content(file: int) -> bytes:
    return os.pread(file, PAGES * PAGE, 0)


def put(base: Memory, memory: Memory, time: int, parent: Keyframe | None = None) -> Keyframe:
    """A keyframe of *memory*."""
    return write(
        os.memfd_create("keyframe"),
        name=Name(KEY, time),
        position=Position(time, 5),
        parent=parent,
        base=Level.of_memory(file_of(base)),
        state=b"state %d" % time,
        memory=file_of(memory),
    )


def again(keyframe: Keyframe) -> Keyframe:
    """It, from its file, as another process reads it."""
    parent = keyframe.parent

    def below(name: Name) -> Keyframe:
        assert parent is not None
        assert name == parent.name
        return again(parent)

    return Keyframe.read(os.dup(keyframe.file), below)


def filled(base: Memory, keyframe: Keyframe) -> bytes:
    file = file_of(base)
    for one in keyframe.chain():
        one.fill(file)
    return content(file)


@given(st.lists(memories, min_size=2, max_size=5))
def test_a_chain(steps: list[Memory]) -> None:
    """Each memory is put together from those below, whatever changed in between."""
    base, *rest = steps
    keyframe = None
    now: dict[int, int] = dict(base)
    for time, changes in enumerate(rest, 1):
        now |= changes
        keyframe = put(base, now, time, keyframe)
        read = again(keyframe)
        assert filled(base, read) == filled(base, keyframe) == content(file_of(now))
        assert (read.state, read.position, read.time) == (
            b"state %d" % time,
            Position(time, 5),
            time,
        )
        assert read.depth == time


def test_only_what_differs_is_kept() -> None:
    base = {page: 1 for page in range(100)}
    first = put(base, {**base, 3: 2, 4: 2, 300: 7, 301: 0}, 1)
    assert [extent[:2] for extent in first.level.extents] == [
        (3 * PAGE, 5 * PAGE),
        (300 * PAGE, 301 * PAGE),
    ]
    second = put(base, {**base, 3: 2, 4: 3, 300: 0}, 2, first)
    assert [extent[:2] for extent in second.level.extents] == [
        (4 * PAGE, 5 * PAGE),
        (300 * PAGE, 301 * PAGE),
    ]
    assert os.fstat(second.file).st_size == second.size < 5 * PAGE


def test_the_highest_level_counts() -> None:
    levels = [Level.of_memory(file_of({1: 1, 2: 1})), Level.of_memory(file_of({2: 2}))]
    assert list(differences(file_of({1: 1, 2: 2}), levels)) == []
    assert list(differences(file_of({1: 1, 2: 1}), levels)) == [(2 * PAGE, b"\1" * PAGE)]


def test_depth_is_bounded() -> None:
    base: Memory = {}
    now: dict[int, int] = {}
    keyframe = None
    for time in range(1, 3 * DEPTH_MAX):
        now[time] = 1
        keyframe = put(base, now, time, keyframe)
        assert keyframe.depth == len(keyframe.chain()) <= DEPTH_MAX
        assert filled(base, keyframe) == content(file_of(now))


@given(st.data())
def test_any_bit(data: st.DataObject) -> None:
    """A file in which a bit is another is not used."""
    keyframe = put({}, {1: 1, 5: 2}, 1)
    size = keyframe.size
    at = data.draw(st.one_of(st.integers(0, 200), st.integers(0, size - 1)))
    bit = data.draw(st.integers(0, 7))
    (byte,) = os.pread(keyframe.file, 1, at)
    os.pwrite(keyframe.file, bytes([byte ^ 1 << bit]), at)
    with pytest.raises(DamagedError):
        again(keyframe)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.999])
def test_cut_short(part: float) -> None:
    keyframe = put({}, {1: 1, 5: 2}, 1)
    os.truncate(keyframe.file, int(keyframe.size * part))
    with pytest.raises(DamagedError, match=r"cut short|checksum"):
        again(keyframe)


def test_another_version() -> None:
    keyframe = put({}, {}, 1)
    os.pwrite(keyframe.file, b"\xff", 8)
    with pytest.raises(DamagedError, match="it is of version 255, and not of version 1"):
        again(keyframe)


def test_names() -> None:
    name = Name(KEY, 123)
    assert Name.parse(str(name)) == name
    for text in ("", "x", f"{KEY.hex()}-", f"{KEY.hex()}-x", f"{'x' * 32}-1", f"{KEY.hex()[1:]}-1"):
        assert Name.parse(text) is None
