"""The keyframes of a run, with machines that are stand-ins."""

import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traces
from rewind.formats.schedule import (
    Came,
    Named,
    NamedPerturbation,
    Perturbation,
    Position,
    Schedule,
)
from rewind.formats.trace import Frame
from rewind.recorder.request import RunRequest
from rewind.search import keyframes as module
from rewind.search.keyframes import NEAR, STOP_EVERY, WORTH, Keyframes, stops
from rewind.search.machines import Ended, Keyframe

REQUEST = cast(RunRequest, "a request")
SCHEDULE = (Perturbation(3, 0, "reschedule"),)
STEP = 1_000_000
"""ns between two steps of the run."""
STEPS = 1000


@attrs.define(eq=False)
class Taken:
    """A keyframe, as far as it matters here."""

    steps: int
    size: int = 100
    closed: bool = False

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class Times:
    """A run whose steps come at even intervals."""

    def times(self) -> list[int]:
        return [STEP * step for step in range(STEPS)]

    def frames(self) -> Sequence[Frame]:
        return traces.frames([traces.enter(1, 39) for _ in range(STEPS)])

    steps = STEPS


@attrs.define
class Run:
    """One that is over."""

    tape: Times = attrs.Factory(Times)
    schedule: Schedule = ()
    came: Came = ()


@attrs.define
class Machines:
    """What was asked of machines."""

    made: list[tuple[int | None, int]] = attrs.field(factory=list)
    """Steps of the keyframe that one began at, and where it was stopped."""
    end: bool = False
    """It ends before that."""

    def run(
        self,
        request: object,
        schedule: object,
        *,
        stops: list[Position],
        keyframe: Taken | None,
        on_stop: Any,
        **more: Any,
    ) -> None:
        assert (request, schedule, more["own_memory"]) == ("a request of forks", SCHEDULE, True)
        assert keyframe is None or not keyframe.closed
        (position,) = stops
        self.made.append((keyframe.steps if keyframe else None, position.step))
        if self.end:
            return
        assert position.offset == 0

        class Stopped:
            def keyframe(self, *, last: bool) -> Taken:
                assert last
                return Taken(position.step + 1)

        assert on_stop(Stopped()) is False


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Machines:
    made = Machines()
    monkeypatch.setattr(module.machines, "run", made.run)
    return made


def holder(*steps: int) -> tuple[Keyframes, list[Taken]]:
    """Those of a run that is over."""
    found = Keyframes(REQUEST, SCHEDULE)
    taken = [Taken(step) for step in steps]
    for one in taken:
        found.add(cast(Keyframe, one))
    found.use(cast(RunRequest, "a request of forks"), cast(Ended, Run()))
    return found, taken


@pytest.fixture
def kept(machines: Machines) -> Iterator[tuple[Keyframes, list[Taken]]]:
    """Some at the steps 100, 200, ... 900."""
    found, taken = holder(*range(100, STEPS, 100))
    with found:
        yield found, taken


def before(keyframes: Keyframes, step: int) -> int | None:
    """The steps of the one that a fork at *step* gets."""
    with keyframes.before(step) as found:
        return found.steps if found is not None else None


# --- which one


def test_where_a_schedule_begins(kept: tuple[Keyframes, list[Taken]]) -> None:
    """At the earliest of its steps and calls; what can't come begins nowhere."""
    keyframes, _ = kept
    named, never = (NamedPerturbation(Named(1, call, 5), "reschedule") for call in (412, 1001))
    step = Perturbation(500, 0, "reschedule")
    assert keyframes.first((step,)) == 500
    assert keyframes.first((step, named)) == 411
    assert keyframes.first((step, never)) == 500
    assert keyframes.first((never,)) == STEPS


@pytest.mark.parametrize(
    ("step", "found"),
    [(0, None), (99, None), (100, 100), (101, 100), (199, 100), (200, 200), (5000, 900)],
)
def test_the_last_one_before_a_step(
    kept: tuple[Keyframes, list[Taken]], step: int, found: int | None
) -> None:
    """One of 100 records is at step 99, and the schedule of step 100 is still to come."""
    assert before(kept[0], step) == found


def test_in_whatever_order_they_were_taken(machines: Machines) -> None:
    found, _ = holder(300, 100, 200)
    assert [before(found, step) for step in (150, 250, 350)] == [100, 200, 300]


def test_they_are_freed_at_the_end(machines: Machines) -> None:
    found, taken = holder(100, 200)
    with found:
        assert found.size == 200
        assert not any(one.closed for one in taken)
    assert all(one.closed for one in taken)
    assert found.size == 0


def test_the_last_one_is_replaced(machines: Machines) -> None:
    found, taken = holder(100, 200)
    found.replace_last(cast(Keyframe, Taken(250)))
    assert [one.closed for one in taken] == [False, True]
    assert [before(found, step) for step in (240, 260)] == [100, 250]
    empty, _ = holder()
    empty.replace_last(cast(Keyframe, Taken(5)))
    assert before(empty, 7) == 5


# --- how many


@given(st.lists(st.integers(0, STEPS - 1), unique=True, max_size=30), st.integers(1, 5), st.data())
def test_the_budget_is_kept(steps: list[int], most: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BUDGET", most * 100)
        found = Keyframes(REQUEST, SCHEDULE)
        taken = []
        for step in steps:
            taken.append(Taken(step))
            found.add(cast(Keyframe, taken[-1]))
            assert found.size <= most * 100
            assert not taken[-1].closed
            assert found.size == 100 * sum(not one.closed for one in taken)
        found.close()
        assert all(one.closed for one in taken)


def test_who_is_in_use_stays(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even over the budget."""
    monkeypatch.setattr(module, "BUDGET", 200)
    found, taken = holder(100, 200)
    with found.before(150), found.before(250):
        found.add(cast(Keyframe, Taken(300)))
        assert not any(one.closed for one in taken)
        assert found.size == 300
    last = Taken(400)
    found.add(cast(Keyframe, last))
    assert found.size == 200
    assert not last.closed


def test_two_users(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 100)
    found, (one,) = holder(100)
    with found.before(150):
        with found.before(150):
            pass
        found.add(cast(Keyframe, Taken(300)))
        assert not one.closed
    found.add(cast(Keyframe, Taken(301)))
    assert one.closed


def test_those_that_save_least_are_dropped(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is one with others near, and not the only one for the second half of the run."""
    monkeypatch.setattr(module, "BUDGET", 400)
    found, taken = holder(100, 110, 120, 500)
    found.add(cast(Keyframe, Taken(300)))
    assert [one.closed for one in taken] == [False, True, False, False]


def test_a_run_is_spread_evenly(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 1000)
    _, taken = holder(*range(5, STEPS, 5))
    left = [0, *(one.steps for one in taken if not one.closed), STEPS]
    assert len(left) == 12
    assert max(after - here for here, after in pairwise(left)) < 2.5 * STEPS / 10


# --- those that are taken for schedules


NEAR_STEPS = NEAR // STEP
WORTH_STEPS = WORTH // STEP


def test_schedules_that_begin_near_to_one_another_share_one(
    machines: Machines, kept: tuple[Keyframes, list[Taken]]
) -> None:
    found, _ = kept
    found.starts = [550, 551, 552, 700]
    assert before(found, 551) == 550
    assert machines.made == [(500, 549)]
    # It is there now for the others.
    assert [before(found, step) for step in (550, 552)] == [550, 550]
    assert len(machines.made) == 1


def test_a_chain_of_near_ones_is_one_group(
    machines: Machines, kept: tuple[Keyframes, list[Taken]]
) -> None:
    found, _ = kept
    found.starts = list(range(550, 560))
    assert before(found, 559) == 550


def test_one_that_begins_alone_gets_none(
    machines: Machines, kept: tuple[Keyframes, list[Taken]]
) -> None:
    found, _ = kept
    found.starts = [550, 550 + NEAR_STEPS, 560]
    assert before(found, 550) == 500
    found.starts = [550]
    assert before(found, 550) == 500
    # Nor one that is no schedule's.
    assert before(found, 800) == 800
    assert before(found, 650) == 600
    assert machines.made == []


def test_two_at_the_same_step(machines: Machines, kept: tuple[Keyframes, list[Taken]]) -> None:
    found, _ = kept
    found.starts = [550, 550]
    assert before(found, 550) == 550


def test_one_that_saves_little_is_not_taken(
    machines: Machines, kept: tuple[Keyframes, list[Taken]]
) -> None:
    found, _ = kept
    near = 500 + WORTH_STEPS
    found.starts = [near, near + 1]
    assert before(found, near) == 500
    assert machines.made == []
    found.starts = [near + 1, near + 2]
    assert before(found, near + 1) == near + 1


def test_the_first_one(machines: Machines) -> None:
    """From the boot snapshot."""
    found, _ = holder()
    found.starts = [50, 51]
    assert before(found, 50) == 50
    assert machines.made == [(None, 49)]


def test_none_can_be_taken_before_the_first_record(machines: Machines) -> None:
    found, _ = holder()
    found.starts = [0, 1]
    assert before(found, 0) is None
    found.at(1)
    assert machines.made == []


def test_a_run_that_does_not_get_there(
    machines: Machines, kept: tuple[Keyframes, list[Taken]]
) -> None:
    machines.end = True
    found, _ = kept
    found.starts = [550, 551]
    assert before(found, 550) is None


def test_right_before_a_step(machines: Machines, kept: tuple[Keyframes, list[Taken]]) -> None:
    """Whatever that saves."""
    found, _ = kept
    found.at(501)
    found.at(501)
    found.at(500)
    assert machines.made == [(500, 500)]
    assert before(found, 501) == 501


def test_a_failure_leaves_nobody_in_use(
    machines: Machines, kept: tuple[Keyframes, list[Taken]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **more: object) -> None:
        raise RuntimeError("no machine")

    found, taken = kept
    found.starts = [550, 551]
    monkeypatch.setattr(module.machines, "run", fail)
    with pytest.raises(RuntimeError, match="no machine"):
        before(found, 550)
    with pytest.raises(ZeroDivisionError), found.before(250):
        _ = 1 / 0
    monkeypatch.setattr(module, "BUDGET", 100)
    found.add(cast(Keyframe, Taken(999)))
    assert all(one.closed for one in taken)


def test_who_waits_for_one_gets_it(
    machines: Machines, kept: tuple[Keyframes, list[Taken]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many threads one takes it."""
    found, _ = kept
    found.starts = [550, 551, 552]
    together = threading.Barrier(3)
    got: list[int | None] = []

    def work(step: int) -> None:
        together.wait()
        got.append(before(found, step))

    threads = [threading.Thread(target=work, args=[step]) for step in found.starts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [550] * 3
    assert machines.made == [(500, 549)]


# --- where a run is stopped


def test_stops() -> None:
    found = stops()
    assert {position.step for position in found} == {0}
    offsets = [position.offset for position in found]
    gaps = [after - here for here, after in pairwise([0, *offsets])]
    assert gaps[:100] == [STOP_EVERY] * 100
    assert all(here <= after for here, after in pairwise(gaps))
    # Enough for the longest run, and not too many for a schedule.
    assert offsets[-1] >= 100 * 3600 * 10**9
    assert len(offsets) < 10_000
