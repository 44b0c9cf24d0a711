"""From pairs of accesses to positions for stalls."""

import threading
from collections.abc import Iterator
from typing import Any, cast

import attrs
import pytest

from rewind.formats.schedule import Perturbation, Position, Schedule
from rewind.replay.races import Found, Pair, Side
from rewind.search.conflicts import analysis, candidates, met, position_of, read_before
from rewind.search.engine import Drawn
from rewind.search.places import Thread
from rewind.search.tape import Tape

READ = Side(0, 0x10, 50, 1, write=False, locked=False, update=False, size=8)


class Times:
    """A tape as far as it is asked: steps at 0, 100, 200, …"""

    def times(self) -> list[int]:
        return list(range(0, 1000, 100))


TAPE = cast(Tape, Times())


def read(tid: int, time: int, **more: Any) -> Side:
    return attrs.evolve(READ, tid=tid, time=time, **more)


def write(tid: int, time: int, **more: Any) -> Side:
    return read(tid, time, write=True, **more)


def pair(a: Side, b: Side, kind: str = "unordered", address: int = 0x4000) -> Pair:
    return Pair(kind, address, 0, 1, a, b)


def unordered(*pairs: Pair) -> list[str]:
    return [str(at) for at in candidates(Found(pairs=pairs), TAPE).unordered]


def test_positions() -> None:
    assert position_of(TAPE, 0) == Position(0)
    assert position_of(TAPE, 250) == Position(2, 50)
    assert position_of(TAPE, 300) == Position(3)


def test_a_lost_update() -> None:
    """What one has read is old when it writes: that stall comes before all others."""
    assert unordered(
        pair(read(1, 110), write(2, 330)),
        pair(write(1, 140), read(2, 310)),
        pair(write(1, 140), write(2, 330)),
    )[:2] == ["1+40", "1+11"]


def test_what_is_not_there_yet() -> None:
    """Of two writes before others read, the second: after the first it is neither old nor new."""
    found = unordered(pair(write(1, 110), read(2, 310)), pair(write(1, 190), read(2, 310)))
    assert found[0] == "1+90"
    assert set(found) == {"1+90", "1+10", "3+11", "3+10"}


def test_what_is_acted_on() -> None:
    """After a read, at its instruction's end; then before it."""
    assert unordered(pair(read(1, 110), write(2, 330)))[:2] == ["1+11", "1+10"]


def test_words_have_turns() -> None:
    found = unordered(
        pair(write(1, 110), read(2, 310)),
        pair(write(1, 120), read(2, 320), address=0x5000),
    )
    assert found[:2] == ["1+10", "1+20"]


def test_with_a_lock() -> None:
    """Before it is taken, unless the other thread did without."""
    sides = (write(1, 150, entered=120), read(2, 350, entered=320))
    found = Found(pairs=(pair(*sides, kind="locked"), pair(*sides, kind="atomics", address=0x5000)))
    assert [str(at) for at in candidates(found, TAPE).atomics][:2] == ["1+20", "1+50"]
    assert unordered(pair(*sides))[0] == "1+50"


def test_kinds() -> None:
    kinds = ("inverted", "unordered", "atomics", "locked", "ordered")
    pairs = [
        pair(write(1, 100 * n), read(2, 900), kind=kind, address=0x4000 + 8 * n)
        for n, kind in enumerate(kinds, 1)
    ]
    found = candidates(Found(pairs=tuple(pairs)), TAPE)
    assert found.inverted[0] == Position(1)
    assert found.unordered[0] == Position(2)
    assert Position(3) in found.atomics and Position(4) in found.atomics
    every = {*found.inverted, *found.unordered, *found.atomics}
    assert Position(5) not in every


def test_halves_are_none() -> None:
    """The read of an instruction that writes, too, has nothing of its own to say."""
    half = pair(read(1, 110, update=True), write(2, 330))
    assert unordered(half) == []
    assert analysis(Found(pairs=(half,))).unordered == 0


@pytest.mark.parametrize("lost", [0, 3])
def test_what_a_report_says(lost: int) -> None:
    pairs = (
        pair(write(1, 1), read(2, 2)),
        pair(write(1, 1), read(2, 2), kind="atomics"),
        pair(write(1, 1), read(2, 2), kind="inverted"),
        pair(write(1, 1), read(2, 2), kind="ordered"),
    )
    said = analysis(Found(pairs=pairs, lost_pairs=lost))
    assert (said.inverted, said.unordered, said.atomics) == (1, 1, 1)
    assert said.incomplete == bool(lost)


def test_schedules_are_made_as_they_are_needed() -> None:
    made: list[int] = []

    def source() -> Iterator[Schedule]:
        for step in range(1, 6):
            made.append(step)
            yield (Perturbation(step, 0, "reschedule"),)

    drawn = Drawn(source())
    assert made == []
    assert drawn.get(2) == (Perturbation(2, 0, "reschedule"),)
    assert made == [1, 2]
    assert drawn.get(1) == (Perturbation(1, 0, "reschedule"),)
    assert made == [1, 2]
    assert drawn.get(6) is None
    assert drawn.count() == 5


def test_schedules_have_one_number_each() -> None:
    drawn = Drawn((Perturbation(n, 0, "reschedule"),) for n in range(1, 2001))
    wrong: list[int] = []

    def take(first: int) -> None:
        for number in range(first, 2001, 4):
            found = drawn.get(number)
            if found is None or found[0] != Perturbation(number, 0, "reschedule"):
                wrong.append(number)

    threads = [threading.Thread(target=take, args=(first,)) for first in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


STALLED = Thread(number=1, pc=0x10)


def test_what_the_stalled_instruction_met() -> None:
    """It may come again, after others have done more; and it may have been there before."""
    first = pair(write(2, 300), write(1, 400))
    pairs = [
        pair(write(2, 500), write(1, 600)),
        pair(write(2, 200), write(1, 400)),
        pair(write(2, 290), write(1, 400)),
        first,
        pair(read(2, 310), write(1, 400)),
        pair(write(2, 320), write(1, 330, pc=0x20)),
        pair(write(2, 320), write(3, 330)),
    ]
    assert met(pairs, STALLED, 250) is first
    assert met(pairs, STALLED, 700) is None


def test_what_was_read_before_is_the_same_memory() -> None:
    """Members beside one another are in one word of memory, and are two things."""
    after = pair(write(2, 300, size=4), write(1, 400, size=4), address=0x4004)
    beside = pair(read(1, 110, size=4), write(2, 290, size=4), address=0x4000)
    same = pair(read(1, 100, size=4), write(2, 300, size=4), address=0x4004)
    assert read_before([beside], after, STALLED, 250) is None
    assert read_before([beside, same], after, STALLED, 250) is same.a
