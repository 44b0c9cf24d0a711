"""Things of several kinds, one after the other."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def round_robin(sources: Iterable[Iterable[T]]) -> Iterator[T]:
    """One of each of *sources* by turns, until all are used up; asked when it has its turn."""
    waiting = deque(iter(source) for source in sources)
    while waiting:
        source = waiting.popleft()
        try:
            thing = next(source)
        except StopIteration:
            continue
        waiting.append(source)
        yield thing
