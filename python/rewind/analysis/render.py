"""Records of a trace as lines of text, the way strace writes them.

A trace has hundreds of thousands of records, and ``rewind events`` is to print them within a
second. So this module works on the frames' bytes: what a call's line looks like is worked out
once for each system call, and records that are equal but for their time (most are) are rendered
once.
"""

import functools
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from rewind.analysis import syscalls
from rewind.formats import FormatError, trace
from rewind.formats.trace import Frame

_DETAIL = struct.Struct("<BBH")
_EXIT = struct.Struct("<q")
_CACHE_SIZE = 200_000
_O_CREAT = 0o100
_MOST_BINARY = 16
_O_TMPFILE = 0o20000000

# --- single values

_ESCAPES = {ord(char): f"\\{letter}" for char, letter in zip('"\\\n\t\r', '"\\ntr', strict=True)}
_ESCAPES |= {code: f"\\x{code:02x}" for code in (*range(32), 127) if code not in _ESCAPES}
_HIGH = {code: f"\\x{code:02x}" for code in range(128, 256)}


@functools.lru_cache(maxsize=50_000)
def quote(data: bytes) -> str:
    """A string of the guest in quotes, on one line; what cannot be shown is escaped as in C."""
    try:
        string = data.decode()
    except UnicodeDecodeError:
        # Byte for byte, or an escape could not be told from the text.
        string = data.decode("latin-1").translate(_ESCAPES).translate(_HIGH)
    else:
        if not string.isprintable() or '"' in string or "\\" in string:
            string = string.translate(_ESCAPES)
            if not string.isprintable():
                string = "".join(
                    c if c.isprintable() else c.encode("unicode-escape").decode() for c in string
                )
    return f'"{string}"'


def plain(text: str) -> str:
    """A text of the guest on one line, without quotes."""
    return text if text.isprintable() else quote(text.encode())[1:-1]


def _details(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, bytes]]:
    """Argument, kind and bytes of the details from *at* to *end*."""
    while at < end:
        argument, kind, size = _DETAIL.unpack_from(data, at)
        at += _DETAIL.size
        if at + size > end:
            raise FormatError("a detail is longer than its record")
        yield argument, kind, data[at : at + size]
        at += size


def _detail(kind: int, data: bytes) -> str:
    """A detail's bytes, by its kind (bit 7: it was longer)."""
    if kind & 0x7F == trace.ARGUMENTS:
        strings = data.removesuffix(b"\0").split(b"\0") if data else []
        more = ", …" if kind & 0x80 else ""
        return f"[{', '.join(map(quote, strings))}{more}]"
    string = quote(data)
    if kind & 0x7F == trace.DATA and len(string) > 2 * len(data) > 2 * _MOST_BINARY:
        # Nobody reads it.
        return quote(data[:_MOST_BINARY]) + "…"
    return string + "…" if kind & 0x80 else string


def address(data: bytes) -> str:
    """A socket's address, a struct sockaddr: a path in quotes, or HOST:PORT."""
    family = int.from_bytes(data[:2], "little")
    if family == socket.AF_UNIX and len(data) > 2:
        path = data[2:]
        # An abstract name begins with NUL, and has the length that it has.
        return f"@{quote(path[1:])}" if path[0] == 0 else quote(path.split(b"\0", 1)[0])
    port = int.from_bytes(data[2:4], "big")
    if family == socket.AF_INET and len(data) >= 8:
        return f"{ipaddress.IPv4Address(data[4:8])}:{port}"
    if family == socket.AF_INET6 and len(data) >= 24:
        return f"[{ipaddress.IPv6Address(data[8:24])}]:{port}"
    return quote(data)


class _Flags(dict[int, str]):
    """A set of flags as ``A|B|0x40``, each combination worked out once."""

    def __init__(self, bits: dict[int, str], values: dict[int, str], mask: int) -> None:
        super().__init__()
        self._bits, self._values, self._mask = bits, values, mask

    def __missing__(self, value: int) -> str:
        rest = value & ~self._mask
        parts = []
        low = value & self._mask
        if low in self._values:
            parts.append(self._values[low])
        else:
            rest |= low
        for bit, name in self._bits.items():
            if rest & bit:
                parts.append(name)
                rest &= ~bit
        if rest or not parts:
            parts.append(hex(rest) if rest else "0")
        text = self[value] = "|".join(parts)
        return text


class _Values(dict[int, str]):
    """One of several names, or a number."""

    def __missing__(self, value: int) -> str:
        return hex(value) if value > 255 else str(value)


class _CloneFlags(_Flags):
    """Flags whose lowest byte is the signal to send when the child ends."""

    def __missing__(self, value: int) -> str:
        signal = value & 0xFF
        flags = _Flags(self._bits, {}, 0)[value & ~0xFF]
        if signal:
            flags = signal_name(signal) if flags == "0" else f"{flags}|{signal_name(signal)}"
        self[value] = flags
        return flags


def signal_name(signal: int) -> str:
    """``SIGTERM``; real-time signals count from SIGRTMIN, 32 as the kernel does."""
    if signal >= 32:
        return f"SIGRT_{signal - 32}"
    return syscalls.SIGNALS.get(signal, str(signal))


def error_name(number: int) -> str:
    """``ENOENT``."""
    return syscalls.ERRORS.get(number, str(number))


def status(code: int) -> str:
    """A status as wait(2) has it, in words."""
    if code & 0x7F:
        core = ", core dumped" if code & 0x80 else ""
        return f"killed by {signal_name(code & 0x7F)}{core}"
    return f"exited {code >> 8 & 0xFF}"


def _pointer(value: int) -> str:
    return hex(value) if value else "NULL"


def _dirfd(value: int) -> str:
    return "AT_FDCWD" if value == -100 else str(value)


def _mode(value: int) -> str:
    return f"{value:#o}"[0] + f"{value:o}" if value else "0"


_RENDERERS: dict[str, Callable[[int], str]] = {
    "dirfd": _dirfd,
    "mode": _mode,
    "cmode": _mode,
    "signal": signal_name,
    "hex": _Values().__getitem__,
    **dict.fromkeys(("ptr", "path", "data", "argv", "address"), _pointer),
    **{name: _Flags(*flags).__getitem__ for name, flags in syscalls.FLAGS.items()},
    **{name: _Values(values).__getitem__ for name, values in syscalls.VALUES.items()},
    "clone": _CloneFlags(*syscalls.FLAGS["clone"]).__getitem__,
}

# --- calls


class Call:
    """How one system call is written."""

    def __init__(self, line: str) -> None:
        head, _, result = line.partition("=")
        self.name: str
        _, self.name, *kinds = head.split()
        formats = [syscalls.KINDS.get(kind, "I") for kind in kinds]
        padded = [code if code in "qQ" else code + "4x" for code in formats]
        self._unpack = struct.Struct("<" + "".join(padded)).unpack_from
        self._renderers = [
            (index, _RENDERERS[kind]) for index, kind in enumerate(kinds) if kind in _RENDERERS
        ]
        self._templates = [
            f"{self.name}({', '.join(['%s'] * count)})" for count in range(len(kinds) + 1)
        ]
        self._count = len(kinds)
        # The size of data that the trace has whole says nothing; a mode without O_CREAT neither.
        self._size_at = kinds.index("data") + 1 if "data" in kinds else None
        if self._size_at is not None and kinds[self._size_at : self._size_at + 1] != ["size"]:
            self._size_at = None
        self._mode_at = kinds.index("cmode") if "cmode" in kinds else None
        self._address_at = kinds.index("address") if "address" in kinds else None
        self.hex_result = result.strip() == "hex"

    def enter(self, data: bytes, at: int, end: int) -> str:
        """The call with its arguments; *at* is where the payload of its record begins.

        :raises FormatError: if its details are malformed.
        """
        raw = self._unpack(data, at)
        values: list[Any] = list(raw)
        for index, render in self._renderers:
            values[index] = render(values[index])
        count = self._count
        if self._mode_at is not None and not raw[self._mode_at - 1] & (_O_CREAT | _O_TMPFILE):
            count -= 1
        for argument, kind, bytes_ in _details(data, at + 56, end):
            if argument < len(values):
                whole = argument == self._address_at and kind < 0x80
                values[argument] = address(bytes_) if whole else _detail(kind, bytes_)
                size = len(bytes_)
                if argument + 1 == self._size_at and kind < 0x80 and raw[argument + 1] == size:
                    if argument + 2 == count:
                        count -= 1
                    else:
                        values[argument + 1] = size
        return self._templates[count] % tuple(values[:count])

    def result(self, data: bytes, at: int, end: int) -> str:
        """What the call returned, from the payload of its record at *at*."""
        (value,) = _EXIT.unpack_from(data, at)
        if -4096 < value < 0:
            text = f"-{error_name(-value)}"
        else:
            text = hex(value) if self.hex_result and value >= 0 else str(value)
        for _, kind, bytes_ in _details(data, at + 8, end):
            text += " " + _detail(kind, bytes_)
        return text


class _Calls(dict[int, Call]):
    """Made when they are first met: a trace has a few dozen of them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = {
            int(line.split(maxsplit=1)[0]): line for line in syscalls.CALLS.strip().splitlines()
        }

    def __missing__(self, number: int) -> Call:
        line = self._lines.get(number, f"{number} syscall_{number} " + "hex " * 6)
        call = self[number] = Call(line)
        return call

    def number(self, name: str) -> int:
        """The number of the system call *name*."""
        return next(number for number, line in self._lines.items() if line.split()[1] == name)


CALLS = _Calls()
"""By number; one that the table does not have is ``syscall_N`` with six numbers."""


# --- records

_STATES = {0x1: "sleeps", 0x2: "blocked", 0x4: "stopped", 0x8: "traced"}


def state(bits: int) -> str:
    """What a task was left in, from the kernel's TASK_* bits (include/linux/sched.h)."""
    if bits & (0x10 | 0x20 | 0x80):
        return "ended"
    return next((name for bit, name in _STATES.items() if bits & bit), "preempted")


def task(pid: int, tid: int) -> str:
    """``PID/TID``, or PID alone if the thread is the process's first."""
    if not pid:
        return "other"
    return f"{pid}/{tid}" if pid != tid else str(pid)


_CLONE_VFORK = 0x4000
_CLONE_NEW = 0x7E020080


def _fork(record: trace.Fork) -> str:
    # The other flags are in the line of the call.
    new = record.flags & _CLONE_NEW
    flags = f" ({_RENDERERS['clone'](new)})" if new else ""
    if record.child_pid != record.child_tid:
        return f"starts thread {record.child_tid}{flags}"
    verb = "vforks" if record.flags & _CLONE_VFORK else "forks"
    return f"{verb} {record.child_pid}{flags}"


def describe(record: trace.Record) -> str:
    """What happens in *record*, but for system calls (see `Call`)."""
    match record:
        case trace.Mark():
            return f"# {plain(record.text)}"
        case trace.Switch():
            to = task(record.next_pid, record.next_tid)
            return f"{state(record.state)}, next is {to} ({plain(record.name)})"
        case trace.Fork():
            return _fork(record)
        case trace.Exec():
            arguments = ", ".join(quote(argument.encode()) for argument in record.arguments)
            return f"becomes {quote(record.path.encode())} [{arguments}]"
        case trace.TaskEnd():
            return status(record.code) if record.last else "thread ends"
        case trace.SignalDelivered():
            sender = f" from {record.sender}" if record.sender else ""
            return f"gets {signal_name(record.signal)}{sender}"
        case trace.SignalSent():
            to = task(record.receiver_pid, record.receiver_tid)
            return f"sends {signal_name(record.signal)} to {to}"
        case trace.Perturbed():
            what = f"stall of {record.ns:,} ns" if record.kind == "stall" else record.kind
            where = f"{record.ip:#x}"
            if record.user_ip not in (0, record.ip):
                where = f"{record.user_ip:#x} (in the kernel, {where})"
            why = ", but nothing ran" if record.nothing else ""
            return f"perturbation: {what} at {where}{why}"
        case trace.Wake():
            how = " (interrupt)" if record.interrupt else ""
            return f"wakes {task(record.woken_pid, record.woken_tid)}{how}"
        case _:
            raise TypeError(record)


@attrs.frozen
class Block:
    """The lines of a frame, ready to be joined to those before and after.

    A call and its result are one line if nothing came in between, and that may be over the
    border of two frames. So the result that a frame begins with is apart, in *head*: whose it is,
    how it reads after its call, and how alone. *tail* is whose call the text ends in, without
    the end of its line.
    """

    text: bytes
    head: tuple[int, str, str] | None = None
    tail: int | None = None


def join(blocks: Iterable[Block]) -> Iterator[bytes]:
    """The text of *blocks*, which follow each other."""
    tail: int | None = None
    for block in blocks:
        if not block.head and not block.text:
            # Nothing of the frame is shown.
            continue
        if block.head:
            owner, after, alone = block.head
            if owner == tail:
                yield f"{after}\n".encode()
            else:
                yield f"\n{alone}\n".encode() if tail is not None else f"{alone}\n".encode()
        elif tail is not None:
            yield b"\n"
        yield block.text
        tail = block.tail
    if tail is not None:
        yield b"\n"


_HEAD = struct.Struct("<QHBBQI")
"""`trace.RECORD` with pid and tid as one number."""


class Lines:
    """Renders frames as lines: ``STEP  PID/TID  what``; with *time*, ns before the task.

    Only steps from *first* to *last* (included) are rendered. *start* is the job's start, *steps*
    how many there are in all, which makes the width of the first column. Wake-ups are left out
    unless *wakes*: most come in the middle of a call, whose result would need a line of its own.
    """

    def __init__(
        self,
        *,
        start: int,
        steps: int,
        first: int = 0,
        last: int = 1 << 64,
        time: bool = False,
        wakes: bool = False,
    ) -> None:
        self._start, self._first, self._last = start, first, last
        self._time = time
        self._hidden = None if wakes else trace.WAKE
        self._width = len(str(max(steps - 1, 0)))
        self._tasks: dict[int, str] = {}
        # From a record's aux and payload to its text.
        self._enters: dict[bytes, str] = {}
        # The same for calls' ends: how it reads alone, and after the call.
        self._exits: dict[bytes, tuple[str, str]] = {}
        # The same for other records, from all of one but its time.
        self._others: dict[bytes, str] = {}

    def _task(self, key: int) -> str:
        text = self._tasks[key] = f"  {task(key & 0xFFFFFFFF, key >> 32):<9}  "
        return text

    def _checked(self, step: int, data: bytes, at: int) -> tuple[int, int]:
        """Aux and end of the record at *at*, whose size is right."""
        _, size, kind, _, _, aux = _HEAD.unpack_from(data, at)
        end = at + trace.SIZE_EXTRA + size
        if end > len(data) or end - at < trace.MIN_SIZES.get(kind, trace.RECORD.size):
            raise trace.damaged(step, "its size is wrong")
        return aux, end

    def _enter(self, step: int, data: bytes, at: int) -> str:
        aux, end = self._checked(step, data, at)
        try:
            text = CALLS[aux].enter(data, at + trace.RECORD.size, end)
        except (struct.error, FormatError) as error:
            raise trace.damaged(step, error) from None
        if len(self._enters) >= _CACHE_SIZE:
            self._enters.clear()
        self._enters[data[at + 20 : end]] = text
        return text

    def _exit(self, step: int, data: bytes, at: int) -> tuple[str, str]:
        aux, end = self._checked(step, data, at)
        call = CALLS[aux]
        try:
            after = f" = {call.result(data, at + trace.RECORD.size, end)}"
        except (struct.error, FormatError) as error:
            raise trace.damaged(step, error) from None
        if len(self._exits) >= _CACHE_SIZE:
            self._exits.clear()
        texts = self._exits[data[at + 20 : end]] = f"… {call.name}{after}", after
        return texts

    def _other(self, step: int, data: bytes, at: int) -> str:
        _, end = self._checked(step, data, at)
        (record,) = trace.decode(Frame(step, 0, 1, data[at:end]))
        if len(self._others) >= _CACHE_SIZE:
            self._others.clear()
        text = self._others[data[at + 8 : end]] = describe(record)
        return text

    def __call__(self, frame: Frame) -> Block:
        """The lines of *frame*.

        :raises FormatError: at a record that is malformed.
        """
        # Nearly all of the time of `rewind events` is spent in this loop: its names are local,
        # and what it can know before it begins it does.
        data = frame.data
        unpack = _HEAD.unpack_from
        enters, exits, others = self._enters.get, self._exits.get, self._others.get
        tasks = self._tasks.get
        width, start, with_time = self._width, self._start, self._time
        hidden = self._hidden
        out: list[str] = []
        add = out.append
        head: tuple[int, str, str] | None = None
        calling: int | None = None
        at = 0
        step = frame.first_step
        stop = min(frame.first_step + frame.records, self._last + 1)
        try:
            while step < min(self._first, stop):
                at += trace.SIZE_EXTRA + max(unpack(data, at)[1], 16)
                step += 1
            for step in range(step, stop):  # noqa: B020
                time, size, kind, _, key, _ = unpack(data, at)
                end = at + 8 + size
                who = tasks(key) or self._task(key)
                if kind == 2:
                    text = enters(data[at + 20 : end]) or self._enter(step, data, at)
                elif kind == 3:
                    text, after = exits(data[at + 20 : end]) or self._exit(step, data, at)
                    if calling == key:
                        add(after)
                        calling = None
                        at = end
                        continue
                elif kind == hidden:
                    at = self._checked(step, data, at)[1]
                    continue
                else:
                    text = others(data[at + 8 : end]) or self._other(step, data, at)
                at = end
                if with_time:
                    who = f"  {time - start:>14,}{who}"
                if out:
                    add("\n")
                elif kind == 3 and head is None:
                    head = key, after, f"{step:>{width}}{who}{text}"
                    continue
                add(f"{step:>{width}}{who}{text}")
                calling = key if kind == 2 else None
        except struct.error:
            raise trace.damaged(step, "it is cut short") from None
        if stop == frame.first_step + frame.records and at != len(data):
            raise trace.damaged(stop, "no record was to follow")
        if out and calling is None:
            add("\n")
        return Block("".join(out).encode(), head, calling)
