"""``rewind cat``: a file as it was at a step."""

import sys

import click

from rewind.cli import params
from rewind.cli.errors import Failure
from rewind.cli.located import located
from rewind.cli.output import warn
from rewind.cli.params import Whole
from rewind.cli.runs import Run
from rewind.cli.stopped import stopped
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import TraceReader
from rewind.inspect import NoSuchFile

LIMIT = 1 << 30
"""Bytes."""
ABSENT = 3
"""The exit status for a file that was not there."""


@click.command("cat")
@params.run_argument
@click.argument("position", metavar="POSITION", type=params.PositionType(named=True))
@click.argument("path")
@click.option("--pid", type=Whole(1), metavar="PID", help="A process; else the job's first.")
def command(run: Run, position: Position | Named, path: str, pid: int | None) -> int:
    """The file PATH as RUN's processes saw it at POSITION: STEP+N, or T:C+K.

    It is read from the memory of the machine, which is made again up to there: also a file that
    was changed or deleted later, or that is of no output. With --pid it is what that process sees,
    and PATH may be relative to where it works. What somebody still had open when it had no name any
    more is /proc/PID/fd/N, or its old name with " (deleted)" behind it. The exit status is 3 if
    there was no such file.
    """
    if pid is None and not path.startswith("/"):
        raise Failure(f"{path!r} is no absolute path, such as /build/source/Makefile")
    with TraceReader(run.trace) as reader:
        position = located(run, reader, position)
    with stopped(run, position) as inspector:
        try:
            content = inspector.read_file(path, LIMIT, pid)
        except NoSuchFile:
            warn(f"there was no {path} at {position}")
            return ABSENT
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    return 0
