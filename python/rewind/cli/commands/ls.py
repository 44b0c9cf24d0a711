"""``rewind ls``: the runs in the store."""

import datetime
from typing import Any

import attrs
import click

from rewind.cli import params, runs
from rewind.cli.errors import Failure
from rewind.cli.output import duration, say_json, table, warn
from rewind.cli.recording import Request
from rewind.cli.runs import Run
from rewind.formats import FormatError
from rewind.formats.manifest import Manifest


def _date(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


@attrs.frozen
class _Row:
    """What is said of a run; None for what is not known before it is built."""

    run: Run
    manifest: Manifest | None
    perturbations: int

    @classmethod
    def of(cls, run: Run) -> "_Row":
        if run.drv is not None:
            return cls(run, None, len(Request.read(run.drv).options.schedule or ()))
        manifest = run.manifest()
        return cls(run, manifest, len(manifest.schedule))

    def data(self) -> dict[str, Any]:
        return {
            **runs.summary(self.run, self.manifest),
            "perturbations": self.perturbations,
            "registered": self.run.registered,
        }

    def columns(self) -> tuple[str, ...]:
        manifest = self.manifest
        return (
            self.run.short,
            self.run.name,
            str(manifest.outcome) if manifest else "not built",
            f"{manifest.steps:,}" if manifest else "",
            duration(manifest.guest_time) if manifest else "",
            str(self.perturbations or ""),
            _date(self.run.registered) if manifest else "",
        )


@click.command("ls")
@params.json_option
def command(as_json: bool) -> None:
    """The runs in the store, and those that are known and not built; the newest first."""
    rows = []
    for run in sorted(
        (*runs.newest_first(), *runs.unbuilt()), key=lambda run: (-run.registered, run.path)
    ):
        try:
            rows.append(_Row.of(run))
        except (FormatError, Failure) as error:
            warn(str(error))
    if as_json:
        say_json([row.data() for row in rows])
        return
    if not rows:
        warn("there are no runs yet: rewind nix makes one")
        return
    table(
        ("hash", "name", "outcome", "steps", "guest time", "perturbed", "recorded"),
        [row.columns() for row in rows],
        right=("steps", "guest time", "perturbed"),
    )
