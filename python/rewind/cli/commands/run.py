"""``rewind run``: record a command in a root directory that has nothing to do with Nix."""

from pathlib import Path

import click

from rewind.cli import params, rooted
from rewind.cli.commands.nix import make
from rewind.cli.errors import Failure
from rewind.cli.output import say_json
from rewind.cli.recording import Options
from rewind.formats.schedule import Schedule


# What follows COMMAND is the command's, whether it begins with a - or not.
@click.command("run", context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="[--] COMMAND [ARG]...", nargs=-1)
@params.root_options
@params.run_options
@params.schedule_option
@params.json_option
def command(
    words: tuple[str, ...],
    root: Path | None,
    cwd: str | None,
    env: tuple[str, ...],
    epoch: int | None,
    seed: str | None,
    cores: int | None,
    memory: int | None,
    time_limit: int | None,
    name: str | None,
    perturbations: Schedule | None,
    as_json: bool,
) -> int:
    """Record a command in a root directory: a directory, a tarball as `docker export` writes it, or
    an erofs image.

    It runs as root, in the machine that builds are run in, and what it writes to its root is gone
    afterwards. The log goes to stderr as it comes. Then: the run's hash and outcome; all other
    commands know it by its hash. The exit status is 0 when there is a run, however COMMAND ended.
    """
    if root is None:
        raise Failure(
            "what is COMMAND to run in? --root DIR|TARBALL|IMAGE (of a build: rewind nix)"
        )
    options = Options(
        name=name,
        schedule=perturbations,
        epoch=epoch,
        seed=seed,
        cores=cores,
        memory=memory,
        time_limit=time_limit,
    )
    made = make(rooted.job(root, words, cwd, env), options)
    if as_json:
        say_json(made.data())
    else:
        made.say()
    made.check_memory()
    return 0
