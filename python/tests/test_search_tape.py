"""Traces in memory: copied, continued, and written as the device would have sent them at once."""

import io
import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import traces
from rewind.formats import FormatError
from rewind.formats.trace import ENTER, FRAME_BYTES, Frame, TraceReader, TraceWriter, walk
from rewind.search import tape as module
from rewind.search.tape import Tape

ROOM = 400
"""What a frame may grow to in these tests, that random records are no megabytes."""

RECORDS = st.lists(
    st.one_of(
        st.binary(max_size=ROOM - 24).map(lambda data: traces.record(1, 1, 1, payload=data)),
        st.integers(0, 300).map(lambda call: traces.enter(1, call)),
    ),
    max_size=40,
).map(lambda records: [stamped(number, record) for number, record in enumerate(records)])


@pytest.fixture(autouse=True, scope="module")
def small_frames() -> object:
    """Frames of `ROOM` bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FRAME_BYTES", ROOM)
        yield


def stamped(number: int, record: bytes) -> bytes:
    """*record* at a time of its own."""
    return struct.pack("<Q", traces.START + 7 * number) + record[8:]


def device(records: Sequence[bytes], first: int = 0, stops: Sequence[int] = ()) -> list[Frame]:
    """What the device sends of *records*, from step *first* on: rewind_trace in hw/misc/rewind.c.

    Before a step in *stops* it has sent all that was.
    """
    frames: list[Frame] = []
    data = b""
    begin = first
    for step, record in enumerate(records[first:], first):
        if data and (len(data) + len(record) > ROOM or step in stops):
            frames.append(frame(records, begin, step))
            data, begin = b"", step
        data += record
    if data:
        frames.append(frame(records, begin, len(records)))
    return frames


def frame(records: Sequence[bytes], begin: int, end: int) -> Frame:
    (time,) = struct.unpack_from("<Q", records[begin])
    return Frame(begin, time, end - begin, b"".join(records[begin:end]))


def taped(frames: Sequence[Frame]) -> Tape:
    tape = Tape()
    for one in frames:
        tape.add(one)
    return tape


@given(RECORDS, st.lists(st.integers(0, 40)))
def test_a_stop_leaves_no_mark(records: list[bytes], stops: list[int]) -> None:
    tape = taped(device(records, stops=stops))
    whole = device(records)
    assert list(tape.frames()) == whole
    assert tape.steps == len(records)
    assert tape.digest() == taped(whole).digest()


@given(RECORDS, st.data())
def test_continued_it_is_the_same(records: list[bytes], data: st.DataObject) -> None:
    """As forks of forks are, wherever their keyframes were taken."""
    stops = st.lists(st.integers(0, 40))
    tape = Tape()
    for at in sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=3))):
        tape = tape.copy()
        for one in device(records[:at], first=tape.steps, stops=data.draw(stops)):
            tape.add(one)
        assert tape.steps == at
        assert list(tape.frames()) == device(records[:at])
    for one in device(records, first=tape.steps, stops=data.draw(stops)):
        tape.add(one)
    assert list(tape.frames()) == device(records)


@given(RECORDS, st.data())
def test_a_copy_leaves_the_other_alone(records: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(records)))
    tape = taped(device(records[:at]))
    other = tape.copy()
    other.add(Frame(at, 0, 1, traces.record(1, 1, 1)))
    for one in device(records, first=at):
        tape.add(one)
    assert list(tape.frames()) == device(records)
    assert (other.steps, len(other.times())) == (at + 1, at + 1)


@given(RECORDS, st.integers(0, 45), st.integers(0, 45))
def test_records_and_times(records: list[bytes], first: int, last: int) -> None:
    tape = taped(device(records))
    found = list(tape.records(traces.START))
    assert [record.step for record in found] == list(range(len(records)))
    assert [record.time for record in found] == [7 * step for step in range(len(records))]
    assert list(tape.records(traces.START, first, last)) == found[first : last + 1]
    assert list(tape.records(traces.START, first)) == found[first:]
    calls = tape.records(traces.START, first, last, lambda kind, aux: kind == ENTER)
    assert list(calls) == [r for r in found[first : last + 1] if r.type == "enter"]
    assert tape.times() == [traces.START + 7 * step for step in range(len(records))]


def test_times_of_a_tape_that_grew() -> None:
    records = [stamped(number, record) for number, record in enumerate(traces.sample())]
    tape = taped(device(records[:5]))
    assert len(tape.times()) == 5
    tape.add(frame(records, 5, len(records)))
    assert len(tape.times()) == len(records)


@given(RECORDS, st.lists(st.integers(0, 40)))
def test_the_file_that_a_recorder_writes(records: list[bytes], stops: list[int]) -> None:
    end = traces.ending(records)
    expected = io.BytesIO()
    writer = TraceWriter(expected)
    for one in device(records):
        writer.add(one)
    writer.finish(end)
    with pytest.MonkeyPatch.context() as patch:
        written = io.BytesIO()
        patch.setattr(module, "TraceWriter", lambda path: TraceWriter(written))
        taped(device(records, stops=stops)).write(Path("unused"), end)
    assert written.getvalue() == expected.getvalue()


def test_a_file(tmp_path: Path) -> None:
    records = traces.sample()
    taped(traces.frames(records, size=2)).write(tmp_path / "trace", traces.ending(records))
    with TraceReader(tmp_path / "trace") as reader:
        assert len(list(reader.records())) == len(records)
        assert reader.end == traces.ending(records)


def test_frames_must_join() -> None:
    records = traces.sample()
    tape = taped([frame(records, 0, 4)])
    for begin in (0, 3, 5):
        with pytest.raises(ValueError, match="does not follow 4"):
            tape.add(frame(records, begin, 8))
    tape.add(frame(records, 4, 8))


def test_an_empty_tape() -> None:
    tape = Tape()
    assert (tape.steps, tape.size, list(tape.frames()), tape.times()) == (0, 0, [], [])
    assert list(tape.records(0)) == []
    assert tape.copy().steps == 0


def test_a_record_that_is_no_record() -> None:
    tape = taped([Frame(0, 0, 2, traces.record(1, 1, 1) * 3)])
    with pytest.raises(FormatError, match="damaged"):
        list(tape.frames())


def test_frames_are_as_large_as_the_devices() -> None:
    """With the room that they really have."""
    big = [stamped(n, traces.record(1, 1, 1, payload=bytes(1000))) for n in range(600)]
    data = b"".join(big)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FRAME_BYTES", FRAME_BYTES)
        frames = list(taped([Frame(0, traces.START, 600, data)]).frames())
    most = FRAME_BYTES // len(big[0])
    assert [one.records for one in frames] == [most, most, 600 - 2 * most]
    ends = accumulate(one.records for one in frames)
    assert [one.first_step for one in frames[1:]] == list(ends)[:-1]
    for before, after in pairwise(frames):
        assert after.first_time - before.first_time == 7 * before.records
    assert all(len(list(walk(one))) == one.records for one in frames)
