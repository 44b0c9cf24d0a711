"""How often the examples fail on the host, where nothing but chance decides.

Each runs as often with all CPUs there are as with one, where only the kernel's clock and what a
program waits for takes the turn from it.
"""

import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from bench import store
from bench.cost import say
from bench.table import Figure

RUNS = 1000

PATIENCE = 5.0
"""Seconds after which a program that has not ended never will."""


@attrs.frozen
class Failures:
    """Of some runs: how many ended with another status than 0, and how many not at all."""

    failed: int
    hung: int

    def __str__(self) -> str:
        total = self.failed + self.hung
        return f"{total:,} ({self.hung:,} hung)" if self.hung else f"{total:,}"


def measure(runs: int = RUNS) -> Iterable[Figure]:
    """Run what the check of each example runs."""
    (programs,) = store.build(*store.jobs("races"))
    for program in sorted(programs.iterdir()):
        say(f"{runs:,} times {program.name}, twice")
        free = _count(program, runs)
        with _one_cpu():
            pinned = _count(program, runs)
        yield Figure(
            f"{program.name}: fails on the host, {runs:,} runs", f"{free}; on one CPU {pinned}"
        )


@contextmanager
def _one_cpu() -> Iterator[None]:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _count(program: Path, runs: int) -> Failures:
    failed = hung = 0
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as parent:
        for i in range(runs):
            directory = Path(parent) / str(i)
            directory.mkdir()
            status = _run(program, directory)
            if status is None:
                hung += 1
            elif status:
                failed += 1
    return Failures(failed, hung)


def _run(program: Path, directory: Path) -> int | None:
    """The exit status of *program*; None if it hangs."""
    process = subprocess.Popen(
        [program],
        cwd=directory,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pidfd = os.pidfd_open(process.pid)
    try:
        ended = bool(select.select([pidfd], [], [], PATIENCE)[0])
        # Also what it leaves behind. It is not waited for yet, and so the group is still its own.
        os.killpg(process.pid, signal.SIGKILL)
    finally:
        os.close(pidfd)
    status = process.wait()
    return status if ended else None
