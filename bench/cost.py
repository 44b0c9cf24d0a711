"""What something costs: time by the clock, and on a CPU.

The machine that measures may have other work. So everything is measured several times, what is
compared is measured by turns, and CPU time stands beside the clock's: others' work lengthens it
little.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs


@attrs.frozen(order=True)
class Cost:
    """Seconds: *wall* by the clock, *cpu* of a process and all it waited for."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s, {self.cpu:.2f} s of CPU"


@attrs.frozen
class Costs:
    """The same, measured several times."""

    each: tuple[Cost, ...]

    @property
    def wall(self) -> float:
        """The median."""
        return statistics.median(cost.wall for cost in self.each)

    @property
    def cpu(self) -> float:
        """The median."""
        return statistics.median(cost.cpu for cost in self.each)

    @property
    def best(self) -> float:
        """The shortest by the clock: what it takes when nobody disturbs."""
        return min(cost.wall for cost in self.each)

    @property
    def best_cpu(self) -> float:
        """The least on a CPU."""
        return min(cost.cpu for cost in self.each)


class CommandError(Exception):
    """A command that was to be measured failed."""


def output(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> tuple[Cost, bytes]:
    """What *command* costs, and what it writes to stdout.

    :raises CommandError: with what it wrote to stderr, if it fails.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        for file in (stdout, stderr):
            file.seek(0)
        if process.returncode:
            words = " ".join(map(str, command))
            said = stderr.read().decode(errors="replace")
            raise CommandError(f"{words}: status {process.returncode}\n{said}")
        return Cost(wall, usage.ru_utime + usage.ru_stime), stdout.read()


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Cost:
    """What *command* costs; what it writes is dropped.

    :raises CommandError: as `output` does.
    """
    return output(command, env=env, cwd=cwd)[0]


def by_turns(times: int, **candidates: Callable[[], Cost]) -> dict[str, Costs]:
    """What each of *candidates* costs, measured *times* times, one after the other in a round."""
    found: dict[str, list[Cost]] = {name: [] for name in candidates}
    for _ in range(times):
        for name, measure in candidates.items():
            found[name].append(measure())
    return {name: Costs(tuple(costs)) for name, costs in found.items()}


def several(times: int, measure: Callable[[], Cost]) -> Costs:
    """What *measure* costs, measured *times* times."""
    return by_turns(times, it=measure)["it"]


def say(text: str) -> None:
    """Tell on stderr what is being measured."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
