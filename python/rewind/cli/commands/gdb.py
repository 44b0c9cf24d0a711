"""``rewind gdb``: gdb on a process of a run, forwards and backwards."""

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from rewind.cli import debuginfo, params
from rewind.cli.debuginfo import DebugInfo
from rewind.cli.errors import Failure
from rewind.cli.located import located
from rewind.cli.output import say, warn
from rewind.cli.params import Whole
from rewind.cli.runs import Run
from rewind.cli.stopped import Opened, opened
from rewind.formats.schedule import Named, Position
from rewind.formats.trace import TraceReader
from rewind.gdb.files import Mirror, build_id_of
from rewind.gdb.packets import Connection, ProtocolError
from rewind.gdb.server import Server
from rewind.gdb.session import NotHere, Session
from rewind.inspect import InspectError
from rewind.machine import MachineError

OLDEST = 10
"""The first version of gdb that will do."""
_VERSION = re.compile(r"^GNU gdb .*?(\d+)\.\d+", re.MULTILINE)
_LISTEN = re.compile(r"(?:(\[[0-9a-fA-F:]+\]|[^:\[\]]+):)?(\d{1,5})")


@click.command("gdb")
@params.run_argument
@click.argument("position", metavar="POSITION", type=params.PositionType(named=True))
@click.argument("arguments", metavar="[-- GDB-ARGS]", nargs=-1, type=click.UNPROCESSED)
@click.option("--pid", type=Whole(1), metavar="P", help="A process; else that on the CPU.")
@click.option("--tid", type=Whole(1), metavar="T", help="A thread; else the one on the CPU.")
@click.option(
    "--listen",
    metavar="[HOST:]PORT",
    help="Wait for a gdb that connects there, and start none; port 0: a free one.",
)
@click.option("--gdb", "program", default="gdb", metavar="PROGRAM", help="Which gdb to start.")
@click.option("--no-kernel", is_flag=True, help="Without the symbols of the machine's kernel.")
def command(
    run: Run,
    position: Position | Named,
    arguments: tuple[str, ...],
    pid: int | None,
    tid: int | None,
    listen: str | None,
    program: str,
    no_kernel: bool,
) -> int:
    """gdb on a process at POSITION: STEP+N, or T:C+K, forwards and backwards.

    Nothing of the run is changed, and nothing can be: step, continue, finish and their reverse-
    forms, breakpoints and watchpoints go about in what happened. "monitor position" says where.
    """
    if listen is not None and arguments:
        raise Failure("with --listen no gdb is started: it can be given no arguments")
    place = _place(listen) if listen is not None else None
    gdb = _find(program) if listen is None else None
    try:
        with contextlib.ExitStack() as stack:
            reader = stack.enter_context(TraceReader(run.trace))
            position = located(run, reader, position)
            around = stack.enter_context(opened(run))
            session = stack.enter_context(
                Session(
                    around.timeline,
                    reader,
                    around.inspector,
                    around.timeline.time(position),
                    layers=around.request.layers,
                    watcher=around.watcher,
                    pid=pid,
                    tid=tid,
                )
            )
            if place is not None:
                _listen(session, *place)
                return 0
            assert gdb is not None
            return _run(gdb, session, around, arguments, kernel=not no_kernel)
    except (MachineError, InspectError, NotHere, ProtocolError) as error:
        raise Failure(str(error)) from None


# --- gdb here


def _find(program: str) -> str:
    """The gdb that *program* means.

    :raises Failure: if there is none, or it is too old.
    """
    path = shutil.which(program)
    if path is None:
        raise Failure(f"there is no {program} on PATH; --listen waits for a gdb that is elsewhere")
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=False, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failure(f"{path} can't be started: {error}") from None
    version = _VERSION.search(said)
    if version is None:
        raise Failure(f"{path} is no gdb: it does not tell its version")
    if int(version[1]) < OLDEST:
        raise Failure(f"{path} is gdb {version[1]}: it takes {OLDEST} or later")
    return path


def _run(
    gdb: str, session: Session, around: Opened, arguments: Sequence[str], *, kernel: bool
) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="rewind-gdb-") as name,
        socket.socket(socket.AF_UNIX) as listener,
        debuginfo.known() as outside,
    ):
        scratch = Path(name)
        mirror = Mirror(session, scratch, warn)
        session.on_arrival(mirror.update)
        before = [*_files(session, mirror, outside), *_debuginfod(session, outside)]
        path = scratch / "socket"
        listener.bind(str(path))
        listener.listen(1)
        after = [f"target remote {path}"]
        if kernel:
            # Not said: where it is, and that it is added, is nobody's concern.
            add = f"add-symbol-file {around.vmlinux}"
            after.append(f"python gdb.execute({add!r}, to_string=True)")
        words = [gdb, "-q", *_each("-iex", before), *_each("-ex", after), *arguments]
        with _interrupts_are_gdbs():
            process = subprocess.Popen(words, env=_environment())
            try:
                _attend(session, listener, process)
                return _status(process.wait())
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()


def _each(option: str, commands: Sequence[str]) -> list[str]:
    return [word for command in commands for word in (option, command)]


def _files(session: Session, mirror: Mirror, outside: DebugInfo) -> Iterator[str]:
    """Commands that tell gdb where files are."""
    yield f"set sysroot {mirror.root}"
    # Where copies of the run's files are is nobody's concern.
    yield "set print symbol-loading off"
    # The threads are told by us, and not by a library of this machine's.
    yield "set auto-load libthread-db off"
    inputs = {
        Path(mapped.path)
        for mapped in session.layout().mapped
        if mapped.executable and mapped.is_input and mapped.path
    }
    debug = [*outside.directories, *debuginfo.outputs(inputs)]
    if debug:
        yield f"set debug-file-directory {':'.join(map(str, debug))}"
    for old, new in mirror.substitutions():
        yield f"set substitute-path {old} {new}"


def _debuginfod(session: Session, outside: DebugInfo) -> Iterator[str]:
    """Commands for gdb's own use of the user's servers, about which it would ask.

    One that hangs would hold it up for each file: they are asked for one first.
    """
    for mapped in session.layout().mapped:
        if mapped.executable and mapped.is_input and mapped.path and outside.servers:
            build_id = build_id_of(session.read_mapped(mapped.start))
            if build_id is not None:
                outside.ask("debuginfo", build_id)
                break
    yield f"set debuginfod enabled {'on' if outside.servers else 'off'}"


def _environment() -> dict[str, str]:
    return {"DEBUGINFOD_TIMEOUT": str(debuginfo.TIME_LIMIT), **os.environ}


@contextlib.contextmanager
def _interrupts_are_gdbs() -> Iterator[None]:
    """Ctrl-C comes to all of the terminal's programs; it is meant for gdb."""
    # Not SIG_IGN, which gdb would inherit.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _attend(session: Session, listener: socket.socket, process: subprocess.Popen[bytes]) -> None:
    """Serve *process* whenever it connects, until it ends."""
    while process.poll() is None:
        if not select.select([listener], [], [], 0.1)[0]:
            continue
        stream, _ = listener.accept()
        with Connection(stream) as connection:
            Server(session, connection).serve()


def _status(status: int) -> int:
    return 128 - status if status < 0 else status


# --- gdb elsewhere


def _place(text: str) -> tuple[str, int]:
    found = _LISTEN.fullmatch(text)
    if found is None or int(found[2]) > 65535:
        raise Failure(f"{text!r} is no place to listen at: write PORT or HOST:PORT")
    return (found[1] or "localhost").strip("[]"), int(found[2])


def _listen(session: Session, host: str, port: int) -> None:
    """Serve the first gdb that connects, and only that."""
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise Failure(f"can't listen at {host}:{port}: {error.strerror}") from None
    with listener:
        say(f"target remote {host}:{listener.getsockname()[1]}")
        stream, _ = listener.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with Connection(stream) as connection:
            Server(session, connection).serve()
