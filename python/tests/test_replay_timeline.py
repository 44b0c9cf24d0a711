"""Where machines of a run begin and stop, without any."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from rewind.formats.schedule import Named, NamedPerturbation, Perturbation, Position
from rewind.machine import MachineError
from rewind.machine.settings import Settings
from rewind.recorder.request import RunRequest
from rewind.replay import timeline as module
from rewind.replay.cache import Cache
from rewind.replay.keyframe import Keyframe, Name
from rewind.replay.timeline import STOP_EVERY, STOPS_MAX, Standing, Timeline

FIRST = 1000
GAP = 100
"""ns between two steps."""
TIMES = [FIRST + GAP * step for step in range(50)]
END = TIMES[-1] + GAP
STALL, LATER = Perturbation(10, 50, "stall", 7), Perturbation(20, 350, "reschedule")
"""At 2,050 and, three steps after the one it counts from, at 3,350."""


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "load", lambda path: path)


def request(*schedule: Perturbation | NamedPerturbation, **changes: Any) -> RunRequest:
    fields = {
        "settings": Path("/settings"),
        "snapshot": SimpleNamespace(path=Path("/snapshot")),
        "layers": (Path("/layer"),),
        "memory": 512,
        "schedule": schedule,
        "job": SimpleNamespace(parameters=lambda **_: b"parameters"),
        **dict.fromkeys(("epoch", "seed", "cores", "shell", "closures")),
        **changes,
    }
    return cast(RunRequest, SimpleNamespace(**fields))


def timeline(*schedule: Perturbation, cache: Cache | None = None, **changes: Any) -> Timeline:
    return Timeline(request(*schedule, **changes), TIMES, cache or Cache(None), end=END)


@attrs.define
class Kept:
    """A keyframe, as far as it matters here."""

    name: Name
    size: int = 10
    volatile: bool = False

    @property
    def time(self) -> int:
        return self.name.time

    @property
    def position(self) -> Position:
        return Position((self.time - FIRST) // GAP, (self.time - FIRST) % GAP)


class Stored(Cache):
    """A directory with keyframes."""

    def __init__(self, *names: Name) -> None:
        super().__init__(None)
        self.all = set(names)

    def names(self, keys: Any, last: int) -> list[Name]:
        found = [name for name in self.all if name.key in keys and name.time <= last]
        return sorted(found, key=lambda name: -name.time)

    def get(self, name: Name) -> Keyframe | None:
        return cast(Keyframe, Kept(name))


def test_times_and_positions() -> None:
    line = timeline()
    assert (line.start, line.end) == (FIRST, END)
    for time, position in (
        (FIRST, Position(0)),
        (FIRST + 99, Position(0, 99)),
        (FIRST + 100, Position(1)),
        (END - 1, Position(49, 99)),
    ):
        assert line.position(time) == position
        assert line.time(position) == time
    assert line.time(Position(3, 250)) == line.time(Position(5, 50))


def test_runs_share_keyframes_before_what_differs() -> None:
    """Nothing but what was due before decides."""
    plain, one, both = timeline(), timeline(STALL), timeline(STALL, LATER)
    assert plain._key(2050) == one._key(2050) == both._key(2050)
    assert plain._key(2051) != one._key(2051) == both._key(2051)
    assert one._key(3350) == both._key(3350)
    assert one._key(3351) != both._key(3351)
    same = timeline(Perturbation(9, 150, "stall", 7))
    assert same._key(2051) == one._key(2051)
    for other in (Perturbation(10, 50, "stall", 8), Perturbation(10, 51, "stall", 7)):
        assert timeline(other)._key(2060) != one._key(2060)


def test_a_schedule_is_by_steps() -> None:
    """Where a named position is only the run itself tells."""
    named = NamedPerturbation(Named(2, 3), "reschedule")
    with pytest.raises(ValueError, match="names 2:3 by a task"):
        Timeline(request(named), TIMES, Cache(None), end=END)


def test_where_a_machine_stands() -> None:
    assert Standing.parse("17 4 12 3 437 1 1") == Standing(Position(17, 4), Named(12, 3, 437), True)
    assert Standing.parse("17 4 0 0 0 0 0") == Standing(Position(17, 4), None, False)


@pytest.mark.parametrize(
    "change",
    [
        {"settings": Path("/other")},
        {"snapshot": SimpleNamespace(path=Path("/other"))},
        {"layers": (Path("/layer"), Path("/other"))},
        {"memory": 1024},
        {"job": SimpleNamespace(parameters=lambda **_: b"other")},
    ],
)
def test_what_keyframes_are_kept_under(change: dict[str, Any]) -> None:
    assert timeline(**change)._key(FIRST) != timeline()._key(FIRST)


def test_the_last_keyframe_that_is_of_this_run() -> None:
    """A twin's from behind where they part is none of it."""
    plain, one = timeline(), timeline(STALL)
    shared = Name(plain._key(1500), 1500)
    ours, other = Name(one._key(2100), 2100), Name(plain._key(2200), 2200)
    cache = Stored(shared, ours, other)
    for line, time, name in (
        (timeline(cache=cache), 5000, other),
        (timeline(cache=cache), 2150, shared),
        (timeline(STALL, cache=cache), 5000, ours),
        (timeline(STALL, cache=cache), 2099, shared),
    ):
        found = line.before(time)
        assert found is not None and found.name == name
    assert timeline(STALL, cache=cache).before(1499) is None


def test_what_the_device_is_told() -> None:
    line = timeline(STALL, LATER)
    assert line._plan(None, [2049, 3000]) == (
        "10 49 stop 0\n10 50 stall 7\n20 0 stop 0\n20 350 reschedule 0\n"
    )


def test_what_the_device_is_told_that_goes_on() -> None:
    """Nothing of before, no stop where it begins, and nothing that counts from an earlier step."""
    line = timeline(STALL, LATER)

    def plan(since: int, *stops: int) -> str:
        return line._plan(cast(Keyframe, Kept(Name(b"", since))), stops)

    assert plan(2049, 2049, 2050) == "10 50 stop 0\n10 50 stall 7\n20 350 reschedule 0\n"
    assert plan(2050) == "10 50 stall 7\n20 350 reschedule 0\n"
    assert plan(2051, 2051, 2060) == "10 60 stop 0\n20 350 reschedule 0\n"
    assert plan(3100) == "23 50 reschedule 0\n"
    assert plan(3351) == ""


def test_none_is_taken_where_something_is_due() -> None:
    line = timeline(STALL, Perturbation(10, 49, "reschedule"))
    assert [line._takeable(time) for time in (2048, 2049, 2050, 2051)] == [2048, 2048, 2048, 2051]


def test_stops_on_the_way() -> None:
    long = [0, 10**9, 10**10]
    line = Timeline(
        request(Perturbation(0, 2 * STOP_EVERY, "reschedule")), long, Cache(None), end=10**12
    )
    stops = line._stops(None, 10**8)
    assert stops == [at for at in range(STOP_EVERY, 98_000_000, STOP_EVERY) if at != 2 * STOP_EVERY]
    assert line._stops(None, STOP_EVERY) == []
    assert len(line._stops(None, 10**12 - 1)) <= STOPS_MAX


def test_so_many_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are closest one is let go of, and not the one that was just taken."""
    monkeypatch.setattr(module, "KEPT_MAX", 3)
    line = timeline()
    for time in (1000, 2000, 2010, 3000, 3005, 1001):
        line._keep(cast(Keyframe, Kept(Name(b"", time))))
    assert [kept.time for kept in line._kept] == [1000, 1001, 3000]


def test_so_many_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those on disk do not count."""
    monkeypatch.setattr(module, "VOLATILE", 25)
    line = timeline()
    for time in (1000, 1100, 1150, 1400):
        line._keep(cast(Keyframe, Kept(Name(b"", time), volatile=True)))
    assert [kept.time for kept in line._kept] == [1000, 1400]
    for time in (1500, 1600):
        line._keep(cast(Keyframe, Kept(Name(b"", time))))
    assert [kept.time for kept in line._kept] == [1000, 1400, 1500, 1600]


def test_bad_times() -> None:
    line = timeline()
    for time in (FIRST - 1, END, END + 1):
        with pytest.raises(MachineError, match=f"the run has no time {time}"), line.machine(time):
            pass


def test_no_snapshot() -> None:
    with pytest.raises(MachineError, match="no boot snapshot"):
        timeline(snapshot=None)


def test_memories_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were not used for longest, and never one that is in use."""
    monkeypatch.setattr(module, "BUDGET", 2 * 4096)
    line = timeline(memory=1)

    def fill(keyframe: Any, memory: int) -> None:
        os.pwrite(memory, b"x", 0)

    monkeypatch.setattr(line, "_fill", fill)
    frames = [cast(Keyframe, Kept(Name(b"", time))) for time in (1, 2, 3)]
    with line._memory(frames[0]):
        for frame in frames[1:]:
            with line._memory(frame):
                pass
        assert [name.time for name in line._ready] == [1, 3]
    with line._memory(frames[2]) as memory, line._memory(frames[2]) as same:
        assert memory == same
    line.close()
    assert line._ready == {}
