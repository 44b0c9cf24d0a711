"""``rewind show``: the command line that makes a run again."""

import json
import shlex

import attrs
import click

from rewind.cli import params, recording
from rewind.cli.output import say, say_json
from rewind.cli.recording import Options
from rewind.cli.runs import Run
from rewind.formats import schedule
from rewind.formats.manifest import Manifest


def command_line(manifest: Manifest, defaults: Options) -> list[str]:
    """The words that make the run again; options that are as by default are left out.

    The epoch, the clock and the name are always there: they say what the run is.
    """
    words = [
        "rewind",
        "nix",
        manifest.drv,
        "--epoch",
        str(manifest.epoch),
        "--clock",
        "instructions",
    ]
    for option in ("seed", "cores", "memory", "time_limit"):
        value = getattr(manifest, option)
        if value != getattr(defaults, option):
            words += ["--" + option.replace("_", "-"), str(value)]
    if manifest.schedule:
        text = json.dumps(schedule.to_data(manifest.schedule), separators=(",", ":"))
        words += ["--schedule", text]
    return [*words, "--name", manifest.name]


@click.command("show")
@params.run_argument
@params.json_option
def command(run: Run, as_json: bool) -> None:
    """The command line that makes RUN again, and its hash."""
    manifest = run.manifest()
    words = command_line(manifest, recording.defaults())
    if as_json:
        data = attrs.asdict(manifest)
        data["schedule"] = schedule.to_data(manifest.schedule)
        say_json({"hash": run.hash, "path": str(run.path), "command": words, **data})
        return
    say(shlex.join(words))
    say(f"# {run.hash}")
