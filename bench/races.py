"""How often the examples fail on the host, where nothing but chance decides.

Each runs as often with all CPUs there are as with one, where only the kernel's clock and what a
program waits for takes the turn from it; and once more while ``stress-ng`` keeps every CPU and the
kernel busy, as often as `STRESSED` seconds allow.
"""

import math
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from bench import store
from bench.cost import CommandError, say

RUNS = 1000

STRESSED = 60.0
"""Seconds for those under stress."""

PATIENCE = 5.0
"""Seconds after which a program that has not ended never will."""


@attrs.frozen
class Failures:
    """Of *runs*: how many ended with another status than 0, and how many not at all."""

    runs: int
    failed: int
    hung: int

    def __str__(self) -> str:
        total = self.failed + self.hung
        return f"{total:,} ({self.hung:,} hung)" if self.hung else f"{total:,}"


def measure(runs: int = RUNS) -> tuple[list[str], list[list[str]]]:
    """Run what the check of each example runs: the head of a table, and its lines."""
    (programs,) = store.build(*store.jobs("races"))
    (stress,) = store.build(*store.jobs("stress"))
    rows = []
    for program in sorted(programs.iterdir()):
        say(f"{runs:,} times {program.name}, three times")
        free = _count(program, runs)
        with _one_cpu():
            pinned = _count(program, runs)
        with _stressed(stress / "bin" / "stress-ng"):
            stressed = _count(program, runs, STRESSED)
        rows.append(
            [f"`{program.name}`", str(free), str(pinned), f"{stressed} of {stressed.runs:,}"]
        )
    head = ["example", f"fails in {runs:,} runs", "on one CPU", "under `stress-ng`"]
    return head, rows


@contextmanager
def _stressed(stress: Path) -> Iterator[None]:
    """Two processes a CPU that compute, fork, switch and write, beside what is measured."""
    count = str(os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
        process = subprocess.Popen(
            [
                *(stress, "--temp-path", directory, "--quiet"),
                *("--cpu", count, "--switch", count, "--fork", "1", "--hdd", "1"),
                *("--hdd-bytes", "16m"),
            ],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            time.sleep(1)
            if process.poll() is not None:
                raise CommandError(f"{stress} ended with status {process.returncode}")
            yield
        finally:
            # It takes its own children with it.
            process.terminate()
            process.wait()


@contextmanager
def _one_cpu() -> Iterator[None]:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _count(program: Path, runs: int, limit: float = math.inf) -> Failures:
    """So many *runs* of *program*, or fewer if they take *limit* seconds."""
    failed = hung = done = 0
    end = time.monotonic() + limit
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as parent:
        while done < runs and time.monotonic() < end:
            directory = Path(parent) / str(done)
            directory.mkdir()
            status = _run(program, directory)
            if status is None:
                hung += 1
            elif status:
                failed += 1
            done += 1
    return Failures(done, failed, hung)


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
