"""``rewind where``, on bank: compiled in the run, with a race between its write and its store."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Recorded, Session

SOURCE = Path("examples/bank/bank.c").read_text().splitlines()


def line(text: str) -> int:
    """The number of the one line of bank.c with *text*."""
    (found,) = (number for number, line in enumerate(SOURCE, 1) if text in line)
    return found


@pytest.fixture(scope="module")
def records(session: Session, bank: Recorded) -> list[dict[str, Any]]:
    """All that happened in bank's run."""
    answer = session.rewind("events", bank.hash, "--json")
    return [json.loads(entry) for entry in answer.out.splitlines()]


@pytest.fixture(scope="module")
def receipt(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The first teller's write."""
    return next(
        record
        for record in records
        if record["type"] == "enter"
        and record["call"] == "write"
        and record["details"][0]["text"].startswith("teller 1")
    )


def after(records: list[dict[str, Any]], receipt: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the first teller does from its receipt on."""
    return (
        record
        for record in records
        if record["step"] > receipt["step"] and record["tid"] == receipt["tid"]
    )


def test_in_the_write(session: Session, bank: Recorded, receipt: dict[str, Any]) -> None:
    """The source line, with two around it, and the caller; the frame was inlined."""
    answer = session.rewind("where", bank.hash, str(receipt["step"]))
    assert answer.status == 0, str(answer)
    number = line("if (write(")
    head, name, title, *excerpt, caller = answer.out.splitlines()
    assert re.fullmatch(r"[0-9]+:[0-9]+, in the kernel", name)
    pid, tid = receipt["pid"], receipt["tid"]
    assert head == f"process {pid} (bank), thread {tid} at step {receipt['step']}"
    assert title.endswith(f" deposit (bank.c:{number})")
    assert [entry.strip("> ").partition(" ")[0] for entry in excerpt] == [
        str(number + distance) for distance in range(-2, 3)
    ]
    assert excerpt[2].startswith(f"> {number:>6}") and "write(" in excerpt[2]
    assert caller.endswith(f" work (bank.c:{line('deposit(teller);')})")


def test_between_steps(
    session: Session, bank: Recorded, records: list[dict[str, Any]], receipt: dict[str, Any]
) -> None:
    """Wherever it is after its receipt, in the kernel or not, it is in its program's stack."""
    back = next(record for record in after(records, receipt) if record["type"] == "exit")
    following = next(
        record for record in after(records, receipt) if record["step"] > back["step"] + 1
    )
    for part in (0.1, 0.9):
        offset = int((following["time"] - back["time"]) * part)
        answer = session.rewind(
            "where", bank.hash, f"{back['step']}+{offset}", "--tid", str(receipt["tid"]), "--json"
        )
        assert answer.status == 0, str(answer)
        # Where the C library began the thread.
        assert answer.json["frames"][-1]["module"].endswith("/libc.so.6"), str(answer)
        assert answer.json["frames"][-1]["pc"] < 1 << 47


def test_off_the_cpu(
    session: Session, bank: Recorded, records: list[dict[str, Any]], receipt: dict[str, Any]
) -> None:
    """The main thread waits for the first teller's end."""
    pid, tid = receipt["pid"], receipt["tid"]
    waits = next(
        record
        for record in records
        if record["step"] > receipt["step"]
        and record["tid"] == pid
        and record["type"] == "switch"
        and record["state"]
    )
    # At the step itself it is about to leave the CPU.
    position = f"{waits['step']}+5000"
    answer = session.rewind("where", bank.hash, position, "--tid", str(pid))
    assert answer.status == 0, str(answer)
    head, title, *_ = answer.out.splitlines()
    assert head == (
        f"process {pid} (bank), thread {pid}, waits for the end of thread {tid}, at step {position}"
    )
    assert title.endswith(f" main (bank.c:{line('pthread_join(')})")


def test_at_a_named_position(session: Session, bank: Recorded, receipt: dict[str, Any]) -> None:
    """What is printed for a step can be given in its place, and is where the call has returned."""
    found = session.rewind("where", bank.hash, str(receipt["step"]), "--json").json
    assert found["in_user_mode"] is False
    at = f"{found['named']}+2"
    there = session.rewind("where", bank.hash, at, "--json").json
    assert (there["named"], there["in_user_mode"]) == (at, True), str(there)
    assert (there["tid"], int(there["position"].split("+")[0])) > (receipt["tid"], receipt["step"])
    again = session.rewind("where", bank.hash, there["position"], "--json").json
    assert again == there
    for command in ("cat", "ls-files"):
        by_step, by_name = (
            session.rewind(command, bank.hash, position, "/build/env-vars")
            for position in (there["position"], at)
        )
        assert (by_name.status, by_name.out) == (by_step.status, by_step.out)


def test_bad_input(session: Session, bank: Recorded, receipt: dict[str, Any]) -> None:
    """A step past the end, and a thread that is not there."""
    for words, why in (
        (("99999999",), "there is no step 99,999,999"),
        ((str(receipt["step"]), "--tid", "9999"), "there is no thread 9999 at this step"),
    ):
        answer = session.rewind("where", bank.hash, *words)
        assert (answer.status, answer.out) == (2, ""), str(answer)
        assert why in answer.sentence
