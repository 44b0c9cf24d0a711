"""Fills in the transcripts of README.md and docs/*.md by running their commands.

A transcript is a fenced block with the word ``console`` whose lines that begin with ``$ `` are
commands; what follows each is replaced by what it prints now. Run it in a checkout, with `rewind`
and `nix` on PATH: ``./nixw develop -c python3 docs/transcripts.py``. With ``--check`` nothing is
written, and a transcript that is not what its commands print is an error (exit status 1); host
times, which differ from run to run, are not compared.
"""

import difflib
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOST_TIME = re.compile(r"[\d.]+ s host time")


def run(command: str) -> str:
    """What a command prints, both streams, as a person would see it."""
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=None, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout


def filled(block: re.Match[str]) -> str:
    """The block with its commands' output of today."""
    commands = [line for line in block[1].splitlines() if line.startswith("$ ")]
    body = "\n".join(f"{command}\n{run(command[2:])}" for command in commands)
    return f"```console\n{body.rstrip()}\n```"


def main() -> int:
    """Rewrites or checks every document."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print("usage: transcripts.py [--check]", file=sys.stderr)
        return 2
    stale = 0
    for path in [Path("README.md"), *sorted(Path("docs").glob("*.md"))]:
        old = path.read_text()
        new = BLOCK.sub(filled, old)
        if not check:
            path.write_text(new)
        elif HOST_TIME.sub("", old) != HOST_TIME.sub("", new):
            stale += 1
            sys.stdout.writelines(
                difflib.unified_diff(
                    old.splitlines(keepends=True), new.splitlines(keepends=True), str(path), "now"
                )
            )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
