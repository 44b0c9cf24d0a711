"""Runs everything that can be tested, and ends with a line ``N passed, N failed``.

Four parts: the flake's checks (what fits Nix's sandbox); and what starts nix, so that it does
not fit: those of the Nix functions, the end-to-end tests of the command line, and those of
./nixw. Started in a checkout, by ``nix run .#test`` or ``./nixw run .#test``; arguments choose
parts: ``checks``, ``lib``, ``e2e``, ``nixw``.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

SYSTEM = "x86_64-linux"


class Tally:
    """Counts results and prints each."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def add(self, name: str, good: bool, seconds: float | None = None) -> None:
        """Takes down one result."""
        self.passed += good
        self.failed += not good
        took = "" if seconds is None else f"  {seconds:.1f} s"
        print(f"{'ok  ' if good else 'FAIL'}  {name}{took}", flush=True)


def nix(*arguments: str, check: bool = True) -> str:
    """The standard output of a nix command; its errors go to ours."""
    run = subprocess.run(["nix", *arguments], stdout=subprocess.PIPE, text=True, check=check)
    return run.stdout


def run_checks(tally: Tally) -> None:
    """Evaluates the flake as ``nix flake check`` does, and builds every check."""
    good = subprocess.run(["nix", "flake", "check", "--no-build"]).returncode == 0
    tally.add("flake: evaluates", good)
    if not good:
        return
    to_paths = "builtins.mapAttrs (_: check: check.outPath)"
    paths = json.loads(nix("eval", "--json", f".#checks.{SYSTEM}", "--apply", to_paths))
    start = time.monotonic()
    references = [f".#checks.{SYSTEM}.{name}" for name in paths]
    # No -L: one of the recorded builds writes 100 MB. What fails is shown with its last lines.
    subprocess.run(["nix", "build", "--no-link", "--keep-going", "--log-lines", "60", *references])
    print(f"checks took {time.monotonic() - start:.0f} s", flush=True)
    for name, path in sorted(paths.items()):
        valid = subprocess.run(["nix", "path-info", path], capture_output=True).returncode == 0
        tally.add(f"check: {name}", valid)


def run_e2e(tally: Tally) -> None:
    """The command line's tests, by pytest."""
    (rewind,) = nix("build", "--no-link", "--print-out-paths", ".#rewind").split()
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=10",
             f"--junitxml={report}", "tests/e2e"],
            env={**os.environ, "REWIND": f"{rewind}/bin/rewind", "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        if not report.exists():
            tally.add("e2e: pytest", False)
            return
        for case in ElementTree.parse(report).iter("testcase"):
            skipped = case.find("skipped")
            if skipped is not None:
                print(f"skip  e2e: {case.get('name')}: {skipped.get('message')}", flush=True)
                continue
            bad = any(case.find(tag) is not None for tag in ("failure", "error"))
            tally.add(f"e2e: {case.get('name')}", not bad, float(case.get("time", "0")))


def run_script(tally: Tally, part: str, *command: str) -> None:
    """A script that prints ``ok NAME`` and ``FAIL NAME`` for its tests."""
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    failed = tally.failed
    any_result = False
    for line in run.stdout:
        verdict, _, name = line.strip().partition(" ")
        if verdict in ("ok", "FAIL"):
            tally.add(f"{part}: {name.strip()}", verdict == "ok")
            any_result = True
        else:
            print(line, end="", flush=True)
    if (run.wait() != 0 and tally.failed == failed) or not any_result:
        tally.add(f"{part}: ended as it should", False)


def run_lib(tally: Tally) -> None:
    """What of the Nix functions' tests needs more than pure evaluation."""
    run_script(tally, "lib", "tests/lib/run", os.environ["REWIND_NIXPKGS"])


def run_nixw(tally: Tally) -> None:
    """./nixw's own tests."""
    run_script(tally, "nixw", "bash", "tests/nixw.sh")


PARTS = {"checks": run_checks, "lib": run_lib, "e2e": run_e2e, "nixw": run_nixw}


def main() -> int:
    """Runs the parts named on the command line, all by default."""
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [part for part in chosen if part not in PARTS]
    if unknown:
        print(f"no such part: {unknown[0]}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if not Path("flake.nix").exists():
        print("run me in a checkout of rewind", file=sys.stderr)
        return 2
    tally = Tally()
    for part in chosen:
        PARTS[part](tally)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
