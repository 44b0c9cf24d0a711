"""What bad input gets: a sentence, exit status 2, and nothing half-made left behind."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conftest import Answer, Recorded, Session, descendants, needs_own_store


def refuse(session: Session, *arguments: str, says: str, **more: str) -> Answer:
    """Run rewind, which must fail as bad input does; *says* is in its last line."""
    before = session.traces()
    answer = session.rewind(*arguments, **more)
    assert answer.status == 2, str(answer)
    assert answer.sentence.startswith("rewind: "), str(answer)
    assert says in answer.sentence, str(answer)
    assert "Traceback" not in answer.err, str(answer)
    assert not answer.out, str(answer)
    assert session.traces() == before, str(answer)
    return answer


# --- jobs


def test_a_file_that_is_no_derivation(session: Session) -> None:
    path = session.nix("store", "add", "--name", "some-text", str(session.jobs / "jobs.nix"))
    refuse(session, "nix", path, says=f"{path} is no derivation")


def test_a_flakes_value_that_is_no_derivation(session: Session) -> None:
    refuse(session, "nix", f"{session.jobs}#text", says="")


def test_a_drv_that_is_not_there(session: Session) -> None:
    path = f"/nix/store/{'0' * 32}-nothing.drv"
    refuse(session, "nix", path, says=f"{path}: there is no such derivation in the store")


def test_a_drv_that_is_not_in_the_store(session: Session) -> None:
    path = session.directory / "stray.drv"
    path.write_text("Derive([])")
    refuse(session, "nix", str(path), says=f"{path} is not in the store /nix/store")


def test_an_attribute_that_is_not_there(session: Session) -> None:
    refuse(session, "nix", session.job("nobody"), says="does not provide attribute")


@pytest.mark.parametrize(
    ("job", "says"),
    [
        ("fixedOutput", "is a fixed-output derivation"),
        ("otherSystem", "is for aarch64-linux: the machine is x86_64-linux"),
        ("needsKvm", "needs the system feature kvm"),
        ("noChroot", "has __noChroot"),
    ],
)
def test_what_the_machine_is_no_place_for(session: Session, job: str, says: str) -> None:
    refuse(session, "nix", session.job(job), says=says)
    refuse(session, "nix", session.drv(job), says=says)


def test_a_content_addressed_derivation(session: Session) -> None:
    refuse(session, "nix", session.job("contentAddressed"), says="ca-derivations")
    refuse(
        session,
        "nix",
        session.job("contentAddressed"),
        says="is content-addressed",
        NIX_CONFIG="extra-experimental-features = ca-derivations",
    )


def test_an_input_that_does_not_build(session: Session) -> None:
    answer = refuse(
        session,
        "nix",
        session.job("brokenInput"),
        says=f"{session.name('broken-input')} was not recorded: nix could not build what it needs",
    )
    assert "no luck today" in answer.err, str(answer)


# --- options


@pytest.mark.parametrize("clock", ["branches", "exits"])
def test_clocks_of_recorders_that_count_in_hardware(session: Session, clock: str) -> None:
    refuse(
        session,
        "nix",
        session.job("bare"),
        "--clock",
        clock,
        says=f"--clock {clock} is for recorders that count in the processor's hardware",
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [("--epoch", "-1"), ("--cores", "0"), ("--memory", "much"), ("--schedule", "[1]")],
)
def test_options_that_make_no_sense(session: Session, option: str, value: str) -> None:
    refuse(session, "nix", session.job("bare"), option, value, says="")


@pytest.mark.parametrize("name", ["with space", "a/b", "x" * 250])
def test_names_that_a_store_path_cannot_have(session: Session, name: str) -> None:
    refuse(session, "nix", session.job("bare"), "--name", name, says="name")


def test_less_memory_than_a_machine_can_have(session: Session) -> None:
    answer = refuse(session, "nix", session.job("bare"), "--memory", "100", says="memory")
    assert "256" in answer.sentence, str(answer)


# --- what a machine, or a disk, cannot hold


def test_too_little_memory(session: Session) -> None:
    answer = session.rewind("nix", session.job("greedy"), "--memory", "256")
    assert answer.status == 2, str(answer)
    assert "Out of memory: Killed process" in answer.out + answer.err, str(answer)
    assert "--memory" in answer.sentence, str(answer)
    # With more of it, the same job goes well.
    assert "exited 0" in session.recorded(session.job("greedy")).answer.out


def test_a_closure_that_is_too_large_for_its_window(session: Session, tmp_path: Path) -> None:
    """A rewind whose windows are small stands for a closure of more than 64 GiB."""
    source = tmp_path / "source"
    shutil.copytree(session.nix("eval", "--raw", f"{session.checkout}#rewind.source"), source)
    image = source / "lib" / "image.nix"
    image.chmod(0o644)
    image.parent.chmod(0o755)
    text = image.read_text()
    window = "window ? 64 * 1024 * 1024 * 1024"
    assert window in text
    image.write_text(text.replace(window, "window ? 4096"))
    refuse(
        session,
        "nix",
        session.job("bare"),
        says="bytes in a layer, and it has room for 4096",
        REWIND_SOURCE=str(source),
    )


@needs_own_store
def test_a_full_disk(session: Session) -> None:
    # So that no more than the run is left to be made.
    session.nix("build", "--no-link", f"{session.jobs}#runs.bare")
    session.nix("eval", "--raw", f"{session.jobs}#runs.large.drvPath")
    before = session.traces()
    answer = session.alone(
        r"""
        status=0
        "$1" nix "$2" || status=$?
        echo "status $status"
        ls /nix/store | grep -F -- "-rewind-run-$3" | grep -v '\.drv$\|\.lock$' || true
        df --output=used "$0/store" | tail -n 1
        """,
        str(session.rewind_program),
        session.job("large"),
        session.name("large"),
        room="24m",
    )
    status, *left = answer.out.splitlines()
    assert status == "status 2", str(answer)
    assert "No space left on device" in answer.sentence, str(answer)
    # The number of KiB, and no names before it.
    assert len(left) == 1, str(answer)
    assert int(left[0]) < 8192, str(answer)
    assert session.traces() == before


def test_an_interrupt(session: Session) -> None:
    before = session.traces()
    process = session.start([str(session.rewind_program), "nix", session.job("spins")])
    assert process.stderr is not None
    try:
        said = ""
        while "round and round" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        started = descendants(process.pid)
        assert any("qemu-system-x86_64" in child.command for child in started), started
        signalled = time.monotonic()
        # As the terminal does: to rewind and to the nix that it has started.
        subprocess.run(["kill", "-INT", "--", f"-{process.pid}"], check=True)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=True)
            process.wait()
    took = time.monotonic() - signalled
    assert process.returncode == 128 + signal.SIGINT, err
    assert "Traceback" not in err
    assert not out
    assert took < 20, f"{took:.1f} s"
    while (
        alive := [child for child in started if child.alive]
    ) and time.monotonic() < signalled + 30:
        time.sleep(0.1)
    assert not alive, alive
    assert session.traces() == before

    # The next call is not held up, and makes the run.
    assert "timed-out" in session.recorded(session.job("spins"), "--time-limit", "1").answer.out


# --- runs


@pytest.mark.parametrize("command", ["show", "log", "events", "ps", "replay"])
def test_a_run_that_is_not_there(session: Session, command: str) -> None:
    refuse(session, command, "zzzzzzzz", says="there is no run of the hash or name zzzzzzzz")
    refuse(session, command, "nobody", says="there is no run of the name nobody")
    refuse(session, command, "@999999999", says="there is no run @999999999")
    refuse(session, command, "/etc/passwd", says="/etc/passwd is not the path of a run")


def _cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def _flip(data: bytes) -> bytes:
    """With another byte in the middle of the first frame."""
    place = 16 + 32 + 200
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def _newer_trace(data: bytes) -> bytes:
    return data[:8] + (99).to_bytes(4, "little") + data[12:]


def _newer_manifest(data: bytes) -> bytes:
    # In CBOR: the text "version", the number 1.
    assert data.count(b"\x67version\x01") == 1
    return data.replace(b"\x67version\x01", b"\x67version\x17")


@pytest.fixture
def damage(
    session: Session, hello: Recorded
) -> Iterator[Callable[[str, Callable[[bytes], bytes]], Path]]:
    """Makes a copy of a run that has something else in one of its files."""
    paths = []

    def make(name: str, change: Callable[[bytes], bytes]) -> Path:
        copy = session.directory / f"rewind-run-damaged-{session.mark}"
        shutil.copytree(hello.path, copy)
        copy.chmod(0o755)
        file = copy / name
        file.chmod(0o644)
        file.write_bytes(change(file.read_bytes()))
        path = session.nix("store", "add", str(copy))
        shutil.rmtree(copy)
        paths.append(path)
        # Who looks at it keeps it, and the log is there whatever else is damaged.
        assert session.rewind("log", path).status == 0
        return Path(path)

    yield make
    for path in paths:
        (session.roots / Path(path).name).unlink()
    session.run("nix-store", "--delete", *paths)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_cut, "the trace is cut short"),
        (_flip, "the trace is damaged"),
        (_newer_trace, "the trace is of version 99; this rewind reads versions up to 2"),
        (lambda _: b"", "this is no trace"),
    ],
    ids=["cut", "flipped", "newer", "empty"],
)
def test_a_damaged_trace(
    session: Session,
    damage: Callable[[str, Callable[[bytes], bytes]], Path],
    change: Callable[[bytes], bytes],
    says: str,
) -> None:
    path = damage("trace", change)
    for command in (["events"], ["ps"], ["log", "--steps"]):
        before = session.traces()
        answer = session.rewind(*command, str(path))
        assert answer.status == 2, str(answer)
        assert answer.sentence.startswith(f"rewind: {path}/trace: "), str(answer)
        assert says in answer.sentence, str(answer)
        assert session.traces() == before
    # What does not need the trace is still there.
    assert session.rewind("log", str(path)).status == 0
    assert session.rewind("show", str(path)).status == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_cut, "the manifest is damaged"),
        (_newer_manifest, "the manifest is of version 23; this rewind reads version 1"),
        (lambda _: b"\xff", "manifest"),
    ],
    ids=["cut", "newer", "garbage"],
)
def test_a_damaged_manifest(
    session: Session,
    damage: Callable[[str, Callable[[bytes], bytes]], Path],
    change: Callable[[bytes], bytes],
    says: str,
) -> None:
    path = damage("manifest.cbor", change)
    for command in ("show", "replay"):
        answer = refuse(session, command, str(path), says=f"{path}/manifest.cbor: ")
        assert says in answer.sentence, str(answer)
    # The others are listed, this one is complained of.
    answer = session.rewind("ls")
    assert answer.status == 0, str(answer)
    assert session.name("hello") in answer.out
    assert f"{path}/manifest.cbor" in answer.err
