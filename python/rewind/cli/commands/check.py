"""``rewind check``: look for a schedule under which a build ends otherwise."""

import secrets
from pathlib import Path
from typing import Any

import attrs
import click

from rewind.cli import drv as drvs
from rewind.cli import params, recording, rooted, runs
from rewind.cli.drv import Derivation
from rewind.cli.errors import Failure
from rewind.cli.nix import BuildFailure
from rewind.cli.output import say, say_json
from rewind.cli.places import directory, searches
from rewind.cli.progress import watch
from rewind.cli.recording import Options, Recording
from rewind.cli.runs import Run
from rewind.formats.schedule import Position, ordered
from rewind.search import text
from rewind.search.generate import STRATEGIES
from rewind.search.report import Report, Side, limit_of, plain

SCHEDULES_MAX = 100_000


@attrs.frozen(kw_only=True)
class Bounds:
    """What a search is made with besides a run's options; None is lib/search.nix's default."""

    schedules: int | None = None
    first: int | None = None
    every: bool = False
    ignore_outputs: bool = False
    strategy: str | None = None
    shards: int | None = None
    seconds: float | None = None

    def to_nix(self) -> dict[str, Any]:
        """The arguments that ``searchFromDrv`` takes."""
        data: dict[str, Any] = {
            "schedules": self.schedules,
            "from": self.first,
            "all": self.every or None,
            "ignoreOutputs": self.ignore_outputs or None,
            "strategy": self.strategy,
            "shards": self.shards,
        }
        if self.seconds is not None:
            # What it finds depends on this host and this moment: nobody is to take it for his own.
            data |= {"seconds": self.seconds, "nonce": secrets.token_hex(8)}
        return {name: value for name, value in data.items() if value is not None}


@click.command("check")
@click.argument("words", metavar="[DRV|INSTALLABLE|-- COMMAND [ARG]...]", nargs=-1)
@params.root_options
@click.option(
    "--schedules",
    type=params.Whole(0, SCHEDULES_MAX),
    metavar="N",
    help="How many schedules are tried; 64 by default.",
)
@click.option("--all", "every", is_flag=True, help="Go on after the first other outcome.")
@click.option(
    "--run", "base", type=params.RunType(), metavar="RUN", help="Search around RUN, not from a job."
)
@click.option(
    "--from", "first", type=params.PositionType(), metavar="STEP", help="Perturb from there on."
)
@click.option(
    "--strategy",
    type=click.Choice(list(STRATEGIES)),
    help="What schedules are made of; directed by default: conflicting accesses first.",
)
@click.option(
    "--ignore-outputs", is_flag=True, help="An outcome is how the job ends, whatever it made."
)
@click.option(
    "--jobs", type=params.Whole(1, 1024), metavar="N", help="Machines side by side; one a CPU."
)
@click.option(
    "--shards", type=params.Whole(1, 1024), metavar="N", help="Derivations, for as many builders."
)
@click.option(
    "--time",
    "limit",
    type=params.SpanType(),
    metavar="T",
    help="The host's time that looking may take: 90s. The search is not kept.",
)
@params.run_options
@params.json_option
def command(
    words: tuple[str, ...],
    root: Path | None,
    cwd: str | None,
    env: tuple[str, ...],
    schedules: int | None,
    every: bool,
    base: Run | None,
    first: Position | None,
    strategy: str | None,
    ignore_outputs: bool,
    jobs: int | None,
    shards: int | None,
    limit: int | None,
    epoch: int | None,
    seed: str | None,
    cores: int | None,
    memory: int | None,
    time_limit: int | None,
    name: str | None,
    as_json: bool,
) -> int:
    """Look for a schedule under which a build ends otherwise, and the position that decides it.

    The build runs under schedules that stall its threads here and there. Its outcome is how it
    ends and what it makes. If one differs, what makes the difference is narrowed down to one
    instruction: two runs that are the same until there, and that `rewind show`, `nix build` and all
    other commands know by their hashes.

    The exit status is 0 if all outcomes are the same, and 1 if one differs.
    """
    options = Options(
        name=name, epoch=epoch, seed=seed, cores=cores, memory=memory, time_limit=time_limit
    )
    if sum((bool(words) and root is None, root is not None, base is not None)) != 1 or (
        base is not None and words
    ):
        raise Failure(
            "a search is of a job (DRV or INSTALLABLE, or --root ROOT -- COMMAND) or around a run"
            " (--run RUN)"
        )
    if first is not None and first.offset:
        raise Failure(f"a search starts from a step, not from {first}")
    rooted.check_options(root, cwd, env)
    if root is not None:
        derivation = rooted.job(root, words, cwd, env)
    elif base is not None:
        derivation, options = _around(base, options, first)
    elif len(words) > 1:
        raise Failure(f"a search is of one job, not of {' and '.join(words)}")
    else:
        derivation = drvs.resolve(words[0])
        drvs.check(derivation)
    bounds = Bounds(
        schedules=schedules,
        first=None if first is None else first.step,
        every=every,
        ignore_outputs=ignore_outputs,
        strategy=strategy,
        shards=shards,
        seconds=None if limit is None else limit / 1e9,
    )
    made = instantiate(derivation, options, bounds)
    link = search(derivation.name, made, jobs)
    report = Report.load(made.out / "report.cbor")
    hashes = name_runs(derivation, options, report)
    if as_json:
        say_json({"search": str(made.out), **plain(report), "hashes": hashes})
    else:
        for line in text.lines(report, made.out, hashes):
            say(line)
        for line in _closer(report, hashes):
            say(line)
    if limit is not None:
        # Nobody will ask for it again.
        link.unlink(missing_ok=True)
    if report.verdict == "fails":
        raise Failure(
            f"{derivation.name} fails under every schedule: rewind log {hashes['0'][:8]} shows how"
        )
    return int(report.verdict == "differs")


def _around(run: Run, options: Options, first: Position | None) -> tuple[Derivation, Options]:
    """Job and options of a search around *run*."""
    manifest = run.manifest()
    if first is not None and first.step >= manifest.steps:
        raise Failure(f"there is no step {first.step:,}: the run has {manifest.steps:,}")
    given = {
        name: value
        for name, value in attrs.asdict(options, recurse=False).items()
        if value is not None
    }
    return recording.job_of(manifest), attrs.evolve(Options.of(manifest), **given)


@attrs.frozen
class Made:
    """A search's derivation, and its output, whether that exists or not."""

    drv: Path
    out: Path


def instantiate(job: Derivation, options: Options, bounds: Bounds) -> Made:
    """The derivation of a search; it is put into the store, and not built."""
    found = recording.evaluate(
        "let search = rewind.searchFromDrv given; in "
        "{ drv = search.drvPath; out = search.outPath; }",
        {**recording.arguments(job), **options.to_nix(), **bounds.to_nix()},
    )
    return Made(Path(found["drv"]), Path(found["out"]))


def search(job: str, made: Made, jobs: int | None) -> Path:
    """Build the search *made* of *job*, with a link to keep it, which is returned.

    :raises Failure: if that fails.
    """
    link = directory(searches()) / made.out.name
    # Nix says to a builder how many it may use.
    cores = () if jobs is None else ("--cores", str(jobs))
    try:
        watch(
            made.drv,
            f"{made.drv}^out",
            *("--out-link", str(link), *cores),
            shown=lambda line: not line.startswith("schedule "),
        )
    except BuildFailure as error:
        reason = recording.why(error, made.drv, "the search failed")
        raise Failure(f"{job} was not searched: {reason}", error.log) from None
    return link


def name_runs(job: Derivation, options: Options, report: Report) -> dict[str, str]:
    """The hashes of the runs that *report* tells of.

    By a schedule's number, and "failing" and "passing", which RUN can be from now on.
    """
    wanted: dict[str, Options] = {}
    for tried in report.tried:
        full = ordered((*report.schedule, *tried.schedule))
        limit = limit_of(tried.outcome, tried.guest_time, report.time_limit, report.limit)
        wanted[str(tried.number)] = attrs.evolve(options, schedule=full, time_limit=limit)
    sides: dict[str, Side | None] = {"failing": report.failing, "passing": report.passing}
    for name, side in sides.items():
        if side is not None:
            wanted[name] = attrs.evolve(options, schedule=side.schedule, time_limit=side.time_limit)
    made: dict[str, Recording] = dict(
        zip(wanted, recording.instantiate_all(job, list(wanted.values())), strict=True)
    )
    for name in ("0", "passing", "failing"):
        if name in made:
            runs.remember(made[name])
    return {name: run.out.name[:32] for name, run in made.items()}


def _closer(report: Report, hashes: dict[str, str]) -> list[str]:
    """The commands to look closer."""
    if report.deciding is None:
        return []
    failing, passing = hashes["failing"][:8], hashes["passing"][:8]
    position = Position(report.deciding.step, report.deciding.offset)
    return [
        "",
        f"rewind compare {passing} {failing}",
        f"rewind where {failing} {position}",
        f"rewind log {failing}",
    ]
