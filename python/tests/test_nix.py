"""What is asked of Nix, with programs that stand for it."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rewind.cli import nix
from rewind.cli.errors import Failure
from rewind.cli.nix import BuildFailure, LogLine, Message, Phase, Started

Programs = Callable[[str, str], None]

TRACE = """\
error:
       … while calling the 'derivationStrict' builtin
         at <nix/derivation-internal.nix>:34:12:
           33|
           34|   strict = derivationStrict drvAttrs;
             |            ^

       \x1b[31;1merror:\x1b[0m bank is for \x1b[35;1maarch64-linux\x1b[0m:
       the machine is x86_64-linux
       at /nix/store/x/lib/job.nix:1:2:
            1| x
"""


def test_sentence(programs: Programs) -> None:
    """Nix's last error, on one line, without colours and positions."""
    programs("nix", f"sys.exit(sys.stderr.write({TRACE!r}) and 1)")
    with pytest.raises(Failure) as raised:
        nix.nix("eval")
    assert str(raised.value) == "bank is for aarch64-linux: the machine is x86_64-linux"


@pytest.mark.parametrize(
    ("stderr", "sentence"),
    [
        ("error: path '/x' is not valid\n", "path '/x' is not valid"),
        ("warning: w\nerror: a\nerror: b\n", "b"),
        ("something else\n", "something else"),
        ("", "nix failed without a word"),
    ],
)
def test_sentences(programs: Programs, stderr: str, sentence: str) -> None:
    programs("nix", f"sys.stderr.write({stderr!r}); sys.exit(1)")
    with pytest.raises(Failure) as raised:
        nix.nix("eval")
    assert str(raised.value) == sentence


def test_no_nix(programs: Programs) -> None:
    with pytest.raises(Failure, match="there is no nix on PATH"):
        nix.nix("eval")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("nix (Nix) 2.26.3", (2, 26, 3)), ("nix (Determinate Nix 3.1.0) 2.18", (3, 1, 0))],
)
def test_version(programs: Programs, text: str, expected: tuple[int, ...]) -> None:
    programs("nix", f"print({text!r})")
    assert nix.version() == expected


ENTRY = '"narHash": "sha256-x", "narSize": 5, "registrationTime": 7, "deriver": "/nix/store/d.drv"'


@pytest.mark.parametrize(
    "answer",
    [
        '{"/nix/store/a": {%s}, "/nix/store/b": null}',
        '[{"path": "/nix/store/a", %s}, {"path": "/nix/store/b", "valid": false}]',
        '{"a": {%s}}',
    ],
)
def test_path_info(programs: Programs, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    """In all the forms that Nix has had; and it is asked only of what is valid."""
    monkeypatch.setattr(nix, "STORE", Path("/nix/store"))
    programs("nix-store", "print('/nix/store/c')")
    programs("nix", f"assert '/nix/store/c' not in sys.argv; print({answer % ENTRY!r})")
    paths = [Path("/nix/store", name) for name in "abc"]
    found = nix.path_info(paths)
    assert list(found) == paths[:1]
    assert found[paths[0]] == nix.PathInfo(paths[0], "sha256-x", 5, 7, Path("/nix/store/d.drv"))


def test_nothing_is_asked_of_no_paths(programs: Programs) -> None:
    assert nix.path_info([]) == {}


def test_derivation(programs: Programs) -> None:
    programs("nix", "print('/nix/store/a.drv^*')")
    assert nix.derivation(".#x") == Path("/nix/store/a.drv")
    programs("nix", "print('/nix/store/a.drv\\n/nix/store/b.drv')")
    with pytest.raises(Failure, match=r"more than one derivation: a\.drv, b\.drv"):
        nix.derivation(".#x")
    programs("nix", f"sys.exit(sys.stderr.write({TRACE!r}) and 1)")
    with pytest.raises(Failure) as raised:
        nix.derivation(".#x")
    # Where, too: it is the user's own expression.
    assert str(raised.value) == (
        "bank is for aarch64-linux: the machine is x86_64-linux at /nix/store/x/lib/job.nix:1:2"
    )


def test_prefetch_has_a_bound(programs: Programs, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    deleted = tmp_path / "deleted"
    programs("nix-prefetch-url", f"print('hash', {str(file)!r})")
    programs("nix-store", f"open({str(deleted)!r}, 'w').write(' '.join(sys.argv[1:]))")
    assert nix.prefetch("http://x", None, 100) == ("hash", file)
    assert not deleted.exists()
    with pytest.raises(Failure, match="is larger than 99 bytes"):
        nix.prefetch("http://x", None, 99)
    # It had come before anybody looked.
    assert deleted.exists()
    left = tmp_path / "left"
    programs(
        "nix-prefetch-url",
        f"""
place = os.environ["TMPDIR"]
open({str(left)!r}, "w").write(place)
os.mkdir(place + "/nix-1")
open(place + "/nix-1/tmp", "wb").write(bytes(1000))
time.sleep(60)
""",
    )
    begin = time.monotonic()
    with pytest.raises(Failure, match="is larger than 999 bytes"):
        nix.prefetch("http://x", None, 999)
    assert time.monotonic() - begin < 30
    assert not Path(left.read_text()).exists()


BUILD = textwrap.dedent(
    """
    def say(**entry): sys.stderr.write("@nix " + json.dumps(entry) + "\\n")
    say(action="start", id=1, level=3, type=108, fields=["/nix/store/dep", "cache"], text="")
    say(action="start", id=2, level=3, type=105, fields=["/nix/store/run.drv", "", 1, 1], text="")
    say(action="start", id=3, level=3, type=0, text="x")
    say(action="result", id=2, type=101, fields=["a line"])
    say(action="result", id=2, type=104, fields=["5 steps"])
    say(action="result", id=2, type=105, fields=[1, 2, 3, 4])
    say(action="result", id=9, type=101, fields=["of nothing"])
    say(action="msg", level=1, msg="\\x1b[35;1mwarning:\\x1b[0m careful")
    say(action="msg", level=3, msg="building")
    sys.stderr.write("plain text\\n@nix not json\\n\\n")
    say(action="stop", id=2)
    say(action="result", id=2, type=101, fields=["too late"])
    """
)
RUN = Path("/nix/store/run.drv")
EVENTS = [
    Started(Path("/nix/store/dep")),
    Started(RUN),
    LogLine(RUN, "a line"),
    Phase(RUN, "5 steps"),
    Message("warning: careful", error=False),
    Message("plain text", error=False),
]


def test_build(programs: Programs) -> None:
    programs("nix", BUILD)
    assert list(nix.build("x^*", "--no-link")) == EVENTS


def test_silent_caches() -> None:
    """Each is told of once, when nothing has come for a while; those that send are not."""
    now = 0.0
    reader = nix._Reader(clock=lambda: now)

    def say(**entry: Any) -> object:
        return reader.read("@nix " + json.dumps(entry))

    for number, url in enumerate(("http://u:p@slow/a", "http://u:p@slow/b", "http://fast/a")):
        say(action="start", id=number, level=4, type=101, fields=[url], text="")
    told = []
    for now in range(20):
        told += [(now, say(action="result", id=n, type=105, fields=[7, 9, 0, 0])) for n in (0, 1)]
        told.append((now, say(action="result", id=2, type=105, fields=[now, 99, 0, 0])))
        if now == 15:
            say(action="stop", id=2)
    assert [one for one in told if one[1]] == [(5, nix.Silent("http://slow"))]


def test_failed_build(programs: Programs) -> None:
    """All events come, then the failure, with what Nix said."""
    programs(
        "nix",
        BUILD
        + 'say(action="msg", level=0, msg="error: no\\nerror: build of x failed")\nsys.exit(3)',
    )
    seen = []
    with pytest.raises(BuildFailure) as raised:
        for event in nix.build("x"):
            seen.append(event)
    assert seen[:-1] == EVENTS
    assert str(raised.value) == "build of x failed"
    assert raised.value.status == 3
    assert raised.value.log.startswith("warning: careful\nplain text\nerror: no")


def test_abandoned_build(programs: Programs, tmp_path: Path) -> None:
    """A build that nobody follows any more is interrupted, and over when that returns."""
    programs(
        "nix",
        BUILD
        + f"""
sys.stderr.flush()
try: time.sleep(60)
except KeyboardInterrupt: open({str(tmp_path / "interrupted")!r}, "w")
""",
    )
    events = nix.build("x")
    assert next(events) == EVENTS[0]
    time.sleep(0.2)
    events.close()  # type: ignore[attr-defined]
    assert (tmp_path / "interrupted").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(programs: Programs, tmp_path: Path, number: signal.Signals) -> None:
    """Told to end, rewind ends nix, and its exit status says what told it."""
    programs("nix", f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    source = Path(nix.__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-m", "rewind.cli", "nix", ".#x"],
        env={**os.environ, "PYTHONPATH": f"{source}:{os.environ.get('PYTHONPATH', '')}"},
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 30
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert err == b""
    # It is there until somebody has waited for it, which in a build's sandbox is the builder.
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline + 30:
            os.kill(int((tmp_path / "pid").read_text()), 0)
            time.sleep(0.02)


def test_deriver(programs: Programs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only one that is still there."""
    monkeypatch.setattr(nix, "STORE", tmp_path)
    made = tmp_path / "a.drv"
    made.touch()
    programs("nix-store", f"print('{made}')")
    assert nix.deriver(Path("/nix/store/a")) == made
    made.unlink()
    assert nix.deriver(Path("/nix/store/a")) is None
    programs("nix-store", "print('unknown-deriver')")
    assert nix.deriver(Path("/nix/store/a")) is None
    programs("nix-store", "sys.stderr.write(\"error: path '/x' is not valid\\n\"); sys.exit(1)")
    with pytest.raises(nix.NixFailure, match="path '/x' is not valid"):
        nix.deriver(Path("/x"))
