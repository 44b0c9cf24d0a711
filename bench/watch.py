"""What it costs to watch a replay."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs

from bench import store
from bench.cost import Cost, by_turns, run, say
from bench.recorder import Run
from bench.table import Figure, limited, seconds

MOST = 15
"""Times the replayed stretch that `who-wrote` may take."""
MOST_RACES = 2.5
"""Times the plain replay that `races` may take, ..."""
MOST_RACES_ACCESSES = 4
"""... and where next to all that is done is 100 million accesses."""


@attrs.frozen
class Watched:
    """Replays of *job*."""

    job: Run
    program: list[Path]
    """A Python, the script and its first arguments."""

    @classmethod
    def build(cls, job: Run) -> "Watched":
        """With what it takes."""
        (python,) = store.build(*store.jobs("python"))
        (plugin,) = store.build(".#plugin")
        (kernel,) = store.build(".#kernel^dev")
        script = store.HERE / "watched.py"
        program = [python / "bin" / "python3", script, plugin / "lib" / "watch.so"]
        return cls(job, [*program, kernel / "vmlinux"])

    def replay(self, mode: str, told: str = "{}") -> Cost:
        """What a whole replay costs."""
        with self.job.request() as (_, env):
            file = env.pop("NIX_ATTRS_JSON_FILE")
            return run([*self.program, file, mode, told], env={**os.environ, **env})

    def find(self) -> str:
        """What can be watched in it."""
        with self.job.request() as (_, env):
            file = env.pop("NIX_ATTRS_JSON_FILE")
            done = subprocess.run(
                [*self.program, file, "find"], check=True, capture_output=True, text=True
            )
            return done.stdout


def measure(times: int) -> Iterable[Figure]:
    """The plugin in its modes, and ``who-wrote``, on bank."""
    say("building the run of bank, and what it needs")
    bank = Run.build("bank")
    watched = Watched.build(bank)
    rewind = store.build(".#rewind")[0] / "bin" / "rewind"
    step = _end(rewind, bank.out)
    told = watched.find()

    def replayed(mode: str) -> Callable[[], Cost]:
        return lambda: watched.replay(mode, told)

    def ask(*words: str) -> Callable[[], Cost]:
        def once() -> Cost:
            with tempfile.TemporaryDirectory(prefix="rewind-bench-") as cache:
                command = [rewind, words[0], bank.out, str(step), *words[1:]]
                return run(command, env={**os.environ, "XDG_CACHE_HOME": cache})

        return once

    def races(job: Run, pairs: int) -> Callable[[], Cost]:
        def once() -> Cost:
            with tempfile.TemporaryDirectory(prefix="rewind-bench-") as cache:
                # It has some, and says so by its exit status.
                command = ["sh", "-c", f'test "$("$@" | grep -c ^unordered)" = {pairs}', "sh"]
                command += [str(rewind), "races", str(job.out)]
                return run(command, env={**os.environ, "XDG_CACHE_HOME": cache})

        return once

    say("replays, watched and not, and who-wrote")
    modes = {
        "idle": "idle",
        "breakpoints": "with breakpoints",
        "steps": "with each instruction of a process a hit",
        "accesses": "with watched memory of a process",
        "physical": "with a watched physical address",
    }
    costs = by_turns(
        times,
        plain=replayed("plain"),
        **{mode: replayed(mode) for mode in modes},
        where=ask("where"),
        who=ask("who-wrote", "balance"),
        races=races(bank, 3),
    )
    plain = costs["plain"]
    for mode, what in modes.items():
        yield Figure(
            f"watched replay of bank, {what}",
            f"{costs[mode].cpu / plain.cpu:.1f} times the CPU time of {seconds(plain.cpu)}",
        )
    cost = costs["races"].cpu
    yield limited(
        "`rewind races` of bank, nothing cached",
        cost / plain.cpu, MOST_RACES,
        f"{cost / plain.cpu:.1f} times the CPU time of a plain replay", f"{MOST_RACES} times",
    )  # fmt: skip
    say("races of 100 million accesses")
    accesses = Run.build("accesses")
    replayed_accesses = Watched.build(accesses)
    many = by_turns(
        times,
        plain=lambda: replayed_accesses.replay("plain"),
        races=races(accesses, 4),
    )
    ratio = many["races"].cpu / many["plain"].cpu
    yield limited(
        "`rewind races` of 100 million accesses, nothing cached",
        ratio, MOST_RACES_ACCESSES,
        f"{ratio:.1f} times the CPU time of a plain replay", f"{MOST_RACES_ACCESSES} times",
    )  # fmt: skip
    stretch, who = costs["where"].wall, costs["who"].wall
    yield limited(
        "`rewind who-wrote` near the end of bank, nothing cached",
        who / stretch, MOST,
        f"{seconds(who)}, {who / stretch:.1f} times `where` there", f"{MOST} times",
    )  # fmt: skip


def _end(rewind: Path, out: Path) -> int:
    """The step at which bank prints its balance."""
    done = subprocess.run(
        [rewind, "events", out, "--json"], check=True, capture_output=True, text=True
    )
    (step,) = (
        json.loads(line)["step"]
        for line in done.stdout.splitlines()
        if '"balance ' in line and '"enter"' in line
    )
    return int(step)
