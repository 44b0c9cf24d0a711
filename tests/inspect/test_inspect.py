"""Looks into a machine that runs the programs of job.nix, at each of their marks.

A trace of the job says at which steps the marks were written; the machine is started once, stops
at all of them, and is asked each time. REWIND_ATTRIBUTES is the file with the run's attributes,
REWIND_TRACE its trace, REWIND_VMLINUX the kernel with DWARF.
"""

import os
import random
import re
import signal
import socket
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import attrs
import pytest

from rewind.formats.trace import Enter, Exec, Exit, TraceReader
from rewind.inspect import InspectError, NoSuchFile, NoSuchTask
from rewind.inspect.answers import Frame, Task, place
from rewind.inspect.kernel import Kernel
from rewind.inspect.memory import Memory
from rewind.inspect.registers import COMMAND, Registers
from rewind.inspect.worker import Inspector
from rewind.machine import qemu
from rewind.machine.monitor import Monitor
from rewind.machine.settings import Settings
from rewind.machine.snapshot import allocated, resume
from rewind.recorder.request import RunRequest, attributes
from rewind.recorder.start import properties

PROGRAMS = Path(__file__).parent / "programs"
BUILD = "/build/programs"
WRITE = 1


@attrs.frozen
class Mark:
    """A mark that a program wrote."""

    program: str
    name: str
    step: int
    tid: int


@attrs.define
class Look:
    """What was found at a mark."""

    task: Task
    """Who wrote it."""
    frames: list[Frame]
    tasks: list[Task]
    stacks: dict[int, list[Frame]]
    """Those of all threads that had one, by number."""

    @property
    def own(self) -> list[tuple[str | None, int | None]]:
        """Function and line of the program's own frames that have a line."""
        return [(frame.function, frame.line) for frame in self.frames if frame.own and frame.line]


def line(file: str, comment: str) -> int:
    """The number of the line of *file* that has the *comment*."""
    (found,) = (
        number
        for number, text in enumerate((PROGRAMS / file).read_text().splitlines(), 1)
        if f"/* {comment} */" in text
    )
    return found


def marks(trace: Path) -> Iterator[Mark]:
    """The marks, in the order in which they were written."""
    programs: dict[int, str] = {}
    begun: dict[int, int] = {}
    with TraceReader(trace) as reader:
        for record in reader.records():
            if isinstance(record, Exec):
                path = PurePosixPath(record.path)
                programs[record.pid] = "stored" if path.is_relative_to("/nix") else path.name
            if isinstance(record, Enter) and record.call == WRITE:
                begun[record.tid] = record.step
            if not isinstance(record, Enter | Exit):
                continue
            # Of a page that was not there yet, the text is only known when the call is over.
            for detail in record.details:
                if detail.data.startswith(b"at ") and record.tid in begun:
                    name = detail.data[3:].decode().rstrip("\n")
                    yield Mark(programs[record.pid], name, begun[record.tid], record.tid)


@attrs.frozen
class Stop:
    """The machine, which stands at a mark."""

    mark: Mark
    memory: Memory
    registers: Registers
    monitor: Monitor
    scratch: Path


class Run:
    """The machine of the job, which can be started."""

    def __init__(self) -> None:
        told = attributes(Path(os.environ["REWIND_ATTRIBUTES"]))
        # Nothing is recorded.
        outputs = {"out": "/nowhere", "nars": "/nowhere"}
        self.request = RunRequest.parse({**told, "outputs": outputs})
        self.marks = list(marks(Path(os.environ["REWIND_TRACE"])))

    def stops(self, wanted: list[Mark]) -> Iterator[tuple[Mark, Memory, Registers]]:
        """Memory and registers of the machine at each of the *wanted* marks."""
        for stop in self.machines(wanted):
            yield stop.mark, stop.memory, stop.registers

    def machines(self, wanted: list[Mark]) -> Iterator[Stop]:
        """The machine at each of the *wanted* marks."""
        request = self.request
        assert request.snapshot is not None
        with tempfile.TemporaryDirectory() as directory:
            scratch = Path(directory)
            plan = "".join(f"{mark.step} 0 stop 0\n" for mark in wanted)
            device = properties(request, scratch, plan)
            del device["channels"]
            with resume(
                Settings.load(request.settings),
                memory=request.memory,
                state=request.snapshot.state(),
                fill=request.snapshot.fill,
                scratch=scratch,
                device=device,
            ) as (machine, monitor):
                memory = Memory(machine.memory, request.memory * qemu.MIB)
                for mark in wanted:
                    event = monitor.event("STOP", "SHUTDOWN", timeout=300)
                    assert event is not None and event["event"] == "STOP", (mark, event)
                    text = monitor.execute("human-monitor-command", {"command-line": COMMAND})
                    yield Stop(mark, memory, Registers.parse(text), monitor, scratch)
                    monitor.execute("cont")

    def at(self, program: str, name: str) -> Mark:
        """The mark *name* of *program*."""
        (found,) = (mark for mark in self.marks if (mark.program, mark.name) == (program, name))
        return found


@pytest.fixture(scope="session")
def run() -> Run:
    """The run."""
    return Run()


@pytest.fixture(scope="session")
def inspector() -> Iterator[Inspector]:
    """What looks into the machine."""
    with Inspector(Path(os.environ["REWIND_VMLINUX"])) as inspector:
        yield inspector


@pytest.fixture(scope="session")
def debug(run: Run, inspector: Inspector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with debug information that was separated: it comes out of the machine."""
    directory = tmp_path_factory.mktemp("debug")
    for _, memory, registers in run.stops([run.at("pie", "inlined")]):
        inspector.look_at(memory, registers, layers=run.request.layers)
        content = inspector.read_file(f"{BUILD}/debug/pie.debug", 1 << 20)
        identity = build_id(content)
        path = directory / ".build-id" / identity[:2] / f"{identity[2:]}.debug"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    return directory


def build_id(content: bytes) -> str:
    """The build id of an ELF file."""
    at = content.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0") + 16
    return content[at : at + 20].hex()


@pytest.fixture(scope="session")
def looks(run: Run, inspector: Inspector, debug: Path) -> dict[tuple[str, str], Look]:
    """What there is at each mark, by program and name."""
    found = {}
    for mark, memory, registers in run.stops(run.marks):
        inspector.look_at(memory, registers, layers=run.request.layers, debug_directories=[debug])
        frames = inspector.frames(mark.tid)
        tasks = inspector.tasks()
        (task,) = (task for task in tasks if task.tid == mark.tid)
        stacks = {}
        for other in tasks:
            try:
                stacks[other.tid] = inspector.frames(other.tid)
            except InspectError:
                assert other.state == "ended"
        found[mark.program, mark.name] = Look(task, frames, tasks, stacks)
    return found


Looks = dict[tuple[str, str], Look]

INLINED = [
    ("innermost", "at inlined"),
    ("inner", "calls: inner"),
    ("outer", "calls: outer"),
]


@pytest.mark.parametrize(
    ("program", "library"),
    [
        ("pie", True),
        ("no-pie", True),
        ("pointers", True),
        ("separate", True),
        ("static", False),
        ("stored", True),
    ],
)
def test_inlined(looks: Looks, program: str, library: bool) -> None:
    """Functions and lines, through inlined calls and a library that was made in the run."""
    look = looks[program, "inlined"]
    expected = [(name, line("calls.c", comment)) for name, comment in INLINED]
    if library:
        expected.append(("part_apply", line("part.c", "calls: part")))
        expected.append(("main", line("calls.c", "calls: main")))
    else:
        expected.append(("main", line("calls.c", "calls: main without a library")))
    assert look.own[: len(expected)] == expected
    here = place(look.frames)
    assert here is not None
    assert (here.file, here.line) == (f"{BUILD}/calls.c", expected[0][1])
    inlined = [frame.inlined for frame in look.frames if frame.own and frame.line][:4]
    assert inlined == [True, True, False, False]
    assert look.task.state == "runs"


@pytest.mark.parametrize("program", ["pie", "no-pie", "static", "pointers", "separate"])
def test_signal(looks: Looks, program: str) -> None:
    """A handler's callers are those of what the signal interrupted."""
    names = [name for name, _ in looks[program, "handler"].own]
    assert [name for name in names if name in ("handler", "interrupted", "main")] == [
        "handler",
        "interrupted",
        "main",
    ]
    lines = dict(looks[program, "handler"].own)
    assert lines["handler"] == line("calls.c", "at handler")
    assert lines["interrupted"] == line("calls.c", "calls: interrupted")
    assert lines["main"] == line("calls.c", "calls: main interrupted")


def test_names(looks: Looks) -> None:
    """C++: with the class or namespace, and not what headers bring with them."""
    look = looks["names", "method"]
    assert look.own == [
        ("bank::Account::deposit", line("names.cc", "at method")),
        ("operator()", line("names.cc", "calls: pay")),
        ("operator()", line("names.cc", "calls: teller")),
    ]
    assert look.task.pid != look.task.tid
    assert look.frames[-1].module is not None and "libc" in look.frames[-1].module
    look = looks["names", "unwinding"]
    assert look.own == [
        ("~Undo", line("names.cc", "at unwinding")),
        ("bank::(anonymous namespace)::refuse", line("names.cc", "at the end")),
        ("main", line("names.cc", "calls: refuse")),
    ]
    assert looks["names", "caught"].own == [("main", line("names.cc", "at caught"))]


def test_deleted(looks: Looks, run: Run, inspector: Inspector) -> None:
    """A program whose file was deleted has its lines all the same; the file has no name."""
    assert looks["names", "caught"].own
    for _, memory, registers in run.stops([run.at("names", "caught")]):
        inspector.look_at(memory, registers, layers=run.request.layers)
        with pytest.raises(NoSuchFile):
            inspector.read_file(f"{BUILD}/names", 1 << 30)


def test_stripped(run: Run, inspector: Inspector) -> None:
    """Without debug information there are places in the file, and a reason."""
    for mark, memory, registers in run.stops([run.at("stripped", "inlined")]):
        inspector.look_at(memory, registers, layers=run.request.layers)
        frames = inspector.frames(mark.tid)
        identity = build_id(inspector.read_file(f"{BUILD}/stripped", 1 << 20))
    stripped = [frame for frame in frames if frame.module == f"{BUILD}/stripped"]
    assert len(stripped) >= 3
    # main calls a library, which calls it back; only the library has names.
    here = place(frames)
    assert here is not None and here.function == "part_apply"
    for frame in stripped:
        assert frame.line is None
        assert frame.why == (
            f"it was stripped, and the debug information of build id {identity} was not found"
        )
        assert frame.address is not None and 0x1000 <= frame.address < 0x2000


def test_only_symbols(run: Run, inspector: Inspector) -> None:
    """Where those are left it is not called stripped."""
    for mark, memory, registers in run.stops([run.at("symbols", "inlined")]):
        inspector.look_at(memory, registers, layers=run.request.layers)
        found = inspector.frames(mark.tid)
    frames = [frame for frame in found if frame.module == f"{BUILD}/symbols"]
    assert "main" in [frame.function for frame in frames]
    for frame in frames:
        assert frame.why is not None and frame.why.startswith("it has only symbols, and the debug")


def test_garbled(looks: Looks) -> None:
    """Debug information that makes no sense is a reason, and no failure."""
    for name in ("inlined", "handler"):
        frames = looks["garbled", name].frames
        assert frames[0].module is not None and "libc" in frames[0].module
        garbled = [frame for frame in frames if frame.module == f"{BUILD}/garbled"]
        assert garbled and not any(frame.line for frame in garbled)
        assert "can't be read" in (garbled[0].why or "")


@pytest.mark.parametrize("name", ["no stack", "kernel stack", "circle", "random stack"])
def test_damaged(looks: Looks, name: str) -> None:
    """A stack that makes no sense ends the list, after what is right of it."""
    frames = looks["damaged", name].frames
    assert frames[0].function == "write_with_stack"
    assert frames[0].line == line("damaged.c", "at the stack") + 1
    assert len(frames) <= 256


def test_waits(looks: Looks) -> None:
    """What each thread waits for, and where."""
    look = looks["waits", "all wait"]
    tasks = {task.name: task for task in look.tasks}
    main, owner = tasks["waits"], tasks["owner"]
    parent, child = tasks["parent"], tasks["child"]
    assert main.state == "runs" and main.wait is None
    pipes = (main.pid, parent.pid, child.pid)
    expected = {
        "owner": ("pause", (), "for a signal"),
        "lock": ("futex", (owner.tid,), f", which {owner.tid} has"),
        "condition": ("futex", (), "for a futex at 0x"),
        "join": ("futex", (owner.tid,), f"for the end of thread {owner.tid}"),
        "reader": ("read", pipes, "can write to"),
        "writer": ("write", pipes, "can read"),
        "poll": ("poll", pipes, "can write to"),
        "epoll": ("epoll_wait", pipes, "can write to"),
        "select": ("pselect6", pipes, "can read"),
        "many": ("futex", (main.tid,), f", which {main.tid} has"),
        "flock": ("flock", (main.pid,), f"/locked, which {main.pid} has"),
        "record": ("fcntl", (main.pid,), f"/locked, which {main.pid} has"),
        "sleep": ("clock_nanosleep", (), "for time to pass"),
        "parent": ("wait4", (child.pid,), f"for the end of {child.pid}"),
        "child": ("pause", (), "for a signal"),
    }
    for name, (call, who, text) in expected.items():
        task = tasks[name]
        assert task.state == "waits"
        wait = task.wait
        assert wait is not None
        assert (wait.call, wait.who) == (call, who), name
        assert text in wait.what, name
        here = place(look.stacks[task.tid])
        assert here is not None
        assert here.line == line("waits.c", f"waits: {name}"), name
    mutex = tasks["lock"].wait
    assert mutex is not None and mutex.address == mutex.arguments[0]
    assert (parent.parent, child.parent) == (main.pid, parent.pid)
    assert tasks["bash"].pid == 1


def test_registers_in_memory(run: Run, inspector: Inspector) -> None:
    """When the machine has ended, all that is off the CPU is still to be seen."""
    for mark, memory, registers in run.stops([run.at("waits", "all wait")]):
        inspector.look_at(memory, registers, layers=run.request.layers)
        seen = {task.tid: inspector.frames(task.tid) for task in inspector.tasks()}
        inspector.look_at(memory, None, layers=run.request.layers)
        tasks = inspector.tasks()
        assert {task.state for task in tasks} == {"ready", "waits"}
        for task in tasks:
            # In the system call by which it wrote the mark, whose registers are in memory as well.
            assert inspector.frames(task.tid) == seen[task.tid]
        assert mark.tid in seen


def test_variables(run: Run, inspector: Inspector) -> None:
    """What is waited at has the name that it has in the program."""
    for _, memory, registers in run.stops([run.at("waits", "all wait")]):
        inspector.look_at(memory, registers, layers=run.request.layers)
        named = {
            task.name: inspector.variable(task.tid, task.wait.address)
            for task in inspector.tasks()
            if task.wait is not None and task.wait.address is not None
        }
        owner = next(task for task in inspector.tasks() if task.name == "owner")
        # Nothing tells of what is on a stack, or in nothing.
        for address in (inspector.tasks()[0].tid, 0x7FFF_FFFF_0000, 1 << 60):
            assert inspector.variable(owner.tid, address) is None
    assert named["lock"] == "mutex"
    assert named["many"] == "many[2].locks[1]"
    assert re.fullmatch(r"never\+0x[0-9a-f]+", named["condition"] or "")
    assert named["join"] is None


class Stepper:
    """Has a machine execute one instruction after the other, by QEMU's gdb stub."""

    def __init__(self, monitor: Monitor, scratch: Path) -> None:
        self._monitor = monitor
        path = scratch / "gdb"
        self._ask(f"gdbserver unix:{path},server=on,wait=off")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        # Interrupts and timers are not held back.
        assert self._send(b"Qqemu.sstep=1") == b"OK"

    def stop_at(self, address: int) -> None:
        """Have the machine stop whenever it is about to execute what is at *address*."""
        assert self._send(b"Z0,%x,1" % address) == b"OK"

    def go_on(self) -> Registers:
        """Let the machine run until it stops; its registers then."""
        # A place where it stands already would stop it again.
        self._move(b"s")
        return self._move(b"c")

    def step(self) -> Registers:
        """Execute an instruction; the registers after it."""
        return self._move(b"s")

    def close(self) -> None:
        self._socket.close()

    def _move(self, packet: bytes) -> Registers:
        assert self._send(packet).startswith(b"T05")
        return Registers.parse(self._ask(COMMAND))

    def _ask(self, command: str) -> str:
        answer = self._monitor.execute("human-monitor-command", {"command-line": command})
        assert isinstance(answer, str)
        return answer

    def _send(self, packet: bytes) -> bytes:
        self._socket.sendall(b"$%s#%02x" % (packet, sum(packet) & 255))
        data = b""
        while not (found := re.search(rb"\$([^#]*)#..", data)):
            data += self._socket.recv(4096)
        self._socket.sendall(b"+")
        return found[1]


WAYS = (
    "entry_SYSCALL_64",
    "asm_exc_page_fault",
    "asm_sysvec_apic_timer_interrupt",
    "common_interrupt_return",
)
"""Where a program's ways into the kernel begin, and those out of it."""


def test_on_the_way(run: Run, inspector: Inspector) -> None:
    """A program's registers are found on its way into the kernel and out, at every instruction."""
    kernel = Kernel(Path(os.environ["REWIND_VMLINUX"]))
    begin, _ = kernel.symbol("__entry_text_start")
    end, _ = kernel.symbol("__entry_text_end")
    copy, size = kernel.symbol("sync_regs")
    met = dict.fromkeys(WAYS, 0)
    instructions = Counter[int]()
    for stop in run.machines([run.at("busy", "begin")]):
        stepper = Stepper(stop.monitor, stop.scratch)
        for way in WAYS:
            stepper.stop_at(kernel.symbol(way)[0])
        while min(met.values()) < 3:
            registers = stepper.go_on()
            here = registers.general["rip"]
            met[kernel.program.symbol(here).name] += 1
            assert max(met.values()) < 300, met
            while begin <= here < end or copy <= here < copy + size:
                if instructions[here] >= 2:
                    registers = stepper.step()
                    here = registers.general["rip"]
                    continue
                inspector.look_at(stop.memory, registers, layers=run.request.layers)
                task = next((task for task in inspector.tasks() if task.state == "runs"), None)
                # The kernel's own threads are interrupted as well.
                if task is None or task.tid != stop.mark.tid:
                    break
                frames = inspector.frames(task.tid)
                own = [frame.function for frame in frames if frame.own and frame.line]
                assert own[-2:] == ["work", "main"], (met, registers, [str(f) for f in frames])
                assert all(frame.module for frame in frames), (met, registers)
                instructions[here] += 1
                registers = stepper.step()
                here = registers.general["rip"]
        stepper.close()
    assert len(instructions) > 120


def test_files(run: Run, inspector: Inspector) -> None:
    """Files of the job, and of its inputs, by the paths it has for them."""
    for _, memory, registers in run.stops([run.at("pie", "inlined")]):
        inspector.look_at(memory, registers, layers=run.request.layers)
        source = (PROGRAMS / "calls.c").read_bytes()
        assert inspector.read_file(f"{BUILD}/calls.c", 1 << 20) == source
        assert inspector.read_file(f"{BUILD}/debug/../calls.c", 1 << 20) == source
        programs = run.request.job.env["programs"]
        assert inspector.read_file(f"{programs}/calls.c", 1 << 20) == source
        shell = inspector.read_file("/bin/sh", 1 << 30)
        assert shell.startswith(b"\x7fELF")
        assert inspector.read_file(run.request.shell, 1 << 30) == shell
        for path in ("/nowhere", f"{BUILD}/nothing", f"{BUILD}/calls.c/x", "/nix/store/none"):
            with pytest.raises(NoSuchFile):
                inspector.read_file(path, 1 << 20)
        with pytest.raises(InspectError, match="no regular file"):
            inspector.read_file(BUILD, 1 << 20)
        with pytest.raises(InspectError, match="limit"):
            inspector.read_file(f"{BUILD}/calls.c", 16)
        with pytest.raises(NoSuchTask, match="no thread 999"):
            inspector.frames(999)


def test_views(run: Run, inspector: Inspector) -> None:
    """Files as each process sees them: its file systems, its root, and where it works."""
    place = f"{BUILD}/files.d"

    def read(path: str, pid: int | None = None) -> bytes:
        return inspector.read_file(path, 1 << 20, pid)

    def names(path: str, pid: int | None = None, recursive: bool = False) -> list[str]:
        return [entry.path for entry in inspector.list_files(path, pid, recursive)]

    for mark, memory, registers in run.stops([run.at("files", "files")]):
        inspector.look_at(memory, registers, layers=run.request.layers)
        pids = {task.name: task.pid for task in inspector.tasks()}
        own, elsewhere, changed = mark.tid, pids["elsewhere"], pids["changed-root"]

        # A mount covers what is there for the others.
        assert read(f"{place}/mount/below") == read("mount/below", own) == b"covered\n"
        assert read(f"{place}/mount/own", elsewhere) == read("../own", elsewhere) == b"its own\n"
        for path, pid in ((f"{place}/mount/own", None), (f"{place}/mount/below", elsewhere)):
            with pytest.raises(NoSuchFile):
                read(path, pid)
        # A link is followed as who reads it sees it.
        assert read(f"{place}/link", elsewhere) == b"its own\n"
        with pytest.raises(NoSuchFile):
            read("link", own)
        assert read("left", elsewhere) == b"left\n"
        assert names(".", elsewhere) == [f"{place}/mount/gone/left"]

        assert read("/inside", changed) == read("../../inside", changed) == b"inside\n"
        assert read("/absolute", changed) == b"inside\n"
        assert names("/", changed) == ["/absolute", "/inside"]
        assert read(f"/proc/{changed}/root/inside") == b"inside\n"
        with pytest.raises(NoSuchFile):
            read(f"{place}/root/absolute")

        # Without a name.
        text = b"open and deleted\n"
        assert read(f"/proc/{own}/fd/50") == read("/proc/self/fd/50", own) == text
        assert read(f"{place}/open (deleted)") == text
        assert read(f"{place}/mapped (deleted)") == b"MAPPED"
        assert read(f"/proc/{own}/fd/51") == b"in a memfd\n"
        assert read(f"/proc/{own}/exe") == read(f"/proc/{elsewhere}/exe")
        assert read(f"/proc/{own}/cwd/root/inside") == b"inside\n"
        opened = {entry.path: entry.target for entry in inspector.list_files(f"/proc/{own}/fd")}
        assert opened[f"/proc/{own}/fd/50"] == f"{place}/open (deleted)"
        assert (opened[f"/proc/{own}/fd/51"] or "").endswith("memfd:nameless (deleted)")
        for path in (
            f"{place}/open",
            f"/proc/{own}/fd/49",
            "/proc/4999/fd/1",
            f"{place}/x (deleted)",
        ):
            with pytest.raises(NoSuchFile):
                read(path)
        # That it is not in the cache of names does not mean that it is not there.
        with pytest.raises(InspectError, match="of the kind proc, which makes its files"):
            read(f"/proc/{own}/status")
        with pytest.raises(NoSuchTask, match=r"no process 4999 at this step; there are 1, "):
            read("/inside", 4999)

        entries = {entry.path: entry for entry in inspector.list_files(place)}
        assert sorted(entries) == [f"{place}/{name}" for name in ("fifo", "link", "mount", "root")]
        assert [stat.filemode(entry.mode) for entry in entries.values()] == [
            "prw-r-----", "lrwxrwxrwx", "drwx------", "drwxr-xr-x",
        ]  # fmt: skip
        assert entries[f"{place}/link"].target == "mount/own"
        assert names(place, recursive=True) == [
            f"{place}/{name}"
            for name in (
                *("fifo", "link", "mount", "mount/below"),
                *("root", "root/absolute", "root/inside"),
            )
        ]
        (alone,) = inspector.list_files(f"{place}/mount/below")
        assert (alone.path, alone.size) == (f"{place}/mount/below", 8)


def test_lists_of_inputs(run: Run, inspector: Inspector) -> None:
    """Of a layer all is listed, whether the kernel has read it or not."""
    programs = run.request.job.env["programs"]
    expected = {
        path.relative_to(PROGRAMS).as_posix(): path.stat().st_size for path in PROGRAMS.iterdir()
    }
    for _, memory, registers in run.stops([run.at("pie", "inlined")]):
        inspector.look_at(memory, registers, layers=run.request.layers)
        found = {entry.path: entry for entry in inspector.list_files(programs)}
        assert {name: found[f"{programs}/{name}"].size for name in expected} == expected
        below = {entry.path for entry in inspector.list_files(programs, recursive=True)}
        assert below == {*found, f"{programs}/debug/pie.debug"}
        top = [entry.path for entry in inspector.list_files("/")]
        assert {"/build", "/nix", "/proc"} <= set(top) and top == sorted(top)
        stored = [entry.path for entry in inspector.list_files("/nix/store")]
        assert programs in stored
        # /proc is only made when somebody asks.
        with pytest.raises(InspectError, match="of the kind proc"):
            inspector.list_files("/proc")
        assert len(inspector.list_files("/", recursive=True)) > len(stored)


def test_no_layers(run: Run, inspector: Inspector) -> None:
    """Without the layers there are only the job's own files; nothing fails."""
    for mark, memory, registers in run.stops([run.at("pie", "inlined")]):
        inspector.look_at(memory, registers)
        frames = inspector.frames(mark.tid)
        assert frames[0].why == "the machine has layers that are not known"
        assert len(inspector.read_file(f"{BUILD}/pie", 1 << 20)) > 1 << 12


def test_before_the_job(run: Run, inspector: Inspector) -> None:
    """Memory in which no job has begun, or none at all."""
    with tempfile.TemporaryFile() as file:
        file.truncate(64 << 20)
        inspector.look_at(Memory(file.fileno(), 64 << 20), None)
        with pytest.raises(InspectError, match="makes no sense|not begun"):
            inspector.tasks()


def test_damaged_memory(run: Run) -> None:
    """Whatever is in the machine's memory, there is an answer, or a sentence."""
    chance = random.Random(1)
    answers = sentences = 0
    with Inspector(Path(os.environ["REWIND_VMLINUX"]), time_limit=30) as inspector:
        for _, memory, registers in run.stops([run.at("waits", "all wait")]):
            pages = [
                page for start, end in allocated(memory.file) for page in range(start, end, 4096)
            ]
            for damage in (0.001, 0.01, 0.1, 0.5) * 2:
                copy = os.memfd_create("damaged")
                os.ftruncate(copy, memory.size)
                for start, end in allocated(memory.file):
                    os.pwrite(copy, os.pread(memory.file, end - start, start), start)
                for page in chance.sample(pages, int(len(pages) * damage)):
                    words = chance.choices(pages, k=512)
                    data = b"".join(
                        (0xFFFF_8880_0000_0000 + word + 8 * (number & 511)).to_bytes(8, "little")
                        for number, word in enumerate(words)
                    )
                    if chance.random() < 0.5:
                        data = chance.randbytes(4096)
                    os.pwrite(copy, data, page)
                try:
                    inspector.look_at(
                        Memory(copy, memory.size), registers, layers=run.request.layers
                    )
                    for task in inspector.tasks():
                        inspector.frames(task.tid)
                    answers += 1
                except InspectError as error:
                    assert str(error)
                    sentences += 1
                finally:
                    os.close(copy)
            # It still works on what is in order.
            inspector.look_at(memory, registers, layers=run.request.layers)
            assert len(inspector.tasks()) > 8
    assert answers and sentences


def test_crash(run: Run) -> None:
    """A worker that dies is a sentence, and another takes its place."""
    others = children()
    with Inspector(Path(os.environ["REWIND_VMLINUX"])) as inspector:
        for mark, memory, registers in run.stops([run.at("pie", "inlined")]):
            inspector.look_at(memory, registers, layers=run.request.layers)
            (child,) = children() - others
            os.kill(child, signal.SIGSEGV)
            with pytest.raises(InspectError, match="failed: SIGSEGV"):
                inspector.frames(mark.tid)
            with pytest.raises(InspectError, match="no machine"):
                inspector.frames(mark.tid)
            inspector.look_at(memory, registers, layers=run.request.layers)
            assert inspector.frames(mark.tid)
            (child,) = children() - others
            os.kill(child, signal.SIGSTOP)
            inspector._time_limit = 0.5
            with pytest.raises(InspectError, match="took more than"):
                inspector.frames(mark.tid)
            assert children() == others


def children() -> set[int]:
    """Our children that are workers."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {
        int(child)
        for child in found
        if b"rewind.inspect.worker" in Path(f"/proc/{child}/cmdline").read_bytes()
    }


def test_kernel_that_is_none(run: Run, tmp_path: Path) -> None:
    """What is no vmlinux with DWARF is refused, with the first question."""
    file = tmp_path / "vmlinux"
    settings = Settings.load(run.request.settings)
    for content, text in (
        (b"", "no kernel"),
        (b"\x7fELF" * 100, "no kernel"),
        (settings.kernel.read_bytes(), "has no"),
    ):
        file.write_bytes(content)
        with Inspector(file) as inspector, pytest.raises(InspectError, match=text):
            inspector.look_at(Memory(0, 4096), None)
