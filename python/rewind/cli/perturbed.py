"""What a schedule did to a run, in words."""

from collections.abc import Iterator

from rewind.cli.output import count, span, warn
from rewind.cli.runs import Run
from rewind.formats import trace
from rewind.formats.schedule import Perturbation, Schedule
from rewind.formats.trace import Perturbed, TraceReader


def took_place(
    schedule: Schedule, reader: TraceReader
) -> Iterator[tuple[Perturbation, Perturbed | None]]:
    """The perturbations of *schedule* in the order in which they were due, each with its record.

    None: the run ended before.
    """
    records = (
        record
        for record in reader.records(select=lambda kind, _: kind == trace.PERTURBED)
        if isinstance(record, Perturbed)
    )
    due = []
    never = []
    for place, perturbation in enumerate(schedule):
        if perturbation.step < reader.steps:
            (at,) = reader.records(perturbation.step, perturbation.step)
            due.append((at.time + perturbation.offset, place, perturbation))
        else:
            never.append(perturbation)
    for _, _, perturbation in sorted(due):
        yield perturbation, next(records, None)
    for perturbation in never:
        yield perturbation, None


def without_effect(schedule: Schedule, reader: TraceReader) -> Iterator[str]:
    """A sentence for each perturbation of *schedule* that did nothing to the run of *reader*."""
    for perturbation, record in took_place(schedule, reader):
        what = f"the {perturbation.kind} at {perturbation.position}"
        if record is None:
            yield f"{what} did not take place: the run ended after {count(reader.steps, 'step')}"
        elif record.nothing:
            yield f"{what} did nothing: no task of the job was running"


_MOST_LINES = 5


def warn_of_no_effect(schedule: Schedule, run: Run) -> list[str]:
    """Tell the person which perturbations of *schedule* did nothing to *run*; the sentences."""
    if not schedule:
        return []
    with TraceReader(run.trace) as reader:
        found = list(without_effect(schedule, reader))
    for sentence in found[:_MOST_LINES]:
        warn(sentence)
    if len(found) > _MOST_LINES:
        warn(f"so it is with {len(found) - _MOST_LINES:,} more of {len(schedule):,} perturbations")
    return found


def deed(record: Perturbed) -> str:
    """What a perturbation's record says that is done, after the subject."""
    who = "nobody (no task of the job was running)" if record.nothing else f"thread {record.tid}"
    return f"stalls {who} for {span(record.ns)}" if record.kind == "stall" else f"reschedules {who}"
