"""What gdb's packets mean: gdb's manual, appendix "GDB Remote Serial Protocol".

Everything is answered of a `Session`, which stands at a time of the run. What would change the
program is refused: breakpoints are places that are looked for, not instructions that are written.
"""

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

from rewind.gdb import registers
from rewind.gdb.libraries import clean
from rewind.gdb.packets import PACKET_MAX, Connection, Disconnected, escape
from rewind.gdb.session import NotHere, Session, Stop, Wanted
from rewind.inspect import InspectError, NoSuchFile
from rewind.inspect.answers import ProcessLayout, Task
from rewind.replay.watch import Access

_ERROR = b"E01"
_UNCHANGEABLE = b"E.a run is what happened: nothing in it can be changed"

_MEMORY_MAX = PACKET_MAX // 2 - 64
"""Bytes that fit into an answer as hexadecimal digits."""

_FEATURES = (
    *("QStartNoAckMode+", "multiprocess+", "vContSupported+", "swbreak+", "hwbreak+"),
    *("ReverseStep+", "ReverseContinue+", "QPassSignals+"),
    *(
        f"qXfer:{kind}:read+"
        for kind in ("features", "auxv", "exec-file", "threads", "libraries-svr4")
    ),
)

# Kinds of Z packets.
_SOFTWARE, _HARDWARE, _WRITE, _READ, _ACCESS = range(5)
_WATCHES = {_WRITE: (False, True), _READ: (True, False), _ACCESS: (True, True)}
_WATCH_WORDS = {_WRITE: "watch", _READ: "rwatch", _ACCESS: "awatch"}

_TRAP, _INTERRUPTED = 5, 2

# gdb has numbers of its own for signals (include/gdb/signals.def), the same up to 15 but for some.
_SIGNALS = {
    **{number: number for number in (1, 2, 3, 4, 5, 6, 8, 9, 11, 13, 14, 15)},
    **{7: 10, 10: 30, 12: 31, 16: 0, 17: 20, 18: 19, 19: 17, 20: 18, 21: 21, 22: 22, 23: 16},
    **{24: 24, 25: 25, 26: 26, 27: 27, 28: 28, 29: 23, 30: 32, 31: 12},
}
_UNKNOWN_SIGNAL = 143

_THREAD_DB = "_thread_db_"
_LINK_MAP_MODULE = f"{_THREAD_DB}link_map_l_tls_modid"
_DTV_OFFSET, _DTV_ENTRY = 8, 16
"""Where, from FS, a thread has the table of its thread-locals, and the size of an entry (the
x86-64 ABI's supplement for TLS, as glibc lays it out in sysdeps/x86_64/nptl/tls.h)."""
_UNALLOCATED = (1 << 64) - 1


class Server:
    """Answers gdb at the other end of *connection* of *session*, until it goes."""

    def __init__(self, session: Session, connection: Connection) -> None:
        self._session = session
        self._connection = connection
        self._stop = Stop("begin" if session.at_begin else "arrived", session.tid)
        self._general = self._stepping = session.tid
        """The threads that `g`, `m`, …, and that `bs` and `s` are for."""
        self._breakpoints: dict[tuple[int, int], int] = {}
        """How often each was set, by kind and address: gdb may do it twice."""
        self._accesses: dict[tuple[int, int, int], int] = {}
        """By kind, address and size."""
        self._symbols: dict[str, int] = {}
        self._wanted_symbols: list[str] = []
        self._passed: frozenset[int] = frozenset()
        self._extra = b""
        self._threads: list[Task] = []
        self._files: dict[int, bytes] = {}
        self._done = False

    def serve(self) -> None:
        """Answer until gdb detaches or goes."""
        while not self._done:
            try:
                packet = self._connection.receive()
                self._connection.send(self.answer(packet))
            except Disconnected:
                return
            if packet == b"QStartNoAckMode":
                self._connection.acknowledge = False

    def answer(self, packet: bytes) -> bytes:
        """What is answered to *packet*; nothing to one that is not known."""
        for prefix, handler in _HANDLERS:
            if packet.startswith(prefix) and (prefix not in _WHOLE or packet == prefix):
                try:
                    return handler(self, packet[len(prefix) :])
                except (ValueError, IndexError, KeyError):
                    return _ERROR
                except (NotHere, InspectError) as error:
                    return b"E." + str(error).encode(errors="replace")
        return b""

    # --- what there is

    def _supported(self, rest: bytes) -> bytes:
        return f"PacketSize={PACKET_MAX:x};{';'.join(_FEATURES)}".encode()

    def _ok(self, rest: bytes) -> bytes:
        return b"OK"

    def _nothing(self, rest: bytes) -> bytes:
        return b""

    def _refuse(self, rest: bytes) -> bytes:
        return _UNCHANGEABLE

    def _attached(self, rest: bytes) -> bytes:
        # gdb is to leave it when it ends, and not to kill it.
        return b"1"

    def _detach(self, rest: bytes) -> bytes:
        self._done = True
        return b"OK"

    def _transfer(self, rest: bytes) -> bytes:
        kind, operation, annex, span = rest.decode().split(":", 3)
        if operation != "read":
            return _UNCHANGEABLE
        data = self._object(kind, annex)
        if data is None:
            return b"E00"
        at, _, count = span.partition(",")
        part = data[int(at, 16) :][: min(int(count, 16), _MEMORY_MAX)]
        more = int(at, 16) + len(part) < len(data)
        return (b"m" if more else b"l") + escape(part)

    def _object(self, kind: str, annex: str) -> bytes | None:
        match kind:
            case "features" if annex == "target.xml":
                return registers.description().encode()
            case "auxv":
                return self._session.layout().auxv
            case "exec-file":
                path = clean(self._session.layout().executable or "")
                return path.encode(errors="surrogateescape")
            case "libraries-svr4":
                return self._session.libraries().xml().encode(errors="replace")
            case "threads":
                return self._threads_xml()
        return None

    def _symbol(self, rest: bytes) -> bytes:
        """gdb has symbols, and may be asked where some are: how a C library keeps thread-locals."""
        value, _, name = rest.partition(b":")
        if not name:
            self._wanted_symbols = [_LINK_MAP_MODULE]
        else:
            text = bytes.fromhex(name.decode()).decode()
            if value:
                self._symbols[text] = int(value, 16)
        if self._wanted_symbols:
            return b"qSymbol:" + self._wanted_symbols.pop().encode().hex().encode()
        return b"OK"

    def _command(self, rest: bytes) -> bytes:
        """``monitor …``."""
        words = bytes.fromhex(rest.decode()).decode(errors="replace").split()
        if words == ["position"]:
            text = f"{self._session.position}\n"
        else:
            text = "monitor position: where in the run this is, as STEP+N\n"
        return text.encode().hex().encode()

    # --- threads

    def _set_thread(self, rest: bytes) -> bytes:
        tid = self._tid(rest[1:])
        if tid:
            self._session.thread(tid)
            if rest[:1] == b"g":
                self._general = tid
            else:
                self._stepping = tid
        elif rest[:1] == b"c":
            self._stepping = self._general
        return b"OK"

    def _tid(self, text: bytes) -> int:
        """The thread that *text* names; 0 for any, or all."""
        process, _, thread = text.removeprefix(b"p").rpartition(b".")
        if process and process not in (b"-1", b"0") and int(process, 16) != self._session.pid:
            raise ValueError
        if text.startswith(b"p") and not process:
            # Only a process, all of it.
            return 0
        return 0 if thread in (b"-1", b"0") else int(thread, 16)

    def _id(self, tid: int) -> str:
        return f"p{self._session.pid:x}.{tid:x}"

    def _current(self, rest: bytes) -> bytes:
        return f"QC{self._id(self._general)}".encode()

    def _first_threads(self, rest: bytes) -> bytes:
        self._threads = self._session.threads()
        return self._next_threads(rest)

    def _next_threads(self, rest: bytes) -> bytes:
        some, self._threads = self._threads[:1000], self._threads[1000:]
        return ("m" + ",".join(self._id(t.tid) for t in some)).encode() if some else b"l"

    def _alive(self, rest: bytes) -> bytes:
        try:
            self._session.thread(self._tid(rest))
        except NotHere:
            return _ERROR
        return b"OK"

    def _extra_info(self, rest: bytes) -> bytes:
        return _state(self._session.thread(self._tid(rest))).encode().hex().encode()

    def _threads_xml(self) -> bytes:
        lines = [
            f"<thread id={quoteattr(self._id(task.tid))} name={_attribute(task.name)}>"
            f"{_text(_state(task))}</thread>"
            for task in self._session.threads()
        ]
        return "\n".join(['<?xml version="1.0"?>', "<threads>", *lines, "</threads>", ""]).encode()

    # --- registers and memory

    def _registers(self, rest: bytes) -> bytes:
        found = registers.values(self._session.registers(self._general))
        return "".join(
            "xx" * (register.size // 8) if value is None else value.hex()
            for register, value in zip(registers.REGISTERS, found, strict=True)
        ).encode()

    def _register(self, rest: bytes) -> bytes:
        number = int(rest, 16)
        register = registers.REGISTERS[number]
        value = registers.values(self._session.registers(self._general))[number]
        return (b"xx" * (register.size // 8)) if value is None else value.hex().encode()

    def _memory(self, rest: bytes) -> bytes:
        data = self._read(rest)
        return data.hex().encode() if data is not None else b"E14"

    def _binary_memory(self, rest: bytes) -> bytes:
        data = self._read(rest)
        return b"b" + escape(data) if data is not None else b"E14"

    def _read(self, rest: bytes) -> bytes | None:
        address, _, count = rest.partition(b",")
        size = min(int(count, 16), _MEMORY_MAX)
        data = self._session.read(self._general, int(address, 16), size)
        return data if data or not size else None

    def _thread_local(self, rest: bytes) -> bytes:
        """The address of a thread-local: what libthread_db would find out for gdb."""
        thread, offset, link_map = rest.split(b",")
        tid = self._tid(thread)
        module = 1
        if int(link_map, 16):
            where = self._symbols.get(_LINK_MAP_MODULE)
            if where is None:
                return b"E.the program's C library does not say where it keeps thread-locals"
            bits, _, at = struct.unpack("<III", self._exactly(tid, where, 12))
            size = bits // 8
            data = self._exactly(tid, int(link_map, 16) + at, size)
            module = int.from_bytes(data, "little")
        if not 0 < module < 1 << 20:
            return b"E.there are no thread-locals there"
        (table,) = struct.unpack(
            "<Q", self._exactly(tid, self._session.registers(tid).fs_base + _DTV_OFFSET, 8)
        )
        (block,) = struct.unpack("<Q", self._exactly(tid, table + _DTV_ENTRY * module, 8))
        if block in (0, _UNALLOCATED):
            return b"E.the thread has not used this module's thread-locals yet"
        return f"{(block + int(offset, 16)) % (1 << 64):x}".encode()

    def _exactly(self, tid: int, address: int, count: int) -> bytes:
        data = self._session.read(tid, address, count)
        if len(data) != count:
            raise ValueError
        return data

    # --- places to stop at

    def _insert(self, rest: bytes) -> bytes:
        kind, address, size = self._place(rest)
        if kind in (_SOFTWARE, _HARDWARE):
            key = kind, address
            self._breakpoints[key] = self._breakpoints.get(key, 0) + 1
        else:
            where = kind, address, size
            self._accesses[where] = self._accesses.get(where, 0) + 1
        return b"OK"

    def _remove(self, rest: bytes) -> bytes:
        kind, address, size = self._place(rest)
        if kind in (_SOFTWARE, _HARDWARE):
            _count_down(self._breakpoints, (kind, address))
        else:
            _count_down(self._accesses, (kind, address, size))
        return b"OK"

    def _place(self, rest: bytes) -> tuple[int, int, int]:
        kind, address, size = rest.split(b";")[0].split(b",")
        if int(kind) > _ACCESS:
            raise ValueError
        return int(kind), int(address, 16), int(size, 16)

    def _pass_signals(self, rest: bytes) -> bytes:
        self._passed = frozenset(int(number, 16) for number in rest.split(b";") if number)
        return b"OK"

    # --- going elsewhere

    def _why(self, rest: bytes) -> bytes:
        return self._reply()

    def _actions(self, rest: bytes) -> bytes:
        return b"vCont;c;C;s;S;r"

    def _resume(self, rest: bytes) -> bytes:
        """``vCont``: the first action for a thread is the one; all the others go on anyway."""
        span: tuple[int, int] | None = None
        tid = 0
        for action in rest.split(b";"):
            what, _, thread = action.partition(b":")
            chosen = self._tid(thread) if thread else 0
            if what[:1] in (b"s", b"S"):
                span, tid = (0, 0), chosen or self._stepping
                break
            if what[:1] == b"r":
                low, _, high = what[1:].partition(b",")
                span, tid = (int(low, 16), int(high, 16)), chosen or self._stepping
                break
        return self._go(self._session.forward, tid, span)

    def _continue(self, rest: bytes) -> bytes:
        return self._go(self._session.forward, 0, None)

    def _step(self, rest: bytes) -> bytes:
        return self._go(self._session.forward, self._stepping, (0, 0))

    def _continue_back(self, rest: bytes) -> bytes:
        return self._go(self._session.backward, 0, None)

    def _step_back(self, rest: bytes) -> bytes:
        return self._go(self._session.backward, self._stepping, (0, 0))

    def _go(
        self,
        go: Callable[[Wanted, Callable[[], bool]], Stop],
        tid: int,
        span: tuple[int, int] | None,
    ) -> bytes:
        wanted = Wanted(
            breakpoints=frozenset(address for _, address in self._breakpoints),
            accesses=tuple(
                Access(address, size, *_WATCHES[kind]) for kind, address, size in self._accesses
            ),
            tid=tid,
            span=span,
            signals=lambda number: _SIGNALS.get(number, _UNKNOWN_SIGNAL) not in self._passed,
        )
        self._stop = go(wanted, self._connection.interrupted)
        self._general = self._stepping = self._stop.tid
        return self._reply()

    def _reply(self) -> bytes:
        stop = self._stop
        fields = [f"thread:{self._id(stop.tid)}"]
        signal = _TRAP
        match stop.reason:
            case "breakpoint":
                kinds = {kind for kind, address in self._breakpoints if address == stop.address}
                fields.append("hwbreak:" if kinds == {_HARDWARE} else "swbreak:")
            case "access":
                word, address = self._watched(stop)
                fields.append(f"{word}:{address:x}")
            case "begin":
                fields.append("replaylog:begin")
            case "end":
                fields.append("replaylog:end")
            case "signal":
                signal = _SIGNALS.get(stop.signal, _UNKNOWN_SIGNAL)
            case "interrupt":
                signal = _INTERRUPTED
        return f"T{signal:02x}{';'.join(fields)};".encode()

    def _watched(self, stop: Stop) -> tuple[str, int]:
        """Which of the watches *stop* is for: the word for it, and its address."""
        for kind, address, size in self._accesses:
            reads, writes = _WATCHES[kind]
            touched = address < stop.address + stop.size and stop.address < address + size
            if touched and (writes if stop.write else reads):
                return _WATCH_WORDS[kind], address
        return "watch", stop.address

    # --- files, for a gdb that is elsewhere

    def _file(self, rest: bytes) -> bytes:
        operation, _, text = rest.partition(b":")
        match operation:
            case b"setfs":
                return b"F0"
            case b"open":
                path = bytes.fromhex(text.split(b",")[0].decode())
                try:
                    data = self._content(path.decode(errors="surrogateescape"))
                except NoSuchFile:
                    return b"F-1,2"
                number = next(n for n in range(len(self._files) + 1) if n not in self._files)
                self._files[number] = data
                return f"F{number:x}".encode()
            case b"close":
                del self._files[int(text, 16)]
                return b"F0"
            case b"pread":
                number, count, offset = (int(part, 16) for part in text.split(b","))
                part = self._files[number][offset:][: min(count, _MEMORY_MAX)]
                return b"F%x;" % len(part) + escape(part)
            case b"fstat":
                size = len(self._files[int(text, 16)])
                # struct stat of the protocol, big endian.
                mode = (0, 0, 0o100444, 1, 0, 0, 0)
                stat = struct.pack(">7I3Q3I", *mode, size, 512, 0, 0, 0, 0)
                return b"F%x;" % len(stat) + escape(stat)
        return b""

    def _content(self, path: str) -> bytes:
        """What is in the file *path*; of /proc, which is in no memory, the process's mappings."""
        pid = self._session.pid
        if path in (f"/proc/{pid}/maps", f"/proc/{pid}/task/{pid}/maps"):
            return maps(self._session.layout()).encode(errors="surrogateescape")
        return self._session.read_file(path)


def maps(layout: ProcessLayout) -> str:
    """What is in ``/proc/PID/maps``, as far as it is known here (proc_pid_maps(5))."""
    lines = []
    for one in layout.mapped:
        span, inode = f"{one.start:x}-{one.end:x}", one.inode & 0xFFFF_FFFF
        head = f"{span} {one.access} {one.offset:08x} 00:00 {inode}"
        lines.append(f"{head:<72} {one.path or ''}".rstrip() + "\n")
    return "".join(lines)


def _count_down(counts: dict[Any, int], key: Any) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _state(task: Task) -> str:
    """What gdb's ``info threads`` shows of a thread besides its name."""
    if task.wait is not None:
        return f"waits {task.wait.what}"
    return {"runs": "has the CPU", "ready": "could run", "stopped": "is stopped"}.get(
        task.state, task.state
    )


def _text(text: str) -> str:
    """*text* in XML, which has no control characters."""
    clean = re.sub(r"[^\x20-\x7e]", "?", text)
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    return quoteattr(re.sub(r"[^\x20-\x7e]", "?", text))


_Handler = Callable[[Server, bytes], bytes]

_HANDLERS: Sequence[tuple[bytes, _Handler]] = (
    (b"qSupported", Server._supported),
    (b"QStartNoAckMode", Server._ok),
    (b"vMustReplyEmpty", Server._nothing),
    (b"qXfer:", Server._transfer),
    (b"qSymbol:", Server._symbol),
    (b"qRcmd,", Server._command),
    (b"qAttached:", Server._attached),
    (b"qAttached", Server._attached),
    (b"qC", Server._current),
    (b"qfThreadInfo", Server._first_threads),
    (b"qsThreadInfo", Server._next_threads),
    (b"qThreadExtraInfo,", Server._extra_info),
    (b"qGetTLSAddr:", Server._thread_local),
    (b"QPassSignals:", Server._pass_signals),
    (b"vCont?", Server._actions),
    (b"vCont;", Server._resume),
    (b"vFile:", Server._file),
    (b"vKill", Server._detach),
    (b"bc", Server._continue_back),
    (b"bs", Server._step_back),
    (b"?", Server._why),
    (b"H", Server._set_thread),
    (b"T", Server._alive),
    (b"g", Server._registers),
    (b"p", Server._register),
    (b"m", Server._memory),
    (b"x", Server._binary_memory),
    (b"Z", Server._insert),
    (b"z", Server._remove),
    (b"c", Server._continue),
    (b"s", Server._step),
    (b"D", Server._detach),
    (b"k", Server._detach),
    (b"G", Server._refuse),
    (b"P", Server._refuse),
    (b"M", Server._refuse),
    (b"X", Server._refuse),
)
"""By the beginning of a packet; the first that fits."""
_WHOLE = frozenset((b"qC", b"bc", b"bs", b"?", b"g", b"qAttached"))
"""Those that have nothing behind them."""
