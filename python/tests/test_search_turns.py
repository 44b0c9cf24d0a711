"""Things by turns."""

from collections.abc import Iterator

from rewind.search.turns import round_robin


def test_by_turns() -> None:
    assert list(round_robin(["abc", "", "d", "ef"])) == ["a", "d", "e", "b", "f", "c"]
    assert list(round_robin([])) == []


def test_each_is_asked_when_it_has_its_turn() -> None:
    """So that it can leave out what another one has had meanwhile."""
    had: list[int] = []

    def some(numbers: range) -> Iterator[int]:
        return (number for number in numbers if number not in had)

    for number in round_robin([some(range(3)), some(range(5))]):
        had.append(number)
    assert had == [0, 1, 2, 3, 4]
