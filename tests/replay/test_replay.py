"""Goes to points of a run, and on from there: what follows is the recorded trace, to the byte.

REWIND_ATTRIBUTES is the file with the run's attributes, REWIND_TRACE its trace.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from rewind.formats.schedule import Position
from rewind.formats.trace import End, FrameSource, TraceReader, walk
from rewind.recorder.request import RunRequest, attributes
from rewind.replay.cache import Cache
from rewind.replay.keyframe import Keyframe
from rewind.replay.timeline import NEAR, Timeline


@attrs.define
class Run:
    """The recorded run, and a directory for its keyframes."""

    request: RunRequest
    reader: TraceReader
    path: Path
    said: list[str] = attrs.field(factory=list)

    def timeline(self) -> Timeline:
        """As a new process has it."""
        return Timeline.of(self.request, self.reader, Cache(self.path, warn=self.said.append))

    def rest(self, step: int) -> bytes:
        """The records from *step* on."""
        data = b""
        for frame in self.reader.frames(step):
            at = 0
            for raw in walk(frame):
                if raw.step >= step:
                    break
                at = raw.end
            data += frame.data[at:]
        return data

    @property
    def perturbed(self) -> list[int]:
        """When something of the schedule is due."""
        with self.timeline() as timeline:
            return [timeline.time(one.position) for one in self.request.schedule]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    told = attributes(Path(os.environ["REWIND_ATTRIBUTES"]))
    # Nothing is recorded.
    request = RunRequest.parse({**told, "outputs": {"out": "/nowhere", "nars": "/nowhere"}})
    with TraceReader(Path(os.environ["REWIND_TRACE"])) as reader:
        yield Run(request, reader, tmp_path_factory.mktemp("cache") / "keyframes")


def goes_on(run: Run, timeline: Timeline, keyframe: Keyframe, path: Path) -> None:
    """From *keyframe* it goes on as the run did, to its end."""
    with timeline.machine(
        keyframe.time, after=keyframe, stop=False, arguments=("-global", f"rewind.trace={path}")
    ) as replayed:
        assert replayed.since == keyframe.time
        replayed.machine.process.wait()
    first = keyframe.position.step + 1
    with path.open("rb", buffering=0) as file:
        *frames, end = FrameSource(file, first)
    assert end == run.reader.end
    data = b"".join(frame.data for frame in frames if not isinstance(frame, End))
    assert data == run.rest(first)


def test_goes_on(run: Run, tmp_path: Path) -> None:
    """From keyframes at a step, within one, and before, behind and between what is due."""
    stall, reschedule = run.perturbed
    with run.timeline() as timeline:
        # The second counts from a step that is long over.
        assert timeline.position(reschedule).step > 12000
        for time, exactly in (
            (timeline.time(Position(3000)), True),
            (timeline.time(Position(3000)) + 7, True),
            (stall - 1, True),
            (stall, False),
            (stall + 1, True),
            (reschedule - 1, True),
            (reschedule, False),
            (reschedule + 1, True),
        ):
            keyframe = timeline.keyframe(time)
            assert keyframe.time == (time if exactly else time - 1)
            assert keyframe.position == timeline.position(keyframe.time)
            goes_on(run, timeline, keyframe, tmp_path / "trace")
    assert run.said == []


def test_goes_on_from_disk(run: Run, tmp_path: Path) -> None:
    """So it is in another process, which finds the files."""
    stall, reschedule = run.perturbed
    for time in (stall + 1, reschedule + 1):
        with run.timeline() as timeline:
            keyframe = timeline.before(time + NEAR // 2)
            assert keyframe is not None and keyframe.time == time
            assert keyframe.depth > 1
            goes_on(run, timeline, keyframe, tmp_path / "trace")


def test_stops_where_it_is_to(run: Run) -> None:
    """From a keyframe, near to one, and at its own place, it is the same machine."""
    stall, _ = run.perturbed

    def looks(timeline: Timeline, time: int, after: Keyframe | None = None) -> object:
        with timeline.machine(time, after=after) as replayed:
            registers = replayed.registers()
            pages = [replayed.memory.read(at, 4096) for at in range(0, 64 << 20, 1 << 16)]
            return registers, pages

    with run.timeline() as timeline:
        before = timeline.keyframe(stall - NEAR // 2)
        for time in (stall - 1, stall, stall + 1, stall + 12345):
            from_before = looks(timeline, time, before)
            # Of its own now, and by a private mapping.
            timeline.keyframe(time)
            assert looks(timeline, time) == from_before
        assert looks(timeline, stall) != looks(timeline, stall + 1)


def test_leaves_keyframes(run: Run, tmp_path: Path) -> None:
    """One at the place that was asked for, from which the next question starts."""
    there = attrs.evolve(run, path=tmp_path / "keyframes")
    stall, _ = run.perturbed
    with there.timeline() as timeline:
        assert timeline.before(stall + 1000) is None
        with timeline.machine(stall + 1000) as replayed:
            assert replayed.since == 0
    with there.timeline() as timeline, timeline.machine(stall + 2000) as replayed:
        assert replayed.since == stall + 1000
    # What is near to one is not worth another.
    assert len(list((tmp_path / "keyframes").glob("*.keyframe"))) <= 3


def test_more_stops(run: Run) -> None:
    """It can be let go on to other places."""
    stall, _ = run.perturbed
    times = [stall + 10, stall + 500]
    with run.timeline() as timeline:
        pointers = []
        for time in times:
            with timeline.machine(time) as replayed:
                pointers.append(replayed.registers())
        with timeline.machine(stall, stops=times) as replayed:
            for expected in pointers:
                replayed.monitor.execute("cont")
                replayed.stopped()
                assert replayed.registers() == expected


def test_without_a_directory(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    there = attrs.evolve(run, path=tmp_path / "file" / "keyframes", said=[])
    stall, _ = run.perturbed
    with there.timeline() as timeline:
        keyframe = timeline.keyframe(stall + 1)
        goes_on(run, timeline, keyframe, tmp_path / "trace")
        with timeline.machine(stall + 2) as replayed:
            assert replayed.since == stall + 1
    assert there.said == []
