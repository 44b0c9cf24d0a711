"""What a build says while it lasts, on stderr."""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rewind.cli import nix
from rewind.cli.errors import Failure
from rewind.cli.nix import (
    BuildFailure,
    Event,
    LogLine,
    Message,
    Phase,
    Silent,
    Started,
    strip_ansi,
)
from rewind.cli.output import console, count

_OWN = "rewind: "
"""How the lines begin in which the recorder itself says something, after the job's log."""
_MOST_HELD = 100
_INPUT_LINES = 25
"""How much of the log of an input that does not build is shown."""


class Progress:
    """Shows the events of a build; a context manager.

    The lines of the log of *drv* go to stderr as they come. On a terminal the last line says what
    is being done, and is gone at the end.
    """

    def __init__(self, drv: Path) -> None:
        self._drv = drv
        self._console = console(sys.stderr)
        self._status = None
        if self._console.is_terminal:
            # Few frames: the CPUs are the machine's.
            self._status = self._console.status("", refresh_per_second=4)

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def note(self, text: str) -> None:
        """Say what is being done."""
        if self._status is not None:
            self._status.update(text)

    def show(self, event: Event) -> None:
        """Show *event*, if it is for a person."""
        match event:
            case LogLine(path, text) if path == self._drv:
                self._line(text)
            case Phase(path, text) if path == self._drv:
                self.note(strip_ansi(text))
            case Started(path) if path == self._drv:
                self.note("starting the machine")
            case Started(path):
                verb = "building" if path.suffix == ".drv" else "fetching"
                self.note(f"{verb} {path.name.partition('-')[2].removesuffix('.drv')}")
            case Silent(server):
                self._line(f"rewind: {_waits(server, nix.config())}")
            case Message(text, error) if not error and not _is_stale(text):
                self._line(text)

    def _line(self, text: str) -> None:
        if self._console.is_terminal:
            from rich.text import Text

            self._console.print(Text.from_ansi(text))
        else:
            sys.stderr.write(strip_ansi(text) + "\n")


class _OwnLines:
    """Tells what the recorder says itself from the job's log, in which it comes last.

    A line that begins with "rewind: " and what follows it is held back, in case that is the end.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._held: list[LogLine] = []

    def take(self, line: LogLine) -> None:
        """Show *line*, or hold it back."""
        if self._held or _own(line):
            self._held.append(line)
        else:
            self._progress.show(line)
        while self._held and len(self._held) > _MOST_HELD:
            self._release(1)

    def _release(self, count: int) -> None:
        for line in self._held[:count]:
            self._progress.show(line)
        del self._held[:count]
        # Up to the next line that the recorder may have written.
        while self._held and not _own(self._held[0]):
            self._progress.show(self._held.pop(0))

    def reason(self) -> str:
        """Why the recorder gave up, if it did: its last line, and what it added to it."""
        own = [place for place, line in enumerate(self._held) if _own(line)]
        if not own:
            return ""
        self._release(own[-1])
        return "\n".join(strip_ansi(line.text) for line in self._held).removeprefix(_OWN)


def _own(line: LogLine) -> bool:
    return strip_ansi(line.text).startswith(_OWN)


def _is_part(path: Path) -> bool:
    """Whether the derivation *path* makes a part of runs (lib/), and says why if it cannot."""
    return path.name.partition("-")[2].startswith(("rewind-boot-snapshot", "rewind-layer-"))


def watch(
    drv: Path, installable: str, *options: str, shown: Callable[[str], bool] = lambda line: True
) -> None:
    """Build *installable*, which is of the run's derivation *drv*, and show what happens.

    :param shown: which lines of the build's log are.
    :raises Failure: with the recorder's own reason, if it gives up.
    :raises BuildFailure: if the build fails in another way.
    """
    own: dict[Path, _OwnLines] = {}
    inputs: dict[Path, deque[str]] = {}
    with Progress(drv) as progress:
        progress.note("asking nix")
        try:
            for event in nix.build(installable, *options):
                if isinstance(event, LogLine) and event.path == drv and not shown(event.text):
                    continue
                if isinstance(event, LogLine) and (event.path == drv or _is_part(event.path)):
                    own.setdefault(event.path, _OwnLines(progress)).take(event)
                elif isinstance(event, LogLine):
                    lines = inputs.setdefault(event.path, deque(maxlen=_INPUT_LINES + 1))
                    lines.append(strip_ansi(event.text))
                else:
                    progress.show(event)
        except BuildFailure as error:
            if "may not be deterministic" in error.log:
                raise
            for path, held in own.items():
                if str(path) in error.log and (reason := held.reason()):
                    raise Failure(reason) from None
            # In JSON, Nix leaves it to who reads that to show the log of what failed.
            logs = [
                _excerpt(path, lines) for path, lines in inputs.items() if str(path) in error.log
            ]
            raise BuildFailure(str(error), "".join(logs) + error.log, error.status) from None


def _excerpt(path: Path, lines: deque[str]) -> str:
    """The end of the log of *path*, for a person."""
    shown = [f"> {line}\n" for line in list(lines)[-_INPUT_LINES:]]
    if len(lines) > _INPUT_LINES:
        shown.insert(0, f"> … (nix log {path} has all of it)\n")
    return f"{path.name}:\n{''.join(shown)}"


def _waits(server: str, config: Mapping[str, Any]) -> str:
    """What Nix does about a cache that sends nothing, by its settings."""
    limit, attempts = int(config["stalled-download-timeout"]), int(config["download-attempts"])
    if limit == 0:
        bound = "waits until it does (stalled-download-timeout is 0)"
    else:
        bound = (
            f"gives it {limit:,} s, {count(attempts, 'time')} over"
            " (stalled-download-timeout, download-attempts)"
        )
    return f"{server} has sent nothing for {nix.SILENCE:.0f} s: Nix {bound}"


def _is_stale(text: str) -> bool:
    """Whether Nix warns of a flake's tree, which says nothing of the run."""
    return text.startswith("warning: Git tree")
