"""Tasks by order of appearance, and the steps of their calls."""

import pytest

import traces
from rewind.analysis.calls import Calls, Span
from rewind.formats.schedule import Named, Perturbation, parse_position, perturbation

RECORDS = [
    traces.leave(1, 16, 0),  # 0: the builder is task 1
    traces.enter(1, 59),  # 1
    traces.execute(1, b"/bin/sh"),
    traces.enter(1, 56),  # 3
    traces.fork(1, 7),  # 4: task 2, a process
    traces.leave(7, 56, 0),
    traces.enter(7, 56),  # 6
    traces.fork(7, 8, pid=7, child_pid=7),  # 7: task 3, its thread
    traces.enter(8, 39, pid=7),  # 8
    traces.end(7, 0, b"first", last=False),  # 9
    traces.enter(8, 59, pid=7),  # 10
    traces.execute(7, b"/bin/true"),  # 11: task 3 has the number 7 from now on
    traces.enter(7, 60),  # 12
    traces.end(7, 0, b"true"),  # 13
    traces.fork(1, 7),  # 14: task 4, with the same number once more
    traces.enter(7, 39),  # 15
]


@pytest.fixture
def calls() -> Calls:
    return Calls.of(traces.frames(RECORDS))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("1:0", 0, 1),
        ("1:1+9", 1, 3),
        ("1:2", 3, None),
        ("2:0", 4, 6),
        ("2:1", 6, 9),
        ("3:0+4", 7, 8),
        ("3:1", 8, 10),
        ("3:2", 10, 12),
        ("3:3", 12, 13),
        ("4:0", 14, 15),
        ("4:1", 15, None),
    ],
)
def test_spans(calls: Calls, text: str, first: int, last: int | None) -> None:
    assert calls.span(Named.parse(text)) == Span(first, last)


@pytest.mark.parametrize("text", ["1:3", "2:2", "5:0", "3:4"])
def test_what_can_not_come(calls: Calls, text: str) -> None:
    assert calls.span(Named.parse(text)) is None


def test_counts(calls: Calls) -> None:
    assert calls.tasks == 4
    assert [calls.count(number) for number in range(6)] == [0, 2, 1, 3, 1, 0]


def test_where_a_schedule_begins(calls: Calls) -> None:
    def first(*at: str) -> int | None:
        return calls.first(tuple(perturbation(parse_position(text), "reschedule") for text in at))

    assert first("3:1+5") == 8
    assert first("12", "3:1+5") == 8
    assert first("5", "3:1+5", "1:7") == 5
    assert first("5:0") is None
    assert calls.first((Perturbation(99, 0, "reschedule"),)) == 99
