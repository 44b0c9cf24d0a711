"""Where threads are, in words of the source: at the deciding position, and when a run hangs.

`rewind.inspect` reads it from the machine's memory. That a place can't be told is no reason to
give up a search: the report says why instead.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

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


class Places:
    """Looks into the machines of a search; a context manager.

    :param vmlinux: the kernel with its DWARF, which is loaded meanwhile.
    """

    def __init__(self, request: RunRequest, vmlinux: Path) -> None:
        self._request = request
        self._inspector = Inspector(vmlinux, TIME_LIMIT)

    def __enter__(self) -> "Places":
        return self

    def __exit__(self, *error: object) -> None:
        self._inspector.close()

    def deciding(
        self, changed: Steps, fixed: Schedule, run: Ended, keyframes: Keyframes
    ) -> report.Deciding:
        """The last perturbation of *changed*, which gave *run*.

        :raises MachineError: if a machine fails.
        """
        last = changed[-1]
        pid, tid = _met(run, Position(last.step, last.offset))
        found: list[report.Place | None] = [None]

        def look(stopped: Stopped) -> bool:
            if tid:
                text = stopped.monitor.execute("human-monitor-command", {"command-line": COMMAND})
                found[0] = self._place(stopped.machine.memory, text, tid)
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
        return report.Deciding(
            step=last.step,
            offset=last.offset,
            kind=last.kind,
            ns=last.ns,
            pid=pid,
            tid=tid,
            place=found[0],
        )

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
                whats.update((t.tid, t.wait.what) for t in self._inspector.tasks() if t.wait)

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

    def _place(self, memory: int, registers: str | None, tid: int) -> report.Place:
        try:
            self._inspector.look_at(
                Memory(memory, self._request.memory * qemu.MIB),
                None if registers is None else Registers.parse(registers),
                layers=self._request.layers,
                debug_directories=_debug_directories(os.environ),
            )
            frame = place(self._inspector.frames(tid))
        except InspectError as error:
            return report.Place(text="", function=None, file=None, line=None, why=str(error))
        if frame is None:
            why = "its stack can't be read"
            return report.Place(text="", function=None, file=None, line=None, why=why)
        return report.Place(
            text=str(frame),
            function=frame.function,
            file=frame.file,
            line=frame.line,
            why=frame.why,
        )


def _met(run: Ended, position: Position) -> tuple[int, int]:
    """Process and thread that the perturbation at *position* met in *run*."""
    for record in run.tape.records(run.end.start, first=position.step):
        if isinstance(record, Perturbed):
            return record.pid, record.tid
    return 0, 0


def _debug_directories(environment: Mapping[str, str]) -> list[Path]:
    return [Path(p) for p in environment.get("NIX_DEBUG_INFO_DIRS", "").split(":") if p]
