"""``rewind cat``: files as they were."""

from pathlib import Path

from conftest import Recorded, Session

MAKEFILE = Path(__file__).resolve().parents[2] / "examples" / "bank" / "Makefile"


def step_of(session: Session, run: Recorded, text: str) -> str:
    """The step at which *run* wrote the line of its log that has *text* in it."""
    log = session.rewind("log", run.hash, "--steps").out
    return next(line.split()[0] for line in log.splitlines() if text in line)


def test_a_file_in_memory(session: Session, bank: Recorded) -> None:
    """The build's directory is in no output: it is nowhere but in the machine."""
    step = step_of(session, bank, "teller 2")
    answer = session.rewind("cat", bank.hash, step, "/build/source/Makefile")
    assert (answer.status, answer.out) == (0, MAKEFILE.read_text())


def test_a_file_that_is_not_there_yet(session: Session, bank: Recorded) -> None:
    answer = session.rewind("cat", bank.hash, "100", "/build/source/Makefile")
    assert (answer.status, answer.out) == (3, "")
    assert "there was no /build/source/Makefile at 100" in answer.err


def test_bad_questions(session: Session, bank: Recorded) -> None:
    for arguments, sentence in (
        (("100", "build/source"), "is no absolute path"),
        (("99999999", "/etc/passwd"), "there is no step 99,999,999"),
        (("100", "/build"), "/build"),
    ):
        answer = session.rewind("cat", bank.hash, *arguments)
        assert (answer.status, answer.out) == (2, "")
        assert sentence in answer.err
