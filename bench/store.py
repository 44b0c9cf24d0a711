"""What bench asks of Nix."""

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.cost import CommandError

HERE = Path(__file__).resolve().parent


def nix(*arguments: str | Path, cwd: Path | None = None) -> str:
    """What ``nix`` writes to stdout.

    :raises CommandError: with what it wrote to stderr, if it fails.
    """
    command = ["nix", "--extra-experimental-features", "nix-command flakes", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    if done.returncode:
        raise CommandError(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return done.stdout


def jobs(attribute: str) -> list[str]:
    """The arguments that mean *attribute* of jobs.nix."""
    nixpkgs = os.environ["REWIND_NIXPKGS"]
    return ["--file", str(HERE / "jobs.nix"), "--argstr", "nixpkgs", nixpkgs, attribute]


def build(*installable: str) -> list[Path]:
    """Build *installable*, and the paths of its outputs, in order of their names."""
    return [
        Path(line) for line in nix("build", "--no-link", "--print-out-paths", *installable).split()
    ]


def drv_path(installable: Sequence[str]) -> Path:
    """The .drv of *installable*; evaluated, not built."""
    return Path(nix("path-info", "--derivation", *installable).strip())


def derivation(drv: Path) -> Mapping[str, Any]:
    """What *drv* says, in the form of Nix 2.18 to 2.31 and of later ones."""
    shown = json.loads(nix("derivation", "show", f"{drv}"))
    (found,) = (shown.get("derivations") or shown).values()
    result: Mapping[str, Any] = found
    return result


def attributes(drv: Path) -> dict[str, Any]:
    """The structured attributes of *drv*, as its builder gets them."""
    shown = derivation(drv)
    found = shown.get("structuredAttrs") or json.loads(shown["env"]["__json"])
    return dict(found)


def delete(paths: Iterable[Path]) -> None:
    """Remove *paths* from the store, if nothing needs them."""
    for path in paths:
        subprocess.run(["nix", "store", "delete", str(path)], capture_output=True)
