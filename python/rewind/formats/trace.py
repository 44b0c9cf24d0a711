"""The trace: every record of a run, as the device sends it and as it is stored.

What the device sends is in docs/design.md, "The trace". The stored file is, in little endian::

    header   8 bytes "rwtrace\\n", u32 version, u32 0
    frames   each: "RWZF", u32 compressed bytes, u32 raw bytes, u32 records,
             u64 first step, u64 time of the first record; then the device's records of the
             frame, unchanged, compressed by zstd (with its checksum)
    index    CBOR: {"frames": [[offset, compressed bytes, raw bytes, first step, records,
             first time], ...], "end": [reason, steps, time, start]}
    footer   u64 offset of the index, u64 its bytes, 32 bytes SHA-256 of the index, "rwindex\\n"

Equal input makes an equal file: the compressor runs in one thread at a fixed level. Writing
never looks at single records; reading looks at a frame when it gets there.
"""

import errno
import hashlib
import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, ClassVar, Self

import attrs
import cbor2
import zstandard

from rewind.formats import FormatError
from rewind.formats.schedule import Position

VERSION = 2
"""What is written. Version 1 has no `Wake` and no `Perturbed.user_ip`, and is read as well."""
LEVEL = 3
"""Of zstd's compression."""

FRAME_BYTES = 256 << 10
"""What the device lets a frame grow to (FRAME_SIZE in hw/misc/rewind.c)."""
MAX_FRAME_BYTES = 64 << 20
"""A frame that claims more raw bytes is damaged; the device's are far smaller."""
MAX_INDEX_BYTES = 1 << 30
"""An index that claims more is damaged: this many index more than any disk's trace."""

_MAGIC = b"rwtrace\n"
_INDEX_MAGIC = b"rwindex\n"
_HEADER = struct.Struct("<8sII")
_FRAME = struct.Struct("<4sIIIQQ")
_FOOTER = struct.Struct("<QQ32s8s")
_DEVICE_FRAME = struct.Struct("<4sIIIQQ")
_DEVICE_END = struct.Struct("<IIQQQ")
_DEVICE_CAME = struct.Struct("<QQ")
_NEVER, _BEFORE = (1 << 64) - 1, (1 << 64) - 2
"""Instead of a step: it never came; it was due before the machine's state was taken."""
_RECORDS, _END, _SCHEDULE = range(3)
"""The kinds of the device's frames."""

RECORD = struct.Struct("<QHBBIII")
"""The head of a record: time, size (without the time), type, flags, pid, tid, aux."""
SIZE_EXTRA = 8
"""What a record's size does not count: its time."""

REASONS = {1: "finished", 2: "stalled", 3: "timed out", 4: "stopped"}
"""Why a trace ended, by `End.reason`."""

MARK, ENTER, EXIT, SWITCH, FORK, EXEC, TASK_END, DELIVERED, SENT, PERTURBED, WAKE = range(1, 12)
"""The types of records."""


@attrs.frozen
class Frame:
    """Some records in a row, as the device sent them: *records* of them in *data*."""

    first_step: int
    first_time: int
    """ns since the machine started."""
    records: int
    data: bytes = attrs.field(repr=False)


@attrs.frozen
class End:
    """How a trace ended: why (see `REASONS`), its *steps*, and when, in ns of guest time.

    *time* and *start* (of the job) count from the machine's start.
    """

    reason: int
    steps: int
    time: int
    start: int

    def __attrs_post_init__(self) -> None:
        if self.reason not in REASONS:
            raise FormatError(f"the trace is damaged: it ends for the unknown reason {self.reason}")
        if self.time < self.start:
            raise FormatError("the trace is damaged: it ends before it starts")


@attrs.frozen
class Arrivals:
    """Where the perturbations of the device's schedule came, in its order."""

    places: tuple[Position | None, ...]
    """None: it never did, or it is in *before*."""
    before: frozenset[int]
    """Indices of those that were due, if ever, before the state that the machine began with."""


class FrameSource:
    """The frames that the device writes to *stream*, then the `End`, as an iterator.

    The frames must join: each begins with the step after the last one's; the first begins with
    *step*, which is not 0 for a machine that goes on from within a run. `arrivals` is known when
    the `End` has come.

    :raises FormatError: (while iterating) if the stream is not a trace, or stops before its end.
    """

    def __init__(self, stream: BinaryIO, step: int = 0) -> None:
        self._stream = stream
        self._step = step
        self.arrivals = Arrivals((), frozenset())

    def __iter__(self) -> Iterator[Frame | End]:
        step = self._step
        while True:
            head = self._read(_DEVICE_FRAME.size)
            magic, size, records, kind, first_step, first_time = _DEVICE_FRAME.unpack(head)
            kinds = (_RECORDS, _END, _SCHEDULE)
            if magic != b"RWFR" or size > MAX_FRAME_BYTES or kind not in kinds:
                raise FormatError(f"what the device wrote after step {step:,} is no frame")
            data = self._read(size)
            if kind == _SCHEDULE:
                self.arrivals = _arrivals(data)
                continue
            if kind == _END:
                if size != _DEVICE_END.size:
                    raise FormatError("the device's end of the trace is malformed")
                reason, _, steps, time, start = _DEVICE_END.unpack(data)
                if steps != step:
                    raise FormatError(f"the device counted {steps:,} records and wrote {step:,}")
                yield End(reason, steps, time, start)
                return
            if first_step != step or records * RECORD.size > size or (size and not records):
                raise FormatError(f"the device's frame at step {first_step:,} is malformed")
            step += records
            if records:
                yield Frame(first_step, first_time, records, data)

    def _read(self, size: int) -> bytes:
        parts = []
        missing = size
        while missing:
            part = self._stream.read(missing)
            if not part:
                raise FormatError("the trace stops before its end: the machine died")
            parts.append(part)
            missing -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _arrivals(data: bytes) -> Arrivals:
    if len(data) % _DEVICE_CAME.size:
        raise FormatError("what the device wrote of its schedule is malformed")
    entries = list(_DEVICE_CAME.iter_unpack(data))
    return Arrivals(
        tuple(None if step in (_NEVER, _BEFORE) else Position(step, at) for step, at in entries),
        frozenset(number for number, (step, _) in enumerate(entries) if step == _BEFORE),
    )


class TraceWriter:
    """Writes a trace file: `add` each frame, then `finish`.

    *target* is a path, or a file open for writing bytes, which the caller closes. Used as a
    context manager it closes what it opened.
    """

    def __init__(self, target: Path | BinaryIO) -> None:
        self._owned = target.open("wb") if isinstance(target, Path) else None
        self._file: BinaryIO = self._owned or target  # type: ignore[assignment]
        self._compressor = zstandard.ZstdCompressor(
            level=LEVEL, threads=0, write_checksum=True, write_content_size=True
        )
        self._index: list[list[int]] = []
        self._offset = 0
        self._steps = 0
        self._write(_HEADER.pack(_MAGIC, VERSION, 0))

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._offset += len(data)

    def add(self, frame: Frame) -> None:
        """Append *frame*, which must begin where the last one stopped."""
        if frame.first_step != self._steps or len(frame.data) > MAX_FRAME_BYTES:
            raise ValueError(f"a frame at step {frame.first_step} does not follow {self._steps}")
        packed = self._compressor.compress(frame.data)
        sizes = (len(packed), len(frame.data))
        self._index.append(
            [self._offset, *sizes, frame.first_step, frame.records, frame.first_time]
        )
        self._write(_FRAME.pack(b"RWZF", *sizes, frame.records, frame.first_step, frame.first_time))
        self._write(packed)
        self._steps += frame.records

    def finish(self, end: End) -> None:
        """Write *end* and the index; nothing can be added after it."""
        if end.steps != self._steps:
            raise ValueError(f"the trace has {self._steps} steps, its end says {end.steps}")
        index = cbor2.dumps({"frames": self._index, "end": list(attrs.astuple(end))})
        footer = _FOOTER.pack(
            self._offset, len(index), hashlib.sha256(index).digest(), _INDEX_MAGIC
        )
        self._write(index)
        self._write(footer)
        self._file.flush()
        self.close()

    def close(self) -> None:
        """Close the file, if this writer opened it."""
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


PATH, DATA, ARGUMENTS = 1, 2, 3
"""The kinds of details."""


@attrs.frozen
class Detail:
    """What the argument number *argument* of a call points to.

    *kind* is `PATH` (a path or other string), `DATA` (bytes read or written) or `ARGUMENTS`
    (strings, each ended by NUL); *cut* says that there was more.
    """

    argument: int
    kind: int
    cut: bool
    data: bytes


@attrs.frozen(kw_only=True)
class Record:
    """A record of a trace, whatever its type.

    *time* is in ns of guest time since the job's start. *pid* (the process) and *tid* (the
    thread) are as the job's PID namespace shows them, 0 for a task outside it.
    """

    type: ClassVar[str]

    step: int
    time: int
    pid: int
    tid: int


@attrs.frozen(kw_only=True)
class Mark(Record):
    """A text that something wrote into the trace."""

    type: ClassVar[str] = "mark"

    text: str


@attrs.frozen(kw_only=True)
class Enter(Record):
    """A system call begins. *ip* is the address of the instruction after the call."""

    type: ClassVar[str] = "enter"

    call: int
    args: tuple[int, ...]
    ip: int
    details: tuple[Detail, ...]


@attrs.frozen(kw_only=True)
class Exit(Record):
    """A system call returns *value* (an error is the negated errno)."""

    type: ClassVar[str] = "exit"

    call: int
    value: int
    details: tuple[Detail, ...]


@attrs.frozen(kw_only=True)
class Switch(Record):
    """The CPU goes from this record's task to another; *state* is what the former is left in.

    0 is runnable: it was preempted. Other values are the kernel's TASK_* bits.
    """

    type: ClassVar[str] = "switch"

    state: int
    next_pid: int
    next_tid: int
    name: str
    """Of the next task."""


@attrs.frozen(kw_only=True)
class Fork(Record):
    """A task makes another; *child_pid* is its own pid for a thread. *flags* are clone's."""

    type: ClassVar[str] = "fork"

    child_pid: int
    child_tid: int
    flags: int


@attrs.frozen(kw_only=True)
class Exec(Record):
    """A process becomes the program *path*; *arguments* may be cut short."""

    type: ClassVar[str] = "exec"

    path: str
    arguments: tuple[str, ...]


@attrs.frozen(kw_only=True)
class TaskEnd(Record):
    """A thread ends. *code* is a status as wait(2) has it; *last*: its process ends, too."""

    type: ClassVar[str] = "end"

    code: int
    name: str
    last: bool


@attrs.frozen(kw_only=True)
class SignalDelivered(Record):
    """The task gets *signal*, with si_code *code*, from process *sender* (0: the kernel)."""

    type: ClassVar[str] = "delivered"

    signal: int
    code: int
    sender: int


@attrs.frozen(kw_only=True)
class SignalSent(Record):
    """The task sends *signal*, with si_code *code*."""

    type: ClassVar[str] = "sent"

    signal: int
    receiver_pid: int
    receiver_tid: int
    code: int


@attrs.frozen(kw_only=True)
class Perturbed(Record):
    """The schedule changes the run: *kind* is "stall" (for *ns*) or "reschedule".

    *ip* is the instruction it interrupts, *user_ip* where the task is in user mode: the same, or
    where the kernel that was interrupted returns to; 0 if that is not known. *nothing*: no task
    of the job was running, and so nothing was done.
    """

    type: ClassVar[str] = "perturbation"

    kind: str
    ns: int
    ip: int
    user_ip: int
    nothing: bool


@attrs.frozen(kw_only=True)
class Wake(Record):
    """The task makes another one of the job, which waited or was stopped, runnable.

    There is exactly one for each `Switch` that leaves a task in a state other than 0, unless it
    ends; none for a task that is woken before it was switched from. *interrupt*: it is done in an
    interrupt, a timer's for instance. The record then is of no task, unless the interrupt
    goes on with what the running task began: it sends over the loopback device.
    """

    type: ClassVar[str] = "wake"

    woken_pid: int
    woken_tid: int
    interrupt: bool


_DETAIL = struct.Struct("<BBH")
_ENTER = struct.Struct("<7Q")
_EXIT = struct.Struct("<q")
_SWITCH = struct.Struct("<II16s")
_FORK = struct.Struct("<IIQ")
_DELIVERED = struct.Struct("<iI")
_SENT = struct.Struct("<IIi")
_PERTURBED = struct.Struct("<QQ")
_USER_IP = struct.Struct("<Q")
_WAKE = struct.Struct("<I")


def text(data: bytes) -> str:
    """A string of the guest; bytes that are not UTF-8 show as ``\\xNN``."""
    return data.decode("utf-8", "backslashreplace")


def name(data: bytes) -> str:
    """A task's name, from its 16 bytes."""
    return text(data.split(b"\0", 1)[0])


def details(data: bytes, offset: int, end: int) -> tuple[Detail, ...]:
    """The details in *data* from *offset* to *end*.

    :raises FormatError: if they do not fill that place exactly.
    """
    found = []
    while offset < end:
        if end - offset < _DETAIL.size:
            raise FormatError("a detail is cut short")
        argument, kind, size = _DETAIL.unpack_from(data, offset)
        offset += _DETAIL.size
        if size > end - offset:
            raise FormatError("a detail is longer than its record")
        found.append(Detail(argument, kind & 0x7F, kind >= 0x80, data[offset : offset + size]))
        offset += size
    return tuple(found)


def _mark(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    return Mark, {"text": text(data[at:end])}


def _enter(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    *args, ip = _ENTER.unpack_from(data, at)
    found = details(data, at + _ENTER.size, end)
    return Enter, {"call": aux, "args": tuple(args), "ip": ip, "details": found}


def _exit(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    (value,) = _EXIT.unpack_from(data, at)
    return Exit, {"call": aux, "value": value, "details": details(data, at + _EXIT.size, end)}


def _switch(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    pid, tid, comm = _SWITCH.unpack_from(data, at)
    return Switch, {"state": aux, "next_pid": pid, "next_tid": tid, "name": name(comm)}


def _fork(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    pid, _, clone_flags = _FORK.unpack_from(data, at)
    return Fork, {"child_pid": pid, "child_tid": aux, "flags": clone_flags}


def _exec(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    path = ""
    arguments: tuple[str, ...] = ()
    for detail in details(data, at, end):
        if detail.argument == 0:
            path = text(detail.data)
        elif detail.argument == 1 and detail.data:
            arguments = tuple(map(text, detail.data.removesuffix(b"\0").split(b"\0")))
    return Exec, {"path": path, "arguments": arguments}


def _task_end(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    return TaskEnd, {"code": aux, "name": name(data[at : at + 16]), "last": bool(flags & 1)}


def _delivered(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    code, sender = _DELIVERED.unpack_from(data, at)
    return SignalDelivered, {"signal": aux, "code": code, "sender": sender}


def _sent(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    pid, tid, code = _SENT.unpack_from(data, at)
    return SignalSent, {"signal": aux, "receiver_pid": pid, "receiver_tid": tid, "code": code}


def _perturbed(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    ns, ip = _PERTURBED.unpack_from(data, at)
    kind = {1: "stall", 2: "reschedule"}.get(aux)
    if kind is None:
        raise FormatError(f"a perturbation has the unknown kind {aux}")
    fields = {"kind": kind, "ns": ns, "ip": ip, "user_ip": 0, "nothing": bool(flags & 1)}
    at += _PERTURBED.size
    if end - at >= _USER_IP.size:
        (fields["user_ip"],) = _USER_IP.unpack_from(data, at)
    return Perturbed, fields


def _wake(flags: int, aux: int, data: bytes, at: int, end: int) -> tuple[type[Record], Any]:
    (pid,) = _WAKE.unpack_from(data, at)
    return Wake, {"woken_pid": pid, "woken_tid": aux, "interrupt": bool(flags & 1)}


_Reader = Callable[[int, int, bytes, int, int], tuple[type[Record], Any]]
_READERS: dict[int, tuple[int, _Reader]] = {
    MARK: (0, _mark),
    ENTER: (_ENTER.size, _enter),
    EXIT: (_EXIT.size, _exit),
    SWITCH: (_SWITCH.size, _switch),
    FORK: (_FORK.size, _fork),
    EXEC: (0, _exec),
    TASK_END: (16, _task_end),
    DELIVERED: (_DELIVERED.size, _delivered),
    SENT: (_SENT.size, _sent),
    PERTURBED: (_PERTURBED.size, _perturbed),
    WAKE: (_WAKE.size, _wake),
}
MIN_SIZES = {kind: RECORD.size + size for kind, (size, _) in _READERS.items()}
"""The fewest bytes (time included) of a record, by type."""


@attrs.frozen
class Raw:
    """Where a record is in a frame's data, and its head; see `RECORD`."""

    step: int
    time: int
    type: int
    flags: int
    pid: int
    tid: int
    aux: int
    payload: int
    """Where what follows the head begins."""
    end: int


Select = Callable[[int, int], bool]
"""Whether a record is wanted, by its type and aux (the call, of `ENTER` and `EXIT`)."""


def walk(frame: Frame, start: int = 0, select: Select | None = None) -> Iterator[Raw]:
    """The heads of the records of *frame*, in order; if *select* is given, those that it wants.

    Their times count from *start*.

    :raises FormatError: at the first record that is malformed.
    """
    data = frame.data
    at = 0
    for step in range(frame.first_step, frame.first_step + frame.records):
        if len(data) - at < RECORD.size:
            raise damaged(step, "it is cut short")
        time, size, kind, flags, pid, tid, aux = RECORD.unpack_from(data, at)
        if kind not in MIN_SIZES:
            raise damaged(step, f"it has the unknown type {kind}")
        end = at + SIZE_EXTRA + size
        if end > len(data) or end < at + MIN_SIZES[kind]:
            raise damaged(step, "its size is wrong")
        if select is None or select(kind, aux):
            yield Raw(step, time - start, kind, flags, pid, tid, aux, at + RECORD.size, end)
        at = end
    if at != len(data):
        raise damaged(frame.first_step + frame.records, "no record was to follow")


def decode(frame: Frame, start: int = 0, select: Select | None = None) -> Iterator[Record]:
    """The records of *frame*, as `walk` gives their heads.

    :raises FormatError: at the first record that is malformed.
    """
    for raw in walk(frame, start, select):
        yield parse(frame.data, raw)


def parse(data: bytes, raw: Raw) -> Record:
    """The record *raw* of a frame's *data*.

    :raises FormatError: if it is malformed.
    """
    read = _READERS[raw.type][1]
    try:
        make, fields = read(raw.flags, raw.aux, data, raw.payload, raw.end)
    except FormatError as error:
        raise damaged(raw.step, error) from None
    return make(step=raw.step, time=raw.time, pid=raw.pid, tid=raw.tid, **fields)


def damaged(step: int, why: object) -> FormatError:
    """What to raise for a record that is malformed."""
    return FormatError(f"the trace is damaged at step {step:,}: {why}")


@attrs.frozen
class Entry:
    """A frame's line in a trace file's index."""

    offset: int
    packed_size: int
    raw_size: int
    first_step: int
    records: int
    first_time: int


class TraceReader:
    """A stored trace, open for reading; a context manager.

    :raises FormatError: if the file is no trace, is cut short or damaged, or is of a newer
        version; reading a frame or a record raises it, too.
    """

    end: End
    """How the trace ended."""
    entries: tuple[Entry, ...]
    """The index, in order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise FormatError(f"{path}: {error.strerror}") from None
        try:
            self._read_index()
        except BaseException:
            self.close()
            raise

    @property
    def steps(self) -> int:
        """How many records there are."""
        return self.end.steps

    @property
    def duration(self) -> int:
        """From the job's start to the trace's end, in ns of guest time."""
        return self.end.time - self.end.start

    def _error(self, why: str) -> FormatError:
        return FormatError(f"{self._path}: {why}")

    def _read(self, size: int, offset: int) -> bytes:
        try:
            data = os.pread(self._fd, size, offset)
        except OSError as error:
            raise self._error(error.strerror or errno.errorcode[error.errno or 0]) from None
        if len(data) != size:
            raise self._error("the trace is cut short")
        return data

    def _read_index(self) -> None:
        size = os.fstat(self._fd).st_size
        if size < _HEADER.size:
            raise self._error("this is no trace")
        magic, version, _ = _HEADER.unpack(self._read(_HEADER.size, 0))
        if magic != _MAGIC:
            raise self._error("this is no trace")
        if not 1 <= version <= VERSION:
            raise self._error(
                f"the trace is of version {version}; this rewind reads versions up to {VERSION}"
            )
        if size < _HEADER.size + _FOOTER.size:
            raise self._error("the trace is cut short")
        footer = self._read(_FOOTER.size, size - _FOOTER.size)
        offset, index_size, digest, magic = _FOOTER.unpack(footer)
        if magic != _INDEX_MAGIC:
            raise self._error("the trace is cut short")
        if index_size > MAX_INDEX_BYTES or offset + index_size != size - _FOOTER.size:
            raise self._error("the trace is damaged: its index is not where it should be")
        index = self._read(index_size, offset)
        if hashlib.sha256(index).digest() != digest:
            raise self._error("the trace is damaged: its index does not have its checksum")
        try:
            self.end, self.entries = _index(cbor2.loads(index), offset)
        # The decoder can raise nearly anything; see manifest.py.
        except Exception as error:
            raise self._error(f"the trace is damaged: its index is malformed: {error}") from None

    def frame(self, number: int) -> Frame:
        """The frame that is *number* in `entries`."""
        entry = self.entries[number]
        head = self._read(_FRAME.size, entry.offset)
        expected = _FRAME.pack(
            b"RWZF",
            entry.packed_size,
            entry.raw_size,
            entry.records,
            entry.first_step,
            entry.first_time,
        )
        packed = self._read(entry.packed_size, entry.offset + _FRAME.size)
        try:
            # The decompressor believes the size in zstd's own header: check it first.
            if head != expected or zstandard.frame_content_size(packed) != entry.raw_size:
                raise zstandard.ZstdError("its head does not match the index")
            data = zstandard.ZstdDecompressor().decompress(packed)
        except zstandard.ZstdError as error:
            raise self._error(
                f"the trace is damaged in the frame at step {entry.first_step:,}: {error}"
            ) from None
        return Frame(entry.first_step, entry.first_time, entry.records, data)

    def find(self, step: int) -> int:
        """The number of the frame that holds *step*, which must be in the trace."""
        return bisect_right(self.entries, step, key=lambda entry: entry.first_step) - 1

    def frames(self, first: int = 0, last: int | None = None) -> Iterator[Frame]:
        """The frames that hold the steps from *first* to *last* (included; default: all)."""
        last = self.steps - 1 if last is None else min(last, self.steps - 1)
        if max(first, 0) <= last:
            for number in range(self.find(max(first, 0)), self.find(last) + 1):
                yield self.frame(number)

    def records(
        self, first: int = 0, last: int | None = None, select: Select | None = None
    ) -> Iterator[Record]:
        """The records from step *first* to step *last* (included; default: all).

        *select* leaves out others, which takes a tenth of the time of reading them.
        """
        for frame in self.frames(first, last):
            try:
                for record in decode(frame, self.end.start, select):
                    if last is not None and record.step > last:
                        return
                    if record.step >= first:
                        yield record
            except FormatError as error:
                raise self._error(str(error)) from None

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _index(data: Any, size: int) -> tuple[End, tuple[Entry, ...]]:
    """The end and the entries of an index, checked against *size*, where the frames stop."""
    end = End(*map(_natural, data["end"]))
    entries = tuple(Entry(*map(_natural, entry)) for entry in data["frames"])
    offset, step = _HEADER.size, 0
    for entry in entries:
        fits = 0 < entry.records * RECORD.size <= entry.raw_size <= MAX_FRAME_BYTES
        if not fits or entry.offset != offset or entry.first_step != step:
            raise ValueError(f"the frame at step {step:,} is not what it should be")
        offset += _FRAME.size + entry.packed_size
        step += entry.records
    if (offset, step) != (size, end.steps):
        raise ValueError("its frames do not add up")
    return end, entries


def _natural(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise ValueError(f"{value!r} is no number")
    return value
