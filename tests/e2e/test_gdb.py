"""``rewind gdb``: gdb itself, in batch mode, on the failing runs that ``check`` finds."""

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import attrs
import pytest
from conftest import Answer, Recorded, Session, descendants

BANK = Path("examples/bank/bank.c").read_text().splitlines()


def line(text: str) -> int:
    """The number of the one line of bank.c with *text*."""
    (found,) = (number for number, line in enumerate(BANK, 1) if text in line)
    return found


STORE = line("balance = seen + teller->amount;")


@attrs.frozen
class Failing:
    """A run that fails, and where that is decided."""

    run: str
    step: int
    offset: int
    tid: int

    @property
    def position(self) -> str:
        """As commands take it."""
        return f"{self.step}+{self.offset}"


def found(session: Session, example: str) -> Failing:
    answer = session.rewind("check", f"{session.checkout}#{example}", "--json")
    assert answer.status == 1, str(answer)
    deciding: Any = answer.json["deciding"]
    run = answer.json["hashes"]["failing"]
    return Failing(run, deciding["step"], deciding["offset"], deciding["tid"])


@pytest.fixture(scope="module")
def failing(session: Session) -> Failing:
    """The failing run of bank."""
    return found(session, "bank")


def history_ends(answer: Answer) -> int:
    """How often gdb says that there is no more of what happened, in words of its version."""
    words = "Reached end of recorded history|No more reverse-execution history"
    return len(re.findall(words, answer.out))


def gdb(session: Session, run: str, position: str, *commands: str, options: tuple[str, ...] = ()):
    """What gdb says to *commands*, in batch mode."""
    words = [word for command in commands for word in ("-ex", command)]
    answer = session.rewind("gdb", run, position, *options, "--", "-nx", "-batch", *words)
    assert answer.status == 0, str(answer)
    return answer


def values(answer: Answer) -> list[str]:
    """What was printed."""
    return re.findall(r"^\$\d+ = (.*)$", answer.out, re.MULTILINE)


def test_both_sides_of_the_race(session: Session, failing: Failing) -> None:
    """Both tellers have seen the same balance, to which each then adds its amount."""
    each = ["continue", "print teller->number", "print (char *)receipt", "print balance"]
    answer = gdb(
        session,
        failing.run,
        failing.position,
        *("print balance", "print *teller", "monitor position"),
        *("reverse-continue", f"break {line('if (write(')}", *each, *each),
    )
    assert f"bank.c:{STORE}" in answer.out, str(answer)
    assert failing.position in answer.out + answer.err, str(answer)
    balance, teller, *others = values(answer)
    assert balance == "150" and "number = 1, amount = 10}" in teller, str(answer)
    assert [others[0], others[2], others[3], others[5]] == ["1", "150", "2", "150"], str(answer)
    assert "teller 1: 150 + 10" in others[1] and "teller 2: 150 + 50" in others[4], str(answer)


def test_every_thread_is_there(session: Session, failing: Failing) -> None:
    """On the CPU and off it, with what it waits for, and its stack in the program."""
    answer = gdb(session, failing.run, failing.position, "info threads", "thread apply all bt")
    assert '"bank" (has the CPU)' in answer.out, str(answer)
    assert f'"bank" (waits for the end of thread {failing.tid})' in answer.out, str(answer)
    assert re.search(r"^#\d+ .* main \(\) at bank\.c:\d+$", answer.out, re.MULTILINE), str(answer)
    assert re.search(rf"deposit \(teller=0x\w+\) at bank\.c:{STORE}", answer.out), str(answer)


def test_the_kernels_symbols_are_beside(session: Session, failing: Failing) -> None:
    commands = [
        "info symbol do_exit",
        "print init_task.comm",
        "print sizeof(struct task_struct) > 0",
    ]
    answer = gdb(session, failing.run, failing.position, *commands)
    assert "do_exit in section .text" in answer.out, str(answer)
    assert values(answer)[0].startswith('"swapper') and values(answer)[1] == "1", str(answer)


def test_a_watchpoint_stops_at_the_stores_and_nowhere_else(
    session: Session, failing: Failing
) -> None:
    """From the program's first instruction to its end, and back."""
    # Forwards behind the store, backwards before it.
    forwards = ["continue", "info line *($pc - 1)"] * 2
    back = ["reverse-continue", "info line *$pc"] * 2
    answer = gdb(
        session,
        failing.run,
        failing.position,
        *("reverse-continue", "watch balance", *forwards, "continue"),
        *(*back, "reverse-continue"),
    )
    changes = re.findall(r"^Old value = (\d+)\nNew value = (\d+)$", answer.out, re.MULTILINE)
    # The second teller's store, and the first one's that undoes it; and both again.
    assert changes == [("150", "200"), ("200", "160"), ("160", "200"), ("200", "150")], str(answer)
    lines = re.findall(r"^Line (\d+) of .*bank\.c", answer.out, re.MULTILINE)
    assert lines == [str(STORE)] * 4, str(answer)
    assert history_ends(answer) == 3, str(answer)


@pytest.mark.parametrize("again", ["continue", "stepi"])
def test_a_watchpoint_is_hit_by_the_instruction_it_stands_before(
    session: Session, failing: Failing, again: str
) -> None:
    """Going back to a store and on again is to see that store, and not the next one."""
    commands = ["reverse-continue", "watch balance", "continue", "reverse-continue", again]
    answer = gdb(session, failing.run, failing.position, *commands, "continue")
    changes = re.findall(r"^Old value = (\d+)\nNew value = (\d+)$", answer.out, re.MULTILINE)
    assert changes == [("150", "200"), ("200", "150"), ("150", "200"), ("200", "160")], str(answer)


def test_steps_forwards_and_backwards(session: Session, failing: Failing) -> None:
    """A line further and a line back is where it was; so is an instruction."""
    answer = gdb(
        session,
        failing.run,
        failing.position,
        "set scheduler-locking off",
        "print $pc",
        "stepi",
        "print $pc != $1",
        "print balance",
        "reverse-stepi",
        "print $pc == $1",
        "print balance",
        "monitor position",
    )
    # Before the store the other teller had the CPU, and stored.
    assert values(answer)[1:] == ["1", "160", "1", "200"], str(answer)


def test_nothing_can_be_changed(session: Session, failing: Failing) -> None:
    """Neither memory nor a register, and no function can be called; the run goes on as it was."""
    answer = gdb(
        session,
        failing.run,
        failing.position,
        "set var balance = 7",
        "print balance",
        "continue",
    )
    assert "$1 = 150" in answer.out, str(answer)
    assert "Cannot access memory" in answer.err, str(answer)
    # And made again it is the same run, to the byte.
    again = session.rewind("replay", failing.run)
    assert again.status == 0, str(again)


def test_a_crash_is_where_it_happened(session: Session) -> None:
    """pool dies of a signal in a thread that writes to memory that was freed."""
    pool = found(session, "pool")
    answer = gdb(
        session,
        pool.run,
        pool.position,
        "continue",
        "bt",
        "info threads",
        "reverse-continue",
    )
    assert "received signal SIGSEGV" in answer.out, str(answer)
    assert re.search(r"#0 .*\bwork\b.* at pool\.c:\d+", answer.out), str(answer)
    assert history_ends(answer) == 1, str(answer)


@pytest.fixture(scope="module")
def shapes(session: Session) -> Recorded:
    """A run of the C++ program."""
    return session.recorded(session.job("shapes"))


@pytest.fixture(scope="module")
def printed(session: Session, shapes: Recorded) -> str:
    """The step at which it says what came of it."""
    records = session.rewind("events", shapes.hash, "--json").out.splitlines()
    (written,) = (record for record in map(json.loads, records) if "sum -9" in str(record))
    return str(written["step"])


def test_next_step_and_finish(session: Session, shapes: Recorded, printed: str) -> None:
    """Through lines and calls, and back through the same ones."""
    answer = gdb(
        session,
        shapes.hash,
        printed,
        "reverse-continue",
        "tbreak shapes::Worker::operator()",
        "continue",
        "step",
        "info symbol $pc",
        "next",
        "print shapes::depth",
        "reverse-next",
        "print shapes::depth",
        "reverse-finish",
        "info symbol $pc",
    )
    assert values(answer) == ["1", "0"], str(answer)
    inner, outer = re.findall(r"^(.*) in section", answer.out, re.MULTILINE)
    assert inner.startswith("int shapes::grow<int>(int, int)"), str(answer)
    assert outer.startswith("shapes::Worker::operator()()"), str(answer)


def test_exceptions_and_thread_locals(session: Session, shapes: Recorded, printed: str) -> None:
    """From the throw to the catch, in C++; each thread has its own counter."""
    answer = gdb(
        session,
        shapes.hash,
        printed,
        "reverse-continue",
        "break shapes::Failed::Failed",
        "continue",
        "bt 3",
        "print shapes::depth",
        "print shapes::area",
        "tbreak __cxa_begin_catch",
        "continue",
        "up",
        "info symbol $pc",
        "thread apply all print shapes::depth",
    )
    assert "shapes::Failed::Failed" in answer.out, str(answer)
    assert "shapes::grow<int>" in answer.out, str(answer)
    depth = re.search(r"^\$1 = (\d)$", answer.out, re.MULTILINE)
    area = re.search(r"^\$2 = ([\d.]+)$", answer.out, re.MULTILINE)
    assert depth is not None and area is not None, str(answer)
    assert float(area[1]) == 1.5 * 2 ** int(depth[1]), str(answer)
    assert "shapes::Worker::operator()" in answer.out, str(answer)


def test_a_gdb_elsewhere(session: Session, failing: Failing) -> None:
    """With --listen another gdb connects, which has no files but those that it is served."""
    server = session.start(
        [str(session.rewind_program), "gdb", failing.run, failing.position, "--listen", "0"]
    )
    try:
        assert server.stdout is not None
        target = server.stdout.readline().strip()
        assert re.fullmatch(r"target remote localhost:\d+", target), target
        answer = session.run(
            session.program("gdb", "gdb"), "-nx", "-batch",
            *("-ex", "set sysroot target:", "-ex", target, "-ex", "bt"),
        )  # fmt: skip
        assert "deposit (teller=" in answer.out, str(answer)
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["99999999"], "step"),
        (["100", "--pid", "9999"], "there is no process 9999"),
        (["100", "--tid", "9999"], "there is no thread 9999"),
        (["100", "--gdb", "no-such-gdb"], "there is no no-such-gdb on PATH"),
        (["100", "--gdb", "true"], "is no gdb"),
        (["100", "--listen", "what:ever"], "is no place to listen at"),
        (["100", "--listen", "0", "--", "-batch"], "no gdb is started"),
    ],
)
def test_bad_input(session: Session, failing: Failing, words: list[str], says: str) -> None:
    before = session.traces()
    answer = session.rewind("gdb", failing.run, *words)
    assert answer.status == 2, str(answer)
    assert says in answer.sentence and answer.sentence.startswith("rewind: "), str(answer)
    assert session.traces() == before


def test_an_old_gdb_is_refused(session: Session, failing: Failing) -> None:
    old = session.directory / "old-gdb"
    old.write_text("#!/bin/sh\necho 'GNU gdb (GDB) 7.12.1'\n")
    old.chmod(0o755)
    answer = session.rewind("gdb", failing.run, failing.position, "--gdb", str(old))
    assert answer.status == 2 and "gdb 7: it takes 10 or later" in answer.sentence, str(answer)


def test_ctrl_c_is_gdbs(session: Session) -> None:
    """SIGINT to all that belongs to it, as a terminal sends it: gdb stops, and can go on."""
    run = session.recorded(session.job("spins"), "--time-limit", "2")
    words = ["-nx", "-batch", "-ex", "echo ready\\n", "-ex", "continue"]
    process = session.start(
        [str(session.rewind_program), "gdb", run.hash, "5", "--pid", "1", "--", *words]
    )
    assert process.stdout is not None
    while (text := process.stdout.readline()) and "ready" not in text:
        pass
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "received signal SIGINT" in out, out + err


def test_nothing_is_left_when_it_is_killed(session: Session, failing: Failing) -> None:
    process = session.start(
        [str(session.rewind_program), "gdb", failing.run, failing.position, "--listen", "0"]
    )
    assert process.stdout is not None
    process.stdout.readline()
    children = descendants(process.pid)
    assert any("qemu" in child.command for child in children)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=30)
    end = time.monotonic() + 10
    while any(child.alive for child in children) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [child for child in children if child.alive]
    assert process.returncode == 128 + signal.SIGTERM
