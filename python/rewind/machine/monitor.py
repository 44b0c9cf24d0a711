"""QEMU's monitor: QMP over a socket that QEMU inherited, without a thread or an event loop.

What a search does with a machine is a handful of commands, from many threads, each to a machine of
its own; and a machine that is restored is told what to do before its QEMU has started.
(`rewind.machine.take`, which waits for a boot, uses qemu.qmp.)
"""

import json
import select
import socket
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from rewind.machine import MachineError

_CHUNK = 1 << 16


class MonitorClosed(ConnectionError):
    """QEMU has ended, or has closed its monitor."""


class Monitor:
    """Our end of a monitor; *connection* is closed with it.

    `submit` and `answer` are the halves of `execute`: commands can be sent ahead.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._buffer = b""
        self._events: list[dict[str, Any]] = []
        self._answers: list[dict[str, Any]] = []

    def submit(self, command: str, arguments: Mapping[str, object] | None = None) -> None:
        """Send *command*; its answer is to be fetched with `answer`."""
        line = {"execute": command, "arguments": dict(arguments or {}), "id": command}
        try:
            self._socket.sendall(json.dumps(line).encode() + b"\n")
        except (BrokenPipeError, ConnectionError):
            raise MonitorClosed from None

    def answer(self, command: str) -> Any:
        """What QEMU returned to *command*, which was submitted.

        :raises MachineError: if it refused.
        :raises MonitorClosed: if it ended instead.
        """
        while True:
            for number, answer in enumerate(self._answers):
                if answer.get("id") != command:
                    continue
                del self._answers[number]
                if "error" in answer:
                    raise MachineError(f"QEMU refused {command}: {answer['error']['desc']}")
                return answer["return"]
            self._receive(None)

    def execute(self, command: str, arguments: Mapping[str, object] | None = None) -> Any:
        """Have *command* done; what it returns.

        :raises MachineError: if QEMU refused.
        :raises MonitorClosed: if it ended instead.
        """
        self.submit(command, arguments)
        return self.answer(command)

    def event(self, *names: str, timeout: float | None = None) -> dict[str, Any] | None:
        """The next event with one of *names*; others before it are dropped.

        :param timeout: seconds of the host's time after which None is returned.
        :raises MonitorClosed: if QEMU ended before.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            while self._events:
                event = self._events.pop(0)
                if event["event"] in names:
                    return event
            if not self._receive(None if end is None else max(0.0, end - time.monotonic())):
                return None

    def save(self, path: str) -> None:
        """Write the state of the machine, which is stopped, to the file *path*.

        :raises MachineError: if it can't be written.
        :raises MonitorClosed: if QEMU ended.
        """
        self.execute("migrate", {"uri": f"file:{path}"})
        while True:
            event = self.event("MIGRATION")
            assert event is not None
            match event["data"]["status"]:
                case "completed":
                    return
                case "failed":
                    raise MachineError("QEMU could not write the machine's state")

    @property
    def pending(self) -> bool:
        """Whether there are events that were received with something else."""
        return bool(self._events)

    def fileno(self) -> int:
        """The connection's file descriptor, for select()."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _receive(self, timeout: float | None) -> bool:
        """Take up what has come, or comes; whether something did before *timeout*."""
        if not select.select([self._socket], [], [], timeout)[0]:
            return False
        try:
            data = self._socket.recv(_CHUNK)
        except ConnectionError:
            data = b""
        if not data:
            raise MonitorClosed
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "event" in message:
                self._events.append(message)
            elif "QMP" not in message:
                self._answers.append(message)
        return True
