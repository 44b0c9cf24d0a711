"""``rewind ls``: the runs in the store."""

import datetime

import click

from rewind.cli import params, runs
from rewind.cli.output import duration, say_json, table, warn
from rewind.formats import FormatError


def _date(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


@click.command("ls")
@params.json_option
def command(as_json: bool) -> None:
    """The runs in the store, the newest first."""
    found = []
    for run in runs.newest_first():
        try:
            found.append((run, run.manifest()))
        except FormatError as error:
            warn(str(error))
    if as_json:
        say_json(
            [
                {
                    **runs.summary(run, manifest),
                    "perturbations": len(manifest.schedule),
                    "registered": run.registered,
                }
                for run, manifest in found
            ]
        )
        return
    if not found:
        warn("there are no runs yet: rewind nix makes one")
        return
    table(
        ("hash", "name", "outcome", "steps", "guest time", "perturbed", "recorded"),
        [
            (
                run.short,
                run.name,
                str(manifest.outcome),
                f"{manifest.steps:,}",
                duration(manifest.guest_time),
                str(len(manifest.schedule) or ""),
                _date(run.registered),
            )
            for run, manifest in found
        ],
        right=("steps", "guest time", "perturbed"),
    )
