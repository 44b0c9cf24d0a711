"""report.cbor: what a search came to.

The file is one CBOR map (RFC 8949) in canonical form. Its first keys are ``format``
("rewind-search") and ``version``; the others are the fields of `Report`, by name. Beside it are the
traces of the two runs that are the same until the deciding position, ``failing.trace`` and
``passing.trace``, and their schedules as Nix reads them, ``failing.json`` and ``passing.json``.

Nothing of the host is in it: the same search makes the same report, on every machine, in however
many parts.
"""

import io
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, Union, get_args, get_origin

import attrs
import cbor2

from rewind.formats import FormatError, schedule
from rewind.formats.manifest import Outcome, Output
from rewind.formats.schedule import NamedPerturbation, Perturbation, Schedule

FORMAT = "rewind-search"
VERSION = 2
MAX_BYTES = 256 << 20
"""A report that is larger is refused unread."""

Verdict = Literal["same", "differs", "fails", "alone"]
"""Every schedule has the same outcome; one has another; the job fails whatever the schedule; only
one task of the job can run at any time, so that there is nothing to put into another order."""


@attrs.frozen(kw_only=True)
class Tried:
    """A schedule that was run; number 0 is the unperturbed run."""

    number: int
    schedule: Schedule
    outcome: Outcome
    outputs: Mapping[str, Output]
    steps: int
    guest_time: int
    """ns."""
    trace: str
    """SHA-256 of the records."""
    changed: bool
    """Whether the outcome is another than the unperturbed run's; if that failed: a success."""


@attrs.frozen(kw_only=True)
class Place:
    """Where a thread is, in its own program."""

    text: str
    """``function (file:line)``, or what is known of it."""
    function: str | None
    file: str | None
    line: int | None
    why: str | None
    """Why there is no source line, if there is none."""


@attrs.frozen(kw_only=True)
class Waiting:
    """A thread that waited when its run ended in a hang."""

    pid: int
    tid: int
    program: str
    call: int | None
    """The system call that it was in."""
    args: tuple[int, ...]
    place: Place | None
    what: str = ""
    """What it waited for, in words after "waits", as far as the kernel's structures tell."""


@attrs.frozen(kw_only=True)
class Side:
    """One of the two runs that are the same until the deciding position."""

    schedule: Schedule
    time_limit: int
    """Seconds of guest time."""
    outcome: Outcome
    outputs: Mapping[str, Output]
    steps: int
    trace: str
    """SHA-256 of the records."""
    waiting: tuple[Waiting, ...]


@attrs.frozen(kw_only=True)
class Deciding:
    """The perturbation that decides, at the last position at which it does."""

    step: int
    offset: int
    kind: str
    ns: int
    pid: int
    tid: int
    """Of the thread that it met; 0 if it met none of the job's."""
    place: Place | None


@attrs.frozen(kw_only=True)
class Analysis:
    """What was seen of conflicting accesses in the unperturbed run."""

    inverted: int
    """Pairs of locks that are taken in either order."""
    unordered: int
    """Pairs of accesses that nothing orders."""
    atomics: int
    """Pairs that only atomic accesses have ordered."""
    incomplete: bool
    """Whether there was more than could be kept in mind."""
    error: str | None
    """Why there is nothing of it."""


@attrs.frozen(kw_only=True)
class Access:
    """A thread's access to memory, in the run with the deciding perturbation."""

    step: int
    offset: int
    pid: int
    tid: int
    """0 if it can't be told."""
    write: bool
    place: Place | None


@attrs.frozen(kw_only=True)
class Explanation:
    """What the deciding perturbation has put into another order."""

    variable: str | None
    """What the program calls the memory."""
    address: int
    before: Access | None
    """What the thread that was perturbed had read before."""
    between: Access
    """What another one did then."""
    after: Access
    """What the first one was kept from until then."""


@attrs.frozen(kw_only=True)
class Odds:
    """The schedules by random priorities of a depth that were run; see `rewind.search.pct`."""

    depth: int
    schedules: int
    threads: int
    points: int
    length: int
    """ns."""


@attrs.frozen(kw_only=True)
class Report:
    """What a search was asked for, and what it came to."""

    name: str
    drv: str
    """The job's .drv, as text."""
    system: str
    schedule: Schedule
    """The unperturbed run's: empty, unless the search began with a run that has one."""
    epoch: int
    seed: str
    cores: int
    memory: int
    time_limit: int
    """Seconds of guest time, of the unperturbed run."""
    limit: int
    """Seconds of guest time, of every other schedule."""

    schedules: int
    first: int
    """The first step at which a perturbation could be."""
    every: bool
    ignore_outputs: bool
    strategy: str

    verdict: Verdict
    cut_short: bool
    """The host's time was up before all schedules were run."""
    tried: tuple[Tried, ...]
    drawn: int
    """How many schedules there were."""
    runs: int
    """How many runs it took to find the deciding position."""
    deciding: Deciding | None
    analysis: Analysis | None
    """None if no accesses were looked at."""
    explanation: Explanation | None
    odds: tuple[Odds, ...]
    failing: Side | None
    passing: Side | None

    def to_cbor(self) -> bytes:
        """The file's bytes."""
        data: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        data |= {field.name: _plain(getattr(self, field.name)) for field in attrs.fields(Report)}
        return cbor2.dumps(data, canonical=True)

    @classmethod
    def from_cbor(cls, data: bytes) -> Self:
        """Read a report.

        :raises FormatError: if *data* is no report, is damaged, or of a newer version.
        """
        stream = io.BytesIO(data)
        try:
            value = cbor2.load(stream)
        # A damaged file can make the decoder raise nearly anything; see manifest.py.
        except Exception as error:
            raise FormatError(f"the report is damaged: {error}") from None
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise FormatError("this is no report of a search")
        version = value.get("version")
        if version not in range(1, VERSION + 1):
            raise FormatError(
                f"the report is of version {version}; this rewind reads versions up to {VERSION}"
            )
        fields = {name: value[name] for name in value if name not in ("format", "version")}
        if version == 1:
            fields |= {"analysis": None, "explanation": None, "odds": []}
        report: Self = structure(cls, fields)
        sides = report.failing is not None and report.passing is not None
        if not report.tried or (report.verdict == "differs") != sides:
            raise FormatError("the report is damaged: it does not have the runs that it tells of")
        return report

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the report in the file *path*.

        :raises FormatError: as `from_cbor`, with the file's name.
        """
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise FormatError(f"{path}: {error.strerror}") from None
        if len(data) > MAX_BYTES:
            raise FormatError(f"{path}: this is no report of a search: it is too large")
        try:
            return cls.from_cbor(data)
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from None


def limit_of(outcome: Outcome, guest_time: int, unperturbed: int, schedules: int) -> int:
    """The time limit, in seconds, that the run of a schedule is named with.

    A limit matters only to a run that meets it. It is the one of the *unperturbed* run, if with
    that one it is the same run, and else the one that *schedules* have, which may be longer.
    """
    meets = unperturbed and guest_time >= unperturbed * 1_000_000_000
    return schedules if meets or outcome.kind == "timed-out" else unperturbed


def dump(values: tuple[Tried, ...]) -> bytes:
    """What a shard leaves: the schedules that it ran."""
    return cbor2.dumps([_plain(value) for value in values], canonical=True)


def undump(path: Path) -> tuple[Tried, ...]:
    """Read what `dump` made.

    :raises FormatError: if the file is none of that kind.
    """
    try:
        data = cbor2.loads(path.read_bytes())
    except Exception as error:
        raise FormatError(f"{path}: {error}") from None
    tried: tuple[Tried, ...] = structure(tuple[Tried, ...], data)
    return tried


def plain(value: object) -> Any:
    """*value* as what JSON can hold."""
    return _plain(value)


_PERTURBATIONS = (Perturbation, NamedPerturbation)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple) and value and isinstance(value[0], _PERTURBATIONS):
        return schedule.to_data(value)
    if attrs.has(type(value)):
        return {
            field.name: _plain(getattr(value, field.name)) for field in attrs.fields(type(value))
        }
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    return value


def structure(kind: Any, data: Any) -> Any:
    """*data* as a value of the type *kind*: attrs classes, and what is in them here.

    :raises FormatError: if it is none.
    """
    if kind == Schedule:
        return schedule.from_data(data)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if data is None and type(None) in args:
            return None
        return structure(next(arg for arg in args if arg is not type(None)), data)
    if origin is Literal:
        if data not in args:
            raise FormatError(f"the report is damaged: {data!r} is not what it should be")
        return data
    if origin is tuple and isinstance(data, list):
        return tuple(structure(args[0], entry) for entry in data)
    if origin is not None and isinstance(data, dict):
        return {str(name): structure(args[1], entry) for name, entry in data.items()}
    if attrs.has(kind) and isinstance(data, dict):
        hints = typing.get_type_hints(kind)
        names = [field.name for field in attrs.fields(kind)]
        if set(names) != set(data):
            raise FormatError(f"the report is damaged: it has no {kind.__name__} where it should")
        return kind(**{name: structure(hints[name], data[name]) for name in names})
    if (
        isinstance(kind, type)
        and isinstance(data, kind)
        and isinstance(data, bool) == (kind is bool)
    ):
        return data
    raise FormatError(f"the report is damaged: {data!r} is not what it should be")
