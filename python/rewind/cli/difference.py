"""Records of two traces as lines, where they part."""

from rewind.analysis.render import Lines, join
from rewind.formats.trace import TraceReader


def line(reader: TraceReader, step: int) -> str:
    """The record at *step* as a line, with its time."""
    if step >= reader.steps:
        return "the trace has ended"
    lines = Lines(
        start=reader.end.start, steps=reader.steps, first=step, last=step, time=True, wakes=True
    )
    block = lines(reader.frame(reader.find(step)))
    return b"".join(join([block])).decode().rstrip("\n")
