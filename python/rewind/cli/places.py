"""Where the command line keeps what it remembers: links to runs, and keyframes."""

import os
import re
from pathlib import Path

from rewind.cli.errors import Failure

_SIZE = re.compile(r"([0-9]{1,18})(?:([KMGT])(?:i?B)?)?", re.ASCII | re.IGNORECASE)


def directory(path: Path) -> Path:
    """*path*, for links to runs; it is made if it is not there.

    :raises Failure: if it cannot be.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(
            f"there can be no links to runs in {path}: {error.strerror}; XDG_STATE_HOME says where"
        ) from None
    return path


def roots() -> Path:
    """The directory whose links keep runs from being collected as garbage."""
    return _state() / "runs"


def searches() -> Path:
    """The directory whose links keep searches from being collected as garbage."""
    return _state() / "searches"


def known() -> Path:
    """The directory with links to derivations of runs that are worth knowing, built or not.

    A link has the name of the run's store path.
    """
    return _state() / "known"


def imported() -> Path:
    """The directory with the runs that were imported; it need not be there."""
    return _state() / "imported"


def bookmarks() -> Path:
    """The directory with the bookmarks of runs; it need not be there."""
    return _state() / "bookmarks"


def keyframes() -> Path:
    """The directory for keyframes; it need not be there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # As with the state's.
    if not cache.is_absolute():
        cache = Path.home() / ".cache"
    return cache / "rewind" / "keyframes"


def keyframes_size(default: int) -> int:
    """How many bytes keyframes may take; *default* if the user does not say.

    :raises Failure: if what the user says is no size.
    """
    text = os.environ.get("REWIND_CACHE_SIZE", "")
    if not text:
        return default
    size = parse_size(text)
    if size is None:
        raise Failure(f"REWIND_CACHE_SIZE is {text!r}, which is no size such as 500M or 2G")
    return size


def parse_size(text: str) -> int | None:
    """The bytes that *text* says, such as 500M or 2G; None if that is no size."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    return int(match[1]) << 10 * " KMGT".index((match[2] or " ").upper())


def _state() -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The XDG specification: a relative path is to be ignored.
    if not state.is_absolute():
        state = Path.home() / ".local" / "state"
    return state / "rewind"
