"""manifest.cbor: all that names a run, and its outcome.

The file is one CBOR map (RFC 8949) in canonical form, so that equal manifests are equal bytes.
Its first keys are ``format`` ("rewind-manifest") and ``version``; the others are the fields of
`Manifest`, by name.
"""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args

import attrs
import cbor2

from rewind.formats import FormatError, nixbase32, schedule
from rewind.formats.schedule import Came, Position, Schedule, Steps

FORMAT = "rewind-manifest"
VERSION = 1
MAX_BYTES = 16 << 20
"""A manifest that is larger is refused unread."""

T = TypeVar("T")
Kind = Literal["exited", "signaled", "timed-out", "stalled", "stopped"]


@attrs.frozen
class Outcome:
    """How a job ended.

    *value* is the exit status if *kind* is "exited", the signal's number if it is "signaled",
    and 0 otherwise: the run passed its limit on guest time, nothing was left that could ever
    run again, or the schedule stopped it.
    """

    kind: Kind
    value: int = 0

    def __attrs_post_init__(self) -> None:
        limit = {"exited": 256, "signaled": 128}.get(self.kind, 1)
        if self.kind not in get_args(Kind) or not 0 <= self.value < limit:
            raise FormatError(f"{self.kind} {self.value} is no outcome of a run")

    @property
    def success(self) -> bool:
        """Whether Nix would call the build a success."""
        return self.kind == "exited" and self.value == 0

    def __str__(self) -> str:
        return f"{self.kind} {self.value}" if self.kind in ("exited", "signaled") else self.kind


@attrs.frozen
class Output:
    """An output that the job made: its store path, and hash and size of its NAR."""

    path: str
    nar_hash: str
    """``sha256:`` and Nix's base 32, as in a narinfo file."""
    nar_size: int

    def __attrs_post_init__(self) -> None:
        algorithm, _, digits = self.nar_hash.partition(":")
        try:
            good = algorithm == "sha256" and len(nixbase32.decode(digits)) == 32
        except ValueError:
            good = False
        if not good or self.nar_size < 0:
            raise FormatError(f"{self.nar_hash!r} of {self.nar_size} bytes is no NAR")


@attrs.frozen(kw_only=True)
class Manifest:
    """What a run is (everything up to *layers*) and what happened in it."""

    name: str
    drv: str
    """The job's .drv, as text: the run does not depend on it."""
    system: str
    schedule: Schedule
    epoch: int
    """Wall clock at the job's start, seconds since 1970."""
    seed: str
    """What the kernel's random number generator was given."""
    cores: int
    memory: int
    """MiB."""
    time_limit: int
    """Seconds of guest time, 0 for none."""
    machine: str
    """The machine's store path."""
    layers: tuple[str, ...]
    """Store paths of the layers, the lowest first."""
    outcome: Outcome
    steps: int
    start: int
    """Guest time at which the job started, in ns since the machine did."""
    end: int
    """Guest time at which the run ended, in ns since the machine started."""
    outputs: Mapping[str, Output]
    """The outputs that the job made, by name."""
    messages: tuple[str, ...]
    """What init and the kernel had to say, in order."""
    came: Came | None = None
    """Where the schedule's perturbations came; None if the recorder was one that did not say."""

    def __attrs_post_init__(self) -> None:
        if self.came is not None and (
            len(self.came) != len(self.schedule)
            or any(at is not None and at.step >= self.steps for at in self.came)
        ):
            raise FormatError("the manifest is damaged: came is not what it should be")

    @property
    def guest_time(self) -> int:
        """How long the job took, in ns of guest time."""
        return self.end - self.start

    @property
    def arrivals(self) -> Came:
        """Where the schedule's perturbations came, in its order.

        What came without the recorder's telling was at a step: it came there if the run did.
        """
        if self.came is not None:
            return self.came
        return tuple(
            at if isinstance(at := one.position, Position) and at.step < self.steps else None
            for one in self.schedule
        )

    @property
    def steps_perturbed(self) -> Steps:
        """The schedule as it came, all by steps: it makes this very run, too."""
        return schedule.resolved(self.schedule, self.arrivals)

    def to_cbor(self) -> bytes:
        """The file's bytes."""
        data = attrs.asdict(self, recurse=False)
        data |= {
            "format": FORMAT,
            "version": VERSION,
            "schedule": schedule.to_data(self.schedule),
            "layers": list(self.layers),
            "outcome": attrs.asdict(self.outcome),
            "outputs": {name: attrs.asdict(output) for name, output in self.outputs.items()},
            "messages": list(self.messages),
        }
        if self.came is None:
            del data["came"]
        else:
            data["came"] = [None if at is None else str(at) for at in self.came]
        return cbor2.dumps(data, canonical=True)

    @classmethod
    def from_cbor(cls, data: bytes) -> Self:
        """Read a manifest.

        :raises FormatError: if *data* is no manifest, is damaged, or of a newer version.
        """
        stream = io.BytesIO(data)
        try:
            value = cbor2.load(stream)
        # A damaged file can make the decoder raise nearly anything: it builds dates, patterns
        # and fractions from tags.
        except Exception as error:
            raise FormatError(f"the manifest is damaged: {error}") from None
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise FormatError("this is no manifest of a run")
        version = value.get("version")
        if version != VERSION:
            raise FormatError(
                f"the manifest is of version {version}; this rewind reads version {VERSION}"
            )
        if stream.read(1):
            raise FormatError("the manifest is damaged: something follows its end")
        return cls(
            **{
                name: _field(value, name, kind)
                for name, kind in (
                    *((name, str) for name in ("name", "drv", "system", "seed", "machine")),
                    *((name, int) for name in ("epoch", "cores", "memory", "time_limit")),
                    *((name, int) for name in ("steps", "start", "end")),
                )
            },
            schedule=schedule.from_data(_field(value, "schedule", list)),
            layers=_strings(value, "layers"),
            outcome=_object(Outcome, value.get("outcome"), kind=str, value=int),
            outputs={
                str(name): _object(Output, output, path=str, nar_hash=str, nar_size=int)
                for name, output in _field(value, "outputs", dict).items()
            },
            messages=_strings(value, "messages"),
            came=_came(value.get("came")),
        )

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the manifest in the file *path*.

        :raises FormatError: as `from_cbor`, with the file's name.
        """
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise FormatError(f"{path}: {error.strerror}") from None
        if len(data) > MAX_BYTES:
            raise FormatError(f"{path}: this is no manifest of a run: it is too large")
        try:
            return cls.from_cbor(data)
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from None


def _field(value: Mapping[Any, Any], name: str, kind: type) -> Any:
    field = value.get(name)
    if not isinstance(field, kind) or isinstance(field, bool):
        raise FormatError(f"the manifest is damaged: {name} is not what it should be")
    return field


def _strings(value: Mapping[Any, Any], name: str) -> tuple[str, ...]:
    field = _field(value, name, list)
    if not all(isinstance(entry, str) for entry in field):
        raise FormatError(f"the manifest is damaged: {name} is not what it should be")
    return tuple(field)


def _came(field: object) -> Came | None:
    if field is None:
        return None
    if not isinstance(field, list) or not all(isinstance(at, str | None) for at in field):
        raise FormatError("the manifest is damaged: came is not what it should be")
    return tuple(None if at is None else Position.parse(at) for at in field)


def _object(cls: type[T], data: object, /, **fields: type) -> T:
    if not isinstance(data, dict):
        raise FormatError(f"the manifest is damaged: {data!r} is not what it should be")
    return cls(**{name: _field(data, name, kind) for name, kind in fields.items()})
