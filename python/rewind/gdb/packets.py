"""Packets of gdb's remote protocol, over a stream socket.

A packet is ``$DATA#CC``, CC the sum of DATA's bytes in hexadecimal; it is acknowledged with ``+``
until both sides agree not to. In binary data ``}`` escapes the next byte, which is XORed with 0x20.
A byte 0x03 outside of any packet is an interrupt.
"""

import select
import socket
from types import TracebackType
from typing import Self

_CHUNK = 1 << 16
_ESCAPE = 0x7D
_ESCAPED = frozenset(b"#$}*")
_FLIP = 0x20
_INTERRUPT = 0x03

PACKET_MAX = 1 << 17
"""Bytes of a packet that are accepted, and that gdb is told of."""


class ProtocolError(Exception):
    """What came is not the protocol."""


class Disconnected(Exception):
    """gdb has gone."""


def escape(data: bytes) -> bytes:
    """*data* as it goes into a packet."""
    if not _ESCAPED.intersection(data):
        return data
    out = bytearray()
    for byte in data:
        if byte in _ESCAPED:
            out += bytes((_ESCAPE, byte ^ _FLIP))
        else:
            out.append(byte)
    return bytes(out)


def unescape(data: bytes) -> bytes:
    """What `escape` was given."""
    if _ESCAPE not in data:
        return data
    out = bytearray()
    flip = 0
    for byte in data:
        if byte == _ESCAPE and not flip:
            flip = _FLIP
            continue
        out.append(byte ^ flip)
        flip = 0
    return bytes(out)


class Connection:
    """gdb at the other end of *stream*, which is closed with it."""

    def __init__(self, stream: socket.socket) -> None:
        self._socket = stream
        self._buffer = b""
        self.acknowledge = True
        """Whether packets are acknowledged."""

    def receive(self) -> bytes:
        """The next packet's data, as it came (see `unescape`). Interrupts before it are dropped.

        :raises Disconnected: if there is no more.
        :raises ProtocolError: if it is none.
        """
        while True:
            self._buffer = self._buffer.lstrip(b"+-\x03")
            end = self._buffer.find(b"#")
            if end >= 0 and len(self._buffer) >= end + 3:
                break
            if len(self._buffer) > 2 * PACKET_MAX:
                raise ProtocolError("a packet does not end")
            self._fill()
        packet, self._buffer = self._buffer[: end + 3], self._buffer[end + 3 :]
        data = packet[1:end]
        try:
            said = int(packet[end + 1 :], 16)
        except ValueError:
            said = -1
        if packet[:1] != b"$" or said != sum(data) & 0xFF:
            raise ProtocolError("a packet is damaged")
        if self.acknowledge:
            self._send(b"+")
        return data

    def send(self, data: bytes) -> None:
        """Send a packet with *data*, in which what has to be is escaped.

        :raises Disconnected: if gdb has gone.
        """
        self._send(b"$%b#%02x" % (data, sum(data) & 0xFF))

    def interrupted(self) -> bool:
        """Whether gdb has sent an interrupt meanwhile: asked while it waits for a stop.

        :raises Disconnected: if it has gone.
        """
        while select.select([self._socket], [], [], 0)[0]:
            self._fill()
        rest = self._buffer.lstrip(b"+")
        if rest[:1] != b"\x03":
            return False
        self._buffer = rest[1:]
        return True

    def fileno(self) -> int:
        """The socket's file descriptor, for select()."""
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

    def _fill(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except ConnectionError:
            data = b""
        if not data:
            raise Disconnected
        self._buffer += data

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionError):
            raise Disconnected from None
