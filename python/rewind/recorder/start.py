"""Starting the machine of a run.

What a run takes from the boot snapshot to the job's first instruction is the start of Python,
this, and the guest's own part: so this imports nothing that only matters later.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from rewind.formats import schedule
from rewind.machine import qemu
from rewind.machine.settings import Settings
from rewind.machine.snapshot import restore
from rewind.recorder.pipes import Fifo, Pipe
from rewind.recorder.request import RunRequest


@attrs.frozen
class Running:
    """A machine that runs a job, and all that comes out of it."""

    machine: qemu.Qemu
    trace: Pipe
    log: Fifo
    result: Fifo
    messages: Fifo
    nars: Mapping[str, Fifo]
    """By the output's name."""

    def stop(self) -> None:
        """End the machine, if it still runs, and with it what comes."""
        self.machine.stop()
        for fifo in (self.log, self.result, self.messages, *self.nars.values()):
            fifo.end()


def properties(request: RunRequest, scratch: Path, plan: str) -> dict[str, object]:
    """The rewind device's properties, but for the trace; what they name is put into *scratch*.

    :param plan: the schedule, as the device reads it.
    """
    (scratch / "parameters").write_bytes(
        request.job.parameters(
            layers=len(request.layers),
            epoch=request.epoch,
            seed=request.seed,
            cores=request.cores,
            shell=request.shell,
            closures=request.closures,
        )
    )
    (scratch / "schedule").write_text(plan)
    (scratch / "channels").mkdir()
    return {
        "channels": scratch / "channels",
        "parameters": scratch / "parameters",
        "schedule": scratch / "schedule",
        "time-limit": request.time_limit * 1_000_000_000,
        **{f"layer{number}": layer for number, layer in enumerate(request.layers)},
    }


@contextlib.contextmanager
def start(request: RunRequest) -> Iterator[Running]:
    """Start the machine; at the end of the ``with`` it has ended.

    :raises MachineError: if it can't be started.
    """
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rewind-")))
        device = properties(request, scratch, schedule.to_device(request.schedule))
        channels = scratch / "channels"

        def channel(number: int) -> Fifo:
            return Fifo(channels / str(number))

        log, result, messages = (
            channel(number)
            for number in (qemu.LOG_CHANNEL, qemu.RESULT_CHANNEL, qemu.MESSAGE_CHANNEL)
        )
        nars = {
            name: channel(qemu.OUTPUT_CHANNEL + number)
            for number, name in enumerate(request.job.outputs)
        }
        trace = Pipe()
        device["trace"] = f"/proc/self/fd/{trace.writer}"
        machine = stack.enter_context(_machine(request, scratch, device, trace.writer))
        os.close(trace.writer)
        running = Running(machine, trace, log, result, messages, nars)
        stack.callback(running.stop)
        yield running


def _machine(
    request: RunRequest, scratch: Path, device: Mapping[str, object], trace: int
) -> contextlib.AbstractContextManager[qemu.Qemu]:
    settings = Settings.load(request.settings)
    if request.snapshot is not None:
        return restore(settings, request.snapshot, scratch=scratch, device=device, pass_fds=[trace])
    # Reading an ELF file takes an import that most runs do without.
    from rewind.machine.boot import cold_boot

    return cold_boot(
        settings, memory=request.memory, scratch=scratch, device=device, pass_fds=[trace]
    )
