"""Generators of schedules: plain iterators, so that others can be added.

A schedule's number stands for the same schedule on every machine: what is drawn is drawn from
generators of random numbers that are seeded with the unperturbed run's digest, and a number. Of
Python's random module only ``random()`` is used: its sequence for a seed does not change between
versions (documentation of the module random, "Notes on reproducibility").
"""

import functools
import math
import random
from bisect import bisect
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import accumulate, count, cycle, islice
from typing import TypeVar

import attrs

from rewind.formats.schedule import (
    Named,
    NamedPerturbation,
    Perturbation,
    Position,
    Schedule,
    ordered,
)
from rewind.search.pct import Plan
from rewind.search.positions import OWN, THREADS_FACTOR, Stretch, groups
from rewind.search.turns import round_robin

T = TypeVar("T")

STALL_MIN = 10_000
STALL_MAX = 1_000_000_000
"""ns of guest time."""
RESCHEDULES = 0.25
"""Of the perturbations."""
AT_ONCE = 0.6
"""Of the perturbations at a stretch, whatever its length, those at its first instruction."""
TOGETHER = 12
"""How many candidates are for schedules with two of them."""
FOLLOWED = 4
"""Of how many of them the run that they make is looked at for others."""
WINDOWS = 16
"""How many schedules `windows` makes of likely windows."""
GOLDEN = (math.sqrt(5) - 1) / 2
LENGTHS = (100_000_000, 3_000_000)
"""ns that these stall by turns: others get far, or only some steps ahead."""
ATTEMPTS = 100
"""So many draws of something new, before what there is to draw is taken to be used up."""


@attrs.frozen
class Candidates:
    """Where stalls can change which of two accesses comes first: what is most likely to matter
    first, without repeats."""

    inverted: tuple[Position, ...] = ()
    """Where a thread takes a lock and has another, which others take the other way round."""
    unordered: tuple[Position, ...] = ()
    """Of pairs that nothing orders."""
    atomics: tuple[Position, ...] = ()
    """Of pairs that only atomic accesses have ordered; then of those that a lock keeps apart."""

    objects: tuple[Position, ...] = ()
    """Of pairs of accesses to files, pipes and the like; see `rewind.search.objects`."""

    def usable(self, first: int, taken: Container[int]) -> "Candidates":
        """Those from step *first* on, and not in one of the steps that are *taken*."""

        def some(positions: Iterable[Position]) -> tuple[Position, ...]:
            return tuple(p for p in positions if p.step >= first and p.step not in taken)

        return attrs.evolve(
            self,
            inverted=some(self.inverted),
            unordered=some(self.unordered),
            atomics=some(self.atomics),
            objects=some(self.objects),
        )

    def leading(self, most: int) -> tuple[Position, ...]:
        """The first *most* of all, each kind by turns."""
        kinds = (self.inverted, self.unordered, self.atomics)
        return tuple(islice(round_robin(kinds), most))


@attrs.frozen(slots=False)
class Known:
    """What is known of the unperturbed run."""

    stretches: Sequence[Stretch]
    digest: str
    candidates: Callable[[], Candidates] = Candidates
    """The run is made again for it."""
    names: Callable[[Sequence[Position]], Sequence[Named]] = lambda positions: ()
    """What they are by their tasks: once more."""
    following: Callable[[NamedPerturbation], Sequence[Named]] = lambda first: ()
    """What candidates there are in the run that a stall makes: that takes two runs."""
    depths: dict[Schedule, int] = attrs.field(factory=dict, eq=False)
    """Of the schedules that `pct` has made."""

    @functools.cached_property
    def found(self) -> Candidates:
        """The candidates."""
        return self.candidates()

    @functools.cached_property
    def together(self) -> Sequence[Named]:
        """The first of all candidates, for schedules that have several."""
        leading = self.found.leading(TOGETHER)
        return self.names(leading) if len(leading) > 1 else ()

    @functools.cached_property
    def plan(self) -> Plan:
        """What PCT gives priorities to: what of all groups weighs most."""
        members = list(groups(self.stretches).values())
        most = max((group[0].weight for group in members), default=0.0)
        chosen = [s for group in members if group[0].weight == most for s in group]
        return Plan.of(sorted(chosen, key=lambda s: s.step), self.together)


Generator = Callable[[Known], Iterator[Schedule]]
"""Makes the schedules from number 1 on."""


def directed(known: Known) -> Iterator[Schedule]:
    """Stalls that put conflicting accesses into another order, then likely windows, then the rest.

    Kinds have turns: there are races in what is not memory, and memory that is not looked at.
    """
    found = known.found
    sources = {
        "inverted": _stalls(found.inverted),
        "unordered": _stalls(found.unordered),
        "atomics": _stalls(found.atomics),
        "objects": _stalls(found.objects),
        "together": _by_turns({"new": _new(known), "both": _both(known)}, ("new", "both")),
        "likely": islice(_likely(known.stretches), WINDOWS),
        "rest": _by_turns({"chance": chance(known), "pct": pct(known)}, ("chance", "pct")),
    }
    turns = (
        *("inverted", "unordered", "objects", "unordered", "atomics"),
        *("objects", "atomics", "together", "likely", "rest"),
    )
    return _by_turns(sources, turns)


def pct(known: Known) -> Iterator[Schedule]:
    """Random priorities, of the threads or programs of the job's own; see `rewind.search.pct`."""
    yield from known.plan.schedules(known.digest, known.depths)


def _stalls(positions: Sequence[Position]) -> Iterator[Schedule]:
    """A stall at each of *positions*; first all long ones."""
    for length in LENGTHS:
        for position in positions:
            yield (Perturbation(position.step, position.offset, "stall", length),)


def _new(known: Known) -> Iterator[Schedule]:
    """A stall at a candidate, and another at what comes to light by that.

    Who finds things changed goes other ways, and meets what it does not meet else.
    """
    long = LENGTHS[0]
    positions = known.together
    for position in positions[:FOLLOWED]:
        first = NamedPerturbation(position, "stall", long)
        for other in known.following(first):
            if other.task != position.task and other not in positions:
                yield ordered((first, NamedPerturbation(other, "stall", long)))


def _both(known: Known) -> Iterator[Schedule]:
    """Two tasks stall at once, at two candidates: first at those that are likeliest."""
    long = LENGTHS[0]
    positions = known.together
    for total in range(1, 2 * len(positions)):
        for second in range(total // 2 + 1, min(total, len(positions) - 1) + 1):
            one, other = positions[total - second], positions[second]
            if one.task != other.task:
                yield ordered(NamedPerturbation(at, "stall", long) for at in (one, other))


def _by_turns(sources: dict[str, Iterator[Schedule]], turns: Sequence[str]) -> Iterator[Schedule]:
    """What *sources* have, by *turns*, as long as one has something; without repeats."""
    seen: set[Schedule] = set()
    empty: set[str] = set()
    for name in cycle(turns):
        if len(empty) == len(sources):
            return
        if name in empty:
            continue
        schedule = next((one for one in sources[name] if one not in seen), None)
        if schedule is None:
            empty.add(name)
            continue
        seen.add(schedule)
        yield schedule


def chance(known: Known) -> Iterator[Schedule]:
    """Schedules of 1 to 3 perturbations at random stretches; without repeats.

    The first 32 have one perturbation, the next 16 two; then every other one has one, and the
    rest two and three by turns.
    """
    if not known.stretches:
        return
    digest = known.digest
    members = [
        _Group(group, random.Random(f"{digest} group {number}").random)
        for number, group in enumerate(groups(known.stretches).values())
    ]
    sums = list(accumulate(group.weight for group in members))
    seen: set[Schedule] = set()
    for number in count(1):
        draw = random.Random(f"{digest} {number}").random
        for _ in range(ATTEMPTS):
            schedule = _pick(members, sums, draw).schedule(_depth(number), draw)
            if schedule not in seen:
                break
        else:
            return
        seen.add(schedule)
        yield schedule


def windows(known: Known) -> Iterator[Schedule]:
    """As `chance`, and before each of the first ones a stall where a window is likely.

    Between a call that looks at something, or says it, and what is then done there is a window in
    many races; and the threads of the job's own program may have one anywhere. `WINDOWS` such
    stalls are tried; what is not found by them is left to chance.
    """
    # Each has one turn until there are no likely windows any more.
    sources = {"likely": islice(_likely(known.stretches), WINDOWS), "chance": chance(known)}
    return _by_turns(sources, tuple(sources))


def _likely(stretches: Sequence[Stretch]) -> Iterator[Schedule]:
    """Stalls after calls, spread evenly over the time, of groups by turns.

    Those of what the job has brought or built itself, or else of all; the ones that weigh most
    first. Of threads there are by turns some wherever they are, spread as evenly.
    """
    members = list(groups(stretches).values())
    own = [group for group in members if group[0].weight >= OWN]
    lengths = cycle(LENGTHS)
    for weight in sorted({group[0].weight for group in own or members}, reverse=True):
        turns: list[Iterator[Position]] = []
        for group in members:
            if group[0].weight != weight:
                continue
            turns.append(s.position for s in _spread([s for s in group if s.after_call]))
            if weight >= OWN * THREADS_FACTOR:
                turns.append(_anywhere(group))
        for position in round_robin(turns):
            yield (Perturbation(position.step, position.offset, "stall", next(lengths)),)


def _anywhere(group: Sequence[Stretch]) -> Iterator[Position]:
    """Positions that are spread evenly over the time of *group*, one for each of its stretches."""
    ends = list(accumulate(stretch.length for stretch in group))
    for number in range(1, len(group) + 1):
        # The golden ratio leaves no gap that is much larger than others (as `_Group._DISTANCE`).
        point = int(number * GOLDEN % 1 * ends[-1])
        at = bisect(ends, point)
        yield Position(group[at].step, point - (ends[at] - group[at].length))


def _spread(things: Sequence[T]) -> Iterator[T]:
    """All of *things*, in an order in which the first few are far from one another."""
    bits = max(len(things) - 1, 1).bit_length()
    for number in range(1 << bits):
        # The numbers with their bits in reverse (van der Corput's sequence).
        at = int(f"{number:0{bits}b}"[::-1], 2)
        if at < len(things):
            yield things[at]


def _depth(number: int) -> int:
    if number <= 32:
        return 1
    if number <= 48:
        return 2
    return (1, 2, 1, 3)[number % 4]


class _Group:
    """The stretches of a group, and what was drawn of them so far.

    Positions and lengths of stalls are spread evenly: number n of them is at a fixed distance from
    number n - 1, chosen such that they fill the plane as well as may be, wherever one stops
    (Martin Roberts, "The unreasonable effectiveness of quasirandom sequences", R2). Points that are
    drawn one by one leave windows out that are a tenth of the whole, for dozens of draws.
    """

    _DISTANCE = (0.7548776662466927, 0.5698402909980532)

    def __init__(self, stretches: list[Stretch], draw: Callable[[], float]) -> None:
        self._stretches = stretches
        self._ends = list(accumulate(stretch.length for stretch in stretches))
        self.weight = stretches[0].weight * math.sqrt(len(stretches))
        self._points = {kind: self._spread(draw) for kind in ("time", "stretch")}

    def _spread(self, draw: Callable[[], float]) -> Iterator[tuple[float, float]]:
        x, y = draw(), draw()
        while True:
            yield x, y
            x, y = (x + self._DISTANCE[0]) % 1, (y + self._DISTANCE[1]) % 1

    def schedule(self, depth: int, draw: Callable[[], float]) -> Schedule:
        """*depth* perturbations of the group: they have to do with one another."""
        found: dict[tuple[int, int], Perturbation] = {}
        # Of a group with few positions it may be fewer.
        for _ in range(depth * 4):
            perturbation = self._perturbation(draw)
            found.setdefault((perturbation.step, perturbation.offset), perturbation)
            if len(found) == depth:
                break
        return tuple(sorted(found.values()))

    def _perturbation(self, draw: Callable[[], float]) -> Perturbation:
        if draw() < 0.5:
            # In a long computation there are many positions.
            x, y = next(self._points["time"])
            point = int(x * self._ends[-1])
            number = min(bisect(self._ends, point), len(self._stretches) - 1)
            stretch = self._stretches[number]
            offset = point - (self._ends[number] - stretch.length)
            offset = max(0, min(offset, stretch.length - 1))
        else:
            x, y = next(self._points["stretch"])
            stretch = self._stretches[int(x * len(self._stretches))]
            offset = 0
            if draw() >= AT_ONCE and stretch.length > 1:
                offset = 1 + int(draw() * (stretch.length - 1))
        if draw() < RESCHEDULES:
            return Perturbation(stretch.step, offset, "reschedule")
        ns = _two_digits(STALL_MIN * math.pow(STALL_MAX / STALL_MIN, y))
        return Perturbation(stretch.step, offset, "stall", ns)


def _pick(things: Sequence[T], sums: Sequence[float], draw: Callable[[], float]) -> T:
    """One of *things*; *sums* are those of their weights up to each."""
    return things[min(bisect(sums, draw() * sums[-1]), len(things) - 1)]


def _two_digits(value: float) -> int:
    """*value* rounded down to two digits: one that a person can read and write."""
    unit: int = 10 ** (len(str(int(value))) - 2)
    return int(value) // unit * unit


STRATEGIES: dict[str, Generator] = {
    "directed": directed,
    "windows": windows,
    "pct": pct,
    "chance": chance,
}
