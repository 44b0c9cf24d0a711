"""``rewind hook``: what was built, recorded or checked afterwards."""

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from rewind.cli import nix
from rewind.cli.errors import Failure
from rewind.cli.output import count, say, say_json
from rewind.cli.params import json_option
from rewind.hook.queue import Queue
from rewind.hook.settings import Settings, SettingsError
from rewind.hook.worker import Trouble, Worker


@click.group("hook")
def command() -> None:
    """What Nix has built, recorded or checked afterwards.

    rewind-post-build-hook, as post-build-hook in nix.conf, queues what was built; hook run works
    that off. docs/hook.md says how both are told what is wanted.
    """


def _config(function: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The settings; default: REWIND_HOOK, or /etc/rewind/hook.json.",
    )(function)


@command.command("run")
@_config
@click.option("--once", is_flag=True, help="Do what there is to do, and end.")
def run(config: Path | None, once: bool) -> None:
    """Work off the queue."""
    settings = _settings(config)
    worker = Worker(settings, Queue(settings.queue), _say, _push, _sign)
    if not once:
        worker.forever()
    while worker.once():
        pass


@command.command("status")
@_config
@json_option
def status(config: Path | None, as_json: bool) -> None:
    """What waits, and what was given up."""
    queue = Queue(_settings(config).queue)
    waiting, failed = queue.names(), queue.failed()
    if as_json:
        say_json({"waiting": waiting, "failed": failed})
        return
    for name in waiting:
        say(f"waits   {name}")
    for name, reason in failed.items():
        say(f"failed  {name}: {reason}")
    if not waiting and not failed:
        say("nothing waits")


@command.command("retry")
@_config
def retry(config: Path | None) -> None:
    """Queue again what was given up."""
    number = Queue(_settings(config).queue).retry()
    say(f"{count(number, 'derivation')} queued again")


def _settings(config: Path | None) -> Settings:
    try:
        return Settings.load(config)
    except SettingsError as error:
        raise Failure(str(error)) from None


def _say(text: str) -> None:
    # A service's log is to have it at once.
    click.echo(text)


def _push(url: str, paths: Sequence[Path]) -> None:
    try:
        nix.nix("copy", "--to", url, *map(str, paths))
    except nix.NixFailure as error:
        raise Trouble(f"nix copy: {error}") from None


def _sign(key: Path, paths: Sequence[Path]) -> None:
    try:
        nix.nix("store", "sign", "--key-file", str(key), *map(str, paths))
    except nix.NixFailure as error:
        raise Trouble(f"nix store sign: {error}") from None
