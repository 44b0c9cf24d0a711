"""``rewind races``: on the examples with threads, and the same with the patch that mends them."""

from pathlib import Path
from typing import Any

import pytest

from conftest import Answer, Session


def line(name: str, text: str) -> int:
    """The number of the one line of an example's source with *text*."""
    lines = Path(f"examples/{name}/{name}.c").read_text().splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if text in line)
    return found


def races(session: Session, name: str, *options: str) -> Answer:
    """The answer for the run of an example."""
    run = session.recorded(f"{session.checkout}#{name}")
    return session.rewind("races", run.hash, *options)


def access(told: dict[str, Any]) -> tuple[str, int, bool]:
    """Function, line, and whether it is a write."""
    frame = told["stack"]["frames"][told["stack"]["frame"]]
    return frame["function"], frame["line"], told["write"]


def test_bank(session: Session) -> None:
    answer = races(session, "bank", "--json")
    assert answer.status == 1, str(answer)
    reads = ("deposit", line("bank", "long seen = balance"), False)
    writes = ("deposit", line("bank", "balance = seen"), True)
    pairs = {
        (access(pair["a"]), access(pair["b"])): pair
        for pair in answer.json["pairs"]
        if pair["kind"] == "unordered"
    }
    assert set(pairs) == {(reads, writes), (writes, reads), (writes, writes)}
    assert {pair["variable"] for pair in pairs.values()} == {"balance"}
    assert all(pair["a"]["tid"] != pair["b"]["tid"] for pair in pairs.values())
    # What main does with the balance is ordered by the start and the end of the threads.
    assert {pair["kind"] for pair in answer.json["pairs"]} == {"unordered"}
    assert answer.json["not_shown"]["ordered"] > 0


def test_bank_in_words(session: Session) -> None:
    answer = races(session, "bank")
    assert answer.status == 1, str(answer)
    assert "unordered: balance at " in answer.out
    assert f"writes, in deposit (bank.c:{line('bank', 'balance = seen')})" in answer.out
    assert "3 pairs that nothing orders" in answer.out
    # The position is one that `where` knows.
    where = answer.out.splitlines()[-1].split()
    assert where[:2] == ["rewind", "where"]
    there = session.rewind(*where[1:])
    assert f"deposit (bank.c:{line('bank', 'balance = seen')})" in there.out, str(there)


def test_a_counter_without_system_calls(session: Session) -> None:
    answer = races(session, "counter", "--json")
    assert answer.status == 1, str(answer)
    assert {pair["variable"] for pair in answer.json["pairs"]} == {"counter"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bank-fixed", "locked"),
        ("counter-fixed", "atomics"),
        ("philosophers-fixed", "locked"),
        ("waiter-fixed", "locked"),
        ("pool-fixed", "locked"),
        ("rare-fixed", "locked"),
        ("replicas-fixed", "locked"),
        # Who finds the table being made waits, and is woken.
        ("once-fixed", "ordered"),
        ("stack-fixed", "atomics"),
        # A word that was read before the first atomic access to it.
        ("gate-fixed", "atomics"),
        # In memory of two processes.
        ("ring-fixed", "atomics"),
    ],
)
def test_what_is_right(session: Session, name: str, kind: str) -> None:
    """There is something that two threads access, and it is known what keeps them apart."""
    answer = races(session, name, "--all")
    assert answer.status == 0, str(answer)
    assert f"{kind}: " in answer.out, str(answer)
    assert "0 pairs that nothing orders" in answer.out, str(answer)


def test_an_interpreter(session: Session) -> None:
    """Its threads take turns by a lock of its own; there is more to see than is kept."""
    answer = races(session, "queue-fixed")
    assert answer.status == 0, str(answer)
    assert "0 pairs that nothing orders" in answer.out, str(answer)
    assert "meetings were not noted" in answer.err, str(answer)


def test_all_that_orders(session: Session) -> None:
    """A program that hands over and keeps apart in all ways, and races in some."""
    run = session.recorded(session.job("sharing"))
    answer = session.rewind("races", run.hash, "--json")
    assert answer.status == 1, str(answer)
    pairs = answer.json["pairs"]
    assert {pair["kind"] for pair in pairs} == {"unordered", "atomics"}
    raced = [pair for pair in pairs if pair["kind"] == "unordered"]
    assert {pair["variable"] for pair in raced} == {
        "raced_plain",
        "raced_update",
        "raced_after_a_lock",
        "raced_struct.raced_member[1].value",
        "node->raced_in_heap",
        "shared->raced_process",
    }
    assert any(pair["a"]["pid"] != pair["b"]["pid"] for pair in raced)
    updates = [pair for pair in raced if pair["variable"] == "raced_update"]
    assert [(pair["a"]["update"], pair["b"]["update"]) for pair in updates] == [(True, True)]


def test_counters_are_no_locks(session: Session) -> None:
    """What one thread changes of a condition variable, another one undoes."""
    answer = session.rewind("races", session.recorded(session.job("turns")).hash, "--json")
    assert answer.status == 0, str(answer)
    assert "inverted" not in {pair["kind"] for pair in answer.json["pairs"]}, str(answer)
    assert answer.json["not_shown"]["locked"] > 0


def test_code_that_the_program_has_written(session: Session) -> None:
    """It is the program's own, though it is in no file."""
    answer = session.rewind("races", session.recorded(session.job("written")).hash, "--json")
    assert answer.status == 1, str(answer)
    pairs = answer.json["pairs"]
    assert {(pair["kind"], pair["variable"]) for pair in pairs} == {("unordered", "counted")}
    assert answer.json["not_shown"]["libraries"] == 0


def test_without_threads(session: Session) -> None:
    answer = session.rewind("races", session.recorded(session.job("hello")).hash)
    assert answer.status == 0, str(answer)
    assert "no process has memory that two threads could access" in answer.out


def test_no_such_process(session: Session) -> None:
    run = session.recorded(f"{session.checkout}#bank")
    answer = session.rewind("races", run.hash, "--pid", "99999")
    assert answer.status == 2, str(answer)
    assert "process 99999 has no memory that two threads could access" in answer.sentence
    assert answer.out == ""
