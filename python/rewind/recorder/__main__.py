"""``python -m rewind.recorder record`` and ``snapshot``; see `rewind.recorder`."""

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from rewind.formats import FormatError
from rewind.formats.schedule import never_came
from rewind.machine import MachineError
from rewind.machine.qemu import out_of_memory
from rewind.recorder.pipes import StreamError
from rewind.recorder.request import RequestError, RunRequest, SnapshotRequest, attributes
from rewind.recorder.start import start

USAGE = "usage: python -m rewind.recorder record|snapshot"


class Interrupted(BaseException):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what *arguments* (by default the command line) say; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if list(arguments) not in (["record"], ["snapshot"]):
        print(USAGE, file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        attrs_file = os.environ.get("NIX_ATTRS_JSON_FILE")
        if attrs_file is None:
            raise RequestError("there is no NIX_ATTRS_JSON_FILE: this is the builder of a run")
        data = attributes(Path(attrs_file))
        if arguments[0] == "record":
            _record(RunRequest.parse(data))
        else:
            _snapshot(SnapshotRequest.parse(data))
    except RequestError as error:
        return _complain(error, 2)
    except (FormatError, MachineError, StreamError) as error:
        return _complain(error, 1)
    except OSError as error:
        return _complain(f"{error.filename or 'a file'}: {error.strerror}", 1)
    except Interrupted as interrupted:
        return _complain("interrupted", 128 + interrupted.number)
    return 0


def _record(request: RunRequest) -> None:
    log_fd = os.environ.get("NIX_LOG_FD")
    with _or_nothing(request.out, request.nars), start(request) as running:
        # The machine runs already: what it takes to listen to it is no part of its start.
        from rewind.recorder.record import record
        from rewind.recorder.streams import Display

        display = Display(sys.stdout.fileno(), int(log_fd) if log_fd else None)
        manifest = record(request, running, display)
    for message in manifest.messages:
        print(f"rewind: the machine says: {message}", file=sys.stderr)
    if out_of_memory(manifest.messages):
        print(
            f"rewind: the machine had {manifest.memory:,} MiB; --memory gives it more",
            file=sys.stderr,
        )
    never = never_came(manifest.schedule, manifest.arrivals)
    if never is not None:
        print(f"rewind: {never}", file=sys.stderr)
    print(
        f"rewind: {manifest.outcome} after {manifest.steps:,} steps, "
        f"{manifest.guest_time / 1e9:.3f} s of guest time",
        file=sys.stderr,
    )


def _snapshot(request: SnapshotRequest) -> None:
    from rewind.machine.take import build

    with _or_nothing(request.out):
        build(request.settings, request.memory, request.out)


@contextlib.contextmanager
def _or_nothing(*outputs: Path) -> Iterator[None]:
    """Leave *outputs* whole, or not at all."""
    for path in outputs:
        if path.exists():
            raise RequestError(f"{path} is there already")
    try:
        yield
    except BaseException:
        for path in outputs:
            shutil.rmtree(path, ignore_errors=True)
        raise


def _complain(error: object, status: int) -> int:
    print(f"rewind: {error}", file=sys.stderr)
    return status


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    # The next one shall not disturb the tidying up.
    signal.signal(number, signal.SIG_IGN)
    raise Interrupted(number)


if __name__ == "__main__":
    sys.exit(main())
