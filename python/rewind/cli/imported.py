"""A run that was imported: what makes it again, and what its file says if that is missing."""

import json
from collections.abc import Sequence
from pathlib import Path

import attrs

from rewind.analysis.tasks import Tasks
from rewind.cli.errors import Failure
from rewind.cli.output import count
from rewind.cli.runs import Run
from rewind.formats import FormatError
from rewind.formats.schedule import Position
from rewind.formats.trace import Enter, TraceReader
from rewind.travel.archive import BOUNDS, PLACES, SOURCES
from rewind.travel.places import Look, Thread, load_sources, loads

TRUSTED = "trusted.json"
"""The file that says by which derivation a run is made again that was imported with --trust."""


class NotThere(Failure):
    """An imported run can't be made again."""


def derivation(run: Run) -> Path:
    """What makes *run*, which was imported, again.

    :raises NotThere: if that is not in the store.
    """
    trusted = run.path / TRUSTED
    if trusted.exists():
        # It was written when its user said that the file is to be trusted, by us.
        drv = Path(json.loads(trusted.read_text())["drv"])
        if drv.exists():
            return drv
    manifest = run.manifest()
    if Path(manifest.drv).exists():
        # The same made anew has nothing of the file in it, but what its name is made of.
        from rewind.cli import recording
        from rewind.cli.recording import Options

        made = recording.instantiate(recording.job_of(manifest), Options.of(manifest))
        if made.out == run.store_path:
            return made.drv
    raise NotThere(
        f"{run.short} was imported, and what makes it again is not in the store: import a file that"
        " rewind export --replayable wrote, with --trust"
    )


def why_not(run: Run) -> NotThere | None:
    """Why *run* can't be made again, if it was imported and that is why its file is asked."""
    if not run.imported:
        return None
    try:
        derivation(run)
    except NotThere as error:
        return error
    return None


@attrs.frozen
class Answer:
    """What a run's file says of a position."""

    position: Position
    """At which it was looked: threads stand there as at the one that was asked for."""
    threads: Sequence[Thread]


def places(run: Run) -> list[Look]:
    """Where threads of *run* were, as far as its file says that."""
    data = _read(run.path / "places.json", BOUNDS[PLACES])
    return [] if data is None else loads(data)


def sources(run: Run) -> dict[str, str]:
    """The source files that its file has, by path."""
    data = _read(run.path / "sources.json", BOUNDS[SOURCES])
    return {} if data is None else load_sources(data)


def _read(path: Path, most: int) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FormatError(f"{path}: {error.strerror}") from None
    if len(data) > most:
        raise FormatError(f"{path} is larger than any is")
    return data


def at(run: Run, position: Position, tid: int | None, why: Failure) -> Answer:
    """What the file of *run* says of *position*: of the thread *tid*, else of the one on the CPU.

    Without one on the CPU it is what it says of all.

    :param why: why the run can't be made again, for the sentence if the file says nothing.
    :raises Failure: if it says nothing.
    """
    looks = places(run)
    exact = next((look for look in looks if look.position == position and look.whole), None)
    if exact is not None:
        if tid is not None:
            chosen = exact.thread(tid)
        else:
            chosen = next((one for one in exact.threads if one.task.state == "runs"), None)
        if chosen is not None:
            return Answer(position, [chosen])
        if tid is None:
            return Answer(position, exact.threads)
        there = ", ".join(str(one.task.tid) for one in exact.threads)
        raise Failure(f"there is no thread {tid} at this step; there are {there}")
    call = _call(run, position, tid)
    if call is not None:
        for look in looks:
            found = look.thread(call.tid)
            if look.position == Position(call.step) and found is not None:
                return Answer(look.position, [found])
    who = "where threads are" if tid is None else f"where thread {tid} is"
    near = ""
    if looks:
        nearest = min(looks, key=lambda look: abs(look.position.step - position.step))
        near = f", the nearest at {nearest.position}"
    has = f"it has {count(len(looks), 'place')}{near}"
    raise Failure(f"the file does not say {who} at {position}: {has}; {why}")


def _call(run: Run, position: Position, tid: int | None) -> Enter | None:
    """The call that a thread is in at *position*, if it is in one."""
    tasks = Tasks()
    with TraceReader(run.trace) as reader:
        (first,) = reader.records(position.step, position.step)
        for record in reader.records():
            # What comes later, and not after the position.
            if record.step > position.step and record.time > first.time + position.offset:
                break
            tasks.feed(record)
    task = tasks.alive.get(tasks.current if tid is None else tid)
    return None if task is None else task.blocked_in


def whole(run: Run, position: Position, why: Failure) -> Sequence[Thread]:
    """Where all threads of *run* are at *position*.

    :raises Failure: if its file does not say it.
    """
    looks = [look for look in places(run) if look.whole]
    for look in looks:
        if look.position == position:
            return look.threads
    there = ", ".join(str(look.position) for look in looks[-8:])
    has = f"it says it at {there}" if there else "it says it nowhere"
    raise Failure(f"the file does not say where all threads are at {position}: {has}; {why}")
