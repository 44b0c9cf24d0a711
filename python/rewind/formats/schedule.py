"""Schedules: what perturbs a run, and where.

A schedule has two written forms: the lines that the device reads (docs/design.md, "Between
guest and device"), and the list that Nix expressions and the manifest hold::

    [ { at = "3237+41"; stall = 1000000; } { at = "3250"; reschedule = true; } ]

Neither carries a version: the first belongs to the device of the same machine, the second to
the manifest, which has one.
"""

import itertools
import json
import re
from collections.abc import Iterable
from typing import Any, Literal, Self, get_args

import attrs

from rewind.formats import FormatError

Kind = Literal["stall", "reschedule", "stop"]

MAX_PERTURBATIONS = 10_000
_U64 = 1 << 64
_POSITION = re.compile(r"(0|[1-9][0-9]{0,19})(?:\+(0|[1-9][0-9]{0,19}))?", re.ASCII)


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
        if self.kind not in get_args(Kind):
            raise FormatError(f"{self.kind!r} is no perturbation: stall, reschedule or stop is")
        if (self.kind == "stall") != (self.ns > 0) or not 0 <= self.ns < _U64:
            raise FormatError(
                f"a {self.kind} of {self.ns} ns: a stall needs a length, nothing else has one"
            )

    @property
    def position(self) -> Position:
        """Where it happens."""
        return Position(self.step, self.offset)


Schedule = tuple[Perturbation, ...]


def ordered(perturbations: Iterable[Perturbation]) -> Schedule:
    """The schedule of *perturbations*, in order of position.

    :raises FormatError: if two are at the same position, or there are too many.
    """
    schedule = tuple(sorted(perturbations))
    if len(schedule) > MAX_PERTURBATIONS:
        raise FormatError(
            f"the schedule has {len(schedule):,} perturbations; at most {MAX_PERTURBATIONS:,} work"
        )
    for before, after in itertools.pairwise(schedule):
        if before.position == after.position:
            raise FormatError(f"the schedule has two perturbations at {after.position}")
    return schedule


def to_device(schedule: Schedule) -> str:
    """The file that the device reads: a line ``STEP OFFSET KIND NS`` each."""
    return "".join(f"{p.step} {p.offset} {p.kind} {p.ns}\n" for p in ordered(schedule))


def from_device(text: str) -> Schedule:
    """Read what `to_device` wrote.

    :raises FormatError: if a line is not of that form.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match line.split():
            case [step, offset, "stall" | "reschedule" | "stop" as kind, ns] if all(
                field.isascii() and field.isdigit() and len(field) <= 20
                for field in (step, offset, ns)
            ):
                found.append(Perturbation(int(step), int(offset), kind, int(ns)))
            case _:
                raise FormatError(f"line {number} of the schedule is no perturbation: {line!r}")
    return ordered(found)


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


def _perturbation(entry: object) -> Perturbation:
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
    position = Position.parse(at)
    return Perturbation(position.step, position.offset, kind, ns)


def from_json(text: str) -> Schedule:
    """Read a schedule from JSON text.

    :raises FormatError: if *text* is not JSON, or no schedule.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the schedule is not JSON: {error}") from None
    return from_data(data)
