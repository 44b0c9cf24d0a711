"""What a build says while it lasts, on stderr."""

import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from rewind.cli import nix
from rewind.cli.errors import Failure
from rewind.cli.nix import (
    BuildFailure,
    Event,
    LogLine,
    Message,
    Phase,
    Started,
    strip_ansi,
)
from rewind.cli.output import console

_OWN_ERROR = "rewind: "
"""How the lines begin with which the recorder says why it gives up."""


class Progress:
    """Shows the events of a build; a context manager.

    The lines of the log of *drv* go to stderr as they come. On a terminal the last line says what
    is being done, and is gone at the end.
    """

    def __init__(self, drv: Path) -> None:
        self._drv = drv
        self._console = console(sys.stderr)
        self._status = self._console.status("") if self._console.is_terminal else None

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
            case Message(text, error) if not error and not _is_stale(text):
                self._line(text)

    def _line(self, text: str) -> None:
        if self._console.is_terminal:
            from rich.text import Text

            self._console.print(Text.from_ansi(text))
        else:
            sys.stderr.write(strip_ansi(text) + "\n")


def watch(drv: Path, installable: str, *options: str) -> None:
    """Build *installable*, which is of the run's derivation *drv*, and show what happens.

    :raises Failure: with the recorder's own reason, if it gives up.
    :raises BuildFailure: if the build fails in another way.
    """
    reasons = []
    try:
        with Progress(drv) as progress:
            progress.note("asking nix")
            for event in nix.build(installable, *options):
                if isinstance(event, LogLine) and event.path == drv:
                    text = strip_ansi(event.text)
                    if text.startswith(_OWN_ERROR):
                        reasons.append(text.removeprefix(_OWN_ERROR))
                        continue
                progress.show(event)
    except BuildFailure:
        if reasons:
            raise Failure("\n".join(reasons)) from None
        raise


def _is_stale(text: str) -> bool:
    """Whether Nix warns of a flake's tree, which says nothing of the run."""
    return text.startswith("warning: Git tree")
