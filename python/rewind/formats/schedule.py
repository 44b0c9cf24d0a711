"""Schedules: what perturbs a run, and where.

A schedule has two written forms: the lines that the device reads (docs/design.md, "Between
guest and device"), and the list that Nix expressions and the manifest hold::

    [ { at = "3237+41"; stall = 1000000; } { at = "12:3+437"; reschedule = true; } ]

A position is either a step of the run, or named by a task: what happened before in other tasks
makes other steps of a run, and leaves the named positions where they are. Neither form carries a
version: the first belongs to the device of the same machine, the second to
the manifest, which has one.
"""

import itertools
import json
import re
from collections.abc import Iterable
from typing import Any, Literal, Self, get_args

import attrs

from rewind.formats import FormatError
from rewind.formats.spans import span

Kind = Literal["stall", "reschedule", "stop"]

MAX_PERTURBATIONS = 10_000
_U64 = 1 << 64
_POSITION = re.compile(r"(0|[1-9][0-9]{0,19})(?:\+(0|[1-9][0-9]{0,19}))?", re.ASCII)
_NAMED = re.compile(r"([1-9][0-9]{0,19}):(0|[1-9][0-9]{0,19})(?:\+(0|[1-9][0-9]{0,19}))?", re.ASCII)


@attrs.frozen(order=True)
class Position:
    """A point of a run: *offset* instructions after the record *step* was taken."""

    step: int
    offset: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``STEP`` or ``STEP+N``.

        :raises FormatError: if *text* is neither.
        """
        match = _POSITION.fullmatch(text.replace(",", ""))
        if match is None or any(int(number) >= _U64 for number in match.groups("0")):
            raise FormatError(f"{text!r} is no position: write STEP or STEP+N, such as 3237+41")
        return cls(int(match[1]), int(match[2] or 0))

    def __str__(self) -> str:
        return f"{self.step}+{self.offset}" if self.offset else str(self.step)


@attrs.frozen(order=True)
class Named:
    """A point of a run, named by a task of the job.

    It is the first moment at which task number *task*, by order of appearance from 1 on, has begun
    *call* system calls and executed *offset* instructions in user mode since the last of them. (0
    calls: since it began.)
    """

    task: int
    call: int
    offset: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``T:C`` or ``T:C+K``.

        :raises FormatError: if *text* is neither.
        """
        match = _NAMED.fullmatch(text.replace(",", ""))
        if match is None or any(int(number) >= _U64 for number in match.groups("0")):
            raise FormatError(
                f"{text!r} is no position: T:C+K is one, such as 12:3+437, with a task's number"
                " from 1 on, its calls, and its instructions since"
            )
        return cls(int(match[1]), int(match[2]), int(match[3] or 0))

    def __str__(self) -> str:
        more = f"+{self.offset}" if self.offset else ""
        return f"{self.task}:{self.call}{more}"


def parse_position(text: str) -> Position | Named:
    """Read a position in either form.

    :raises FormatError: if *text* is none.
    """
    return Named.parse(text) if ":" in text else Position.parse(text)


def _check(kind: str, ns: int) -> None:
    if kind not in get_args(Kind):
        raise FormatError(f"{kind!r} is no perturbation: stall, reschedule or stop is")
    if (kind == "stall") != (ns > 0) or not 0 <= ns < _U64:
        raise FormatError(f"a {kind} of {ns} ns: a stall needs a length, nothing else has one")


@attrs.frozen(order=True)
class Perturbation:
    """One change to a run: what happens at a position.

    *ns* is how long the running task sleeps, in nanoseconds of guest time; 0 unless it is a
    stall.
    """

    step: int
    offset: int
    kind: Kind
    ns: int = 0

    def __attrs_post_init__(self) -> None:
        if not (0 <= self.step < _U64 and 0 <= self.offset < _U64):
            raise FormatError(f"the position {self.step}+{self.offset} is out of range")
        _check(self.kind, self.ns)

    @property
    def position(self) -> Position:
        """Where it happens."""
        return Position(self.step, self.offset)


@attrs.frozen(order=True)
class NamedPerturbation:
    """A `Perturbation` at a position that is named by a task."""

    position: Named
    kind: Kind
    ns: int = 0

    def __attrs_post_init__(self) -> None:
        at = self.position
        if not (0 < at.task < _U64 and 0 <= at.call < _U64 and 0 <= at.offset < _U64):
            raise FormatError(f"the position {at} is out of range")
        _check(self.kind, self.ns)


Steps = tuple[Perturbation, ...]
"""A schedule all of whose positions are steps."""
Schedule = tuple[Perturbation | NamedPerturbation, ...]
Came = tuple[Position | None, ...]
"""Where the perturbations of a schedule came in a run, in its order; None: never."""


def perturbation(
    position: Position | Named, kind: Kind, ns: int = 0
) -> Perturbation | NamedPerturbation:
    """What happens at *position*, of either form.

    :raises FormatError: if it makes no sense.
    """
    if isinstance(position, Named):
        return NamedPerturbation(position, kind, ns)
    return Perturbation(position.step, position.offset, kind, ns)


def _order(one: Perturbation | NamedPerturbation) -> tuple[object, ...]:
    """Steps come first: of a named position only the run tells where it is."""
    return (isinstance(one, NamedPerturbation), one.position, one.kind, one.ns)


def ordered(perturbations: Iterable[Perturbation | NamedPerturbation]) -> Schedule:
    """The schedule of *perturbations*: by step, then those at named positions, by these.

    :raises FormatError: if two are at the same position, or there are too many.
    """
    schedule = tuple(sorted(perturbations, key=_order))
    if len(schedule) > MAX_PERTURBATIONS:
        raise FormatError(
            f"the schedule has {len(schedule):,} perturbations; at most {MAX_PERTURBATIONS:,} work"
        )
    for before, after in itertools.pairwise(schedule):
        if before.position == after.position:
            raise FormatError(f"the schedule has two perturbations at {after.position}")
    return schedule


def resolved(schedule: Schedule, came: Came) -> Steps:
    """The perturbations of *schedule* that came, each at the step and offset at which it did.

    The run of *schedule* for which *came* is so is, to the byte, the run of these: it is the same
    up to the first, and so up to the second, and so on. Two may be at the same position, if a named
    one came just where another was.
    """
    found = [
        Perturbation(at.step, at.offset, one.kind, one.ns)
        for one, at in zip(schedule, came, strict=True)
        if at is not None
    ]
    return tuple(sorted(found, key=lambda one: one.position))


def in_words(one: Perturbation | NamedPerturbation) -> str:
    """What *one* does, and where: ``a stall of 3 ms at 12:3+437``."""
    what = f"a stall of {span(one.ns)}" if one.kind == "stall" else f"a {one.kind}"
    return f"{what} at {one.position}"


NAMED_MOST = 5
"""How many perturbations a sentence names."""


def never_came(schedule: Schedule, came: Came) -> str | None:
    """A sentence on what of *schedule* never came; None if all did."""
    missing = [in_words(one) for one, at in zip(schedule, came, strict=True) if at is None]
    if not missing:
        return None
    what = "perturbation" if len(schedule) == 1 else "perturbations"
    more = len(missing) - NAMED_MOST
    if more > 0:
        missing[NAMED_MOST:] = [f"{more:,} more"]
    number = len(missing) if more <= 0 else NAMED_MOST + more
    return f"{number:,} of {len(schedule):,} {what} never came: {', '.join(missing)}"


def device_line(one: Perturbation | NamedPerturbation) -> str:
    """The line of *one* in the file that the device reads."""
    at = one.position
    where = f"{at.task}:{at.call}" if isinstance(at, Named) else str(at.step)
    return f"{where} {at.offset} {one.kind} {one.ns}\n"


def to_device(schedule: Schedule) -> str:
    """The file that the device reads.

    A line ``STEP OFFSET KIND NS`` each, or ``TASK:CALL INSTRUCTIONS KIND NS``.
    """
    return "".join(map(device_line, ordered(schedule)))


def from_device(text: str) -> Schedule:
    """Read what `to_device` wrote.

    :raises FormatError: if a line is not of that form.
    """
    found: list[Perturbation | NamedPerturbation] = []
    for number, line in enumerate(text.splitlines(), 1):
        match line.replace(":", " : ").split():
            case [step, offset, "stall" | "reschedule" | "stop" as kind, ns] if _numbers(
                step, offset, ns
            ):
                found.append(Perturbation(int(step), int(offset), kind, int(ns)))
            case [task, ":", call, offset, "stall" | "reschedule" | "stop" as kind, ns] if _numbers(
                task, call, offset, ns
            ):
                at = Named(int(task), int(call), int(offset))
                found.append(NamedPerturbation(at, kind, int(ns)))
            case _:
                raise FormatError(f"line {number} of the schedule is no perturbation: {line!r}")
    return ordered(found)


def _numbers(*fields: str) -> bool:
    return all(field.isascii() and field.isdigit() and len(field) <= 20 for field in fields)


def to_data(schedule: Schedule) -> list[dict[str, Any]]:
    """The schedule as the list of JSON objects that Nix takes and the manifest holds."""
    return [
        {"at": str(p.position), p.kind: p.ns if p.kind == "stall" else True}
        for p in ordered(schedule)
    ]


def from_data(data: object) -> Schedule:
    """Read what `to_data` makes.

    :raises FormatError: if *data* is not such a list.
    """
    if not isinstance(data, list):
        raise FormatError('a schedule is a list such as [ { "at": "3237+41", "stall": 1000000 } ]')
    return ordered(_perturbation(entry) for entry in data)


def _perturbation(entry: object) -> Perturbation | NamedPerturbation:
    match entry:
        case {"at": str(at), "stall": int(ns), **rest} if not rest and not isinstance(ns, bool):
            kind: Kind = "stall"
        case {"at": str(at), "reschedule": True, **rest} if not rest:
            kind, ns = "reschedule", 0
        case {"at": str(at), "stop": True, **rest} if not rest:
            kind, ns = "stop", 0
        case _:
            raise FormatError(
                f"{entry!r} is no perturbation: it takes at, and one of stall (in ns),"
                " reschedule = true and stop = true"
            )
    return perturbation(parse_position(at), kind, ns)


def from_json(text: str) -> Schedule:
    """Read a schedule from JSON text.

    :raises FormatError: if *text* is not JSON, or no schedule.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the schedule is not JSON: {error}") from None
    return from_data(data)
