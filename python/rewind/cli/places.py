"""Where the command line keeps what it remembers: links to runs."""

import os
from pathlib import Path

from rewind.cli.errors import Failure


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


def _state() -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The XDG specification: a relative path is to be ignored.
    if not state.is_absolute():
        state = Path.home() / ".local" / "state"
    return state / "rewind"
