"""``rewind ls``: the runs in the store."""

import datetime
from typing import Any

import attrs
import click

from rewind.cli import keeping, params, runs
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

    @property
    def recorded(self) -> str:
        """When it came to be there, and how if it is not the store's."""
        if self.manifest is None:
            return ""
        return _date(self.run.registered) + (", imported" if self.run.imported else "")

    def columns(self) -> tuple[str, ...]:
        manifest = self.manifest
        return (
            self.run.short,
            self.run.name,
            str(manifest.outcome) if manifest else "not built",
            f"{manifest.steps:,}" if manifest else "",
            duration(manifest.guest_time) if manifest else "",
            str(self.perturbations or ""),
            self.recorded,
        )


@click.command("ls")
@click.option("--roots", is_flag=True, help="Instead, until when each is kept for you.")
@params.json_option
def command(roots: bool, as_json: bool) -> None:
    """The runs in the store, and those that are known and not built; the newest first.

    One that you look at is kept for 30 days; rewind gc removes those that nothing keeps.
    """
    if roots:
        _roots(as_json)
        return
    rows = []
    here = runs.imported()
    there = {run.hash for run in here}
    unbuilt = [run for run in runs.unbuilt() if run.hash not in there]
    for run in sorted(
        (*runs.newest_first(), *here, *unbuilt), key=lambda run: (-run.registered, run.path)
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


def _roots(as_json: bool) -> None:
    """The runs and searches that are kept for the user, the one that was looked at last first."""
    found = sorted(keeping.roots(), key=lambda root: (-root.looked_at, root.target))
    # A run's second output has a link of its own.
    found = [root for root in found if not root.target.name.endswith("-nars")]
    if as_json:
        say_json(
            [
                {
                    "path": str(root.target),
                    "link": str(root.link),
                    "looked_at": int(root.looked_at),
                    "kept_until": int(root.ends()),
                }
                for root in found
            ]
        )
        return
    if not found:
        warn("nothing is kept for you")
        return
    rows = []
    for root in found:
        digits, _, name = root.target.name.removesuffix(".drv").partition("-rewind-")
        rows.append(
            (
                digits[: runs.SHORT],
                name.removeprefix("run-"),
                _date(int(root.looked_at)),
                _date(int(root.ends())),
            )
        )
    table(("hash", "name", "looked at", "kept until"), rows)
