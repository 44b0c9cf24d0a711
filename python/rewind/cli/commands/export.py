"""``rewind export``: a run as a file."""

from pathlib import Path

import click

from rewind.cli import exporting, params
from rewind.cli.errors import Failure
from rewind.cli.output import say, say_json
from rewind.cli.runs import Run
from rewind.travel import archive


@click.command("export")
@params.run_argument
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(path_type=Path),
    metavar="F",
    help="The file; default: NAME-HASH.rwd, in this directory.",
)
@click.option(
    "--replayable", is_flag=True, help="Put in what it takes to make the run again: much more."
)
@click.option(
    "--no-places",
    is_flag=True,
    help="Leave out where threads were, for which the run is made again.",
)
@params.json_option
def command(
    run: Run, target: Path | None, replayable: bool, no_places: bool, as_json: bool
) -> None:
    """Write RUN to a file, for somebody who does not have it: see rewind import.

    It has all that reading it needs, its bookmarks, and where threads were at the positions of
    which somebody may ask.
    """
    target = target or Path(f"{run.name}-{run.short}.rwd")
    if not target.name:
        raise Failure("-o takes the name of a file")
    entries = exporting.export(run, target, look=not no_places, replayable=replayable)
    size = target.stat().st_size
    if as_json:
        say_json(
            {
                "hash": run.hash,
                "file": str(target),
                "size": size,
                "entries": [
                    {"kind": entry.name, "size": entry.size, "packed": entry.packed}
                    for entry in entries
                ],
            }
        )
        return
    more = ""
    if replayable:
        packed = sum(entry.packed for entry in entries if entry.kind == archive.NAR)
        more = f", {packed:,} of them to make it again"
    say(f"{target}: {size:,} bytes{more}")
