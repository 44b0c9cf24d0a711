"""Schedules by random priorities: PCT, which comes with a lower bound of what it finds.

Every thread has a priority, in a random order, and the one with the highest of those that could
run does; at d - 1 random points of the run the thread that has come there gets one that is lower
than all others. A bug is of depth d if d orders of two events are enough to make it happen. With n
threads and k events such a schedule makes it happen with a probability of at least 1 / (n k^(d-1))
(Burckhardt, Kothari, Musuvathi, Nagarakatte, "A randomized scheduler with probabilistic guarantees
of finding bugs", 2010).

A priority is given here by a stall: who has a lower one sleeps for so long that the others have got
as far as they could. That makes the bound one for programs of which no thread runs longer than
`Plan.length` without waiting. The events are the points at which another task could run: where
system calls return, where threads begin, and the conflicting accesses that were found. A point is
named by its task, as those before it in a schedule shift all steps.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import attrs

from rewind.formats.schedule import Named, NamedPerturbation, Schedule, ordered
from rewind.search.positions import Stretch

LENGTH_MIN = 100_000_000
"""ns of a stall that is one step of priority, at least."""
ALL_MAX = 30_000_000_000
"""ns that all stalls of a schedule take one after the other, at most."""
DEPTHS = (1, 2, 3)
ATTEMPTS = 100
"""So many draws of something new, before a depth is taken to be used up."""


@attrs.frozen
class Plan:
    """What there is to give priorities to, and where to change them."""

    points: tuple[Named, ...]
    """In the order in which they come in the unperturbed run."""
    length: int
    """ns of a stall that is one step of priority."""

    @classmethod
    def of(cls, stretches: Sequence[Stretch], more: Sequence[Named]) -> "Plan":
        """That of the tasks of *stretches*.

        :param more: other points, of which those of the same tasks count.
        """
        points = dict.fromkeys(s.named for s in stretches if s.named is not None)
        tasks = {point.task for point in points}
        points |= dict.fromkeys(point for point in more if point.task in tasks)
        length = LENGTH_MIN
        if stretches:
            length = max(length, stretches[-1].time + stretches[-1].length - stretches[0].time)
        length = min(length, ALL_MAX // (2 * max(len(tasks), 1) + len(DEPTHS)))
        return cls(tuple(points), length)

    @property
    def tasks(self) -> tuple[int, ...]:
        """The tasks, by number."""
        return tuple(dict.fromkeys(point.task for point in self.points))

    def schedules(self, digest: str, depths: dict[Schedule, int]) -> Iterator[Schedule]:
        """Schedules of all depths by turns, without repeats.

        :param digest: of the unperturbed run; the same one gives the same schedules.
        :param depths: what is added to: the depth of each.
        """
        if len(self.tasks) < 2:
            return
        left = list(DEPTHS)
        for number in count():
            if not left:
                return
            depth = left[number % len(left)]
            draw = random.Random(f"{digest} pct {number}").random
            for _ in range(ATTEMPTS):
                schedule = self._schedule(depth, draw)
                if schedule and schedule not in depths:
                    depths[schedule] = depth
                    yield schedule
                    break
            else:
                left.remove(depth)

    def _schedule(self, depth: int, draw: Callable[[], float]) -> Schedule:
        """One of *depth*; none if all have the priorities that they have anyway."""
        tasks = self.tasks
        first = {point.task: point for point in reversed(self.points)}
        stalls: dict[Named, int] = {}
        for rank, task in enumerate(_shuffled(tasks, draw)):
            if rank:
                stalls[first[task]] = rank * self.length
        for change in range(depth - 1):
            point = self.points[int(draw() * len(self.points))]
            stalls[point] = (len(tasks) + change) * self.length
        return ordered(NamedPerturbation(at, "stall", ns) for at, ns in stalls.items())


def at_least(depth: int, schedules: int, threads: int, points: int) -> float:
    """The probability with which *schedules* of *depth* find a bug of that depth, at least."""
    miss: float = (1 - 1 / (threads * points ** (depth - 1))) ** schedules
    return 1 - miss


def _shuffled(things: Sequence[int], draw: Callable[[], float]) -> list[int]:
    """*things* in a random order (Fisher and Yates)."""
    found = list(things)
    for last in range(len(found) - 1, 0, -1):
        other = int(draw() * (last + 1))
        found[last], found[other] = found[other], found[last]
    return found
