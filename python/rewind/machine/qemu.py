"""The QEMU process: its arguments, its start and end, and what its failures mean.

The machine is deterministic because of what stands here as much as because of the patches: time
counts instructions (-icount shift=0,sleep=off), one thread runs the guest, no device is there
that completes anything in the host's time, and the memory's size and contents are given.

A machine's memory is a memfd that QEMU finds as a file. It is gone with the last process that
has it open, however that ends; it needs no room in /dev/shm, which a container may have kept to
64 MiB; and it can be filled while QEMU is still starting.
"""

import contextlib
import ctypes
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from rewind.machine import MachineError
from rewind.machine.settings import Settings

MIB = 1 << 20

MEMORY_MIN = 256
"""MiB: the kernel, its initrd and some room."""
MEMORY_MAX = 240 << 10
"""MiB: guest-physical memory from 256 GiB on belongs to the layers."""

TRANSLATIONS = 160
"""MiB that QEMU has for translated code; when they are full it begins anew.

Its own default, 1 GiB, would in time be filled. A C compiler with what is around it needs 150:
with 128 it takes a quarter longer, with 64 twice as long.
"""

LAYERS_MAX = 4
LAYER_MAX = 64 << 30
"""The bytes of a layer's window."""

OUTPUTS_MAX = 48
"""The device has 64 channels; outputs begin at `OUTPUT_CHANNEL`."""
LOG_CHANNEL = 0
RESULT_CHANNEL = 1
MESSAGE_CHANNEL = 2
OUTPUT_CHANNEL = 16

DEVICE = "rewind"
"""The device's id."""

_PR_SET_PDEATHSIG = 1
_CONSOLE_LINES = 10
# The kernel's words, and init's.
_OUT_OF_MEMORY = re.compile(
    r"Out of memory: |System is deadlocked on memory|the machine needs more memory"
)


def check_memory(memory: int) -> None:
    """Refuse what no machine can have.

    :param memory: MiB.
    :raises MachineError: with the bounds.
    """
    if not MEMORY_MIN <= memory <= MEMORY_MAX:
        raise MachineError(
            f"a machine has {MEMORY_MIN} to {MEMORY_MAX:,} MiB of memory, not {memory:,}"
        )


@attrs.frozen
class Qemu:
    """A QEMU process that was started."""

    process: subprocess.Popen[bytes]
    memory: int
    """The file descriptor of the guest's memory; of what it began with if it had a base."""
    console: Path
    """What the kernel had to say so far."""
    errors: Path
    """What QEMU wrote to stderr."""

    def stop(self) -> None:
        """End it, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def cpu_time(self) -> int:
        """How long the process ran on a CPU so far, in clock ticks; 0 when it has ended."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        # The name, in parentheses, can hold anything; utime and stime are fields 14 and 15.
        fields = stat.rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def failure(self, what: str = "the machine ended before the job did") -> MachineError:
        """Why there is no more of this machine, which has ended.

        The text is *what*, the reason, and the last lines of the console.
        """
        status = self.process.returncode
        said = _read(self.errors).strip()
        if status == -signal.SIGKILL:
            reason = "QEMU was killed: the host may have run out of memory"
        elif status == -signal.SIGBUS:
            reason = "QEMU found no room for the machine's memory: the host has run out of it"
        elif "No space left on device" in said:
            reason = "no space left on device"
        elif status < 0:
            reason = f"QEMU was ended by {signal.Signals(-status).name}"
        elif said:
            reason = said.splitlines()[-1]
        elif status:
            reason = f"QEMU exited with status {status}"
        else:
            reason = "the guest reset or switched itself off"
        lines = _read(self.console).splitlines()
        text = f"{what}: {reason}"
        if out_of_memory(lines):
            text += "; the guest ran out of memory: give it more with --memory"
        return MachineError(
            "\n".join((text, *(f"  console: {line}" for line in lines[-_CONSOLE_LINES:])))
        )


def out_of_memory(lines: Iterable[str]) -> list[str]:
    """Those of *lines* in which kernel or init say that the machine's memory did not do."""
    return [line for line in lines if _OUT_OF_MEMORY.search(line)]


@contextlib.contextmanager
def run(
    settings: Settings,
    *,
    memory: int,
    scratch: Path,
    device: Mapping[str, object],
    start: Sequence[str],
    base: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Iterator[Qemu]:
    """Start QEMU; at the end of the ``with`` it has ended.

    It also ends when the thread that called this does, even by SIGKILL.

    :param memory: MiB, all zeros.
    :param base: the file descriptor of another machine's memory: this one begins with what is in
        it, and keeps what it writes to itself. It costs no more than the pages that are written.
    :param scratch: a directory for the process's files.
    :param device: the properties of the rewind device.
    :param start: arguments that give the machine something to run.
    :raises MachineError: if it can't be started.
    """
    check_memory(memory)
    parent = os.getpid()
    # Looked up here: between fork and exec nothing may wait for a lock another thread held.
    prctl = ctypes.CDLL(None).prctl

    def die_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    console, errors = scratch / "console", scratch / "errors"
    with contextlib.ExitStack() as stack:
        if base is None:
            memory_fd = os.memfd_create("rewind-memory", os.MFD_CLOEXEC)
            stack.callback(os.close, memory_fd)
            os.ftruncate(memory_fd, memory * MIB)
        else:
            memory_fd = base
        output = stack.enter_context(errors.open("wb"))
        try:
            process = subprocess.Popen(
                [
                    *_machine_arguments(settings, memory, memory_fd, base is None, console),
                    *("-device", options("rewind", id=DEVICE, **device)),
                    *start,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={},
                pass_fds=(memory_fd, *pass_fds),
                preexec_fn=die_with_parent,
                # Ctrl-C is for who started it, who may have another use for it.
                process_group=0,
            )
        except OSError as error:
            raise MachineError(f"QEMU can't be started: {error}") from None
        qemu = Qemu(process, memory_fd, console, errors)
        stack.callback(qemu.stop)
        yield qemu


def _machine_arguments(
    settings: Settings, memory: int, memory_fd: int, share: bool, console: Path
) -> list[str]:
    backend = options(
        "memory-backend-file",
        id="ram",
        size=f"{memory}M",
        mem_path=f"/proc/self/fd/{memory_fd}",
        share="on" if share else "off",
    )
    return [
        str(settings.qemu),
        *("-accel", f"tcg,thread=single,tb-size={TRANSLATIONS}"),
        *("-icount", "shift=0,sleep=off"),
        *("-seed", "1"),
        *("-cpu", settings.cpu),
        *("-M", f"{settings.machine},memory-backend=ram"),
        *("-m", f"{memory}M"),
        *("-object", backend),
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none"),
        *("-bios", str(settings.firmware)),
        *("-chardev", options("file", id="console", path=console)),
        *("-serial", "chardev:console"),
        # A machine that was stopped to be snapshotted runs as soon as it is restored.
        *("-global", "migration.store-global-state=off"),
    ]


def monitor_arguments(monitor: socket.socket) -> list[str]:
    """Arguments for a QMP monitor on *monitor*, a socket that QEMU inherits."""
    return [
        *("-chardev", options("socket", id="monitor", fd=monitor.fileno())),
        *("-mon", "chardev=monitor,mode=control"),
    ]


def options(first: str, **options: object) -> str:
    """An argument of QEMU's: in it a comma in a value is doubled, and names have no _."""
    return ",".join(
        (
            first,
            *(
                f"{name.replace('_', '-')}={str(value).replace(',', ',,')}"
                for name, value in options.items()
            ),
        )
    )


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return ""
