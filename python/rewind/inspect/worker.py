"""Looking into machines in a process of its own.

What is read of a machine is what ran in it: a damaged stack, or DWARF that somebody wrote by hand.
Should drgn crash over it, or not come to an end, only this process does. It can also load the
kernel's DWARF, most of the work, while a machine still runs.

A request is a line of JSON, a list of an operation's name and its arguments; an operation that
needs the machine's memory has its file descriptor with it. An answer is one, too: ``ok`` and what
was asked for, or ``error``, the name of an exception and its text.
"""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewind.inspect import InspectError, NoSuchFile, NoSuchTask
from rewind.inspect.answers import (
    Entry,
    Frame,
    KernelPlaces,
    Page,
    Place,
    ProcessLayout,
    SyncPlaces,
    Task,
    ThreadRegisters,
)
from rewind.inspect.memory import Memory
from rewind.inspect.registers import Registers

if TYPE_CHECKING:
    # drgn is only loaded in the worker.
    from rewind.inspect.machine import Machine

TIME_LIMIT = 20
"""Seconds for an answer, which takes milliseconds."""
MEMORY_LIMIT = 16 << 30
"""Bytes of address space: the layers are mapped, and files of the guest copied."""

_CHUNK = 1 << 16
_ERRORS = {kind.__name__: kind for kind in (InspectError, NoSuchFile, NoSuchTask)}


class Inspector:
    """A worker for machines that run the kernel *vmlinux*; a context manager.

    It is there at once, and loads the kernel while the caller does something else. It works on one
    machine at a time, the one that was last given to `look_at`. After a failure it can be used
    again: another process takes over.

    :param vmlinux: if it is not known yet, `load` is to be called before anything else; the worker
        makes itself ready until then.
    :param time_limit: seconds that an answer may take.
    """

    def __init__(self, vmlinux: Path | None = None, time_limit: float = TIME_LIMIT) -> None:
        self._vmlinux = vmlinux
        self._time_limit = time_limit
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        """What the process wrote to stderr."""
        self._start()

    def load(self, vmlinux: Path) -> None:
        """Have the kernel *vmlinux* loaded; nobody waits for it."""
        self._vmlinux = vmlinux
        self._send("load", str(vmlinux))

    def look_at(
        self,
        memory: Memory,
        registers: Registers | None,
        *,
        layers: Sequence[Path] = (),
        debug_directories: Sequence[Path] = (),
    ) -> None:
        """Make this the machine that is asked about; see `rewind.inspect.machine.Machine`.

        :raises InspectError: if the kernel can't be loaded.
        """
        if self._process is None:
            self._start()
        self._ask(
            "look_at",
            {"size": memory.size, "start": memory.start},
            None if registers is None else registers.to_data(),
            [str(layer) for layer in layers],
            [str(directory) for directory in debug_directories],
            file=memory.file,
        )

    def add_debug_directories(self, directories: Sequence[Path]) -> None:
        """Look for debug information in more places; see `Machine.add_debug_directories`."""
        self._ask("add_debug_directories", [str(directory) for directory in directories])

    def places(self) -> KernelPlaces:
        """Where the kernel has what a plugin goes by, for which no machine is needed.

        :raises InspectError: if the kernel can't be loaded.
        """
        if self._process is None:
            self._start()
        return KernelPlaces(**self._ask("places"))

    def sync_places(self) -> SyncPlaces:
        """Where the kernel has what orders threads, for which no machine is needed.

        :raises InspectError: if the kernel can't be loaded.
        """
        if self._process is None:
            self._start()
        return SyncPlaces.from_data(self._ask("sync_places"))

    def tasks(self) -> list[Task]:
        """The job's threads; see `Machine.tasks`."""
        return [Task.from_data(data) for data in self._ask("tasks")]

    def frames(self, tid: int) -> list[Frame]:
        """The stack of the thread *tid*; see `Machine.frames`."""
        return [Frame.from_data(data) for data in self._ask("frames", tid)]

    def evaluate(self, tid: int, text: str) -> Place:
        """Where something of the thread *tid*'s program is; see `Machine.evaluate`."""
        return Place(**self._ask("evaluate", tid, text))

    def pages(self, tid: int, address: int, count: int) -> list[Page]:
        """Where memory of the thread *tid* is; see `Machine.pages`."""
        return [Page(**data) for data in self._ask("pages", tid, address, count)]

    def kernel_symbol(self, address: int) -> str:
        """The kernel's function at *address*; see `Machine.kernel_symbol`."""
        return str(self._ask("kernel_symbol", address))

    def variable(self, tid: int, address: int) -> str | None:
        """The variable at an address of a thread's program; see `Machine.variable`."""
        name: str | None = self._ask("variable", tid, address)
        return name

    def reached(self, tid: int, address: int) -> str | None:
        """What a thread would call what is at an address; see `Machine.reached`."""
        name: str | None = self._ask("reached", tid, address)
        return name

    def read_file(self, path: str, limit: int, pid: int | None = None) -> bytes:
        """What is in a file of the guest; see `Machine.read_file`."""
        return self._content("read_file", path, limit, pid)

    def registers(self, tid: int) -> ThreadRegisters:
        """The registers of the thread *tid*; see `Machine.registers`."""
        return ThreadRegisters.from_data(self._ask("registers", tid))

    def read_memory(self, tid: int, address: int, count: int) -> bytes:
        """What a thread would read; see `Machine.read_memory`."""
        return self._content("read_memory", tid, address, count)

    def layout(self, tid: int) -> ProcessLayout:
        """What a thread has mapped; see `Machine.layout`."""
        return ProcessLayout.from_data(self._ask("layout", tid))

    def read_mapped(self, tid: int, start: int) -> bytes:
        """A file that a thread has mapped; see `Machine.read_mapped`."""
        return self._content("read_mapped", tid, start)

    def list_files(self, path: str, pid: int | None = None, recursive: bool = False) -> list[Entry]:
        """What is in a directory of the guest; see `Machine.list_files`."""
        return [Entry.from_data(data) for data in self._ask("list_files", path, pid, recursive)]

    def close(self) -> None:
        """End the worker; it can be used again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> "Inspector":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> None:
        self._said.seek(0)
        self._said.truncate()
        ours, theirs = socket.socketpair()
        with theirs:
            start = "import sys; sys.path[:] = sys.argv[2:]; from rewind.inspect.worker import main"
            environment = {
                # A build's sandbox has no network, and a question is no reason to use it elsewhere.
                name: value
                for name, value in os.environ.items()
                if name != "DEBUGINFOD_URLS"
            }
            try:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-c", f"{start}; main(int(sys.argv[1]))"),
                        *(str(theirs.fileno()), *sys.path),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._said,
                    env=environment,
                    pass_fds=[theirs.fileno()],
                    # Ctrl-C is for who started it, who may have another use for it.
                    process_group=0,
                )
            except OSError as error:
                ours.close()
                raise InspectError(f"Python can't be started: {error.strerror}") from None
        self._socket, self._buffer = ours, b""
        if self._vmlinux is not None:
            self.load(self._vmlinux)

    def _send(self, *request: object, file: int | None = None) -> None:
        assert self._socket is not None
        data = json.dumps(request).encode() + b"\n"
        # One that has crashed says so when it is asked for the answer.
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            if file is not None:
                sent = socket.send_fds(self._socket, [data], [file])
                data = data[sent:]
            self._socket.sendall(data)

    def _ask(self, *request: object, file: int | None = None) -> Any:
        if self._socket is None:
            raise InspectError("no machine is being looked at")
        self._send(*request, file=file)
        end = time.monotonic() + self._time_limit
        while b"\n" not in self._buffer:
            self._fill(end)
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer = json.loads(line)
        if answer[0] == "error":
            raise _ERRORS[answer[1]](answer[2])
        return answer[1]

    def _content(self, *request: object) -> bytes:
        """Ask for what is answered by bytes."""
        size = self._ask(*request)
        return self._receive(size, time.monotonic() + self._time_limit)

    def _receive(self, size: int, end: float) -> bytes:
        while len(self._buffer) < size:
            self._fill(end)
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _fill(self, end: float) -> None:
        assert self._socket is not None and self._process is not None
        self._socket.settimeout(max(end - time.monotonic(), 0.001))
        try:
            data = self._socket.recv(_CHUNK)
        except TimeoutError:
            self.close()
            raise InspectError(
                f"reading the machine took more than {self._time_limit:g} s"
            ) from None
        except ConnectionError:
            data = b""
        if not data:
            process = self._process
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            status = process.returncode
            self.close()
            self._said.seek(0)
            said = self._said.read().decode(errors="replace").splitlines()
            reason = said[-1] if said else f"status {status}"
            if status is not None and status < 0:
                reason = signal.Signals(-status).name
            raise InspectError(f"reading the machine failed: {reason}")
        self._buffer += data


# --- the worker


class _Worker:
    def __init__(self) -> None:
        self._kernel: Any = None
        self._failure: InspectError | None = None
        self._machine: Machine | None = None
        self._memory = -1

    def load(self, vmlinux: str) -> None:
        """Nobody waits for it: whether it could be loaded is told with the first answer."""
        from rewind.inspect.kernel import Kernel

        try:
            self._kernel = Kernel(Path(vmlinux))
        except InspectError as error:
            self._failure = error

    def look_at(
        self,
        memory: Mapping[str, int],
        registers: Mapping[str, Any] | None,
        layers: list[str],
        debug_directories: list[str],
        file: int,
    ) -> None:
        from rewind.inspect.machine import Machine

        if self._machine is not None:
            self._machine.close()
            os.close(self._memory)
        self._memory = file
        if self._failure is not None:
            raise self._failure
        self._machine = Machine(
            self._kernel,
            Memory(file, memory["size"], memory["start"]),
            None if registers is None else Registers.from_data(registers),
            layers=[Path(layer) for layer in layers],
            debug_directories=[Path(directory) for directory in debug_directories],
        )

    def places(self) -> dict[str, Any]:
        if self._failure is not None:
            raise self._failure
        return self._kernel.places().to_data()  # type: ignore[no-any-return]

    def sync_places(self) -> dict[str, Any]:
        if self._failure is not None:
            raise self._failure
        return self._kernel.sync_places().to_data()  # type: ignore[no-any-return]

    def add_debug_directories(self, directories: list[str]) -> None:
        self._looked_at().add_debug_directories([Path(directory) for directory in directories])

    def tasks(self) -> list[dict[str, Any]]:
        return [task.to_data() for task in self._looked_at().tasks()]

    def frames(self, tid: int) -> list[dict[str, Any]]:
        return [frame.to_data() for frame in self._looked_at().frames(tid)]

    def evaluate(self, tid: int, text: str) -> dict[str, Any]:
        return self._looked_at().evaluate(tid, text).to_data()

    def pages(self, tid: int, address: int, count: int) -> list[dict[str, Any]]:
        return [page.to_data() for page in self._looked_at().pages(tid, address, count)]

    def kernel_symbol(self, address: int) -> str:
        return self._looked_at().kernel_symbol(address)

    def variable(self, tid: int, address: int) -> str | None:
        return self._looked_at().variable(tid, address)

    def reached(self, tid: int, address: int) -> str | None:
        return self._looked_at().reached(tid, address)

    def read_file(self, path: str, limit: int, pid: int | None) -> bytes:
        return self._looked_at().read_file(path, limit, pid)

    def list_files(self, path: str, pid: int | None, recursive: bool) -> list[dict[str, Any]]:
        return [entry.to_data() for entry in self._looked_at().list_files(path, pid, recursive)]

    def registers(self, tid: int) -> dict[str, Any]:
        return self._looked_at().registers(tid).to_data()

    def read_memory(self, tid: int, address: int, count: int) -> bytes:
        return self._looked_at().read_memory(tid, address, count)

    def layout(self, tid: int) -> dict[str, Any]:
        return self._looked_at().layout(tid).to_data()

    def read_mapped(self, tid: int, start: int) -> bytes:
        return self._looked_at().read_mapped(tid, start)

    def _looked_at(self) -> "Machine":
        if self._machine is None:
            raise InspectError("no machine is being looked at")
        return self._machine


def main(descriptor: int) -> None:
    """Answer what comes by the socket *descriptor*, until it is closed."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What takes the longest to import, while whoever asks finds out what to ask.
    from rewind.inspect import machine  # noqa: F401

    worker = _Worker()
    operations: dict[str, Callable[..., Any]] = {
        "look_at": worker.look_at,
        "add_debug_directories": worker.add_debug_directories,
        "places": worker.places,
        "sync_places": worker.sync_places,
        "tasks": worker.tasks,
        "frames": worker.frames,
        "variable": worker.variable,
        "reached": worker.reached,
        "evaluate": worker.evaluate,
        "pages": worker.pages,
        "kernel_symbol": worker.kernel_symbol,
        "read_file": worker.read_file,
        "list_files": worker.list_files,
        "registers": worker.registers,
        "read_memory": worker.read_memory,
        "layout": worker.layout,
        "read_mapped": worker.read_mapped,
    }
    with socket.socket(fileno=descriptor) as connection:
        files: list[int] = []
        for name, *arguments in _requests(connection, files):
            if name == "load":
                worker.load(*arguments)
                continue
            if name == "look_at":
                arguments.append(files.pop(0))
            content = b""
            try:
                answer = operations[name](*arguments)
                if isinstance(answer, bytes):
                    content, answer = answer, len(answer)
                line = ["ok", answer]
            except InspectError as error:
                line = ["error", type(error).__name__, str(error)]
            except MemoryError:
                line = ["error", InspectError.__name__, "reading the machine takes too much memory"]
            connection.sendall(json.dumps(line).encode() + b"\n" + content)


def _requests(connection: socket.socket, files: list[int]) -> Iterator[list[Any]]:
    """The requests that come; the file descriptors that come with them are added to *files*."""
    buffer = b""
    while True:
        data, some, _, _ = socket.recv_fds(connection, _CHUNK, 1)
        if not data:
            return
        buffer += data
        files += some
        while b"\n" in buffer:
            line, _, buffer = buffer.partition(b"\n")
            yield json.loads(line)
