"""Where threads are, in words of the source: at the deciding position, and when a run hangs.

`rewind.inspect` reads it from the machine's memory. That a place can't be told is no reason to
give up a search: the report says why instead.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import attrs

from rewind.analysis.tasks import Tasks
from rewind.formats.schedule import Position, Schedule, Steps, ordered
from rewind.formats.trace import Perturbed
from rewind.inspect import InspectError
from rewind.inspect.answers import place
from rewind.inspect.memory import Memory
from rewind.inspect.registers import COMMAND, Registers
from rewind.inspect.worker import Inspector
from rewind.machine import qemu
from rewind.recorder.request import RunRequest
from rewind.search import machines, report
from rewind.search.keyframes import Keyframes
from rewind.search.machines import Ended, Stopped

TIME_LIMIT = 600
"""Seconds of the host's time that it may take to read a machine, which takes 2. What is not known
then is missing in the report, which would so depend on how busy the host is."""


@attrs.frozen
class Thread:
    """A thread where a perturbation meets it."""

    number: int
    """The kernel's own number."""
    pc: int
    """The address of the instruction that it is kept from."""


class Places:
    """Looks into the machines of a search; a context manager.

    :param vmlinux: the kernel with its DWARF, which is loaded meanwhile.
    """

    def __init__(self, request: RunRequest, vmlinux: Path) -> None:
        self._request = request
        self.inspector = Inspector(vmlinux, TIME_LIMIT)

    def __enter__(self) -> "Places":
        return self

    def __exit__(self, *error: object) -> None:
        self.inspector.close()

    def deciding(
        self, changed: Steps, fixed: Schedule, run: Ended, keyframes: Keyframes
    ) -> tuple[report.Deciding, Thread | None]:
        """The last perturbation of *changed*, which gave *run*; and whom it met.

        The latter is None if that is none of the job's, or can't be told.

        :raises MachineError: if a machine fails.
        """
        last = changed[-1]
        pid, tid = _met(run, Position(last.step, last.offset))
        found: report.Place | None = None
        thread: Thread | None = None

        def look(stopped: Stopped) -> bool:
            nonlocal found, thread
            if tid:
                try:
                    self.look_at(stopped)
                    found = self.place(tid)
                    number = next(t.number for t in self.inspector.tasks() if t.tid == tid)
                    thread = Thread(number, registers_of(stopped).general["rip"])
                except InspectError as error:
                    found = found or _nowhere(str(error))
            return False

        with keyframes.before(changed[0].step) as keyframe:
            machines.run(
                self._request,
                ordered((*fixed, *changed[:-1])),
                stops=[Position(last.step, last.offset)],
                keyframe=keyframe,
                own_memory=True,
                on_stop=look,
                known=keyframes.known,
            )
        deciding = report.Deciding(
            step=last.step,
            offset=last.offset,
            kind=last.kind,
            ns=last.ns,
            pid=pid,
            tid=tid,
            place=found,
        )
        return deciding, thread

    def waiting(
        self, schedule: Schedule, run: Ended, keyframes: Keyframes
    ) -> tuple[report.Waiting, ...]:
        """The threads that waited when *run*, which *schedule* gave, ended in a hang.

        :raises MachineError: if a machine fails.
        """
        if run.outcome.kind not in ("stalled", "timed-out"):
            return ()
        tasks = Tasks()
        for record in run.tape.records(run.end.start):
            tasks.feed(record)
        places: dict[int, report.Place] = {}
        whats: dict[int, str] = {}

        def look(memory: int) -> None:
            for tid in tasks.alive:
                # Who is on the CPU has its registers there, and QEMU is gone.
                if tid != tasks.current:
                    places[tid] = self._place(memory, None, tid)
            # Of the machine that was just looked at.
            with contextlib.suppress(InspectError):
                whats.update((t.tid, t.wait.what) for t in self.inspector.tasks() if t.wait)

        with keyframes.before(keyframes.first(schedule)) as keyframe:
            machines.run(
                self._request,
                schedule,
                keyframe=keyframe,
                own_memory=True,
                on_end=look,
                known=keyframes.known,
            )
        return tuple(
            report.Waiting(
                pid=task.pid,
                tid=task.tid,
                program=task.program,
                call=task.blocked_in.call if task.blocked_in else None,
                args=task.blocked_in.args if task.blocked_in else (),
                place=places.get(task.tid),
                what=whats.get(task.tid, ""),
            )
            for task in tasks.alive.values()
        )

    def look_at(self, stopped: Stopped) -> None:
        """Have the inspector look at a machine with memory of its own, which has stopped.

        :raises InspectError: if there is nothing to be seen in it.
        """
        self._look_at(stopped.machine.memory, registers_of(stopped))

    def _look_at(self, memory: int, registers: Registers | None) -> None:
        self.inspector.look_at(
            Memory(memory, self._request.memory * qemu.MIB),
            registers,
            layers=self._request.layers,
            debug_directories=_debug_directories(os.environ),
        )

    def place(self, tid: int) -> report.Place:
        """Where thread *tid* is, in the machine that is looked at."""
        try:
            frame = place(self.inspector.frames(tid))
        except InspectError as error:
            return _nowhere(str(error))
        if frame is None:
            return _nowhere("its stack can't be read")
        return report.Place(
            text=str(frame),
            function=frame.function,
            file=frame.file,
            line=frame.line,
            why=frame.why,
        )

    def _place(self, memory: int, registers: Registers | None, tid: int) -> report.Place:
        try:
            self._look_at(memory, registers)
        except InspectError as error:
            return _nowhere(str(error))
        return self.place(tid)


def registers_of(stopped: Stopped) -> Registers:
    """What the CPU has in its registers.

    :raises InspectError: if QEMU does not say.
    """
    text = stopped.monitor.execute("human-monitor-command", {"command-line": COMMAND})
    return Registers.parse(text)


def _nowhere(why: str) -> report.Place:
    return report.Place(text="", function=None, file=None, line=None, why=why)


def _met(run: Ended, position: Position) -> tuple[int, int]:
    """Process and thread that the perturbation at *position* met in *run*."""
    for record in run.tape.records(run.end.start, first=position.step):
        if isinstance(record, Perturbed):
            return record.pid, record.tid
    return 0, 0


def _debug_directories(environment: Mapping[str, str]) -> list[Path]:
    return [Path(p) for p in environment.get("NIX_DEBUG_INFO_DIRS", "").split(":") if p]
