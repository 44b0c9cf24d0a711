"""Draws who had the CPU when: a lane a thread, time from left to right."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from rewind.analysis.lanes import READY, RUNS, WAITS, Lane

FULL, PART = "█", "▄"
"""A cell in which a thread runs: for half of its time or more, or for less."""
READY_CELL, WAITS_CELL, NOBODY = "░", "·", " "
"""A cell in which it does not, but could; in which it waits; in which there is no such thread."""
PERTURBED = "▼"
LEGEND = (
    f"{FULL} runs  {PART} for less than half of the time  {READY_CELL} could run"
    f"  {WAITS_CELL} waits"
)
_COLOURS = {FULL: "32;1", PART: "32", READY_CELL: "33", WAITS_CELL: "2", PERTURBED: "31;1"}
_GAP = 2
"""How many columns a time has at most in which no thread of the job can run."""


def idle(lanes: Iterable[Lane], start: int, end: int) -> Iterator[tuple[int, int]]:
    """When between *start* and *end* none of *lanes* runs or could."""
    changes: list[tuple[int, int]] = []
    for lane in lanes:
        for state, begin, until in lane.segments(start, end):
            if state in (RUNS, READY):
                changes += (begin, 1), (until, -1)
    changes.sort()
    busy = 0
    since = start
    for time, change in changes:
        if not busy and time > since:
            yield since, time
        busy += change
        since = time
    if since < end:
        yield since, end


class Axis:
    """Columns for the time from *start* to *end*, of which *gaps* have little room.

    Between gaps, columns are equally long: of `column_ns` ns.
    """

    def __init__(
        self, start: int, end: int, columns: int, gaps: Iterable[tuple[int, int]] = ()
    ) -> None:
        self.start, self.end, self.columns = start, max(end, start + 1), columns
        found = list(gaps)
        busy = self.end - start - sum(until - begin for begin, until in found)
        # A long gap's room, in ns; all of them together have no more than what is between them.
        room = _GAP * busy / columns
        while room and sum(min(room, until - begin) for begin, until in found) > busy:
            room /= 2
        # From a time on, where it is drawn, and how many ns are drawn as one.
        self._times, self._places, self._scales = [start], [0.0], [1.0]
        self.cut: list[tuple[int, int]] = []
        """The gaps that are drawn shorter than they are."""
        if busy:
            for begin, until in found:
                if until - begin > room:
                    self.cut.append((begin, until))
                    self._add(begin, (until - begin) / room)
                    self._add(until, 1.0)
        self.column_ns = self._place(self.end) / columns

    def _add(self, time: int, scale: float) -> None:
        place = self._place(time)
        if time == self._times[-1]:
            self._scales[-1] = scale
        else:
            self._times.append(time)
            self._places.append(place)
            self._scales.append(scale)

    def _place(self, time: int) -> float:
        number = bisect_right(self._times, time) - 1
        return self._places[number] + (time - self._times[number]) / self._scales[number]

    def column(self, time: int) -> float:
        """Where *time* is, in columns."""
        return self._place(time) / self.column_ns

    def time(self, column: int) -> int:
        """When *column* begins."""
        place = column * self.column_ns
        number = bisect_right(self._places, place) - 1
        return round(self._times[number] + (place - self._places[number]) * self._scales[number])


def draw(lane: Lane, axis: Axis, perturbed: Sequence[int] = ()) -> str:
    """The cells of *lane*; *perturbed* are the times at which something is done to it."""
    columns = axis.columns
    shares = [[0.0] * columns for _ in (RUNS, READY, WAITS)]
    for state, begin, until in lane.segments(axis.start, axis.end):
        first, last = axis.column(begin), axis.column(until)
        share = shares[state]
        column = min(int(first), columns - 1)
        while column < columns and first < last:
            border = min(last, column + 1)
            share[column] += border - first
            first = border
            column += 1
    cells = [_cell(*parts) for parts in zip(*shares, strict=True)]
    for time in perturbed:
        cells[min(int(axis.column(time)), columns - 1)] = PERTURBED
    return "".join(cells)


def _cell(runs: float, ready: float, waits: float) -> str:
    if runs:
        return FULL if runs >= 0.5 else PART
    if not ready and not waits:
        return NOBODY
    return READY_CELL if ready >= waits else WAITS_CELL


def coloured(cells: str) -> str:
    """*cells* with colours for a terminal."""
    out = []
    last = ""
    for cell in cells:
        colour = _COLOURS.get(cell, "")
        if colour != last:
            out.append(f"\x1b[0;{colour}m" if colour else "\x1b[0m")
            last = colour
        out.append(cell)
    return "".join(out) + ("\x1b[0m" if last else "")


def ruler(labels: Sequence[tuple[int, str]], columns: int) -> tuple[str, str]:
    """Two lines: *labels* (column and text) where they have room, and marks below them."""
    texts, marks = [" "] * columns, [" "] * columns
    free = 0
    for column, text in labels:
        if column >= free and column + len(text) <= columns:
            texts[column : column + len(text)] = text
            marks[column] = "│"
            free = column + len(text) + 2
    return "".join(texts).rstrip(), "".join(marks).rstrip()
