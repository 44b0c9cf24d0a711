"""Jobs in a root directory that has nothing to do with Nix: ``--root``, docs/roots.md."""

import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rewind.cli import drv as drvs
from rewind.cli import nix, recording
from rewind.cli.drv import Derivation
from rewind.cli.errors import Failure
from rewind.formats.job import CONTAINER
from rewind.inspect import InspectError, NoSuchFile
from rewind.inspect.erofs import Inode, Layer
from rewind.roots import SIZE_MAX, RootError, is_image, make

_OURS = ("dev", "proc")
"""Directories of the root whose content is the machine's."""
_MADE = ("/dev", "/proc", "/tmp")
"""Directories that a root has, whether it brings them or not."""
_PAGE = 4096


def check_options(root: Path | None, cwd: str | None, env: Sequence[str]) -> None:
    """Refuse ``--cwd`` and ``--env`` without a ``--root``."""
    if root is None and (cwd is not None or env):
        raise Failure("--cwd and --env are for a command in a root (--root)")


def _environment(given: Sequence[str]) -> dict[str, str]:
    """What the options ``NAME=VALUE`` say.

    :raises Failure: if one says nothing.
    """
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (equals and name):
            raise Failure(f"--env {text} is no NAME=VALUE")
        found[name] = value
    return found


def job(
    root: Path, command: Sequence[str], cwd: str | None, variables: Sequence[str]
) -> Derivation:
    """The job of *command* in *root*, whose image is in the store then.

    :param variables: each a ``NAME=VALUE``.

    :raises Failure: if it cannot be run.
    """
    if not command:
        raise Failure("there is no command to run in the root: -- COMMAND [ARG]...")
    if not command[0]:
        raise Failure("the command is an empty string")
    env = _environment(variables)
    cwd = "/" if cwd is None else cwd
    if not cwd.startswith("/"):
        raise Failure(f"--cwd {cwd} is no absolute path in the root")
    with tempfile.TemporaryDirectory(prefix="rewind-root-") as scratch:
        made = _image(root, Path(scratch))
        _check(root, made, command[0], cwd, env)
        image = nix.add("rewind-root", made)
    found = recording.evaluate(
        "(rewind.inRoot (given // { image = builtins.storePath given.image; })).drvPath",
        {"image": str(image), "command": list(command), "cwd": cwd, "env": env},
    )
    return drvs.read(Path(found))


def _image(root: Path, scratch: Path) -> Path:
    """The image of *root*, which may be one."""
    mkfs = os.environ.get("REWIND_MKFS_EROFS")
    if not mkfs:
        raise Failure("REWIND_MKFS_EROFS is not set; the package that the flake makes sets it")
    try:
        status = root.stat()
        if stat.S_ISREG(status.st_mode) and is_image(root):
            return root
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise Failure(f"{root} is no directory, tarball or erofs image")
        made = scratch / "image"
        make(root, made, mkfs)
    except RootError as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"{error.filename or root}: {error.strerror}") from None
    return made


def _check(root: Path, image: Path, program: str, cwd: str, env: Mapping[str, str]) -> None:
    """See that the machine can take *image*, and has a program to run there.

    :raises Failure: if not.
    """
    size = image.stat().st_size
    if size > SIZE_MAX:
        raise Failure(f"{root} has {size:,} bytes, and {SIZE_MAX:,} are the most that there can be")
    try:
        with Layer(image) as layer:
            if image == root:
                if size % _PAGE:
                    raise Failure(f"{root} ends too early: an image has whole blocks")
                layer.check()
            _check_directory(root, layer, cwd)
            _check_program(root, layer, program, cwd, {**CONTAINER, **env}["PATH"])
    except NoSuchFile as error:
        raise Failure(f"{root}: {error}") from None
    except InspectError as error:
        raise Failure(f"{root}: {error}") from None


def _find(layer: Layer, path: str) -> Inode | None:
    """The file at *path*, None if there is none or it is not the root that knows."""
    try:
        return layer.find(path)
    except NoSuchFile:
        return None


def _ours(path: str) -> bool:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return bool(parts) and parts[0] in _OURS


def _check_directory(root: Path, layer: Layer, cwd: str) -> None:
    found = _find(layer, cwd)
    if found is None and (_ours(cwd) or cwd.rstrip("/") in _MADE):
        return
    if found is None:
        raise Failure(f"{root} has no directory {cwd}")
    if not stat.S_ISDIR(found.mode):
        raise Failure(f"{cwd} in {root} is no directory")


def _check_program(root: Path, layer: Layer, program: str, cwd: str, path: str) -> None:
    if "/" in program:
        places = [program if program.startswith("/") else f"{cwd}/{program}"]
    else:
        places = [f"{directory or cwd}/{program}" for directory in path.split(":")]
    known = [found for place in places if (found := _find(layer, place)) is not None]
    if any(stat.S_ISREG(one.mode) and one.mode & 0o111 for one in known):
        return
    if any(map(_ours, places)):
        return
    if known:
        raise Failure(f"{program} in {root} can't be executed")
    where = "" if "/" in program else f" on its PATH, {path}"
    raise Failure(f"{root} has no {program}{where}")
