"""Debug information from elsewhere, with a debuginfod-find that is made up."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rewind.cli import debuginfo
from rewind.cli.debuginfo import DebugInfo
from rewind.inspect.answers import Frame

FRAME = Frame(0, module="/lib/x.so", file="/src/x.c", line=3, build_id="abcdef")

Find = Callable[[str], None]


@pytest.fixture
def find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Find:
    """Makes debuginfod-find a shell script."""
    program = tmp_path / "bin" / "debuginfod-find"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://localhost:1")
    monkeypatch.delenv("DEBUGINFOD_TIMEOUT", raising=False)

    def write(script: str) -> None:
        # As the sandbox of a build has no env.
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    return write


@pytest.fixture
def outside() -> Iterator[DebugInfo]:
    with debuginfo.known() as made:
        yield made


def test_a_source_comes_from_the_servers(find: Find, outside: DebugInfo, tmp_path: Path) -> None:
    source = tmp_path / "x.c"
    source.write_text("int x;\n")
    find(f'[ "$*" = "source abcdef /src/x.c" ] && echo {source}')
    assert outside.source(FRAME) == b"int x;\n"


def test_nobody_is_asked_without_urls(
    find: Find, outside: DebugInfo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find(f"touch {tmp_path}/asked")
    monkeypatch.delenv("DEBUGINFOD_URLS")
    assert outside.source(FRAME) is None
    assert not (tmp_path / "asked").exists()


def test_what_no_server_has_is_asked_for_again(
    find: Find, outside: DebugInfo, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    find(f"echo x >> {tmp_path}/asked; echo 'Server query failed: No such file or directory' >&2;"
         " exit 1")  # fmt: skip
    assert outside.ask("debuginfo", "ab") is None
    assert outside.ask("debuginfo", "cd") is None
    assert (tmp_path / "asked").read_text() == "x\nx\n"
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("sleep 5", "took more than 1 s: going on with symbols only"),
        ("echo 'Server query failed: Connection refused' >&2; exit 1", "Connection refused"),
    ],
)
def test_servers_that_fail_are_told_of_once(
    find: Find,
    outside: DebugInfo,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    says: str,
) -> None:
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", "1")
    find(script)
    assert outside.ask("debuginfo", "ab") is None
    assert says in capsys.readouterr().err
    assert not outside.servers
    assert outside.ask("debuginfo", "cd") is None
    assert not capsys.readouterr().err


def test_there_may_be_no_debuginfod_find(
    outside: DebugInfo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://localhost:1")
    monkeypatch.setenv("PATH", "/nowhere")
    assert outside.source(FRAME) is None
    assert "there is no debuginfod-find on PATH" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "seconds"), [("", 10), ("3", 3), ("x", 10), ("0", 10)])
def test_the_time_limit(monkeypatch: pytest.MonkeyPatch, text: str, seconds: int) -> None:
    monkeypatch.setenv("DEBUGINFOD_TIMEOUT", text)
    assert debuginfo.time_limit() == seconds
