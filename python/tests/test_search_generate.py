"""Schedules by chance: what they look like, and that they are the same everywhere."""

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewind.formats import schedule as schedules
from rewind.formats.schedule import Schedule
from rewind.search import generate
from rewind.search.generate import STALL_MAX, STALL_MIN, STRATEGIES, chance
from rewind.search.positions import THREADS, Stretch

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
    return list(islice(chance(stretches, digest), count))


def test_nothing_to_perturb() -> None:
    assert list(chance([], DIGEST)) == []


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
    found = list(chance([stretch(5, 3)], DIGEST))
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
    assert STRATEGIES["chance"] is chance
