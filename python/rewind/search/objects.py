"""Kernel objects that two tasks access: where a stall changes which of two is first.

`rewind.analysis.objects` finds the pairs, in the unperturbed run's records: no run is made for it.
"""

from collections.abc import Iterable

from rewind.analysis.objects import Access, Objects, Pair
from rewind.formats.schedule import Position
from rewind.formats.trace import Record
from rewind.search.positions import rank
from rewind.search.turns import round_robin

_KINDS = ("file", "pipe", "descriptors", "child", "signal", "address", "directory")
"""Those that are likely to matter first. (Futex words are memory: that is looked at by itself.)"""


def find(records: Iterable[Record]) -> Objects:
    """What there is in the run that *records* are of."""
    objects = Objects()
    for record in records:
        objects.feed(record)
    return objects


def positions(pairs: Iterable[Pair]) -> tuple[Position, ...]:
    """Where to stall for *pairs*: what the job has brought or built first, objects by turns."""
    ranked = by_object(pairs)
    found: dict[Position, None] = {}
    while ranked:
        heaviest = weight(ranked[0][0])
        turns = [_of_group(group) for group in ranked if weight(group[0]) == heaviest]
        ranked = [group for group in ranked if weight(group[0]) != heaviest]
        for position in round_robin((p for p in turn if p not in found) for turn in turns):
            found[position] = None
    return tuple(found)


def by_object(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """*pairs* of each object and two programs, what is likely to matter most first."""
    groups: dict[tuple[object, ...], list[Pair]] = {}
    for pair in pairs:
        if pair.kind in _KINDS:
            sides = sorted((side.who.program, side.who.arguments) for side in (pair.a, pair.b))
            groups.setdefault((pair.kind, pair.label, *sides), []).append(pair)
    for group in groups.values():
        group.sort(key=stage)
    return sorted(
        groups.values(), key=lambda group: (-weight(group[0]), _KINDS.index(group[0].kind))
    )


def stage(pair: Pair) -> int:
    """How likely it is that *pair* matters, from 0 on: what is done in two steps comes first."""
    if pair.before is None:
        return 3
    if not pair.a.change:
        return 2
    return 0 if pair.before.change else 1


def weight(pair: Pair) -> float:
    """How much of the job's own *pair* is."""
    return min(rank(pair.a.who), rank(pair.b.who))


def _of_group(pairs: list[Pair]) -> list[Position]:
    """Where to stall for *pairs* of one object and two programs, the likeliest first.

    That is in between two accesses of one task, of which the latter, or both, changed the object:
    what is done in two steps, or after a look. Then before the earlier one of the two that were
    found; then before the later one, which matters only if more is to come.
    """
    ranked: list[tuple[int, int, Position]] = []
    for pair in pairs:
        for number, one in enumerate((pair, *pair.others)):
            if one.before is not None:
                # Where the call has returned that it had made before.
                ranked.append((stage(one), number, Position(one.before.end)))
            ranked.append((3, number, _right_before(one.a)))
            ranked.append((4, number, _right_before(one.b)))
    return [position for *_, position in sorted(ranked, key=lambda entry: entry[:2])]


def _right_before(access: Access) -> Position:
    """Where the task goes on that is about to make *access*: at the record before it."""
    return Position(max(access.step - 1, 0))
