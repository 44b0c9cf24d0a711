"""The keyframes of one run: machines start from the last one before where they begin to differ.

The first ones are taken while the run is made, at most every `SPACING` of the host's time: they
decide how long a fork takes, and never what it does. Where many schedules begin near to one
another, one more is taken right before the first of them (`Keyframes.before`).
"""

import bisect
import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

from rewind.analysis.calls import Calls
from rewind.formats.schedule import NamedPerturbation, Position, Schedule
from rewind.recorder.request import RunRequest
from rewind.search import machines
from rewind.search.machines import Ended, Keyframe, Stopped
from rewind.search.tape import Tape

BUDGET = 1 << 30
"""Bytes of memory that keyframes take; over it, those are dropped that save least."""

STOP_EVERY = 10_000_000
"""ns of guest time between the first stops at which a keyframe can be taken."""
STOPS_EVENLY = 100
STOPS_GROWTH = 1.1
STOPS_END = 100 * 3600 * 1_000_000_000

NEAR = 2_000_000
"""ns of guest time; schedules that begin closer to one another share a keyframe."""
WORTH = 4_000_000
"""ns of guest time that a keyframe must save."""


def stops() -> list[Position]:
    """Where a run is stopped: every `STOP_EVERY` ns of guest time, later less often."""
    found, at, gap = [], 0, float(STOP_EVERY)
    while at < STOPS_END:
        at += int(gap)
        found.append(Position(0, at))
        if len(found) >= STOPS_EVENLY:
            gap *= STOPS_GROWTH
    return found


class Keyframes:
    """The keyframes of a run; a context manager that frees them."""

    def __init__(self, request: RunRequest, schedule: Schedule) -> None:
        self._request = request
        self._schedule = schedule
        self._kept: list[Keyframe] = []
        self._users: dict[int, int] = {}
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self.tape = Tape()
        """The run."""
        self._times: Sequence[int] = ()
        self._calls: Calls | None = None
        self.known: Mapping[NamedPerturbation, Position | None] = {}
        """Where what of the run's schedule came that is at named positions."""
        self.starts: Sequence[int] = ()
        """The steps at which schedules will begin, in order."""

    def use(self, request: RunRequest, run: Ended) -> None:
        """The run is over, and is *run*; its forks are made as *request* says."""
        self._request = request
        self.tape = run.tape
        self._times = run.tape.times()
        self._calls = None
        self.known = {
            one: at
            for one, at in zip(run.schedule, run.came, strict=True)
            if isinstance(one, NamedPerturbation)
        }

    def first(self, schedule: Schedule) -> int:
        """A step before which nothing of *schedule* comes in a run that it perturbs.

        So `before` it is a keyframe to begin with. What can't come is taken for the run's end.
        """
        if self._calls is None and any(isinstance(one, NamedPerturbation) for one in schedule):
            self._calls = Calls.of(self.tape.frames())
        found = (self._calls or Calls()).first(schedule)
        return self.tape.steps if found is None else found

    def add(self, keyframe: Keyframe) -> None:
        """Keep *keyframe*."""
        with self._lock:
            at = bisect.bisect(self._kept, keyframe.steps, key=lambda kept: kept.steps)
            self._kept.insert(at, keyframe)
            while sum(kept.size for kept in self._kept) > BUDGET and self._drop(keyframe):
                pass

    def replace_last(self, keyframe: Keyframe) -> None:
        """Keep *keyframe* instead of the last one, before which nobody will begin."""
        with self._lock:
            if self._kept:
                self._kept.pop().close()
        self.add(keyframe)

    @property
    def size(self) -> int:
        """Bytes of memory that they take."""
        return sum(kept.size for kept in self._kept)

    @contextlib.contextmanager
    def before(self, step: int) -> Iterator[Keyframe | None]:
        """The last keyframe before *step*, for a fork that lives as long as the ``with``.

        It may be taken for that, if other schedules will have a use for it.
        """
        found = self._get(step)
        try:
            start = self._start(step)
            if start is not None and self._worth(found, start):
                self._put(found)
                # One is made at a time, and who waited looks again.
                with self._making:
                    found = self._get(step)
                    if self._worth(found, start):
                        made = self._make(found, start)
                        self._put(found)
                        found = made
            yield found
        finally:
            self._put(found)

    def at(self, step: int) -> None:
        """Take a keyframe right before *step*, whatever that saves."""
        with self._making:
            found = self._get(step)
            if found is None or found.steps < step:
                made = self._make(found, step)
                self._put(made)
            self._put(found)

    def close(self) -> None:
        """Free all."""
        with self._lock:
            for keyframe in self._kept:
                keyframe.close()
            self._kept.clear()

    def __enter__(self) -> "Keyframes":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _get(self, step: int) -> Keyframe | None:
        with self._lock:
            at = bisect.bisect(self._kept, step, key=lambda kept: kept.steps)
            if not at:
                return None
            found = self._kept[at - 1]
            self._users[id(found)] = self._users.get(id(found), 0) + 1
            return found

    def _put(self, keyframe: Keyframe | None) -> None:
        if keyframe is None:
            return
        with self._lock:
            self._users[id(keyframe)] -= 1
            if not self._users[id(keyframe)]:
                del self._users[id(keyframe)]

    def _start(self, step: int) -> int | None:
        """Where a keyframe for schedules that begin around *step* would be best."""
        first = bisect.bisect_left(self.starts, step)
        if first == len(self.starts):
            return None
        while first and self._time(self.starts[first]) - self._time(self.starts[first - 1]) < NEAR:
            first -= 1
        last = bisect.bisect(self.starts, step)
        while (
            0 < last < len(self.starts)
            and self._time(self.starts[last]) - self._time(self.starts[last - 1]) < NEAR
        ):
            last += 1
        return self.starts[first] if last - first > 1 else None

    def _time(self, step: int) -> int:
        return self._times[min(step, len(self._times) - 1)]

    def _worth(self, keyframe: Keyframe | None, start: int) -> bool:
        at = self._time(keyframe.steps) if keyframe else self._times[0]
        return self._time(start) - at > WORTH

    def _make(self, base: Keyframe | None, step: int) -> Keyframe | None:
        """A keyframe of which *step* is the next record, from *base*."""
        if step < 2:
            return None
        made: list[Keyframe] = []

        def take(stopped: Stopped) -> bool:
            made.append(stopped.keyframe(last=True))
            return False

        # At a step, not at a time: its offsets count from that step then.
        machines.run(
            self._request,
            self._schedule,
            stops=[Position(step - 1)],
            keyframe=base,
            own_memory=True,
            on_stop=take,
            known=self.known,
        )
        if not made:
            return None
        with self._lock:
            self._users[id(made[0])] = 1
        self.add(made[0])
        return made[0]

    def _drop(self, newest: Keyframe) -> bool:
        """Free the keyframe without which the others have the least to do in its place."""
        free = [
            number
            for number, kept in enumerate(self._kept)
            if id(kept) not in self._users and kept is not newest
        ]
        if not free:
            return False

        def gap(number: int) -> int:
            before = self._kept[number - 1].steps if number else 0
            last = number + 1 == len(self._kept)
            after = self.tape.steps if last else self._kept[number + 1].steps
            return after - before

        self._kept.pop(min(free, key=gap)).close()
        return True
