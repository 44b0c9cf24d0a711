"""A run's machine at any time of it, from the keyframe before."""

import bisect
import contextlib
import functools
import hashlib
import itertools
import json
import os
import tempfile
import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from rewind.formats.schedule import (
    Named,
    NamedPerturbation,
    Perturbation,
    Position,
    device_line,
)
from rewind.formats.trace import TraceReader
from rewind.inspect.memory import Memory
from rewind.inspect.registers import COMMAND, Registers
from rewind.machine import MachineError, qemu
from rewind.machine.monitor import Monitor, MonitorClosed
from rewind.machine.settings import Settings
from rewind.machine.snapshot import allocated, resume
from rewind.recorder.request import RunRequest
from rewind.recorder.start import properties
from rewind.replay import keyframe as keyframes
from rewind.replay.cache import Cache
from rewind.replay.keyframe import Keyframe, Level, Name
from rewind.replay.times import Times, position_at

NEAR = 2_000_000
"""ns of guest time from a keyframe that are not worth another one: some 20 ms of the host's."""
STOP_EVERY = 20_000_000
"""ns of guest time between two places at which a keyframe may be taken on the way to another."""
STOPS_MAX = 500
SPACING = 1.5
"""Seconds of the host's time between keyframes taken on the way: they cost a tenth of it."""
KEPT_MAX = 128
"""Keyframes that are open beside those that they stand on: each takes a file descriptor."""
VOLATILE = 1 << 30
"""Bytes of keyframes that are in memory because they can be kept nowhere else."""
BUDGET = 1 << 30
"""Bytes of memories that are ready for other machines to begin with."""

_STANDING = "standing"
"""The device's property."""


@attrs.frozen
class Standing:
    """Where a machine stands, as its device has it."""

    position: Position
    named: Named | None
    """The same by the job's task that has the CPU, if one has: what it has done in user mode."""
    user: bool
    """Whether it is in user mode. In the kernel it is where it left user mode, or will be there."""

    @classmethod
    def parse(cls, text: str) -> "Standing":
        """Read what the device says of it."""
        step, offset, number, calls, instructions, user, _ = map(int, text.split())
        named = Named(number, calls, instructions) if number else None
        return cls(Position(step, offset), named, bool(user))


def standing(monitor: Monitor) -> Standing | None:
    """Where the machine of *monitor* stands, which is stopped; None if its device can't tell."""
    device = {"path": f"/machine/peripheral/{qemu.DEVICE}"}
    if all(entry["name"] != _STANDING for entry in monitor.execute("qom-list", device)):
        return None
    return Standing.parse(monitor.execute("qom-get", {**device, "property": _STANDING}))


class Replayed:
    """A machine of a run that was started; it ends with the ``with`` that it is of."""

    def __init__(
        self, machine: qemu.Qemu, monitor: Monitor, memory: Memory, since: int, scratch: Path
    ) -> None:
        self.machine = machine
        self.monitor = monitor
        self.memory = memory
        """Of use as long as the machine is there."""
        self.since = since
        """The time at which it began."""
        self._scratch = scratch

    def registers(self) -> Registers:
        """What its CPU, which is stopped, has in its registers."""
        text = self.monitor.execute("human-monitor-command", {"command-line": COMMAND})
        return Registers.parse(text)

    def standing(self) -> Standing | None:
        """Where it stands, which is stopped; None if its device is one that does not know."""
        return standing(self.monitor)

    def state(self) -> bytes:
        """QEMU's state of it; it is stopped, and its memory no other machine's."""
        path = self._scratch / "state"
        self.monitor.save(str(path))
        state = path.read_bytes()
        path.unlink()
        return state

    def stopped(self) -> None:
        """Wait until its schedule has stopped it.

        :raises MachineError: if it ends before.
        """
        if not self.comes_to_a_stop():
            raise MachineError("the run ended before that")

    def comes_to_a_stop(self) -> bool:
        """Wait until its schedule has stopped it, or the run has ended; whether it was the former.

        :raises MachineError: if the machine ends otherwise.
        """
        try:
            event = self.monitor.event("STOP", "SHUTDOWN")
        except MonitorClosed:
            self.machine.process.wait()
            raise self.machine.failure("the machine ended before it got there") from None
        return event is None or event["event"] != "SHUTDOWN"


@attrs.define
class _Ready:
    """A keyframe's memory, whole, that machines can begin with."""

    memory: int
    size: int
    users: int = 0


class Timeline:
    """The run of *request*; a context manager, which frees the memory it has taken.

    Its schedule is all by steps (`rewind.formats.manifest.Manifest.steps_perturbed`).

    A time is absolute: ns of the guest's since its machine was started, as
    `rewind.formats.trace.Raw.time` without a start has it. Methods that start machines raise
    `MachineError` if that can't be done, and `OSError` if there is no room for a keyframe at all.

    :param times: those of the run's steps.
    :param end: the time at which the run ended.
    :raises MachineError: if it starts from no boot snapshot.
    """

    def __init__(
        self, request: RunRequest, times: Sequence[int], cache: Cache, *, end: int
    ) -> None:
        if request.snapshot is None:
            raise MachineError("this run starts from no boot snapshot")
        self._request = request
        self._snapshot = request.snapshot
        self._times = times
        self._cache = cache
        self._settings = Settings.load(request.settings)
        self.start = times[0] if times else 0
        """The first time at which the machine can be stopped: the run's first step."""
        self.end = end
        due = []
        for one in request.schedule:
            if isinstance(one, NamedPerturbation):
                raise ValueError(f"the schedule names {one.position} by a task")
            if one.step < len(times):
                due.append((times[one.step] + one.offset, one))
        self._due = sorted(due, key=lambda entry: entry[0])
        self._keys = _keys(request, self._due)
        self._kept: list[Keyframe] = []
        """Those of this process, in order of time."""
        self._ready: dict[Name, _Ready] = {}
        self._base: Level | None = None

    @classmethod
    def of(cls, request: RunRequest, reader: TraceReader, cache: Cache) -> "Timeline":
        """The run whose trace *reader* reads, which stays open."""
        return cls(request, Times(reader), cache, end=reader.end.time)

    # --- times

    def position(self, time: int) -> Position:
        """The position at *time*, after the last step that was taken by then."""
        return position_at(self._times, time)

    def time(self, position: Position) -> int:
        """The time at *position*, which is one of this run's."""
        return self._times[position.step] + position.offset

    def find(self, named: Named, first: int, last: int | None) -> Position | None:
        """Where *named* is, of which is known that it lies between two steps; None: nowhere.

        :param last: the second of them, at which it would be over; None: the run's end.
        """
        begin = self._takeable(self.time(Position(first)))
        keyframe = self.keyframe(begin) if begin - self.start > NEAR else None
        stops = [] if last is None else [self.time(Position(last))]
        with self._begin(keyframe, stops, named=named) as replayed:
            if not replayed.comes_to_a_stop():
                return None
            standing = replayed.standing()
        return standing.position if standing is not None and standing.named == named else None

    # --- keyframes

    def keyframe(self, time: int) -> Keyframe:
        """A keyframe at *time*; it is taken if there is none yet.

        Where a perturbation is due at just that time it is one before it.
        """
        time = self._takeable(time)
        found = self.before(time)
        if found is not None and found.time == time:
            return found
        with self._going(time, found, take=True):
            pass
        return next(kept for kept in self._kept if kept.time == time)

    def before(self, time: int) -> Keyframe | None:
        """The last keyframe up to *time* that there is, if there is any."""
        at = bisect.bisect_right(self._kept, time, key=lambda kept: kept.time)
        kept = self._kept[at - 1] if at else None
        stored = self._cache.names(self._keys, time)
        for name in stored:
            if kept is not None and name.time <= kept.time:
                break
            if name.key != self._key(name.time):
                continue
            found = self._cache.get(name)
            if found is not None:
                self._keep(found)
                return found
        return kept

    def _takeable(self, time: int) -> int:
        """The last time up to *time* at which nothing is due.

        What is due just when a machine is stopped is half done in its state.
        """
        due = {at for at, _ in self._due}
        while time in due and time > self.start:
            time -= 1
        return time

    def _key(self, time: int) -> bytes:
        """That of keyframes at *time*: what was due at *time* itself is yet to come."""
        return self._keys[bisect.bisect_left(self._due, time, key=lambda entry: entry[0])]

    def _keep(self, keyframe: Keyframe) -> None:
        at = bisect.bisect_left(self._kept, keyframe.time, key=lambda kept: kept.time)
        if at == len(self._kept) or self._kept[at].time != keyframe.time:
            self._kept.insert(at, keyframe)
        while len(self._kept) > KEPT_MAX or (
            len(self._kept) > 1
            and sum(kept.size for kept in self._kept if kept.volatile) > VOLATILE
        ):
            self._forget(keyframe)

    def _forget(self, newest: Keyframe) -> None:
        """Let go of the keyframe that is the nearest to the one before it, but for *newest*."""
        gaps = [
            (kept.time - before.time, at)
            for at, (before, kept) in enumerate(itertools.pairwise(self._kept), 1)
            if kept is not newest
        ]
        # If the newest is the second of two, it is the first that goes.
        self._kept.pop(min(gaps)[1] if gaps else 0)

    def _take(self, replayed: Replayed, time: int, parent: Keyframe | None) -> Keyframe:
        """Take a keyframe of a machine that is stopped at *time*, and has its memory to itself."""
        if self._base is None:
            memory = self._new_memory()
            self._snapshot.fill(memory)
            self._base = Level.of_memory(memory)
        name = Name(self._key(time), time)
        made = self._cache.put(
            name,
            functools.partial(
                keyframes.write,
                name=name,
                position=self.position(time),
                parent=parent,
                base=self._base,
                state=replayed.state(),
                memory=replayed.machine.memory,
            ),
        )
        self._keep(made)
        return made

    def _new_memory(self) -> int:
        memory = os.memfd_create("rewind-memory", os.MFD_CLOEXEC)
        os.ftruncate(memory, self._request.memory * qemu.MIB)
        return memory

    # --- machines

    @contextlib.contextmanager
    def machine(
        self,
        time: int,
        *,
        after: Keyframe | None = None,
        arguments: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
        stop: bool = True,
        stops: Sequence[int] = (),
    ) -> Iterator[Replayed]:
        """A machine of the run, stopped at *time*.

        It does what the run did for as long as it is let go on; nobody hears of it. Where it is far
        from the keyframe before, some are taken on the way.

        :param after: the keyframe it begins at, instead of the last one that there is.
        :param arguments: more of QEMU's.
        :param stop: without it, it goes on from the keyframe before *time*, and may be anywhere.
        :param stops: more times, after *time*, at which it will be stopped.
        """
        if not self.start <= time < self.end:
            raise MachineError(f"the run has no time {time}")
        found = self.before(time) if after is None else after
        if not stop:
            with self._begin(found, stops, arguments=arguments, pass_fds=pass_fds) as replayed:
                yield replayed
            return
        since = self.start if found is None else found.time
        take = after is None and (found is None or time - since > NEAR)
        with self._going(
            time, found, take=take, stops=stops, arguments=arguments, pass_fds=pass_fds
        ) as replayed:
            yield replayed

    @contextlib.contextmanager
    def fork(
        self,
        time: int,
        *,
        device: Mapping[str, object],
        pass_fds: Sequence[int] = (),
    ) -> Iterator[qemu.Qemu]:
        """A machine that is the run's until *time*, and then has a shell (docs/design.md).

        :param device: the rewind device's properties, but for the schedule.
        """
        keyframe = self.keyframe(time)
        position = self.position(time)
        with contextlib.ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rewind-")))
            # The job stands where it is at that time: what comes is one instruction later.
            (scratch / "schedule").write_text(
                self._plan(keyframe, (), until=time)
                + f"{position.step} {position.offset + 1} shell 0\n"
            )
            machine, _ = stack.enter_context(
                resume(
                    self._settings,
                    memory=self._request.memory,
                    state=keyframe.state,
                    base=stack.enter_context(self._memory(keyframe)),
                    scratch=scratch,
                    device={**device, "schedule": scratch / "schedule"},
                    pass_fds=pass_fds,
                )
            )
            yield machine

    @contextlib.contextmanager
    def _going(
        self,
        time: int,
        parent: Keyframe | None,
        *,
        take: bool,
        stops: Sequence[int] = (),
        arguments: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
    ) -> Iterator[Replayed]:
        """A machine that has gone from *parent* to *time*, and is stopped there.

        :param take: have keyframes taken on the way, and one at *time*.
        """
        on_the_way = self._stops(parent, time) if take else []
        with self._begin(
            parent,
            [*on_the_way, time, *stops],
            own=take,
            stopped=parent is not None and parent.time == time,
            arguments=arguments,
            pass_fds=pass_fds,
        ) as replayed:
            last = clock.monotonic()
            if parent is None or parent.time != time:
                for at in [*on_the_way, time]:
                    replayed.stopped()
                    if at == time:
                        break
                    if clock.monotonic() - last > SPACING:
                        parent = self._take(replayed, at, parent)
                        last = clock.monotonic()
                    replayed.monitor.execute("cont")
            if take and self._takeable(time) == time:
                self._take(replayed, time, parent)
            yield replayed

    def _stops(self, parent: Keyframe | None, time: int) -> list[int]:
        """Where to stop on the way from *parent* to *time*."""
        since = self.start if parent is None else parent.time
        gap = max(STOP_EVERY, (time - since) // STOPS_MAX)
        due = {at for at, _ in self._due}
        # Not near the end, where one is taken in any case.
        return [at for at in range(since + gap, time - NEAR, gap) if at not in due]

    @contextlib.contextmanager
    def _begin(
        self,
        keyframe: Keyframe | None,
        stops: Sequence[int],
        *,
        own: bool = False,
        stopped: bool = False,
        named: Named | None = None,
        arguments: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
    ) -> Iterator[Replayed]:
        """A machine that goes on from *keyframe*, or from the boot snapshot.

        :param named: where else it will be stopped.
        :param own: keyframes will be taken of it: QEMU saves a machine without its memory only if
            that is no private mapping.
        :param stopped: it is not to execute anything yet.
        """
        with contextlib.ExitStack() as stack:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rewind-")))
            plan = self._plan(keyframe, stops)
            if named is not None:
                plan += device_line(NamedPerturbation(named, "stop"))
            device = properties(self._request, scratch, plan)
            # Nobody listens to it: a device that has no place to write to does without.
            del device["channels"]
            base = None
            fill: Callable[[int], None] | None = self._snapshot.fill
            if keyframe is not None:
                fill = functools.partial(self._fill, keyframe)
                if not own:
                    base = stack.enter_context(self._memory(keyframe))
                    fill = None
            machine, monitor = stack.enter_context(
                resume(
                    self._settings,
                    memory=self._request.memory,
                    state=self._snapshot.state() if keyframe is None else keyframe.state,
                    fill=fill,
                    base=base,
                    scratch=scratch,
                    device=device,
                    arguments=[*(("-S",) if stopped else ()), *arguments],
                    pass_fds=pass_fds,
                )
            )
            size = self._request.memory * qemu.MIB
            memory = Memory(machine.memory, size)
            if base is not None:
                memory = Memory.of_process(machine.process.pid, size, base)
                stack.callback(os.close, memory.file)
            replayed = Replayed(
                machine, monitor, memory, 0 if keyframe is None else keyframe.time, scratch
            )
            if stopped:
                _loaded(replayed)
            yield replayed

    def _fill(self, keyframe: Keyframe, memory: int) -> None:
        self._snapshot.fill(memory)
        for one in keyframe.chain():
            one.fill(memory)

    @contextlib.contextmanager
    def _memory(self, keyframe: Keyframe) -> Iterator[int]:
        """The memory at *keyframe*, for a machine to begin with."""
        ready = self._ready.pop(keyframe.name, None)
        if ready is None:
            memory = self._new_memory()
            try:
                self._fill(keyframe, memory)
            except BaseException:
                os.close(memory)
                raise
            size = sum(end - start for start, end in allocated(memory))
            ready = _Ready(memory, size)
        # The one that was used last is the last.
        self._ready[keyframe.name] = ready
        ready.users += 1
        self._drop(BUDGET)
        try:
            yield ready.memory
        finally:
            ready.users -= 1

    def _drop(self, budget: int) -> None:
        """Free memories that nobody uses, until they take no more than *budget*."""
        size = sum(ready.size for ready in self._ready.values())
        for name, ready in list(self._ready.items()):
            if size <= budget:
                break
            if not ready.users:
                os.close(ready.memory)
                del self._ready[name]
                size -= ready.size

    def _plan(
        self, keyframe: Keyframe | None, stops: Sequence[int], *, until: int | None = None
    ) -> str:
        """The schedule as the device reads it, of a machine that begins at *keyframe*.

        :param until: nothing happens after that time.
        """
        since, step = (0, 0) if keyframe is None else (keyframe.time, keyframe.position.step)
        lines = []
        for time, one in self._due:
            # The device would do again what has happened since the last step, and it never gets
            # to what counts from an earlier one.
            if time >= since and (until is None or time <= until):
                position = one.position if one.step >= step else self.position(time)
                lines.append((position, 1, one))
        for time in stops:
            if time <= since:
                # A machine that is to be stopped at its beginning does not begin.
                continue
            position = self.position(time)
            lines.append((position, 0, Perturbation(position.step, position.offset, "stop")))
        # Of two at the same place it stops first.
        lines.sort(key=lambda line: line[:2])
        return "".join(
            f"{position.step} {position.offset} {one.kind} {one.ns}\n" for position, _, one in lines
        )

    def close(self) -> None:
        """Free what machines could begin with."""
        self._drop(0)
        self._kept.clear()
        if self._base is not None:
            os.close(self._base.file)
            self._base = None

    def __enter__(self) -> "Timeline":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _loaded(replayed: Replayed) -> None:
    """Wait until a machine that is not to run has its state."""
    try:
        while True:
            event = replayed.monitor.event("MIGRATION", "SHUTDOWN")
            if event is None or event["event"] == "SHUTDOWN" or event["data"]["status"] == "failed":
                raise MachineError("the machine could not be restored")
            if event["data"]["status"] == "completed":
                return
    except MonitorClosed:
        replayed.machine.process.wait()
        raise replayed.machine.failure("the machine could not be restored") from None


def _keys(request: RunRequest, due: Sequence[tuple[int, Perturbation]]) -> list[bytes]:
    """The keys of keyframes before anything is due, after the first, and so on.

    They stand for all that decides the machine's state, but the time.
    """
    assert request.snapshot is not None
    parameters = request.job.parameters(
        layers=len(request.layers),
        epoch=request.epoch,
        seed=request.seed,
        cores=request.cores,
        shell=request.shell,
        closures=request.closures,
    )
    digest = hashlib.sha256(
        json.dumps(
            [
                keyframes.VERSION,
                str(request.settings),
                str(request.snapshot.path),
                request.memory,
                [str(layer) for layer in request.layers],
                hashlib.sha256(parameters).hexdigest(),
            ]
        ).encode()
    )
    found = [digest.digest()[:16]]
    for time, one in due:
        digest.update(json.dumps([time, one.kind, one.ns]).encode())
        found.append(digest.digest()[:16])
    return found
