"""The first record that two traces do not have in common."""

import itertools

import attrs

from rewind.formats.trace import Record, TraceReader


@attrs.frozen
class Difference:
    """The first record that two traces do not have in common; None where one has ended."""

    step: int
    first: Record | None
    second: Record | None


def first_difference(first: TraceReader, second: TraceReader) -> Difference | None:
    """Where *first* and *second* part, or None if they have the same records."""
    step = same_until(first, second)
    for one, other in itertools.zip_longest(first.records(step), second.records(step)):
        if one != other:
            return Difference(one.step if one else other.step, one, other)
    return None


def same_until(first: TraceReader, second: TraceReader) -> int:
    """A step up to which the traces' frames are the same bytes: quick to find out.

    It is a frame's first step in both, or the end of one.
    """
    if first.end.start != second.end.start:
        return 0
    for number, (one, other) in enumerate(zip(first.entries, second.entries, strict=False)):
        if one != other or first.frame(number) != second.frame(number):
            return one.first_step
    return min(first.steps, second.steps)
