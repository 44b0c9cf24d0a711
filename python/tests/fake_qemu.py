"""Stands in for QEMU in tests of the recorder: a program that is started with QEMU's arguments.

Its first argument is a JSON file that says what to do; see `Scenario`. It checks nothing of its
arguments, but leaves them in a file beside that one, for the test to look at.
"""

import contextlib
import json
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

FRAME = struct.Struct("<4sIIIQQ")
END = struct.Struct("<IIQQQ")
STATE = b"head\x05timer\0\0\0\0\0\0\0\x02%s\x05\x0ctimer/icount\0\0\0\x01tail"
"""A migration stream, as far as `rewind.machine.take` looks into it."""


class Scenario(TypedDict, total=False):
    """What the machine does, in this order."""

    refuse: str
    """A QMP command to answer with an error."""
    records: int
    """So many records of a trace."""
    channels: dict[str, str]
    """What is sent to each channel."""
    console: str
    stderr: str
    garbage: bool
    """Something that is no frame."""
    hang: bool
    """Wait for ever, using no time."""
    end: int
    """The reason in the end frame; no such frame if it is left out."""
    signal: int
    """Die by it."""
    status: int
    """Exit with it."""


def pvh_kernel(entry: int) -> bytes:
    """An ELF file with nothing but the note that a PVH kernel has."""
    note = struct.pack("<III4sI", 4, 4, 18, b"Xen", entry)
    at = 64 + 56
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        *(b"\x7fELF\x02\x01\x01", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0),
    )
    segment = struct.pack("<IIQQQQQQ", 4, 4, at, 0, 0, len(note), len(note), 4)
    return header + segment + note


def arguments() -> dict[str, list[str]]:
    """The values of each option."""
    found: dict[str, list[str]] = {}
    words = sys.argv[2:]
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("-"):
            found.setdefault(word, []).append(value)
    return found


def properties(text: str) -> dict[str, str]:
    """The properties in an option's value (the tests' own have no commas)."""
    return dict(field.partition("=")[::2] for field in text.split(",")[1:])


def option(values: list[str], first: str) -> dict[str, str] | None:
    """The properties of the one of *values* that begins with *first*."""
    return next((properties(v) for v in values if v.split(",")[0] == first), None)


def commands(monitor: socket.socket, refuse: str | None) -> Iterator[dict[str, Any]]:
    """Answer QMP commands, and yield each after its answer."""

    def say(message: dict[str, Any]) -> None:
        monitor.sendall(json.dumps(message).encode() + b"\n")

    say({"QMP": {"version": {}, "capabilities": []}})
    text = ""
    while data := monitor.recv(1 << 16):
        # Nothing but itself says where a command ends.
        text = (text + data.decode()).lstrip()
        with contextlib.suppress(ValueError):
            while text:
                command, end = json.JSONDecoder().raw_decode(text)
                text = text[end:].lstrip()
                answer: dict[str, Any] = {"id": command["id"]} if "id" in command else {}
                if command["execute"] == refuse:
                    answer["error"] = {"class": "GenericError", "desc": "this is refused"}
                else:
                    answer["return"] = {}
                say(answer)
                yield command | {"say": say}


def event(name: str, **data: object) -> dict[str, Any]:
    return {"event": name, "data": data, "timestamp": {"seconds": 0, "microseconds": 0}}


def main() -> None:
    path = Path(sys.argv[1])
    scenario: Scenario = json.loads(path.read_text())
    path.with_suffix(".arguments").write_text(json.dumps(sys.argv[2:]))
    given = arguments()
    device = option(given["-device"], "rewind")
    assert device is not None
    console = option(given["-chardev"], "file")
    assert console is not None
    Path(console["path"]).write_text(scenario.get("console", ""))
    backend = option(given["-object"], "memory-backend-file")
    assert backend is not None
    memory = Path(backend["mem-path"])

    monitor = option(given["-chardev"], "socket")
    if monitor is not None:
        for command in commands(socket.socket(fileno=int(monitor["fd"])), scenario.get("refuse")):
            match command["execute"]:
                case "migrate-incoming":
                    # What came with the state and the memory is part of what this machine says.
                    fd = int(command["arguments"]["uri"].removeprefix("fd:"))
                    with os.fdopen(fd, "rb") as file:
                        state = file.read()
                    with memory.open("rb") as file:
                        file.seek(8192)
                        scenario["console"] = f"{state.decode()} {file.read(6).decode()}"
                    Path(console["path"]).write_text(scenario["console"])
                    break
                case "cont" if "end" in scenario or "status" in scenario or "signal" in scenario:
                    break
                case "cont":
                    with memory.open("r+b") as file:
                        file.seek(8192)
                        file.write(b"memory")
                    command["say"](event("STOP"))
                case "migrate":
                    state_path = Path(command["arguments"]["uri"].removeprefix("file:"))
                    # Another 24 bytes each time.
                    state_path.write_bytes(STATE % os.urandom(24))
                    command["say"](event("MIGRATION", status="setup"))
                    command["say"](event("MIGRATION", status="completed"))

    trace = os.open(device["trace"], os.O_WRONLY) if "trace" in device else -1
    steps = scenario.get("records", 0)
    record = struct.pack("<HBBIII", 20, 1, 0, 1, 1, 0) + b"mark"
    if steps:
        data = b"".join(struct.pack("<Q", 1000 + step) + record for step in range(steps))
        os.write(trace, FRAME.pack(b"RWFR", len(data), steps, 0, 0, 1000) + data)
    for channel, text in scenario.get("channels", {}).items():
        with (Path(device["channels"]) / channel).open("a") as file:
            file.write(text)
    sys.stderr.write(scenario.get("stderr", ""))
    sys.stderr.flush()
    if scenario.get("garbage"):
        os.write(trace, bytes(1024))
    if scenario.get("hang"):
        path.with_suffix(".new").write_text(str(os.getpid()))
        path.with_suffix(".new").rename(path.with_suffix(".pid"))
        time.sleep(3600)
    if "end" in scenario:
        # Each perturbation came at step 2, and at its offset, if the run gets there.
        lines = Path(device["schedule"]).read_text().splitlines() if "schedule" in device else []
        at = 2 if steps > 2 else 2**64 - 1
        came = b"".join(struct.pack("<QQ", at, int(line.split()[1])) for line in lines)
        if came:
            os.write(trace, FRAME.pack(b"RWFR", len(came), 0, 2, steps, 5000) + came)
        end = END.pack(scenario["end"], 0, steps, 5000, 500)
        os.write(trace, FRAME.pack(b"RWFR", len(end), 0, 1, steps, 5000) + end)
        # As QEMU does, it takes its time to end.
        time.sleep(0.05)
    if "signal" in scenario:
        os.kill(os.getpid(), scenario["signal"])
        signal.pause()
    sys.exit(scenario.get("status", 0))


if __name__ == "__main__":
    main()
