"""``rewind export`` here, and ``rewind import`` where the run is not."""

import contextlib
import functools
import hashlib
import http.server
import json
import re
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from conftest import Recorded, Session, descendants, needs_own_store

NOTE = "the receipt"


@attrs.frozen
class Exported:
    """A run of bank with a bookmark, and its file."""

    run: Recorded
    file: Path
    step: int
    """At which a teller writes its receipt."""
    job: str
    """The job's .drv."""


@pytest.fixture(scope="module")
def exported(session: Session, bank: Recorded) -> Exported:
    events = session.rewind("events", bank.hash, "--json").out.splitlines()
    step = next(json.loads(line)["step"] for line in events if "teller 1" in line)
    assert session.rewind("bookmark", bank.hash, str(step), NOTE).status == 0
    file = session.directory / "bank.rwd"
    answer = session.rewind("export", bank.hash, "-o", str(file))
    assert (answer.status, answer.err) == (0, ""), str(answer)
    assert answer.out == f"{file}: {file.stat().st_size:,} bytes\n"
    shown = session.rewind("show", bank.hash, "--json").json
    return Exported(bank, file, step, shown["drv"])


# $1 rewind, $2 the run's path, $3 the job's .drv
ELSEWHERE = r"""
    nix-store --delete --ignore-liveness "$2" > /dev/null 2>&1
    # What others in this store refer to can't be deleted.
    rm "$3"
    export XDG_STATE_HOME=$0/state XDG_CACHE_HOME=$0/cache
    mkdir "$0/state"
    rewind() {
        "$REWIND" "$@" 2> "$0/err" || echo "status $? $(< "$0/err")"
    }
    REWIND=$1
"""


def elsewhere(session: Session, what: Exported, script: str, *more: str) -> list[str]:
    """What *script* says where the run is not, nor its job: $4 and so on are *more*."""
    answer = session.alone(
        ELSEWHERE + script, str(session.rewind_program), str(what.run.path), what.job, *more
    )
    assert answer.status == 0, str(answer)
    return answer.out.splitlines()


def test_it_is_small_and_always_the_same(session: Session, exported: Exported) -> None:
    again = session.directory / "again.rwd"
    assert session.rewind("export", exported.run.hash, "-o", str(again)).status == 0
    assert again.read_bytes() == exported.file.read_bytes()
    assert again.stat().st_size < 1_000_000


@needs_own_store
def test_it_is_read_elsewhere(session: Session, exported: Exported) -> None:
    step = exported.step
    script = r"""
        file=$4 step=$5 run=$6
        rewind import "$file"
        say() { # COMMAND ARGUMENTS
            echo "== $*"
            rewind "$1" "$run" "${@:2}"
        }
        say log
        say log --steps
        say events --to "$step" --from "$step"
        say ps "$step"
        say show
        say bookmark
        say where "$step"
        say where 3
        say threads "$step"
        say compare "$run"
        say replay
        echo "== ls"
        rewind ls | grep imported
        echo "== import"
        rewind import "$file"
        find "$0/state" -name '.new*'
    """
    more = (str(exported.file), str(step), exported.run.hash)
    lines = elsewhere(session, exported, script, *more)
    said: dict[str, list[str]] = {}
    key = ""
    for line in lines:
        if line.startswith("== "):
            key = line[3:]
        else:
            said.setdefault(key, []).append(line)
    name = f"{exported.run.hash}  {exported.run.name}"
    assert said[""] == [f"{name}: imported, 1 new bookmark"]
    there = session.rewind("log", exported.run.hash).out
    assert said["log"] == there.splitlines()
    assert any(NOTE in line for line in said["log --steps"])
    assert "teller 1" in said[f"events --to {step} --from {step}"][0]
    assert said["bookmark"] == [f"{step}  {NOTE}"]
    assert said["show"][-1] == f"# {step}  {NOTE}"
    here = session.rewind("where", exported.run.hash, str(step)).out.splitlines()
    # How the position is named by its task takes a machine.
    assert re.match(r"\d+:\d+", here.pop(1))
    assert said[f"where {step}"] == here and any("bank.c" in line for line in here)
    (refused,) = said["where 3"]
    assert refused.startswith("status 2 rewind: the file does not say where threads are at 3: it")
    here = session.rewind("threads", exported.run.hash, str(step)).out.splitlines()
    assert said[f"threads {step}"] == here
    assert said["replay"][0].startswith("status 2 rewind: ") and "--trust" in said["replay"][0]
    assert said[f"compare {exported.run.hash}"][0].startswith("the same")
    assert len(said[f"ps {step}"]) > 3
    assert said["ls"][0].startswith(exported.run.hash[:8])
    assert said["import"] == [f"{name}: was imported before"]


@needs_own_store
def test_with_the_job_it_is_made_again(session: Session, exported: Exported) -> None:
    """The same rewind evaluates the run, which is what the file says it is."""
    script = r"""
        run=$4
        nix-store --delete --ignore-liveness "$2" > /dev/null 2>&1
        export XDG_STATE_HOME=$0/state XDG_CACHE_HOME=$0/cache
        "$1" import "$3"
        "$1" where "$run" 500 | head -1
        "$1" replay "$run" 2> /dev/null
    """
    answer = session.alone(
        script,
        str(session.rewind_program),
        str(exported.run.path),
        str(exported.file),
        exported.run.hash,
    )
    assert answer.status == 0, str(answer)
    lines = answer.out.splitlines()
    assert lines[1].startswith("process ") and lines[1].endswith(" at step 500")
    assert ": the same " in lines[2]


def test_the_store_has_it(session: Session, exported: Exported) -> None:
    answer = session.rewind("import", str(exported.file))
    assert answer.status == 0, str(answer)
    assert answer.out.endswith("is in the store, and the same\n")


@pytest.fixture
def server(session: Session) -> Iterator[str]:
    """The address of a web server that has the session's files."""
    handler = functools.partial(
        http.server.SimpleHTTPRequestHandler, directory=str(session.directory)
    )
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_port}"
        made.shutdown()
        thread.join()


@needs_own_store
def test_from_a_url(session: Session, exported: Exported, server: str) -> None:
    script = r"""
        rewind import "$4/nothing.rwd"
        rewind import "$4/bank.rwd" --hash "$5"
        rewind import "$4/bank.rwd" --hash "$6"
        cat "$0/err"
    """
    wrong, right = "0" * 64, hashlib.sha256(exported.file.read_bytes()).hexdigest()
    lines = elsewhere(session, exported, script, server, wrong, right)
    assert lines[0].startswith("status 2 rewind: ") and "404" in lines[0]
    assert lines[1].startswith("status 2 rewind: ") and "hash" in lines[1]
    assert ": imported" in lines[2]
    assert lines[3].startswith(f"rewind: fetched {server}/bank.rwd: sha256:")


class _Endless(http.server.BaseHTTPRequestHandler):
    """A file that has no end."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            while True:
                self.wfile.write(bytes(1 << 16))

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def test_a_url_without_an_end(session: Session) -> None:
    """It is not fetched for ever, nor until the disk is full, and nothing of it is left."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Endless) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}/x.rwd"
        before = sorted(session.temporary.iterdir())
        try:
            answer = session.rewind("import", url, "--max-size", "20M")
        finally:
            server.shutdown()
            thread.join()
    assert answer.status == 2, str(answer)
    assert answer.sentence == (
        f"rewind: {url} is larger than 20,971,520 bytes: --max-size allows more"
    )
    assert answer.err.count("\n") == 1 and sorted(session.temporary.iterdir()) == before
    answer = session.rewind("import", url, "--max-size", "much")
    assert answer.status == 2 and "'much' is no size" in answer.sentence, str(answer)


def test_bad_input(session: Session, exported: Exported) -> None:
    data = exported.file.read_bytes()
    bad = session.directory / "bad.rwd"
    for changed, says in (
        (data[:-1], "is cut short"),
        (data[:100], "is cut short"),
        (data[:5000] + b"x" + data[5001:], "is damaged"),
        (data[:8] + struct.pack("<I", 2) + data[12:], "is of version 2; this rewind reads"),
        (b"", "is no .rwd file"),
    ):
        bad.write_bytes(changed)
        answer = session.rewind("import", str(bad))
        assert answer.status == 2 and says in answer.sentence, str(answer)
        assert answer.err.count("\n") == 1 and not answer.out
    directory = session.directory / "state" / "rewind" / "imported"
    assert [path.name for path in directory.iterdir()] == ["lock"]


def test_interrupted(session: Session, exported: Exported) -> None:
    """Ctrl-C while the run is being looked at: no file, and no machine."""
    target = session.directory / "interrupted.rwd"
    process = session.start(
        [str(session.rewind_program), "export", exported.run.hash, "-o", str(target)]
    )
    try:
        end = time.monotonic() + 60
        while not any("qemu-system" in child.command for child in descendants(process.pid)):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
        started = descendants(process.pid)
        subprocess.run(["kill", "-INT", "--", f"-{process.pid}"], check=True)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=True)
            process.wait()
    assert (process.returncode, out) == (128 + signal.SIGINT, ""), err
    assert not list(session.directory.glob("*interrupted*"))
    assert not list(session.directory.glob(".interrupted*"))
    end = time.monotonic() + 10
    while (alive := [child for child in started if child.alive]) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive


def _lies(data: bytes, size: int) -> bytes:
    """The file *data*, in which the NAR of *size* bytes is said to have another hash."""
    (count,) = struct.unpack_from("<I", data, 12)
    end = 16 + count * 56
    table = bytearray(data[:end])
    (place,) = (
        at for at in range(16, end, 56) if struct.unpack_from("<I4xQQ", table, at)[::2] == (9, size)
    )
    table[place + 24] ^= 1
    return bytes(table) + hashlib.sha256(table).digest() + data[end + 32 :]


@needs_own_store
def test_replayable(session: Session) -> None:
    """What makes it again comes with it; Nix sees when a hash is a lie, and adds nothing."""
    # A boot snapshot that nothing else in the store refers to.
    run = session.recorded(session.job("bare"), "--memory", "333")
    file, lies = session.directory / "again.rwd", session.directory / "lies.rwd"
    answer = session.rewind("export", run.hash, "-o", str(file), "--replayable")
    assert answer.status == 0 and "of them to make it again" in answer.out, str(answer)
    shown = session.rewind("show", run.hash, "--json").json
    drv = session.nix("path-info", "--derivation", str(run.path))
    (snapshot,) = set(
        re.findall(r"/nix/store/\w{32}-rewind-boot-snapshot\b(?!\.drv)", Path(drv).read_text())
    )
    size = int(session.nix("path-info", "--size", snapshot).split()[-1])
    lies.write_bytes(_lies(file.read_bytes(), size))
    script = r"""
        nix-store --delete --ignore-liveness "$6" > /dev/null 2>&1
        nix-store --delete --ignore-liveness "$7" > /dev/null 2>&1
        rewind import "$5" --trust
        ls "$0/state/rewind/imported"
        rewind import "$4"
        test -e "$7" || echo "it is not there"
        rewind import "$4" --trust
        test -e "$7" && echo "it is there"
        rewind where "$8" 20 | head -1
        rewind replay "$8"
    """
    what = Exported(run, file, 0, shown["drv"])
    lines = elsewhere(session, what, script, str(file), str(lies), drv, snapshot, run.hash)
    name = f"{run.hash}  {run.name}"
    assert lines[0].startswith("status 2 rewind: what makes the run again can't be added")
    assert "hash mismatch" in lines[0]
    assert lines[1:6] == [
        "lock",
        f"{name}: imported",
        "what makes it again is in the file: --trust adds it to the store",
        "it is not there",
        f"{name}: was imported before",
    ]
    assert lines[6] == "it is there"
    assert lines[7].endswith(" at step 20")
    assert lines[8].startswith(f"{run.hash[:8]}  {run.name}: the same ")
