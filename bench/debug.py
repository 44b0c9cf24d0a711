"""What gdb costs on a run: from its start, and backwards over many instructions."""

import json
import os
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import attrs

from bench import store
from bench.cost import CommandError, run, say
from bench.recorder import Run
from bench.table import Figure, limited, seconds

INSTRUCTIONS = 10_000_000
"""Over which the goal is."""
GOAL = 3.0

_POSITION = re.compile(r"^(\d+)(?:\+(\d+))?$", re.MULTILINE)
_TOOK = re.compile(r"^took ([\d.]+)$", re.MULTILINE)

# Each takes the time of what it does.
_TIMED = """
define timed
  python started = time.monotonic()
  $arg0
  python print("took %.4f" % (time.monotonic() - started))
end
"""


@attrs.frozen
class Session:
    """What gdb said, and how long each timed command took, in seconds."""

    said: str
    took: list[float]

    def positions(self) -> list[tuple[int, int]]:
        """The answers to ``monitor position``."""
        return [(int(step), int(offset or 0)) for step, offset in _POSITION.findall(self.said)]


@attrs.frozen
class Spin:
    """The run of spin, which goes round in two threads, at the end."""

    rewind: Path
    out: Path
    step: int
    cache: Path

    def gdb(self, *commands: str) -> Session:
        """gdb at the end of the run, in batch mode."""
        with tempfile.NamedTemporaryFile("w", suffix=".gdb") as script:
            script.write("\n".join(["python import time", _TIMED, *commands, ""]))
            script.flush()
            done = subprocess.run(
                [
                    *(self.rewind, "gdb", self.out, str(self.step)),
                    *("--", "-nx", "-batch", "-x", script.name),
                ],
                env={**os.environ, "XDG_CACHE_HOME": str(self.cache)},
                capture_output=True,
                text=True,
                check=True,
            )
        said = done.stdout + done.stderr
        return Session(said, [float(text) for text in _TOOK.findall(said)])

    def start(self) -> float:
        """Seconds from the command to gdb's end, with nothing for it to do."""
        return run(
            [self.rewind, "gdb", self.out, str(self.step), "--", "-nx", "-batch"],
            env={**os.environ, "XDG_CACHE_HOME": str(self.cache)},
        ).wall

    def events(self, last: int) -> list[dict[str, object]]:
        """The records up to the step *last*."""
        done = subprocess.run(
            [self.rewind, "events", self.out, "--json", "--to", str(last)],
            check=True,
            capture_output=True,
            text=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]


def measure(times: int) -> Iterable[Figure]:
    """gdb on spin: its start, single steps, and ``reverse-continue``."""
    say("building the run of spin, and what it needs")
    out = Run.build("spin").out
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
        rewind = store.build(".#rewind")[0] / "bin" / "rewind"
        spin = Spin(rewind, out, _end(rewind, out), Path(directory))
        # A keyframe there.
        spin.start()
        say("gdb")
        starts = [spin.start() for _ in range(times)]
        sessions = [
            spin.gdb(
                "monitor position",
                "break play",
                "timed reverse-continue",
                "monitor position",
                "timed stepi",
                "timed reverse-stepi",
                "delete",
                "continue",
                "watch turn",
                "timed reverse-continue",
            )
            for _ in range(times)
        ]
        distance = _distance(spin, *sessions[0].positions()[:2])
    back, step, step_back, watch = (
        statistics.median(session.took[number] for session in sessions) for number in range(4)
    )
    yield Figure("`rewind gdb` to its end, near a keyframe", seconds(statistics.median(starts)))
    rate = back * INSTRUCTIONS / distance
    yield limited(
        "`reverse-continue` to a breakpoint, over 10 M instructions",
        rate, GOAL, seconds(rate), f"{GOAL:g} s",
        f" ({seconds(back)} for {distance / 1e6:.0f} M)",
    )  # fmt: skip
    yield Figure("`reverse-continue` to the last write of a variable", seconds(watch))
    yield Figure("`stepi`", seconds(step))
    yield Figure("`reverse-stepi`", seconds(step_back))


def _distance(spin: Spin, end: tuple[int, int], begin: tuple[int, int]) -> int:
    """The instructions between two positions."""
    times = {record["step"]: record["time"] for record in spin.events(end[0])}

    def time(position: tuple[int, int]) -> int:
        step, offset = position
        known = max(int(str(s)) for s in times if int(str(s)) <= step)
        return int(str(times[known])) + offset

    return time(end) - time(begin)


def _end(rewind: Path, out: Path) -> int:
    """The step at which it says how many turns there were."""
    done = subprocess.run(
        [rewind, "events", out, "--json"], check=True, capture_output=True, text=True
    )
    for record in map(json.loads, done.stdout.splitlines()):
        if record.get("args", [0])[0] == 1 and " turns" in str(record.get("details")):
            return int(record["step"])
    raise CommandError("the run of spin does not say how many turns there were")
