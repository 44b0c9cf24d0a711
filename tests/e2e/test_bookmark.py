"""``rewind bookmark``, and where its notes are shown."""

import json

import pytest

from conftest import Recorded, Session


def test_it_is_listed_wherever_steps_are(session: Session, hello: Recorded) -> None:
    writes = [
        record
        for record in map(
            json.loads, session.rewind("events", hello.hash, "--json").out.splitlines()
        )
        if record["type"] == "enter" and "child 2" in str(record)
    ]
    step = writes[0]["step"]
    for position, note in ((f"{step}+3", "the second"), (f"{step}+3", "child"), ("2", "early")):
        answer = session.rewind("bookmark", hello.hash, position, note)
        assert answer.status == 0 and not answer.out, str(answer)
    assert session.rewind("bookmark", hello.hash, "--json").json == [
        {"at": "2", "note": "early"},
        {"at": f"{step}+3", "note": "child"},
        {"at": f"{step}+3", "note": "the second"},
    ]
    listed = session.rewind("show", hello.hash).out.splitlines()
    assert listed[-3:] == ["# 2  early", f"# {step}+3  child", f"# {step}+3  the second"]
    around = ["--from", str(step), "--to", str(step + 1)]
    lines = session.rewind("events", hello.hash, *around).out.splitlines()
    at = next(number for number, line in enumerate(lines) if "child 2" in line)
    assert [line.split("* ")[1] for line in lines[at + 1 : at + 3]] == [
        "+3  child",
        "+3  the second",
    ]
    log = session.rewind("log", hello.hash, "--steps").out
    assert f"{step}  * +3  child" in log and "2  * early" in log.splitlines()[0]

    assert session.rewind("bookmark", hello.hash, f"{step}+3", "--remove").status == 0
    assert session.rewind("bookmark", hello.hash).out == "2  early\n"
    assert session.rewind("bookmark", hello.hash, "2", "--remove").status == 0
    assert session.rewind("bookmark", hello.hash).out == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["99999999", "x"], "there is no step 99,999,999"),
        (["5"], "has a note"),
        (["5", "a\nb"], "one line"),
        (["5", "--remove"], "there is no bookmark at 5"),
        (["--remove"], "takes the step"),
        (["x", "y"], "is no position"),
    ],
)
def test_bad_input(session: Session, hello: Recorded, words: list[str], says: str) -> None:
    answer = session.rewind("bookmark", hello.hash, *words)
    assert answer.status == 2 and says in answer.sentence, str(answer)
