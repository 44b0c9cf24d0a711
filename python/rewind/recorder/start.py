"""Starting the machine of a run.

What a run takes from the boot snapshot to the job's first instruction is the start of Python,
this, and the guest's own part: so this imports nothing that only matters later.
"""

import contextlib
import functools
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

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


class Begin(Protocol):
    """Starts a machine, as `rewind.machine.qemu.run` does."""

    def __call__(
        self, *, scratch: Path, device: Mapping[str, object], pass_fds: Sequence[int]
    ) -> contextlib.AbstractContextManager[qemu.Qemu]: ...


@contextlib.contextmanager
def start(request: RunRequest) -> Iterator[Running]:
    """Start the machine; at the end of the ``with`` it has ended.

    :raises MachineError: if it can't be started.
    """
    plan = schedule.to_device(request.schedule)
    with listening(request, plan, functools.partial(_begin, request)) as running:
        yield running


@contextlib.contextmanager
def listening(request: RunRequest, plan: str, begin: Begin) -> Iterator[Running]:
    """Start the machine that *begin* gives, with *plan* as its schedule and all its ways out."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rewind-")))
        device = properties(request, scratch, plan)
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
        machine = stack.enter_context(
            begin(scratch=scratch, device=device, pass_fds=[trace.writer])
        )
        os.close(trace.writer)
        running = Running(machine, trace, log, result, messages, nars)
        stack.callback(running.stop)
        yield running


def _begin(
    request: RunRequest, *, scratch: Path, device: Mapping[str, object], pass_fds: Sequence[int]
) -> contextlib.AbstractContextManager[qemu.Qemu]:
    settings = Settings.load(request.settings)
    if request.snapshot is not None:
        return restore(
            settings, request.snapshot, scratch=scratch, device=device, pass_fds=pass_fds
        )
    # Reading an ELF file takes an import that most runs do without.
    from rewind.machine.boot import cold_boot

    return cold_boot(
        settings, memory=request.memory, scratch=scratch, device=device, pass_fds=pass_fds
    )
