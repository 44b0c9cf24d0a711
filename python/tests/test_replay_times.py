"""The times of a run's steps, as its trace has them."""

from pathlib import Path

import pytest

import traces
from rewind.formats.trace import TraceReader, walk
from rewind.replay.times import Times


def test_times(tmp_path: Path) -> None:
    """They are those of the records, whatever frame they are in."""
    records = [traces.leave(1, 16, 0, time=1000 + 7 * step) for step in range(3000)]
    with TraceReader(traces.write(tmp_path / "trace", records)) as reader:
        times = Times(reader)
        expected = [raw.time for frame in reader.frames() for raw in walk(frame)]
        assert len(times) == len(expected) == 3000
        assert list(times) == expected
        assert times[10:20] == expected[10:20]
        assert [times[step] for step in (2999, 0, 1500)] == [
            expected[step] for step in (2999, 0, 1500)
        ]
        for step in (-1, 3000):
            with pytest.raises(IndexError):
                times[step]
