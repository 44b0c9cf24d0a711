"""Everything that is asked of Nix: its programs are run here, and nowhere else.

Their failures become `Failure`: Nix's own sentence, without its stack of positions. What a build
does is read from ``--log-format internal-json``: lines ``@nix {JSON}`` on stderr, whose numbers
are those of src/libutil/logging.hh (ActivityType, ResultType).
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import attrs

from rewind.cli.errors import Failure

STORE = Path(os.environ.get("NIX_STORE_DIR") or "/nix/store")
_FEATURES = ("--extra-experimental-features", "nix-command flakes")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")

_BUILD = 105  # ActivityType: a derivation is built
_SUBSTITUTE = 108  # ActivityType: a path is fetched
_TRANSFER = 101  # ActivityType: a file is fetched, of a path or about one
_LOG_LINE = 101  # ResultType
_SET_PHASE = 104  # ResultType
_PROGRESS = 105  # ResultType
_ERROR, _WARNING = 0, 1  # Verbosity


def strip_ansi(text: str) -> str:
    """*text* without colours and other escape sequences."""
    return _ANSI.sub("", text)


class Missing(Failure):
    """A program that is not there."""


@contextmanager
def _child(command: Sequence[str], **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive the block: one left early gets SIGINT, then SIGKILL."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
            env={**os.environ, **environment},
        )
    except FileNotFoundError:
        raise Missing(f"there is no {command[0]} on PATH") from None
    except OSError as error:
        raise Failure(f"{command[0]} does not start: {error.strerror}") from None
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _sentence(stderr: str) -> str:
    """The last error that Nix reports: it comes after the positions that lead to it."""
    text = strip_ansi(stderr).strip()
    _, found, last = ("\n" + text).rpartition("\nerror: ")
    if not found:
        _, found, last = ("\n" + text).rpartition(" error: ")
    lines = [line.strip() for line in (last if found else text).splitlines()]
    kept: list[str] = []
    for line in lines:
        # A position, or an excerpt of a source file.
        if re.match(r"at .*:\d+:\d+:?$|\d*\||(?:For full|\(stack trace)", line):
            break
        kept.append(line)
    return " ".join(filter(None, kept)) or "nix failed without a word"


def _position(stderr: str) -> str:
    """Where the last error that Nix reports comes from, as `` at FILE:LINE:COLUMN``; or nothing."""
    _, _, last = ("\n" + strip_ansi(stderr)).rpartition(" error: ")
    _, _, last = ("\n" + last).rpartition("\nerror: ")
    found = re.search(r"^ *(at .*:\d+:\d+):?$", last, re.MULTILINE)
    return f" {found[1]}" if found else ""


class NixFailure(Failure):
    """Nix could not do something; *position* is where in an expression, for the sentence's end."""

    def __init__(self, sentence: str, position: str) -> None:
        super().__init__(sentence)
        self.position = position


def run(program: str, *arguments: str) -> str:
    """What *program* writes to stdout.

    :raises NixFailure: with its own sentence, if it fails.
    """
    with _child([program, *arguments]) as process:
        out, err = process.communicate()
    if process.returncode:
        raise NixFailure(_sentence(err), _position(err))
    return out


@contextmanager
def stream(program: str, *arguments: str) -> Iterator[BinaryIO]:
    """What *program* writes to stdout, as it comes; it is all read when the ``with`` ends.

    :raises NixFailure: if it fails.
    """
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
            )
        except FileNotFoundError:
            raise Missing(f"there is no {program} on PATH") from None
        try:
            assert process.stdout is not None
            with process.stdout as output:
                yield cast(BinaryIO, output)
            process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if process.returncode:
            said.seek(0)
            text = said.read().decode(errors="backslashreplace")
            raise NixFailure(_sentence(text), _position(text))


def nix(*arguments: str) -> str:
    """`run` for ``nix``, with the features that its commands need."""
    return run("nix", *_FEATURES, *arguments)


def version() -> tuple[int, ...]:
    """Nix's version."""
    text = run("nix", "--version")
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    if found is None:
        raise Failure(f"nix does not say its version: {text.strip()}")
    return tuple(int(number) for number in found.groups("0"))


def has_flakes() -> bool:
    """Whether flakes work without flags."""
    # `nix config show` would need the flag that it is to tell of.
    return run("nix-instantiate", "--eval", "--expr", "builtins ? getFlake").strip() == "true"


def config() -> dict[str, Any]:
    """Nix's settings, by name."""
    return {
        name: entry["value"] for name, entry in json.loads(nix("config", "show", "--json")).items()
    }


def derivation(installable: str) -> Path:
    """The .drv of *installable*, which is evaluated for it; nothing is built."""
    if not installable.strip() or installable.startswith("-"):
        raise Failure(f"{installable!r} is no derivation")
    try:
        lines = nix("path-info", "--derivation", installable).split()
    except NixFailure as error:
        # It is the user's own expression.
        raise Failure(f"{error}{error.position}") from None
    paths = sorted({Path(line.partition("^")[0]) for line in lines})
    if not paths:
        raise Failure(f"{installable!r} is no derivation")
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths)
        raise Failure(f"{installable} is more than one derivation: {names}")
    return paths[0]


def evaluate(expression: str, **strings: str) -> Any:
    """The attribute ``result`` of what *expression*, a function, makes of *strings*."""
    given = [word for name, value in strings.items() for word in ("--argstr", name, value)]
    try:
        text = nix("eval", "--json", "--impure", "--expr", expression, *given, "result")
    except Failure as error:
        # lib/ puts it before what it throws, as in a flake nobody else says who refuses.
        raise Failure(str(error).removeprefix("rewind: ")) from None
    return json.loads(text)


def add(name: str, path: Path) -> Path:
    """Put the file *path* into the store, under that *name*: where it is then."""
    return Path(nix("store", "add-path", "--name", name, str(path)).strip())


@attrs.frozen
class PathInfo:
    """A valid path of the store."""

    path: Path
    nar_hash: str
    """SRI, ``sha256-…``, or ``sha256:`` and base 32, as Nix happens to give it."""
    nar_size: int
    registered: int
    """When it became valid, seconds since 1970."""
    deriver: Path | None


def valid(paths: Sequence[Path]) -> list[Path]:
    """Those of *paths* that are valid. Nothing is fetched."""
    if not paths:
        return []
    arguments = [str(path) for path in paths]
    invalid = set(run("nix-store", "--check-validity", "--print-invalid", *arguments).split())
    return [path for path in paths if str(path) not in invalid]


def path_info(paths: Sequence[Path]) -> dict[Path, PathInfo]:
    """What the store knows of those of *paths* that are valid. Nothing is fetched."""
    known = valid(paths)
    if not known:
        return {}
    data = json.loads(nix("path-info", "--json", *map(str, known)))
    # Nix before 2.19 gives a list; later ones a map, whose keys some versions write without the
    # store's directory.
    entries = data.items() if isinstance(data, dict) else ((entry["path"], entry) for entry in data)
    return {
        (path := STORE / Path(name).name): PathInfo(
            path,
            entry["narHash"],
            entry["narSize"],
            entry.get("registrationTime") or 0,
            STORE / Path(entry["deriver"]).name if entry.get("deriver") else None,
        )
        for name, entry in entries
        if entry is not None and entry.get("valid", True)
    }


def info(paths: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What Nix tells of *paths*, which are valid, as it gives it; by path."""
    data = json.loads(nix("path-info", "--json", *paths))
    entries = data.items() if isinstance(data, dict) else ((entry["path"], entry) for entry in data)
    return {str(STORE / Path(name).name): entry for name, entry in entries}


def deriver(path: Path) -> Path | None:
    """The derivation that made *path*, if the store knows it and still has it.

    It is one call of Nix, where `path_info` and `valid` are three.

    :raises NixFailure: if *path* is not valid.
    """
    name = run("nix-store", "--query", "--deriver", str(path)).strip()
    found = STORE / Path(name).name
    return found if found.suffix == ".drv" and found.exists() else None


def closure(roots: Sequence[Path]) -> list[dict[str, Any]]:
    """The closure of *roots*: ``path`` and ``references`` of each, in the order of their paths."""
    paths = run("nix-store", "--query", "--requisites", *map(str, roots)).split()
    data = json.loads(nix("path-info", "--json", *paths))
    entries = data.items() if isinstance(data, dict) else ((entry["path"], entry) for entry in data)
    return [
        {
            "path": str(STORE / Path(name).name),
            "references": sorted(str(STORE / Path(one).name) for one in entry["references"]),
        }
        for name, entry in sorted(entries, key=lambda item: Path(item[0]).name)
    ]


def add_roots(paths: Sequence[Path], link: Path) -> None:
    """Have links LINK, LINK-1, … to *paths*, which are there, and are kept as long as these are."""
    # Of a .drv without ^* this is the file itself, and nothing is built.
    nix("build", "--out-link", str(link), *map(str, paths))


def copy_from(cache: Path, paths: Sequence[Path]) -> None:
    """Add *paths*, with all they refer to, from the binary cache in the directory *cache*.

    Nobody has signed them; Nix compares each with the hash that the cache says.

    :raises NixFailure: if Nix does not take them.
    """
    nix("copy", "--from", f"file://{cache}", "--no-check-sigs", *map(str, paths))


def prefetch(url: str, digest: str | None, most: int) -> tuple[str, Path]:
    """Have the file at *url* in the store: its SHA-256, as Nix writes it, and where it is.

    :param digest: what that has to be.
    :param most: how many bytes it may have.
    :raises NixFailure: if it can't be had, or is another one.
    :raises Failure: if it is larger.
    """
    program = "nix-prefetch-url"
    given = [digest] if digest else []
    larger = Failure(f"{url} is larger than {most:,} bytes: --max-size allows more")
    # Nix has no bound for it, and writes it to a file there before it has a look at it. A limit for
    # files of the process would be one for Nix's database as well.
    with tempfile.TemporaryDirectory(prefix="rewind-fetch-") as place:
        command = [program, "--print-path", "--type", "sha256", url, *given]
        with _child(command, TMPDIR=place) as process:
            while True:
                try:
                    out, err = process.communicate(timeout=_LOOK)
                    break
                except subprocess.TimeoutExpired:
                    if _bytes(Path(place)) > most:
                        raise larger from None
    if process.returncode:
        raise NixFailure(_sentence(err), _position(err))
    found = out.split()
    path = Path(found[-1])
    if path.stat().st_size > most:
        # It came faster than we look.
        delete([[path]])
        raise larger
    return found[-2], path


_LOOK = 0.1
"""Seconds between looks at how much has been fetched."""


def _bytes(directory: Path) -> int:
    """How much there is in *directory*, which somebody else writes to."""
    size = 0
    for parent, _, files in os.walk(directory):
        for name in files:
            with contextlib.suppress(OSError):
                size += Path(parent, name).lstat().st_size
    return size


def add_root(path: Path, link: Path) -> None:
    """Make *link* a link to *path*, which is not collected as garbage while that is there."""
    # Of a .drv without ^* this is the file itself, and nothing is built.
    nix("build", "--out-link", str(link), str(path))


def dead() -> list[Path]:
    """The paths of the store that nothing keeps."""
    return [Path(line) for line in run("nix-store", "--gc", "--print-dead").split()]


def delete(groups: Sequence[Sequence[Path]]) -> set[Path]:
    """Delete paths from the store, but for those that something keeps; which are gone.

    :param groups: what can only go together: with keep-outputs, a derivation and its outputs.
    """
    if not groups:
        return set()
    _delete(groups)
    paths = [path for group in groups for path in group]
    return set(paths) - set(valid(paths))


def _delete(groups: Sequence[Sequence[Path]]) -> None:
    try:
        run("nix-store", "--delete", *(str(path) for group in groups for path in group))
    except NixFailure:
        # One is kept, which is no reason to keep the others, and Nix stops at the first. It takes
        # as long for one as for many.
        half = len(groups) // 2
        for some in (groups[:half], groups[half:]) if half else ():
            left = [[path for path in group if path.exists()] for group in some]
            if any(left):
                _delete([group for group in left if group])


# --- builds


@attrs.frozen
class Started:
    """A derivation begins to be built, or a path to be fetched."""

    path: Path


@attrs.frozen
class LogLine:
    """A line of a build's log."""

    path: Path
    text: str


@attrs.frozen
class Phase:
    """A build says how far it is."""

    path: Path
    text: str


@attrs.frozen
class Message:
    """Nix itself says something."""

    text: str
    error: bool


@attrs.frozen
class Silent:
    """A cache has sent nothing of a file for `SILENCE`, and Nix waits for it."""

    server: str


Event = Started | LogLine | Phase | Message | Silent

SILENCE = 5.0
"""Seconds until it is told that a cache sends nothing."""


@attrs.define
class _Transfer:
    """A file that is being fetched."""

    server: str
    size: int
    """Bytes that have come."""
    since: float
    """When the last of them have."""


@attrs.define
class _Reader:
    """Turns the lines of ``--log-format internal-json`` into events."""

    activities: dict[int, Path] = attrs.field(factory=dict)
    transfers: dict[int, _Transfer] = attrs.field(factory=dict)
    silent: set[str] = attrs.field(factory=set)
    """The servers of which that was told: of one there may be many transfers."""
    clock: Callable[[], float] = time.monotonic

    def read(self, line: str) -> Event | None:
        if not line.startswith("@nix "):
            text = strip_ansi(line).rstrip()
            return Message(text, text.startswith("error:")) if text else None
        try:
            entry = json.loads(line[5:])
        except ValueError:
            return None
        match entry:
            case {"action": "start", "id": int(number), "type": kind, "fields": [str(path), *_]}:
                if kind in (_BUILD, _SUBSTITUTE):
                    self.activities[number] = Path(path)
                    return Started(Path(path))
                if kind == _TRANSFER:
                    self.transfers[number] = _Transfer(_server(path), 0, self.clock())
            case {"action": "stop", "id": int(number)}:
                self.activities.pop(number, None)
                self.transfers.pop(number, None)
            # Nix says it again every second, whether there is any or not.
            case {"action": "result", "id": int(number), "type": kind, "fields": [int(size), *_]}:
                if kind == _PROGRESS and number in self.transfers:
                    return self._silence(self.transfers[number], size)
            case {"action": "result", "id": int(number), "type": kind, "fields": [str(text), *_]}:
                origin = self.activities.get(number)
                if origin is not None and kind == _LOG_LINE:
                    return LogLine(origin, text)
                if origin is not None and kind == _SET_PHASE:
                    return Phase(origin, text)
            case {"action": "msg", "level": int(level), "msg": str(text)} if level <= _WARNING:
                return Message(strip_ansi(text).strip(), level == _ERROR)
        return None

    def _silence(self, transfer: _Transfer, size: int) -> Silent | None:
        now = self.clock()
        if size != transfer.size:
            transfer.size, transfer.since = size, now
        if now - transfer.since < SILENCE or transfer.server in self.silent:
            return None
        self.silent.add(transfer.server)
        return Silent(transfer.server)


def _server(url: str) -> str:
    """The scheme and the host of *url*, without a password that may be in it."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class BuildFailure(Failure):
    """A build that failed. *status* is Nix's exit status, *log* all that it said."""

    def __init__(self, sentence: str, log: str, status: int) -> None:
        super().__init__(sentence, log)
        self.status = status


def build(installable: str, *options: str) -> Iterator[Event]:
    """Build *installable*, and tell what happens meanwhile.

    :raises BuildFailure: when all events have come, if the build failed.
    """
    command = ["nix", *_FEATURES, "build", "--log-format", "internal-json", *options, installable]
    messages = []
    reader = _Reader()
    with _child(command) as process:
        assert process.stderr is not None
        for line in process.stderr:
            event = reader.read(line)
            if event is None:
                continue
            if isinstance(event, Message):
                messages.append(event)
            yield event
        process.wait()
    if process.returncode:
        log = "\n".join(message.text for message in messages)
        raise BuildFailure(_sentence(log), log, process.returncode)
