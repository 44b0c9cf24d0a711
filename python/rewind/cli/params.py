"""Arguments and options that commands have in common."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from rewind.cli import places
from rewind.cli.errors import Failure
from rewind.formats import FormatError, schedule
from rewind.formats.schedule import Named, Position
from rewind.formats.spans import UNITS

SPAN_MAX = 10 * 365 * 86400
"""Seconds: the longest limit on a run's time that there can be."""

F = TypeVar("F", bound=Callable[..., Any])


class RunType(click.ParamType):
    """A run: a hash's beginning, ``@``, ``@2``, a name or a store path."""

    name = "run"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from rewind.cli import runs

        return runs.find(value) if isinstance(value, str) else value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from rewind.cli import runs

        try:
            known = [*runs.scan(), *runs.imported(), *runs.unbuilt()]
        except Failure:
            return []
        items = [CompletionItem(run.short, help=run.name) for run in known]
        items += [CompletionItem(name) for name in sorted({run.name for run in known})]
        return [item for item in items if item.value.startswith(incomplete)]


class Whole(click.IntRange):
    """A whole number from *min* to *max*, both included."""

    # What click calls a number that is none: "'x' is not a valid …".
    name = "whole number"

    def _describe_range(self) -> str:
        if self.max is None:
            return f"from {self.min:,} on"
        return f"from {self.min:,} to {self.max:,}"


class PositionType(click.ParamType):
    """A position in a run: ``STEP`` or ``STEP+N``, N instructions later.

    :param named: ``T:C+K`` is one, too, and gives a `rewind.formats.schedule.Named`.
    """

    name = "position"

    def __init__(self, *, named: bool = False) -> None:
        self._named = named

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, Position | Named):
            return value
        try:
            return schedule.parse_position(value) if self._named else Position.parse(value)
        except FormatError as error:
            raise Failure(str(error)) from None


class SpanType(click.ParamType):
    """A time span as ``10us``, ``1ms`` or ``1.5s``, in ns."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from decimal import Decimal

        if not isinstance(value, str):
            return value
        found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?(ns|us|µs|ms|s)", value, re.ASCII)
        if found is None:
            raise Failure(f"{value!r} is no time: write 10us, 1ms or 1.5s")
        # No float has all of these.
        ns = Decimal(found[1]) * UNITS[found[2].replace("µ", "u")]
        if ns != ns.to_integral_value() or not 0 < ns <= SPAN_MAX * UNITS["s"]:
            raise Failure(f"{value} is not a whole number of ns, from 1 to those of 10 years")
        return int(ns)


class ScheduleType(click.ParamType):
    """A schedule as JSON text, or a file with that."""

    name = "schedule"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        text = value
        try:
            if not value.lstrip().startswith("["):
                text = Path(value).read_text(encoding="utf-8")
            return schedule.from_json(text)
        except OSError as error:
            raise Failure(f"the schedule {value}: {error.strerror}") from None
        except (FormatError, UnicodeDecodeError) as error:
            raise Failure(str(error)) from None


class SizeType(click.ParamType):
    """A number of bytes, as ``500M`` or ``2G``."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        size = places.parse_size(value)
        if size is None:
            raise Failure(f"{value!r} is no size: write 500M or 2G")
        return size


def run_argument(function: F) -> F:
    """The argument RUN, as a `rewind.cli.runs.Run` that is built by then."""
    return run_arguments("run")(function)


def run_arguments(*names: str) -> Callable[[F], F]:
    """Arguments RUN, each a `rewind.cli.runs.Run` that is built by then.

    That may take long, and so comes last, when all other arguments have been found good.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(*args: Any, **arguments: Any) -> Any:
            from rewind.cli import keeping, runs

            for name in names:
                arguments[name] = runs.built(arguments[name])
                keeping.looked_at(arguments[name])
                click.get_current_context().with_resource(keeping.in_use(arguments[name]))
            return function(*args, **arguments)

        for name in reversed(names):
            wrapper = click.argument(name, metavar="RUN", type=RunType())(wrapper)
        return cast(F, wrapper)

    return decorate


def known_run_argument(function: F) -> F:
    """The argument RUN, as a `rewind.cli.runs.Run` that may be known and not built."""
    return click.argument("run", metavar="RUN", type=RunType())(function)


def json_option(function: F) -> F:
    """The option --json, as the argument ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")(function)


def schedule_option(function: F) -> F:
    """The option --schedule, as the argument ``perturbations``."""
    return click.option(
        "--schedule",
        "perturbations",
        type=ScheduleType(),
        help='Perturbations: JSON, such as [{"at": "33+5530", "stall": 1000000}], or its file.',
    )(function)


def root_options(function: F) -> F:
    """The options of a job in a root of its own: ``root``, ``cwd`` and ``env``."""
    options = (
        click.option(
            "--root",
            type=click.Path(path_type=Path),
            metavar="DIR|TARBALL|IMAGE",
            help="Run a command in this root directory, which Nix knows nothing of.",
        ),
        click.option("--cwd", metavar="DIR", help="Where in the root it starts; / by default."),
        click.option(
            "--env", multiple=True, metavar="NAME=VALUE", help="A variable of its environment."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def run_options(function: F) -> F:
    """The options of a run, but for its schedule."""
    from rewind.machine.qemu import MEMORY_MAX, MEMORY_MIN
    from rewind.recorder.request import CORES_MAX, EPOCH_MAX, EPOCH_MIN, TIME_LIMIT_MAX

    options = (
        click.option(
            "--epoch",
            type=Whole(EPOCH_MIN, EPOCH_MAX),
            metavar="S",
            help="The clock when it starts, in s since 1970.",
        ),
        click.option("--seed", help="What the kernel's random numbers start from."),
        click.option(
            "--cores", type=Whole(1, CORES_MAX), metavar="N", help="The CPUs that programs see."
        ),
        click.option(
            "--memory",
            type=Whole(MEMORY_MIN, MEMORY_MAX),
            metavar="MIB",
            help="The machine's memory.",
        ),
        click.option(
            "--time-limit",
            type=Whole(0, TIME_LIMIT_MAX),
            metavar="S",
            help="Guest time to end after; 0: none.",
        ),
        click.option("--name", help="The run's name; default: the derivation's."),
    )
    for option in reversed(options):
        function = option(function)
    return function
