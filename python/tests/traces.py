"""Makes traces for tests, record by record, as the device would."""

import io
import struct
from collections.abc import Iterable
from pathlib import Path

from rewind.formats.trace import End, Frame, TraceWriter

START = 5_000


def record(
    kind: int,
    pid: int,
    tid: int,
    aux: int = 0,
    payload: bytes = b"",
    *,
    time: int = 0,
    flags: int = 0,
) -> bytes:
    """A record's bytes; *time* counts from the job's start."""
    return (
        struct.pack("<QHBBIII", START + time, 16 + len(payload), kind, flags, pid, tid, aux)
        + payload
    )


def detail(argument: int, kind: int, data: bytes, cut: bool = False) -> bytes:
    return struct.pack("<BBH", argument, kind | cut << 7, len(data)) + data


def enter(tid: int, call: int, *args: int, more: bytes = b"", pid: int = 0, time: int = 0) -> bytes:
    padded = (*args, 0, 0, 0, 0, 0, 0)[:6]
    payload = struct.pack("<7Q", *(arg % 2**64 for arg in padded), 0x401000) + more
    return record(2, pid or tid, tid, call, payload, time=time)


def leave(tid: int, call: int, value: int, more: bytes = b"", pid: int = 0, time: int = 0) -> bytes:
    return record(3, pid or tid, tid, call, struct.pack("<q", value) + more, time=time)


def switch(
    tid: int,
    next_tid: int,
    comm: bytes,
    state: int = 0,
    pid: int = 0,
    next_pid: int = 0,
    **more: int,
) -> bytes:
    payload = struct.pack("<II16s", next_pid or next_tid, next_tid, comm)
    return record(4, pid or tid, tid, state, payload, **more)


def fork(
    tid: int, child: int, flags: int = 0, pid: int = 0, child_pid: int = 0, **more: int
) -> bytes:
    return record(
        5, pid or tid, tid, child, struct.pack("<IIQ", child_pid or child, 0, flags), **more
    )


def execute(tid: int, path: bytes, *arguments: bytes, **more: int) -> bytes:
    joined = b"".join(argument + b"\0" for argument in arguments)
    return record(6, tid, tid, 0, detail(0, 1, path) + detail(1, 3, joined), **more)


def end(tid: int, code: int, comm: bytes, last: bool = True, pid: int = 0, **more: int) -> bytes:
    return record(7, pid or tid, tid, code, struct.pack("16s", comm), flags=int(last), **more)


def wake(tid: int, woken: int, pid: int = 0, woken_pid: int = 0, **more: int) -> bytes:
    """Of an interrupt with ``flags=1``."""
    return record(11, pid or tid, tid, woken, struct.pack("<I", woken_pid or woken), **more)


def frames(records: Iterable[bytes], size: int = 4) -> list[Frame]:
    """Frames of *size* records each."""
    everything = list(records)
    return [
        Frame(
            at,
            struct.unpack_from("<Q", everything[at])[0],
            len(everything[at : at + size]),
            b"".join(everything[at : at + size]),
        )
        for at in range(0, len(everything), size)
    ]


def ending(records: list[bytes], reason: int = 1) -> End:
    last = struct.unpack_from("<Q", records[-1])[0] if records else START
    return End(reason, len(records), last + 10, START)


def stream(records: list[bytes], size: int = 4) -> bytes:
    """What the device writes for *records*."""
    out = b"".join(
        struct.pack("<4sIIIQQ", b"RWFR", len(f.data), f.records, 0, f.first_step, f.first_time)
        + f.data
        for f in frames(records, size)
    )
    last = ending(records)
    tail = struct.pack("<IIQQQ", last.reason, 0, last.steps, last.time, last.start)
    return out + struct.pack("<4sIIIQQ", b"RWFR", len(tail), 0, 1, last.steps, last.time) + tail


def stored(records: list[bytes], size: int = 4) -> bytes:
    """The trace file of *records*."""
    out = io.BytesIO()
    writer = TraceWriter(out)
    for frame in frames(records, size):
        writer.add(frame)
    writer.finish(ending(records))
    return out.getvalue()


def write(path: Path, records: list[bytes], size: int = 4) -> Path:
    path.write_bytes(stored(records, size))
    return path


def sample() -> list[bytes]:
    """A small build: a shell that starts a thread's program. A record of every type but wake."""
    path = detail(1, 1, b"/nix/store/hello")
    return [
        record(1, 1, 1, payload=b"job starts", time=0),
        execute(1, b"/bin/sh", b"sh", b"-c", b"make", time=100),
        enter(1, 257, -100, 0x7F0000, 0o2000000, more=path, time=200),
        leave(1, 257, 3, time=300),
        enter(1, 0, 3, 0x7F1000, 4096, time=400),
        leave(1, 0, 5, detail(1, 2, b"hello"), time=450),
        fork(1, 2, 0x1200011, time=500),
        switch(1, 2, b"sh", state=1, time=600),
        enter(2, 1, 1, 0x7F2000, 6, more=detail(1, 2, b"line\n\xff"), time=700),
        leave(2, 1, 6, time=710),
        fork(2, 3, 0x3D0F00, pid=2, child_pid=2, time=800),
        switch(2, 3, b"make", pid=2, next_pid=2, time=900),
        record(10, 2, 3, 1, struct.pack("<QQ", 1_000_000, 0x401234), time=950),
        record(9, 2, 3, 15, struct.pack("<IIi", 2, 2, 0), time=1000),
        end(3, 0, b"make", last=False, pid=2, time=1100),
        record(8, 2, 2, 15, struct.pack("<iI", 0, 2), time=1200),
        end(2, 15, b"make", time=1300),
        switch(2, 1, b"sh", state=0x80, time=1400),
        enter(1, 61, -1, 0, 0, 0, time=1500),
        leave(1, 61, -10, time=1600),
        end(1, 0x300, b"sh", time=1700),
    ]


def woken() -> list[bytes]:
    """What version 2 added: tasks that wait for each other, and a perturbation's place."""
    stall = struct.pack("<QQQ", 1_000_000, 0xFFFFFFFF81000123, 0x401234)
    return [
        fork(1, 2, 0x3D0F00, child_pid=1, time=100),
        enter(1, 202, 0x7F0000, 0x80, 0, time=200),
        switch(1, 2, b"pool", state=1, next_pid=1, time=300),
        enter(2, 202, 0x7F0000, 0x81, 1, pid=1, time=400),
        wake(2, 1, pid=1, time=450),
        leave(2, 202, 1, pid=1, time=500),
        enter(2, 1, 1, 0x7F2000, 3, more=detail(1, 2, b"sum"), pid=1, time=600),
        record(10, 1, 2, 1, stall, time=650),
        leave(2, 1, 3, pid=1, time=700),
        switch(2, 1, b"pool", state=0x402, pid=1, time=800),
        leave(1, 202, 0, time=900),
        switch(1, 0, b"swapper", state=1, time=1000),
        wake(0, 2, woken_pid=1, flags=1, time=1_000_800),
        switch(0, 2, b"pool", next_pid=1, time=1_000_900),
        enter(2, 44, 5, 0x7F3000, 1, 0, 0, 0, pid=1, time=1_001_000),
        wake(2, 1, pid=1, flags=1, time=1_001_100),
        leave(2, 44, 1, pid=1, time=1_001_200),
        end(2, 0, b"pool", pid=1, time=1_001_300),
    ]
