"""What can be seen of a run: ls, show, log, events, ps, replay and doctor."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from conftest import Answer, Recorded, Session, needs_own_store

T = TypeVar("T")


def undisturbed(session: Session, ask: Callable[[list[dict[str, Any]]], T]) -> T:
    """What *ask* says of the list of runs, while nobody else adds to the store."""
    for _ in range(10):
        before = session.rewind("ls", "--json").json
        result = ask(before)
        if session.rewind("ls", "--json").json == before:
            return result
    pytest.fail("the store has new runs all the time")


def good(answer: Answer) -> Answer:
    """*answer*, of a command that worked."""
    assert answer.status == 0, str(answer)
    return answer


# --- which run


def test_ls_shows_a_run(session: Session, hello: Recorded) -> None:
    (line,) = [
        line
        for line in good(session.rewind("ls")).out.splitlines()
        if session.name("hello") in line
    ][-1:]
    assert line.split()[1] == session.name("hello")
    (data,) = [run for run in session.rewind("ls", "--json").json if run["hash"] == hello.hash]
    assert data["name"] == session.name("hello")
    assert data["outcome"] == {"kind": "exited", "value": 0}
    assert f"{data['steps']:,} steps" in hello.answer.out


def test_ls_has_the_newest_run_first(session: Session, hello: Recorded) -> None:
    newer = session.recorded(session.job("bare"), "--name", f"newer-{session.mark}")
    hashes = [run["hash"] for run in session.rewind("ls", "--json").json]
    assert hashes.index(newer.hash) < hashes.index(hello.hash)


def test_a_run_is_known_by_many_names(session: Session, bank: Recorded) -> None:
    named = session.recorded(session.job("bare"), "--name", f"named-{session.mark}")
    for text in (
        named.hash,
        named.hash[:12],
        f"named-{session.mark}",
        str(named.path),
        f"{named.path}/trace",
    ):
        shown = good(session.rewind("show", text))
        assert shown.out.endswith(f"# {named.hash}\n"), text


def test_at_is_the_newest_run_and_at_2_the_one_before(session: Session, hello: Recorded) -> None:
    def ask(runs: list[dict[str, Any]]) -> list[tuple[str, str]]:
        # One that is known and was not built is not the newest.
        newest = [run["hash"] for run in runs if run["built"]][:2]
        shown = [good(session.rewind("show", text)).out for text in ("@", "@2")]
        return list(zip(newest, shown, strict=True))

    for hash_, shown in undisturbed(session, ask):
        assert shown.endswith(f"# {hash_}\n")


@pytest.fixture
def crowd(session: Session, hello: Recorded) -> Iterator[list[str]]:
    """The hashes of 33 runs: two at least begin alike, as hashes have 32 digits."""
    places = []
    for number in range(33):
        place = session.directory / f"rewind-run-crowd-{number}-{session.mark}"
        place.mkdir()
        shutil.copy(hello.path / "manifest.cbor", place)
        (place / "number").write_text(str(number))
        places.append(str(place))
    good(added := session.run("nix-store", "--add", *places))
    yield [Path(path).name[:32] for path in added.out.split()]
    good(session.run("nix-store", "--delete", *added.out.split()))


def test_an_ambiguous_hash_lists_the_candidates(session: Session, crowd: list[str]) -> None:
    digits = [text[0] for text in crowd]
    digit = next(digit for digit in digits if digits.count(digit) > 1)
    answer = session.rewind("show", digit)
    assert answer.status == 2, str(answer)
    assert f"{digit} could be any of " in answer.err
    for text in crowd:
        assert (text in answer.err) == (text[0] == digit)
    assert not answer.out


def test_an_ambiguous_name_lists_the_candidates(session: Session) -> None:
    name = f"twice-{session.mark}"
    made = [
        session.recorded(session.job("bare"), "--name", name, "--seed", seed) for seed in ("1", "2")
    ]
    answer = session.rewind("log", name)
    assert answer.status == 2, str(answer)
    assert f"{name} could be any of 2 runs" in answer.err
    for run in made:
        assert f"{run.hash}  {name}" in answer.err


def test_the_shell_completes_runs(session: Session, hello: Recorded) -> None:
    for word, value in ((hello.hash[:5], hello.hash[:8]), (hello.name[:-1], hello.name)):
        answer = session.rewind(
            COMP_WORDS=f"rewind show {word}", COMP_CWORD="2", _REWIND_COMPLETE="bash_complete"
        )
        assert f"plain,{value}" in answer.out.splitlines(), str(answer)


# --- what happened


def test_log_is_what_the_build_wrote(session: Session, hello: Recorded) -> None:
    log = good(session.rewind("log", hello.hash)).out
    assert log == (hello.path / "log").read_text()
    lines = log.splitlines()
    assert lines[-4:] == ["hello on 1 of 1", "child 1", "child 2", "child 3"]


def test_log_says_at_which_step_a_line_was_written(session: Session, hello: Recorded) -> None:
    answer = good(session.rewind("log", hello.hash, "--steps"))
    lines = [line.split(maxsplit=1) for line in answer.out.splitlines()]
    found = {text: int(step) for step, text in (line for line in lines if len(line) == 2)}
    steps = [found[f"child {number}"] for number in (1, 2, 3)]
    assert steps == sorted(steps)
    for number, step in zip((1, 2, 3), steps, strict=True):
        event = good(session.rewind("events", hello.hash, "--from", str(step), "--to", str(step)))
        assert "write(" in event.out, str(event)
        assert f"child {number}" in event.out, str(event)
    data = good(session.rewind("log", hello.hash, "--json")).json
    assert {"step": steps[0], "text": "child 1"} in data


def test_events_has_a_line_a_record(session: Session, hello: Recorded) -> None:
    steps = session.rewind("show", hello.hash, "--json").json["steps"]
    every = good(session.rewind("events", hello.hash, "--wakes")).out.splitlines()
    assert every[0].split()[0] == "0"
    assert "exec" in every[0] or "exec" in every[1], every[:3]
    objects = [
        json.loads(line)
        for line in good(session.rewind("events", hello.hash, "--json")).out.splitlines()
    ]
    assert [record["step"] for record in objects] == list(range(steps))
    # A call and its result can share a line.
    assert steps / 2 <= len(every) <= steps
    wakes = [record["step"] for record in objects if record["type"] == "wake"]
    assert wakes
    assert [int(line.split()[0]) for line in every if line.split()[2] == "wakes"] == wakes
    fewer = good(session.rewind("events", hello.hash)).out.splitlines()
    assert not any(line.split()[2] == "wakes" for line in fewer)
    assert len(fewer) <= len(every) - len(wakes)


def test_events_of_a_range(session: Session, hello: Recorded) -> None:
    answer = good(session.rewind("events", hello.hash, "--from", "10", "--to", "20", "--json"))
    assert [json.loads(line)["step"] for line in answer.out.splitlines()] == list(range(10, 21))
    lines = good(session.rewind("events", hello.hash, "--from", "10", "--to", "20")).out
    steps = [int(line.split()[0]) for line in lines.splitlines()]
    assert steps[0] == 10
    assert steps[-1] <= 20
    every = session.rewind("events", hello.hash).out.splitlines()
    assert lines.splitlines()[1] in every


def test_a_step_that_is_not_there_is_said_to_be_none(session: Session, hello: Recorded) -> None:
    answer = session.rewind("events", hello.hash, "--from", "99999999")
    assert answer.status == 2
    assert "there is no step 99,999,999: the run has " in answer.sentence


def test_ps_shows_the_processes(session: Session, hello: Recorded) -> None:
    answer = good(session.rewind("ps", hello.hash))
    assert answer.out.splitlines()[0].split() == [
        "pid",
        "first",
        "last",
        "threads",
        "end",
        "command",
    ]
    data = good(session.rewind("ps", hello.hash, "--json")).json
    builder = data[0]
    assert (builder["pid"], builder["status"]) == (1, 0)
    # The three subshells, and their sleeps.
    assert len(_sleeps(data)) == 3
    assert len(answer.out.splitlines()) == 1 + len(data)


def test_ps_shows_the_processes_at_a_step(session: Session, hello: Recorded) -> None:
    log = session.rewind("log", hello.hash, "--json").json
    step = next(line["step"] for line in log if line["text"] == "child 1")
    answer = good(session.rewind("ps", hello.hash, str(step)))
    data = good(session.rewind("ps", hello.hash, str(step), "--json")).json
    # The builder, the first child, and the other two with their sleeps.
    assert len(_sleeps(data)) == 2
    assert len(answer.out.splitlines()) == 1 + sum(
        thread["last"] is None for process in data for thread in process["threads"]
    )
    assert len(session.rewind("ps", hello.hash, "0", "--json").json) == 1


def _sleeps(processes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [process for process in processes if process["arguments"][:1] == ["sleep"]]


# --- again


def test_replay_gives_the_same_run(session: Session, bank: Recorded) -> None:
    answer = good(session.rewind("replay", bank.hash))
    assert f"{bank.hash[:8]}  bank-0.1.0: the same " in answer.out, str(answer)


def test_replay_says_so_in_json(session: Session) -> None:
    made = session.recorded(session.job("bare"))
    data = good(session.rewind("replay", made.hash, "--json")).json
    assert data["same"] is True
    assert data["hash"] == made.hash
    assert data["steps"] > 0


@needs_own_store
def test_replay_shows_the_first_record_that_differs(session: Session) -> None:
    """A run that is registered with another's trace stands for one that did not happen again."""
    made = session.recorded(session.job("bare"))
    other = session.recorded(session.job("fails"))
    script = r"""
        run=$2
        deriver=$(nix-store --query --deriver "$run")
        cp "$3/trace" "$run/trace"
        printf '%s\n' "$run" "$deriver" 0 | nix-store --register-validity --reregister
        status=0
        "$1" replay "$run" || status=$?
        echo "status $status"
        "$1" replay --json "$run" || true
    """
    answer = session.alone(script, str(session.rewind_program), str(made.path), str(other.path))
    assert answer.status == 0, str(answer)
    text, _, data = answer.out.partition("status 1\n")
    lines = text.splitlines()
    assert re.fullmatch(rf"{made.hash[:8]}  {made.name}: the same until step \d+", lines[0]), str(
        answer
    )
    found = json.loads(data)
    assert found["same"] is False
    assert found["files"] == ["trace"]
    step = found["step"]
    assert lines[0].endswith(f" {step}")
    # The record before, which both have; the run's; and the one of making it again.
    assert [line.split()[0] for line in lines[1:4]] == ["both", "run", "again"], str(answer)
    assert [line.split()[1] for line in lines[2:4]] == [str(step)] * 2, str(answer)
    assert lines[4] == f"the other run is {made.path}.check"
    theirs = session.rewind("events", other.hash, "--json").out.splitlines()
    ours = session.rewind("events", made.hash, "--json").out.splitlines()
    assert theirs[:step] == ours[:step]
    assert json.loads(theirs[step]) == found["first"]
    assert json.loads(ours[step]) == found["second"]


# --- what works here


def test_doctor_finds_that_all_works(session: Session) -> None:
    answer = good(session.rewind("doctor"))
    lines = answer.out.splitlines()
    for word in (
        "nix ",
        "flakes",
        "sandbox",
        "x86_64-linux",
        "rewind's source",
        "memory",
        "free in",
    ):
        assert any(word in line for line in lines), (word, str(answer))
    assert not any(line.startswith("fail") for line in lines), str(answer)
    data = session.rewind("doctor", "--json").json
    assert [finding["state"] for finding in data] == [
        line.split()[0] for line in lines if not line.startswith(" ")
    ]


def test_doctor_fails_where_there_is_no_sandbox(session: Session) -> None:
    answer = session.rewind("doctor", NIX_CONFIG="sandbox = false")
    assert answer.status == 1, str(answer)
    assert "fail builds are not sandboxed" in answer.out
    assert "mend: sandbox = true in nix.conf" in answer.out
