"""``rewind gc``: remove what nobody looks at any more."""

import datetime
import re

import click

from rewind.cli import keeping, places
from rewind.cli.errors import Failure
from rewind.cli.output import count, say, say_json, size, warn
from rewind.cli.params import json_option
from rewind.replay.cache import Cache

_AGE = re.compile(r"([0-9]{1,5})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


class _Age(click.ParamType):
    """A time span as ``30d``, ``12h`` or ``0d``."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime.timedelta:
        if isinstance(value, datetime.timedelta):
            return value
        found = _AGE.fullmatch(str(value))
        if found is None:
            raise Failure(f"{value!r} is no time: write 30d, 12h or 0d")
        return datetime.timedelta(**{_UNITS[found[2]]: int(found[1])})


@click.command("gc")
@click.option(
    "--older-than",
    "kept",
    type=_Age(),
    default=keeping.KEPT,
    metavar="TIME",
    help=f"How long a run is kept that was looked at; default: {keeping.KEPT.days}d.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@json_option
def command(kept: datetime.timedelta, dry_run: bool, as_json: bool) -> None:
    """Remove the keyframes, and the runs and searches that nothing keeps.

    A run that somebody has looked at is kept for 30 days; one that something else keeps, such as a
    link of nix build, stays in any case. One that was imported is kept for 30 days as well. Nothing
    goes that a process uses.
    """
    found = keeping.garbage(kept)
    cache = Cache(places.keyframes(), warn=warn)
    keyframes = cache.size() if dry_run else cache.clear()
    paths = [*(info.path for info in found.paths), *(run.link for run in found.imported)]
    bytes_gone = found.size if dry_run else keeping.remove(found)
    if as_json:
        say_json(
            {
                "roots": [str(root.link) for root in found.roots],
                "paths": [str(path) for path in paths],
                "bytes": bytes_gone,
                "keyframes": keyframes,
            }
        )
        return
    would = "would be " if dry_run else ""
    for path in paths:
        say(f"{path}")
    say(
        f"{count(len(paths), 'path')}, {size(bytes_gone)}, and {size(keyframes)} of keyframes"
        f" {would}removed; {count(len(found.roots), 'link')} older than {_said(kept)}"
    )


def _said(kept: datetime.timedelta) -> str:
    if kept.seconds:
        return f"{kept.total_seconds() / 3600:g} hours"
    return f"{kept.days} days"
