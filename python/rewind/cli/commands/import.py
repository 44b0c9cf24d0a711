"""``rewind import``: a run from a file that rewind export wrote."""

import click

from rewind.cli import importing, keeping, params, runs
from rewind.cli.importing import Imported
from rewind.cli.output import count, say, say_json, warn


@click.command("import")
@click.argument("source", metavar="F|URL")
@click.option("--hash", "digest", metavar="HASH", help="The SHA-256 that the file has to have.")
@click.option(
    "--max-size",
    "most",
    type=params.SizeType(),
    default="2G",
    metavar="SIZE",
    help="How much is fetched of a URL; default: 2G.",
)
@click.option(
    "--trust",
    is_flag=True,
    help="Add what makes the run again to the store, whoever wrote it.",
)
@params.json_option
def command(source: str, digest: str | None, most: int, trust: bool, as_json: bool) -> int:
    """Import the run in the file F, or at a URL.

    It is found like any other one, and all that reads a run reads it. Nothing of it is executed,
    and nothing comes into the store but a file that is fetched. To make it again it takes --trust,
    and a file that was exported with --replayable: nobody has signed what is in it, and what you
    run after that is what the file's author has put in.

    The exit status is 1 if there is another run of that name: then nothing is imported.
    """
    path, fetched = importing.fetch(source, digest, most)
    if fetched is not None:
        warn(f"fetched {source}: {fetched}")
    found = importing.take(path, trust=trust)
    run = found.run
    with keeping.in_use(run):
        return _say(found, fetched, trust, as_json)


def _say(found: Imported, fetched: str | None, trust: bool, as_json: bool) -> int:
    """Say what came of it; the exit status."""
    run = found.run
    if as_json:
        say_json(
            {
                **runs.summary(run, run.manifest()),
                "new": found.new,
                "same": not found.differs,
                "differs": list(found.differs),
                "bookmarks": found.bookmarks,
                "replayable": found.replayable,
                "fetched": fetched,
            }
        )
        return int(bool(found.differs))
    if found.differs:
        say(
            f"{run.short}  {run.name}: {run.path} is another run than the file's: "
            f"{' and '.join(found.differs)} {'differs' if len(found.differs) == 1 else 'differ'}"
        )
        return 1
    if found.new:
        said = "imported"
    else:
        said = "was imported before" if run.imported else "is in the store, and the same"
    more = f", {count(found.bookmarks, 'new bookmark')}" if found.bookmarks else ""
    say(f"{run.hash}  {run.name}: {said}{more}")
    if found.replayable and not trust and run.imported:
        say("what makes it again is in the file: --trust adds it to the store")
    return 0
