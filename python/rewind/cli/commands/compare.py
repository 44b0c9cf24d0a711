"""``rewind compare``: where two runs part."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import click

from rewind.analysis import excerpt
from rewind.analysis.difference import first_difference
from rewind.analysis.excerpt import Excerpt
from rewind.analysis.parting import Event, Selection, Thread, part_traces, processes
from rewind.cli import params
from rewind.cli.commands.events import as_data
from rewind.cli.errors import Failure
from rewind.cli.outcomes import Difference, differences
from rewind.cli.output import count, say, say_json
from rewind.cli.perturbed import deed, took_place
from rewind.cli.runs import Run
from rewind.formats import trace
from rewind.formats.manifest import Manifest
from rewind.formats.schedule import Position
from rewind.formats.spans import span
from rewind.formats.trace import Exec, Perturbed, Record, TraceReader, Wake

CONTEXT = 5
CONTEXT_MAX = 10_000


@attrs.frozen
class Side:
    """One of the runs."""

    run: Run
    manifest: Manifest
    reader: TraceReader

    @property
    def label(self) -> str:
        """What its lines begin with."""
        return self.run.short

    def end(self) -> str:
        """How its trace ends."""
        return f"ends here: {self.manifest.outcome}"


Sides = tuple[Side, Side]


@click.command("compare")
@params.run_arguments("first", "second")
@click.option(
    "--program",
    "programs",
    multiple=True,
    metavar="NAME|PID",
    help="Compare what this program's threads do, whenever it is; PID is the first run's.",
)
@click.option(
    "--context",
    type=params.Whole(0, CONTEXT_MAX),
    default=CONTEXT,
    metavar="N",
    help=f"How many lines to show before they part, and after; {CONTEXT} by default.",
)
@params.json_option
def command(first: Run, second: Run, programs: tuple[str, ...], context: int, as_json: bool) -> int:
    """Where two runs part: the first record that they do not have in common.

    Then what else differs: their outcomes, logs and outputs, and what they were made with. The
    exit status is 1 if anything that happened differs.

    With --program, what a program's threads do is compared thread by thread, without regard to
    when they do it: calls with their arguments and results, programs executed, signals, ends.
    Threads are matched by order of appearance. Addresses and random numbers are not compared, nor
    what says only when something was done: waiting for threads, children and signals, giving way,
    and memory had or given back.
    """
    with TraceReader(first.trace) as one, TraceReader(second.trace) as other:
        sides = Side(first, first.manifest(), one), Side(second, second.manifest(), other)
        if programs:
            return _compare_programs(sides, programs, context, as_json)
        return _compare_runs(sides, context, as_json)


# --- all that happened


@attrs.frozen
class _Parted:
    """Where the records of two runs part."""

    step: int
    records: tuple[Record | None, Record | None]
    position: str
    """Until where they are the same."""
    why: str
    """What perturbs one of them there, in words; or nothing."""


def _find(sides: Sides) -> _Parted | None:
    one, other = sides
    found = first_difference(one.reader, other.reader)
    if found is None:
        return None
    records = found.first, found.second
    perturbed = [
        (_position(side, record), side, record)
        for side, record in zip(sides, records, strict=True)
        if isinstance(record, Perturbed)
    ]
    if not perturbed:
        return _Parted(found.step, records, str(found.step), "")
    earliest = min(position for position, _, _ in perturbed)
    why = " and ".join(
        f"{side.label} {deed(record)}" + ("" if position == earliest else f" at {position}")
        for position, side, record in perturbed
    )
    return _Parted(found.step, records, str(earliest), why)


def _position(side: Side, record: Perturbed) -> Position:
    """Where what *record* tells of came."""
    arrivals = dict(zip(side.manifest.schedule, side.manifest.arrivals, strict=True))
    for perturbation, found in took_place(side.manifest, side.reader):
        if found is not None and found.step == record.step:
            return arrivals[perturbation] or Position(record.step)
    return Position(record.step)


def _compare_runs(sides: Sides, context: int, as_json: bool) -> int:
    one, other = sides
    parted = _find(sides)
    found = [*_ends(sides, parted), *differences(one.manifest, other.manifest), *_logs(sides)]
    made_with = list(_made_with(sides, parted))
    differ = parted is not None or bool(found)
    if as_json:
        say_json(
            {
                **_heads(sides, differ),
                "step": parted.step if parted else None,
                "position": parted.position if parted else None,
                **_records("", *(parted.records if parted else (None, None))),
                **_surroundings(sides, parted, context),
                "differences": [attrs.asdict(difference) for difference in found],
                "made_with": [attrs.asdict(difference) for difference in made_with],
            }
        )
        return int(differ)
    if parted is not None:
        why = f", where {parted.why}" if parted.why else ""
        say(f"the same until step {parted.position}{why}")
        for text in _context(sides, parted, context):
            say(text)
    elif found:
        say(f"the same {count(one.reader.steps, 'step')}")
    for difference in (*found, *made_with):
        first, second = (
            f"{value} in {side.label}"
            for value, side in zip(difference.in_words, sides, strict=True)
        )
        say(f"{difference.what}: {first}, {second}")
    if not differ:
        say(f"the same {count(one.reader.steps, 'step')}, {one.manifest.outcome}, log and outputs")
    return int(differ)


def _heads(sides: Sides, differ: bool) -> dict[str, Any]:
    return {"first": sides[0].run.hash, "second": sides[1].run.hash, "same": not differ}


def _records(prefix: str, *records: Record | None) -> dict[str, Any]:
    return {
        f"{name}_{prefix}record": None if record is None else as_data(record)
        for name, record in zip(("first", "second"), records, strict=True)
    }


def _surroundings(sides: Sides, parted: _Parted | None, context: int) -> dict[str, Any]:
    """The records before and after, as data."""
    if parted is None:
        return {"before": [], "first_after": [], "second_after": []}
    step = parted.step

    def records(side: Side, first: int, last: int) -> list[dict[str, Any]]:
        if first > last or first >= side.reader.steps:
            return []
        return [as_data(record) for record in side.reader.records(first, last)]

    return {
        "before": records(sides[0], max(step - context, 0), step - 1),
        "first_after": records(sides[0], step, step + context - 1),
        "second_after": records(sides[1], step, step + context - 1),
    }


def _context(sides: Sides, parted: _Parted, context: int) -> Iterator[str]:
    """Lines of both, then of each."""
    steps = max(side.reader.steps for side in sides)

    # Wake-ups say little, but if they are the difference.
    wakes = any(isinstance(record, Wake) for record in parted.records)

    def parts(time: bool) -> tuple[list[str], list[list[str]]]:
        excerpts = [Excerpt(side.reader, steps, time, wakes) for side in sides]
        before = excerpts[0].before(parted.step, context)
        return before, [excerpt.after(parted.step, max(context, 1)) for excerpt in excerpts]

    before, after = parts(time=False)
    if after[0][:1] == after[1][:1]:
        # They differ in nothing but when it was.
        before, after = parts(time=True)
    yield from excerpt.labelled(excerpt.BOTH, before)
    for side, lines in zip(sides, after, strict=True):
        yield from excerpt.labelled(side.label, lines or [side.end()])


def _ends(sides: Sides, parted: _Parted | None) -> Iterator[Difference]:
    """How the traces end, if that is all that differs in them."""
    if parted is None:
        one, other = (side.reader for side in sides)
        if one.duration != other.duration:
            yield Difference("guest time", f"{one.duration:,} ns", f"{other.duration:,} ns")
        if one.end.reason != other.end.reason:
            reasons = (trace.REASONS[reader.end.reason] for reader in (one, other))
            yield Difference("end", *reasons)


def _logs(sides: Sides) -> Iterator[Difference]:
    """The first line in which the logs differ."""
    with sides[0].run.log.open("rb") as one, sides[1].run.log.open("rb") as other:
        number = 0
        while True:
            number += 1
            lines = one.readline(), other.readline()
            if lines[0] != lines[1]:
                break
            if not lines[0]:
                return
    texts = (_quoted(line) if line else "it ends" for line in lines)
    yield Difference(f"log, line {number:,}", *texts)


def _quoted(line: bytes) -> str:
    return json.dumps(trace.text(line.rstrip(b"\n")), ensure_ascii=False)


_OPTIONS = {
    "drv": "job",
    "epoch": "epoch",
    "seed": "seed",
    "cores": "cores",
    "memory": "memory",
    "time_limit": "time limit",
    "machine": "machine",
}


def _made_with(sides: Sides, parted: _Parted | None) -> Iterator[Difference]:
    """What of the runs' names differs; the schedules unless that is said already."""
    one, other = (side.manifest for side in sides)
    for field, what in _OPTIONS.items():
        first, second = getattr(one, field), getattr(other, field)
        if first != second:
            yield Difference(what, str(first), str(second))
    if one.layers != other.layers:
        yield Difference("layers", *(" ".join(manifest.layers) for manifest in (one, other)))
    first_schedule, second_schedule = set(one.schedule), set(other.schedule)
    if first_schedule <= second_schedule or second_schedule <= first_schedule:
        # A fork, and where they part says what it has more.
        said = parted is not None and bool(parted.why)
    else:
        said = False
    if one.schedule != other.schedule and not said:
        yield Difference("schedule", _in_words(one), _in_words(other))


def _in_words(manifest: Manifest) -> str:
    perturbations = manifest.schedule
    if not perturbations:
        return "none"
    if len(perturbations) > 3:
        return count(len(perturbations), "perturbation")
    return " and ".join(
        f"{p.kind} of {span(p.ns)} at {p.position}" if p.ns else f"{p.kind} at {p.position}"
        for p in perturbations
    )


# --- what programs do


def _compare_programs(sides: Sides, programs: tuple[str, ...], context: int, as_json: bool) -> int:
    found = part_traces(sides[0].reader, sides[1].reader, _selection(sides, programs))
    if as_json:
        say_json(
            {
                **_heads(sides, found is not None),
                "programs": list(programs),
                "program": found.program if found else None,
                "lineage": list(found.lineage) if found else None,
                "first_event": _event(sides[0], found.first, found.first_thread) if found else None,
                "second_event": (
                    _event(sides[1], found.second, found.second_thread) if found else None
                ),
            }
        )
    elif found is None:
        say(f"{' and '.join(programs)}: the same events")
    else:
        for text in excerpt.program_lines(
            (sides[0].reader, sides[1].reader), (sides[0].label, sides[1].label), found, context
        ):
            say(text)
    return int(found is not None)


def _selection(sides: Sides, programs: Sequence[str]) -> Selection:
    """Which programs are meant.

    :raises Failure: if one is not in the runs.
    """
    names = [text for text in programs if not text.isdecimal()]
    pids = [int(text) for text in programs if text.isdecimal()]
    first = sides[0].reader.records(
        select=lambda kind, _: kind in (trace.FORK, trace.EXEC, trace.TASK_END)
    )
    known = processes(first) if pids else {}
    for pid in pids:
        if pid not in known:
            raise Failure(f"{sides[0].label} has no process {pid}: rewind ps lists them")
    executed = {
        part
        for side in sides
        for record in side.reader.records(select=lambda kind, _: kind == trace.EXEC)
        if isinstance(record, Exec)
        for part in (record.path, record.path.rpartition("/")[2])
    }
    for name in names:
        if name not in executed:
            raise Failure(f"no process of these runs executes {name}: rewind ps lists them")
    return Selection(names, [lineage for pid in pids for lineage in known[pid]])


def _event(side: Side, event: Event | None, thread: Thread | None) -> dict[str, Any]:
    """What a thread does where it parts; null is what is not there."""
    steps = [] if event is None else dict.fromkeys((event.begin, event.step))
    return {
        "thread": None if thread is None else attrs.asdict(thread),
        "step": None if event is None else event.begin,
        "records": [
            as_data(record)
            for step in steps
            if step is not None
            for record in side.reader.records(step, step)
        ],
    }
