"""``rewind log``: what a run's build wrote."""

import shutil
import sys

import click

from rewind.cli import params
from rewind.cli.errors import Failure
from rewind.cli.output import say, say_json
from rewind.cli.runs import Run
from rewind.cli.writes import Line, written
from rewind.formats.trace import TraceReader


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
    for line in found:
        say(f"{'' if line.step is None else line.step:>{width}}  {_text(line)}")


def _text(line: Line) -> str:
    return line.text.decode("utf-8", "backslashreplace")
