"""Debug information and sources that a run does not have: where its user has them.

Nixpkgs separates the debug information of a package with ``separateDebugInfo`` into an output
``debug``. It is found by the build id of what is mapped in the run: in the directories of
NIX_DEBUG_INFO_DIRS, in outputs that are in this machine's store (nothing is fetched for that), and
by debuginfod servers, if the user has set DEBUGINFOD_URLS: elfutils' debuginfod-find asks them, and
keeps what they send.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from rewind.cli import drv as drvs
from rewind.cli import nix
from rewind.cli.output import warn
from rewind.inspect.answers import Frame
from rewind.inspect.worker import Inspector

TIME_LIMIT = 10
"""Seconds that debuginfod servers may take for a file, unless DEBUGINFOD_TIMEOUT says otherwise."""
LIMIT_MAX = 3600

_FIND = "debuginfod-find"
# What debuginfod-find says when it was told no server, or none has the file.
_ABSENT = ("No such file or directory", "Function not implemented")


class DebugInfo:
    """What there is outside of a run; made by `known`."""

    def __init__(self, links: Path) -> None:
        self._links = links
        self._asked: set[str] = set()
        self._silent = False
        """Whether the servers are not asked any more."""

    @property
    def directories(self) -> list[Path]:
        """Where debug information is that the user has told of."""
        said = os.environ.get("NIX_DEBUG_INFO_DIRS", "").split(":")
        return [Path(path) for path in said if path.startswith("/")]

    def complete(self, machine: Inspector, frames: Sequence[Frame]) -> bool:
        """Have *machine* use debug information of what *frames* are in and say nothing of.

        :return: whether there is any, and the frames can be asked for again.
        """
        lacking = [frame for frame in frames if frame.module and frame.line is None]
        found = outputs({Path(frame.module) for frame in lacking if frame.module})
        fetched = [self._fetch(frame.build_id) for frame in lacking if frame.build_id]
        if any(fetched):
            found.append(self._links)
        if found:
            machine.add_debug_directories(found)
        return bool(found)

    def _fetch(self, build_id: str) -> bool:
        """Ask the servers for the debug information of *build_id*; whether there is some now."""
        if build_id in self._asked:
            return False
        self._asked.add(build_id)
        path = self.ask("debuginfo", build_id)
        if path is None:
            return False
        link = self._links / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
        return True

    def source(self, frame: Frame) -> bytes | None:
        """The source file of *frame*, if it is in the store or the servers have it."""
        if frame.file is None:
            return None
        path = Path(frame.file)
        if not path.is_absolute() or ".." in path.parts:
            return None
        if path.is_relative_to(nix.STORE):
            with contextlib.suppress(OSError):
                return path.read_bytes()
        if frame.build_id is None:
            return None
        found = self.ask("source", frame.build_id, frame.file)
        return found.read_bytes() if found is not None else None

    @property
    def servers(self) -> bool:
        """Whether there are servers to ask, and they have answered so far."""
        return bool(os.environ.get("DEBUGINFOD_URLS", "").strip()) and not self._silent

    def ask(self, *words: str) -> Path | None:
        """The file that ``debuginfod-find WORDS`` gives; None if there is none.

        Servers that can't be asked are told of once, and not asked again.
        """
        if not self.servers:
            return None
        program = shutil.which(_FIND)
        if program is None:
            self._give_up(f"DEBUGINFOD_URLS is set, and there is no {_FIND} on PATH")
            return None
        limit = time_limit()
        try:
            done = subprocess.run(
                [program, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            self._give_up(
                f"the debuginfod servers took more than {limit:,} s: going on with symbols only"
            )
            return None
        except OSError as error:
            self._give_up(f"{program} can't be started: {error.strerror}")
            return None
        if done.returncode == 0 and done.stdout.startswith("/"):
            return Path(done.stdout.rstrip("\n"))
        said = done.stderr.strip().rpartition("\n")[2]
        if not any(text in said for text in _ABSENT):
            self._give_up(f"the debuginfod servers can't be asked: {said or done.returncode}")
        return None

    def _give_up(self, why: str) -> None:
        self._silent = True
        warn(why)


@contextlib.contextmanager
def known() -> Iterator[DebugInfo]:
    """What is known outside of a run, as long as the ``with`` lasts."""
    with tempfile.TemporaryDirectory(prefix="rewind-debug-") as links:
        yield DebugInfo(Path(links))


def time_limit() -> int:
    """Seconds that the debuginfod servers may take for a file."""
    text = os.environ.get("DEBUGINFOD_TIMEOUT", "")
    # As libdebuginfod does, what is no number is none.
    number = int(text) if text.isascii() and text.isdigit() else 0
    return min(number, LIMIT_MAX) or TIME_LIMIT


def outputs(paths: Collection[Path]) -> list[Path]:
    """The directories with what was separated from the packages that *paths* are in.

    Those count that are in this machine's store.
    """
    packages = {
        nix.STORE / path.relative_to(nix.STORE).parts[0]
        for path in paths
        if path.is_relative_to(nix.STORE) and path != nix.STORE
    }
    derivers = {info.deriver for info in nix.path_info(sorted(packages)).values()}
    debug = {
        drvs.read(deriver).outputs.get("debug")
        for deriver in nix.valid([deriver for deriver in derivers if deriver is not None])
    }
    found = [Path(output) / "lib" / "debug" for output in sorted(filter(None, debug))]
    return [directory for directory in found if directory.is_dir()]
