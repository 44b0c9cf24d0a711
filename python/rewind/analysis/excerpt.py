"""Records of two traces as lines, where they part."""

import struct
from collections import deque
from collections.abc import Iterator, Sequence

import attrs

from rewind.analysis import render
from rewind.analysis.parting import Parting, Thread, is_compared
from rewind.analysis.render import Lines, join
from rewind.formats import trace
from rewind.formats.trace import Enter, Raw, TraceReader


def line(reader: TraceReader, step: int) -> str:
    """The record at *step* as a line, with its time."""
    if step >= reader.steps:
        return "the trace has ended"
    (text,) = Excerpt(reader, reader.steps, time=True, wakes=True).lines(step, step)
    return text


@attrs.frozen
class Excerpt:
    """Lines of a trace; *steps* makes the width of their numbers.

    Some have two records, a call and its result; of wake-ups there are none unless *wakes*.
    """

    reader: TraceReader
    steps: int
    time: bool = False
    wakes: bool = False

    def lines(self, first: int, last: int) -> list[str]:
        """The lines of the records from *first* to *last*, as far as there are."""
        reader = self.reader
        last = min(last, reader.steps - 1)
        if first > last:
            return []
        rendered = Lines(
            start=reader.end.start,
            steps=self.steps,
            first=first,
            last=last,
            time=self.time,
            wakes=self.wakes,
        )
        frames = map(reader.frame, range(reader.find(first), reader.find(last) + 1))
        return b"".join(join(map(rendered, frames))).decode().splitlines()

    def before(self, step: int, count: int) -> list[str]:
        """The last *count* lines before the record at *step*."""
        span = 2 * count
        while True:
            found = self.lines(max(step - span, 0), step - 1)
            if len(found) >= count or span >= step:
                return found[len(found) - min(count, len(found)) :]
            span *= 2

    def after(self, step: int, count: int) -> list[str]:
        """The *count* lines that begin with the record at *step*."""
        span = 2 * count
        while True:
            found = self.lines(step, step + span - 1)
            if len(found) >= count or step + span >= self.reader.steps:
                return found[:count]
            span *= 2


# --- a single thread

_NOT_ITS_DEEDS = frozenset({trace.SWITCH, trace.PERTURBED, trace.WAKE})
"""Types of records that say when a thread runs, not what it does."""
_VALUE = struct.Struct("<q")


@attrs.define
class _Deed:
    """Something that a thread does; *data* and *raw* are of the record it begins with."""

    step: int
    text: str
    data: bytes
    raw: Raw
    value: int | None = None
    """What it returned, if it is a call that did."""

    @property
    def is_compared(self) -> bool:
        if self.raw.type != trace.ENTER:
            return True
        record = trace.parse(self.data, self.raw)
        assert isinstance(record, Enter)
        return is_compared(record, self.value)


def _deeds(records: Iterator[tuple[bytes, Raw]]) -> Iterator[_Deed]:
    """What the thread does whose records these are; calls have their results."""
    calling: _Deed | None = None
    for data, raw in records:
        if raw.type == trace.EXIT:
            result = render.CALLS[raw.aux].result(data, raw.payload, raw.end)
            if calling is not None and calling.raw.aux == raw.aux:
                calling.text += f" = {result}"
                (calling.value,) = _VALUE.unpack_from(data, raw.payload)
                yield calling
                calling = None
                continue
            text = f"… {render.CALLS[raw.aux].name} = {result}"
        elif raw.type == trace.ENTER:
            text = render.CALLS[raw.aux].enter(data, raw.payload, raw.end)
        else:
            text = render.describe(trace.parse(data, raw))
        if calling is not None:
            # Another thing happens in it, such as the start of a thread.
            yield calling
            calling = None
        deed = _Deed(raw.step, text, data, raw)
        if raw.type == trace.ENTER:
            calling = deed
        else:
            yield deed
    if calling is not None:
        yield calling


@attrs.frozen
class ThreadLines:
    """What a thread of a run did, as lines without what others did meanwhile."""

    reader: TraceReader
    thread: Thread
    steps: int
    """For the width of the steps' column."""

    def _text(self, deed: _Deed) -> str:
        width = len(str(max(self.steps - 1, 0)))
        return (
            f"{deed.step:>{width}}  {render.task(self.thread.pid, self.thread.tid):<9}  {deed.text}"
        )

    def _backwards(self, step: int) -> Iterator[tuple[bytes, Raw]]:
        """Its records before *step*, the latest first."""
        first = self.thread.first
        if step <= first:
            return
        for number in range(self.reader.find(step - 1), self.reader.find(first) - 1, -1):
            frame = self.reader.frame(number)
            for raw in reversed(list(trace.walk(frame, self.reader.end.start))):
                if first <= raw.step < step and self._is_deed(raw):
                    yield frame.data, raw

    def _forwards(self, step: int) -> Iterator[tuple[bytes, Raw]]:
        """Its records from *step* on, until it ends."""
        for frame in self.reader.frames(step, None):
            for raw in trace.walk(frame, self.reader.end.start):
                if raw.step >= step and self._is_deed(raw):
                    yield frame.data, raw
                    if raw.type == trace.TASK_END:
                        return

    def _is_deed(self, raw: Raw) -> bool:
        return raw.tid == self.thread.tid and raw.type not in _NOT_ITS_DEEDS

    def before(self, step: int, count: int) -> list[str]:
        """The last *count* of what counts in a comparison, before the record *step*."""
        records: list[tuple[bytes, Raw]] = []
        found: list[_Deed] = []
        enough = 4 * count
        if not count:
            return []
        for record in self._backwards(step):
            records.append(record)
            if len(records) == enough:
                enough *= 2
                found = [deed for deed in _deeds(reversed(records)) if deed.is_compared]
                if len(found) > count:
                    break
        else:
            found = [deed for deed in _deeds(reversed(records)) if deed.is_compared]
        return list(map(self._text, found[-count:]))

    def after(self, step: int, count: int) -> list[str]:
        """*count* lines of what it does from the record *step* on."""
        found: list[str] = []
        for deed in _deeds(self._forwards(step)):
            if len(found) == count:
                break
            found.append(self._text(deed))
        return found

    def last(self) -> list[str]:
        """The last thing it does, if it does anything; a call that does not return is open."""
        latest = deque(self._forwards(self.thread.first), maxlen=2)
        return [
            self._text(deed) + (" …" if deed.raw.type == trace.ENTER and deed.value is None else "")
            for deed in deque(_deeds(iter(latest)), maxlen=1)
        ]


BOTH = "both"
"""The label of lines that two runs have in common."""


def labelled(label: str, lines: Sequence[str]) -> Iterator[str]:
    """*lines* with *label* before each, in a column."""
    width = max(len(BOTH), 8)
    return (f"  {label:<{width}}  {line}" for line in lines)


def program_lines(
    readers: tuple[TraceReader, TraceReader],
    labels: tuple[str, str],
    found: Parting,
    context: int,
) -> Iterator[str]:
    """Where the two runs part that *found* tells of, and *context* lines before and after."""
    steps = max(reader.steps for reader in readers)
    threads = [
        None if thread is None else ThreadLines(reader, thread, steps)
        for reader, thread in zip(readers, (found.first_thread, found.second_thread), strict=True)
    ]
    events = (found.first, found.second)
    ids = [thread.thread.tid for thread in threads if thread is not None]
    name = f"thread {ids[0]}"
    if ids[0] != ids[-1]:
        name += f", {ids[1]} in {labels[1]},"
    program = found.program.rpartition("/")[2] or "the builder"
    where = ", ".join(
        f"{event.begin} of {label}"
        for label, event in zip(labels, events, strict=True)
        if event is not None
    )
    yield f"{program}: {name} does the same until step {where}"
    known = next(
        (thread, event)
        for thread, event in zip(threads, events, strict=True)
        if thread is not None and event is not None
    )
    yield from labelled(BOTH, known[0].before(known[1].begin, context))
    for label, thread, event in zip(labels, threads, events, strict=True):
        if thread is None:
            lines = ["has no such thread"]
        elif event is None:
            last = thread.last()
            lines = ["does no more; the last is", *last] if last else ["does nothing"]
        else:
            lines = thread.after(event.begin, max(context, 1))
        yield from labelled(label, lines)
