"""What a search is told: the structured attributes of its derivation (lib/search.nix).

They are those of a run, with these besides:

``schedules``, ``from``, ``all``, ``ignoreOutputs``, ``strategy``
    see `rewind.search.engine.Bounds`;
``seconds``
    of the host's time that looking for a schedule may take, or null;
``shards``, ``shard``
    of every ``shards`` schedules only number ``shard`` is run, and ``out`` gets no report but
    what was tried; ``shard`` is null for a search as a whole;
``parts``
    what the shards made: a search that has them runs no schedule that they did.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs

from rewind.recorder.request import RunRequest
from rewind.search import SearchError
from rewind.search.engine import Bounds
from rewind.search.generate import STRATEGIES

SCHEDULES_MAX = 100_000


@attrs.frozen(kw_only=True)
class SearchRequest:
    """A search that is to be made."""

    run: RunRequest
    bounds: Bounds
    seconds: float | None
    shard: int | None
    parts: tuple[Path, ...]
    kernel: Path
    """The kernel with its debug information."""
    races: Path
    """The plugin that looks at accesses to memory."""
    inputs: tuple[Path, ...]
    """Where the job's inputs are, whose debug information may be needed."""
    out: Path

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> Self:
        """Read a derivation's attributes.

        :raises RequestError: if something in what concerns the run makes no sense.
        :raises SearchError: if something in what concerns the search does not.
        """
        # The runs of a search are not kept: none of them has a place for its NARs.
        outputs = data.get("outputs")
        out = outputs.get("out") if isinstance(outputs, Mapping) else None
        run = RunRequest.parse({**data, "outputs": {"out": out, "nars": out}})
        shards = _number(data, "shards", 1, SCHEDULES_MAX)
        shard = None if data.get("shard") is None else _number(data, "shard", 0, shards - 1)
        strategy = data.get("strategy")
        if strategy not in STRATEGIES:
            raise SearchError(
                f"there is no strategy {strategy!r}; there is {', '.join(sorted(STRATEGIES))}"
            )
        seconds = data.get("seconds")
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and not (number and seconds > 0):
            raise SearchError(f"a search takes more than {seconds!r} seconds")
        return cls(
            run=run,
            bounds=Bounds(
                schedules=_number(data, "schedules", 0, SCHEDULES_MAX),
                first=_number(data, "from", 0, (1 << 63) - 1),
                every=data.get("all") is True,
                ignore_outputs=data.get("ignoreOutputs") is True,
                strategy=strategy,
                shard=shard or 0,
                shards=shards if shard is not None else 1,
            ),
            seconds=seconds,
            shard=shard,
            parts=_paths(data, "parts"),
            kernel=_path("kernel", data.get("kernel")),
            races=_path("races", data.get("races")),
            inputs=_paths(data, "inputs"),
            out=run.out,
        )


def _number(data: Mapping[str, Any], name: str, least: int, most: int) -> int:
    value = data.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SearchError(f"{name} is a number from {least:,} to {most:,}, not {value!r}")
    return value


def _path(name: str, value: object) -> Path:
    if not isinstance(value, str):
        raise SearchError(f"the attribute {name} is {value!r}, which is not what it should be")
    return Path(value)


def _paths(data: Mapping[str, Any], name: str) -> tuple[Path, ...]:
    values = data.get(name, [])
    if not isinstance(values, list):
        raise SearchError(f"the attribute {name} is {values!r}, which is not what it should be")
    return tuple(_path(name, value) for value in values)
