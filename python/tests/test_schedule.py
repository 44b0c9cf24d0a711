"""Positions and schedules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind.formats import FormatError, schedule
from rewind.formats.schedule import Named, NamedPerturbation, Perturbation, Position

U64 = st.integers(0, 2**64 - 1)
PERTURBATIONS = st.builds(
    lambda step, offset, kind, ns: Perturbation(step, offset, kind, ns if kind == "stall" else 0),
    U64,
    U64,
    st.sampled_from(["stall", "reschedule", "stop"]),
    st.integers(1, 2**64 - 1),
)
NAMED = st.builds(Named, st.integers(1, 2**64 - 1), U64, U64)
SCHEDULES = st.lists(
    st.one_of(
        PERTURBATIONS,
        st.builds(lambda p, at: schedule.perturbation(at, p.kind, p.ns), PERTURBATIONS, NAMED),
    ),
    max_size=5,
    unique_by=lambda p: p.position,
).map(schedule.ordered)


@given(st.builds(Position, U64, U64))
def test_position_round_trip(position: Position) -> None:
    assert Position.parse(str(position)) == position


@pytest.mark.parametrize(
    ("text", "step", "offset"),
    [("0", 0, 0), ("3237+41", 3237, 41), ("3,237", 3237, 0), ("7+0", 7, 0)],
)
def test_position(text: str, step: int, offset: int) -> None:
    assert Position.parse(text) == Position(step, offset)


@pytest.mark.parametrize(
    "text", ["", "x", "-1", "1+", "+1", "1+2+3", "1 + 2", "٣", "01", "18446744073709551616", "1_0"]
)
def test_no_position(text: str) -> None:
    with pytest.raises(FormatError, match="is no position"):
        Position.parse(text)


@given(NAMED)
def test_named_round_trip(named: Named) -> None:
    assert schedule.parse_position(str(named)) == named


@pytest.mark.parametrize(
    ("text", "named"),
    [("1:0", Named(1, 0)), ("12:3+437", Named(12, 3, 437)), ("12:3,000+0", Named(12, 3000))],
)
def test_named(text: str, named: Named) -> None:
    assert schedule.parse_position(text) == named


@pytest.mark.parametrize(
    "text",
    [":", "1:", ":1", "0:1", "01:1", "1:1+", "1:1:1", "1+1:1", "1:-1", "1:18446744073709551616"],
)
def test_not_named(text: str) -> None:
    with pytest.raises(FormatError, match="is no position: T:C"):
        schedule.parse_position(text)


def test_device_form() -> None:
    """The lines of docs/design.md, in order of position whatever the order they come in."""
    given = [Perturbation(40, 7, "reschedule"), Perturbation(33, 5530, "stall", 1_000_000)]
    text = schedule.to_device(schedule.ordered([*given, Perturbation(50, 0, "stop")]))
    assert text == "33 5530 stall 1000000\n40 7 reschedule 0\n50 0 stop 0\n"


def test_named_ones_come_last() -> None:
    """They are not in order with steps, as only a run tells where they are."""
    given = [
        NamedPerturbation(Named(12, 3, 437), "stall", 1_000_000),
        NamedPerturbation(Named(2, 40), "reschedule"),
        Perturbation(40, 7, "reschedule"),
    ]
    text = schedule.to_device(tuple(given))
    assert text == "40 7 reschedule 0\n2:40 0 reschedule 0\n12:3 437 stall 1000000\n"
    assert schedule.from_device(text) == tuple(reversed(given))


def test_resolved() -> None:
    """The same run by steps: what never came is none of it, and what came first is first."""
    first = NamedPerturbation(Named(2, 40), "reschedule")
    second = NamedPerturbation(Named(12, 3, 437), "stall", 1_000_000)
    given = schedule.ordered([first, second, Perturbation(40, 7, "reschedule")])
    came = (None, Position(30, 8), Position(20, 9))
    assert schedule.resolved(given, came) == (
        Perturbation(20, 9, "stall", 1_000_000),
        Perturbation(30, 8, "reschedule"),
    )
    assert schedule.never_came(given, came) == (
        "1 of 3 perturbations never came: a reschedule at 40+7"
    )
    assert schedule.never_came((second,), (None,)) == (
        "1 of 1 perturbation never came: a stall of 1 ms at 12:3+437"
    )
    assert schedule.never_came(given, (Position(40, 7), *came[1:])) is None
    with pytest.raises(ValueError, match="zip"):
        schedule.resolved(given, came[1:])


def test_nix_form() -> None:
    data = [
        {"at": "3237+41", "stall": 1000000},
        {"at": "3250", "reschedule": True},
        {"at": "12:3+437", "stall": 1000000},
    ]
    assert schedule.from_data(data) == (
        Perturbation(3237, 41, "stall", 1_000_000),
        Perturbation(3250, 0, "reschedule"),
        NamedPerturbation(Named(12, 3, 437), "stall", 1_000_000),
    )
    assert schedule.to_data(schedule.from_data(data)) == data


@given(SCHEDULES)
def test_round_trips(entries: schedule.Schedule) -> None:
    assert schedule.from_device(schedule.to_device(entries)) == entries
    assert schedule.from_data(schedule.to_data(entries)) == entries


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1]",
        '[{"at": "1"}]',
        '[{"at": 1, "stall": 5}]',
        '[{"at": "1", "stall": 0}]',
        '[{"at": "1", "stall": -5}]',
        '[{"at": "1", "stall": true}]',
        '[{"at": "1", "stall": 18446744073709551616}]',
        '[{"at": "1", "reschedule": false}]',
        '[{"at": "1", "stall": 5, "reschedule": true}]',
        '[{"at": "1", "stop": true}, {"at": "1+0", "stall": 5}]',
        '[{"at": "1:2", "stop": true}, {"at": "1:2+0", "stall": 5}]',
        '[{"at": "0:2", "stall": 5}]',
        "[",
        "[" * 100_000,
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(FormatError):
        schedule.from_json(text)


@pytest.mark.parametrize(
    "text",
    [
        "1 2 stall",
        "1 2 wait 3",
        "a 2 stall 3",
        "1 2 stall -3",
        "0:2 3 stall 4",
        "1: 3 stall 4",
        "1:2 stall 4",
        "1:2:3 4 stall 5",
    ],
)
def test_refused_lines(text: str) -> None:
    with pytest.raises(FormatError):
        schedule.from_device(text)


@given(st.text(max_size=60))
def test_any_line(text: str) -> None:
    """Any text is a schedule or raises FormatError."""
    try:
        entries = schedule.from_device(text)
    except FormatError:
        return
    assert schedule.from_device(schedule.to_device(entries)) == entries
