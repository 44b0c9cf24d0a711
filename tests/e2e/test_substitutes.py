"""Runs in binary caches: a signed one on loopback, and a store that has not made them."""

import contextlib
import functools
import re
import socket
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

from conftest import Answer, Session, needs_own_store

pytestmark = needs_own_store


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def served(directory: Path, handler: type[SimpleHTTPRequestHandler] = _Quiet) -> Iterator[str]:
    """The URL at which *directory* is served."""
    handler = functools.partial(handler, directory=str(directory))
    with ThreadingHTTPServer(("localhost", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def mute() -> Iterator[str]:
    """The URL of a server that takes every connection, and says nothing."""
    with socket.create_server(("localhost", 0)) as server:
        yield f"http://localhost:{server.getsockname()[1]}"


class _Halting(_Quiet):
    """Sends half of a NAR, and no more as long as anybody waits."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        if ".nar" not in self.path or self.path.endswith(".narinfo"):
            super().copyfile(source, outputfile)
            return
        data = source.read()
        outputfile.write(data[: len(data) // 2])
        outputfile.flush()
        self.connection.recv(1)


@attrs.frozen
class Pushed:
    """A run that machine A has made and pushed."""

    session: Session
    run: Path
    cache: Path
    key: str
    """The public one."""

    def elsewhere(self, script: str, url: str, *arguments: str, key: str | None = None) -> Answer:
        """*script* on machine B, which has not made the run, and builds nothing.

        There, $1 is rewind, $2 the run's installable, $3 the run, and $4 and so on *arguments*.
        """
        flake = f"{self.session.jobs}#runs.hello"
        gone = r"""
            deriver=$(nix-store --query --deriver "$3")
            nars=$(nix-store --query --outputs "$deriver" | grep -- -nars)
            rm -f "$XDG_STATE_HOME"/rewind/*/"${3##*/}"*
            export XDG_STATE_HOME=$0/state XDG_CACHE_HOME=$0/cache
            nix-store --delete --ignore-liveness "$3" "$nars" > /dev/null
            test ! -e "$3"
            export NIX_CONFIG="
            experimental-features = nix-command flakes
            max-jobs = 0
            substituters = $4
            trusted-public-keys = $5
            require-sigs = true
            "
        """
        rewind = str(self.session.rewind_program)
        return self.session.alone(
            gone + script, rewind, flake, str(self.run), url, key or self.key, *arguments
        )


@pytest.fixture(scope="module")
def pushed(session: Session) -> Pushed:
    """The run of hello in a cache, with what its machine needs in none."""
    (run,) = session.nix(
        "build", "--no-link", "--print-out-paths", f"{session.jobs}#runs.hello"
    ).split()
    secret = session.directory / "secret"
    secret.write_text(session.nix("key", "generate-secret", "--key-name", "test-1"))
    key = _public(session, secret)
    cache = session.directory / "cache-of-a"
    session.nix("copy", "--to", f"file://{cache}?secret-key={secret}", run)
    return Pushed(session, Path(run), cache, key)


def _public(session: Session, secret: Path) -> str:
    """The public half of a key."""
    answer = session.run("bash", "-c", f"nix key convert-secret-to-public < {secret}")
    assert answer.status == 0, str(answer)
    return answer.out.strip()


def test_a_run_is_read_where_it_was_not_made(pushed: Pushed) -> None:
    """nix build fetches it, and its job is not built; all commands that look at it work."""
    script = r"""
        nix build --no-link --print-out-paths "$2"
        "$1" log "$3" | head -2
        "$1" where "$3" 100 --json | grep '"position"'
        "$1" compare "$3" "$3"
    """
    with served(pushed.cache) as url:
        answer = pushed.elsewhere(script, url)
    assert answer.status == 0, str(answer)
    lines = answer.out.splitlines()
    assert lines[0] == str(pushed.run), str(answer)
    assert "hello on" in lines[1], str(answer)
    assert '"position": "100"' in answer.out, str(answer)


def test_a_signature_by_nobody_trusted_is_refused(pushed: Pushed) -> None:
    other = "test-1:" + "A" * 43 + "="
    with served(pushed.cache) as url:
        answer = pushed.elsewhere('nix build --no-link "$2"', url, key=other)
    assert answer.status != 0, str(answer)
    assert "not signed by any of the keys" in answer.err, str(answer)


def test_an_unsigned_run_is_refused(pushed: Pushed, tmp_path: Path) -> None:
    cache = tmp_path / "unsigned"
    pushed.session.nix("copy", "--to", f"file://{cache}", str(pushed.run))
    with served(cache) as url:
        answer = pushed.elsewhere('nix build --no-link "$2"', url)
    assert answer.status != 0, str(answer)
    assert "not signed by any of the keys" in answer.err, str(answer)


def test_a_cache_that_lies_is_found_out(pushed: Pushed, tmp_path: Path) -> None:
    """What it sends is not what it has signed."""
    lying = tmp_path / "lying"
    for file in pushed.cache.rglob("*"):
        if file.is_file():
            copy = lying / file.relative_to(pushed.cache)
            copy.parent.mkdir(parents=True, exist_ok=True)
            data = bytearray(file.read_bytes())
            if ".nar" in file.name and file.suffix != ".narinfo":
                data[len(data) // 2] ^= 1
            copy.write_bytes(data)
    with served(lying) as url:
        answer = pushed.elsewhere('nix build --no-link "$2" || test ! -e "$3"', url)
    assert answer.status == 0, str(answer)
    assert re.search("hash mismatch|[Cc]orrupt", answer.err), str(answer)


# What a cache may take, and that Nix goes on without it when it is over.
_SHORT = r"""
    export NIX_CONFIG="$NIX_CONFIG
    stalled-download-timeout = 8
    download-attempts = 1
    max-jobs = 1
    "
"""


def test_a_cache_that_says_nothing(pushed: Pushed) -> None:
    """The user is told for what Nix waits; then the run is made, as there is no cache."""
    script = _SHORT + '"$1" nix "${2/runs./}"'
    with mute() as url:
        begin = time.monotonic()
        answer = pushed.elsewhere(script, url)
    assert time.monotonic() - begin < 60
    assert answer.status == 0 and "exited 0" in answer.out, str(answer)
    told = f"rewind: {url} has sent nothing for 5 s: Nix gives it 8 s, 1 time over"
    assert answer.err.count(told) == 1, str(answer)


@pytest.mark.parametrize("fallback", [False, True])
def test_a_cache_that_stops_within_a_run(pushed: Pushed, fallback: bool) -> None:
    """Told, too; and with Nix's `fallback` it is made, as for any path that cannot be fetched."""
    script = (
        _SHORT
        + rf"""
        export NIX_CONFIG="$NIX_CONFIG
        fallback = {str(fallback).lower()}
        "
        "$1" nix "${{2/runs./}}"
    """
    )
    with served(pushed.cache, _Halting) as url:
        answer = pushed.elsewhere(script, url)
    assert f"rewind: {url} has sent nothing for 5 s: Nix gives it 8 s" in answer.err, str(answer)
    if fallback:
        assert answer.status == 0 and "exited 0" in answer.out, str(answer)
    else:
        assert answer.status == 2, str(answer)
        # Nix's own words.
        assert "timeout was reached" in answer.err.lower(), str(answer)
        assert "try '--fallback'" in answer.err, str(answer)


def test_a_cache_without_the_machine(pushed: Pushed) -> None:
    """The run can be read; to look into its machine, what is missing is named, and how to get it."""
    script = r"""
        nix build --no-link "$2"
        layer=$(nix-store --query --references "$(nix-store --query --deriver "$3")" |
            grep -m1 rewind-layer)
        layer=$(nix-store --query --outputs "$layer")
        nix-store --delete --ignore-liveness \
            $(nix-store --query --referrers-closure $layer) > /dev/null
        "$1" log "$3" | head -1
        "$1" where "$3" 100
    """
    with served(pushed.cache) as url:
        answer = pushed.elsewhere(script, url)
    assert answer.status == 2, str(answer)
    assert "hello on" in answer.out, str(answer)
    assert "rewind-layer" in answer.sentence, str(answer)
    assert answer.sentence.endswith("nix copy its attribute needs to a cache"), str(answer)


def test_what_running_it_again_takes_is_one_attribute(pushed: Pushed, tmp_path: Path) -> None:
    """`needs`: the machine, its boot snapshot, and the job's layers."""
    flake = f"{pushed.session.jobs}#runs.hello.needs"
    (needs,) = pushed.session.nix("build", "--no-link", "--print-out-paths", flake).split()
    names = {entry.name for entry in Path(needs).iterdir()}
    assert {"job", "kernel", "layer0", "recorder", "settings", "snapshot"} <= names, names
    closure = pushed.session.run("nix-store", "--query", "--requisites", needs).out
    assert "-rewind-qemu-" in closure and "-rewind-layer-" in closure, closure
