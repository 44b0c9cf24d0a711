"""The trace's format: round trips, the stored sample, and what damaged input gets."""

import contextlib
import io
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import traces
from rewind.formats import FormatError, trace
from rewind.formats.schedule import Position
from rewind.formats.trace import (
    Arrivals,
    Detail,
    End,
    Frame,
    FrameSource,
    TraceReader,
    TraceWriter,
)

SAMPLE = Path(__file__).parent / "samples" / "trace"
"""Of version 1, which knew no wakes."""
WOKEN = Path(__file__).parent / "samples" / "trace-2"
SAMPLES = pytest.mark.parametrize("sample", [SAMPLE, WOKEN], ids=lambda path: path.name)


def read(path: Path) -> list[trace.Record]:
    with TraceReader(path) as reader:
        return list(reader.records())


def test_sample() -> None:
    """A file that version 0.1.0 wrote still means what it meant."""
    with TraceReader(SAMPLE) as reader:
        assert reader.steps == 21
        assert reader.end == End(1, 21, 6710, 5000)
        assert reader.duration == 1710
        records = list(reader.records())
    common = {"pid": 1, "tid": 1}
    assert records[:4] == [
        trace.Mark(step=0, time=0, text="job starts", **common),
        trace.Exec(step=1, time=100, path="/bin/sh", arguments=("sh", "-c", "make"), **common),
        trace.Enter(
            step=2,
            time=200,
            call=257,
            args=(2**64 - 100, 0x7F0000, 0o2000000, 0, 0, 0),
            ip=0x401000,
            details=(Detail(1, trace.PATH, False, b"/nix/store/hello"),),
            **common,
        ),
        trace.Exit(step=3, time=300, call=257, value=3, details=(), **common),
    ]
    assert records[6:8] == [
        trace.Fork(step=6, time=500, child_pid=2, child_tid=2, flags=0x1200011, **common),
        trace.Switch(step=7, time=600, state=1, next_pid=2, next_tid=2, name="sh", **common),
    ]
    thread = {"pid": 2, "tid": 3}
    assert records[12:17] == [
        trace.Perturbed(
            step=12,
            time=950,
            kind="stall",
            ns=1_000_000,
            ip=0x401234,
            user_ip=0,
            nothing=False,
            **thread,
        ),
        trace.SignalSent(
            step=13, time=1000, signal=15, receiver_pid=2, receiver_tid=2, code=0, **thread
        ),
        trace.TaskEnd(step=14, time=1100, code=0, name="make", last=False, **thread),
        trace.SignalDelivered(step=15, time=1200, pid=2, tid=2, signal=15, code=0, sender=2),
        trace.TaskEnd(step=16, time=1300, pid=2, tid=2, code=15, name="make", last=True),
    ]


def test_sample_of_wakes() -> None:
    """The same for what version 2 of the format added."""
    records = read(WOKEN)
    second, nobody = {"pid": 1, "tid": 2}, {"pid": 0, "tid": 0}
    assert [r for r in records if isinstance(r, trace.Wake)] == [
        trace.Wake(step=4, time=450, woken_pid=1, woken_tid=1, interrupt=False, **second),
        trace.Wake(step=12, time=1_000_800, woken_pid=1, woken_tid=2, interrupt=True, **nobody),
        trace.Wake(step=15, time=1_001_100, woken_pid=1, woken_tid=1, interrupt=True, **second),
    ]
    assert records[7] == trace.Perturbed(
        step=7,
        time=650,
        kind="stall",
        ns=1_000_000,
        ip=0xFFFFFFFF81000123,
        user_ip=0x401234,
        nothing=False,
        **second,
    )


@pytest.mark.parametrize(("path", "made"), [(SAMPLE, traces.sample), (WOKEN, traces.woken)])
def test_sample_is_what_is_written(path: Path, made: Callable[[], list[bytes]]) -> None:
    """The samples' records are written as they were, whatever the version of libzstd."""
    with TraceReader(path) as reader:
        assert list(reader.frames()) == traces.frames(made())


def test_source(tmp_path: Path) -> None:
    """From the device's stream to a file and back."""
    source = FrameSource(io.BytesIO(traces.stream(traces.sample())))
    with TraceWriter(tmp_path / "trace") as writer:
        for item in source:
            if isinstance(item, End):
                writer.finish(item)
            else:
                writer.add(item)
    assert (tmp_path / "trace").read_bytes() == traces.stored(traces.sample())
    assert read(tmp_path / "trace") == read(SAMPLE)


def test_source_takes_short_reads() -> None:
    """A pipe gives what it has."""

    class Pipe(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, 7))

    items = list(FrameSource(Pipe(traces.stream(traces.sample()))))
    assert items[:-1] == traces.frames(traces.sample())


@pytest.mark.parametrize("size", [0, 10, 32, 40, 500, -1])
def test_source_cut_short(size: int) -> None:
    with pytest.raises(FormatError, match="stops before its end"):
        list(FrameSource(io.BytesIO(traces.stream(traces.sample())[:size])))


def test_source_with_a_gap() -> None:
    """Frames that do not join are refused."""
    whole = traces.stream(traces.sample())
    first = 32 + len(traces.frames(traces.sample())[0].data)
    with pytest.raises(FormatError, match="at step 4 is malformed"):
        list(FrameSource(io.BytesIO(whole[first:])))


def test_where_perturbations_came() -> None:
    """The device says so in a frame of its own, which is no part of the trace."""
    never, before = 2**64 - 1, 2**64 - 2
    data = struct.pack("<8Q", 7, 3, never, 0, before, 0, 9, 0)
    frame = struct.pack("<4sIIIQQ", b"RWFR", len(data), 0, 2, 0, 0) + data
    plain = FrameSource(io.BytesIO(traces.stream(traces.sample())))
    source = FrameSource(io.BytesIO(frame + traces.stream(traces.sample())))
    assert list(source) == list(plain)
    assert plain.arrivals == Arrivals((), frozenset())
    assert source.arrivals == Arrivals((Position(7, 3), None, None, Position(9)), frozenset({2}))
    with pytest.raises(FormatError, match="of its schedule is malformed"):
        list(FrameSource(io.BytesIO(struct.pack("<4sIIIQQ", b"RWFR", 8, 0, 2, 0, 0) + bytes(8))))


def test_source_refuses_a_huge_frame() -> None:
    head = struct.pack("<4sIIIQQ", b"RWFR", 0xFFFFFFFF, 1, 0, 0, 0)
    with pytest.raises(FormatError, match="no frame"):
        list(FrameSource(io.BytesIO(head)))


@pytest.mark.parametrize("first", [0, 3, 4, 7, 20, 21, 500])
@pytest.mark.parametrize("last", [0, 3, 4, 8, 20, 500, None])
def test_ranges(first: int, last: int | None) -> None:
    """A range of steps, wherever it falls among the frames."""
    whole = read(SAMPLE)
    with TraceReader(SAMPLE) as reader:
        stop = None if last is None else last + 1
        assert list(reader.records(first, last)) == whole[first:stop]


def test_no_records(tmp_path: Path) -> None:
    path = traces.write(tmp_path / "trace", [])
    assert read(path) == []


def test_empty_frames_are_not_kept() -> None:
    """The device may flush when it has nothing."""
    empty = struct.pack("<4sIIIQQ", b"RWFR", 0, 0, 0, 0, 0)
    items = list(FrameSource(io.BytesIO(empty + traces.stream(traces.sample()))))
    assert items[:-1] == traces.frames(traces.sample())


@SAMPLES
@given(data=st.data())
@settings(deadline=None)
def test_damage_is_seen(
    tmp_path_factory: pytest.TempPathFactory, sample: Path, data: st.DataObject
) -> None:
    """Whichever byte of the file changes, reading it raises FormatError, or changes nothing.

    The same data can be compressed in many ways. (A byte that makes the one version of another that
    is known is not seen.)
    """
    content = bytearray(sample.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1).filter(lambda at: not 12 <= at < 16))
    content[at] ^= data.draw(st.integers(1, 255))
    assume(at != 8 or content[at] not in (1, 2))
    path = tmp_path_factory.mktemp("damage") / "trace"
    path.write_bytes(content)
    with contextlib.suppress(FormatError):
        assert read(path) == read(sample)


@given(size=st.integers(0, SAMPLE.stat().st_size - 1))
@settings(deadline=None)
def test_truncation_is_seen(tmp_path_factory: pytest.TempPathFactory, size: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "trace"
    path.write_bytes(SAMPLE.read_bytes()[:size])
    with pytest.raises(FormatError, match=r"cut short|no trace"):
        read(path)


@given(data=st.binary(max_size=300), records=st.integers(1, 10))
def test_malformed_records(data: bytes, records: int) -> None:
    """Bytes that are no records raise FormatError, and nothing else."""
    with pytest.raises(FormatError, match="damaged at step"):
        list(trace.decode(Frame(0, 0, records, b"\xff" * 8 + data)))


@pytest.mark.parametrize("made", [traces.sample, traces.woken])
@given(data=st.data())
def test_damaged_records(made: Callable[[], list[bytes]], data: st.DataObject) -> None:
    """Any record with a byte changed is read as some record, or raises FormatError."""
    whole = made()
    content = bytearray(b"".join(whole))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        records = list(trace.decode(Frame(0, 0, len(whole), bytes(content))))
    except FormatError:
        return
    assert len(records) == len(whole)


@pytest.mark.parametrize("version", [0, 3])
def test_unknown_version(tmp_path: Path, version: int) -> None:
    content = bytearray(SAMPLE.read_bytes())
    content[8] = version
    (tmp_path / "trace").write_bytes(content)
    said = f"version {version}; this rewind reads versions up to 2"
    with pytest.raises(FormatError, match=said):
        TraceReader(tmp_path / "trace")


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="No such file"):
        TraceReader(tmp_path / "trace")


def test_bomb(tmp_path: Path) -> None:
    """A frame that would decompress to more than the index says is refused before it does."""
    content = SAMPLE.read_bytes()
    with TraceReader(SAMPLE) as reader:
        entry = reader.entries[-1]
    bomb = zstandard.ZstdCompressor().compress(bytes(50 << 20))
    assert len(bomb) > entry.packed_size
    cut = entry.offset + trace._FRAME.size
    (tmp_path / "trace").write_bytes(
        content[:cut] + bomb[: entry.packed_size] + content[cut + entry.packed_size :]
    )
    with pytest.raises(FormatError, match="does not match the index"):
        read(tmp_path / "trace")
