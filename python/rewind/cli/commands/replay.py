"""``rewind replay``: make a run again, and compare."""

import filecmp
import time
from pathlib import Path

import click

from rewind.analysis.difference import first_difference
from rewind.analysis.excerpt import line
from rewind.cli import drv as drvs
from rewind.cli import imported, nix, params, recording
from rewind.cli.commands.events import as_data
from rewind.cli.errors import Failure
from rewind.cli.nix import BuildFailure
from rewind.cli.output import count, say, say_json
from rewind.cli.progress import watch
from rewind.cli.recording import Options, Recording
from rewind.cli.runs import Run
from rewind.formats.trace import TraceReader

_FILES = ("manifest.cbor", "trace", "log")


def derivation(run: Run) -> Path:
    """The derivation that makes *run*: the one that made it, or the same made anew.

    :raises Failure: if it cannot be had, or this rewind makes another run of the same job.
    """
    if run.imported:
        return imported.derivation(run)
    deriver = nix.path_info([run.path])[run.path].deriver
    if deriver is not None and nix.valid([deriver]):
        return deriver
    manifest = run.manifest()
    made = recording.instantiate(recording.job_of(manifest), Options.of(manifest))
    if made.out != run.path:
        raise Failure(
            f"another version of rewind made this run; this one would make {made.out.name}:"
            f" rewind nix {manifest.drv} does"
        )
    return made.drv


@click.command("replay")
@params.run_argument
@params.json_option
def command(run: Run, as_json: bool) -> int:
    """Make RUN again, and compare: trace, log and outcome are to be the same, to the bit.

    If they are not, the exit status is 1, and the first record that differs is shown.
    """
    if run.imported:
        return _build(run, as_json)
    if not nix.valid([run.path]):
        raise Failure(f"{run.path} is not a valid path of the store")
    drv = derivation(run)
    begin = time.monotonic()
    try:
        # Without --keep-failed, Nix removes what it made when it is not the same.
        watch(drv, f"{drv}^out", "--rebuild", "--keep-failed", "--no-link")
    except BuildFailure as error:
        again = Path(f"{run.path}.check")
        if f"'{run.path}' differs from '{again}'" not in error.log:
            raise
        return _differs(run, again, _files(run, again), as_json)
    return _same(run, time.monotonic() - begin, as_json)


def _build(run: Run, as_json: bool) -> int:
    """Make *run*, which was imported, in the store, where it was not; and compare."""
    made = Recording.of(drvs.read(derivation(run)))
    begin = time.monotonic()
    recording.record(run.name, made)
    host_time = time.monotonic() - begin
    files = _files(run, made.out)
    if files:
        return _differs(run, made.out, files, as_json)
    return _same(run, host_time, as_json)


def _files(run: Run, again: Path) -> list[str]:
    """Those of the files of *run* that are others in *again*."""
    return [
        name for name in _FILES if not filecmp.cmp(run.path / name, again / name, shallow=False)
    ]


def _same(run: Run, host_time: float, as_json: bool) -> int:
    steps = run.manifest().steps
    if as_json:
        say_json(
            {"hash": run.hash, "same": True, "steps": steps, "host_time": round(host_time * 1e9)}
        )
    else:
        say(f"{run.short}  {run.name}: the same {count(steps, 'step')}, {host_time:,.1f} s")
    return 0


def _differs(run: Run, again: Path, files: list[str], as_json: bool) -> int:
    with TraceReader(run.trace) as first, TraceReader(again / "trace") as second:
        found = first_difference(first, second)
        if as_json:
            say_json(
                {
                    "hash": run.hash,
                    "same": False,
                    "again": str(again),
                    "files": files,
                    "step": found.step if found else None,
                    "first": as_data(found.first) if found and found.first else None,
                    "second": as_data(found.second) if found and found.second else None,
                }
            )
        elif found is None:
            say(f"{run.short}  {run.name}: the same records, but another {', '.join(files)}")
        else:
            say(f"{run.short}  {run.name}: the same until step {found.step}")
            if found.step:
                say(f"  both   {line(first, found.step - 1)}")
            say(f"  run    {line(first, found.step)}")
            say(f"  again  {line(second, found.step)}")
    if not as_json:
        say(f"the other run is {again}")
    return 1
