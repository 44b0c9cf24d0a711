"""What is read of a run's machine when it is exported: see `rewind.travel.places`."""

from collections.abc import Iterable, Sequence

import attrs

from rewind.analysis.tasks import Task as Tracked
from rewind.analysis.tasks import Tasks
from rewind.cli import debuginfo, nix
from rewind.cli.debuginfo import DebugInfo
from rewind.cli.runs import Run
from rewind.cli.standing import Standing, threads
from rewind.cli.stopped import opened
from rewind.formats.schedule import Position
from rewind.formats.trace import Enter, Perturbed, Record, TaskEnd, TraceReader
from rewind.inspect import InspectError, NoSuchFile
from rewind.inspect.answers import Frame
from rewind.inspect.worker import Inspector
from rewind.travel.places import TEXT_MAX, Look, Thread

CALLS_MAX = 300
"""Calls of programs that were made in the run at which it is looked: the last so many."""
OTHERS_MAX = 60
"""The same of other programs, if there are none."""
SOURCES_MAX = 8 << 20
"""Bytes of source files; what comes later is left out."""


@attrs.frozen
class Seen:
    """What a file has for who can't make the run again."""

    looks: Sequence[Look]
    sources: dict[str, str]


@attrs.frozen
class _Wanted:
    """A position, and of which thread it is asked for; None: of all."""

    position: Position
    tid: int | None


def see(run: Run, more: Iterable[Position]) -> Seen:
    """Look at *run* where somebody may ask, and at *more* positions, which it gets to.

    :raises Failure: if its machine can't be made again.
    """
    with TraceReader(run.trace) as reader:
        if not reader.steps:
            return Seen((), {})
        wanted = _wanted(reader, [*more, *(one.position for one in run.manifest().steps_perturbed)])
    looks: list[Look] = []
    sources = _Sources()
    with debuginfo.known() as outside, opened(run) as around:
        timeline = around.timeline
        at: dict[int, _Wanted] = {}
        for one in wanted:
            time = timeline.time(one.position)
            # A step may follow another at once.
            if timeline.start <= time < timeline.end and (time not in at or one.tid is None):
                at[time] = one
        times = sorted(at)
        if not times:
            return Seen((), {})
        with timeline.machine(times[0], stops=times[1:]) as machine:
            for time in times:
                if time != times[0]:
                    machine.monitor.execute("cont")
                    machine.stopped()
                around.look_at(machine, outside.directories)
                looks.append(_look(around.inspector, at[time], outside, sources))
    return Seen([look for look in looks if look.threads], sources.texts)


def _wanted(reader: TraceReader, marked: Iterable[Position]) -> list[_Wanted]:
    """The positions, in order."""
    tasks = Tasks()
    own: list[Enter] = []
    others: list[Enter] = []
    whole = {position for position in marked if position.step < reader.steps}
    # Where a thread is killed, and where the schedule took effect.
    ends: dict[int, Record] = {}
    for record in reader.records():
        tasks.feed(record)
        if isinstance(record, Enter):
            task = tasks.alive.get(record.tid)
            (own if task is not None and _is_own(task) else others).append(record)
            del own[:-CALLS_MAX], others[:-OTHERS_MAX]
        elif isinstance(record, Perturbed) or (isinstance(record, TaskEnd) and record.code & 0x7F):
            ends[record.step] = record
    whole |= {Position(step) for step in sorted(ends)[-CALLS_MAX:]}
    whole.add(Position(reader.steps - 1))
    calls = own or others
    return sorted(
        [
            *(_Wanted(position, None) for position in whole),
            *(_Wanted(Position(call.step), call.tid) for call in calls),
        ],
        key=lambda one: (one.position, one.tid or 0),
    )


def _is_own(task: Tracked) -> bool:
    """Whether what *task* executes was made in the run."""
    program = task.program
    return bool(program) and program != "/bin/sh" and not program.startswith(f"{nix.STORE}/")


def _look(machine: Inspector, wanted: _Wanted, outside: DebugInfo, sources: "_Sources") -> Look:
    tasks = machine.tasks()
    if wanted.tid is not None:
        tasks = [task for task in tasks if task.tid == wanted.tid]
    found = threads(machine, tasks)
    if outside.complete(machine, [frame for one in found for frame in one.frames if frame.own]):
        found = threads(machine, tasks)
    for one in found:
        for frame in one.frames:
            sources.add(machine, frame, outside)
    return Look(wanted.position, wanted.tid is None, tuple(map(_thread, found)))


def _thread(one: Standing) -> Thread:
    return Thread(one.task, tuple(one.frames), one.why)


class _Sources:
    """The source files of frames, each looked for once."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._asked: set[str] = set()
        self._left = SOURCES_MAX

    def add(self, machine: Inspector, frame: Frame, outside: DebugInfo) -> None:
        """Have the source file of *frame*, if it is to be had."""
        path = frame.file
        if path is None or frame.line is None or path in self._asked:
            return
        self._asked.add(path)
        try:
            data: bytes | None = machine.read_file(path, TEXT_MAX)
        except NoSuchFile:
            data = outside.source(frame)
        except InspectError:
            # It is too large, or no file: the frame is shown without its source.
            return
        if data is not None and len(data) <= min(TEXT_MAX, self._left):
            self._left -= len(data)
            self.texts[path] = data.decode(errors="replace")
