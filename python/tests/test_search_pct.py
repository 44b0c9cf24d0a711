"""Random priorities: what the schedules are, and what they promise."""

from collections import Counter
from itertools import islice

import pytest

from rewind.formats.schedule import Named, NamedPerturbation, Schedule
from rewind.search.pct import LENGTH_MIN, Plan, at_least
from rewind.search.positions import Stretch

DIGEST = "ab" * 32
POINTS = tuple(Named(task, call) for call in range(5) for task in (3, 4, 5))
PLAN = Plan(POINTS, LENGTH_MIN)


def take(plan: Plan, number: int, digest: str = DIGEST) -> list[Schedule]:
    return list(islice(plan.schedules(digest, {}), number))


def test_depths_by_turns() -> None:
    depths: dict[Schedule, int] = {}
    found = list(islice(PLAN.schedules(DIGEST, depths), 12))
    assert [depths[one] for one in found] == [1, 2, 3] * 4
    assert len(set(found)) == 12


def test_priorities() -> None:
    """All but one thread wait where they begin, each longer than those before it."""
    depths: dict[Schedule, int] = {}
    for schedule in islice(PLAN.schedules(DIGEST, depths), 60):
        stalls = {p.position: p.ns // LENGTH_MIN for p in schedule}
        assert all(isinstance(p, NamedPerturbation) and p.kind == "stall" for p in schedule)
        begun = {at: rank for at, rank in stalls.items() if at.call == 0 and rank < 3}
        changed = {at: rank for at, rank in stalls.items() if rank >= 3}
        assert len(begun) + sum(at.call == 0 for at in changed) >= 2
        assert len(changed) <= depths[schedule] - 1
        assert set(stalls.values()) <= {1, 2, *range(3, 2 + depths[schedule])}


def test_the_same_everywhere() -> None:
    assert take(PLAN, 20) == take(PLAN, 20)
    assert take(PLAN, 20) != take(PLAN, 20, "cd" * 32)


def test_there_are_only_so_many() -> None:
    """Of depth 1, as many as there are orders: the others go on."""
    depths: dict[Schedule, int] = {}
    found = list(islice(PLAN.schedules(DIGEST, depths), 200))
    assert len(set(found)) == 200
    assert Counter(depths.values())[1] == 6


def test_one_thread_has_no_priority() -> None:
    assert take(Plan((Named(3, 0), Named(3, 1)), LENGTH_MIN), 5) == []
    assert take(Plan((), LENGTH_MIN), 5) == []


def stretch(step: int, task: int, *, named: bool = True) -> Stretch:
    at = Named(task, step) if named else None
    return Stretch(step, step * 10, 5, task, ("x", "x"), 1.0, named=at)


def test_a_plan() -> None:
    stretches = [stretch(1, 3), stretch(2, 4), stretch(3, 4, named=False)]
    plan = Plan.of(stretches, [Named(4, 1, 7), Named(9, 1)])
    assert plan == Plan((Named(3, 1), Named(4, 2), Named(4, 1, 7)), LENGTH_MIN)
    assert plan.tasks == (3, 4)


def test_a_step_of_priority_is_as_long_as_all_that_there_is_to_do() -> None:
    later = Stretch(9, 10**9, 5, 4, ("x", "x"), 1.0, named=Named(4, 9))
    assert Plan.of([stretch(0, 3), later], []).length == 10**9 + 5
    many = [Stretch(n, n * 10**9, 5, n, ("x", "x"), 1.0, named=Named(n, 0)) for n in range(1, 101)]
    # Many threads that each wait for so long would be a run that times out.
    assert Plan.of(many, []).length == 30_000_000_000 // 203
    assert Plan.of([], []) == Plan((), LENGTH_MIN)


@pytest.mark.parametrize(
    ("depth", "schedules", "threads", "points", "says"),
    [(1, 1, 2, 100, 0.5), (2, 1, 2, 100, 0.005), (3, 1, 2, 10, 0.005), (1, 2, 2, 9, 0.75)],
)
def test_the_bound(depth: int, schedules: int, threads: int, points: int, says: float) -> None:
    assert at_least(depth, schedules, threads, points) == pytest.approx(says)
