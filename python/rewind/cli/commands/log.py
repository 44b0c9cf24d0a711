"""``rewind log``: what a run's build wrote."""

import shutil
import sys

import click

from rewind.analysis.render import plain
from rewind.cli import params
from rewind.cli.commands.events import bookmarks
from rewind.cli.errors import Failure
from rewind.cli.output import say, say_json
from rewind.cli.runs import Run
from rewind.cli.writes import Line, written
from rewind.formats.trace import TraceReader
from rewind.travel.bookmarks import Bookmark


@click.command("log")
@params.run_argument
@click.option("--steps", is_flag=True, help="Before each line, the step at which it was written.")
@params.json_option
def command(run: Run, steps: bool, as_json: bool) -> None:
    """What RUN's build wrote."""
    try:
        file = run.log.open("rb")
    except OSError as error:
        raise Failure(f"{run.log}: {error.strerror}") from None
    with file:
        if not steps and not as_json:
            sys.stdout.flush()
            shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
            return
        log = file.read()
    with TraceReader(run.trace) as reader:
        found = list(written(reader, log))
        width = len(str(max(reader.steps - 1, 0)))
    if as_json:
        say_json([{"step": line.step, "text": _text(line)} for line in found])
        return
    noted = bookmarks(run)
    for line in found:
        while noted and line.step is not None and noted[0].position.step < line.step:
            _say_bookmark(noted.pop(0), width)
        say(f"{'' if line.step is None else line.step:>{width}}  {_text(line)}")
    for bookmark in noted:
        _say_bookmark(bookmark, width)


def _say_bookmark(bookmark: Bookmark, width: int) -> None:
    position = bookmark.position
    offset = f"+{position.offset}  " if position.offset else ""
    say(f"{position.step:>{width}}  * {offset}{plain(bookmark.note)}")


def _text(line: Line) -> str:
    return line.text.decode("utf-8", "backslashreplace")
