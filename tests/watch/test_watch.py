"""Replays a run with the plugin that watches: it is the run, to the byte, and stops are exact.

REWIND_ATTRIBUTES is the file with the run's attributes, REWIND_TRACE its trace, REWIND_VMLINUX its
kernel, REWIND_PLUGIN the plugin and REWIND_RACES_PLUGIN the one that finds races.
"""

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from rewind.formats.schedule import Position
from rewind.formats.trace import End, FrameSource, TraceReader
from rewind.inspect.answers import KernelPlaces
from rewind.inspect.kernel import Kernel
from rewind.inspect.machine import Machine
from rewind.machine import MachineError
from rewind.recorder.request import RunRequest, attributes
from rewind.replay.cache import Cache
from rewind.replay.races import Analyser, Images, changes
from rewind.replay.timeline import Replayed, Timeline
from rewind.replay.watch import HITS_MAX, Access, Hit, Watch, Watcher

EVERYTHING = (Access(0, 1 << 40, reads=True),)
"""All of the machine's memory, by physical addresses."""
STOPS = 40
COMPARED = 6
"""Stops of a kind that are compared with the device's."""


@attrs.define
class Run:
    """The recorded run, its kernel, and all of its records."""

    request: RunRequest
    reader: TraceReader
    places: KernelPlaces
    keyframes: Path

    def timeline(self) -> Timeline:
        """Its keyframes are those of all tests."""
        return Timeline.of(self.request, self.reader, Cache(self.keyframes))

    def watcher(self) -> Watcher:
        """The plugin's."""
        return Watcher(Path(os.environ["REWIND_PLUGIN"]), self.places)

    @contextlib.contextmanager
    def going(self, watcher: Watcher, trace: Path) -> Iterator[Replayed]:
        """A machine that goes on from its boot, and writes its trace."""
        with (
            self.timeline() as timeline,
            timeline.machine(
                timeline.start,
                stop=False,
                arguments=(*watcher.arguments, "-global", f"rewind.trace={trace}"),
                pass_fds=watcher.pass_fds,
            ) as replayed,
        ):
            assert replayed.since == 0
            yield replayed

    def check(self, trace: Path) -> None:
        """What *trace* has is the run."""
        with trace.open("rb", buffering=0) as file:
            *frames, end = FrameSource(file)
        assert end == self.reader.end
        data = b"".join(frame.data for frame in frames if not isinstance(frame, End))
        assert data == b"".join(frame.data for frame in self.reader.frames())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    told = attributes(Path(os.environ["REWIND_ATTRIBUTES"]))
    # Nothing is recorded.
    request = RunRequest.parse({**told, "outputs": {"out": "/nowhere", "nars": "/nowhere"}})
    places = Kernel(Path(os.environ["REWIND_VMLINUX"])).places()
    with TraceReader(Path(os.environ["REWIND_TRACE"])) as reader:
        yield Run(request, reader, places, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def last(run: Run, tmp_path_factory: pytest.TempPathFactory) -> list[Hit]:
    """The last accesses of the job: of a whole run in which every access was a hit."""
    trace = tmp_path_factory.mktemp("everything") / "trace"
    with run.watcher() as watcher:
        # The last ones of all are the kernel's, which ends the job.
        before = run.reader.end.time
        while True:
            watch = Watch(physical=EVERYTHING, before=before, stop=False, keep=HITS_MAX)
            watcher.set(watch)
            with run.going(watcher, trace) as replayed:
                replayed.machine.process.wait()
            run.check(trace)
            hits = watcher.hits()
            assert len(hits) == HITS_MAX < watcher.total
            own = [hit for hit in hits if not hit.kernel]
            if len(own) > HITS_MAX // 100:
                return hits
            before = hits[0].time


def test_times_are_in_order(last: list[Hit]) -> None:
    assert all(one.time <= other.time for one, other in itertools.pairwise(last))
    assert {hit.kind for hit in last} == {"read", "write"}


def wanted(last: list[Hit]) -> Watch:
    """Something of each kind, of the process that has most of *last*."""
    own = [hit for hit in last if not hit.kernel]
    processes = [hit.pid for hit in own]
    process = max(set(processes), key=processes.count)
    own = [hit for hit in own if hit.pid == process]
    return Watch(
        process=process,
        breakpoints=frozenset(hit.pc for hit in own[:: len(own) // 20 + 1]),
        leaving=(min(hit.pc for hit in own), max(hit.pc for hit in own)),
        accesses=tuple(
            Access(hit.address, hit.size, reads=True) for hit in own[:: len(own) // 10 + 1]
        ),
        stop=False,
        keep=HITS_MAX,
    )


def test_it_changes_nothing(run: Run, last: list[Hit], tmp_path: Path) -> None:
    """Neither when it waits for nothing, nor when it waits for all kinds at once."""
    idle = Watch(stop=False)
    for watch in (idle, wanted(last)):
        with run.watcher() as watcher:
            watcher.set(watch)
            with run.going(watcher, tmp_path / "trace") as replayed:
                replayed.machine.process.wait()
            run.check(tmp_path / "trace")
            kinds = {hit.kind for hit in watcher.hits()}
        assert kinds >= (set() if watch == idle else {"breakpoint", "read"})


def test_stops_change_nothing(run: Run, last: list[Hit], tmp_path: Path) -> None:
    """It is stopped by one kind after the other, each time under other conditions."""
    everything = wanted(last)
    kinds = [
        attrs.evolve(everything, leaving=None, accesses=(), stop=True, keep=1),
        attrs.evolve(everything, breakpoints=frozenset(), accesses=(), leaving=(0, 0), stop=True),
        attrs.evolve(everything, breakpoints=frozenset(), leaving=None, stop=True),
        Watch(physical=EVERYTHING),
    ]
    with run.watcher() as watcher:
        watcher.set(kinds[0])
        with run.going(watcher, tmp_path / "trace") as replayed:
            after = -1
            for number in range(STOPS):
                try:
                    replayed.stopped()
                except MachineError:
                    # The process has ended, and was no long one.
                    assert number > 4
                    break
                (hit,) = watcher.hits()[-1:]
                assert hit.time > after
                after = hit.time
                more = (
                    Watch(stop=False) if number == STOPS - 1 else kinds[(number + 1) % len(kinds)]
                )
                watcher.set(attrs.evolve(more, after=after))
                replayed.monitor.execute("cont")
            replayed.machine.process.wait()
    run.check(tmp_path / "trace")


def looks(replayed: Replayed) -> object:
    """What there is of a machine that is stopped."""
    pages = [replayed.memory.read(at, 4096) for at in range(0, 64 << 20, 1 << 15)]
    return replayed.registers(), pages


@pytest.mark.parametrize("kind", ["breakpoint", "leaving", "access"])
def test_stops_are_exact(run: Run, last: list[Hit], kind: str) -> None:
    """As the device stops the machine at that time; after an access it is one later."""
    watch = attrs.evolve(wanted(last), stop=True, keep=1, leaving=None)
    if kind == "breakpoint":
        watch = attrs.evolve(watch, accesses=())
    else:
        watch = attrs.evolve(watch, breakpoints=frozenset())
        if kind == "leaving":
            watch = attrs.evolve(watch, accesses=(), leaving=(0, 0))
    compared = 0
    with run.timeline() as timeline, run.watcher() as watcher:
        begin = timeline.keyframe(last[0].time)
        watcher.set(attrs.evolve(watch, after=begin.time))
        with timeline.machine(
            begin.time,
            after=begin,
            stop=False,
            arguments=watcher.arguments,
            pass_fds=watcher.pass_fds,
        ) as replayed:
            for _ in range(COMPARED):
                try:
                    replayed.stopped()
                except MachineError:
                    break
                (hit,) = watcher.hits()
                time = hit.time + (kind == "access")
                with timeline.machine(time, after=begin) as other:
                    assert looks(other) == looks(replayed)
                compared += 1
                watcher.set(attrs.evolve(watch, after=hit.time))
                replayed.monitor.execute("cont")
    assert compared > 1


def test_an_instruction_comes_once(run: Run, last: list[Hit], tmp_path: Path) -> None:
    """Also if it begins again after a page fault, as at its page's first use; and in order."""
    watch = attrs.evolve(wanted(last), breakpoints=frozenset(), accesses=(), leaving=(0, 0))
    # How a process begins has the most page faults; keep what comes first.
    with run.watcher() as watcher:
        watcher.set(attrs.evolve(watch, stop=True))
        with run.going(watcher, tmp_path / "trace") as replayed:
            replayed.stopped()
            (first,) = watcher.hits()
    hits: list[Hit] = []
    end = 1_000_000
    while len(hits) < 100 or len(hits) == HITS_MAX:
        with run.watcher() as watcher:
            end = end // 2 if hits else end
            watcher.set(attrs.evolve(watch, before=first.time + end, until=first.time + end))
            with run.going(watcher, tmp_path / "trace") as replayed:
                replayed.stopped()
                hits = watcher.hits()
    assert hits[0] == first
    again = [
        (one, other)
        for one, other in itertools.pairwise(hits)
        if (one.tid, one.pc) == (other.tid, other.pc)
    ]
    assert again == []
    assert any(other.time - one.time > 500 for one, other in itertools.pairwise(hits))


def test_the_analysis_changes_nothing(run: Run, tmp_path: Path) -> None:
    """The plugin that finds races, which looks at all processes of the job from early on."""
    told = list(changes(run.reader.records()))
    kernel = Kernel(Path(os.environ["REWIND_VMLINUX"]))
    plugin = Path(os.environ["REWIND_RACES_PLUGIN"])
    with run.timeline() as timeline, Analyser(plugin, run.places, kernel.sync_places()) as analyser:
        steps = {change.step for change in told} | {run.reader.steps // 2}
        stops = [timeline.time(Position(step, 0)) for step in sorted(steps)]
        with timeline.machine(
            timeline.start,
            stop=False,
            stops=stops,
            arguments=(*analyser.arguments, "-global", f"rewind.trace={tmp_path / 'trace'}"),
            pass_fds=analyser.pass_fds,
        ) as replayed:
            for _ in stops:
                replayed.stopped()
                with Machine(kernel, replayed.memory, replayed.registers()) as machine:
                    processes = {task.process: Images() for task in machine.tasks()}
                analyser.look_at(processes, [(0, 1 << 47)])
                replayed.monitor.execute("cont")
            replayed.machine.process.wait()
        found = analyser.found()
    run.check(tmp_path / "trace")
    assert found.accesses > 1000
    assert found.pairs or not told


def test_until(run: Run, last: list[Hit]) -> None:
    """The plugin stops it where the device would."""
    time = last[len(last) // 2].time
    with run.timeline() as timeline, run.watcher() as watcher:
        begin = timeline.keyframe(last[0].time)
        watcher.set(Watch(until=time))
        with (
            timeline.machine(time, after=begin) as other,
            timeline.machine(
                begin.time,
                after=begin,
                stop=False,
                arguments=watcher.arguments,
                pass_fds=watcher.pass_fds,
            ) as replayed,
        ):
            replayed.stopped()
            assert looks(other) == looks(replayed)
            assert watcher.hits() == []
