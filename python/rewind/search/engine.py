"""A search: the unperturbed run, then schedules, then the position that decides (docs/search.md)."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import attrs

from rewind.formats.schedule import Schedule
from rewind.formats.trace import Frame, decode
from rewind.machine import MachineError
from rewind.recorder.request import RunRequest
from rewind.search import SearchError, machines
from rewind.search.generate import STRATEGIES
from rewind.search.keyframes import Keyframes, stops
from rewind.search.machines import Cancelled, Ended, Stopped
from rewind.search.positions import Positions, Stretch
from rewind.search.reduce import Reduced, Reducer

TIME_FACTOR = 10
"""A schedule has so many times the guest time of the unperturbed run,"""
TIME_MIN = 60
"""and at least so many seconds."""

SPACING = 0.2
"""Seconds of the host's time between keyframes of the unperturbed run: each costs some 0.03."""


@attrs.frozen(kw_only=True)
class Bounds:
    """What a search is to look at."""

    schedules: int = 64
    """How many schedules besides the unperturbed one."""
    first: int = 0
    """The first step at which a perturbation may be."""
    every: bool = False
    """Go on after the first schedule that changes the outcome."""
    ignore_outputs: bool = False
    """An outcome is how the job ends, whatever it made."""
    strategy: str = "chance"
    shard: int = 0
    shards: int = 1
    """Of every *shards* schedules only number *shard* is run."""


@attrs.frozen
class Tried:
    """A schedule that was run."""

    number: int
    """0 is the unperturbed run."""
    schedule: Schedule
    run: Ended = attrs.field(repr=False)
    changed: bool
    """Whether its outcome is another than the unperturbed run's, or if that failed, a success."""


@attrs.frozen
class Found:
    """What a search came to."""

    baseline: Ended
    time_limit: int
    """Seconds of guest time that each schedule had."""
    stretches: Sequence[Stretch]
    tried: Sequence[Tried]
    """In order; up to the first that changed the outcome, or all."""
    drawn: int
    """How many schedules there were to be run: fewer than were asked for if there are no more."""
    reduced: Reduced | None
    cut_short: bool
    """The time was up."""


Told = Callable[[Tried], None]
"""Called, from any thread, with a schedule that was run, in no particular order."""


class Clockwork:
    """How long a search has left of the host's time."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def up(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and time.monotonic() >= self._end


class Search:
    """A search for a schedule under which *request*'s job ends otherwise.

    :param request: the unperturbed run; its schedule is part of every run of the search.
    :param jobs: how many machines run side by side.
    :param told: called with each schedule that was run.
    :param seconds: of the host's time, that looking for a schedule may take.
    """

    def __init__(
        self,
        request: RunRequest,
        bounds: Bounds,
        *,
        jobs: int,
        told: Told = lambda tried: None,
        seconds: float | None = None,
    ) -> None:
        if request.snapshot is None:
            raise SearchError("a search needs a boot snapshot")
        self._request = request
        self._bounds = bounds
        self._jobs = jobs
        self._told = told
        self._clock = Clockwork(seconds)
        self._stop = threading.Event()

    def run(self) -> Found:
        """Search.

        :raises SearchError: if it cannot be made as it was asked for.
        :raises MachineError: if a machine fails.
        """
        with Keyframes(self._request, self._request.schedule) as keyframes:
            baseline, stretches = self._baseline(keyframes)
            if self._bounds.first >= baseline.steps and self._bounds.first:
                raise SearchError(
                    f"the run has {baseline.steps:,} steps: "
                    f"there is no step {self._bounds.first:,} to search from"
                )
            seconds = -(-(baseline.end.time - baseline.end.start) // 1_000_000_000)
            limit = max(TIME_MIN, TIME_FACTOR * seconds)
            self._request = attrs.evolve(self._request, time_limit=limit)
            keyframes.use(self._request, baseline.tape)
            self._told(Tried(0, (), baseline, False))
            schedules = list(self._schedules(stretches, baseline))
            keyframes.starts = sorted(
                schedule[0].step for number, schedule in schedules if self._mine(number)
            )
            tried = self._try(schedules, baseline, keyframes)
            first = next((one for one in tried if one.changed), None)
            reduced = None
            if first is not None:
                reduced = self._reduce(first, baseline, keyframes)
        return Found(
            baseline,
            limit,
            stretches,
            (Tried(0, (), baseline, False), *tried),
            len(schedules),
            reduced,
            self._clock.up() and first is None and len(tried) < len(schedules),
        )

    def changed(self, run: Ended, baseline: Ended) -> bool:
        """Whether *run* ended otherwise than *baseline*; well, if *baseline* did not."""
        if not baseline.outcome.success:
            return run.outcome.success
        ignore = self._bounds.ignore_outputs
        return run.says(ignore_outputs=ignore) != baseline.says(ignore_outputs=ignore)

    def _mine(self, number: int) -> bool:
        return (number - 1) % self._bounds.shards == self._bounds.shard

    def _schedules(
        self, stretches: Sequence[Stretch], baseline: Ended
    ) -> Iterator[tuple[int, Schedule]]:
        generator = STRATEGIES[self._bounds.strategy](stretches, baseline.tape.digest())
        return enumerate(islice(generator, self._bounds.schedules), 1)

    def _baseline(self, keyframes: Keyframes) -> tuple[Ended, Sequence[Stretch]]:
        """The unperturbed run, with keyframes; and where it can be perturbed."""
        positions = Positions(self._bounds.first)
        last, useful = time.monotonic(), 0

        def on_frame(frame: Frame) -> None:
            positions.feed(decode(frame))

        def on_stop(stopped: Stopped) -> bool:
            nonlocal last, useful
            # Once the job is over, init sends what it made: a fork would send the rest alone.
            if time.monotonic() - last >= SPACING and 1 in positions.tasks.alive:
                if len(positions.found) > useful:
                    keyframes.add(stopped.keyframe())
                else:
                    keyframes.replace_last(stopped.keyframe())
                useful = len(positions.found)
                last = time.monotonic()
            return True

        ended = machines.run(
            self._request,
            self._request.schedule,
            stops=stops(),
            own_memory=True,
            on_stop=on_stop,
            on_frame=on_frame,
        )
        assert ended is not None
        fixed = {p.step for p in self._request.schedule}
        found = [s for s in positions.finish() if s.step not in fixed]
        return ended, found

    def _try(
        self, schedules: Sequence[tuple[int, Schedule]], baseline: Ended, keyframes: Keyframes
    ) -> list[Tried]:
        """Run the schedules, side by side; those up to the first that changes the outcome."""
        todo = iter([entry for entry in schedules if self._mine(entry[0])])
        lock = threading.Lock()
        done: dict[int, Tried] = {}
        enough = float("inf")

        def work() -> None:
            nonlocal enough
            while True:
                with lock:
                    entry = next(todo, None)
                if entry is None or self._stop.is_set():
                    return
                number, schedule = entry

                def cancelled(number: int = number) -> bool:
                    return self._stop.is_set() or number > enough or self._clock.up()

                if cancelled():
                    return
                try:
                    ended = self._fork(schedule, keyframes, cancelled)
                except Cancelled:
                    return
                except BaseException:
                    self._stop.set()
                    raise
                tried = Tried(number, schedule, ended, self.changed(ended, baseline))
                with lock:
                    done[number] = tried
                    if tried.changed and not self._bounds.every:
                        enough = min(enough, number)
                self._told(tried)

        with ThreadPoolExecutor(self._jobs) as pool:
            for future in [pool.submit(work) for _ in range(self._jobs)]:
                future.result()
        return [done[number] for number in sorted(done) if number <= enough]

    def _fork(
        self, schedule: Schedule, keyframes: Keyframes, cancelled: Callable[[], bool]
    ) -> Ended:
        full = tuple(sorted((*self._request.schedule, *schedule)))
        with keyframes.before(schedule[0].step) as keyframe:
            ended = machines.run(
                self._request, full, keyframe=keyframe, before=keyframes.tape, cancelled=cancelled
            )
        assert ended is not None
        return ended

    def _reduce(self, first: Tried, baseline: Ended, keyframes: Keyframes) -> Reduced:
        with ThreadPoolExecutor(self._jobs) as pool:

            def batch(things: Sequence[Callable[[], bool]]) -> list[bool]:
                return [future.result() for future in [pool.submit(thing) for thing in things]]

            reducer = Reducer(
                self._request,
                self._request.schedule,
                baseline,
                lambda run: self.changed(run, baseline),
                batch,
                keyframes,
                self._jobs,
            )
            return reducer.reduce(first.schedule, first.run)


__all__ = ["Bounds", "Found", "MachineError", "Search", "Tried"]
