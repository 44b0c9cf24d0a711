"""Making a run: the machine is started, listened to, and what happened is written down."""

import contextlib
import functools
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs

from rewind.formats import schedule
from rewind.formats.manifest import Manifest, Outcome, Output
from rewind.formats.trace import REASONS, End
from rewind.machine import MachineError, qemu
from rewind.machine.settings import Settings
from rewind.machine.snapshot import restore
from rewind.recorder.request import RunRequest
from rewind.recorder.streams import (
    Display,
    Fifo,
    Pipe,
    Workers,
    copy_log,
    copy_nar,
    copy_trace,
    read_text,
)

RESULT_LIMIT = 1 << 16
MESSAGES_LIMIT = 1 << 20
"""Bytes; more than init ever says."""

WATCH_INTERVAL = 10.0
STANDSTILL = 12
"""So many intervals (seconds of the host's time) without work mean a machine that hangs."""


@attrs.define
class _Streams:
    """The pipes and FIFOs of a run, and what came out of them."""

    log: Fifo
    result: Fifo
    messages: Fifo
    nars: dict[str, Fifo]

    result_text: str = ""
    message_text: str = ""
    end: End | None = None
    outputs: dict[str, Output] = attrs.Factory(dict)
    trace_over: threading.Event = attrs.Factory(threading.Event)

    @classmethod
    def create(cls, channels: Path, outputs: Iterator[str]) -> "_Streams":
        channels.mkdir()

        def channel(number: int) -> Fifo:
            return Fifo(channels / str(number))

        return cls(
            log=channel(qemu.LOG_CHANNEL),
            result=channel(qemu.RESULT_CHANNEL),
            messages=channel(qemu.MESSAGE_CHANNEL),
            nars={name: channel(qemu.OUTPUT_CHANNEL + n) for n, name in enumerate(outputs)},
        )

    def close(self) -> None:
        """QEMU has ended: what is still in the FIFOs is the last of it."""
        for fifo in (self.log, self.result, self.messages, *self.nars.values()):
            fifo.end()


def record(request: RunRequest, display: Display) -> Manifest:
    """Make a run: its files are in ``request.out`` and ``request.nars`` then.

    :raises MachineError: if the machine did not get to an outcome.
    :raises StreamError: if something of the run could not be written.
    """
    request.out.mkdir()
    request.nars.mkdir()
    with tempfile.TemporaryDirectory(prefix="rewind-") as directory:
        scratch = Path(directory)
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
        (scratch / "schedule").write_text(schedule.to_device(request.schedule))
        streams = _Streams.create(scratch / "channels", iter(request.job.outputs))
        console = _run(request, scratch, streams, display)
    return _write_down(request, streams, console)


def _run(request: RunRequest, scratch: Path, streams: _Streams, display: Display) -> bytes:
    """Run the machine to its end; what its kernel had to say."""
    trace = Pipe()
    device = {
        "trace": f"/proc/self/fd/{trace.writer}",
        "channels": scratch / "channels",
        "parameters": scratch / "parameters",
        "schedule": scratch / "schedule",
        "time-limit": request.time_limit * 1_000_000_000,
        **{f"layer{n}": layer for n, layer in enumerate(request.layers)},
    }
    with contextlib.ExitStack() as stack:
        # Whatever happens, first QEMU ends, then what comes from it, then those who listen.
        workers = stack.enter_context(Workers())
        stack.callback(streams.close)
        machine = stack.enter_context(_started(request, scratch, device, trace.writer))
        workers.on_error = machine.process.kill
        os.close(trace.writer)

        def take_trace() -> None:
            try:
                streams.end = copy_trace(trace, request.out / "trace", display)
            finally:
                streams.trace_over.set()

        def take_result() -> None:
            streams.result_text = read_text(streams.result, RESULT_LIMIT)

        def take_nar(name: str) -> None:
            path = request.nars / f"{name}.nar"
            output = copy_nar(streams.nars[name], path, request.job.outputs[name])
            if output is not None:
                streams.outputs[name] = output

        def take_messages() -> None:
            streams.message_text = read_text(streams.messages, MESSAGES_LIMIT)

        workers.start("the trace", take_trace)
        workers.start("the log", lambda: copy_log(streams.log, request.out / "log", display))
        workers.start("the result", take_result)
        workers.start("the messages", take_messages)
        for name in streams.nars:
            workers.start(f"the NAR of {name}", functools.partial(take_nar, name))

        _watch(machine, streams.trace_over)
        if streams.end is not None:
            # The device has stopped the guest, and all it sent is in our pipes.
            machine.stop()
        machine.process.wait()
        streams.close()
        workers.join()
        if streams.end is None:
            raise machine.failure()
        return machine.console.read_bytes()


@contextlib.contextmanager
def _started(
    request: RunRequest, scratch: Path, device: dict[str, object], trace: int
) -> Iterator[qemu.Qemu]:
    settings = Settings.load(request.settings)
    if request.snapshot is not None:
        start = restore(
            settings, request.snapshot, scratch=scratch, device=device, pass_fds=[trace]
        )
    else:
        # Reading an ELF file takes an import that most runs do without.
        from rewind.machine.boot import cold_boot

        start = cold_boot(
            settings, memory=request.memory, scratch=scratch, device=device, pass_fds=[trace]
        )
    with start as machine:
        yield machine


def _watch(machine: qemu.Qemu, over: threading.Event) -> None:
    """Wait until the trace is *over*.

    A machine whose CPU is halted and has no timer waits for ever. The driver reports one whose
    job is in that state; before the job starts, and after a kernel's crash, nobody does.

    :raises MachineError: if the machine hangs.
    """
    last, still = -1, 0
    while not over.wait(WATCH_INTERVAL):
        now = machine.cpu_time()
        still = still + 1 if now == last else 0
        last = now
        if still >= STANDSTILL:
            machine.stop()
            raise machine.failure(
                f"the machine did nothing for {STANDSTILL * WATCH_INTERVAL:.0f} s"
            )


def _write_down(request: RunRequest, streams: _Streams, console: bytes) -> Manifest:
    """Make the manifest, and see that just the files are there that belong to the run."""
    assert streams.end is not None
    outcome, missing = _outcome(streams.end, streams.result_text)
    if not outcome.success:
        # What was sent before a run was cut off is a part of a NAR, at best.
        missing = set(request.job.outputs)
    for name in missing & set(streams.outputs):
        del streams.outputs[name]
        (request.nars / f"{name}.nar").unlink()
    absent = set(request.job.outputs) - missing - set(streams.outputs)
    if absent:
        raise MachineError(f"init sent no NAR of the output {min(absent)}")

    if request.snapshot is not None:
        console = request.snapshot.console + console
    if console:
        (request.out / "console").write_bytes(console)
    messages = streams.message_text.splitlines()
    # The rest is the boot's.
    messages += qemu.out_of_memory(console.decode(errors="backslashreplace").splitlines())

    manifest = Manifest(
        name=request.name,
        drv=request.drv,
        system=request.system,
        schedule=request.schedule,
        epoch=request.epoch,
        seed=request.seed,
        cores=request.cores,
        memory=request.memory,
        time_limit=request.time_limit,
        machine=str(request.settings),
        layers=tuple(map(str, request.layers)),
        outcome=outcome,
        steps=streams.end.steps,
        start=streams.end.start,
        end=streams.end.time,
        outputs={
            name: streams.outputs[name] for name in request.job.outputs if name not in missing
        },
        messages=tuple(messages),
    )
    (request.out / "manifest.cbor").write_bytes(manifest.to_cbor())
    return manifest


def _outcome(end: End, result: str) -> tuple[Outcome, set[str]]:
    """The outcome, and the outputs that are missing, from what init said in *result*.

    :raises MachineError: if init could not do its part.
    """
    match REASONS[end.reason]:
        case "stalled":
            return Outcome("stalled"), set()
        case "timed out":
            return Outcome("timed-out"), set()
        case "stopped":
            return Outcome("stopped"), set()
    outcome = None
    missing = set()
    for line in result.splitlines():
        match line.split(" ", 1):
            case ["exited" | "signaled" as kind, number] if outcome is None and number.isdigit():
                outcome = Outcome(kind, int(number))
            case ["missing", name]:
                missing.add(name)
            case ["error", text]:
                raise MachineError(f"init could not do its part: {text}")
            case _:
                raise MachineError(f"init said {line!r}, which makes no sense")
    if outcome is None:
        raise MachineError("init did not say how the job ended")
    return outcome, missing
