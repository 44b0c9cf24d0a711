"""Whether the files of a run, which come from somebody else, are what they should be.

The readers in `rewind.formats` say what is damaged. They believe what a run's own recorder would
never write, though: here is what has to be seen before they are given a stranger's file, and what
the commands take for granted of a run.
"""

import re
import struct
from pathlib import Path

from rewind.formats import FormatError, trace
from rewind.formats.manifest import MAX_BYTES, Manifest
from rewind.formats.trace import TraceReader
from rewind.recorder.request import CORES_MAX, EPOCH_MAX, EPOCH_MIN, TIME_LIMIT_MAX

NAME = re.compile(r"[0-9a-df-np-sv-z]{32}-rewind-run-[-+._?=0-9a-zA-Z]{1,200}", re.ASCII)
"""Of a run's store path."""
STORE_PATH = re.compile(
    r"/nix/store/[0-9a-df-np-sv-z]{32}-[-+_?=0-9a-zA-Z][-+._?=0-9a-zA-Z]{0,210}", re.ASCII
)
INDEX_MAX = 256 << 20
"""Bytes of a trace's index."""
MEMORY_MAX = 1 << 30
"""MiB."""

_FOOTER = struct.Struct("<QQ32s8s")
"""Of a trace; see `rewind.formats.trace`."""
_FOOTER_MAGIC = b"rwindex\n"
_DEPTH_MAX = 16
_SIZES = {24: 1, 25: 2, 26: 4, 27: 8}
_SIMPLE = (20, 21, 22)
"""false, true and null."""


def run_files(directory: Path, name: str) -> Manifest:
    """The manifest of the run in *directory*, whose store path is called *name*.

    :raises FormatError: if it is damaged, or its files don't belong together.
    """
    if not NAME.fullmatch(name):
        raise FormatError(f"{name!r} is no name of a run in the store")
    found = manifest(directory / "manifest.cbor")
    if not name.endswith(f"-rewind-run-{found.name}"):
        raise FormatError(f"the manifest is of {found.name}, and the run called {name}")
    steps, start, end = trace_file(directory / "trace")
    if (steps, start, end) != (found.steps, found.start, found.end):
        raise FormatError("the manifest and the trace are of different runs")
    return found


def manifest(path: Path) -> Manifest:
    """The manifest in the file *path*.

    :raises FormatError: if it is damaged, or has what no run's has.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    cbor(data, "the manifest")
    found = Manifest.from_cbor(data)
    paths = [found.machine, *found.layers, found.drv, *(one.path for one in found.outputs.values())]
    texts = [found.name, found.system, found.seed, *found.outputs]
    numbers = (
        (found.epoch, EPOCH_MIN, EPOCH_MAX),
        (found.cores, 1, CORES_MAX),
        (found.memory, 1, MEMORY_MAX),
        (found.time_limit, 0, TIME_LIMIT_MAX),
        (found.start, 0, found.end),
        (found.steps, 0, 1 << 63),
        *((one.nar_size, 0, 1 << 63) for one in found.outputs.values()),
    )
    if (
        not all(map(STORE_PATH.fullmatch, paths))
        or not found.drv.endswith(".drv")
        or not all(text.isprintable() for text in texts)
        or not all(least <= number <= most for number, least, most in numbers)
    ):
        raise FormatError("the manifest has what no run's has")
    return found


def trace_file(path: Path) -> tuple[int, int, int]:
    """How many records the trace in the file *path* has, and when it starts and ends.

    :raises FormatError: if it is damaged, or goes back in time.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        if size >= _FOOTER.size:
            file.seek(size - _FOOTER.size)
            offset, length, _, magic = _FOOTER.unpack(file.read(_FOOTER.size))
            if magic == _FOOTER_MAGIC and length > INDEX_MAX:
                raise FormatError("the trace's index is larger than any is")
            if length <= INDEX_MAX and offset + length == size - _FOOTER.size:
                file.seek(offset)
                cbor(file.read(length), "the trace's index")
    with TraceReader(path) as reader:
        last = reader.end.start
        for frame in reader.frames():
            last = _check_frame(frame, last)
        if last > reader.end.time or reader.end.time >= 1 << 63:
            raise FormatError("the trace ends before its last record")
        return reader.steps, reader.end.start, reader.end.time


def _check_frame(frame: trace.Frame, last: int) -> int:
    """See that the records of *frame* are whole, and none was before *last*; when the last was."""
    data, unpack, least = frame.data, trace.RECORD.unpack_from, trace.MIN_SIZES
    head, extra, size = trace.RECORD.size, trace.SIZE_EXTRA, len(frame.data)
    at = 0
    for step in range(frame.first_step, frame.first_step + frame.records):
        if size - at < head:
            raise trace.damaged(step, "it is cut short")
        time, length, kind, _, _, _, _ = unpack(data, at)
        if kind not in least or length + extra < least[kind] or at + extra + length > size:
            raise trace.damaged(step, "it is no record")
        if time < last:
            raise trace.damaged(step, "it goes back in time")
        last = time
        at += extra + length
    if at != size:
        raise trace.damaged(frame.first_step + frame.records, "no record was to follow")
    return last


def cbor(data: bytes, what: str) -> None:
    """See that *data* is CBOR as simple as what rewind writes, and no longer than it says.

    A decoder makes room for as many things as an array claims to have, and of tags dates, patterns
    and numbers of any size.

    :raises FormatError: if it is not.
    """
    at, end = 0, len(data)
    open_ = [1]
    while open_:
        if not open_[-1]:
            open_.pop()
            continue
        open_[-1] -= 1
        if at >= end:
            raise FormatError(f"{what} is cut short")
        major, value = data[at] >> 5, data[at] & 31
        at += 1
        if value >= 24:
            size = _SIZES.get(value)
            if size is None or major == 7 or end - at < size:
                raise FormatError(f"{what} is damaged")
            value = int.from_bytes(data[at : at + size], "big")
            at += size
        if major in (2, 3):
            if value > end - at:
                raise FormatError(f"{what} is cut short")
            at += value
        elif major in (4, 5):
            count = value * (major - 3)
            if count > end - at or len(open_) > _DEPTH_MAX:
                raise FormatError(f"{what} is damaged")
            open_.append(count)
        elif major == 6 or (major == 7 and value not in _SIMPLE):
            raise FormatError(f"{what} is damaged")
    if at != end:
        raise FormatError(f"{what} is damaged: something follows its end")
