"""Runs as files: how large they are, and how long one takes to be read elsewhere."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench import store
from bench.cost import CommandError, Cost, run, say, several
from bench.recorder import Run
from bench.table import Figure, limited, megabytes, seconds

RECORDS = 500_000


def measure(times: int) -> Iterable[Figure]:
    """``rewind export`` of bank's failing run, and ``rewind import`` and ``log`` of a long one."""
    rewind = store.build(".#rewind")[0] / "bin" / "rewind"
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
        scratch = Path(directory)
        environment = {**os.environ, "XDG_STATE_HOME": str(scratch / "state")}
        say("the failing run of bank")
        yield from _sizes(rewind, scratch, environment)
        say("building the run of files, and what it needs")
        files = Run.build("files")
        say("import and log")
        target = scratch / "files.rwd"
        run([rewind, "export", files.out, "--no-places", "-o", target], env=environment)
        costs = several(times, lambda: _read(rewind, target))
    yield limited(
        f"`rewind import` and `log` of a file of {RECORDS:,} records or more",
        costs.wall, 2, seconds(costs.wall), "2 s",
        f" (best {seconds(costs.best)}, CPU {seconds(costs.cpu)})",
    )  # fmt: skip


def _sizes(rewind: Path, scratch: Path, environment: Mapping[str, str]) -> Iterable[Figure]:
    done = subprocess.run(
        [rewind, "check", ".#bank", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 1:
        raise CommandError("rewind check finds no run of bank that fails")
    failing = json.loads(done.stdout)["hashes"]["failing"]
    for words, what, goal in (
        ((), "", 1e6),
        (("--replayable",), ", replayable", 120e6),
    ):
        target = scratch / "bank.rwd"
        cost = run([rewind, "export", failing, "-o", target, *words], env=environment)
        size = target.stat().st_size
        yield limited(
            f"`rewind export` of bank's failing run{what}",
            size, goal, megabytes(size), megabytes(goal), f", in {seconds(cost.wall)}",
        )  # fmt: skip


def _read(rewind: Path, target: Path) -> Cost:
    """Import *target* where there is no run yet, and read its log."""
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
        (Path(directory) / "store").mkdir()
        environment = {
            **os.environ,
            "XDG_STATE_HOME": directory,
            # A store without runs: what is there is compared.
            "NIX_STORE_DIR": f"{directory}/store",
        }
        taken = run([rewind, "import", target], env=environment)
        (made,) = (Path(directory) / "rewind" / "imported").glob("*-rewind-run-*")
        read = run([rewind, "log", made], env=environment)
    return Cost(taken.wall + read.wall, taken.cpu + read.cpu)
