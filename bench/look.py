"""What it costs to look into a run: from nothing, and near a keyframe."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import attrs

from bench import store
from bench.cost import CommandError, Cost, Costs, by_turns, run, say
from bench.recorder import Run
from bench.table import Figure, limited, seconds

STEPS = 500
"""From the keyframe to what is asked for: a little less than the 512 of the goal."""
MORE = 1.5
"""Seconds that an answer may take beside the run itself, if nothing is cached."""


@attrs.frozen
class Looks:
    """Questions about the run *out*; *near* is a cache with a keyframe near to *step*."""

    rewind: Path
    out: Path
    steps: int
    step: int
    near: Path

    def ask(self, command: str, step: int, *words: str, cached: bool) -> Cost:
        """A question, with a cache that nobody else has put anything into."""
        with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
            cache = Path(directory) / "cache"
            if cached:
                shutil.copytree(self.near, cache)
            return self._run(command, step, *words, cache=cache)

    def prepare(self) -> None:
        """Leave a keyframe `STEPS` steps before the place that is asked for."""
        self._run("where", self.step - STEPS, cache=self.near)

    def _run(self, command: str, step: int, *words: str, cache: Path) -> Cost:
        return run(
            [self.rewind, command, self.out, str(step), *words],
            env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        )


def measure(times: int) -> Iterable[Figure]:
    """``where``, ``cat`` and ``ps --all`` of bank."""
    say("building the run of bank, and what it needs")
    bank = Run.build("bank")
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
        rewind = store.build(".#rewind")[0] / "bin" / "rewind"
        steps, step = _places(rewind, bank.out)
        looks = Looks(rewind, bank.out, steps, step, Path(directory) / "near")
        looks.prepare()
        say("where, cat and ps --all")
        costs = by_turns(
            times,
            record=bank.record,
            nothing=lambda: looks.ask("where", looks.steps - 20, cached=False),
            where=lambda: looks.ask("where", looks.step, cached=True),
            cat=lambda: looks.ask("cat", looks.step, "/build/source/Makefile", cached=True),
            ps=lambda: looks.ask("ps", looks.step, "--all", cached=True),
        )
    own = costs["record"].wall
    nothing = costs["nothing"].wall
    yield limited(
        "`rewind where` at the end of bank, nothing cached",
        nothing - own, MORE, f"{seconds(nothing)}, and {seconds(own)} the run itself",
        f"{MORE} s more", _best(costs["nothing"]),
    )  # fmt: skip
    for name, command, goal in (
        ("where", "rewind where", 1.0),
        ("cat", "rewind cat", 0.5),
        ("ps", "rewind ps --all", 0.5),
    ):
        wall = costs[name].wall
        yield limited(
            f"`{command}`, {STEPS} steps after a keyframe",
            wall, goal, seconds(wall), f"{goal:g} s", _best(costs[name]),
        )  # fmt: skip


def _best(costs: Costs) -> str:
    return f" (best {seconds(costs.best)}, CPU {seconds(costs.cpu)})"


def _places(rewind: Path, out: Path) -> tuple[int, int]:
    """How many steps there are, and one at which a thread of bank writes its receipt.

    :raises CommandError: if none does.
    """
    done = subprocess.run(
        [rewind, "events", out, "--json"], check=True, capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    for line in lines:
        if "teller 2" in line:
            step = int(json.loads(line)["step"])
            if step > STEPS:
                return len(lines), step
    raise CommandError("the run of bank has no receipt")
