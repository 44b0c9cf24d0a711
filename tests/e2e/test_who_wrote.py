"""``rewind who-wrote``: on a program that writes in all ways, and on bank's race."""

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from conftest import Answer, Recorded, Session

SOURCES = {
    name: Path(path).read_text().splitlines()
    for name, path in {
        "writers": "tests/e2e/programs/writers.c",
        "bank": "examples/bank/bank.c",
    }.items()
}


def line(name: str, text: str) -> int:
    """The number of the one line of a source with *text*."""
    (found,) = (number for number, line in enumerate(SOURCES[name], 1) if text in line)
    return found


@attrs.frozen
class Writers:
    """The run of writers.c, and where it prints its lines."""

    session: Session
    hash: str
    child: int
    """The step, ..."""
    child_pid: int
    parent: int
    end: int

    def who_wrote(self, step: int, *arguments: str) -> Answer:
        """The answer for it."""
        return self.session.rewind("who-wrote", self.hash, str(step), *arguments)

    def writer(self, step: int, *arguments: str) -> dict[str, Any]:
        """What is told of who wrote it."""
        answer = self.who_wrote(step, *arguments, "--json")
        assert answer.status == 0, str(answer)
        written: dict[str, Any] = answer.json["written"]
        return written


def source_line(written: dict[str, Any]) -> tuple[str, int]:
    """The innermost function of the program's own code, and the line."""
    stack = written["stack"]
    frame = stack["frames"][stack["frame"]]
    return frame["function"], frame["line"]


@pytest.fixture(scope="module")
def writers(session: Session) -> Writers:
    run = session.recorded(session.job("writers"))
    events = session.rewind("events", run.hash, "--json").out.splitlines()
    lines = {
        entry["details"][0]["text"]: entry
        for entry in map(json.loads, events)
        if entry["type"] == "enter" and entry["call"] == "write"
    }
    return Writers(
        session,
        run.hash,
        child=lines["child\n"]["step"],
        child_pid=lines["child\n"]["pid"],
        parent=lines["parent\n"]["step"],
        end=lines["late\n"]["step"],
    )


def test_the_last_before(writers: Writers) -> None:
    """And not one later; the answer is a position, of which `where` says the same."""
    answer = writers.who_wrote(writers.parent, "plain")
    assert answer.status == 0, str(answer)
    number = line("writers", "plain = 2;")
    head, written, title, *_, where = answer.out.splitlines()
    assert head.startswith("plain: 8 bytes at 0x")
    assert head.endswith(f", long, before step {writers.parent}")
    assert written.endswith(" by process 1 (writers), thread 1")
    assert title == f"#0 main (writers.c:{number})"
    place = writers.session.rewind(*where.split()[1:])
    assert place.out.splitlines()[2] == title
    later = writers.writer(writers.end, "plain")
    assert source_line(later) == ("main", line("writers", "plain = 4;"))


def test_expressions(writers: Writers) -> None:
    number = line("writers", "node->next->value = 3;")
    for text in ("second.value", "first.next->value", "(*first.next).value"):
        written = writers.writer(writers.parent, text)
        assert source_line(written) == ("main", number)
        assert written["size"] == 8


def test_an_address(writers: Writers) -> None:
    """Any byte of what is there."""
    told = writers.who_wrote(writers.parent, "inherited", "--json").json
    within = hex(told["address"] + 3)
    written = writers.writer(writers.parent, within, "--size", "1", "--pid", "1")
    assert written == told["written"]


def test_by_the_kernel(writers: Writers) -> None:
    """For a system call, which is named."""
    answer = writers.who_wrote(writers.parent, "line")
    written = answer.out.splitlines()[1]
    assert " by the kernel, in " in written and ", in its call of read at step " in written
    assert " fill (writers.c:" in answer.out.splitlines()[2]


def test_in_a_page_that_was_copied(writers: Writers) -> None:
    """The child has a copy of what its parent has written, since it wrote to that page itself."""
    step, pid = writers.child, str(writers.child_pid)
    told = writers.who_wrote(step, "inherited", "--pid", pid, "--json").json
    assert len(told["copied"]) >= 1
    assert source_line(told["written"]) == ("main", line("writers", "inherited = 8;"))
    assert told["written"]["pid"] == 1
    own = writers.writer(step, "own", "--pid", pid)
    assert source_line(own) == ("child", line("writers", "own = 2;"))
    assert own["pid"] == writers.child_pid


def test_by_another_process(writers: Writers) -> None:
    written = writers.writer(writers.parent, "*shared")
    assert source_line(written) == ("child", line("writers", "*shared = 9;"))
    assert written["pid"] == writers.child_pid


def test_by_nobody(writers: Writers) -> None:
    """It is as in the file, or was never there."""
    initial = writers.who_wrote(writers.parent, "initial")
    assert initial.status == 3, str(initial)
    assert "nobody has written there: it is as in /nix/store/" in initial.out.splitlines()[-1]
    assert "/bin/writers, at 0x" in initial.out
    untouched = writers.who_wrote(writers.parent, "untouched[2048]")
    assert untouched.status == 3, str(untouched)
    assert untouched.out.splitlines()[-1] == "nobody has written there"
    never = writers.who_wrote(writers.parent, "untouched[3800]")
    assert never.status == 3, str(never)
    assert never.out.splitlines()[-1] == "nobody has written there: it was not touched yet"


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (["absent"], "the program has no variable absent there"),
        (["plain->next"], "plain->next can't be evaluated"),
        (["plain +"], "plain + is no expression: '+'"),
        (["0x10"], "nothing is mapped at 0x10"),
        (["0xffffffff81000000"], "0xffffffff81000000 is no address of a program's"),
        (["plain", "--tid", "77"], "there is no thread 77 at this step"),
        (["plain", "--pid", "77"], "there is no process 77 at this step"),
        (["plain", "--pid", "1", "--tid", "1"], "--tid and --pid can't be used together"),
    ],
)
def test_bad_input(writers: Writers, what: list[str], why: str) -> None:
    answer = writers.who_wrote(writers.parent, *what)
    assert answer.status == 2, str(answer)
    assert answer.out == ""
    assert answer.err.startswith("rewind: ") and why in answer.err
    assert answer.err.count("\n") == 1


def test_past_the_end(writers: Writers) -> None:
    answer = writers.who_wrote(10_000_000, "plain")
    assert answer.status == 2, str(answer)


def test_bank(session: Session, bank: Recorded) -> None:
    """Of the race's two stores the last one, from the second teller's."""
    events = map(json.loads, session.rewind("events", bank.hash, "--json").out.splitlines())
    last = [
        entry
        for entry in events
        if entry["type"] == "enter"
        and entry["call"] == "write"
        and entry["details"][0]["text"].startswith("balance ")
    ][-1]
    answer = session.rewind("who-wrote", bank.hash, str(last["step"]), "balance")
    assert answer.status == 0, str(answer)
    number = line("bank", "balance = seen + teller->amount;")
    assert f"#0 deposit (bank.c:{number})" in answer.out, str(answer)
    assert f">{number:>7}  " in answer.out
