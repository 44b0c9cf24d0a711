"""``rewind check``: searches, from the command line to the runs that they find."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import attrs
import pytest

from conftest import Answer, Session, descendants

PROGRAMS = Path(__file__).parent / "programs"


@attrs.frozen
class Found:
    """What a search said."""

    answer: Answer

    @property
    def data(self) -> Any:
        """The report."""
        return self.answer.json

    @property
    def path(self) -> Path:
        """The search's output."""
        return Path(self.data["search"])

    @property
    def deciding(self) -> Any:
        """Where the two runs part."""
        return self.data["deciding"]

    @property
    def position(self) -> tuple[int, int]:
        """The deciding one."""
        return self.deciding["step"], self.deciding["offset"]


def check(session: Session, *words: str, status: int = 0) -> Found:
    """``rewind check --json``, which ends with *status*."""
    answer = session.rewind("check", *words, "--json")
    assert answer.status == status, str(answer)
    return Found(answer)


def told(session: Session, *words: str, status: int = 0) -> Answer:
    """``rewind check``, for a person."""
    answer = session.rewind("check", *words)
    assert answer.status == status, str(answer)
    return answer


def refused(session: Session, *words: str, says: str) -> Answer:
    """``rewind check``, which gives a sentence and nothing else."""
    before = session.traces()
    answer = session.rewind("check", *words)
    assert answer.status == 2, str(answer)
    assert says in answer.sentence, str(answer)
    assert answer.sentence.startswith("rewind: "), str(answer)
    assert "Traceback" not in answer.err, str(answer)
    assert not answer.out, str(answer)
    assert session.traces() == before, str(answer)
    return answer


def line_of(source: Path, text: str) -> list[int]:
    """The numbers of the lines of *source* that have *text*."""
    found = [n for n, line in enumerate(source.read_text().splitlines(), 1) if text in line]
    assert found, f"{source} has no {text}"
    return found


def events(session: Session, run: str) -> list[dict[str, Any]]:
    """The records of a run, which is built for that."""
    answer = session.rewind("events", run, "--json")
    assert answer.status == 0, str(answer)
    return [json.loads(line) for line in answer.out.splitlines()]


def sides(session: Session, found: Found) -> None:
    """The two runs: what the search has of them is what is built, and they part at the position."""
    records = {}
    for side in ("failing", "passing"):
        data, hash = found.data[side], found.data["hashes"][side]
        shown = session.rewind("show", hash, "--json").json
        # As a person would: with the command that is shown.
        made = session.rewind(*shown["command"][1:])
        # 1: the store may have what Nix made of the job, and the failing run makes nothing.
        assert made.status in (0, 1), str(made)
        assert made.out.split()[0] == hash, str(made)
        run = Path(shown["path"])
        assert (run / "trace").read_bytes() == (found.path / f"{side}.trace").read_bytes(), side
        assert shown["schedule"] == data["schedule"]
        records[side] = events(session, hash)
        assert len(records[side]) == data["steps"]
    step, offset = found.position
    baseline_fails = found.data["tried"][0]["outcome"] != {"kind": "exited", "value": 0}
    places = (f"{step}+{offset}" if offset else str(step), f"{step}+{offset + 1}")
    # Those at named positions come after all that are at steps.
    at = {
        side: [p["at"] for p in found.data[side]["schedule"] if ":" not in p["at"]][-1]
        for side in records
    }
    first, second = ("passing", "failing") if baseline_fails else ("failing", "passing")
    assert (at[first], at[second]) == places
    # They are one run until there; and then the first one is perturbed.
    assert records[first][: step + 1] == records[second][: step + 1]
    perturbed = next(one for one in records[first] if one["type"] == "perturbation")
    if len(found.data["failing"]["schedule"]) == 1:
        assert (perturbed["pid"], perturbed["tid"]) == (
            found.deciding["pid"],
            found.deciding["tid"],
        )
        assert not perturbed["nothing"]


# --- bank


@pytest.fixture(scope="module")
def bank_check(session: Session) -> Found:
    """The search that the README shows."""
    return check(session, f"{session.checkout}#bank", status=1)


def test_it_finds_the_lost_deposit(session: Session, bank_check: Found) -> None:
    data = bank_check.data
    assert data["verdict"] == "differs"
    assert data["tried"][0]["outcome"] == {"kind": "exited", "value": 0}
    assert [one["changed"] for one in data["tried"]] == [False] * (len(data["tried"]) - 1) + [True]
    assert data["failing"]["outcome"]["value"] != 0
    assert data["passing"]["outcome"] == {"kind": "exited", "value": 0}
    place = bank_check.deciding["place"]
    (line,) = line_of(session.checkout / "examples" / "bank" / "bank.c", "balance = seen")
    assert (place["function"], place["line"]) == ("deposit", line)
    assert data["runs"] <= 40


def test_its_runs_are_those_that_nix_builds(session: Session, bank_check: Found) -> None:
    sides(session, bank_check)
    log = session.rewind("log", bank_check.data["hashes"]["failing"]).out
    assert re.search(r"balance \d+, expected 210", log)
    assert "balance 210, expected 210" not in log


def test_what_a_person_reads_of_it(session: Session, bank_check: Found) -> None:
    lines = told(session, f"{session.checkout}#bank", status=1).out.splitlines()
    data = bank_check.data
    number = len(data["tried"]) - 1
    failing, passing = (data["hashes"][side][:8] for side in ("failing", "passing"))
    assert lines[0].startswith("schedule   0: exited 0 ")
    assert lines[0].endswith(f"  {data['hashes']['0'][:8]}")
    assert lines[number].startswith(f"schedule {number:3}: exited ")
    assert lines[number + 1] == ""
    step, offset = bank_check.position
    position, later = f"{step}+{offset}", f"{step}+{offset + 1}"
    line = bank_check.deciding["place"]["line"]
    tid = bank_check.deciding["tid"]
    assert lines[number + 2].startswith(f"step {position} decides it: thread {tid} "), lines
    assert lines[number + 2].endswith(f" in deposit (bank.c:{line})"), lines
    assert lines[number + 3] == (
        f"  at {later}, one instruction later, it passes; until {position} both are the same run"
    )
    other = data["explanation"]["between"]["tid"]
    assert other != tid
    assert lines[number + 4] == (
        f"  thread {tid} read balance at bank.c:28 and wrote it at bank.c:{line};"
        f" thread {other} wrote it in between (bank.c:37)"
    )
    assert lines[number + 5].startswith("failing  exited ")
    assert lines[number + 5].endswith(f"  {failing}")
    assert lines[number + 6].endswith(f"  {passing}")
    assert any(one.startswith("  passing") and "teller" in one for one in lines)
    assert any(one.startswith("  failing") and "teller" in one for one in lines)
    assert lines[-3:] == [
        f"rewind compare {passing} {failing}",
        f"rewind where {failing} {position}",
        f"rewind log {failing}",
    ]


def test_the_line_is_the_one_that_where_tells(session: Session, bank_check: Found) -> None:
    step, offset = bank_check.position
    answer = session.rewind("where", bank_check.data["hashes"]["failing"], f"{step}+{offset}")
    assert answer.status == 0, str(answer)
    assert f"deposit (bank.c:{bank_check.deciding['place']['line']})" in answer.out


def test_the_report_is_the_same_on_another_machine(session: Session, bank_check: Found) -> None:
    """With another number of machines side by side, while others work: all files, to the byte."""
    drv = session.nix("path-info", "--derivation", str(bank_check.path))
    busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        session.nix("build", "--no-link", "--rebuild", "--cores", "1", f"{drv}^out")
    finally:
        busy.kill()
        busy.wait()
    session.nix("build", "--no-link", "--rebuild", "--cores", "2", f"{drv}^out")


def test_the_twin_is_clean(session: Session) -> None:
    found = check(session, f"{session.checkout}#bank-fixed", "--schedules", "16")
    assert found.data["verdict"] == "same"
    assert len(found.data["tried"]) == 17
    assert (found.path / "clean").exists()


# --- other ends


def test_a_build_that_fails_and_need_not(session: Session) -> None:
    """The failing run is then the one at the later position."""
    found = check(session, session.job("early"), status=1)
    assert found.data["tried"][0]["outcome"] == {"kind": "exited", "value": 1}
    assert found.data["failing"]["outcome"] == {"kind": "exited", "value": 1}
    assert found.data["passing"]["outcome"] == {"kind": "exited", "value": 0}
    place = found.deciding["place"]
    (line,) = line_of(PROGRAMS / "early.c", "if (!result)")
    assert (place["function"], place["line"]) == ("main", line)
    sides(session, found)
    lines = told(session, session.job("early"), status=1).out.splitlines()
    step, offset = found.position
    assert (
        f"  at {step}+{offset + 1}, one instruction later, it fails; "
        f"until {step}+{offset} both are the same run" in lines
    )


def test_a_build_that_always_fails(session: Session) -> None:
    answer = told(session, session.job("failsAlways"), "--schedules", "8", status=2)
    name = session.name("fails-always")
    assert (
        f"{name} fails without any perturbation (exited 3), and under all 8 schedules: "
        "that is no matter of timing" in answer.out
    )
    assert answer.sentence.startswith(f"rewind: {name} fails under every schedule: rewind log ")


def test_a_build_that_never_ends(session: Session) -> None:
    """No schedule gets more time than it had."""
    words = (session.job("endless"), "--time-limit", "1", "--schedules", "4", "--json")
    answer = session.rewind("check", *words)
    assert answer.status == 2, str(answer)
    assert [one["outcome"]["kind"] for one in answer.json["tried"]] == ["timed-out"] * 5
    assert answer.json["limit"] == 1
    assert "fails under every schedule" in answer.sentence, str(answer)
    recorded = session.recorded(session.job("endless"), "--time-limit", "1")
    assert answer.json["hashes"]["0"] == recorded.hash


def test_a_build_with_one_task(session: Session) -> None:
    answer = told(session, session.job("bare"))
    assert (
        f"{session.name('bare')}: nothing to put into another order: "
        "no two tasks of the job could run at any time" in answer.out
    )
    assert answer.out.count("schedule ") == 1


def test_a_hang_names_who_waits_and_where(session: Session) -> None:
    found = check(session, session.job("deadlock"), status=1)
    assert found.data["failing"]["outcome"]["kind"] == "stalled"
    waiting = {one["place"]["function"]: one for one in found.data["failing"]["waiting"]}
    assert set(waiting) == {"main", "forwards", "backwards"}
    for function, one in waiting.items():
        lines = line_of(PROGRAMS / "deadlock.c", f"{function} waits here")
        assert one["place"]["line"] in lines, one
        assert one["call"] == 202, "futex"
    sides(session, found)
    answer = told(session, session.job("deadlock"), status=1)
    for function, one in waiting.items():
        place = f"{function} (deadlock.c:{one['place']['line']})"
        who = f"  {one['pid']}/{one['tid']} (deadlock) waits "
        said = [line for line in answer.out.splitlines() if line.startswith(who)]
        assert len(said) == 1 and said[0].endswith(f", {place}"), str(answer)
    # Each has what the other one waits for.
    for function, other in (("forwards", "backwards"), ("backwards", "forwards")):
        assert f"which {waiting[other]['tid']} has, {function} (" in answer.out, str(answer)


def test_who_came_in_between(session: Session) -> None:
    """The stalled instruction itself counts, and not what it meets when it comes again."""
    found = check(session, session.job("later"), status=1)
    explanation = found.data["explanation"]
    lines = line_of(PROGRAMS / "later.c", "loses or is lost")
    assert explanation["variable"] == "sum"
    assert explanation["between"]["place"]["line"] in lines, explanation
    assert explanation["after"]["place"]["line"] in lines, explanation
    assert explanation["between"]["tid"] != explanation["after"]["tid"]


def test_a_builder_that_leaves_somebody_behind(session: Session) -> None:
    found = check(session, session.job("leaves"), "--schedules", "8")
    assert found.data["verdict"] == "same"
    assert len(found.data["tried"]) == 9
    assert {one["outcome"]["value"] for one in found.data["tried"]} == {0}


# --- what it is told


def test_outputs_that_differ(session: Session) -> None:
    found = check(session, session.job("lines"), status=1)
    hashes = [one["outputs"]["out"]["nar_hash"] for one in found.data["tried"]]
    assert hashes[-1] != hashes[0]
    assert set(hashes[:-1]) == {hashes[0]}
    assert found.data["failing"]["outcome"] == found.data["passing"]["outcome"]
    sides(session, found)
    answer = told(session, session.job("lines"), status=1)
    failing, passing = (
        found.data[side]["outputs"]["out"]["nar_hash"] for side in ("failing", "passing")
    )
    assert f"\n  out: {failing}, {passing}\n" in answer.out, str(answer)
    ignored = check(session, session.job("lines"), "--ignore-outputs", "--schedules", "8")
    assert ignored.data["verdict"] == "same"
    assert ignored.data["ignore_outputs"] is True


def test_all_schedules(session: Session) -> None:
    """The first ones are those of a search that stops."""
    found = check(session, session.job("lines"), "--all", "--schedules", "12", status=1)
    assert len(found.data["tried"]) == 13
    changed = [one["number"] for one in found.data["tried"] if one["changed"]]
    first = check(session, session.job("lines"), status=1)
    assert changed[0] == first.data["tried"][-1]["number"]
    assert found.data["tried"][: changed[0] + 1] == first.data["tried"]
    assert found.deciding == first.deciding
    answer = told(session, session.job("lines"), "--all", "--schedules", "12", status=1)
    assert f"another outcome under {len(changed)} of 12 schedules" in answer.out


def test_no_schedules(session: Session) -> None:
    answer = told(session, session.job("lines"), "--schedules", "0")
    assert "exited 0 without any perturbation\nno schedule was tried\n" in answer.out


def test_a_search_that_is_cut_short(session: Session) -> None:
    words = (session.job("leaves"), "--schedules", "5000", "--time", "1s")
    found = check(session, *words)
    assert found.data["cut_short"] is True
    assert found.data["drawn"] == 5000
    assert len(found.data["tried"]) < 5000
    links = session.roots.parent / "searches"
    assert found.path not in [link.resolve() for link in links.iterdir()], "it is not kept"
    answer = told(session, *words)
    assert re.search(r"^cut short: the time was up after \d+ of 5000 schedules; ", answer.out, re.M)
    # Another one, though the same was asked for.
    assert check(session, *words).path != found.path


def test_from_a_step_on(session: Session) -> None:
    """Whatever is found there: nothing is perturbed before.

    (By a strategy that names all positions by steps; the others have the same stretches.)
    """
    words = (session.job("lines"), "--all", "--schedules", "8", "--strategy", "windows")
    found = check(session, *words, status=1)
    step = sorted(_step(one["schedule"][0]) for one in found.data["tried"][1:])[4]
    answer = session.rewind("check", *words, "--from", str(step), "--json")
    assert answer.status in (0, 1), str(answer)
    assert answer.json["first"] == step
    assert len(answer.json["tried"]) == 9
    assert min(_step(p) for one in answer.json["tried"] for p in one["schedule"]) >= step


def _step(perturbation: dict[str, Any]) -> int:
    return int(perturbation["at"].partition("+")[0])


def test_from_past_the_end(session: Session) -> None:
    refused(session, session.job("bare"), "--from", "999999", says="there is no step 999,999")
    run = session.recorded(session.job("bare")).hash
    refused(session, "--run", run, "--from", "999999", says="there is no step 999,999")
    refused(session, session.job("bare"), "--from", "3+4", says="not from 3+4")


@pytest.mark.parametrize("named", [False, True])
def test_around_a_run(session: Session, named: bool) -> None:
    """Its perturbation is part of all runs of the search, at a step or named by the builder."""
    run = session.recorded(session.job("lines"), "--seed", "around").hash
    records = events(session, run)
    step = next(one["step"] for one in records if one["type"] == "fork")
    at = str(step)
    if named:
        calls = [one for one in records if one["type"] == "enter" and one["tid"] == 1]
        at = f"1:{sum(one['step'] < step for one in calls)}"
    fork = session.rewind("fork", run, at, "--stall", "10us", "--json").json
    words = ("--run", fork["hash"], "--schedules", "16", "--from", str(step + 1))
    found = check(session, *words, status=1)
    mine = {"at": at, "stall": 10_000}
    assert found.data["schedule"] == [mine]
    assert found.data["seed"] == "around"
    assert found.data["hashes"]["0"] == fork["hash"]
    for side in ("failing", "passing"):
        assert mine in found.data[side]["schedule"]
        assert len(found.data[side]["schedule"]) > 1
    sides(session, found)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "a search is of a job"),
        (["--schedules", "-1"], "schedules"),
        (["--schedules", "100001"], "schedules"),
        (["--jobs", "0"], "jobs"),
        (["--shards", "0"], "shards"),
        (["--time", "7"], "is no time"),
        (["--run", "nobody"], "nobody"),
    ],
)
def test_what_makes_no_sense(session: Session, words: list[str], says: str) -> None:
    job = [session.job("bare")] if words and "--run" not in words else []
    refused(session, *job, *words, says=says)
    refused(session, session.job("fixedOutput"), says="is a fixed-output derivation")


# --- interrupts


def searches(session: Session) -> list[str]:
    """The outputs of this session's searches, and what else is there in their names."""
    return sorted(
        path.name
        for path in Path("/nix/store").glob(f"*-rewind-search-*{session.mark}*")
        if path.suffix not in (".drv", ".lock")
    )


def test_an_interrupt(session: Session) -> None:
    links = session.roots.parent / "searches"
    before = session.traces(), searches(session), sorted(links.iterdir()) if links.exists() else []
    words = ["check", session.job("leaves"), "--schedules", "20000"]
    process = session.start([str(session.rewind_program), *words])
    try:
        limit = time.monotonic() + 120
        seen: set[int] = set()
        # Machines that come and go: schedules are being run.
        while len(seen) < 3:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < limit
            started = descendants(process.pid)
            seen |= {child.pid for child in started if "qemu-system-x86_64" in child.command}
            time.sleep(0.05)
        started = descendants(process.pid)
        signalled = time.monotonic()
        subprocess.run(["kill", "-INT", "--", f"-{process.pid}"], check=True)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            subprocess.run(["kill", "-KILL", "--", f"-{process.pid}"], check=True)
            process.wait()
    assert process.returncode == 128 + signal.SIGINT, err
    assert "Traceback" not in err
    assert not out
    assert time.monotonic() - signalled < 20
    while (
        alive := [child for child in started if child.alive]
    ) and time.monotonic() < signalled + 30:
        time.sleep(0.1)
    assert not alive, alive
    after = session.traces(), searches(session), sorted(links.iterdir()) if links.exists() else []
    assert after == before
