"""Making a boot snapshot (`rewind.machine.snapshot` has the format, and restores).

A module of its own: a run does without what this one imports.
"""

import asyncio
import contextlib
import re
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from qemu.qmp import EventListener, ExecuteError, QMPClient, QMPError, Runstate

from rewind.machine import MachineError, qemu
from rewind.machine.boot import cold_boot
from rewind.machine.settings import Settings
from rewind.machine.snapshot import Snapshot, pack

BOOT_LIMIT = 600
"""Seconds of the host's time after which a boot is given up: it takes about one."""

# A section of QEMU's stream, as migration/savevm.c writes it, and its vmstate "timer" of
# system/cpu-timers.c: name, instance 0, version 2, then cpu_ticks_offset, 8 unused bytes and
# cpu_clock_offset; then the subsection with the instruction count.
_TIMER = re.compile(
    rb"(\x05timer\x00\x00\x00\x00\x00\x00\x00\x02).{24}(\x05\x0ctimer/icount\x00\x00\x00\x01)",
    re.DOTALL,
)


def build(settings_path: Path, memory: int, out: Path) -> None:
    """Boot a machine with *memory* MiB and leave its snapshot in the new directory *out*.

    :raises MachineError: if it can't be done.
    """
    settings = Settings.load(settings_path)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rewind-")))
        ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        machine = stack.enter_context(
            cold_boot(
                settings,
                memory=memory,
                scratch=scratch,
                device={"stop-at-ready": "on"},
                # It runs when it is told to: QMP tells of a stop only who is connected by then.
                start=[*qemu.monitor_arguments(theirs), "-S"],
                pass_fds=[theirs.fileno()],
            )
        )
        theirs.close()
        state = scratch / "state"
        asyncio.run(_take(machine, ours, state))
        out.mkdir()
        (out / "state").write_bytes(forget_host_time(state.read_bytes()))
        pack(machine.memory, out / "memory")
        Snapshot(
            path=out,
            machine=settings.guest(),
            memory=memory,
            console=machine.console.read_bytes(),
        ).save()


def forget_host_time(state: bytes) -> bytes:
    """A machine's *state* without what is the host's in it.

    That is how long the process ran, by the host's clock and in its CPU's ticks. A machine whose
    time is its instructions never looks at either.

    :raises MachineError: if they are not where QEMU 10.0 has them.
    """
    state, found = _TIMER.subn(rb"\1" + bytes(24) + rb"\2", state)
    if found != 1:
        raise MachineError("QEMU's state of the machine has no timers where they should be")
    return state


async def _take(machine: qemu.Qemu, monitor: socket.socket, state: Path) -> None:
    """Let *machine* boot, and write its device state when the guest is ready."""
    client = QMPClient()
    events = EventListener(["STOP", "SHUTDOWN", "MIGRATION"])
    try:
        async with asyncio.timeout(BOOT_LIMIT):
            with client.listen(events):
                await client.connect(monitor)
                capabilities = [
                    {"capability": name, "state": True} for name in ("events", "x-ignore-shared")
                ]
                await client.execute("migrate-set-capabilities", {"capabilities": capabilities})
                await client.execute("cont")
                while (event := await _next(client, events))["event"] != "STOP":
                    if event["event"] == "SHUTDOWN":
                        raise ConnectionError
                await client.execute("migrate", {"uri": f"file:{state}"})
                while (event := await _next(client, events))["data"]["status"] != "completed":
                    if event["data"]["status"] == "failed":
                        raise MachineError("QEMU could not write the machine's state")
    except TimeoutError:
        machine.stop()
        raise MachineError(f"the machine did not boot within {BOOT_LIMIT} s") from None
    except ExecuteError as error:
        raise MachineError(f"QEMU refused a command: {error}") from None
    except (QMPError, ConnectionError):
        # Without its monitor nothing can be done with it, in case it still runs.
        with contextlib.suppress(subprocess.TimeoutExpired):
            machine.process.wait(timeout=10)
        machine.stop()
        raise machine.failure("the machine did not boot") from None
    finally:
        # It says once more that QEMU is gone, if it is.
        with contextlib.suppress(QMPError, EOFError, OSError):
            await client.disconnect()


async def _next(client: QMPClient, events: EventListener) -> dict[str, Any]:
    """The next of *events*.

    :raises ConnectionError: if QEMU ends before.
    """
    event = asyncio.create_task(events.get())
    gone = asyncio.create_task(client.runstate_changed())
    # It hears of a change only once it waits for one.
    await asyncio.sleep(0)
    if client.runstate is Runstate.RUNNING:
        await asyncio.wait({event, gone}, return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if event.done():
        return dict(event.result())
    event.cancel()
    raise ConnectionError
