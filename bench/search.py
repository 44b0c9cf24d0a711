"""What a search costs, and which of the examples it finds."""

import json
import os
import re
import statistics
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from bench import store
from bench.cost import CommandError, say
from bench.table import Figure, limited, megabytes, seconds

SCHEDULES = 64
WITHIN = 5
"""The schedule by which `DIRECTED` is to have failed each example."""
DIRECTED = "directed"
OPTIONS = {"makefile": ["--cores", "2"]}
"""What an example is run with, if it needs more than the defaults."""

_STRATEGIES = re.compile(r"--strategy\s+\[([^\]]+)\]")

_START = """
import sys
sys.path.insert(0, sys.argv[1])
from rewind.search.__main__ import main
sys.exit(main())
"""

_SAMPLE = 0.05
"""Seconds between two looks at how much memory is in use."""


@attrs.frozen
class Check:
    """A call of ``rewind check`` that came to an answer."""

    wall: float
    report: dict[str, Any]

    @property
    def failed(self) -> list[int]:
        """The numbers of the schedules with another outcome."""
        return [entry["number"] for entry in self.report["tried"] if entry["changed"]]

    @property
    def tried(self) -> int:
        """How many schedules there were, the empty one left out."""
        return sum(entry["number"] > 0 for entry in self.report["tried"])


def check(example: str, *options: str) -> Check:
    """``rewind check`` of *example*, of which no search was made yet.

    :raises CommandError: if it fails.
    """
    rewind = store.build(".#rewind")[0] / "bin" / "rewind"
    # Searches and runs are named by it.
    name = f"{example}-{uuid.uuid4().hex[:8]}"
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as state:
        command = [str(rewind), "check", f".#{example}", "--name", name, "--json", *options]
        begin = time.perf_counter()
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "XDG_STATE_HOME": state},
        )
        wall = time.perf_counter() - begin
    if done.returncode not in (0, 1):
        raise CommandError(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return Check(wall, json.loads(done.stdout))


def measure(times: int) -> Iterable[Figure]:
    """``rewind check .#bank`` and its parts."""
    store.build(".#bank")
    say("rewind check .#bank")
    check("bank", "--schedules", "0")
    found = [check("bank") for _ in range(times)]
    walls = [one.wall for one in found]
    wall = statistics.median(walls)
    first = found[0].failed[0] if found[0].failed else 0
    yield limited(
        "`rewind check .#bank`, nothing of the search cached",
        wall, 8, seconds(wall), "8 s",
        f" (best {seconds(min(walls))}; schedule {first} fails)",
    )  # fmt: skip
    runs = found[0].report["runs"]
    yield limited("reduction of bank", runs, 40, f"{runs} runs", "40 runs")

    say(f"{SCHEDULES} schedules of bank-fixed")
    none = statistics.median(
        check("bank-fixed", "--schedules", "0").wall for _ in range(min(times, 3))
    )
    all_ = check("bank-fixed", "--schedules", str(SCHEDULES)).wall
    cores = os.cpu_count() or 1
    rate = SCHEDULES / (all_ - none) / cores
    yield Figure(
        "schedules of bank, which does not fail", f"{rate:.1f} a second and core",
        "at least 5", rate >= 5,
    )  # fmt: skip

    say("forks")
    with _request("bank") as (python, lib, file):
        done = subprocess.run(
            [*python, str(store.HERE / "forks.py"), lib, str(file), str(times * 3)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise CommandError(f"forks.py: status {done.returncode}\n{done.stderr}")
        ready = statistics.median(map(float, done.stdout.split()))
    yield limited("a fork is ready", ready, 0.04, seconds(ready), "40 ms")

    say("memory")
    peak = _memory("bank-fixed")
    yield limited(
        f"memory of a search of {SCHEDULES} schedules, machines included",
        peak, 2 << 30, megabytes(peak), "2 GB",
    )  # fmt: skip


@attrs.frozen
class Twin:
    """What is said of an example that was mended, where there is nothing to be said."""

    changed: int
    """Schedules with another outcome, ..."""
    tried: int
    """... of so many."""
    pairs: int
    """Pairs of accesses that nothing orders."""

    def __str__(self) -> str:
        return f"{self.changed} of {self.tried}"


@attrs.frozen
class Example:
    """What searches of an example, and of its fixed twin, have found."""

    name: str
    checks: dict[str, Check]
    """By strategy."""
    twin: Twin | None
    """None if it was not looked at."""

    @classmethod
    def measure(cls, name: str, strategies: Sequence[str], *, twins: bool) -> "Example":
        """Search *name* by each of *strategies*, and its twin, if *twins* are wanted."""
        options = OPTIONS.get(name, [])
        checks = {}
        mended = []
        for strategy in strategies:
            say(f"rewind check .#{name} --strategy {strategy}")
            chosen = [*options, "--strategy", strategy]
            checks[strategy] = check(name, *chosen)
            if twins:
                mended.append(check(f"{name}-fixed", *chosen))
        if not twins:
            return cls(name, checks, None)
        twin = Twin(
            changed=sum(len(one.failed) for one in mended),
            tried=sum(one.tried for one in mended),
            pairs=_unordered(f"{name}-fixed", options),
        )
        return cls(name, checks, twin)

    @property
    def cells(self) -> list[str]:
        """Its line in the table."""
        found = [
            f"{one.failed[0]}, {seconds(one.wall)}"
            if one.failed
            else f"none of {one.tried}, {seconds(one.wall)}"
            for one in self.checks.values()
        ]
        twin = [] if self.twin is None else [str(self.twin), str(self.twin.pairs)]
        return [f"`{self.name}`", *found, *twin]


def strategies() -> list[str]:
    """Those that ``rewind check`` has, in the order in which it names them."""
    rewind = store.build(".#rewind")[0] / "bin" / "rewind"
    said = subprocess.run(
        # Wide enough for the list to be on one line.
        [rewind, "check", "--help"], capture_output=True, text=True, check=True,
        env={**os.environ, "COLUMNS": "200"},
    ).stdout  # fmt: skip
    found = _STRATEGIES.search(said)
    if found is None:
        raise CommandError("`rewind check --help` names no strategies")
    return re.split(r"[|\s]+", found[1].strip())


def names() -> list[str]:
    """The examples that there is a fixed twin of."""
    return sorted(path.parent.name for path in Path("examples").glob("*/fix.patch"))


def examples(
    wanted: Sequence[str] | None, *, twins: bool
) -> tuple[list[str], list[list[str]], list[Figure]]:
    """Every example and its fixed twin: the head of a table, its lines, and what is to be met.

    :param wanted: the strategies; None: all that there are.
    :param twins: whether the fixed twins are looked at.
    """
    there = strategies()
    unknown = sorted(set(wanted or ()) - set(there))
    if unknown:
        raise CommandError(f"there is no strategy {unknown[0]}; there is {', '.join(there)}")
    chosen = [strategy for strategy in there if wanted is None or strategy in wanted]
    measured = []
    for name in names():
        measured.append(Example.measure(name, chosen, twins=twins))
        # It takes long, and what has been found need not wait for the rest.
        say(" | ".join(measured[-1].cells))
    head = [
        "example",
        *(f"{strategy}: first failing schedule, time" for strategy in chosen),
        *(("fixed: other outcomes", "fixed: unordered pairs") if twins else ()),
    ]
    figures = []
    if twins:
        wrong = sum(one.twin.changed for one in measured if one.twin is not None)
        what = "schedules under which a fixed example ends otherwise"
        figures.append(Figure(what, f"{wrong}", "0", wrong == 0))
    if DIRECTED in chosen:
        firsts = [one.checks[DIRECTED].failed[:1] for one in measured]
        soon = sum(bool(first) and first[0] <= WITHIN for first in firsts)
        what = f"examples that `{DIRECTED}` fails within {WITHIN} schedules"
        every = soon == len(measured)
        figures.append(Figure(what, f"{soon} of {len(measured)}", "all", every))
    return head, [one.cells for one in measured], figures


def _unordered(example: str, options: Sequence[str]) -> int:
    """How many pairs ``rewind races`` calls unordered in the run of *example*."""
    rewind = store.build(".#rewind")[0] / "bin" / "rewind"
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as state:
        env = {**os.environ, "XDG_STATE_HOME": state, "XDG_CACHE_HOME": state}
        made = _ask([rewind, "nix", f".#{example}", "--json", *options], env)
        found = _ask([rewind, "races", made["hash"], "--json"], env)
    return sum(pair["kind"] == "unordered" for pair in found["pairs"])


def _ask(command: Sequence[str | Path], env: Mapping[str, str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode not in (0, 1):
        words = " ".join(map(str, command))
        raise CommandError(f"{words}: status {done.returncode}\n{done.stderr}")
    return dict(json.loads(done.stdout))


@contextmanager
def _request(example: str) -> Iterator[tuple[list[str], str, Path]]:
    """The searcher's Python, its modules, and a file with the attributes of a search."""
    name = f"{example}-{uuid.uuid4().hex[:8]}"
    expression = (
        "{ nixpkgs }: let pkgs = import nixpkgs { }; "
        f"rewind = import {Path.cwd()}/lib {{ inherit pkgs; }}; "
        f"examples = import {Path.cwd()}/examples {{ inherit (pkgs) lib callPackage; }}; in "
        f'rewind.search {{ drv = examples.{example}; name = "{name}"; }}'
    )
    arguments = ["--impure", "--expr", expression, "--argstr", "nixpkgs"]
    drv = store.drv_path([*arguments, os.environ["REWIND_NIXPKGS"]])
    given = store.attributes(drv)
    builder = Path(store.derivation(drv)["builder"])
    # What it is made of, but not itself.
    inputs = [f"{path}^*" for path in _input_drvs(drv)]
    store.build(*inputs)
    python = builder.read_text().splitlines()[0].removeprefix("#!").split()
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
        file = Path(directory) / "attributes.json"
        file.write_text(json.dumps({**given, "outputs": {"out": f"{directory}/out"}}))
        yield python, str(builder.parents[1] / "lib"), file


def _input_drvs(drv: Path) -> list[str]:
    shown = store.derivation(drv)
    found = shown.get("inputDrvs") or shown.get("inputs", {}).get("drvs", {})
    return list(found)


def _memory(example: str) -> float:
    """Bytes that a search's processes and machines had in use when it was most."""
    with _request(example) as (python, lib, file):
        process = subprocess.Popen(
            [*python, "-c", _START, lib],
            env={"NIX_ATTRS_JSON_FILE": str(file), "TMPDIR": str(file.parent)},
            stdout=subprocess.DEVNULL,
        )
        over = threading.Event()
        peak = 0

        def sample() -> None:
            nonlocal peak
            while not over.wait(_SAMPLE):
                peak = max(peak, _in_use(process.pid))

        sampler = threading.Thread(target=sample)
        sampler.start()
        status = process.wait()
        over.set()
        sampler.join()
        if status:
            raise CommandError(f"the search ended with status {status}")
    return peak


def _in_use(pid: int) -> int:
    """Bytes of *pid* and its children that the host cannot drop, memory of machines included."""
    total = 0
    try:
        children = [
            child
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
        for process in (str(pid), *children):
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss_Anon:"):
                    total += int(line.split()[1]) << 10
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            # Shared by all that have it mapped, and there also if nobody has.
            if "memfd:rewind-" in str(entry.readlink()):
                total += entry.stat().st_blocks * 512
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return total
