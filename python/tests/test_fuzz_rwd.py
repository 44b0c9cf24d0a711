"""Some seconds of fuzz_rwd.py, the same cases every time."""

from fuzz_rwd import fuzz


def test_some_cases() -> None:
    cases, taken = fuzz(1, lambda number: number >= 400)
    # Enough are refused, and enough are read.
    assert cases == 400 and 40 < taken < 360
