"""The guest times of a run's steps, read from its trace as they are asked for."""

import bisect
import functools
import struct
from collections.abc import Sequence
from typing import overload

from rewind.formats.schedule import Position
from rewind.formats.trace import SIZE_EXTRA, TraceReader, damaged

_HEAD = struct.Struct("<QH")
"""A record's time and size."""
_FRAMES = 64
"""Frames of which the times are remembered."""


def position_at(times: Sequence[int], time: int) -> Position:
    """The position at *time* of a run with steps at *times*: after the last one up to then."""
    step = max(bisect.bisect_right(times, time) - 1, 0)
    return Position(step, time - times[step])


class Times(Sequence[int]):
    """The absolute time of each step of the trace that *reader* reads, as long as that is open.

    Reading one may raise `rewind.formats.FormatError`.
    """

    def __init__(self, reader: TraceReader) -> None:
        self._reader = reader
        self._frame = functools.lru_cache(_FRAMES)(self._read)

    def _read(self, number: int) -> list[int]:
        # Of `rewind.formats.trace.walk`, which checks every record, only the times: a question must
        # not wait for more.
        frame = self._reader.frame(number)
        found, at = [], 0
        try:
            for _ in range(frame.records):
                time, size = _HEAD.unpack_from(frame.data, at)
                found.append(time)
                at += SIZE_EXTRA + size
        except struct.error:
            raise damaged(frame.first_step + len(found), "it is cut short") from None
        return found

    def __len__(self) -> int:
        return self._reader.steps

    @overload
    def __getitem__(self, step: int) -> int: ...

    @overload
    def __getitem__(self, step: slice) -> list[int]: ...

    def __getitem__(self, step: int | slice) -> int | list[int]:
        if isinstance(step, slice):
            return [self[number] for number in range(*step.indices(len(self)))]
        if not 0 <= step < len(self):
            raise IndexError(step)
        number = self._reader.find(step)
        entry = self._reader.entries[number]
        if step == entry.first_step:
            return entry.first_time
        return self._frame(number)[step - entry.first_step]
