"""``rewind nix``: record the build of a derivation."""

import time
from pathlib import Path
from typing import Any

import attrs
import click

from rewind.analysis import render
from rewind.cli import drv as drvs
from rewind.cli import nix, params, recording, runs
from rewind.cli.caches import Answer, Caches, normal_hash
from rewind.cli.errors import Failure
from rewind.cli.output import count, duration, say, say_json, warn
from rewind.cli.perturbed import warn_of_no_effect
from rewind.cli.recording import Options
from rewind.formats.manifest import Manifest
from rewind.formats.schedule import Schedule
from rewind.machine.qemu import out_of_memory

_MOST_MESSAGES = 20


def _check_clock(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value != "instructions":
        raise Failure(
            f"--clock {value} is for recorders that count in the processor's hardware; this"
            " machine counts every instruction, and has --clock instructions alone"
        )
    return value


@attrs.frozen
class Comparison:
    """An output of the job against other copies of the same store path."""

    name: str
    path: str
    nar_hash: str | None
    """What the run made; None if it did not make this output."""
    local: str | None
    """What the local store has."""
    caches: list[Answer]

    @property
    def others(self) -> list[tuple[str, str]]:
        """Whose copies there are, and their hashes."""
        found = [("the local store", self.local)]
        found += [(answer.url, answer.nar_hash) for answer in self.caches]
        return [(owner, nar_hash) for owner, nar_hash in found if nar_hash is not None]

    @property
    def differs(self) -> bool:
        """Whether a copy is not what the run made."""
        return any(nar_hash != self.nar_hash for _, nar_hash in self.others)

    def verdict(self, nar_hash: str | None) -> str:
        """What to call a copy."""
        if nar_hash is None:
            return "absent"
        return "same" if nar_hash == self.nar_hash else "differs"


def compare(outputs: dict[str, str], manifest: Manifest) -> list[Comparison]:
    """The outputs (name to path) of the job against what the store and the caches have."""
    paths = list(outputs.values())
    local = nix.path_info([Path(path) for path in paths])
    answers = Caches.from_config(nix.config()).ask(paths)
    result = []
    for name, path in outputs.items():
        made = manifest.outputs.get(name)
        copy = local.get(Path(path))
        result.append(
            Comparison(
                name,
                path,
                made.nar_hash if made else None,
                normal_hash(copy.nar_hash) if copy else None,
                answers[path],
            )
        )
    return result


@attrs.frozen(kw_only=True)
class Made:
    """A run that was asked for."""

    run: runs.Run
    manifest: Manifest
    host_time: float
    """Seconds that it took to have it."""
    known: bool
    """Whether it was there."""
    no_effect: Any
    """The perturbations that had none."""

    def data(self) -> dict[str, Any]:
        """For an answer in JSON."""
        return {
            **runs.summary(self.run, self.manifest),
            "host_time": round(self.host_time * 1e9),
            "was_known": self.known,
            "messages": list(self.manifest.messages),
            "without_effect": self.no_effect,
        }

    def say(self) -> None:
        """Say what came of it."""
        print_run(self.run, self.manifest, None if self.known else self.host_time)

    def check_memory(self) -> None:
        """Fail if it was the machine that let the job fail."""
        if not self.manifest.outcome.success and out_of_memory(self.manifest.messages):
            raise Failure(
                "the build failed as memory ran out, and the machine had"
                f" {self.manifest.memory:,} MiB: --memory gives it more"
            )


def make(job: drvs.Derivation, options: Options) -> Made:
    """Record the run of *job*, unless it is there.

    :raises Failure: if that fails.
    """
    made = recording.instantiate(job, options)
    known = bool(nix.valid([made.out]))
    begin = time.monotonic()
    recording.record(job.name, made)
    host_time = time.monotonic() - begin
    run = runs.from_path(made.out)
    if run is None:
        raise Failure(f"{made.out} is not a run: its manifest is missing")
    manifest = run.manifest()
    return Made(
        run=run,
        manifest=manifest,
        host_time=host_time,
        known=known,
        no_effect=warn_of_no_effect(manifest, run),
    )


@click.command("nix")
@click.argument("job", metavar="DRV|INSTALLABLE")
@params.run_options
@params.schedule_option
@click.option(
    "--clock", default="instructions", callback=_check_clock, help="Only instructions: 1 ns each."
)
@params.json_option
def command(
    job: str,
    epoch: int | None,
    seed: str | None,
    cores: int | None,
    memory: int | None,
    time_limit: int | None,
    name: str | None,
    perturbations: Schedule | None,
    clock: str,
    as_json: bool,
) -> int:
    """Record the build of a derivation, as a store path.

    The build's log goes to stderr as it comes. Then: the run's hash and outcome, and whether
    its outputs are those of the local store and of the binary caches. The exit status is 1 if
    one is not.
    """
    derivation = drvs.resolve(job)
    drvs.check(derivation)
    options = Options(
        name=name,
        schedule=perturbations,
        epoch=epoch,
        seed=seed,
        cores=cores,
        memory=memory,
        time_limit=time_limit,
    )
    made = make(derivation, options)
    manifest = made.manifest
    comparisons = compare(derivation.made, manifest)
    for comparison in comparisons:
        for answer in comparison.caches:
            if answer.problem is not None:
                warn(f"{answer.url}: {answer.problem}")
    if as_json:
        say_json({**made.data(), "outputs": {c.name: _data(c) for c in comparisons}})
    else:
        made.say()
        _print(comparisons)
    made.check_memory()
    return int(any(comparison.differs for comparison in comparisons))


def _data(comparison: Comparison) -> dict[str, Any]:
    return {
        "path": comparison.path,
        "nar_hash": comparison.nar_hash,
        "local": {
            "verdict": comparison.verdict(comparison.local),
            "nar_hash": comparison.local,
        },
        "caches": {
            answer.url: {
                "verdict": "unknown" if answer.problem else comparison.verdict(answer.nar_hash),
                "nar_hash": answer.nar_hash,
                "problem": answer.problem,
            }
            for answer in comparison.caches
        },
    }


def print_run(run: runs.Run, manifest: Manifest, host_time: float | None) -> None:
    """Say what came of a recording, which took *host_time* s unless the run was there."""
    say(f"{run.hash}  {run.name}")
    how_long = "already recorded" if host_time is None else f"{host_time:,.1f} s of host time"
    steps = count(manifest.steps, "step")
    say(f"{manifest.outcome}: {steps}, {duration(manifest.guest_time)} of guest time, {how_long}")
    for message in manifest.messages[-_MOST_MESSAGES:]:
        say(f"the machine says: {render.plain(message)}")
    if manifest.outcome.success and out_of_memory(manifest.messages):
        say(f"the machine had {manifest.memory:,} MiB: --memory gives it more")
    if manifest.outcome.kind == "timed-out":
        say(f"the limit was {manifest.time_limit:,} s: --time-limit sets another")


def _print(comparisons: list[Comparison]) -> None:
    for comparison in comparisons:
        if comparison.nar_hash is None:
            say(f"{comparison.name}: not made")
        else:
            say(f"{comparison.name}: {comparison.nar_hash}")
        for owner, nar_hash in comparison.others:
            if comparison.nar_hash is None:
                say(f"  {owner} has it")
            elif nar_hash == comparison.nar_hash:
                say(f"  the same as in {owner}")
            else:
                say(f"  differs from {owner}: {nar_hash}")
        if comparison.nar_hash is not None and not comparison.others:
            say("  nothing to compare it with")
