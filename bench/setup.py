"""The first set-up, from nothing: with an empty /nix and an empty cache, on the disk.

It is done in a mount namespace of its own, in which an empty directory is /nix, and so neither uses
nor changes what the machine has. It needs root, as ./nixw's private Nix does.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from bench.commands import commit, copy_tracked
from bench.cost import CommandError, say
from bench.table import Figure, limited, seconds

STAND_IN = 60.0
WHOLE = 15 * 60.0
"""Seconds: the goals."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def measure(parent: Path) -> list[Figure]:
    """Set up in a directory below *parent*, which is removed at the end."""
    if os.geteuid() != 0:
        raise CommandError("the first set-up can be measured by root alone")
    scratch = Path(tempfile.mkdtemp(prefix="rewind-bench-", dir=parent))
    try:
        for name in ("nix", "home", "tmp"):
            (scratch / name).mkdir()
        checkout = scratch / "checkout"
        copy_tracked(Path.cwd(), checkout)
        commit(checkout)
        say("set-up: the private Nix and the stand-in for nixpkgs")
        stand_in = _nixw(scratch, "--version")
        say("set-up: everything else, up to the first recorded run")
        rest = _nixw(scratch, "run", ".#rewind", "--", "nix", ".#bank")
        say("set-up: once more, with all of it there")
        again = _nixw(scratch, "run", ".#rewind", "--", "nix", ".#bank")
        sizes = _size(scratch / "nix"), _size(scratch / "home")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    whole = stand_in + rest
    return [
        limited(
            "first set-up: Nix and the stand-in", stand_in, STAND_IN, seconds(stand_in), "1 min"
        ),
        limited("first set-up and first run, from nothing", whole, WHOLE, seconds(whole), "15 min"),
        Figure("`./nixw run .#rewind -- nix .#bank` when all is there", seconds(again)),
        Figure(
            "disk after set-up", f"/nix {sizes[0] / 1e9:.1f} GB, cache {sizes[1] / 1e6:,.0f} MB"
        ),
    ]


def _nixw(scratch: Path, *arguments: str) -> float:
    """How long ``./nixw`` with *arguments* takes."""
    script = 'mount --bind "$1/nix" /nix && shift && exec ./nixw "$@"'
    # /nix has to be there to be mounted on.
    Path("/nix").mkdir(exist_ok=True)
    begin = time.perf_counter()
    done = subprocess.run(
        [
            *("unshare", "--mount", "--propagation", "private"),
            *("bash", "-c", script, "bash", str(scratch), *arguments),
        ],
        cwd=scratch / "checkout",
        env={
            "PATH": _PATH,
            "HOME": str(scratch / "home"),
            "TMPDIR": str(scratch / "tmp"),
            "REWIND_NIXW": "private",
            "TERM": "dumb",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    took = time.perf_counter() - begin
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-30:])
        raise CommandError(f"./nixw {' '.join(arguments)}: status {done.returncode}\n{tail}")
    return took


def _size(path: Path) -> int:
    listed = subprocess.run(["du", "-s", "-B1", path], capture_output=True, text=True).stdout
    return int(listed.split()[0])
