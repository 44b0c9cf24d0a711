"""Looking into a run by its keyframes: cat, ls-files, ps --all, threads STEP, and what they leave."""

import json
import signal
import subprocess
import time
from pathlib import Path

import attrs
import pytest

from conftest import Answer, Recorded, Session, descendants

MAKEFILE = Path(__file__).resolve().parents[2] / "examples" / "bank" / "Makefile"


@attrs.frozen
class Looks:
    """A run that is looked into, with keyframes of its own."""

    session: Session
    run: Recorded
    cache: Path
    step: int
    """At which a teller writes its receipt."""
    pid: int
    tid: int

    @property
    def keyframes(self) -> list[Path]:
        """The files."""
        return sorted((self.cache / "rewind" / "keyframes").glob("*.keyframe"))

    def ask(self, command: str, position: str, *words: str, **more: str) -> Answer:
        """A question at *position*."""
        environment = {"XDG_CACHE_HOME": str(self.cache), **more}
        return self.session.rewind(command, self.run.hash, position, *words, **environment)

    def good(self, command: str, position: str, *words: str, **more: str) -> Answer:
        """One that is answered, without a word besides."""
        answer = self.ask(command, position, *words, **more)
        assert (answer.status, answer.err) == (0, ""), str(answer)
        return answer


@pytest.fixture
def looks(session: Session, bank: Recorded, tmp_path: Path) -> Looks:
    events = session.rewind("events", bank.hash, "--json").out.splitlines()
    receipt = next(
        record
        for record in map(json.loads, events)
        if record["type"] == "enter"
        and record["call"] == "write"
        and record["details"][0]["text"].startswith("teller 2")
    )
    fields = [receipt[name] for name in ("step", "pid", "tid")]
    return Looks(session, bank, tmp_path / "cache", *fields)


def test_keyframes_are_shared(looks: Looks) -> None:
    """A question leaves some, the next starts there and leaves none; the answers are the same."""
    first = looks.good("where", str(looks.step))
    kept = looks.keyframes
    assert kept
    began = time.monotonic()
    again = looks.good("where", str(looks.step))
    took = time.monotonic() - began
    assert again.out == first.out
    looks.good("cat", f"{looks.step}+100", "/build/source/Makefile")
    assert looks.keyframes == kept
    # From its boot the run alone takes longer.
    assert took < 3, f"{took:.1f} s"

    # A fork that is perturbed later is the same run until there.
    answer = looks.session.rewind(
        "fork", looks.run.hash, str(looks.step + 1), "--stall", "1ms", "--json"
    )
    fork = attrs.evolve(looks, run=Twin(answer.json["hash"]))
    assert fork.good("where", str(looks.step)).out == first.out
    assert looks.keyframes == kept


@attrs.frozen
class Twin:
    """Another run."""

    hash: str


def test_damage(looks: Looks) -> None:
    """A keyframe that is damaged is told of once, removed and made anew."""
    # Not far from the boot: it is made anew again and again.
    at = "2000"
    expected = looks.good("where", at).out
    for harm in ("cut", "bit", "version"):
        # The one at the place: the last that was written.
        path = max(looks.keyframes, key=lambda path: path.stat().st_mtime_ns)
        data = bytearray(path.read_bytes())
        match harm:
            case "cut":
                del data[len(data) // 2 :]
            case "bit":
                data[len(data) // 2] ^= 1
            case "version":
                data[8] ^= 0x40
        path.write_bytes(data)
        answer = looks.ask("where", at)
        assert (answer.status, answer.out) == (0, expected), str(answer)
        assert answer.err.count("\n") == 1, str(answer)
        assert answer.err.startswith("rewind: a keyframe is damaged, and is made anew: "), answer
        assert looks.good("where", at).out == expected


def test_nowhere_to_keep_them(looks: Looks, tmp_path: Path) -> None:
    """Without a directory, or room in it, questions are answered all the same."""
    (tmp_path / "file").touch()
    answer = looks.good("ps", str(looks.step), "--all", XDG_CACHE_HOME=str(tmp_path / "file"))
    assert f"{looks.pid}/{looks.tid}" in answer.out
    looks.good("cat", "100", "/etc/passwd", REWIND_CACHE_SIZE="0")
    assert looks.keyframes == []
    answer = looks.ask("cat", "100", "/etc/passwd", REWIND_CACHE_SIZE="much")
    assert (answer.status, answer.out) == (2, ""), str(answer)
    assert answer.sentence == (
        "rewind: REWIND_CACHE_SIZE is 'much', which is no size such as 500M or 2G"
    )


def test_files(looks: Looks) -> None:
    """As a process has them, and where it works."""
    at, pid = f"{looks.step}+50", str(looks.pid)
    makefile = MAKEFILE.read_text()
    assert looks.good("cat", at, "Makefile", "--pid", pid).out == makefile
    assert looks.good("cat", at, f"/proc/{pid}/cwd/Makefile").out == makefile
    listed = looks.good("ls-files", at, "--pid", pid).out
    lines = [line.split() for line in listed.splitlines()]
    assert [line[-1] for line in lines] == [
        f"/build/source/{name}" for name in ("Makefile", "bank", "bank.c")
    ]
    assert ["-rw-r--r--", f"{len(makefile):,}", "/build/source/Makefile"] in lines
    below = looks.good("ls-files", at, "-r", "--json").json
    assert {entry["path"] for entry in below} == {
        "/build/source", *(line[-1] for line in lines)
    }  # fmt: skip
    shell = looks.good("ls-files", at, "/bin", "--json").json
    assert [entry["path"] for entry in shell] == ["/bin/sh"]
    for command, path in (("cat", "/build/none"), ("ls-files", "/build/none")):
        answer = looks.ask(command, at, path)
        assert (answer.status, answer.out) == (3, ""), str(answer)
        assert answer.err == f"rewind: there was no {path} at {at}\n"


def test_bad_questions(looks: Looks) -> None:
    for words, why in (
        (("cat", "99999999", "/x"), "there is no step 99,999,999"),
        (("ls-files", "1+999999999999"), "instructions after step 1"),
        (("ps", "99999999", "--all"), "there is no step 99,999,999"),
        (("threads", "99999999"), "there is no step 99,999,999"),
        (("cat", str(looks.step), "x", "--pid", "4999"), "there is no process 4999 at this step"),
        (("ls-files", str(looks.step), "--pid", "4999"), "there is no process 4999 at this step"),
        (("ls-files", str(looks.step), "/proc"), "/proc is in a file system of the kind proc"),
        (("cat", str(looks.step), "/build"), "/build is no regular file"),
    ):
        answer = looks.ask(*words)
        assert (answer.status, answer.out) == (2, ""), str(answer)
        assert why in answer.sentence, str(answer)


def test_what_threads_wait_for(looks: Looks) -> None:
    """By the kernel, with who can end it."""
    at = f"{looks.step}+2000"
    rows = {row["tid"]: row for row in looks.good("ps", at, "--all", "--json").json}
    builder, main, teller = rows[1], rows[looks.pid], rows[looks.tid]
    assert (teller["pid"], teller["name"], teller["state"]) == (looks.pid, "bank", "runs")
    assert main["state"] in ("waits", "ready") and main["command"].endswith("bank")
    assert builder["wait"]["call"] == "wait4"
    (child,) = builder["wait"]["who"]
    assert builder["wait"]["what"] == f"for the end of {child}"
    assert rows[child]["parent"] == 1
    lines = looks.good("threads", at).out.splitlines()
    assert len(lines) == len(rows)
    assert any(
        line.startswith(f"{looks.pid}/{looks.tid}  bank: runs, in deposit (bank.c:")
        for line in lines
    )
    shown = looks.good("threads", at, "--program", "bank").out.splitlines()
    assert [line.split()[1] for line in shown] == ["bank:"] * len(shown)


def test_who_has_the_mutex(session: Session) -> None:
    """Two threads that wait for each other: for which variable, and who has it."""
    answer = session.rewind("check", session.job("deadlock"), "--json")
    assert answer.status == 1, str(answer)
    failing = answer.json["hashes"]["failing"]
    last = session.rewind("events", failing, "--json").out.splitlines()[-1]
    # Nobody runs any more: the last record is that of the second one's going to sleep.
    rows = session.rewind("ps", failing, f"{json.loads(last)['step']}+5000", "--all", "--json").json
    held = {row["tid"]: row["wait"] for row in rows if row["tid"] != 1}
    assert {tid: wait["who"] for tid, wait in held.items()} == {2: [3], 3: [2]}
    assert {tid: wait["variable"] for tid, wait in held.items()} == {2: "locks[1]", 3: "locks[0]"}
    (main,) = (row for row in rows if row["tid"] == 1)
    assert main["wait"]["what"] == "for the end of thread 2"


def test_interrupted(looks: Looks) -> None:
    """Ctrl-C ends the machines, and leaves no files but whole keyframes."""
    before = looks.session.traces()
    for command, *words in (
        ("where", str(looks.step + 2000)),
        ("cat", str(looks.step + 2000), "/etc/passwd"),
        ("ps", str(looks.step + 2000), "--all"),
        ("ls-files", str(looks.step + 2000), "/build"),
        ("who-wrote", str(looks.step + 2000), "0x555555558058"),
        ("shell", str(looks.step + 2000), "--", "sleep", "1000000"),
    ):
        process = looks.session.start(
            [str(looks.session.rewind_program), command, looks.run.hash, *words],
            XDG_CACHE_HOME=str(looks.cache),
        )
        try:
            end = time.monotonic() + 60
            while not (
                started := [
                    child
                    for child in descendants(process.pid)
                    if "qemu-system-x86_64" in child.command
                ]
            ):
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
        assert "Traceback" not in err
        end = time.monotonic() + 10
        while (alive := [child for child in started if child.alive]) and time.monotonic() < end:
            time.sleep(0.05)
        assert not alive
        assert looks.session.traces() == before
        directory = looks.cache / "rewind" / "keyframes"
        left = [path for path in directory.glob("*") if path.suffix != ".keyframe"]
        assert [path.name for path in left] in ([], ["lock"])
    looks.good("where", str(looks.step))
