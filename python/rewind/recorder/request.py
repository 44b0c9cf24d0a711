"""What a recorder is told: the structured attributes of its derivation (`rewind.recorder`)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs

from rewind.formats import FormatError, schedule
from rewind.formats.job import Closure, Job
from rewind.formats.schedule import Schedule
from rewind.machine import MachineError, qemu
from rewind.machine.settings import Settings
from rewind.machine.snapshot import Snapshot

CORES_MAX = 64
"""What the driver can show: an affinity mask of one word."""
EPOCH_MIN = 1
"""Seconds; Linux sets no clock to before its boot, a fraction of a second ago."""
EPOCH_MAX = 8_277_292_035
"""Seconds, in the year 2232; Linux leaves room for an uptime of 30 years
(timespec64_valid_settod in include/linux/time64.h)."""
TIME_LIMIT_MAX = 10 * 365 * 86400
"""Seconds of guest time: QEMU counts nanoseconds with 63 bits."""


class RequestError(Exception):
    """What the recorder was told makes no sense; the text is a sentence for the user."""


def attributes(path: Path) -> Mapping[str, Any]:
    """The structured attributes in the file *path*.

    :raises RequestError: if there are none.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RequestError(f"the derivation's attributes can't be read: {error}") from None
    if not isinstance(data, dict):
        raise RequestError(f"{path} holds no attributes of a derivation")
    return data


@attrs.frozen(kw_only=True)
class SnapshotRequest:
    """A boot snapshot that is to be made."""

    settings: Path
    memory: int
    """MiB."""
    out: Path

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """Read a derivation's attributes.

        :raises RequestError: if something in them is missing or makes no sense.
        """
        memory = _get(data, "memory", int)
        try:
            qemu.check_memory(memory)
        except MachineError as error:
            raise RequestError(str(error)) from None
        return cls(
            settings=Path(_get(data, "settings", str)),
            memory=memory,
            out=Path(_get(_get(data, "outputs", dict), "out", str)),
        )


@attrs.frozen(kw_only=True)
class RunRequest:
    """A run that is to be made."""

    name: str
    settings: Path
    snapshot: Snapshot | None
    layers: tuple[Path, ...]
    job: Job
    closures: Mapping[str, Closure]
    """By the names in the job's ``exportReferencesGraph``."""
    shell: str
    schedule: Schedule
    epoch: int
    seed: str
    cores: int
    memory: int
    """MiB."""
    time_limit: int
    """Seconds of guest time, 0 for none."""
    drv: str
    system: str
    out: Path
    nars: Path

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """Read a derivation's attributes, and the small files they name.

        :raises RequestError: if something in them is missing or makes no sense.
        """
        try:
            return cls._parse(data)
        except (FormatError, MachineError) as error:
            raise RequestError(str(error)) from None

    @classmethod
    def _parse(cls, data: Mapping[str, Any]) -> Self:
        settings = Path(_get(data, "settings", str))
        memory = _get(data, "memory", int)
        qemu.check_memory(memory)
        job = Job.load(Path(_get(data, "job", str)))
        if len(job.outputs) > qemu.OUTPUTS_MAX:
            raise RequestError(
                f"the job has {len(job.outputs)} outputs; at most {qemu.OUTPUTS_MAX} work"
            )
        perturbations = schedule.from_data(data.get("schedule"))
        if any(perturbation.kind == "stop" for perturbation in perturbations):
            # A machine that is stopped waits for somebody to look at it.
            raise RequestError("a run's schedule can stall and reschedule, but not stop")
        outputs = _get(data, "outputs", dict)
        return cls(
            name=_get(data, "jobName", str),
            settings=settings,
            snapshot=_snapshot(data.get("snapshot"), settings, memory),
            layers=_layers(_get(data, "layers", list)),
            job=job,
            closures=_closures(job, data),
            shell=_get(data, "shell", str),
            schedule=perturbations,
            epoch=_number(data, "epoch", EPOCH_MIN, EPOCH_MAX),
            seed=_get(data, "seed", str),
            cores=_number(data, "cores", 1, CORES_MAX),
            memory=memory,
            time_limit=_number(data, "timeLimit", 0, TIME_LIMIT_MAX),
            drv=_get(data, "drv", str),
            system=_get(data, "system", str),
            out=Path(_get(outputs, "out", str)),
            nars=Path(_get(outputs, "nars", str)),
        )


def _snapshot(path: object, settings: Path, memory: int) -> Snapshot | None:
    if path is None:
        return None
    snapshot = Snapshot.load(Path(str(path)))
    if snapshot.memory != memory:
        raise RequestError(
            f"the boot snapshot is one with {snapshot.memory:,} MiB, not with {memory:,}: {path}"
        )
    if snapshot.machine != Settings.load(settings).guest():
        raise RequestError(f"the boot snapshot is one of another machine: {path}")
    return snapshot


def _layers(paths: list[Any]) -> tuple[Path, ...]:
    layers = tuple(Path(str(path)) for path in paths)
    if not 1 <= len(layers) <= qemu.LAYERS_MAX:
        raise RequestError(f"a run has 1 to {qemu.LAYERS_MAX} layers, not {len(layers)}")
    for layer in layers:
        try:
            size = layer.stat().st_size
        except OSError as error:
            raise RequestError(f"a layer can't be read: {error}") from None
        if not 0 < size <= qemu.LAYER_MAX:
            raise RequestError(
                f"the closure of the job's inputs does not fit: the layer {layer} has "
                f"{size:,} bytes, and at most {qemu.LAYER_MAX:,} can be seen in the machine"
            )
    return layers


def _closures(job: Job, data: Mapping[str, Any]) -> Mapping[str, Closure]:
    keys = data.get("graphs", {})
    closures = {}
    for name in job.graphs():
        closure = data.get(str(keys.get(name))) if isinstance(keys, dict) else None
        if not isinstance(closure, list):
            raise RequestError(f"the closure for {name} of exportReferencesGraph is missing")
        closures[name] = closure
    return closures


def _get(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise RequestError(f"the attribute {name} is {value!r}, which is not what it should be")
    return value


def _number(data: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value: int = _get(data, name, int)
    if not least <= value <= most:
        raise RequestError(f"{name} is from {least} to {most:,}, not {value:,}")
    return value
