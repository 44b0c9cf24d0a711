"""Positions and schedules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind.formats import FormatError, schedule
from rewind.formats.schedule import Perturbation, Position

U64 = st.integers(0, 2**64 - 1)
PERTURBATIONS = st.builds(
    lambda step, offset, kind, ns: Perturbation(step, offset, kind, ns if kind == "stall" else 0),
    U64,
    U64,
    st.sampled_from(["stall", "reschedule", "stop"]),
    st.integers(1, 2**64 - 1),
)
SCHEDULES = st.lists(PERTURBATIONS, max_size=5, unique_by=lambda p: p.position).map(
    schedule.ordered
)


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


def test_device_form() -> None:
    """The lines of docs/design.md, in order of position whatever the order they come in."""
    given = [Perturbation(40, 7, "reschedule"), Perturbation(33, 5530, "stall", 1_000_000)]
    text = schedule.to_device(schedule.ordered([*given, Perturbation(50, 0, "stop")]))
    assert text == "33 5530 stall 1000000\n40 7 reschedule 0\n50 0 stop 0\n"


def test_nix_form() -> None:
    data = [{"at": "3237+41", "stall": 1000000}, {"at": "3250", "reschedule": True}]
    assert schedule.from_data(data) == (
        Perturbation(3237, 41, "stall", 1_000_000),
        Perturbation(3250, 0, "reschedule"),
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
        "[",
        "[" * 100_000,
    ],
)
def test_refused(text: str) -> None:
    with pytest.raises(FormatError):
        schedule.from_json(text)


@pytest.mark.parametrize("text", ["1 2 stall", "1 2 wait 3", "a 2 stall 3", "1 2 stall -3"])
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
