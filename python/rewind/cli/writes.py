"""Which step wrote which line of a run's log.

The log is what came out of the terminal that the builder has as stdout and stderr. The trace has
each write, how many bytes it was, and the first of them, but not where they went. So this follows
the file descriptors that lead to the terminal: through dup, fork, exec and close. The bytes that
the trace has of a write are then looked for in the log where it should be; that also finds the
place again after bytes that no write of the job explains.
"""

import bisect
import re
from collections.abc import Iterator

import attrs

from rewind.analysis.render import CALLS
from rewind.formats import trace
from rewind.formats.trace import (
    DATA,
    PATH,
    Enter,
    Exec,
    Exit,
    Fork,
    Record,
    TaskEnd,
    TraceReader,
)

_WRITES = {CALLS.number(name) for name in ("write", "writev", "pwrite64", "pwritev", "pwritev2")}
_MOVES = {CALLS.number(name): place for name, place in (("sendfile", 0), ("splice", 2), ("tee", 1))}
_OPENS = {CALLS.number("open"): 0, CALLS.number("openat"): 1, CALLS.number("openat2"): 1}
_DUP, _DUP2, _DUP3 = map(CALLS.number, ("dup", "dup2", "dup3"))
_FCNTL, _CLOSE, _CLOSE_RANGE = map(CALLS.number, ("fcntl", "close", "close_range"))
_OPENAT2 = CALLS.number("openat2")
_NAMES = re.compile(
    rb"/(?:proc/self|dev)/fd/([0-9]{1,4})|/dev/(?:std(in|out|err)|tty|console|pts/0)"
)
_OTHERS = {trace.FORK, trace.EXEC, trace.TASK_END}
_CALLS = {*_WRITES, *_MOVES, *_OPENS, _DUP, _DUP2, _DUP3, _FCNTL, _CLOSE, _CLOSE_RANGE}

_CLONE_FILES = 0x400
_O_CLOEXEC = 0o2000000
_F_DUPFD, _F_SETFD, _F_DUPFD_CLOEXEC = 0, 2, 1030
_CLOSE_RANGE_CLOEXEC = 4
_SEARCH = 1 << 16
"""How far ahead in the log a write is looked for."""


@attrs.frozen
class Line:
    """A line of a log, without its end, and the step at which its first byte was written.

    *step* is None if no write of the job explains it.
    """

    step: int | None
    text: bytes


@attrs.frozen
class _Write:
    """A write to the log of *size* bytes, which begin with *data*."""

    step: int
    size: int
    data: bytes


class _Descriptors:
    """Follows the descriptors that lead to the log.

    Each task has a table from such a descriptor to whether exec closes it; threads share theirs.
    """

    def __init__(self) -> None:
        self._tables: dict[int, dict[int, bool]] = {}
        self._calls: dict[int, Enter] = {}

    def _table(self, tid: int) -> dict[int, bool]:
        # The builder, the only task that nobody in the job has made.
        return self._tables.setdefault(tid, {1: False, 2: False})

    def see(self, record: Record) -> _Write | None:
        """The write to the log that *record* completes, if it does."""
        match record:
            case Enter():
                self._calls[record.tid] = record
            case Exit():
                call = self._calls.pop(record.tid, None)
                if call is not None and call.call == record.call and record.value >= 0:
                    return self._returned(call, record)
            case Fork():
                table = self._table(record.tid)
                shared = record.flags & _CLONE_FILES
                self._tables[record.child_tid] = table if shared else dict(table)
            case Exec():
                table = self._table(record.tid)
                self._tables[record.tid] = {fd: False for fd, closed in table.items() if not closed}
            case TaskEnd():
                self._tables.pop(record.tid, None)
                self._calls.pop(record.tid, None)
        return None

    def _returned(self, call: Enter, record: Exit) -> _Write | None:
        table = self._table(call.tid)
        value = record.value
        first, second, third = (_signed(arg) for arg in call.args[:3])
        if call.call in _WRITES and first in table and value:
            # In the result's record, if the page was not there when the call began.
            given = (*call.details, *record.details)
            data = b"".join(detail.data for detail in given if detail.kind == DATA)
            return _Write(call.step, value, data[:value])
        if call.call in _MOVES and _signed(call.args[_MOVES[call.call]]) in table and value:
            return _Write(call.step, value, b"")
        if call.call in _OPENS:
            closed = call.call != _OPENAT2 and bool(call.args[_OPENS[call.call] + 1] & _O_CLOEXEC)
            paths = (d.data for d in (*call.details, *record.details) if d.kind == PATH)
            self._move(table, _names(next(paths, b"")), value, closed)
        elif call.call in (_DUP, _DUP2):
            if first != value:
                self._move(table, first, value, False)
        elif call.call == _DUP3:
            self._move(table, first, value, bool(third & _O_CLOEXEC))
        elif call.call == _FCNTL:
            if second in (_F_DUPFD, _F_DUPFD_CLOEXEC):
                self._move(table, first, value, second == _F_DUPFD_CLOEXEC)
            elif second == _F_SETFD and first in table:
                table[first] = bool(third & 1)
        elif call.call == _CLOSE:
            table.pop(first, None)
        elif call.call == _CLOSE_RANGE:
            for fd in [fd for fd in table if call.args[0] <= fd <= call.args[1] & 0xFFFFFFFF]:
                if third & _CLOSE_RANGE_CLOEXEC:
                    table[fd] = True
                else:
                    del table[fd]
        return None

    @staticmethod
    def _move(table: dict[int, bool], old: int | None, new: int, closed: bool) -> None:
        """Descriptor *new* is now where *old* is (None: not the log)."""
        if old in table:
            table[new] = closed
        else:
            table.pop(new, None)


def _signed(register: int) -> int:
    """A register that holds an int."""
    return (register & 0xFFFFFFFF ^ 0x80000000) - 0x80000000


def _names(path: bytes) -> int | None:
    """The descriptor that opening *path* is a copy of, if it is one that may be the log."""
    found = _NAMES.fullmatch(path)
    if found is None:
        return None
    return int(found[1]) if found[1] else {b"in": 0, b"err": 2}.get(found[2], 1)


def _select(kind: int, aux: int) -> bool:
    return aux in _CALLS if kind in (trace.ENTER, trace.EXIT) else kind in _OTHERS


def written(reader: TraceReader, log: bytes) -> Iterator[Line]:
    """The lines of *log*, with their steps in the trace *reader*."""
    descriptors = _Descriptors()
    starts: list[int] = []
    spans: list[tuple[int, int]] = []
    place = 0
    for record in reader.records(select=_select):
        write = descriptors.see(record)
        if write is None:
            continue
        at = place
        if not log.startswith(write.data, place):
            at = log.find(write.data, place, place + _SEARCH + len(write.data))
            if at < 0:
                continue
        starts.append(at)
        place = at + write.size
        spans.append((place, write.step))
    at = 0
    while at < len(log):
        end = log.find(b"\n", at)
        end = len(log) if end < 0 else end
        number = bisect.bisect_right(starts, at) - 1
        known = number >= 0 and at < spans[number][0]
        yield Line(spans[number][1] if known else None, log[at:end])
        at = end + 1
