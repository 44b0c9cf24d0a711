"""Where two traces part."""

import itertools

import attrs

from rewind.cli.render import Lines, join
from rewind.formats.trace import Record, TraceReader


@attrs.frozen
class Difference:
    """The first record that two traces do not have in common; None where one has ended."""

    step: int
    first: Record | None
    second: Record | None


def first_difference(first: TraceReader, second: TraceReader) -> Difference | None:
    """Where *first* and *second* part, or None if they have the same records."""
    step = _same_until(first, second)
    for one, other in itertools.zip_longest(first.records(step), second.records(step)):
        if one != other:
            return Difference(one.step if one else other.step, one, other)
    return None


def _same_until(first: TraceReader, second: TraceReader) -> int:
    """A step up to which the traces' frames are the same bytes: quick to find out."""
    if first.end.start != second.end.start:
        return 0
    for number, (one, other) in enumerate(zip(first.entries, second.entries, strict=False)):
        if one != other or first.frame(number) != second.frame(number):
            return one.first_step
    return min(first.steps, second.steps)


def line(reader: TraceReader, step: int) -> str:
    """The record at *step* as a line, with its time."""
    if step >= reader.steps:
        return "the trace has ended"
    lines = Lines(start=reader.end.start, steps=reader.steps, first=step, last=step, time=True)
    block = lines(reader.frame(reader.find(step)))
    return b"".join(join([block])).decode().rstrip("\n")
