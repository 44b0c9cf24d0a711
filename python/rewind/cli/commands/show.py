"""``rewind show``: the command line that makes a run again."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

import attrs
import click

from rewind.analysis.render import plain
from rewind.cli import params, places, recording
from rewind.cli.output import say, say_json
from rewind.cli.recording import Options, Request
from rewind.cli.runs import Run
from rewind.formats import schedule
from rewind.formats.manifest import Manifest
from rewind.formats.schedule import NamedPerturbation, in_words, never_came
from rewind.travel.bookmarks import Bookmarks


def command_line(request: Request, defaults: Options) -> list[str]:
    """The words that make the run again; options that are as by default are left out.

    The epoch, the clock and the name are always there: they say what the run is.
    """
    options = request.options
    words = [
        "rewind",
        "nix",
        request.drv,
        "--epoch",
        str(options.epoch),
        "--clock",
        "instructions",
    ]
    for option in ("seed", "cores", "memory", "time_limit"):
        value = getattr(options, option)
        if value != getattr(defaults, option):
            words += ["--" + option.replace("_", "-"), str(value)]
    if options.schedule:
        text = json.dumps(schedule.to_data(options.schedule), separators=(",", ":"))
        words += ["--schedule", text]
    return [*words, "--name", str(options.name)]


def _came(manifest: Manifest) -> Iterator[str]:
    """Where the schedule's perturbations came, as far as it does not say itself."""
    for one, at in zip(manifest.schedule, manifest.arrivals, strict=True):
        if isinstance(one, NamedPerturbation) and at is not None:
            yield f"{in_words(one)} came at {at}"
    never = never_came(manifest.schedule, manifest.arrivals)
    if never is not None:
        yield never


@click.command("show")
@params.known_run_argument
@params.json_option
def command(run: Run, as_json: bool) -> None:
    """The command line that makes RUN again, and its hash."""
    if run.drv is None:
        manifest = run.manifest()
        request = Request(manifest.drv, Options.of(manifest))
        data: dict[str, Any] = attrs.asdict(manifest)
        data["came"] = [None if at is None else str(at) for at in manifest.arrivals]
        came = list(_came(manifest))
    else:
        request = Request.read(run.drv)
        data = {"drv": request.drv, **attrs.asdict(request.options)}
        came = []
    words = command_line(request, recording.defaults())
    bookmarks = Bookmarks(places.bookmarks()).of(run.hash)
    if as_json:
        data["schedule"] = schedule.to_data(request.options.schedule or ())
        say_json(
            {
                "hash": run.hash,
                "path": str(run.path),
                "built": run.drv is None,
                "command": words,
                "bookmarks": [bookmark.to_data() for bookmark in bookmarks],
                **data,
            }
        )
        return
    say(shlex.join(words))
    say(f"# {run.hash}")
    for line in came:
        say(f"# {line}")
    for bookmark in bookmarks:
        say(f"# {bookmark.position}  {plain(bookmark.note)}")
