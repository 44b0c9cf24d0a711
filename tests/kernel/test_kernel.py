"""The kernel and its driver, in the machine, without init and layers.

Each test boots the machine with an initramfs of two programs, `init` and `check`, and looks at
what the device wrote: the job's log, its result and the trace.

The environment names what is tested: `REWIND_MACHINE` (the machine's settings, as
vm-configs/machine.nix writes them) and `REWIND_INITRD`.
"""

import errno
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import attrs
import pytest

from rewind.formats import FormatError, trace
from rewind.machine.boot import BLOCK, INITRD, block, cold_boot, entry
from rewind.machine.settings import Settings

T = TypeVar("T", bound=trace.Record)

FINISHED, STALLED = 1, 2
SECOND = 1_000_000_000
CLOSE = 600
"""Seconds of the host's time that are enough for any of these machines."""

READ, WRITE, RT_SIGRETURN, PREAD, WRITEV, ACCESS = 0, 1, 15, 17, 20, 21
SENDMSG, BIND, EXECVE, RENAME, MKDIR, SYMLINK, READLINK = 46, 49, 59, 82, 83, 88, 89
RECVFROM, GETPPID, OPENAT = 45, 110, 257


@attrs.frozen
class Run:
    """What came of a machine."""

    log: str
    result: str
    console: str
    reason: int
    time: int
    """Of the job, in ns."""
    raw: bytes
    """The trace as the device wrote it."""
    records: tuple[trace.Record, ...]

    def of(self, kind: type[T]) -> list[T]:
        """The records of a type."""
        return [record for record in self.records if isinstance(record, kind)]

    def calls(self, number: int) -> list[tuple[trace.Enter, trace.Exit | None]]:
        """Each call of a number, with its end."""
        found: list[tuple[trace.Enter, trace.Exit | None]] = []
        for at, record in enumerate(self.records):
            if isinstance(record, trace.Enter) and record.call == number:
                end = next(
                    (
                        later
                        for later in self.records[at:]
                        if isinstance(later, trace.Exit) and later.tid == record.tid
                    ),
                    None,
                )
                assert end is None or end.call == number
                found.append((record, end))
        return found


def settings() -> Settings:
    """The machine that is tested, with the tests' own initramfs."""
    return attrs.evolve(
        Settings.load(Path(os.environ["REWIND_MACHINE"])),
        initrd=Path(os.environ["REWIND_INITRD"]),
    )


def parameter(key: str, value: str) -> bytes:
    return f"{key} {len(value)}\n{value}\n".encode()


def run(
    scratch: Path,
    *arguments: str,
    cores: int = 1,
    schedule: Sequence[str] = (),
    padding: int = 0,
    memory: int = 1024,
) -> Run:
    """Run ``check ARGUMENTS`` in a machine; *padding* makes the parameters that much larger."""
    scratch.mkdir(exist_ok=True)
    (scratch / "parameters").write_bytes(
        parameter("padding", "x" * padding)
        + parameter("cores", str(cores))
        + b"".join(parameter("arg", argument) for argument in arguments)
    )
    (scratch / "schedule").write_text("".join(f"{line}\n" for line in schedule))
    (scratch / "channels").mkdir()
    device = {
        "trace": scratch / "trace",
        "channels": scratch / "channels",
        "parameters": scratch / "parameters",
        "schedule": scratch / "schedule",
    }
    with cold_boot(settings(), memory=memory, scratch=scratch, device=device) as machine:
        machine.process.wait(CLOSE)
        console = machine.console.read_text(errors="replace")
        errors = machine.errors.read_text()
    assert not errors

    def channel(number: int) -> str:
        path = scratch / "channels" / str(number)
        return path.read_text(errors="replace") if path.exists() else ""

    records: list[trace.Record] = []
    end: trace.End | None = None
    with (scratch / "trace").open("rb") as stream:
        for item in trace.FrameSource(stream):
            if isinstance(item, trace.End):
                end = item
            else:
                records.extend(trace.decode(item))
    assert end is not None
    check_wakes(records)
    return Run(
        log=channel(0),
        result=channel(1),
        console=console,
        reason=end.reason,
        time=end.time - end.start,
        raw=(scratch / "trace").read_bytes(),
        records=tuple(records),
    )


def check_wakes(records: Sequence[trace.Record]) -> None:
    """Whoever gets the CPU could run, and was woken up once if it could not before."""
    runnable = {1}
    waiting: set[int] = set()
    for record in records:
        match record:
            case trace.Fork():
                runnable.add(record.child_tid)
                waiting.discard(record.child_tid)
            case trace.Wake():
                assert record.woken_tid in waiting, record
                waiting.remove(record.woken_tid)
                runnable.add(record.woken_tid)
            case trace.Switch():
                if record.pid and record.state:
                    runnable.remove(record.tid)
                    waiting.add(record.tid)
                assert not record.next_pid or record.next_tid in runnable, record


def test_features(tmp_path: Path) -> None:
    got = run(tmp_path, "features", memory=2048)
    assert got.result == "exited 0\n", got.log + got.console
    assert "FAILED" not in got.log
    assert got.console == ""


@pytest.mark.parametrize("cores", [1, 2, 4, 63, 64])
def test_cores(tmp_path: Path, cores: int) -> None:
    got = run(tmp_path, "cpus", str(cores), cores=cores)
    assert (got.log, got.result) == ("", "exited 0\n")


@pytest.mark.parametrize(
    "how", ["pause", "deadlock", "pipes", "poll", "connection", "signal", "stopped", "ring"]
)
def test_stalled(tmp_path: Path, how: str) -> None:
    got = run(tmp_path, "wait", how)
    assert got.reason == STALLED
    # A timer that comes once may hold the end back: the network's first ones take two seconds,
    # a worker of io_uring some more, a closed connection a minute.
    assert got.time < (100 if how == "connection" else 20) * SECOND


@pytest.mark.parametrize("how", ["sleep", "timer", "poll-timeout", "alarm", "receive"])
def test_long_wait(tmp_path: Path, how: str) -> None:
    got = run(tmp_path, "wait", how)
    assert (got.log, got.result, got.reason) == ("", "exited 0\n", FINISHED)
    assert 100_000 * SECOND <= got.time < 107_000 * SECOND


def test_out_of_memory(tmp_path: Path) -> None:
    """The console says so, and what is reclaimed and killed is the same each time."""
    one = run(tmp_path / "one", "hog", memory=256)
    assert (one.result, one.reason) == ("signaled 9\n", FINISHED)
    assert "Out of memory: Killed process" in one.console
    assert run(tmp_path / "two", "hog", memory=256).raw == one.raw


def test_panic(tmp_path: Path) -> None:
    """A crash of the kernel ends the machine, and the console says why."""
    with pytest.raises(FormatError, match="died"):
        run(tmp_path, "panic")
    assert "Kernel panic" in (tmp_path / "console").read_text()


def test_large_parameters(tmp_path: Path) -> None:
    got = run(tmp_path, "exit", "3", padding=200_000)
    assert got.result == "exited 3\n"


def test_repeats(tmp_path: Path) -> None:
    one = run(tmp_path / "one", "calls")
    two = run(tmp_path / "two", "calls")
    assert one.raw == two.raw


def test_calls(tmp_path: Path) -> None:
    got = run(tmp_path, "calls")
    assert (got.log, got.result) == ("", "exited 0\n")

    def only(number: int) -> tuple[trace.Enter, trace.Exit]:
        ((enter, end),) = got.calls(number)
        assert end is not None
        return enter, end

    def path(argument: int, data: str | bytes, cut: bool = False) -> trace.Detail:
        data = data if isinstance(data, bytes) else data.encode()
        return trace.Detail(argument, trace.PATH, cut, data)

    def data(argument: int, content: bytes, cut: bool = False) -> trace.Detail:
        return trace.Detail(argument, trace.DATA, cut, content)

    # START, then what the process did.
    first = got.records[0]
    assert isinstance(first, trace.Exit) and (first.pid, first.tid) == (1, 1)
    execs = got.of(trace.Exec)
    assert [(e.pid, e.path, e.arguments) for e in execs] == [
        (1, "/check", ("check", "calls")),
        (2, "/check", ("check", "exit", "7")),
    ]

    opened = [enter for enter, _ in got.calls(OPENAT)]
    assert path(1, "/tmp/file") in [detail for enter in opened for detail in enter.details]
    write, written = only(WRITE)
    assert write.details == (data(1, b"d" * 64, cut=True),)
    assert written.value == 100
    assert only(PREAD)[1].details == (data(1, b"d" * 10),)
    assert only(WRITEV)[0].details == (data(1, b"one"),)
    assert set(only(RENAME)[0].details) == {path(0, "/tmp/file"), path(1, "/tmp/renamed")}

    long, null, bad = got.calls(ACCESS)
    assert long[0].details == (path(0, b"p" * 256, cut=True),)
    assert null[0].details == bad[0].details == ()
    assert bad[1] is not None
    assert (bad[1].value, bad[1].details) == (-errno.EFAULT, ())

    # Its page was not there when the call was entered, and was when it returned.
    mkdir, made = only(MKDIR)
    assert (mkdir.details, made.details) == ((), (path(0, "/tmp/untouched"),))

    assert set(only(SYMLINK)[0].details) == {path(0, "where it leads"), path(1, "/tmp/link")}
    # The C library's start-up may read a link as well.
    links = [end.details for _, end in got.calls(READLINK) if end]
    assert (path(1, "where it leads"),) in links
    assert only(SENDMSG)[0].details == (data(1, b"one"),)
    assert only(RECVFROM)[1].details == (data(1, b"onetwo"),)
    ((address,), _) = only(BIND)[0].details, None
    assert address.data.startswith(b"\1\0/tmp/socket\0")

    # Signals: to oneself, and the child's end.
    sent = [(s.pid, s.signal, s.receiver_pid) for s in got.of(trace.SignalSent)]
    assert (1, 10, 1) in sent and (2, 17, 1) in sent
    ((usr1),) = [s for s in got.of(trace.SignalDelivered) if s.signal == 10]
    assert (usr1.pid, usr1.sender) == (1, 1)
    assert only(RT_SIGRETURN)[1].pid == 1

    # A process and its end.
    (fork,) = got.of(trace.Fork)
    assert (fork.pid, fork.child_pid, fork.child_tid) == (1, 2, 2)
    assert fork.flags & 0xFF == 17
    assert [(e.pid, e.code, e.last) for e in got.of(trace.TaskEnd)] == [
        (2, 7 << 8, True),
        (1, 0, True),
    ]

    # Who has the CPU is whom the last switch gave it to.
    running = (1, 1)
    for record in got.records:
        if isinstance(record, trace.Switch):
            assert (record.pid, record.tid) == running
            running = (record.next_pid, record.next_tid)
        elif isinstance(record, trace.Enter | trace.Exit):
            assert (record.pid, record.tid) == running


@pytest.mark.parametrize(
    ("how", "waker", "interrupt"),
    [
        ("pipe", 1, False),
        ("futex", 1, False),
        ("signal", 1, False),
        # The task that sends receives as well, in a softirq.
        ("datagram", 1, True),
        # The first thread is running then, and has nothing to do with it.
        ("timer", 0, True),
    ],
)
def test_wakes(tmp_path: Path, how: str, waker: int, interrupt: bool) -> None:
    got = run(tmp_path, "wakes", how)
    assert (got.log, got.result) == ("", "exited 0\n")
    first, second = (
        [(w.pid, w.tid, w.interrupt) for w in got.of(trace.Wake) if w.woken_tid == tid]
        for tid in (1, 2)
    )
    assert second == [(waker, waker, interrupt)]
    assert all(w.woken_pid == 1 for w in got.of(trace.Wake))
    # From its sleep, and when it waits for the other's end, if it does.
    assert first[0] == (0, 0, True)
    assert first[1:] in ([], [(1, 2, False)])


def _step(got: Run) -> int:
    """The step at which `turns` calls getppid: from there on its threads only count."""
    ((enter, _),) = got.calls(GETPPID)
    return enter.step


def _competing(got: Run) -> int:
    """The step at which the first of `turns`'s threads gets the CPU, to do nothing but count."""
    step = _step(got)
    return next(r.step for r in got.of(trace.Switch) if r.step > step and r.next_tid in (2, 3))


def test_stall(tmp_path: Path) -> None:
    plain = run(tmp_path / "plain", "turns", "0")
    step = _step(plain)
    stalled = run(
        tmp_path / "stalled",
        "turns",
        "0",
        schedule=[f"{step + 1} 5000 stall 3000000", f"{step + 1} 5001 stall 4000000"],
    )
    one, two = stalled.of(trace.Perturbed)
    assert (one.kind, one.ns, one.nothing, one.pid) == ("stall", 3_000_000, False, 1)
    assert (two.kind, two.ns, two.nothing, two.pid) == ("stall", 4_000_000, False, 1)
    assert stalled.result == "exited 0\n"
    # In user mode.
    assert one.user_ip == one.ip < 1 << 47
    # A task that is stalled cannot run, and then can again.
    left, back = [r for r in stalled.records if r.step > two.step][:2]
    assert isinstance(left, trace.Switch) and (left.tid, left.next_tid) == (1, 0)
    assert left.state
    assert isinstance(back, trace.Wake)
    assert (back.pid, back.woken_tid, back.interrupt) == (0, 1, True)
    # Until then it is the same run. The stalls take as long as they say: a task that spends the
    # time counting is interrupted by ticks, which an idle CPU does without.
    assert stalled.records[: step + 2] == plain.records[: step + 2]
    extra = stalled.time - plain.time
    assert 6_950_000 <= extra < 7_200_000


def test_place_of_a_perturbation(tmp_path: Path) -> None:
    """In the kernel, it is where the task returns to."""
    plain = run(tmp_path / "plain", "turns", "0")
    ((enter, _),) = plain.calls(GETPPID)
    got = run(tmp_path / "stalled", "turns", "0", schedule=[f"{enter.step} 1 stall 1000"])
    (stall,) = got.of(trace.Perturbed)
    assert stall.ip >= 1 << 63
    assert stall.user_ip == enter.ip


def test_stall_lets_others_run(tmp_path: Path) -> None:
    step = _competing(run(tmp_path / "plain", "turns", "2"))
    got = run(tmp_path / "stalled", "turns", "2", schedule=[f"{step} 200000 stall 5000000"])
    (stall,) = got.of(trace.Perturbed)
    after = [r for r in got.of(trace.Switch) if r.step > stall.step]
    assert (after[0].pid, after[0].tid) == (stall.pid, stall.tid)
    # It does not come back before its time, whoever runs.
    back = next(r for r in after[1:] if r.next_tid == stall.tid)
    assert back.time - stall.time >= 5_000_000


@pytest.mark.parametrize("offset", [1, 1000, 123_456, 1_000_000, 3_700_000, 9_999_999])
def test_reschedule(tmp_path: Path, offset: int) -> None:
    step = _competing(run(tmp_path / "plain", "turns", "2"))
    got = run(
        tmp_path / "rescheduled",
        "turns",
        "2",
        schedule=[f"{step} {offset} reschedule 0"],
    )
    (perturbed,) = got.of(trace.Perturbed)
    assert perturbed.kind == "reschedule" and not perturbed.nothing
    switch = next(r for r in got.of(trace.Switch) if r.step > perturbed.step)
    assert (switch.pid, switch.tid) == (perturbed.pid, perturbed.tid)
    assert switch.next_tid not in (0, perturbed.tid)
    assert switch.time - perturbed.time < 100_000


def test_reschedule_alone(tmp_path: Path) -> None:
    plain = run(tmp_path / "plain", "turns", "0")
    step = _step(plain)
    got = run(tmp_path / "alone", "turns", "0", schedule=[f"{step + 1} 5000 reschedule 0"])
    (perturbed,) = got.of(trace.Perturbed)
    assert not perturbed.nothing
    # There is nobody to give the turn to, and nothing to wait for.
    assert got.time - plain.time < 100_000


def test_reschedule_returns_early(tmp_path: Path) -> None:
    """The turn comes back as soon as the others have no use for it."""
    plain = run(tmp_path / "plain", "turns", "short")
    # Two threads compete: the second has less than a turn left when it is preempted.
    preempted = [
        r for r in plain.of(trace.Switch) if (r.pid, r.tid, r.state, r.next_tid) == (1, 3, 0, 2)
    ]
    step = preempted[-1].step
    got = run(tmp_path / "early", "turns", "short", schedule=[f"{step} 50000 reschedule 0"])
    (perturbed,) = got.of(trace.Perturbed)
    assert (perturbed.tid, perturbed.nothing) == (2, False)
    switches = [r for r in got.of(trace.Switch) if r.step > perturbed.step and r.next_tid]
    (ended,) = [r for r in got.of(trace.TaskEnd) if r.tid == 3]
    back = next(r for r in switches if r.next_tid == 2)
    assert switches[0].next_tid == 3
    assert ended.time - perturbed.time < 3_900_000
    assert perturbed.time < ended.time < back.time < ended.time + 100_000


def test_perturbation_of_nothing(tmp_path: Path) -> None:
    plain = run(tmp_path / "plain", "wait", "sleep")
    sleep = plain.of(trace.Switch)[-1].step
    step = next(r.step for r in plain.of(trace.Switch) if r.next_pid == 0 and r.step > sleep - 20)
    got = run(tmp_path / "idle", "wait", "sleep", schedule=[f"{step} 5000000000 stall 1000000"])
    (perturbed,) = got.of(trace.Perturbed)
    assert perturbed.nothing and (perturbed.pid, perturbed.tid) == (0, 0)
    assert perturbed.user_ip == 0
    assert got.result == "exited 0\n"


def test_without_device(tmp_path: Path) -> None:
    """Without the device the driver keeps out of the way, and the kernel boots."""
    machine = settings()
    console, start = tmp_path / "console", tmp_path / "start"
    start.write_bytes(
        block(
            entry=entry(machine.kernel),
            memory=512 << 20,
            initrd_size=machine.initrd.stat().st_size,
            command_line=["reboot=t"],
        )
    )
    subprocess.run(
        [
            machine.qemu,
            *("-accel", "tcg", "-M", "microvm,acpi=off,isa-serial=on", "-m", "512"),
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-bios", machine.firmware),
            *("-device", f"loader,file={machine.kernel}"),
            *("-device", f"loader,file={machine.initrd},addr={INITRD},force-raw=on"),
            *("-device", f"loader,file={start},addr={BLOCK},force-raw=on"),
            *("-serial", f"file:{console}"),
        ],
        check=True,
        timeout=CLOSE,
    )
    assert "without a device" in console.read_text()
