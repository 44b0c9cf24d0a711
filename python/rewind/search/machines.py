"""Machines that a search starts: from the boot snapshot, or as a fork of a keyframe.

A keyframe is a machine's state at a step: QEMU's state of it, and its memory as a file descriptor.
A fork maps that memory privately, so it costs the pages that it writes, and is ready as soon as
QEMU is. A machine of which keyframes are to be taken has memory of its own.

Nothing is perturbed by a stop: the device stops the CPU between two instructions, and the guest's
clock does not move while it stands.
"""

import contextlib
import functools
import hashlib
import io
import os
import select
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import attrs

from rewind.formats import FormatError
from rewind.formats.manifest import Outcome, Output
from rewind.formats.nixbase32 import sha256
from rewind.formats.schedule import (
    Came,
    NamedPerturbation,
    Perturbation,
    Position,
    Schedule,
    Steps,
    device_line,
    ordered,
    resolved,
)
from rewind.formats.trace import Arrivals, End, Frame, FrameSource
from rewind.machine import qemu
from rewind.machine.monitor import Monitor, MonitorClosed
from rewind.machine.settings import Settings
from rewind.machine.snapshot import allocated, resume
from rewind.recorder.pipes import Fifo
from rewind.recorder.record import MESSAGES_LIMIT, RESULT_LIMIT, Standstill, outcome_of
from rewind.recorder.request import RunRequest
from rewind.recorder.start import Running, listening
from rewind.recorder.streams import Workers, read_text
from rewind.replay.control import PluginControl
from rewind.search.tape import Tape

_CHUNK = 1 << 20


class Cancelled(Exception):
    """A machine was stopped because nobody wants to know any more."""


@attrs.define
class Keyframe:
    """A machine's state at a step of a run."""

    memory: int
    """The file descriptor of the guest's memory."""
    state: bytes = attrs.field(repr=False)
    tape: Tape = attrs.field(repr=False)
    """The records before it."""
    size: int
    """Bytes of the memory that are in use."""

    @property
    def steps(self) -> int:
        """How many records were taken before it: it is at step ``steps - 1``."""
        return self.tape.steps

    def close(self) -> None:
        """Free its memory, unless a fork still uses it."""
        if self.memory >= 0:
            os.close(self.memory)
            self.memory = -1


@attrs.frozen
class Ended:
    """A run that came to its end."""

    outcome: Outcome
    outputs: Mapping[str, Output]
    end: End
    tape: Tape = attrs.field(repr=False)
    schedule: Schedule = ()
    """What perturbed it."""
    came: Came = ()
    """Where what of *schedule* came."""

    @property
    def by_steps(self) -> Steps:
        """Its schedule as it came, all by steps, which makes the same run."""
        return resolved(self.schedule, self.came)

    def says(self, *, ignore_outputs: bool) -> tuple[object, ...]:
        """What two runs have in common whose outcome is the same."""
        if ignore_outputs:
            return (self.outcome,)
        return (self.outcome, tuple(sorted((n, o.nar_hash) for n, o in self.outputs.items())))

    @property
    def steps(self) -> int:
        """How many records there are."""
        return self.end.steps

    @property
    def guest_time(self) -> int:
        """How long the job took, in ns of guest time."""
        return self.end.time - self.end.start


class Stopped:
    """What can be done with a machine that its schedule has stopped."""

    def __init__(self, machine: qemu.Qemu, monitor: Monitor, tape: Tape, scratch: Path) -> None:
        self.machine = machine
        self.monitor = monitor
        self.tape = tape
        """What happened so far."""
        self._scratch = scratch

    def keyframe(self, *, last: bool = False) -> Keyframe:
        """Take a keyframe.

        :param last: the machine will not go on, so its memory need not be copied.
        :raises MachineError: if it can't be done.
        """
        path = self._scratch / "state"
        self.monitor.save(str(path))
        state = path.read_bytes()
        path.unlink()
        memory = os.dup(self.machine.memory) if last else copy_memory(self.machine.memory)
        size = sum(end - start for start, end in allocated(memory))
        return Keyframe(memory, state, self.tape.copy(), size)


def copy_memory(memory: int) -> int:
    """A copy of the file descriptor *memory*, without what was never written."""
    copy = os.memfd_create("rewind-keyframe", os.MFD_CLOEXEC)
    try:
        os.ftruncate(copy, os.fstat(memory).st_size)
        fill_memory(memory, copy)
    except BaseException:
        os.close(copy)
        raise
    return copy


def fill_memory(memory: int, copy: int) -> None:
    """Copy *memory* to the file descriptor *copy*, which is all zeros and of the same size."""
    for start, end in allocated(memory):
        at = start
        while at < end:
            # Within the kernel, and not by way of a buffer of ours.
            os.lseek(copy, at, os.SEEK_SET)
            at += os.sendfile(copy, memory, at, end - at)


OnStop = Callable[[Stopped], bool]
"""Called when the machine has stopped; whether it is to go on."""

OnFrame = Callable[[Frame], None]


def run(
    request: RunRequest,
    schedule: Schedule,
    *,
    stops: Sequence[Position] = (),
    keyframe: Keyframe | None = None,
    own_memory: bool = False,
    on_stop: OnStop | None = None,
    on_frame: OnFrame | None = None,
    on_end: Callable[[int], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    known: Mapping[NamedPerturbation, Position | None] = MappingProxyType({}),
    plugin: PluginControl | None = None,
) -> Ended | None:
    """Make a run of *request*'s job under *schedule*; None if *on_stop* had enough of it.

    :param stops: where the machine stops and *on_stop* is called; positions of this run.
    :param keyframe: where it starts, instead of at the boot snapshot: a keyframe of a run that is
        the same until there, at a step before the first perturbation's.
    :param own_memory: keyframes will be taken.
    :param on_frame: called with all new records, as they come.
    :param on_end: called with the file descriptor of the guest's memory when the run has ended; of
        use with *own_memory*.
    :param cancelled: asked now and then.
    :param known: where what of *schedule* came that is at a named position before *keyframe*.
    :param plugin: watches the machine.
    :raises MachineError: if the machine does not get to an outcome.
    :raises Cancelled: if it was cancelled.
    """
    assert request.snapshot is not None
    tape = keyframe.tape.copy() if keyframe is not None else Tape()
    plan = _plan(schedule, stops)
    connection: list[Monitor] = []

    @contextlib.contextmanager
    def begin(
        *, scratch: Path, device: Mapping[str, object], pass_fds: Sequence[int]
    ) -> Iterator[qemu.Qemu]:
        assert request.snapshot is not None
        if keyframe is None:
            state, fill, base = request.snapshot.state(), request.snapshot.fill, None
        elif own_memory:
            fill = functools.partial(fill_memory, keyframe.memory)
            state, base = keyframe.state, None
        else:
            state, fill, base = keyframe.state, None, keyframe.memory
        with resume(
            Settings.load(request.settings),
            memory=request.memory,
            state=state,
            fill=fill,
            base=base,
            scratch=scratch,
            device=device,
            pass_fds=[*pass_fds, *(plugin.pass_fds if plugin else ())],
            arguments=plugin.arguments if plugin else (),
        ) as (machine, monitor):
            connection.append(monitor)
            yield machine

    with (
        tempfile.TemporaryDirectory(prefix="rewind-") as directory,
        listening(request, plan, begin) as running,
    ):
        (monitor,) = connection
        stopped = Stopped(running.machine, monitor, tape, Path(directory))
        found = _attend(
            running,
            request.job.outputs,
            stopped,
            on_stop,
            on_frame,
            cancelled,
            to_end=plugin is not None,
        )
        if found is None:
            return None
        if on_end is not None:
            on_end(running.machine.memory)
        ended, arrivals = found
        schedule = ordered(schedule)
        return attrs.evolve(ended, schedule=schedule, came=_came(schedule, arrivals, known))


def _came(
    schedule: Schedule, arrivals: Arrivals, known: Mapping[NamedPerturbation, Position | None]
) -> Came:
    """Where what of *schedule* came, also what did before the machine's keyframe."""

    def before(one: Perturbation | NamedPerturbation) -> Position | None:
        return known[one] if isinstance(one, NamedPerturbation) else one.position

    return tuple(
        before(one) if number in arrivals.before else at
        for number, (one, at) in enumerate(zip(schedule, arrivals.places, strict=True))
    )


def _plan(schedule: Schedule, stops: Sequence[Position]) -> str:
    """The device's schedule file. Stops can be where perturbations are: they come first then."""
    at_steps = [p for p in ordered(schedule) if isinstance(p, Perturbation)]
    lines = [(stop, f"{stop.step} {stop.offset} stop 0\n") for stop in stops]
    lines += [(p.position, device_line(p)) for p in at_steps]
    lines.sort(key=lambda entry: entry[0])
    named = [p for p in ordered(schedule) if isinstance(p, NamedPerturbation)]
    return "".join([*(line for _, line in lines), *map(device_line, named)])


@attrs.define
class _Happened:
    result: str = ""
    messages: str = ""
    outputs: dict[str, Output] = attrs.Factory(dict)


def _attend(
    running: Running,
    paths: Mapping[str, str],
    stopped: Stopped,
    on_stop: OnStop | None,
    on_frame: OnFrame | None,
    cancelled: Callable[[], bool],
    *,
    to_end: bool,
) -> tuple[Ended, Arrivals] | None:
    happened = _Happened()
    found = None

    def take_result() -> None:
        happened.result = read_text(running.result, RESULT_LIMIT)

    def take_messages() -> None:
        happened.messages = read_text(running.messages, MESSAGES_LIMIT)

    def take_nar(name: str, path: str) -> None:
        digest, size = hashlib.sha256(), 0
        for data in running.nars[name]:
            digest.update(data)
            size += len(data)
        if size:
            happened.outputs[name] = Output(path, sha256(digest.digest()), size)

    with Workers(on_error=running.machine.process.kill) as workers:
        try:
            workers.start("the log", lambda: _drain(running.log))
            workers.start("the result", take_result)
            workers.start("the messages", take_messages)
            for name in running.nars:
                take = functools.partial(take_nar, name, paths[name])
                workers.start(f"the NAR of {name}", take)
            found = _follow(running, stopped, on_stop, on_frame, cancelled)
            if found is None:
                return None
            if to_end:
                # A plugin says the rest when QEMU ends.
                running.machine.process.wait()
        finally:
            running.stop()
        workers.join()
    end, arrivals = found
    outcome, missing = outcome_of(end, happened.result)
    if outcome.success:
        outputs = {n: o for n, o in happened.outputs.items() if n not in missing}
    else:
        # What was sent before a run was cut off is a part of a NAR, at best.
        outputs = {}
    return Ended(outcome, outputs, end, stopped.tape), arrivals


def _drain(source: Fifo) -> None:
    for _ in source:
        pass


def _follow(
    running: Running,
    stopped: Stopped,
    on_stop: OnStop | None,
    on_frame: OnFrame | None,
    cancelled: Callable[[], bool],
) -> tuple[End, Arrivals] | None:
    """Take up the trace until its end, and see to the machine where it stops."""
    # Unbuffered: what select() says is then true, and at a stop all is here that was sent.
    pipe = running.trace.raw
    assert isinstance(pipe, io.FileIO)
    source = FrameSource(pipe, stopped.tape.steps)
    frames = iter(source)
    machine, monitor = stopped.machine, stopped.monitor
    standstill = Standstill(machine, running.log)

    def take_up() -> End | None:
        try:
            frame = next(frames)
        except FormatError:
            with contextlib.suppress(Exception):
                machine.process.wait(10)
            if machine.process.poll() is not None:
                raise machine.failure() from None
            raise
        if isinstance(frame, End):
            return frame
        stopped.tape.add(frame)
        if on_frame is not None:
            on_frame(frame)
        return None

    monitored = True
    while True:
        if cancelled():
            raise Cancelled
        sources = [pipe, *([monitor] if monitored else [])]
        ready = select.select(sources, [], [], 0 if monitored and monitor.pending else 1.0)[0]
        if pipe in ready:
            if (end := take_up()) is not None:
                return end, source.arrivals
            continue
        if not (monitor in ready or (monitored and monitor.pending)):
            standstill.check()
            continue
        try:
            event = monitor.event("STOP", timeout=0)
        except MonitorClosed:
            monitored = False
            continue
        if event is None:
            continue
        # What the device sent before it told of the stop.
        while select.select([pipe], [], [], 0)[0]:
            if (end := take_up()) is not None:
                return end, source.arrivals
        try:
            if on_stop is not None and not on_stop(stopped):
                return None
            monitor.execute("cont")
        except MonitorClosed:
            machine.process.wait()
            raise machine.failure() from None
