"""The report in words: what `rewind check` prints, and a failed check's log."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from rewind.analysis import render
from rewind.analysis.excerpt import program_lines
from rewind.analysis.parting import part_traces
from rewind.formats.schedule import Position, in_words
from rewind.formats.spans import span
from rewind.formats.trace import TraceReader
from rewind.search.pct import at_least
from rewind.search.report import Access, Explanation, Place, Report, Side, Tried, Waiting

CONTEXT = 4
"""Lines of a program that are shown before it parts, and after."""
SHORT = 8
"""Characters of a hash that are shown."""


def tried(entry: Tried, hash: str | None) -> str:
    """The line of a schedule."""
    steps = f"{entry.steps:,} steps"
    line = f"schedule {entry.number:3}: {entry.outcome!s:<12} {steps:>15}"
    if hash is not None:
        line += f"  {hash[:SHORT]}"
    if entry.changed and entry.schedule:
        line += "  " + ", ".join(map(in_words, entry.schedule))
    return line


def lines(report: Report, directory: Path, hashes: Mapping[str, str]) -> Iterator[str]:
    """The whole report.

    :param directory: where its traces are.
    :param hashes: those of runs, as far as they are known: by a schedule's number as text, and of
        "failing" and "passing".
    """
    for entry in report.tried:
        yield tried(entry, hashes.get(str(entry.number)))
    yield ""
    yield from _verdict(report)
    yield from _analysis(report)
    yield from _odds(report)
    if report.deciding is not None and report.failing is not None and report.passing is not None:
        yield from _deciding(report, report.failing, report.passing, hashes)
        yield ""
        yield from _parting(directory)


def _verdict(report: Report) -> Iterator[str]:
    count = len(report.tried) - 1
    changed = sum(entry.changed for entry in report.tried)
    outcome = report.tried[0].outcome
    under = f"under all {count} schedules" if count > 1 else "under the one schedule"
    since = f"from step {report.first:,} on" if report.first else "at any time"
    alone = f"nothing to put into another order: no two tasks of the job could run {since}"
    match report.verdict:
        case "alone":
            yield f"{report.name}: {alone}"
        case "fails":
            fails = f"{report.name} fails without any perturbation ({outcome})"
            if not count:
                yield fails
            else:
                why = "" if report.cut_short else ": that is no matter of timing"
                yield f"{fails}, and {under}{why}"
        case "same":
            yield f"{outcome} {under if count else 'without any perturbation'}"
        case "differs":
            if report.every:
                yield f"another outcome under {changed} of {count} schedules"
    if report.cut_short:
        yield (
            f"cut short: the time was up after {count} of {report.drawn} schedules; "
            "on another machine it may be another number"
        )
    elif not report.schedules:
        yield "no schedule was tried"
    elif report.drawn < report.schedules and report.verdict in ("same", "fails"):
        few = f"there are no more than {report.drawn} different schedules"
        yield few if report.drawn else alone


def _analysis(report: Report) -> Iterator[str]:
    """What was seen of conflicting accesses, where that tells something besides the outcomes."""
    analysis = report.analysis
    if analysis is None:
        return
    if analysis.error is not None:
        yield f"accesses to memory were not looked at: {analysis.error}"
        return
    for number, what in (
        (analysis.inverted, "two locks are taken in either order"),
        (analysis.unordered, "nothing orders some accesses to memory"),
    ):
        if report.verdict == "same" and number:
            yield f"{what} ({number:,}): rewind races shows which"
    if analysis.incomplete:
        yield "not all accesses to memory could be compared: rewind races says what was left out"


def _odds(report: Report) -> Iterator[str]:
    """What was to be expected of the schedules by random priorities, if nothing came of any."""
    if report.verdict != "same":
        return
    for odds in report.odds:
        chance = at_least(odds.depth, odds.schedules, odds.threads, odds.points)
        yield (
            f"a bug of depth {odds.depth} would have been found with probability at least"
            f" {chance:.2%}: {odds.schedules} schedules, {odds.threads} threads,"
            f" {odds.points:,} points"
        )
    if report.odds:
        yield f"  (if no thread runs longer than {span(report.odds[0].length)} at a time)"


def _explanation(report: Report, explanation: Explanation) -> Iterator[str]:
    """What the deciding perturbation has put into another order, in a sentence."""
    before, between, after = explanation.before, explanation.between, explanation.after
    name = explanation.variable or f"memory at {explanation.address:#x}"
    name = render.plain(name)
    if before is not None:
        said = (
            f"thread {after.tid} read {name} {_at(before)} and {_did(after)} it {_at(after)};"
            f" thread {between.tid} {_did(between)} it in between ({_at(between, '')})"
        )
    else:
        said = (
            f"thread {between.tid} {_did(between)} {name} {_at(between)}"
            f" before thread {after.tid} {_did(after)} it {_at(after)}"
        )
    run = "" if report.tried[0].outcome.success else "in the passing run, "
    yield f"  {run}{said}"


def _did(access: Access) -> str:
    return "wrote" if access.write else "read"


def _at(access: Access, at: str = "at ") -> str:
    """Where *access* was made, in the source if that is known."""
    place = access.place
    if place is not None and place.line and place.file:
        return f"{at}{place.file.rpartition('/')[2]}:{place.line}"
    return f"{at}{Position(access.step, access.offset)}"


def _deciding(
    report: Report, failing: Side, passing: Side, hashes: Mapping[str, str]
) -> Iterator[str]:
    deciding = report.deciding
    assert deciding is not None
    position = Position(deciding.step, deciding.offset)
    does = f"stalls there for {span(deciding.ns)}"
    if deciding.kind == "reschedule":
        does = "gives way there"
    who = f"thread {deciding.tid}" if deciding.tid else "no thread of the job"
    if deciding.place is not None and deciding.place.text:
        does += f" in {short(deciding.place)}"
    yield f"step {position} decides it: {who} {does}"
    if deciding.place is not None and deciding.place.why and not deciding.place.line:
        yield f"  no source line: {deciding.place.why}"
    later = Position(deciding.step, deciding.offset + 1)
    fails = report.tried[0].outcome.success
    yield (
        f"  at {later}, one instruction later, it {'passes' if fails else 'fails'}; "
        f"until {position} both are the same run"
    )
    if report.explanation is not None:
        yield from _explanation(report, report.explanation)
    if len(failing.schedule) > 1 + len(report.schedule):
        yield "  with " + ", ".join(
            in_words(p) for p in failing.schedule if p.position not in (position, later)
        )
    for waiting in failing.waiting:
        yield f"  {_waiting(waiting)}"
    for name, side in (("failing", failing), ("passing", passing)):
        hash = hashes.get(name)
        text = f"{name}  {side.outcome!s:<12} {side.steps:>9,} steps"
        yield text + (f"  {hash[:SHORT]}" if hash else "")
    if failing.outcome == passing.outcome:
        for name in sorted({*failing.outputs, *passing.outputs}):
            made = [side.outputs.get(name) for side in (failing, passing)]
            if made[0] != made[1]:
                hashed = (output.nar_hash if output else "not made" for output in made)
                yield f"  {name}: {', '.join(hashed)}"


def _parting(directory: Path) -> Iterator[str]:
    """What the programs do where the two runs part."""
    with (
        TraceReader(directory / "passing.trace") as passing,
        TraceReader(directory / "failing.trace") as failing,
    ):
        found = part_traces(passing, failing)
        if found is None:
            yield "the programs do the same in both, at other times"
            return
        yield from program_lines((passing, failing), ("passing", "failing"), found, CONTEXT)


def _waiting(waiting: Waiting) -> str:
    does = "was in user mode"
    if waiting.what:
        does = f"waits {render.plain(waiting.what)}"
    elif waiting.call is not None:
        does = f"waits in {render.CALLS[waiting.call].name}"
    where = f", {short(waiting.place)}" if waiting.place and waiting.place.text else ""
    return f"{waiting.pid}/{waiting.tid} ({waiting.program.rpartition('/')[2]}) {does}{where}"


def short(place: Place) -> str:
    """A place, with the source file's name alone."""
    if place.line and place.file:
        return f"{place.function or '?'} ({place.file.rpartition('/')[2]}:{place.line})"
    return place.text
