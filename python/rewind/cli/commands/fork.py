"""``rewind fork``: another run, that is perturbed at a position of one that is there."""

import time

import attrs
import click

from rewind.cli import nix, params, recording, runs
from rewind.cli.commands.events import check_position
from rewind.cli.commands.nix import print_run
from rewind.cli.errors import Failure
from rewind.cli.located import span_of
from rewind.cli.outcomes import differences
from rewind.cli.output import say, say_json
from rewind.cli.perturbed import warn_of_no_effect
from rewind.cli.recording import Options
from rewind.cli.runs import Run
from rewind.formats.schedule import Named, Position, ordered, perturbation
from rewind.formats.trace import TraceReader


@click.command("fork")
@params.run_argument
@click.argument("position", metavar="POSITION", type=params.PositionType(named=True))
@click.option(
    "--stall",
    type=params.SpanType(),
    metavar="T",
    help="The task that runs there sleeps for T of guest time: 10us, 1ms, 1.5s.",
)
@click.option("--reschedule", is_flag=True, help="It gives its turn to the others that can run.")
@params.json_option
def command(
    run: Run, position: Position | Named, stall: int | None, reschedule: bool, as_json: bool
) -> int:
    """Another run: RUN's job with its options and schedule, and a perturbation more.

    It comes at POSITION, and until then both are the same run. If that is a T:C+K, as rewind
    where prints it, it comes there also if other perturbations, that are added
    later, come before. The exit status is
    1 if the new run's outcome or one of its outputs is not that of RUN.
    """
    if (stall is None) == (not reschedule):
        raise Failure("a fork has one perturbation: --stall T or --reschedule")
    manifest = run.manifest()
    with TraceReader(run.trace) as reader:
        if isinstance(position, Named):
            span_of(reader, position)
        else:
            check_position(reader, position)
    added = perturbation(position, "reschedule" if stall is None else "stall", stall or 0)
    options = attrs.evolve(Options.of(manifest), schedule=ordered((*manifest.schedule, added)))
    job = recording.job_of(manifest)
    same = recording.instantiate(job, Options.of(manifest))
    if same.out != run.store_path:
        raise Failure(
            f"another version of rewind made this run, and what this one makes would be no fork of"
            f" it: rewind nix {manifest.drv} records it again"
        )
    made = recording.instantiate(job, options)
    known = bool(nix.valid([made.out]))
    begin = time.monotonic()
    recording.record(job.name, made)
    host_time = time.monotonic() - begin

    forked = runs.from_path(made.out)
    if forked is None:
        raise Failure(f"{made.out} is not a run: its manifest is missing")
    result = forked.manifest()
    no_effect = warn_of_no_effect(result, forked)
    found = list(differences(manifest, result))
    compare = ["rewind", "compare", run.short, forked.short]
    if as_json:
        say_json(
            {
                **runs.summary(forked, result),
                "host_time": round(host_time * 1e9),
                "was_known": known,
                "of": run.hash,
                "same_outcome": not found,
                "differences": [attrs.asdict(difference) for difference in found],
                "without_effect": no_effect,
                "compare": compare,
            }
        )
        return int(bool(found))
    print_run(forked, result, None if known else host_time)
    for difference in found:
        before, now = difference.in_words
        say(f"{difference.what}: {now}, and {before} in {run.short}")
    if not found:
        say(f"the same outcome as {run.short}")
    say(" ".join(compare))
    return int(bool(found))
