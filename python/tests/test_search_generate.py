"""Schedules by chance: what they look like, and that they are the same everywhere."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewind.formats import schedule as schedules
from rewind.formats.schedule import Named, NamedPerturbation, Perturbation, Position, Schedule
from rewind.search import generate
from rewind.search.generate import (
    LENGTHS,
    STALL_MAX,
    STALL_MIN,
    STRATEGIES,
    WINDOWS,
    Candidates,
    Known,
    chance,
    directed,
    pct,
    windows,
)
from rewind.search.positions import OWN, THREADS, THREADS_FACTOR, Stretch

DIGEST = "ab" * 32
WEIGHTS = {("bank", THREADS): 128.0, ("cc", "make"): 4.0, ("make", "sh"): 1.0, ("a", "b"): 16.0}
MIXED = [
    Stretch(step, 1000 * step, 1 + 37 * step % 5000, 1 + step % 3, group, WEIGHTS[group])
    for step, group in enumerate(
        [("bank", THREADS)] * 7 + [("cc", "make")] * 90 + [("make", "sh")] * 3 + [("a", "b")]
    )
]


def stretch(step: int, length: int) -> Stretch:
    """One of two threads'."""
    return Stretch(step, step, length, 1, ("x", THREADS), 128.0)


STRETCHES = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(1, 10**7), st.sampled_from(["a", "b", THREADS])),
    min_size=1,
    max_size=30,
    unique_by=lambda one: one[0],
).map(
    lambda found: [
        Stretch(step, step, length, 1, ("x", other), 16.0) for step, length, other in sorted(found)
    ]
)


def take(stretches: list[Stretch], count: int, digest: str = DIGEST) -> list[Schedule]:
    return list(islice(chance(Known(stretches, digest)), count))


def test_nothing_to_perturb() -> None:
    assert list(chance(Known([], DIGEST))) == []


@settings(max_examples=20)
@given(STRETCHES, st.text(max_size=5))
def test_what_every_schedule_is(stretches: list[Stretch], digest: str) -> None:
    lengths = {stretch.step: stretch.length for stretch in stretches}
    groups = {stretch.step: stretch.group for stretch in stretches}
    found = take(stretches, 100, digest)
    for schedule in found:
        # In order, and no two at a position.
        assert schedules.ordered(schedule) == schedule
        assert 1 <= len(schedule) <= 3
        assert len({groups[p.step] for p in schedule}) == 1
        for p in schedule:
            assert 0 <= p.offset < lengths[p.step]
            if p.kind == "stall":
                assert STALL_MIN <= p.ns <= STALL_MAX
                assert len(str(p.ns).rstrip("0")) <= 2, "a number that can be read"
            else:
                assert (p.kind, p.ns) == ("reschedule", 0)
    assert len(set(found)) == len(found)


def test_there_are_as_many_as_are_asked_for() -> None:
    """A stall has many lengths, so one position is enough."""
    assert len(take([stretch(5, 1)], 100)) == 100


def test_the_end_of_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without stalls there is one schedule for each position of one stretch."""
    monkeypatch.setattr(generate, "RESCHEDULES", 1.0)
    found = list(chance(Known([stretch(5, 3)], DIGEST)))
    assert sorted(p.offset for (p,) in found) == [0, 1, 2]


def test_depth() -> None:
    found = [len(schedule) for schedule in take(MIXED[7:97], 80)]
    assert found[:32] == [1] * 32
    assert found[32:48] == [2] * 16
    assert found[48:] == [2, 1, 3, 1] * 8


def test_depth_of_a_group_with_one_position() -> None:
    found = take([stretch(5, 1)], 60)
    assert {len(schedule) for schedule in found} == {1}


@settings(max_examples=20)
@given(STRETCHES, st.integers(0, 70), st.integers(0, 70))
def test_one_does_not_depend_on_how_many_there_are(
    stretches: list[Stretch], few: int, many: int
) -> None:
    few, many = sorted((few, many))
    assert take(stretches, few) == take(stretches, many)[:few]


def test_another_run_has_others() -> None:
    mine, other = take(MIXED, 50), take(MIXED, 50, digest="cd" * 32)
    assert len(set(mine) & set(other)) < 10
    # A schedule, and what it is about, are drawn from numbers of their own.
    assert [one[0].ns for one in mine] != [one[0].ns for one in other]


OTHER = """
import json, sys
from test_search_generate import MIXED, take
from rewind.formats.schedule import to_data
print(json.dumps([to_data(schedule) for schedule in take(MIXED, 60)]))
"""


@pytest.mark.parametrize("seed", ["0", "1"])
def test_another_process_makes_the_same(seed: str) -> None:
    """Whatever the order in which it has its sets."""
    done = subprocess.run(
        [sys.executable, "-c", OTHER],
        env={
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == [schedules.to_data(one) for one in take(MIXED, 60)]


def test_shares() -> None:
    """By the groups' weights, and what happens often has not all of the rest."""
    group = {stretch.step: stretch.group for stretch in MIXED}
    found = Counter(group[schedule[0].step] for schedule in take(MIXED, 1000))
    assert 700 < found["bank", THREADS] < 950
    assert found["cc", "make"] < 10 * found["a", "b"]
    assert found["a", "b"] > 5
    # The same with other weights.
    even = [attrs.evolve(one, weight=1.0) for one in MIXED]
    found = Counter(group[schedule[0].step] for schedule in take(even, 1000))
    assert found["cc", "make"] > found["bank", THREADS] > found["a", "b"] > 20


def test_kinds_and_places() -> None:
    found = [schedule[0] for schedule in take(MIXED[7:97], 2000)]
    stalls = [p for p in found if p.kind == "stall"]
    assert 0.2 < 1 - len(stalls) / len(found) < 0.3
    # Equally often in each decade.
    decades = Counter(len(str(p.ns)) for p in stalls)
    assert set(decades) <= set(range(5, 11))
    for digits in range(5, 10):
        assert 0.15 < decades[digits] / len(stalls) < 0.25, decades
    assert 0.25 < sum(not p.offset for p in found) / len(found) < 0.4


def test_where_the_time_is() -> None:
    """Half of the positions are spread over time: a long computation has more of them."""
    both = [stretch(1, 1_000_000), stretch(2, 1_000)]
    found = Counter(schedule[0].step for schedule in take(both, 32))
    assert found[1] > found[2] > 2


def test_strategies() -> None:
    assert {
        "directed": directed,
        "windows": windows,
        "pct": pct,
        "chance": chance,
    } == STRATEGIES


def after(step: int, weight: float = 1.0, name: str = "x", call: bool = True) -> Stretch:
    return Stretch(step, step * 100, 50, 1, (name, name), weight, call)


def test_windows_come_by_turns_with_chance() -> None:
    """The group that weighs most first, spread over the time; then chance alone, nothing twice."""
    heavy = [after(step, OWN * 2, "own") for step in range(4)]
    light = [after(step, OWN, "other") for step in range(10, 12)]
    tools = [after(step) for step in range(13, 15)]
    rest = [after(step, OWN * 2, "own", call=False) for step in range(20, 90)]
    stretches = [*heavy, *light, *tools, *rest]
    found = list(islice(windows(Known(stretches, DIGEST)), 200))
    stalls = [schedule[0] for schedule in found[:12:2]]
    assert [stall.step for stall in stalls] == [0, 2, 1, 3, 10, 11]
    assert {stall.offset for stall in stalls} == {0}
    assert [stall.ns for stall in stalls] == list(LENGTHS) * 3
    by_chance = take(stretches, 194)
    assert found[1:12:2] == by_chance[:6] and found[12:] == by_chance[6:]
    assert len(set(found)) == len(found)


def test_threads_may_have_a_window_anywhere() -> None:
    """In a long computation without a call it is found by the time that it takes."""
    group = ("own", THREADS)
    weight = OWN * THREADS_FACTOR
    long = Stretch(5, 500, 10_000, 1, group, weight)
    short = [Stretch(step, step * 100, 50, 1, group, weight) for step in range(6, 20)]
    found = [schedule[0] for schedule in islice(windows(Known([long, *short], DIGEST)), 0, 20, 2)]
    offsets = sorted(stall.offset for stall in found if stall.step == 5)
    assert len(offsets) >= 9
    assert max(b - a for a, b in pairwise([0, *offsets, 10_000])) < 2000
    steps = {5: 10_000, **{stretch.step: 50 for stretch in short}}
    assert all(0 <= stall.offset < steps[stall.step] for stall in found)


def test_there_are_only_so_many_windows() -> None:
    found = list(islice(windows(Known([after(step) for step in range(1000)], DIGEST)), 100))
    by_turns = found[: 2 * WINDOWS]
    assert [schedule[0].offset for schedule in by_turns[::2]] == [0] * WINDOWS
    steps = sorted(schedule[0].step for schedule in by_turns[::2])
    # All over the time.
    assert [step // 63 for step in steps] == list(range(WINDOWS)), steps
    assert found[2 * WINDOWS :] == take([after(step) for step in range(1000)], 84)[WINDOWS:]


def test_without_calls_it_is_chance() -> None:
    stretches = [after(step, call=False) for step in range(50)]
    assert list(islice(windows(Known(stretches, DIGEST)), 20)) == take(stretches, 20)


def test_directed_begins_with_what_nothing_orders() -> None:
    """Two of those, two that atomics order, one of windows; all long stalls of each come first."""
    stretches = [after(step) for step in range(0, 200, 10)]
    unordered = (Position(5, 1), Position(6), Position(7, 3))
    known = Known(stretches, DIGEST, lambda: Candidates((), unordered, (Position(8),)))
    found = list(islice(directed(known), 40))
    likely = [schedule for schedule in islice(windows(known), 0, 32, 2)]
    drawn = take(stretches, 20)

    def stall(position: Position, length: int) -> Schedule:
        return (Perturbation(position.step, position.offset, "stall", length),)

    long, short = LENGTHS
    assert found[:6] == [
        stall(unordered[0], long),
        stall(unordered[1], long),
        stall(Position(8), long),
        stall(Position(8), short),
        likely[0],
        drawn[0],
    ]
    assert found[6:10] == [
        stall(unordered[2], long),
        stall(unordered[0], short),
        likely[1],
        drawn[1],
    ]
    assert found[10:12] == [stall(unordered[1], short), stall(unordered[2], short)]
    assert found[12:20:2] == likely[2:6] and found[13:21:2] == drawn[2:6]
    assert len(set(found)) == len(found)


def test_what_candidates_there_are_from_a_step_on() -> None:
    given = Candidates((Position(10),), (Position(5), Position(9)), (Position(8), Position(7)))
    assert given.usable(7, {9}) == Candidates((Position(10),), (), (Position(8), Position(7)))


def test_two_candidates_together() -> None:
    """Those that come first, and of two tasks: one task can't stall in two places."""
    together = (Named(5, 1, 7), Named(6, 2), Named(5, 3), Named(7, 1))
    leading = tuple(Position(step) for step in range(4))
    known = Known([], DIGEST, lambda: Candidates(unordered=leading), lambda some: together)
    found = list(generate._both(known))
    assert [tuple(p.position for p in schedule) for schedule in found] == [
        (Named(5, 1, 7), Named(6, 2)),
        (Named(5, 3), Named(6, 2)),
        (Named(5, 1, 7), Named(7, 1)),
        (Named(6, 2), Named(7, 1)),
        (Named(5, 3), Named(7, 1)),
    ]
    assert {(p.kind, p.ns) for schedule in found for p in schedule} == {("stall", LENGTHS[0])}


def test_candidates_that_lead() -> None:
    found = Candidates((Position(9),), (Position(5), Position(4)), (Position(8),))
    assert found.leading(3) == (Position(9), Position(5), Position(8))
    assert found.leading(9) == (Position(9), Position(5), Position(8), Position(4))


def test_what_a_stall_brings_to_light() -> None:
    """With each of the first candidates goes what only the run has that it makes."""
    positions = (Position(1), Position(2))
    names = (Named(5, 1), Named(6, 2))
    asked: list[NamedPerturbation] = []

    def following(first: NamedPerturbation) -> Sequence[Named]:
        asked.append(first)
        # One that is known, one of the same task, and one that is new.
        return (Named(6, 2), Named(first.position.task, 9), Named(7, first.position.call))

    known = Known([], DIGEST, lambda: Candidates((), positions), lambda some: names, following)
    made = generate._new(known)
    stall = [NamedPerturbation(at, "stall", LENGTHS[0]) for at in names]
    assert next(made) == (stall[0], NamedPerturbation(Named(7, 1), "stall", LENGTHS[0]))
    assert asked == stall[:1]
    assert next(made) == (stall[1], NamedPerturbation(Named(7, 2), "stall", LENGTHS[0]))
    assert list(made) == [] and asked == stall


def test_runs_are_made_only_for_what_is_asked() -> None:
    def never(*args: object) -> Any:
        raise AssertionError

    known = Known([], DIGEST, lambda: Candidates((), (Position(1), Position(2))), never, never)
    assert len(list(islice(directed(known), 2))) == 2
    known = Known([after(step) for step in range(9)], DIGEST, never, never, never)
    assert len(list(islice(windows(known), 5))) == 5
