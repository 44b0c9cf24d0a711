"""``rewind bookmark``: notes at positions of a run."""

import click

from rewind.analysis.render import plain
from rewind.cli import params, places
from rewind.cli.commands.events import check_position
from rewind.cli.errors import Failure
from rewind.cli.output import say, say_json
from rewind.cli.runs import Run
from rewind.formats.schedule import Position
from rewind.formats.trace import TraceReader
from rewind.travel.bookmarks import Bookmark, Bookmarks


@click.command("bookmark")
@params.run_argument
@click.argument("position", metavar="[STEP[+N]", type=params.PositionType(), required=False)
@click.argument("note", metavar="NOTE]", required=False)
@click.option("--remove", is_flag=True, help="Remove the bookmarks at STEP.")
@params.json_option
def command(
    run: Run, position: Position | None, note: str | None, remove: bool, as_json: bool
) -> None:
    """Note something at STEP, or N instructions later; without STEP, list the bookmarks of RUN.

    They are shown by show, events and log --steps.
    """
    kept = Bookmarks(places.bookmarks())
    if position is None:
        if remove:
            raise Failure("--remove takes the step whose bookmarks go")
    elif remove:
        if note is not None:
            raise Failure("--remove takes no note: all bookmarks at that step go")
        if not kept.remove(run.hash, position):
            raise Failure(f"there is no bookmark at {position}")
        return
    elif note is None:
        raise Failure("a bookmark has a note: rewind bookmark RUN STEP NOTE")
    else:
        with TraceReader(run.trace) as reader:
            check_position(reader, position)
        kept.add(run.hash, [Bookmark(position, note)])
        return
    found = kept.of(run.hash)
    if as_json:
        say_json([bookmark.to_data() for bookmark in found])
        return
    width = max((len(str(bookmark.position)) for bookmark in found), default=0)
    for bookmark in found:
        say(f"{bookmark.position!s:>{width}}  {plain(bookmark.note)}")
