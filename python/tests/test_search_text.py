"""A search's report in words."""

from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import traces
from rewind.formats.manifest import Outcome, Output
from rewind.formats.schedule import Perturbation
from rewind.formats.spans import span
from rewind.search import text
from rewind.search.report import Access, Analysis, Explanation, Odds, Place, Report, Waiting
from test_search_report import DIFFERS, LATER, NAR, NO_PLACE, PLACE, SAME, STALL, side, tried
from traces import detail, enter, execute, leave

FAILED = Outcome("exited", 1)


@pytest.mark.parametrize(
    ("ns", "says"),
    [
        (0, "0 ns"),
        (7, "7 ns"),
        (1_000, "1 us"),
        (32_000, "32 us"),
        (990_000, "990 us"),
        (999_999, "999.999 us"),
        (1_234_567, "1,234.567 us"),
        (1_000_000, "1 ms"),
        (1_500_000_000, "1.5 s"),
        (3_600_000_000_000, "3,600 s"),
        (1_000_000_001, "1,000,000.001 us"),
    ],
)
def test_durations(ns: int, says: str) -> None:
    assert span(ns) == says


@given(st.integers(0, 10**14))
def test_durations_are_exact(ns: int) -> None:
    number, unit = span(ns).split()
    size = {"ns": 1, "us": 1000, "ms": 10**6, "s": 10**9}[unit]
    whole, _, part = number.replace(",", "").partition(".")
    assert (int(whole) * 1000 + int(part.ljust(3, "0") or 0)) * size == ns * 1000


def told(report: Report, directory: Path = Path("/nowhere"), **hashes: str) -> list[str]:
    return list(text.lines(report, directory, hashes))


def verdict(report: Report) -> list[str]:
    """What follows the schedules."""
    lines = told(report)
    return lines[lines.index("") + 1 :]


# --- schedules


def test_a_schedule() -> None:
    assert text.tried(tried(7, STALL), None) == "schedule   7: exited 0         3,250 steps"
    assert (
        text.tried(tried(7, STALL), "c2f1cfac" + "0" * 24)
        == "schedule   7: exited 0         3,250 steps  c2f1cfac"
    )


def test_a_schedule_with_another_outcome_is_told_in_words() -> None:
    line = text.tried(tried(64, STALL, Perturbation(3300, 0, "reschedule"), outcome=FAILED), None)
    assert line == (
        "schedule  64: exited 1         3,250 steps"
        "  a stall of 1 ms at 3237+41, a reschedule at 3300"
    )


def test_the_unperturbed_run_is_no_schedule() -> None:
    assert "at" not in text.tried(tried(0, outcome=FAILED), None)


# --- verdicts


def count(report: Report, number: int, **more: Any) -> Report:
    """*report* with *number* schedules tried."""
    found = (report.tried[0], *(tried(n, STALL) for n in range(1, number + 1)))
    return attrs.evolve(report, tried=found, **more)


FAILS = attrs.evolve(
    SAME,
    verdict="fails",
    tried=(tried(0, outcome=FAILED), *(tried(n, STALL, outcome=FAILED) for n in range(1, 65))),
)


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (SAME, ["exited 0 under all 64 schedules"]),
        (count(SAME, 1, schedules=1, drawn=1), ["exited 0 under the one schedule"]),
        (
            count(SAME, 5, drawn=5),
            ["exited 0 under all 5 schedules", "there are no more than 5 different schedules"],
        ),
        (
            count(SAME, 5, cut_short=True),
            [
                "exited 0 under all 5 schedules",
                "cut short: the time was up after 5 of 64 schedules; "
                "on another machine it may be another number",
            ],
        ),
        (
            count(SAME, 0, schedules=0, drawn=0),
            ["exited 0 without any perturbation", "no schedule was tried"],
        ),
        (
            count(SAME, 0, cut_short=True),
            [
                "exited 0 without any perturbation",
                "cut short: the time was up after 0 of 64 schedules; "
                "on another machine it may be another number",
            ],
        ),
        (
            count(SAME, 0, verdict="alone", drawn=0),
            [
                "bank-0.1.0: nothing to put into another order: "
                "no two tasks of the job could run at any time"
            ],
        ),
        (
            count(SAME, 0, verdict="alone", drawn=0, first=12_345),
            [
                "bank-0.1.0: nothing to put into another order: "
                "no two tasks of the job could run from step 12,345 on"
            ],
        ),
        (
            FAILS,
            [
                "bank-0.1.0 fails without any perturbation (exited 1), and under all 64 schedules: "
                "that is no matter of timing"
            ],
        ),
        (
            count(FAILS, 0, schedules=0, drawn=0),
            ["bank-0.1.0 fails without any perturbation (exited 1)", "no schedule was tried"],
        ),
        (
            count(FAILS, 0, drawn=0),
            [
                "bank-0.1.0 fails without any perturbation (exited 1)",
                "nothing to put into another order: no two tasks of the job could run at any time",
            ],
        ),
        (
            count(FAILS, 3, cut_short=True),
            [
                "bank-0.1.0 fails without any perturbation (exited 1), and under all 3 schedules",
                "cut short: the time was up after 3 of 64 schedules; "
                "on another machine it may be another number",
            ],
        ),
    ],
)
def test_verdicts(report: Report, says: list[str]) -> None:
    assert verdict(report) == says


def test_all_that_were_tried_are_counted() -> None:
    report = attrs.evolve(
        SAME,
        verdict="differs",
        every=True,
        tried=tuple(tried(n, STALL, outcome=FAILED if n in (3, 9) else None) for n in range(20)),
        failing=side(STALL, outcome=FAILED),
        passing=side(LATER),
    )
    assert verdict(report) == ["another outcome under 2 of 19 schedules"]
    report = attrs.evolve(report, cut_short=True)
    assert verdict(report)[1].startswith("cut short: the time was up after 19 of 64 schedules")
    assert verdict(attrs.evolve(report, every=False, cut_short=False)) == []


# --- the deciding position


@pytest.fixture
def found(tmp_path: Path) -> Path:
    """A search's output, with the traces of two runs of sh."""

    def run(text: bytes) -> list[bytes]:
        return [
            execute(1, b"/bin/sh", b"sh"),
            leave(1, 59, 0),
            enter(1, 1, 1, 0x7F0000, len(text), more=detail(1, 2, text)),
            leave(1, 1, len(text)),
        ]

    traces.write(tmp_path / "passing.trace", run(b"good"))
    traces.write(tmp_path / "failing.trace", run(b"bad"))
    return tmp_path


def decided(report: Report, directory: Path, **hashes: str) -> list[str]:
    """What is said of the position, up to the two runs' programs."""
    lines = told(report, directory, **hashes)
    begin = lines.index("") + 1
    return lines[begin : lines.index("", begin)]


def test_a_position(found: Path) -> None:
    hashes = {"failing": "c2f1cfac" + "0" * 24, "passing": "90ab12cd" + "0" * 24}
    assert decided(DIFFERS, found, **hashes) == [
        "step 3237+41 decides it: thread 141 stalls there for 1 ms in deposit (bank.c:37)",
        "  at 3237+42, one instruction later, it passes; until 3237+41 both are the same run",
        "  1/2 (a) waits in futex, deposit (bank.c:37)",
        "  1/1 (a) was in user mode",
        "failing  stalled          3,250 steps  c2f1cfac",
        "passing  exited 0         3,250 steps  90ab12cd",
    ]


def test_what_the_programs_do(found: Path) -> None:
    lines = told(DIFFERS, found)
    assert any(line.startswith("  passing") and '"good"' in line for line in lines)
    assert any(line.startswith("  failing") and '"bad"' in line for line in lines)
    traces.write(found / "failing.trace", traces.sample())
    traces.write(found / "passing.trace", traces.sample())
    assert told(DIFFERS, found)[-1] == "the programs do the same in both, at other times"


def deciding(**change: object) -> Report:
    assert DIFFERS.deciding is not None
    return attrs.evolve(DIFFERS, deciding=attrs.evolve(DIFFERS.deciding, **change))


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (
            deciding(kind="reschedule", ns=0),
            ["step 3237+41 decides it: thread 141 gives way there in deposit (bank.c:37)"],
        ),
        (
            deciding(place=None),
            ["step 3237+41 decides it: thread 141 stalls there for 1 ms"],
        ),
        (
            deciding(tid=0, pid=0, place=None),
            ["step 3237+41 decides it: no thread of the job stalls there for 1 ms"],
        ),
        (
            deciding(place=NO_PLACE),
            [
                "step 3237+41 decides it: thread 141 stalls there for 1 ms in 0x401000",
                "  no source line: no debug information",
            ],
        ),
        (
            deciding(offset=0),
            ["step 3237 decides it: thread 141 stalls there for 1 ms in deposit (bank.c:37)"],
        ),
    ],
)
def test_positions(found: Path, report: Report, says: list[str]) -> None:
    assert decided(report, found)[: len(says)] == says


def test_a_position_at_which_it_passes(found: Path) -> None:
    """The unperturbed run fails: the one at the later position is the failure."""
    report = attrs.evolve(
        DIFFERS,
        tried=(tried(0, outcome=FAILED), attrs.evolve(tried(1, STALL), changed=True)),
        failing=side(LATER, outcome=FAILED),
        passing=side(STALL),
    )
    lines = decided(report, found)
    assert lines[1] == (
        "  at 3237+42, one instruction later, it fails; until 3237+41 both are the same run"
    )
    assert not any(line.startswith("  with") for line in lines)


def access(tid: int, *, write: bool, line: int | None, step: int = 3238) -> Access:
    place = None if line is None else attrs.evolve(PLACE, line=line)
    return Access(step=step, offset=7, pid=139, tid=tid, write=write, place=place)


EXPLAINED = Explanation(
    variable="balance",
    address=0x5580,
    before=access(141, write=False, line=22),
    between=access(142, write=True, line=26),
    after=access(141, write=True, line=26),
)


@pytest.mark.parametrize(
    ("explanation", "says"),
    [
        (
            EXPLAINED,
            "  thread 141 read balance at bank.c:22 and wrote it at bank.c:26;"
            " thread 142 wrote it in between (bank.c:26)",
        ),
        (
            attrs.evolve(
                EXPLAINED,
                variable=None,
                before=None,
                between=access(142, write=True, line=None),
                after=access(141, write=False, line=22),
            ),
            "  thread 142 wrote memory at 0x5580 at 3238+7 before thread 141 read it at bank.c:22",
        ),
    ],
)
def test_what_came_in_between(found: Path, explanation: Explanation, says: str) -> None:
    assert says in decided(attrs.evolve(DIFFERS, explanation=explanation), found)


def test_in_which_run_it_was(found: Path) -> None:
    """What is explained is the run that the perturbation makes: here it is the one that passes."""
    report = attrs.evolve(
        DIFFERS,
        explanation=EXPLAINED,
        tried=(tried(0, outcome=FAILED), tried(1, STALL)),
    )
    (line,) = (line for line in decided(report, found) if "balance" in line)
    assert line.startswith("  in the passing run, thread 141 read balance")


@pytest.mark.parametrize(
    ("analysis", "says"),
    [
        (
            Analysis(inverted=0, unordered=2, atomics=5, incomplete=False, error=None),
            ["nothing orders some accesses to memory (2): rewind races shows which"],
        ),
        (
            Analysis(inverted=0, unordered=1, atomics=0, incomplete=True, error=None),
            [
                "nothing orders some accesses to memory (1): rewind races shows which",
                "not all accesses to memory could be compared: rewind races says what was left out",
            ],
        ),
        (
            Analysis(inverted=1, unordered=0, atomics=5, incomplete=False, error=None),
            ["two locks are taken in either order (1): rewind races shows which"],
        ),
        (Analysis(inverted=0, unordered=0, atomics=5, incomplete=False, error=None), []),
        (
            Analysis(
                inverted=0, unordered=0, atomics=0, incomplete=True, error="too many processes"
            ),
            ["accesses to memory were not looked at: too many processes"],
        ),
    ],
)
def test_what_was_seen_of_accesses(analysis: Analysis, says: list[str]) -> None:
    report = attrs.evolve(SAME, analysis=analysis)
    assert verdict(report) == ["exited 0 under all 64 schedules", *says]


def test_what_was_to_be_expected() -> None:
    odds = tuple(
        Odds(depth=depth, schedules=3, threads=2, points=10, length=100_000_000) for depth in (1, 2)
    )
    report = attrs.evolve(SAME, odds=odds)
    said = " would have been found with probability at least "
    assert verdict(report) == [
        "exited 0 under all 64 schedules",
        f"a bug of depth 1{said}87.50%: 3 schedules, 2 threads, 10 points",
        f"a bug of depth 2{said}14.26%: 3 schedules, 2 threads, 10 points",
        "  (if no thread runs longer than 100 ms at a time)",
    ]


def test_outputs_that_differ(found: Path) -> None:
    """It ends in the same way: what is another is said."""
    good, bad = ("sha256:" + digit * 52 for digit in "01")
    outputs = {name: Output("/nix/store/x", good, 1) for name in ("out", "doc", "lib")}
    other = outputs | {"out": Output("/nix/store/x", bad, 1)}
    del other["lib"]
    report = attrs.evolve(
        DIFFERS,
        failing=attrs.evolve(side(STALL), outputs=other),
        passing=attrs.evolve(side(LATER), outputs=outputs),
    )
    assert decided(report, found)[-2:] == [f"  lib: not made, {good}", f"  out: {bad}, {good}"]
    assert not any(NAR in line for line in decided(DIFFERS, found))


OTHER = Perturbation(1000, 0, "reschedule")


@pytest.mark.parametrize(
    ("failing", "passing"), [(STALL, LATER), (LATER, STALL)], ids=["fails", "passes"]
)
def test_others_that_it_takes(found: Path, failing: Perturbation, passing: Perturbation) -> None:
    report = attrs.evolve(
        DIFFERS, failing=side(OTHER, failing, outcome=FAILED), passing=side(OTHER, passing)
    )
    assert "  with a reschedule at 1000" in decided(report, found)


def test_what_every_run_has_is_not_said(found: Path) -> None:
    report = attrs.evolve(
        DIFFERS,
        schedule=(OTHER,),
        failing=side(OTHER, STALL, outcome=FAILED),
        passing=side(OTHER, LATER),
    )
    assert not any(line.startswith("  with") for line in decided(report, found))


def test_an_unknown_call(found: Path) -> None:
    waiting = Waiting(pid=1, tid=1, program="a", call=9999, args=(), place=None)
    report = attrs.evolve(DIFFERS, failing=side(STALL, outcome=FAILED, waiting=(waiting,)))
    assert any(line.startswith("  1/1 (a) waits in ") for line in decided(report, found))


@pytest.mark.parametrize(
    ("place", "says"),
    [
        (PLACE, "deposit (bank.c:37)"),
        (attrs.evolve(PLACE, function=None), "? (bank.c:37)"),
        (attrs.evolve(PLACE, file="bank.c"), "deposit (bank.c:37)"),
        (NO_PLACE, "0x401000"),
        (Place(text="", function=None, file=None, line=None, why="x"), ""),
    ],
)
def test_places(place: Place, says: str) -> None:
    assert text.short(place) == says
