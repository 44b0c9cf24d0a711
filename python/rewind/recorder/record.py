"""Making a run of a machine that was started: it is listened to, and what happens written down."""

import contextlib
import functools
import subprocess
import threading
import time

import attrs

from rewind.formats.manifest import Manifest, Outcome, Output
from rewind.formats.schedule import Came
from rewind.formats.trace import REASONS, End
from rewind.machine import MachineError, qemu
from rewind.recorder.pipes import Fifo
from rewind.recorder.request import RunRequest
from rewind.recorder.start import Running
from rewind.recorder.streams import (
    Display,
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
STANDSTILL = 120
"""Seconds of the host's time without work: a machine that hangs."""

END_LIMIT = 60
"""Seconds of the host's time that QEMU has to end after its trace did."""


@attrs.define
class _Happened:
    """What came out of a machine."""

    result: str = ""
    messages: str = ""
    console: bytes = b""
    end: End | None = None
    came: Came = ()
    """Where the perturbations of the schedule did."""
    outputs: dict[str, Output] = attrs.Factory(dict)


def record(request: RunRequest, running: Running, display: Display) -> Manifest:
    """Make a run: its files are in ``request.out`` and ``request.nars`` then.

    :raises MachineError: if the machine does not get to an outcome.
    :raises StreamError: if something of the run can't be written.
    """
    request.out.mkdir()
    request.nars.mkdir()
    return _write_down(request, _listen(request, running, display))


def _listen(request: RunRequest, running: Running, display: Display) -> _Happened:
    """Take up what comes out of the machine, until its end."""
    happened = _Happened()
    trace_over = threading.Event()

    def take_trace() -> None:
        try:
            copied = copy_trace(running.trace, request.out / "trace", display)
            if copied is not None:
                happened.end, arrivals = copied
                happened.came = arrivals.places
        finally:
            trace_over.set()

    def take_result() -> None:
        happened.result = read_text(running.result, RESULT_LIMIT)

    def take_messages() -> None:
        happened.messages = read_text(running.messages, MESSAGES_LIMIT)

    def take_nar(name: str) -> None:
        path = request.nars / f"{name}.nar"
        output = copy_nar(running.nars[name], path, request.job.outputs[name])
        if output is not None:
            happened.outputs[name] = output

    machine = running.machine
    with Workers(on_error=machine.process.kill) as workers:
        try:
            workers.start("the trace", take_trace)
            workers.start("the log", lambda: copy_log(running.log, request.out / "log", display))
            workers.start("the result", take_result)
            workers.start("the messages", take_messages)
            for name in running.nars:
                workers.start(f"the NAR of {name}", functools.partial(take_nar, name))
            _watch(machine, trace_over, running.log)
            if happened.end is None:
                # For the status with which it does; after an end frame there is none to wait for:
                # the device has stopped the guest, and all it sent is in our pipes.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    machine.process.wait(END_LIMIT)
        finally:
            running.stop()
        workers.join()
    if happened.end is None:
        raise machine.failure()
    happened.console = machine.console.read_bytes()
    return happened


def _watch(machine: qemu.Qemu, over: threading.Event, log: Fifo) -> None:
    """Wait until the trace is *over*.

    :raises MachineError: if the machine hangs.
    """
    standstill = Standstill(machine, log)
    while not over.wait(WATCH_INTERVAL):
        standstill.check()


class Standstill:
    """Finds a machine whose CPU is halted and has no timer: it waits for ever.

    The driver reports one whose job is in that state; before the job starts, and after a kernel's
    crash, nobody does. One that waits for somebody to read its log, which we copy to Nix, is no
    such machine.
    """

    def __init__(self, machine: qemu.Qemu, log: Fifo) -> None:
        self._machine = machine
        self._log = log
        self._work = -1
        self._since = time.monotonic()

    def check(self) -> None:
        """Look at it; this is to be called every few seconds.

        :raises MachineError: if the machine hangs.
        """
        work, now = self._machine.cpu_time(), time.monotonic()
        if work != self._work or self._log.waiting():
            self._work, self._since = work, now
        elif now - self._since >= STANDSTILL:
            self._machine.stop()
            raise self._machine.failure(f"the machine did nothing for {STANDSTILL} s")


def _write_down(request: RunRequest, happened: _Happened) -> Manifest:
    """Make the manifest, and see that just the files are there that belong to the run."""
    assert happened.end is not None
    outcome, missing = outcome_of(happened.end, happened.result)
    if not outcome.success:
        # What was sent before a run was cut off is a part of a NAR, at best.
        missing = set(request.job.outputs)
    for name in missing & set(happened.outputs):
        del happened.outputs[name]
        (request.nars / f"{name}.nar").unlink()
    absent = set(request.job.outputs) - missing - set(happened.outputs)
    if absent:
        raise MachineError(f"init sent no NAR of the output {min(absent)}")

    console = happened.console
    if request.snapshot is not None:
        console = request.snapshot.console + console
    if console:
        (request.out / "console").write_bytes(console)
    messages = happened.messages.splitlines()
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
        steps=happened.end.steps,
        start=happened.end.start,
        end=happened.end.time,
        outputs={
            name: happened.outputs[name] for name in request.job.outputs if name not in missing
        },
        messages=tuple(messages),
        came=happened.came,
    )
    (request.out / "manifest.cbor").write_bytes(manifest.to_cbor())
    return manifest


def outcome_of(end: End, result: str) -> tuple[Outcome, set[str]]:
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
