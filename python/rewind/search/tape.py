"""A trace that is held in memory, compressed: that of a run which a search has made.

A fork sends what happens after its keyframe; before, it is the run that the keyframe was taken
from. So a tape can be cut and continued, and is, written to a file, the file that a recorder
would have made of the same run.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import attrs
import zstandard

from rewind.formats.trace import (
    FRAME_BYTES,
    LEVEL,
    RECORD,
    End,
    Frame,
    Record,
    Select,
    TraceWriter,
    decode,
    walk,
)


@attrs.frozen
class _Part:
    """A frame, its data compressed."""

    first_step: int
    first_time: int
    records: int
    packed: bytes

    @classmethod
    def of(cls, frame: Frame) -> Self:
        packed = zstandard.ZstdCompressor(level=LEVEL).compress(frame.data)
        return cls(frame.first_step, frame.first_time, frame.records, packed)

    @property
    def end(self) -> int:
        return self.first_step + self.records

    def frame(self) -> Frame:
        data = zstandard.ZstdDecompressor().decompress(self.packed)
        return Frame(self.first_step, self.first_time, self.records, data)


@attrs.define
class Tape:
    """Some records of a run, from its first on."""

    _parts: list[_Part] = attrs.Factory(list)
    _times: list[int] = attrs.field(factory=list, init=False, eq=False, repr=False)

    @property
    def steps(self) -> int:
        """How many records there are."""
        return self._parts[-1].end if self._parts else 0

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, about."""
        return sum(len(part.packed) for part in self._parts)

    def add(self, frame: Frame) -> None:
        """Append *frame*, which begins where the tape ends."""
        if frame.first_step != self.steps:
            raise ValueError(f"a frame at step {frame.first_step} does not follow {self.steps}")
        self._parts.append(_Part.of(frame))

    def copy(self) -> "Tape":
        """One that can be continued otherwise."""
        return Tape(list(self._parts))

    def frames(self) -> Iterator[Frame]:
        """The records, in the frames in which a device that runs without a stop sends them."""
        data = bytearray()
        first: tuple[int, int] | None = None
        count = 0
        for part in self._parts:
            frame = part.frame()
            for raw in walk(frame):
                start = raw.payload - RECORD.size
                if first is not None and len(data) + raw.end - start > FRAME_BYTES:
                    yield Frame(*first, count, bytes(data))
                    data, first, count = bytearray(), None, 0
                if first is None:
                    first = (raw.step, raw.time)
                data += frame.data[start : raw.end]
                count += 1
        if first is not None:
            yield Frame(*first, count, bytes(data))

    def records(
        self, start: int, first: int = 0, last: int | None = None, select: Select | None = None
    ) -> Iterator[Record]:
        """The records from step *first* to step *last* (included; default: all).

        :param start: when the job started, in ns since the machine did.
        """
        for part in self._parts:
            if part.end <= first:
                continue
            for record in decode(part.frame(), start, select):
                if last is not None and record.step > last:
                    return
                if record.step >= first:
                    yield record

    def times(self) -> list[int]:
        """The time of each step, in ns since the machine started."""
        if len(self._times) != self.steps:
            self._times = [raw.time for part in self._parts for raw in walk(part.frame())]
        return self._times

    def digest(self) -> str:
        """SHA-256 of the records, in hexadecimal."""
        total = hashlib.sha256()
        for part in self._parts:
            total.update(part.frame().data)
        return total.hexdigest()

    def write(self, path: Path, end: End) -> None:
        """Write the trace file that a recorder would have written."""
        with TraceWriter(path) as writer:
            for frame in self.frames():
                writer.add(frame)
            writer.finish(end)
