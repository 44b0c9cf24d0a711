"""Where two traces part."""

from pathlib import Path

import pytest

import traces
from rewind.analysis.difference import first_difference
from rewind.analysis.excerpt import line
from rewind.formats.trace import TraceReader


def parts_at(tmp_path: Path, first: list[bytes], second: list[bytes], size: int = 4) -> int | None:
    one = traces.write(tmp_path / "one", first)
    other = traces.write(tmp_path / "other", second, size)
    with TraceReader(one) as a, TraceReader(other) as b:
        found = first_difference(a, b)
        return None if found is None else found.step


@pytest.mark.parametrize("size", [1, 3, 4, 100])
def test_same(tmp_path: Path, size: int) -> None:
    """Whatever their frames are."""
    assert parts_at(tmp_path, traces.sample(), traces.sample(), size) is None


@pytest.mark.parametrize("size", [1, 3, 4, 100])
@pytest.mark.parametrize("step", [0, 3, 4, 17, 20])
def test_time_differs(tmp_path: Path, size: int, step: int) -> None:
    changed = traces.sample()
    changed[step] = bytes([changed[step][0] ^ 1]) + changed[step][1:]
    assert parts_at(tmp_path, traces.sample(), changed, size) == step


@pytest.mark.parametrize("length", [0, 4, 19])
def test_one_is_longer(tmp_path: Path, length: int) -> None:
    assert parts_at(tmp_path, traces.sample(), traces.sample()[:length]) == length
    assert parts_at(tmp_path, traces.sample()[:length], traces.sample()) == length


def test_line(tmp_path: Path) -> None:
    with TraceReader(traces.write(tmp_path / "trace", traces.sample())) as reader:
        assert line(reader, 8) == ' 8             700  2          write(1, "line\\n\\xff")'
        assert line(reader, 9) == " 9             710  2          … write = 6"
        assert line(reader, 21) == "the trace has ended"


def test_line_of_a_wake(tmp_path: Path) -> None:
    """It is one of the records that may differ."""
    with TraceReader(traces.write(tmp_path / "trace", traces.woken())) as reader:
        assert line(reader, 4) == " 4             450  1/2        wakes 1"
