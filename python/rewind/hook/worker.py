"""Working off the queue: recording and checking what the hook has queued.

Each thing is done by ``rewind`` itself, in a process of its own, as somebody would by hand.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from rewind.hook.queue import Queue
from rewind.hook.settings import Settings

POLL = 2.0
"""Seconds between looks at a queue in which there is nothing to do."""


class Trouble(Exception):
    """Something failed that may work later; the text says what."""


class Hopeless(Exception):
    """Something failed that never will work; the text says what."""


Rewind = Callable[[Sequence[str]], tuple[int, str, str]]
"""Runs ``rewind`` with arguments: its exit status, its stdout and its stderr."""


def rewind(arguments: Sequence[str]) -> tuple[int, str, str]:
    """``rewind ARGUMENTS``, as this process was started."""
    program = sys.argv[0]
    # As nixpkgs wraps it, that is no Python.
    words = [program] if os.access(program, os.X_OK) else [sys.executable, program]
    done = subprocess.run(
        [*words, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@attrs.frozen
class Worker:
    """Works off *queue* as *settings* say.

    :param say: told in one line what was done.
    :param push: copies store paths to a store's URL.
    :param sign: signs store paths with the secret key in a file.
    """

    settings: Settings
    queue: Queue
    say: Callable[[str], None]
    push: Callable[[str, Sequence[Path]], None]
    sign: Callable[[Path, Sequence[Path]], None]
    rewind: Rewind = rewind

    def once(self) -> int:
        """Do all that is there to do now; how much that was.

        :raises OSError: if the queue can't be read or written: nothing is lost.
        """
        done = 0
        for name in self.queue.names():
            with self.queue.take(name) as entry:
                if entry is not None:
                    self._do(name, entry)
                    done += 1
        return done

    def forever(self) -> None:
        """Do what comes, until somebody ends the process."""
        while True:
            try:
                done = self.once()
            except OSError as error:
                # A full disk, perhaps: what waits is still there when it is not.
                self.say(f"the queue {self.queue.directory}: {error.strerror}")
                done = 0
            if not done:
                time.sleep(POLL)

    def _do(self, name: str, entry: Mapping[str, Any]) -> None:
        try:
            result = self._work(entry)
        except Hopeless as error:
            self.queue.fail(name, dict(entry), str(error))
            self.say(f"{name}: given up: {error}")
        except Trouble as error:
            if int(entry["attempts"]) + 1 >= self.settings.attempts:
                self.queue.fail(name, dict(entry), str(error))
                self.say(f"{name}: given up: {error}")
            else:
                self.queue.put_back(name, dict(entry), str(error))
                self.say(f"{name}: to be tried again: {error}")
        else:
            self.queue.finish(name, result)
            self.say(f"{name}: {result['summary']}")

    def _work(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        drv = str(entry["drv"])
        if not Path(drv).exists():
            raise Hopeless(f"its derivation is gone: {drv}")
        run = self._json("nix", drv)
        differs = [
            output
            for output, found in run["outputs"].items()
            if found["local"]["verdict"] == "differs"
        ]
        paths = [Path(run["path"])]
        summary = str(run["name"]) + ": " + _outcome(run["outcome"])
        summary += f", other than what was built: {', '.join(differs)}" if differs else ""
        result = {"run": run["path"], "outcome": run["outcome"], "differs": differs}
        if entry["action"] == "check":
            words = ("--schedules", str(self.settings.schedules))
            report = self._json("check", drv, *words)
            paths.append(Path(report["search"]))
            sides = [report["hashes"].get(side) for side in ("failing", "passing")]
            paths += [self._built(side) for side in sides if side is not None]
            result |= {"search": report["search"], "verdict": report["verdict"]}
            summary += f"; check: {report['verdict']}"
        if self.settings.sign is not None:
            self.sign(self.settings.sign, paths)
        if self.settings.push is not None:
            self.push(self.settings.push, paths)
            result["pushed"] = self.settings.push
        return {**result, "summary": summary}

    def _json(self, *words: str) -> dict[str, Any]:
        """What ``rewind WORDS --json`` answers.

        :raises Trouble: if it fails. That builds end in different ways is no failure.
        """
        status, out, err = self.rewind([*words, "--json"])
        try:
            data = json.loads(out)
        except ValueError:
            data = None
        if not isinstance(data, dict):
            said = err.strip().rpartition("\n")[2].removeprefix("rewind: ")
            raise Trouble(said or f"rewind {words[0]} ended with status {status}")
        return data

    def _built(self, run: str) -> Path:
        """The path of the run with the hash *run*, which is built if it is not."""
        status, _, err = self.rewind(["log", run])
        if status:
            raise Trouble(err.strip().rpartition("\n")[2].removeprefix("rewind: "))
        return Path(str(self._json("show", run)["path"]))


def _outcome(outcome: Mapping[str, Any]) -> str:
    value = outcome.get("value")
    return str(outcome["kind"]) if value is None else f"{outcome['kind']} {value}"
