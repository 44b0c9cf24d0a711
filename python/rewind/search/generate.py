"""Generators of schedules: plain iterators, so that others can be added.

A schedule's number stands for the same schedule on every machine: what is drawn for number i is
drawn from a generator of random numbers that is seeded with the unperturbed run's digest and i. Of
Python's random module only ``random()`` is used: its sequence for a seed does not change between
versions (documentation of the module random, "Notes on reproducibility").
"""

import math
import random
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, count
from typing import TypeVar

from rewind.formats.schedule import Kind, Perturbation, Schedule
from rewind.search.positions import Stretch, groups

T = TypeVar("T")

STALL_MIN = 10_000
STALL_MAX = 1_000_000_000
"""ns of guest time."""
RESCHEDULES = 0.25
"""Of the perturbations."""
AT_ONCE = 0.3
"""Of the perturbations, those at the first instruction of a stretch."""
ATTEMPTS = 100
"""So many draws of something new, before what there is to draw is taken to be used up."""

Generator = Callable[[Sequence[Stretch], str], Iterator[Schedule]]
"""Makes, of the stretches and the digest of the unperturbed run, the schedules from number 1 on."""


def chance(stretches: Sequence[Stretch], digest: str) -> Iterator[Schedule]:
    """Schedules of 1 to 3 perturbations at random stretches; without repeats.

    The first 32 have one perturbation, the next 16 two; then every other one has one, and the
    rest two and three by turns.
    """
    if not stretches:
        return
    members = list(groups(stretches).values())
    sums = list(accumulate(m[0].weight * math.sqrt(len(m)) for m in members))
    seen: set[Schedule] = set()
    for number in count(1):
        draw = random.Random(f"{digest} {number}").random
        for _ in range(ATTEMPTS):
            schedule = _draw(members, sums, _depth(number), draw)
            if schedule not in seen:
                break
        else:
            return
        seen.add(schedule)
        yield schedule


def _depth(number: int) -> int:
    if number <= 32:
        return 1
    if number <= 48:
        return 2
    return (1, 2, 1, 3)[number % 4]


def _draw(
    members: list[list[Stretch]], sums: list[float], depth: int, draw: Callable[[], float]
) -> Schedule:
    """A schedule of *depth* perturbations, all of one group: they have to do with one another.

    :param sums: those of the groups' weights up to each.
    """
    group = _pick(members, sums, draw)
    found: dict[tuple[int, int], Perturbation] = {}
    # Of a group with few positions it may be fewer.
    for _ in range(depth * 4):
        perturbation = _perturbation(group, draw)
        found.setdefault((perturbation.step, perturbation.offset), perturbation)
        if len(found) == depth:
            break
    return tuple(sorted(found.values()))


def _pick(things: Sequence[T], sums: Sequence[float], draw: Callable[[], float]) -> T:
    """One of *things*; *sums* are those of their weights up to each."""
    return things[min(bisect(sums, draw() * sums[-1]), len(things) - 1)]


def _perturbation(group: list[Stretch], draw: Callable[[], float]) -> Perturbation:
    if draw() < 0.5:
        stretch = group[int(draw() * len(group))]
    else:
        # By length: in a long computation there are many positions.
        stretch = _pick(group, list(accumulate(stretch.length for stretch in group)), draw)
    offset = 0
    if draw() >= AT_ONCE and stretch.length > 1:
        offset = 1 + int(draw() * (stretch.length - 1))
    kind: Kind = "reschedule" if draw() < RESCHEDULES else "stall"
    ns = 0
    if kind == "stall":
        ns = _two_digits(STALL_MIN * math.pow(STALL_MAX / STALL_MIN, draw()))
    return Perturbation(stretch.step, offset, kind, ns)


def _two_digits(value: float) -> int:
    """*value* rounded down to two digits: one that a person can read and write."""
    unit: int = 10 ** (len(str(int(value))) - 2)
    return int(value) // unit * unit


STRATEGIES: dict[str, Generator] = {"chance": chance}
