"""The command line: ``rewind``."""

import contextlib
import importlib
import os
import signal
import sys
from types import FrameType

import click

from rewind import __version__
from rewind.cli.errors import Failure, Interrupted
from rewind.formats import FormatError

_COMMANDS = {
    "nix": "Record the build of a derivation.",
    "run": "Record a command in a directory or container that has nothing to do with Nix.",
    "check": "Look for a schedule under which a build ends otherwise.",
    "show": "The command line that makes a run again.",
    "ls": "The runs in the store.",
    "log": "What a run's build wrote.",
    "events": "What a run's programs did.",
    "ps": "A run's processes.",
    "threads": "Who had the CPU.",
    "where": "Where a thread is in its program, at a step.",
    "gdb": "gdb on a process of a run, forwards and backwards.",
    "races": "Accesses of threads to the same memory that nothing orders.",
    "who-wrote": "The last instruction that wrote to memory.",
    "cat": "A file as it was at a step.",
    "ls-files": "What was in a directory at a step.",
    "shell": "A shell in a fork of a run.",
    "replay": "Make a run again, and compare.",
    "compare": "Where two runs part.",
    "fork": "Another run, perturbed at a position of one.",
    "export": "A run as a file.",
    "import": "A run from a file.",
    "bookmark": "Notes at positions of a run.",
    "hook": "What Nix has built, recorded or checked afterwards.",
    "gc": "Remove what nobody looks at any more.",
    "doctor": "What works here, and the mend for what does not.",
}


class _Commands(click.Group):
    """The commands in `rewind.cli.commands`; a module is imported when it is needed."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would end the process with status 1.
            raise Interrupted(signal.SIGPIPE) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"rewind.cli.commands.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="rewind %(version)s")
def cli() -> None:
    """Replayable runs of Nix builds, down to which thread ran when.

    A RUN is the beginning of its hash, a name, a store path, or @ for the newest, @2 for the one
    before it, and so on.

    The exit status is 0 for the same outcome, 1 if it differs, 2 for an error.
    """


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)


def _standard_streams() -> bool:
    """See that files opened later do not take the place of closed stdin, stdout or stderr.

    False if stdout is closed.
    """
    closed = sys.stdout is None
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        # Python has None for what was closed when it started.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
    return not closed


def main() -> None:
    """The entry point: run the command line, and end the process."""
    if not _standard_streams():
        sys.exit(_fail("stdout is closed: there is nowhere to answer"))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _terminate)
    sys.exit(run())


def run() -> int:
    """Run the command line; its exit status."""
    try:
        status = cli.main(prog_name="rewind", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "rewind"
        return _fail(f"{_lower(error.format_message())} ({path} --help)")
    except click.ClickException as error:
        return _fail(_lower(error.format_message()))
    except Failure as error:
        return _fail(str(error), error.log)
    except FormatError as error:
        return _fail(str(error))
    except BrokenPipeError:
        return _interrupted(signal.SIGPIPE)
    except (KeyboardInterrupt, click.Abort):
        return _interrupted(signal.SIGINT)
    except Interrupted as error:
        return _interrupted(error.signal)
    except OSError as error:
        return _fail(
            f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
        )


def _interrupted(number: int) -> int:
    if number == signal.SIGPIPE:
        # Who read the answer has had enough. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + number


def _lower(sentence: str) -> str:
    """A sentence of click's in our style."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _fail(sentence: str, log: str = "") -> int:
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    # Where nobody can be told, the status still says it.
    with contextlib.suppress(OSError):
        if log:
            sys.stderr.write(log.rstrip("\n") + "\n")
        sys.stderr.write(f"rewind: {sentence}\n")
    return 2
