"""What a schedule did to a run, in words."""

from collections.abc import Iterator

from rewind.cli.output import count, warn
from rewind.cli.runs import Run
from rewind.formats import trace
from rewind.formats.manifest import Manifest
from rewind.formats.schedule import NamedPerturbation, Perturbation, Position, never_came
from rewind.formats.spans import span
from rewind.formats.trace import Perturbed, TraceReader


def took_place(
    manifest: Manifest, reader: TraceReader
) -> Iterator[tuple[Perturbation | NamedPerturbation, Perturbed | None]]:
    """The perturbations of a run's schedule in the order in which they came, each with its record.

    None: it never came.
    """
    records = (
        record
        for record in reader.records(select=lambda kind, _: kind == trace.PERTURBED)
        if isinstance(record, Perturbed)
    )
    due = []
    never = []
    arrivals = zip(manifest.schedule, manifest.arrivals, strict=True)
    for place, (perturbation, at) in enumerate(arrivals):
        if at is None:
            never.append(perturbation)
        else:
            (record,) = reader.records(at.step, at.step)
            due.append((record.time + at.offset, place, perturbation))
    for _, _, perturbation in sorted(due):
        yield perturbation, next(records, None)
    for perturbation in never:
        yield perturbation, None


def without_effect(manifest: Manifest, reader: TraceReader) -> Iterator[str]:
    """A sentence for each perturbation of a run's schedule that did nothing to it.

    Those that never came have one together.
    """
    came: list[Position | None] = [None] * len(manifest.schedule)
    for perturbation, record in took_place(manifest, reader):
        if record is None:
            continue
        came[manifest.schedule.index(perturbation)] = Position(record.step)
        if record.nothing:
            what = f"the {perturbation.kind} at {perturbation.position}"
            yield f"{what} did nothing: no task of the job was running"
    never = never_came(manifest.schedule, tuple(came))
    if never is not None:
        yield f"{never}; the run has {count(reader.steps, 'step')}"


_MOST_LINES = 5


def warn_of_no_effect(manifest: Manifest, run: Run) -> list[str]:
    """Tell the person what of a run's schedule did nothing to it; the sentences."""
    if not manifest.schedule:
        return []
    with TraceReader(run.trace) as reader:
        found = list(without_effect(manifest, reader))
    for sentence in found[:_MOST_LINES]:
        warn(sentence)
    if len(found) > _MOST_LINES:
        of = len(manifest.schedule)
        warn(f"so it is with {len(found) - _MOST_LINES:,} more of {of:,} perturbations")
    return found


def deed(record: Perturbed) -> str:
    """What a perturbation's record says that is done, after the subject."""
    who = "nobody (no task of the job was running)" if record.nothing else f"thread {record.tid}"
    return f"stalls {who} for {span(record.ns)}" if record.kind == "stall" else f"reschedules {who}"
