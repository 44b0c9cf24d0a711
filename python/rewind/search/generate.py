"""Generators of schedules: plain iterators, so that others can be added.

A schedule's number stands for the same schedule on every machine: what is drawn for number i is
drawn from a generator of random numbers that is seeded with the unperturbed run's digest and i. Of
Python's random module only ``random()`` is used: its sequence for a seed does not change between
versions (documentation of the module random, "Notes on reproducibility").
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, count

from rewind.formats.schedule import Kind, Perturbation, Schedule
from rewind.search.positions import THREADS, Stretch, groups

STALL_MIN = 10_000
STALL_MAX = 1_000_000_000
"""ns of guest time."""
RESCHEDULES = 0.25
"""Of the perturbations."""
AT_ONCE = 0.3
"""Of the perturbations, those at the first instruction of a stretch."""
THREADS_SHARE = 0.7
"""Of the schedules, those about threads, which share memory, if there are threads."""
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
    sides = _sides(stretches)
    seen: set[Schedule] = set()
    for number in count(1):
        draw = random.Random(f"{digest} {number}").random
        for _ in range(ATTEMPTS):
            schedule = _draw(sides, _depth(number), draw)
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


Side = tuple[list[list[Stretch]], list[float]]
"""Groups, and the sums of their weights up to each."""


def _sides(stretches: Sequence[Stretch]) -> list[tuple[float, Side]]:
    """What is drawn from first: threads, and processes; with the sums of their shares."""
    threads: list[list[Stretch]] = []
    processes: list[list[Stretch]] = []
    for group, members in groups(stretches).items():
        (threads if group[1] == THREADS else processes).append(members)
    sides = [
        (share, (side, list(accumulate(math.sqrt(len(members)) for members in side))))
        for share, side in ((THREADS_SHARE, threads), (1 - THREADS_SHARE, processes))
        if side
    ]
    total = sum(share for share, _ in sides)
    sums = accumulate(share / total for share, _ in sides)
    return [(share, side) for share, (_, side) in zip(sums, sides, strict=True)]


def _draw(sides: list[tuple[float, Side]], depth: int, draw: Callable[[], float]) -> Schedule:
    """A schedule of *depth* perturbations, all of one group: they have to do with one another."""
    point = draw()
    members, sums = next((side for share, side in sides if point < share), sides[-1][1])
    point = draw() * sums[-1]
    group = next((m for m, s in zip(members, sums, strict=True) if point < s), members[-1])
    found: dict[tuple[int, int], Perturbation] = {}
    # Of a group with few positions it may be fewer.
    for _ in range(depth * 4):
        perturbation = _perturbation(group, draw)
        found.setdefault((perturbation.step, perturbation.offset), perturbation)
        if len(found) == depth:
            break
    return tuple(sorted(found.values()))


def _perturbation(group: list[Stretch], draw: Callable[[], float]) -> Perturbation:
    if draw() < 0.5:
        stretch = group[int(draw() * len(group))]
    else:
        # By length: in a long computation there are many positions.
        sums = list(accumulate(stretch.length for stretch in group))
        point = draw() * sums[-1]
        stretch = next((m for m, s in zip(group, sums, strict=True) if point < s), group[-1])
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
