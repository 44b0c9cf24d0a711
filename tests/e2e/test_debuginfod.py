"""Debug information from elsewhere: debuginfod on loopback, and one that hangs."""

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Answer, Recorded, Session

SOURCE = Path(__file__).parent / "programs" / "greet.c"
LINE = next(
    number for number, text in enumerate(SOURCE.read_text().splitlines(), 1) if "write(1" in text
)


@pytest.fixture(scope="module")
def greets(session: Session) -> Recorded:
    """A run that calls a library without debug information."""
    return session.recorded(session.job("greets"))


@pytest.fixture(scope="module")
def step(session: Session, greets: Recorded) -> str:
    """In the library's write."""
    records = session.rewind("events", greets.hash, "--json").out.splitlines()
    writes = [
        record["step"]
        for record in map(json.loads, records)
        if record["type"] == "enter" and record["call"] == "write"
    ]
    return str(writes[1])


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture
def server(session: Session) -> Iterator[str]:
    """elfutils' own debuginfod, which serves the library's debug information."""
    symbols = session.nix("build", "--no-link", "--print-out-paths", session.job("greets.symbols"))
    debuginfod = session.program("elfutils", "debuginfod")
    port = free_port()
    environment = session.environment()
    environment.pop("DEBUGINFOD_URLS", None)
    process = subprocess.Popen(
        [debuginfod, "-p", str(port), "-d", ":memory:", "-F", symbols],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_scanned(port)
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait_until_scanned(port: int) -> None:
    """Until it says that it has looked at the file."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            with socket.create_connection(("localhost", port), 1) as connection:
                connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                text = b""
                while part := connection.recv(1 << 16):
                    text += part
        except OSError:
            text = b""
        if re.search(rb'^groom\{statistic="buildids"\} [1-9]|^thread_work_total.*scan.* [1-9]',
                     text, re.MULTILINE):  # fmt: skip
            return
        time.sleep(0.1)
    raise AssertionError("debuginfod does not get ready")


def where(session: Session, greets: Recorded, step: str, **environment: str) -> Answer:
    answer = session.rewind("where", greets.hash, step, "--json", **environment)
    assert answer.status == 0, str(answer)
    return answer


def greeting(answer: Answer) -> tuple[str | None, int | None]:
    """File and line of the library's function."""
    (frame,) = (frame for frame in answer.json["frames"] if frame["function"] == "greet")
    return frame["file"], frame["line"]


def test_a_server_has_the_lines(session: Session, greets: Recorded, step: str, server: str) -> None:
    """Without it there is the symbol and why; with it the file and the line; gdb has them, too."""
    bare = where(session, greets, step)
    assert greeting(bare) == (None, None), str(bare)
    assert "was not found" in str(bare.json["frames"]), str(bare)
    known = where(session, greets, step, DEBUGINFOD_URLS=server)
    file, line = greeting(known)
    assert line == LINE and file is not None and file.endswith("greet.c"), str(known)
    gdb = session.rewind(
        *("gdb", greets.hash, step, "--", "-nx", "-batch", "-ex", "bt"), DEBUGINFOD_URLS=server
    )
    assert re.search(rf"greet \(number=.*1\) at .*greet\.c:{LINE}", gdb.out), str(gdb)


def test_one_that_hangs_is_given_up(session: Session, greets: Recorded, step: str) -> None:
    """After the time limit there are symbols, and one warning."""
    with socket.create_server(("localhost", 0)) as listener:
        url = f"http://localhost:{listener.getsockname()[1]}"
        # What the other server has given is kept there.
        cache = str(session.directory / "no-debuginfod-cache")
        settings = {
            "DEBUGINFOD_URLS": url,
            "DEBUGINFOD_TIMEOUT": "2",
            "DEBUGINFOD_CACHE_PATH": cache,
        }
        answer = where(session, greets, step, **settings)
        assert greeting(answer) == (None, None), str(answer)
        assert answer.err.count("the debuginfod servers") == 1, str(answer)
        gdb = session.rewind(
            *("gdb", greets.hash, step, "--", "-nx", "-batch", "-ex", "bt"), **settings
        )
    assert gdb.status == 0 and re.search(r"\bgreet \(\) from ", gdb.out), str(gdb)
    assert gdb.err.count("the debuginfod servers") == 1, str(gdb)


def test_an_output_debug_in_the_store_is_enough(
    session: Session, greets: Recorded, step: str
) -> None:
    """NIX_DEBUG_INFO_DIRS, as environment.enableDebugInfo sets it."""
    symbols = session.nix("build", "--no-link", "--print-out-paths", session.job("greets.symbols"))
    bare = where(session, greets, step)
    (build_id,) = {
        frame["build_id"] for frame in bare.json["frames"] if frame["function"] == "greet"
    }
    directory = session.directory / "debug"
    link = directory / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    link.parent.mkdir(parents=True)
    link.symlink_to(Path(symbols) / "libgreet.so.debug")
    answer = where(session, greets, step, NIX_DEBUG_INFO_DIRS=str(directory))
    assert greeting(answer)[1] == LINE, str(answer)
