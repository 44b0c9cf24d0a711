"""gdb's remote protocol, against a session that is made up."""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traces
from rewind.formats.schedule import Position
from rewind.formats.trace import TraceReader
from rewind.gdb import registers
from rewind.gdb.libraries import libraries
from rewind.gdb.packets import Connection, Disconnected, ProtocolError, escape, unescape
from rewind.gdb.server import Server, maps
from rewind.gdb.session import NotHere, Stop, Wanted, history
from rewind.inspect import NoSuchFile
from rewind.inspect.answers import Mapped, ProcessLayout, Task, ThreadRegisters, Wait
from rewind.inspect.process import PT_REGS
from traces import end, enter, execute, fork, leave


@given(st.binary())
def test_what_is_escaped_comes_back(data: bytes) -> None:
    packed = escape(data)
    assert unescape(packed) == data
    assert not {b"#", b"$"} & {bytes([byte]) for byte in packed}


@contextlib.contextmanager
def connected() -> Iterator[tuple[socket.socket, Connection]]:
    theirs, ours = socket.socketpair()
    with theirs, Connection(ours) as connection:
        yield theirs, connection


def test_packets_come_whole_and_are_acknowledged() -> None:
    with connected() as (gdb, connection):
        gdb.sendall(b"+$g#67$m0,1#")
        assert connection.receive() == b"g"
        gdb.sendall(b"fa")
        assert connection.receive() == b"m0,1"
        assert gdb.recv(10) == b"++"
        connection.acknowledge = False
        connection.send(b"OK")
        assert gdb.recv(10) == b"$OK#9a"


def test_a_damaged_packet_is_refused() -> None:
    with connected() as (gdb, connection):
        gdb.sendall(b"$g#00")
        with pytest.raises(ProtocolError):
            connection.receive()


def test_an_interrupt_is_seen_between_packets() -> None:
    with connected() as (gdb, connection):
        assert not connection.interrupted()
        gdb.sendall(b"\x03")
        assert connection.interrupted()
        assert not connection.interrupted()
        gdb.close()
        with pytest.raises(Disconnected):
            connection.interrupted()


GENERAL = {name: 0x1111 * number for number, name in enumerate(PT_REGS, 1)}
# FCW, FSW with the top at 7, one register in use, MXCSR; then the stack's top and XMM1.
FLOATING = bytearray(struct.pack("<HHBxHQQII", 0x37F, 7 << 11, 0x80, 0, 0, 0, 0x1F80, 0xFFFF))
FLOATING += bytes(512 - len(FLOATING))
FLOATING[32:42] = struct.pack("<QH", 1 << 63, 0x3FFF)
FLOATING[160 + 16 :][:16] = bytes(16)
FLOATING[176:192] = struct.pack("<dd", 1.5, 2.5)


def test_registers_are_where_gdb_looks_for_them() -> None:
    found = dict(
        zip(
            (register.name for register in registers.REGISTERS),
            registers.values(
                ThreadRegisters(
                    general=GENERAL, fs_base=0x7F00, gs_base=0, floating=bytes(FLOATING)
                )
            ),
            strict=True,
        )
    )
    assert found["rip"] == GENERAL["ip"].to_bytes(8, "little")
    assert found["eflags"] == GENERAL["flags"].to_bytes(4, "little")
    assert found["orig_rax"] == GENERAL["orig_ax"].to_bytes(8, "little")
    assert found["fs_base"] == (0x7F00).to_bytes(8, "little")
    assert found["st0"] == struct.pack("<QH", 1 << 63, 0x3FFF)
    # Register 7 is valid, the others empty: 3.
    assert found["ftag"] == (0x3FFF).to_bytes(4, "little")
    assert found["xmm1"] == struct.pack("<dd", 1.5, 2.5)
    assert found["mxcsr"] == (0x1F80).to_bytes(4, "little")
    sizes = {register.name: register.size // 8 for register in registers.REGISTERS}
    assert {name: len(value) for name, value in found.items() if value is not None} == sizes


def test_the_description_has_each_register_once() -> None:
    text = registers.description()
    for number, register in enumerate(registers.REGISTERS):
        assert text.count(f'<reg name="{register.name}" ') == 1
        assert f'regnum="{number}"' in text


MEMORY = 0x10_0000


def layout_with(*dynamics: int) -> ProcessLayout:
    auxv = struct.pack("<QQQQQQ", 3, MEMORY + 64, 5, 2, 0, 0)
    mapped = [
        Mapped(
            start=start,
            end=start + 0x1000,
            offset=0,
            access="r-xp",
            path=f"/lib/{number}.so (deleted)",
            inode=number,
            is_input=False,
        )
        for number, start in enumerate(dynamics)
    ]
    return ProcessLayout(executable="/bin/x", auxv=auxv, mapped=tuple(mapped))


def memory_with_libraries() -> bytearray:
    memory = bytearray(0x1000)
    # PT_PHDR at 0x40 of the file, so the bias is MEMORY; PT_DYNAMIC at 0x200.
    struct.pack_into("<IIQQQQQQ", memory, 64, 6, 0, 0, 64, 0, 0, 0, 0)
    struct.pack_into("<IIQQQQQQ", memory, 64 + 56, 2, 0, 0, 0x200, 0, 0, 0, 0)
    struct.pack_into("<QQQQ", memory, 0x200, 21, MEMORY + 0x300, 0, 0)
    struct.pack_into("<I4xQ", memory, 0x300, 1, MEMORY + 0x400)
    struct.pack_into("<QQQQQ", memory, 0x400, 0, 0, 0x50_0000, MEMORY + 0x500, 0)
    struct.pack_into("<QQQQQ", memory, 0x500, 0x7000, 0, 0x60_0010, 0, 0)
    return memory


def reader_of(memory: bytes) -> Callable[[int, int], bytes]:
    return lambda address, count: bytes(memory[address - MEMORY :][:count])


def test_libraries_are_named_by_the_file_that_is_mapped() -> None:
    found = libraries(layout_with(0x50_0000, 0x60_0000), reader_of(memory_with_libraries()))
    assert found.main == MEMORY + 0x400
    assert [(one.path, one.address) for one in found.libraries] == [("/lib/1.so", 0x7000)]
    assert 'main-lm="0x100400"' in found.xml()


def test_libraries_that_make_no_sense_are_none() -> None:
    memory = memory_with_libraries()
    # A list that leads to itself, and one that leads nowhere.
    struct.pack_into("<Q", memory, 0x500 + 24, MEMORY + 0x500)
    assert len(libraries(layout_with(0x50_0000, 0x60_0000), reader_of(memory)).libraries) < 20_000
    struct.pack_into("<Q", memory, 0x500 + 24, MEMORY + 0x9999)
    assert libraries(layout_with(0x50_0000), reader_of(memory)).libraries == ()
    assert libraries(layout_with(), lambda address, count: b"").libraries == ()


@attrs.define
class FakeSession:
    """A process with two threads, of which the second has the CPU."""

    went: list[tuple[str, Wanted]] = attrs.field(factory=list)
    stop: Stop = attrs.field(factory=lambda: Stop("step", 66))
    tid: int = 66
    pid: int = 64
    at_begin: bool = False
    position: Position = attrs.field(factory=lambda: Position(7, 3))
    tasks: dict[int, Task] = attrs.field(
        factory=lambda: {
            64: Task(64, 64, 1, 'a<b>"', "waits", Wait(what="for the end of 66")),
            66: Task(64, 66, 1, "worker", "runs"),
        }
    )

    def threads(self) -> list[Task]:
        return list(self.tasks.values())

    def thread(self, tid: int) -> Task:
        try:
            return self.tasks[tid or self.tid]
        except KeyError:
            raise NotHere(f"there is no thread {tid}") from None

    def registers(self, tid: int) -> ThreadRegisters:
        return ThreadRegisters(
            general={**GENERAL, "ip": tid}, fs_base=MEMORY + 0x700, gs_base=0, floating=b""
        )

    def read(self, tid: int, address: int, count: int) -> bytes:
        memory = memory_with_libraries()
        # The dtv at 0x800 with the second module's block at 0x12345.
        struct.pack_into("<Q", memory, 0x708, MEMORY + 0x800)
        struct.pack_into("<QQ", memory, 0x810, (1 << 64) - 1, 0)
        struct.pack_into("<QQ", memory, 0x820, 0x12345, 0)
        # A link_map with the module's number, and libthread_db's description of where.
        struct.pack_into("<Q", memory, 0x900 + 16, 2)
        struct.pack_into("<III", memory, 0xA00, 64, 1, 16)
        return reader_of(memory)(address, count) if address >= MEMORY else b""

    def layout(self) -> ProcessLayout:
        return layout_with(0x50_0000)

    def read_file(self, path: str) -> bytes:
        if path != "/etc/passwd":
            raise NoSuchFile(f"there is no {path}")
        return b"root#}"

    def forward(self, wanted: Wanted, interrupted: Callable[[], bool]) -> Stop:
        self.went.append(("forward", wanted))
        return self.stop

    def backward(self, wanted: Wanted, interrupted: Callable[[], bool]) -> Stop:
        self.went.append(("backward", wanted))
        return self.stop


@pytest.fixture
def session() -> FakeSession:
    return FakeSession()


@pytest.fixture
def server(session: FakeSession) -> Iterator[Server]:
    with connected() as (_, connection):
        made: Any = session
        yield Server(made, connection)


def test_what_is_not_known_is_answered_by_nothing(server: Server) -> None:
    assert server.answer(b"qNonsense") == b""
    assert server.answer(b"vMustReplyEmpty") == b""
    assert server.answer(b"qCRC:0,1") == b""


def test_threads_are_listed_with_what_they_wait_for(server: Server) -> None:
    assert server.answer(b"qfThreadInfo") == b"mp40.40,p40.42"
    assert server.answer(b"qsThreadInfo") == b"l"
    assert bytes.fromhex(server.answer(b"qThreadExtraInfo,p40.40").decode()) == (
        b"waits for the end of 66"
    )
    xml = server.answer(b"qXfer:threads:read::0,1000")
    assert b"a&lt;b&gt;" in xml and b"has the CPU" in xml
    assert server.answer(b"Tp40.43") == b"E01"
    assert server.answer(b"Tp40.42") == b"OK"


def test_registers_are_those_of_the_chosen_thread(server: Server) -> None:
    at = sum(register.size // 4 for register in registers.REGISTERS[:16])
    assert server.answer(b"g")[at:][:2] == b"42"
    assert server.answer(b"Hgp40.40") == b"OK"
    assert server.answer(b"g")[at:][:2] == b"40"
    assert server.answer(b"p10")[:2] == b"40"
    # There are none for floating point: each digit of these is an x.
    assert server.answer(b"p18") == b"xx" * 10
    assert server.answer(b"Hgp40.99").startswith(b"E.there is no thread")


def test_memory_is_read_as_far_as_it_goes(server: Server) -> None:
    assert server.answer(b"m100040,4") == b"06000000"
    assert len(server.answer(b"m100ffe,10")) == 4
    assert server.answer(b"m0,4") == b"E14"
    assert server.answer(b"mzz,4") == b"E01"


def test_nothing_can_be_changed(server: Server) -> None:
    for packet in (b"M0,1:00", b"X0,1:0", b"G00", b"P1=00"):
        assert server.answer(packet).startswith(b"E.a run is what happened")


def test_a_long_answer_comes_in_parts(server: Server) -> None:
    whole = b""
    while True:
        part = server.answer(b"qXfer:features:read:target.xml:%x,100" % len(whole))
        whole += unescape(part[1:])
        if part[:1] == b"l":
            break
    assert whole.decode() == registers.description()


def test_continuing_stops_at_what_was_inserted(server: Server, session: FakeSession) -> None:
    assert server.answer(b"Z0,5000,1") == b"OK"
    assert server.answer(b"Z0,5000,1") == b"OK"
    assert server.answer(b"Z1,6000,1") == b"OK"
    assert server.answer(b"z0,5000,1") == b"OK"
    assert server.answer(b"Z2,7000,4") == b"OK"
    session.stop = Stop("breakpoint", 64, 0x5000)
    assert server.answer(b"vCont;c") == b"T05thread:p40.40;swbreak:;"
    direction, wanted = session.went.pop()
    assert direction == "forward"
    assert wanted.breakpoints == {0x5000, 0x6000} and not wanted.span
    assert [(one.address, one.size, one.reads, one.writes) for one in wanted.accesses] == [
        (0x7000, 4, False, True)
    ]
    session.stop = Stop("access", 66, 0x7002, 2, True)
    assert server.answer(b"bc") == b"T05thread:p40.42;watch:7000;"
    assert session.went.pop()[0] == "backward"
    assert server.answer(b"z0,5000,1") == b"OK"
    assert server.answer(b"z0,5000,1") == b"E01"
    assert server.answer(b"?") == b"T05thread:p40.42;watch:7000;"


def test_a_step_is_of_the_thread_that_is_named(server: Server, session: FakeSession) -> None:
    server.answer(b"vCont;s:p40.40;c:p40.-1")
    assert (session.went[-1][1].tid, session.went[-1][1].span) == (64, (0, 0))
    server.answer(b"vCont;r1000,1010:p40.42;c")
    assert (session.went[-1][1].tid, session.went[-1][1].span) == (66, (0x1000, 0x1010))
    server.answer(b"bs")
    assert (session.went[-1][0], session.went[-1][1].tid) == ("backward", 66)


def test_ends_of_the_history_and_signals(server: Server, session: FakeSession) -> None:
    session.stop = Stop("begin", 64)
    assert server.answer(b"bc") == b"T05thread:p40.40;replaylog:begin;"
    session.stop = Stop("end", 64)
    assert server.answer(b"vCont;c") == b"T05thread:p40.40;replaylog:end;"
    # SIGBUS, which gdb calls 10, and SIGUSR1, which it calls 30.
    session.stop = Stop("signal", 64, signal=7)
    assert server.answer(b"vCont;c").startswith(b"T0a")
    assert server.answer(b"QPassSignals:1e;14") == b"OK"
    server.answer(b"vCont;c")
    stops = session.went[-1][1].signals
    assert not stops(10) and not stops(17) and stops(11)


def test_thread_locals_are_found_by_what_libthread_db_would_know(server: Server) -> None:
    # gdb has libc's symbols: it is asked where the description is.
    asked = server.answer(b"qSymbol::")
    assert bytes.fromhex(asked.removeprefix(b"qSymbol:").decode()) == (
        b"_thread_db_link_map_l_tls_modid"
    )
    name = asked.removeprefix(b"qSymbol:")
    assert server.answer(b"qGetTLSAddr:p40.42,10,100900").startswith(b"E.the program's C library")
    assert server.answer(b"qSymbol:100a00:" + name) == b"OK"
    assert server.answer(b"qGetTLSAddr:p40.42,10,100900") == b"12355"
    # Of a program that is linked statically; its module is the first, and not there yet.
    assert server.answer(b"qGetTLSAddr:p40.42,10,0").startswith(b"E.the thread has not used")


def test_files_are_read_for_a_gdb_elsewhere(server: Server) -> None:
    assert server.answer(b"vFile:setfs:0") == b"F0"
    assert server.answer(b"vFile:open:" + b"/nope".hex().encode() + b",0,0") == b"F-1,2"
    assert server.answer(b"vFile:open:" + b"/etc/passwd".hex().encode() + b",0,0") == b"F0"
    assert server.answer(b"vFile:pread:0,100,0") == b"F6;root" + escape(b"#}")
    assert server.answer(b"vFile:pread:0,100,6") == b"F0;"
    assert server.answer(b"vFile:fstat:0").startswith(b"F40;")
    assert server.answer(b"vFile:close:0") == b"F0"
    assert server.answer(b"vFile:pread:0,100,0") == b"E01"
    path = b"/proc/64/maps".hex().encode()
    assert server.answer(b"vFile:open:" + path + b",0,0") == b"F0"
    assert b"500000-501000 r-xp 00000000 00:00 0" in server.answer(b"vFile:pread:0,1000,0")


def test_mappings_are_as_in_proc() -> None:
    """Who may read, write and execute them, and whether they are shared."""
    data = attrs.evolve(layout_with(0x1000, 0x3000).mapped[0], access="r--s")
    lines = maps(ProcessLayout(executable=None, auxv=b"", mapped=(data,))).splitlines()
    assert [line.split()[1:4] for line in lines] == [["r--s", "00000000", "00:00"]]


def test_the_position_can_be_asked_for(server: Server) -> None:
    answer = server.answer(b"qRcmd," + b"position".hex().encode())
    assert bytes.fromhex(answer.decode()) == b"7+3\n"


def test_detaching_ends_it() -> None:
    with connected() as (gdb, connection):
        made: Any = FakeSession()
        gdb.sendall(b"$QStartNoAckMode#b0+$D;40#e3")
        Server(made, connection).serve()
        assert gdb.recv(100) == b"+$OK#9a$OK#9a"


def test_the_history_ends_with_the_call_for_another_program(tmp_path: Path) -> None:
    """What the kernel writes from then on is the other program's."""
    records = [
        execute(1, b"/bin/sh", b"sh", time=10),
        enter(1, 59, 0x10, 0x20, 0x30, time=20),
        leave(1, 59, -2, time=30),
        enter(1, 59, 0x10, 0x20, 0x30, time=40),
        execute(1, b"/bin/cc", b"cc", time=50),
        leave(1, 59, 0, time=60),
        end(1, 0, b"cc", time=70),
    ]
    with TraceReader(traces.write(tmp_path / "trace", records)) as reader:
        times = [record.time + reader.end.start for record in reader.records()]
        found = [history(reader, 1, time) for time in times[:6]]
    ends = [one.end for one in found if one is not None]
    # Who asks from within the call is told of all of it.
    assert ends == [times[3]] * 3 + [times[4]] + [times[6]] * 2


def test_other_threads_run_until_an_exec_ends_them(tmp_path: Path) -> None:
    """And that of another thread than the first, which then has the number of that one."""
    records = [
        fork(1, 2, child_pid=1, pid=1, time=10),
        enter(2, 59, 0x10, 0x20, 0x30, pid=1, time=20),
        end(1, 9, b"sh", last=False, time=30),
        execute(1, b"/bin/cc", b"cc", time=40),
    ]
    with TraceReader(traces.write(tmp_path / "trace", records)) as reader:
        times = [record.time + reader.end.start for record in reader.records()]
        found = history(reader, 1, times[0])
    assert found is not None and found.end == times[2]
