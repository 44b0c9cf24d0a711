"""QEMU's monitor, with a socket whose other end is the test's."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from rewind.machine import MachineError
from rewind.machine.monitor import Monitor, MonitorClosed


@attrs.frozen
class Ends:
    """A monitor, and QEMU's end of it."""

    monitor: Monitor
    qemu: socket.socket

    def say(self, *messages: dict[str, Any]) -> None:
        """Send *messages*, as QEMU writes them."""
        self.qemu.sendall(b"".join(json.dumps(m).encode() + b"\r\n" for m in messages))

    def told(self) -> list[dict[str, Any]]:
        """The commands that were sent so far."""
        data = self.qemu.recv(1 << 16, socket.MSG_DONTWAIT)
        return [json.loads(line) for line in data.splitlines()]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with theirs, Monitor(ours) as monitor:
        yield Ends(monitor, theirs)


def event(name: str, **data: object) -> dict[str, Any]:
    return {"event": name, "data": data, "timestamp": {"seconds": 1, "microseconds": 2}}


def answer(command: str, value: object = None) -> dict[str, Any]:
    return {"id": command, "return": {} if value is None else value}


GREETING = {"QMP": {"version": {}, "capabilities": []}}


def test_a_command(ends: Ends) -> None:
    ends.say(GREETING, answer("query-status", {"running": True}))
    assert ends.monitor.execute("query-status", {"x": 1}) == {"running": True}
    assert ends.told() == [{"execute": "query-status", "arguments": {"x": 1}, "id": "query-status"}]


def test_commands_that_are_sent_ahead(ends: Ends) -> None:
    """Each gets its own answer, in whatever order they are fetched."""
    for command in ("a", "b", "c"):
        ends.monitor.submit(command)
    assert [sent["execute"] for sent in ends.told()] == ["a", "b", "c"]
    ends.say(GREETING, answer("a", 1), answer("b", 2), answer("c", 3))
    assert [ends.monitor.answer(command) for command in ("c", "a", "b")] == [3, 1, 2]


def test_a_command_that_is_refused(ends: Ends) -> None:
    ends.say({"id": "cont", "error": {"class": "GenericError", "desc": "no such thing"}})
    with pytest.raises(MachineError, match="QEMU refused cont: no such thing"):
        ends.monitor.execute("cont")
    # And the next one is none of its business.
    ends.say(answer("cont"))
    assert ends.monitor.execute("cont") == {}


def test_events_before_an_answer_are_kept(ends: Ends) -> None:
    ends.say(GREETING, event("RESUME"), event("STOP", n=1), answer("cont"), event("STOP", n=2))
    ends.monitor.execute("cont")
    assert ends.monitor.pending
    for number in (1, 2):
        found = ends.monitor.event("STOP", timeout=0)
        assert found is not None
        assert found["data"] == {"n": number}
    assert not ends.monitor.pending
    assert ends.monitor.event("STOP", timeout=0) is None


def test_other_events_are_dropped(ends: Ends) -> None:
    ends.say(event("RESUME"), event("STOP"), event("RESUME"))
    found = ends.monitor.event("STOP", "SHUTDOWN", timeout=0)
    assert found is not None
    assert found["event"] == "STOP"
    assert ends.monitor.event("STOP", timeout=0) is None
    assert not ends.monitor.pending


def test_an_answer_before_an_event_is_kept(ends: Ends) -> None:
    ends.monitor.submit("migrate-incoming")
    ends.say(answer("migrate-incoming", 7), event("STOP"))
    assert ends.monitor.event("STOP") is not None
    assert ends.monitor.answer("migrate-incoming") == 7


def test_what_comes_in_pieces(ends: Ends) -> None:
    """A line may be cut anywhere, and several may come at once."""
    text = b"".join(
        json.dumps(m).encode() + b"\r\n" for m in (event("STOP", text="\u00e9" * 40),) * 2
    )

    def send() -> None:
        for byte in text:
            ends.qemu.sendall(bytes([byte]))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        for _ in range(2):
            found = ends.monitor.event("STOP", timeout=30)
            assert found is not None
            assert found["data"]["text"] == "\u00e9" * 40
    finally:
        thread.join()


def test_more_than_fits_into_a_buffer(ends: Ends) -> None:
    text = "x" * 300_000
    thread = threading.Thread(
        target=lambda: ends.say(answer("human-monitor-command", text), event("STOP"))
    )
    thread.start()
    try:
        assert ends.monitor.execute("human-monitor-command") == text
        assert ends.monitor.event("STOP", timeout=30) is not None
    finally:
        thread.join()


def test_an_event_that_does_not_come(ends: Ends) -> None:
    begin = time.monotonic()
    assert ends.monitor.event("STOP", timeout=0.05) is None
    assert time.monotonic() - begin >= 0.05
    # Others do not make it wait longer, nor for ever.
    ends.say(event("RESUME"))
    assert ends.monitor.event("STOP", timeout=0.05) is None
    assert ends.monitor.event("STOP", timeout=0) is None


@pytest.mark.parametrize("waits", ["answer", "event", "save"])
def test_qemu_ends(ends: Ends, waits: str) -> None:
    ends.monitor.submit("cont")
    ends.say(event("SHUTDOWN"))
    ends.qemu.shutdown(socket.SHUT_WR)
    with pytest.raises(MonitorClosed):
        match waits:
            case "answer":
                ends.monitor.answer("cont")
            case "event":
                ends.monitor.event("STOP", timeout=30)
            case "save":
                ends.monitor.save("/nowhere")
    # What came before is still there; and then it is said again.
    if waits == "answer":
        assert ends.monitor.event("SHUTDOWN", timeout=0) is not None
        with pytest.raises(MonitorClosed):
            ends.monitor.event("STOP", timeout=0)


def test_qemu_is_gone(ends: Ends) -> None:
    ends.qemu.close()
    with pytest.raises(MonitorClosed):
        for _ in range(2):
            ends.monitor.execute("cont")


def test_saving_the_state(ends: Ends) -> None:
    ends.say(
        answer("migrate"),
        event("MIGRATION", status="setup"),
        event("STOP"),
        event("MIGRATION", status="active"),
        event("MIGRATION", status="completed"),
    )
    ends.monitor.save("/a/path")
    (sent,) = ends.told()
    assert (sent["execute"], sent["arguments"]) == ("migrate", {"uri": "file:/a/path"})


def test_a_state_that_cannot_be_saved(ends: Ends) -> None:
    ends.say(answer("migrate"), event("MIGRATION", status="setup"))
    ends.say(event("MIGRATION", status="failed"))
    with pytest.raises(MachineError, match="could not write the machine's state"):
        ends.monitor.save("/a/path")


def test_it_is_closed_with_the_with(ends: Ends) -> None:
    with ends.monitor:
        assert ends.monitor.fileno() >= 0
    assert ends.monitor.fileno() == -1
    assert ends.qemu.recv(1) == b""
