"""The queue: a file for each derivation that waits, in a directory.

``waiting/NAME.json``
    what is to be done, and how often it has failed. It is written under another name and renamed,
    so it is whole when it is there. Who works on it has a lock on it, which goes with the process.

``failed/NAME.json``
    the same, of what was given up, with the reason.

``results.jsonl``
    what came of the others, a JSON object a line.

NAME is the derivation's hash and name: what is queued twice is there once.
"""

import contextlib
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAUSE = 60.0
"""Seconds until something that failed is tried again, twice as long each time."""
_BYTES_MAX = 1 << 20


class Queue:
    """The queue in *directory*, which is made if it is not there.

    :raises OSError: (all methods) if the directory can't be read or written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._waiting = directory / "waiting"
        self._failed = directory / "failed"

    def add(self, drv: Path, outputs: list[str], action: str) -> bool:
        """Queue *drv*, which has made *outputs*; whether it was not there yet."""
        self._waiting.mkdir(parents=True, exist_ok=True)
        path = self._waiting / f"{drv.name.removesuffix('.drv')}.json"
        if path.exists():
            return False
        entry = {
            "drv": str(drv),
            "outputs": outputs,
            "action": action,
            "queued": time.time(),
            "attempts": 0,
        }
        _write(path, entry)
        return True

    def names(self) -> list[str]:
        """What waits, that which waits longest first."""
        try:
            files = [file for file in self._waiting.iterdir() if file.suffix == ".json"]
        except FileNotFoundError:
            return []
        found = []
        for file in files:
            # Somebody may have done it meanwhile.
            with contextlib.suppress(FileNotFoundError):
                found.append((file.stat().st_mtime, file.stem))
        return [name for _, name in sorted(found)]

    @contextlib.contextmanager
    def take(self, name: str) -> Iterator[dict[str, Any] | None]:
        """The entry *name*, which nobody else works on during the ``with``; None if somebody does.

        None also if it is gone, or is not to be tried again yet.
        """
        path = self._waiting / f"{name}.json"
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            # What was locked may have been replaced, or removed, before it was.
            if not _is(path, file):
                yield None
                return
            data = os.read(file, _BYTES_MAX)
            try:
                entry = json.loads(data)
                due = float(entry.get("again", 0))
                if not {"drv", "outputs", "action", "attempts"} <= entry.keys():
                    raise ValueError("something is missing in it")
            except (ValueError, AttributeError, TypeError) as error:
                self.fail(name, {"entry": data.decode(errors="replace")}, f"it is damaged: {error}")
                yield None
                return
            yield entry if due <= time.time() else None
        finally:
            os.close(file)

    def finish(self, name: str, result: dict[str, Any]) -> None:
        """The work on *name*, which was taken, is done: note its *result*."""
        line = json.dumps({"name": name, "time": time.time(), **result}) + "\n"
        file = os.open(
            self.directory / "results.jsonl",
            os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC,
            0o644,
        )
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file).st_size
            data = line.encode()
            if os.write(file, data) != len(data):
                # The disk is full: no half a line.
                os.ftruncate(file, size)
                raise OSError(28, os.strerror(28))
            os.fsync(file)
        finally:
            os.close(file)
        (self._waiting / f"{name}.json").unlink()

    def put_back(self, name: str, entry: dict[str, Any], reason: str) -> None:
        """The work on *name*, which was taken, has failed for *reason*: to be tried again later."""
        attempts = int(entry["attempts"]) + 1
        again = time.time() + PAUSE * 2 ** (attempts - 1)
        changed = {**entry, "attempts": attempts, "again": again, "reason": reason}
        _write(self._waiting / f"{name}.json", changed)

    def fail(self, name: str, entry: dict[str, Any], reason: str) -> None:
        """Give *name*, which was taken, up."""
        self._failed.mkdir(parents=True, exist_ok=True)
        _write(self._failed / f"{name}.json", {**entry, "reason": reason})
        (self._waiting / f"{name}.json").unlink()

    def failed(self) -> dict[str, str]:
        """What was given up, and why."""
        found = {}
        with contextlib.suppress(FileNotFoundError):
            for file in sorted(self._failed.glob("*.json")):
                try:
                    found[file.stem] = str(json.loads(file.read_bytes()).get("reason", "?"))
                except (ValueError, AttributeError):
                    found[file.stem] = "its file is damaged"
        return found

    def retry(self) -> int:
        """Queue again what was given up; how much that is."""
        count = 0
        self._waiting.mkdir(parents=True, exist_ok=True)
        for name in self.failed():
            file = self._failed / f"{name}.json"
            try:
                entry = json.loads(file.read_bytes())
            except ValueError:
                continue
            if isinstance(entry, dict) and "drv" in entry:
                entry = {k: v for k, v in entry.items() if k not in ("again", "reason")}
                _write(self._waiting / f"{name}.json", {**entry, "attempts": 0})
                file.unlink()
                count += 1
        return count


def _is(path: Path, file: int) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(file)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _write(path: Path, entry: dict[str, Any]) -> None:
    """Write *path*, or leave it as it is."""
    file, name = tempfile.mkstemp(prefix=".", dir=path.parent)
    try:
        with os.fdopen(file, "w") as new:
            json.dump(entry, new)
            new.write("\n")
            new.flush()
            os.fsync(new.fileno())
        os.replace(name, path)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)  # noqa: PTH108
        raise
