"""The position that decides, with machines that are stand-ins.

The job has two threads: 2 has the CPU from 1,000 to 2,000 ns, another task from there to 2,100,
thread 1 to 3,000, thread 2 to 4,000, and thread 1 until the process ends. The kernel takes no
interrupts from 1,950 to 2,000 ns. There is a record every 50 ns.
"""

import bisect
import contextlib
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traces
from rewind.formats.manifest import Outcome
from rewind.formats.schedule import (
    Named,
    NamedPerturbation,
    Perturbation,
    Position,
    Schedule,
)
from rewind.formats.trace import End
from rewind.machine import MachineError
from rewind.recorder.request import RunRequest
from rewind.search import reduce as module
from rewind.search.keyframes import Keyframes
from rewind.search.machines import Ended
from rewind.search.reduce import Reduced, Reducer, _inner, _position, _Span, _turns, by_steps
from rewind.search.tape import Tape

START, END = traces.START, traces.START + 10_000
REQUEST = cast(RunRequest, "a request")
GOOD, BAD = Outcome("exited", 0), Outcome("exited", 1)


def met(time: int) -> tuple[int, int]:
    """Whom a perturbation meets, and when."""
    if 1950 <= time < 2100:
        return 0, max(time, 2000)
    return (2 if 1000 <= time < 2000 or 3000 <= time < 4000 else 1), time


def records(*, bad: bool, end: int = 8_000, perturbed: Sequence[int] = ()) -> list[bytes]:
    """A run in which the process ends well or not, at the time *end*."""
    switches = {
        1000: traces.switch(1, 2, b"x", next_pid=1),
        2000: traces.switch(2, 0, b"kworker", pid=1),
        2100: traces.switch(0, 1, b"x"),
        3000: traces.switch(1, 2, b"x", next_pid=1),
        4000: traces.switch(2, 1, b"x", state=1, pid=1, next_pid=1),
    }
    found = {
        0: traces.execute(1, b"/bin/x", b"x"),
        50: traces.fork(1, 2, 0x3D0F00, child_pid=1),
        **switches,
        end: traces.end(1, 0x100 if bad else 0, b"x"),
    }
    other = traces.record(1, 0, 0, payload=b"mark")
    times = sorted({*found, *range(0, 10_000, 50)})
    all_of_it = [struct.pack("<Q", START + t) + found.get(t, other)[8:] for t in times]
    for tid, time in map(met, perturbed):
        payload = struct.pack("<QQQ", 1000, 0x401000, 0x401000)
        one = traces.record(10, int(tid > 0), tid, 1, payload, time=time, flags=int(not tid))
        all_of_it.append(one)
    # After what is recorded at the same time.
    return sorted(all_of_it, key=lambda one: struct.unpack_from("<Q", one))


def tape(data: Sequence[bytes]) -> Tape:
    made = Tape()
    for frame in traces.frames(data, size=50):
        made.add(frame)
    return made


def ended(*, bad: bool, perturbed: Sequence[int] = ()) -> Ended:
    data = records(bad=bad, perturbed=perturbed)
    return Ended(BAD if bad else GOOD, {}, End(1, len(data), END, START), tape(data))


BASELINE = ended(bad=False)
TIMES = BASELINE.tape.times()


def time_of(p: Perturbation) -> int:
    """When it happens, in ns since the job's start."""
    return TIMES[p.step] + p.offset - START


def stall(time: int) -> Perturbation:
    """One at a time."""
    step = bisect.bisect(TIMES, START + time) - 1
    return Perturbation(step, START + time - TIMES[step], "stall", 1000)


@attrs.define
class Lab:
    """Machines that know how each schedule ends."""

    changes: Callable[[Schedule], bool]
    """Whether a schedule changes the outcome."""
    lies: Callable[[Schedule], bool] = lambda schedule: False
    """Whether it looks otherwise when it is asked early."""
    baseline: Ended = BASELINE
    asked: int = 0
    whole: int = 0
    running: int = 0
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def run(
        self,
        request: object,
        schedule: Schedule,
        *,
        stops: Sequence[Position] = (),
        on_stop: Any = None,
        **more: Any,
    ) -> Ended | None:
        assert request is REQUEST
        assert list(schedule) == sorted(schedule)
        changed = self.changes(schedule)
        well = self.baseline.outcome.success
        perturbed = [time_of(p) for p in schedule]
        if stops:
            seems = changed != self.lies(schedule)
            data = records(bad=seems == well, perturbed=perturbed)
            for stop in stops:
                now = TIMES[stop.step] + stop.offset
                so_far = [one for one in data if struct.unpack_from("<Q", one)[0] <= now]

                class Stopped:
                    tape = tape(so_far)

                if not on_stop(Stopped()):
                    with self.lock:
                        self.asked += 1
                    return None
        with self.lock:
            self.whole += 1
        return ended(bad=changed == well, perturbed=perturbed)

    def changed(self, run: Ended) -> bool:
        return run.outcome != self.baseline.outcome

    def reducer(self, fixed: Schedule = ()) -> Reducer:
        def batch(things: Sequence[Callable[[], bool]]) -> list[bool]:
            assert len(things) <= 2
            return [thing() for thing in things]

        keyframes = cast(Keyframes, Nothing(self.baseline.tape))
        return Reducer(REQUEST, fixed, self.baseline, self.changed, batch, keyframes)

    def reduce(self, *schedule: Perturbation, fixed: Schedule = ()) -> Reduced:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module.machines, "run", self.run)
            patch.setattr(module, "Keyframes", lambda *given: Nothing(Tape()))
            first = ended(bad=self.baseline.outcome.success)
            found = self.reducer(fixed).reduce(schedule, first)
        assert self.changed(found.changed_run)
        assert not self.changed(found.unchanged_run)
        assert found.position == found.changed[-1].position
        assert found.runs == self.asked + self.whole
        return found


@attrs.define
class Nothing:
    """Keyframes of which there are none."""

    tape: Tape
    known: dict[object, Position | None] = attrs.field(factory=dict)

    @contextlib.contextmanager
    def before(self, step: int) -> Iterator[None]:
        yield None

    def first(self, schedule: Schedule) -> int:
        return 0

    def at(self, step: int) -> None:
        pass

    def use(self, request: object, run: Ended) -> None:
        self.tape = run.tape

    def __enter__(self) -> "Nothing":
        return self

    def __exit__(self, *error: object) -> None:
        pass


def until(*windows: tuple[int, int]) -> Callable[[Schedule], bool]:
    """A stall in one of the *windows* changes the outcome, if it meets somebody; at the end not."""
    return lambda schedule: any(
        begin <= time_of(p) < end and met(time_of(p))[0] for begin, end in windows for p in schedule
    )


def test_named_positions_are_taken_where_they_came() -> None:
    named, never = (NamedPerturbation(Named(2, call), "reschedule") for call in (3, 4))
    step = Perturbation(9, 1, "stall", 1000)
    run = attrs.evolve(
        ended(bad=True),
        schedule=(step, named, never),
        came=(Position(9, 1), Position(4, 5), None),
    )
    assert by_steps((step, named, never), run) == (Perturbation(4, 5, "reschedule"), step)
    assert by_steps((never,), run) == ()


# --- points and positions


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 5))
def test_inner_points(low: int, size: int, count: int) -> None:
    found = _inner(low, low + size, count)
    assert found == sorted(set(found))
    assert len(found) == min(count, size - 1)
    assert all(low < point < low + size for point in found)
    # What is left is a part of it.
    edges = [low, *found, low + size]
    assert max(b - a for a, b in pairwise(edges)) <= size / (count + 1) + 1


@pytest.mark.parametrize(
    ("time", "position"),
    [
        (100, Position(0)),
        (149, Position(0, 49)),
        (150, Position(1)),
        (151, Position(1, 1)),
        (200, Position(3)),
        (10_000, Position(3, 9_800)),
    ],
)
def test_positions(time: int, position: Position) -> None:
    """The last step's, if some were taken at once."""
    assert _position([100, 150, 200, 200], time) == position


@given(st.lists(st.integers(0, 1000), min_size=1), st.integers(0, 2000))
def test_a_position_is_a_time(times: list[int], later: int) -> None:
    at = sorted(times)
    time = at[0] + later
    position = _position(at, time)
    assert at[position.step] + position.offset == time


@given(st.lists(st.integers(1, 50), min_size=2, max_size=10), st.data())
def test_a_span_in_pieces(gaps: list[int], data: st.DataObject) -> None:
    edges = [sum(gaps[: n + 1]) for n in range(len(gaps) // 2 * 2)]
    span = _Span(tuple(zip(edges[::2], edges[1::2], strict=True)))
    inside = [time for begin, end in span.parts for time in range(begin, end)]
    assert span.length == len(inside)
    assert [span.time(point) for point in range(span.length)] == inside
    assert span.time(span.length) == edges[-1]
    time = data.draw(st.integers(0, edges[-1] + 5))
    assert span.point(time) == sum(one < time for one in inside)


def test_turns() -> None:
    def turns(time: int) -> list[tuple[int, int]] | None:
        span = _turns(BASELINE, START + time)
        if span is None:
            return None
        assert span.tid == met(time)[0]
        return [(a - START, b - START) for a, b in span.parts]

    assert turns(1500) == [(1500, 2000), (3000, 4000)]
    assert turns(1000) == [(1000, 2000), (3000, 4000)]
    assert turns(3999) == [(3999, 4000)]
    assert turns(500) == [(500, 1000), (2100, 3000), (4000, 10_000)]
    assert turns(2500) == [(2500, 3000), (4000, 10_000)]
    # Nobody of the job.
    assert turns(2050) is None


# --- halving


@settings(max_examples=60)
@given(st.integers(1001, 4000).filter(lambda time: not 1950 < time <= 3000), st.data())
def test_the_boundary_is_found(boundary: int, data: st.DataObject) -> None:
    own = st.integers(1000, boundary - 1).filter(lambda time: not 1950 <= time < 3000)
    begin = data.draw(own)
    lab = Lab(until((1000, boundary)))
    found = lab.reduce(stall(begin))
    (changed,), (unchanged,) = found.changed, found.unchanged
    assert (time_of(changed), time_of(unchanged)) == (boundary - 1, boundary)
    assert (changed.kind, changed.ns) == ("stall", 1000)
    # It is asked, and not made to its end, but for the two.
    assert lab.whole == 2
    # Two a round, each to a third; and one for where it is met next.
    assert found.runs <= 2 * 8 + 1 + 2 + 1


def test_the_last_instruction_is_known() -> None:
    """Whatever is tried; one step further there would be another."""
    found = Lab(until((1000, 1778))).reduce(stall(1777))
    assert time_of(found.changed[0]) == 1777
    assert found.position == Position(stall(1777).step, 27)


def test_in_the_thread_that_was_met_other_threads_do_not_matter() -> None:
    """A stall of thread 1, or of nobody, changes nothing: thread 2's window goes on behind it."""
    found = Lab(until((1000, 2000), (3000, 3456))).reduce(stall(1200))
    assert time_of(found.changed[0]) == 3455


def test_the_end_of_a_turn_tells_nothing() -> None:
    """No interrupt is taken there; the next turn does tell."""
    found = Lab(until((1000, 2000))).reduce(stall(1200))
    assert time_of(found.changed[0]) == 1949
    found = Lab(until((1000, 2000), (3000, 3001))).reduce(stall(1200))
    assert time_of(found.changed[0]) == 3000


def test_it_may_matter_whom_it_meets() -> None:
    """One instruction later it still changes the outcome, by another thread: all time is tried."""

    def changes(schedule: Schedule) -> bool:
        return 1000 <= time_of(schedule[-1]) < 2500

    found = Lab(changes).reduce(stall(1200))
    assert time_of(found.changed[0]) == 2499


def test_nobody_was_met() -> None:
    found = Lab(lambda schedule: time_of(schedule[-1]) < 2070).reduce(stall(2050))
    assert time_of(found.changed[0]) == 2069


def test_a_window_that_is_longer_than_expected() -> None:
    """More than twice the time until the process ends in either run."""

    def run(*, bad: bool) -> Ended:
        data = records(bad=bad, end=1100)
        return Ended(BAD if bad else GOOD, {}, End(1, len(data), END, START), tape(data))

    lab = Lab(until((1000, 3900)), baseline=run(bad=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.machines, "run", lab.run)
        found = lab.reducer().reduce((stall(1001),), run(bad=True))
    assert time_of(found.changed[0]) == 3899


# --- guesses


def test_guesses_that_are_wrong_are_made_good() -> None:
    """What was asked early said that it changes nothing from 1300 on."""
    boundary = 1700
    lab = Lab(
        until((1000, boundary)),
        lies=lambda schedule: 1300 <= time_of(schedule[-1]) < boundary,
    )
    found = lab.reduce(stall(1100))
    assert time_of(found.changed[0]) == boundary - 1
    assert lab.asked > 4
    assert lab.whole > 10


def test_a_guess_that_says_it_always_changes() -> None:
    lab = Lab(until((1000, 1700)), lies=lambda schedule: time_of(schedule[-1]) >= 1700)
    assert time_of(lab.reduce(stall(1100)).changed[0]) == 1699


def test_a_process_that_ends_in_another_way_decides_nothing() -> None:
    """The run is made to its end."""

    class Odd(Lab):
        def run(self, *given: Any, on_stop: Any = None, **more: Any) -> Ended | None:
            def ask(stopped: Any) -> bool:
                data = [*records(bad=False)[:20], traces.end(1, 0x900, b"x")]
                stopped.tape = tape(data)
                assert on_stop(stopped)
                return True

            return Lab.run(self, *given, on_stop=ask, **more)

    lab = Odd(until((1000, 1700)))
    assert time_of(lab.reduce(stall(1100)).changed[0]) == 1699
    assert lab.asked == 0


def test_no_process_ends_in_another_way() -> None:
    """The outputs differ, for instance: nobody can be asked early."""
    lab = Lab(until((1000, 1700)))
    same = attrs.evolve(BASELINE, outcome=BAD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.machines, "run", lab.run)
        found = lab.reducer().reduce((stall(1100),), same)
    assert time_of(found.changed[0]) == 1699
    assert lab.asked == 0


def test_runs_that_are_not_repeated() -> None:
    """That must not be, and is not passed over."""
    lab = Lab(lambda schedule: False)
    with pytest.raises(MachineError, match="a run that was made twice was not the same"):
        lab.reduce(stall(1100))


# --- an unperturbed run that fails


def test_it_passes_until_a_position() -> None:
    lab = Lab(until((1000, 1700)), baseline=ended(bad=True))
    found = lab.reduce(stall(1100))
    assert time_of(found.changed[0]) == 1699
    assert found.changed_run.outcome == GOOD
    assert found.unchanged_run.outcome == BAD


# --- several perturbations


def test_those_that_do_nothing_are_left_out() -> None:
    first, second, third = stall(200), stall(1100), stall(3500)
    lab = Lab(until((1000, 1700)))
    found = lab.reduce(first, second, third)
    assert [time_of(p) for p in found.changed] == [1699]
    assert [time_of(p) for p in found.unchanged] == [1700]


def test_two_that_it_takes() -> None:
    """The last one is moved, from the run that has the other one alone."""
    first, second, third = stall(200), stall(700), stall(1100)

    def changes(schedule: Schedule) -> bool:
        return second in schedule and any(1000 <= time_of(p) < 1700 for p in schedule)

    lab = Lab(changes)
    found = lab.reduce(first, second, third)
    assert found.changed == (second, stall(1699))
    assert found.unchanged == (second, stall(1700))


def test_of_two_that_do_the_same_the_last_one_is_kept() -> None:
    lab = Lab(until((1000, 1700)))
    assert lab.reduce(stall(1100), stall(1200)).changed == (stall(1699),)
    assert lab.whole == 3


def test_what_every_run_has() -> None:
    """The perturbations of the run that the search is around are none of its own."""
    fixed = (stall(100), stall(5000))
    seen: list[Schedule] = []

    def changes(schedule: Schedule) -> bool:
        seen.append(schedule)
        return until((1000, 1700))(schedule)

    found = Lab(changes).reduce(stall(1100), fixed=fixed)
    assert found.changed == (stall(1699),)
    assert all(set(fixed) < set(schedule) for schedule in seen)
