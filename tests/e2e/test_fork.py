"""Other schedules: fork, compare, threads, and runs that are known before they are built."""

import itertools
import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from conftest import Answer, Recorded, Session


def good(answer: Answer, status: int = 0) -> Answer:
    """*answer*, of a command that ended as it should."""
    assert answer.status == status, str(answer)
    return answer


def events(session: Session, run: str, *words: str) -> list[dict[str, Any]]:
    """The records of a run."""
    answer = good(session.rewind("events", run, "--json", *words))
    return [json.loads(line) for line in answer.out.splitlines()]


def writes(records: list[dict[str, Any]], text: str) -> dict[str, Any]:
    """The first call that writes what begins with *text*."""
    return next(
        record
        for record in records
        if record["type"] == "enter"
        and record["call"] == "write"
        and record["details"][0]["text"].startswith(text)
    )


@attrs.frozen
class Fork:
    """A fork of bank in which the first teller sleeps after its receipt, and what was said."""

    of: Recorded
    write: dict[str, Any]
    """The call in which it sleeps."""
    answer: Answer

    @property
    def hash(self) -> str:
        """The whole of it."""
        return self.answer.out.split()[0]


@pytest.fixture(scope="session")
def lost(session: Session, bank: Recorded) -> Fork:
    """The fork that loses a deposit."""
    write = writes(events(session, bank.hash), "teller 1")
    answer = session.rewind("fork", bank.hash, str(write["step"]), "--stall", "1ms")
    return Fork(bank, write, answer)


@pytest.fixture(scope="session")
def harmless(session: Session, bank: Recorded) -> Fork:
    """A fork in which bank's only thread sleeps."""
    write = writes(events(session, bank.hash), "balance")
    answer = session.rewind("fork", bank.hash, f"{write['step']:,}+10", "--stall", "20us")
    return Fork(bank, write, answer)


# --- fork


def test_a_stall_between_reading_and_storing_loses_a_deposit(session: Session, lost: Fork) -> None:
    lines = good(lost.answer, 1).out.splitlines()
    assert lines[1].startswith("exited 2: "), str(lost.answer)
    assert f"outcome: exited 2, and exited 0 in {lost.of.hash[:8]}" in lines
    assert lines[-1] == f"rewind compare {lost.of.hash[:8]} {lost.hash[:8]}"
    assert "balance 160, expected 210" in lost.answer.err, str(lost.answer)
    assert "rewind: the stall" not in lost.answer.err, str(lost.answer)
    shown = session.rewind("show", lost.hash).out
    assert f'--schedule \'[{{"at":"{lost.write["step"]}","stall":1000000}}]\'' in shown
    # It has the other options of the run.
    assert f"--seed {session.mark}" in shown


def test_a_fork_is_the_run_until_it_is_perturbed(session: Session, lost: Fork) -> None:
    last = str(lost.write["step"])
    assert events(session, lost.hash, "--to", last) == events(session, lost.of.hash, "--to", last)
    after = str(lost.write["step"] + 1)
    (record,) = events(session, lost.hash, "--from", after, "--to", after)
    assert record["type"] == "perturbation"
    assert (record["ns"], record["nothing"]) == (1_000_000, False)
    # The kernel has interrupts off while it writes a record.
    assert 0 <= record["time"] - lost.write["time"] < 1000


def test_a_fork_happens_again(session: Session, lost: Fork) -> None:
    assert ": the same " in good(session.rewind("replay", lost.hash)).out


def test_a_fork_of_a_fork_has_both_perturbations(session: Session, harmless: Fork) -> None:
    position = harmless.write["step"] + 6
    answer = good(session.rewind("fork", harmless.hash, str(position), "--reschedule", "--json"))
    schedule = session.rewind("show", answer.json["hash"], "--json").json["schedule"]
    assert schedule == [
        {"at": f"{harmless.write['step']}+10", "stall": 20_000},
        {"at": str(position), "reschedule": True},
    ]


def test_a_named_position(session: Session, lost: Fork) -> None:
    """The same run as that of the step at which it comes; and after another one the same place."""
    at = session.rewind("where", lost.of.hash, f"{lost.write['step']}", "--json").json["named"]
    answer = session.rewind("fork", lost.of.hash, f"{at}+2", "--stall", "1ms", "--json")
    named = session.rewind("show", good(answer, 1).json["hash"], "--json").json
    assert named["schedule"] == [{"at": f"{at}+2", "stall": 1_000_000}]
    (came,) = named["came"]
    answer = session.rewind("fork", lost.of.hash, came, "--stall", "1ms", "--json")
    by_step = session.rewind("show", good(answer, 1).json["hash"], "--json").json
    trace = Path(named["path"], "trace").read_bytes()
    assert trace == Path(by_step["path"], "trace").read_bytes()
    # What looks into it, and makes it again.
    assert ": the same " in good(session.rewind("replay", named["hash"])).out
    there = good(session.rewind("where", named["hash"], f"{at}+2", "--json")).json
    assert there["position"] == came
    shown = session.rewind("show", named["hash"]).out
    assert f"# a stall of 1 ms at {at}+2 came at {came}\n" in shown
    # A named position is where it was when something comes before it.
    answer = session.rewind("fork", named["hash"], "5", "--stall", "50us", "--json")
    both = session.rewind("show", answer.json["hash"], "--json").json
    assert [entry["at"] for entry in both["schedule"]] == ["5", f"{at}+2"]
    assert both["came"][0] == "5" and both["came"][1] not in (None, came)
    places = [
        next(e for e in reversed(events(session, run)) if e["type"] == "perturbation")["user_ip"]
        for run in (named["hash"], both["hash"])
    ]
    assert places[0] == places[1]


def test_what_counts_of_a_task(session: Session) -> None:
    """A signal's handler, a child of vfork, and a thread that takes its process's first number."""
    run = session.recorded(session.job("counted")).hash
    records = events(session, run)

    def step(kind: str, **fields: object) -> int:
        return next(r["step"] for r in records if r["type"] == kind and fields.items() <= r.items())

    def calls(tid: int, last: int, first: int = 0) -> int:
        return sum(
            r["type"] == "enter" and r["tid"] == tid and first <= r["step"] <= last for r in records
        )

    handler = step("delivered", signal=10)
    returns = step("enter", call="rt_sigreturn")
    child, thread = (r for r in records if r["type"] == "fork")
    ends = step("end", tid=child["child_tid"])
    becomes = max(r["step"] for r in records if r["type"] == "exec")
    opens = next(r for r in reversed(records) if r["type"] == "enter" and r["call"] == "openat")
    in_program = calls(thread["child_tid"], becomes) + calls(1, opens["step"], becomes)
    for named, low, high in (
        (f"1:{calls(1, handler)}+9", handler, returns),
        # It has the CPU before its parent has again, and makes one call.
        ("2:0+2", child["step"], ends),
        (f"3:{in_program}+1", opens["step"], len(records)),
    ):
        came = []
        traces = []
        for at in (named, None):
            answer = session.rewind("fork", run, at or came[0], "--stall", "1ms", "--json")
            shown = session.rewind("show", answer.json["hash"], "--json").json
            came += shown["came"]
            traces.append(Path(shown["path"], "trace").read_bytes())
        assert came[0] == came[1], named
        assert traces[0] == traces[1], named
        assert low <= int(came[0].split("+")[0]) < high, named
        assert good(session.rewind("where", run, named, "--json")).json["position"] == came[0]


def test_a_named_position_that_never_comes_is_told(session: Session, bank: Recorded) -> None:
    answer = good(session.rewind("fork", bank.hash, "1:3+99999999", "--stall", "3ms"))
    never = "1 of 1 perturbation never came: a stall of 3 ms at 1:3+99999999"
    assert f"rewind: {never}" in answer.err, str(answer)
    assert f"# {never}\n" in session.rewind("show", answer.out.split()[0]).out
    where = good(session.rewind("where", bank.hash, "1:3+99999999"), 2)
    assert where.sentence.startswith(
        "rewind: there is no 1:3+99999999: task 1 executes fewer instructions between"
    ), str(where)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["99999999", "--reschedule"], "there is no step 99,999,999: the run has "),
        (["100+99999999999", "--reschedule"], "there is no 100+99999999999: the run ends "),
        (["100"], "a fork has one perturbation: --stall T or --reschedule"),
        (["9999:1", "--reschedule"], "there is no 9999:1: the run has "),
        (["1:999999", "--reschedule"], "there is no 1:999999: task 1 makes "),
        (["0:1", "--reschedule"], "'0:1' is no position: T:C+K is one, such as 12:3+437"),
        (["100", "--stall", "1000"], "'1000' is no time: write 10us, 1ms or 1.5s"),
    ],
)
def test_a_fork_that_cannot_be_made_leaves_nothing(
    session: Session, bank: Recorded, words: list[str], why: str
) -> None:
    before = session.traces()
    answer = good(session.rewind("fork", bank.hash, *words), 2)
    assert answer.sentence.startswith(f"rewind: {why}"), str(answer)
    assert not answer.out
    assert session.traces() == before


def test_a_position_that_is_never_reached_is_told(session: Session) -> None:
    schedule = json.dumps([{"at": "5", "reschedule": True}, {"at": "123456", "stall": 10}])
    answer = good(session.rewind("nix", session.job("bare"), "--schedule", schedule))
    steps = session.rewind("show", answer.out.split()[0], "--json").json["steps"]
    assert (
        "rewind: 1 of 2 perturbations never came: a stall of 10 ns at 123456;"
        f" the run has {steps:,} steps" in answer.err.splitlines()
    ), str(answer)
    assert "the reschedule at 5" not in answer.err, str(answer)


# --- compare


def test_compare_says_where_the_fork_is_stalled(session: Session, lost: Fork) -> None:
    first, second = lost.of.hash[:8], lost.hash[:8]
    answer = good(session.rewind("compare", lost.of.hash, lost.hash, "--context", "2"), 1)
    lines = answer.out.splitlines()
    step, tid = lost.write["step"], lost.write["tid"]
    assert lines[0] == f"the same until step {step}, where {second} stalls thread {tid} for 1 ms"
    assert [line.split()[0] for line in lines[1:7]] == ["both"] * 2 + [first] * 2 + [second] * 2
    assert f"  both      {step}  " in lines[2]
    assert 'write(1, "teller 1: 150 + 10\\n")' in lines[2]
    assert "perturbation: stall of 1,000,000 ns" in lines[5]
    assert lines[7] == f"outcome: exited 0 in {first}, exited 2 in {second}"
    assert any(line.startswith("log, line ") and "160 + 50" in line for line in lines[8:])
    assert any(line == f"out: made in {first}, not made in {second}" for line in lines[8:])


def test_compare_in_json(session: Session, lost: Fork) -> None:
    data = good(session.rewind("compare", lost.of.hash, lost.hash, "--json"), 1).json
    step = lost.write["step"]
    assert (data["same"], data["step"], data["position"]) == (False, step + 1, str(step))
    assert data["first_record"] == events(session, lost.of.hash, "--from", str(step + 1))[0]
    assert data["second_record"]["type"] == "perturbation"
    assert data["before"][-1] == lost.write
    assert {"what": "outcome", "first": "exited 0", "second": "exited 2"} in data["differences"]


def test_compare_finds_where_the_program_does_something_else(session: Session, lost: Fork) -> None:
    words = ("compare", lost.of.hash, lost.hash, "--program", "bank")
    answer = good(session.rewind(*words, "--context", "1"), 1)
    head, both, first, second = answer.out.splitlines()
    assert head.startswith("bank: thread ")
    assert both.split()[0] == "both"
    assert first.endswith('write(1, "teller 2: 160 + 50\\n") = 19'), str(answer)
    assert second.endswith('write(1, "teller 2: 150 + 50\\n") = 19'), str(answer)
    data = session.rewind(*words, "--json").json
    assert data["first_event"]["thread"]["tid"] == lost.write["tid"] + 1
    pid = str(lost.write["pid"])
    assert session.rewind("compare", lost.of.hash, lost.hash, "--program", pid).status == 1


def test_compare_of_programs_does_not_mind_when(session: Session, harmless: Fork) -> None:
    """The runs differ, and their programs do not."""
    answer = good(harmless.answer)
    assert f"the same outcome as {harmless.of.hash[:8]}" in answer.out
    words = ("compare", harmless.of.hash, harmless.hash)
    good(session.rewind(*words), 1)
    every = {
        process["path"].rpartition("/")[2]
        for process in session.rewind("ps", harmless.of.hash, "--json").json
    }
    assert {"bank", "bash", "make", "strip"} <= every
    programs = [word for name in sorted(every) for word in ("--program", name)]
    same = good(session.rewind(*words, *programs))
    assert same.out.endswith(": the same events\n")


def test_a_run_is_the_same_as_itself(session: Session, bank: Recorded) -> None:
    steps = session.rewind("show", bank.hash, "--json").json["steps"]
    answer = good(session.rewind("compare", bank.hash, str(bank.path)))
    assert answer.out == f"the same {steps:,} steps, exited 0, log and outputs\n"
    assert session.rewind("compare", bank.hash, bank.hash, "--json").json["same"] is True


def test_compare_needs_a_program_that_is_there(session: Session, bank: Recorded) -> None:
    answer = good(session.rewind("compare", bank.hash, bank.hash, "--program", "tetris"), 2)
    assert (
        answer.sentence == "rewind: no process of these runs executes tetris: rewind ps lists them"
    )


# --- threads


def test_threads_has_a_lane_for_each_of_bank(session: Session, lost: Fork) -> None:
    answer = good(session.rewind("threads", lost.hash, "--program", "bank", COLUMNS="100"))
    lines = answer.out.splitlines()
    pid, tid = lost.write["pid"], lost.write["tid"]
    lanes = [line for line in lines if line.startswith(f"{pid}")]
    assert [line.split()[0] for line in lanes] == [f"{pid}", f"{pid}/{tid}", f"{pid}/{tid + 1}"]
    assert "▼" in lanes[1]
    assert f"▼ {lost.write['step'] + 1}  {pid}/{tid}  stall of 1 ms" in lines
    assert all(len(line) <= 100 for line in lanes)


def test_one_thread_runs_at_a_time(session: Session, bank: Recorded) -> None:
    data = good(session.rewind("threads", bank.hash, "--json")).json
    assert data["from"] == {"step": 0, "time": events(session, bank.hash, "--to", "0")[0]["time"]}
    assert len(data["threads"]) == len(
        [
            thread
            for process in session.rewind("ps", bank.hash, "--json").json
            for thread in process["threads"]
        ]
    )
    running = []
    for thread in data["threads"]:
        segments = thread["segments"]
        for segment, after in itertools.pairwise([*segments, data["to"]]):
            if segment["state"] == "runs":
                running.append((segment["time"], after["time"], thread["tid"]))
            # Who runs could run before, but for the builder at the start.
            if segment["state"] == "waits" and after.get("state") == "runs":
                pytest.fail(f"{thread['tid']} waits, and runs at {after['time']}")
    running.sort()
    for (_, end, tid), (begin, _, other) in itertools.pairwise(running):
        assert end <= begin, (tid, other)
    assert sum(end - begin for begin, end, _ in running) > data["to"]["time"] / 2


def test_threads_of_a_part_of_a_run(session: Session, lost: Fork) -> None:
    step = lost.write["step"]
    words = ("--from", str(step), "--to", f"{step + 20}")
    answer = good(session.rewind("threads", lost.hash, *words))
    assert answer.out.startswith(f"steps {step:,} to {step + 20:,}, from ")
    data = session.rewind("threads", lost.hash, *words, "--json").json
    assert [record["tid"] for record in data["perturbations"]] == [lost.write["tid"]]
    good(session.rewind("threads", lost.hash, "--from", "99999999"), 2)


# --- runs that are known


def test_a_run_is_known_before_it_is_built(session: Session) -> None:
    """By its derivation, which a flake gives."""
    flake = f'(builtins.getFlake "path:{session.jobs}")'
    expression = (
        f"({flake}.inputs.rewind.lib.x86_64-linux.run"
        f' {{ drv = {flake}.packages.x86_64-linux.bare; seed = "unbuilt"; }}).drvPath'
    )
    drv = session.nix("eval", "--impure", "--raw", "--expr", expression)
    before = session.traces()
    shown = good(session.rewind("show", drv))
    assert "--seed unbuilt" in shown.out
    assert session.traces() == before
    answer = good(session.rewind("log", drv))
    assert answer.err.splitlines()[0].endswith(
        f"{session.name('bare')} is not built yet: building it"
    )
    known = shown.out.split("# ")[1].strip()
    assert good(session.rewind("show", known)).out == shown.out
    again = good(session.rewind("log", drv))
    assert (again.out, again.err) == (answer.out, "")


def test_what_a_search_finds_is_known_and_built_when_it_is_read(session: Session) -> None:
    bank = f"{session.checkout}#bank"
    found = good(session.rewind("check", bank, "--seed", f"known-{session.mark}", "--json"), 1)
    hashes = found.json["hashes"]
    failing, passing = hashes["failing"], hashes["passing"]
    listed = {run["hash"]: run for run in session.rewind("ls", "--json").json}
    assert listed[failing]["built"] is False
    assert listed[failing]["outcome"] is None
    row = next(
        line for line in session.rewind("ls").out.splitlines() if line.startswith(failing[:8])
    )
    assert "not built" in row
    shown = good(session.rewind("show", failing[:8])).out
    assert shown.endswith(f"# {failing}\n")
    answer = good(session.rewind("compare", passing[:8], failing[:8]), 1)
    assert "is not built yet: building it" in answer.err
    assert answer.out.startswith("the same until step "), str(answer)
    assert f"{failing[:8]} stalls thread " in answer.out.splitlines()[0] or (
        f"{failing[:8]} reschedules thread " in answer.out.splitlines()[0]
    ), str(answer)
    assert good(session.rewind("show", failing[:8])).out == shown
    assert {run["hash"] for run in session.rewind("ls", "--json").json if run["built"]} >= {
        failing,
        passing,
    }
