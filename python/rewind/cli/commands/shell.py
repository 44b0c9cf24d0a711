"""``rewind shell``: a shell in a fork of a run."""

import tempfile
from pathlib import Path

import click

from rewind.cli import params
from rewind.cli.errors import Failure
from rewind.cli.located import located
from rewind.cli.processes import History, Process, history
from rewind.cli.runs import Run
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import TraceReader


@click.command("shell")
@params.run_argument
@click.argument("position", metavar="POSITION", type=params.PositionType(named=True))
@click.argument("words", metavar="[-- COMMAND...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--pid", type=params.Whole(1), metavar="PID", help="Whose view it has.")
@click.option(
    "--with",
    "installables",
    multiple=True,
    metavar="INSTALLABLE",
    help="Have this there too, first in PATH.",
)
@click.option("-c", "script", metavar="TEXT", help="Have the shell do this, and end.")
@click.option("--run", "going", is_flag=True, help="The job goes on meanwhile.")
def command(
    run: Run,
    position: Position | Named,
    words: tuple[str, ...],
    pid: int | None,
    installables: tuple[str, ...],
    script: str | None,
    going: bool,
) -> int:
    """A shell in a fork of RUN at POSITION, or a COMMAND.

    It has a process's view of things: its files, user, working directory and environment; those of
    PID, else of the one that has the CPU, else of the builder. The job's processes are stopped
    (kill -CONT lets one go on). Nothing of it changes the run.

    The exit status is the shell's; 2 also if there can be none, and 128 and more for a signal.
    Without a terminal it works in a pipe. Pressing Ctrl-] three times leaves one that hangs.
    """
    from rewind.cli.forked import Shell, build_extras, run_shell

    if script is not None and words:
        raise Failure("there is -c and a command: one of them is to be run")
    with TraceReader(run.trace) as reader:
        position = located(run, reader, position)
        position = _last_step(reader, position)
        whose = _process(history(reader, position.step), position, pid)
    with tempfile.TemporaryDirectory(prefix="rewind-") as scratch:
        shell = Shell(
            pid=whose.pid,
            command=words,
            script=script,
            going=going,
            extras=build_extras(installables, Path(scratch)),
        )
        return run_shell(run, position, shell)


def _last_step(reader: TraceReader, position: Position) -> Position:
    """The same position, counted from the last step before it."""
    (record,) = reader.records(position.step, position.step)
    time = record.time + position.offset
    for record in reader.records(position.step):
        if record.time > time:
            break
        position = Position(record.step, time - record.time)
    return position


def _process(found: History, position: Position, pid: int | None) -> Process:
    """The process whose view is wanted.

    :raises Failure: if there is none.
    """
    living = [process for process in found.processes if process.last is None]
    if pid is None:
        if not living:
            raise Failure(f"the job's processes have all ended at {position}")
        for process in living:
            if any(thread.state == "runs" for thread in process.threads.values()):
                return process
        return living[0]
    for process in living:
        if process.pid == pid:
            return process
    for process in living:
        if pid in process.threads and process.threads[pid].last is None:
            raise Failure(f"{pid} is a thread of process {process.pid}")
    if any(process.pid == pid for process in found.processes):
        raise Failure(f"process {pid} has ended at {position}")
    raise Failure(f"there is no process {pid} at {position}")
