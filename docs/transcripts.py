"""Fills in the transcripts of README.md and docs/*.md by running their commands.

A transcript is a fenced block with the word ``console`` whose lines that begin with ``$ `` are
commands; what follows each is replaced by what it prints now. Run it in a checkout, with `rewind`
and `nix` on PATH: ``./nixw shell .#rewind -c python3 docs/transcripts.py``.

A transcript shows what a person would see who is alone with a store without runs: ``@`` is the
run that the document's last ``rewind nix`` or ``rewind fork`` made, ``@2`` the one before, and a
command's output is that of a run which was not there already, that of ``rewind nix`` with its log.
Hashes in store paths are left out.

With ``--check`` nothing is written, and a transcript that is not what its commands print is a
difference; host times, which no two calls have in common, are not compared. The exit status is 0
for no difference, 1 for one, and 2 if a command fails.
"""

import difflib
import json
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STORE_HASH = re.compile(r"/nix/store/[0-9a-df-np-sv-z]{32}-")
NEWEST = re.compile(r"(?<=\s)@([1-9]?)(?=\s|$)")
KNOWN = "already recorded"
# After `rewind nix`, and at the end of what `rewind replay` says.
HOST_TIME = re.compile(r"[\d.,]+ s of host time|(?<=steps, )[\d.,]+ s$", re.MULTILINE)

COMPARED = ".#bank^*"
"""Built before: `rewind nix` compares what it records with what is in the store."""


MAKES_RUN = ("rewind nix ", "rewind fork ")
MAY_DIFFER = ("rewind compare ", "rewind fork ", "rewind check ", "rewind races ")
"""Commands whose exit status 1 says what their output does."""


class CommandError(Exception):
    """A transcript's command does not work; the text says how."""


def run(command: str) -> str:
    """What *command* prints, both streams, as a person would see it.

    :raises CommandError: if its exit status, or that of a part of a pipeline, says that it failed.
    """
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode > command.startswith(MAY_DIFFER):
        raise CommandError(f"$ {command}\n{done.stdout}exit status {done.returncode}")
    return done.stdout


class Document:
    """The transcripts of one document, in order."""

    def __init__(self, text: str) -> None:
        self._runs: list[str] = []
        self.text = BLOCK.sub(self._filled, text)

    def _filled(self, block: re.Match[str]) -> str:
        commands = [line for line in block[1].splitlines() if line.startswith("$ ")]
        body = "\n".join(f"{command}\n{self._output(command[2:])}" for command in commands)
        return f"```console\n{body.rstrip()}\n```"

    def _output(self, command: str) -> str:
        command = NEWEST.sub(self._run, command)
        output = run(command)
        if command.startswith(MAKES_RUN):
            plain = command.partition(" 2>")[0]
            self._runs.append(json.loads(run(f"{plain} --json 2> /dev/null"))["hash"])
            output = self._as_if_new(output, log=plain == command)
        return STORE_HASH.sub("/nix/store/…-", output)

    def _run(self, text: re.Match[str]) -> str:
        """The run that ``@`` or ``@2`` means."""
        number = int(text[1] or "1")
        return self._runs[-number] if number <= len(self._runs) else text[0]

    def _as_if_new(self, output: str, log: bool) -> str:
        """What would be said of a run that was not there; with its *log*, if that is seen."""
        if KNOWN not in output:
            return output
        again = json.loads(run(f"rewind replay {self._runs[-1]} --json 2> /dev/null"))
        time = f"{again['host_time'] / 1e9:,.1f} s of host time"
        before = run(f"rewind log {self._runs[-1]}") if log else ""
        return before + output.replace(KNOWN, time)


def main() -> int:
    """Rewrites or checks every document."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print("usage: transcripts.py [--check]", file=sys.stderr)
        return 2
    different = 0
    try:
        run(f"nix build --no-link '{COMPARED}'")
        for path in [Path("README.md"), *sorted(Path("docs").glob("*.md"))]:
            old = path.read_text()
            new = Document(old).text
            if not check:
                path.write_text(new)
            elif HOST_TIME.sub("", old) != HOST_TIME.sub("", new):
                different += 1
                then, now = (text.splitlines(keepends=True) for text in (old, new))
                sys.stdout.writelines(difflib.unified_diff(then, now, str(path), "now"))
    except CommandError as error:
        print(error, file=sys.stderr)
        return 2
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
