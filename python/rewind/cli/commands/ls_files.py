"""``rewind ls-files``: what was in a directory at a step."""

import stat
from typing import Any

import click

from rewind.analysis.render import plain
from rewind.cli import params
from rewind.cli.commands.cat import ABSENT
from rewind.cli.errors import Failure
from rewind.cli.located import located
from rewind.cli.output import say, say_json, warn
from rewind.cli.params import Whole
from rewind.cli.runs import Run
from rewind.cli.stopped import stopped
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import TraceReader
from rewind.inspect import NoSuchFile
from rewind.inspect.answers import Entry

BUILD = "/build"
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


@click.command("ls-files")
@params.run_argument
@click.argument("position", metavar="POSITION", type=params.PositionType(named=True))
@click.argument("path", required=False)
@click.option("--pid", type=Whole(1), metavar="PID", help="A process; else the job's first.")
@click.option("-r", "--recursive", is_flag=True, help="Also what is in the directories there.")
@params.json_option
def command(
    run: Run,
    position: Position | Named,
    path: str | None,
    pid: int | None,
    recursive: bool,
    as_json: bool,
) -> int:
    """The files in the directory PATH at POSITION: STEP+N, or T:C+K: mode, size, name.

    They are those that RUN's processes saw there, or the process PID. PATH is /build if it is not
    given, or with --pid the directory in which that process works. The exit status is 3 if there
    was no such file.
    """
    if path is None:
        path = BUILD if pid is None else "."
    if pid is None and not path.startswith("/"):
        raise Failure(f"{path!r} is no absolute path, such as /build/source")
    with TraceReader(run.trace) as reader:
        position = located(run, reader, position)
    with stopped(run, position) as inspector:
        try:
            entries = inspector.list_files(path, pid, recursive)
        except NoSuchFile:
            warn(f"there was no {path} at {position}")
            return ABSENT
    if as_json:
        say_json([_data(entry) for entry in entries])
        return 0
    width = max((len(f"{entry.size:,}") for entry in entries), default=0)
    for entry in entries:
        target = "" if entry.target is None else f" -> {plain(_text(entry.target))}"
        mode = stat.filemode(entry.mode)
        say(f"{mode}  {entry.size:>{width},}  {plain(_text(entry.path))}{target}")
    return 0


def _data(entry: Entry) -> dict[str, Any]:
    return {
        "path": _text(entry.path),
        "type": _KINDS.get(stat.S_IFMT(entry.mode), "unknown"),
        "mode": f"{stat.S_IMODE(entry.mode):04o}",
        "size": entry.size,
        "target": None if entry.target is None else _text(entry.target),
    }


def _text(path: str) -> str:
    """*path*, of which bytes that are no UTF-8 show as ``\\xNN``."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")
