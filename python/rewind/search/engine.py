"""A search: the unperturbed run, schedules, and the position that decides (docs/search.md)."""

import bisect
import functools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import attrs

from rewind.analysis.objects import Objects
from rewind.formats.schedule import Named, NamedPerturbation, Schedule, ordered
from rewind.formats.trace import Frame, decode
from rewind.inspect import InspectError
from rewind.recorder.request import RunRequest
from rewind.replay.races import RacesError
from rewind.search import SearchError, machines, objects
from rewind.search.conflicts import Conflicts, analysis, candidates
from rewind.search.generate import STRATEGIES, TOGETHER, Candidates, Known
from rewind.search.keyframes import Keyframes, stops
from rewind.search.machines import Cancelled, Ended, Stopped
from rewind.search.places import Places, Thread
from rewind.search.positions import Positions, Stretch
from rewind.search.reduce import Reduced, Reducer, Verdict
from rewind.search.report import Analysis, Deciding, Explanation, Odds, Tried, Waiting

TIME_FACTOR = 10
"""A schedule has so many times the guest time of the unperturbed run,"""
TIME_MIN = 60
"""and at least so many seconds."""

SPACING = 0.3
"""Seconds that QEMU works between keyframes of the unperturbed run: each costs some 0.03."""


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
    strategy: str = "directed"
    """One of `rewind.search.generate.STRATEGIES`."""
    shard: int = 0
    shards: int = 1
    """Of every *shards* schedules only number *shard* is run."""


@attrs.frozen
class Found:
    """What a search came to."""

    baseline: Ended
    limit: int
    """Seconds of guest time that each schedule had."""
    stretches: int
    """How many there were to perturb the run in."""
    tried: tuple[Tried, ...]
    """In order; up to the first that changed the outcome, or all."""
    drawn: int
    """How many schedules there were to be run: fewer than were asked for if there are no more."""
    cut_short: bool
    """The time was up."""
    reduced: Reduced | None
    deciding: Deciding | None
    analysis: Analysis | None
    explanation: Explanation | None
    odds: tuple[Odds, ...]
    waiting: tuple[Waiting, ...]
    """The threads that waited, if the run that failed did in a hang."""

    @property
    def failing(self) -> Ended | None:
        """Of the two runs that the position decides, the one that is called the failure."""
        if self.reduced is None:
            return None
        return (
            self.reduced.changed_run
            if self.baseline.outcome.success
            else self.reduced.unchanged_run
        )

    @property
    def passing(self) -> Ended | None:
        """The other one."""
        if self.reduced is None:
            return None
        return (
            self.reduced.unchanged_run
            if self.baseline.outcome.success
            else self.reduced.changed_run
        )


Told = Callable[[Tried], None]
"""Called, from any thread, with a schedule that was run, in no particular order."""


def tried(number: int, schedule: Schedule, run: Ended, *, changed: bool) -> Tried:
    """What a report has of *run*."""
    return Tried(
        number=number,
        schedule=schedule,
        outcome=run.outcome,
        outputs=run.outputs,
        steps=run.steps,
        guest_time=run.guest_time,
        trace=run.tape.digest(),
        changed=changed,
    )


def odds(known: Known, schedules: Iterable[Schedule]) -> tuple[Odds, ...]:
    """What PCT says of those of *schedules* that are its own."""
    counts = Counter(known.depths[one] for one in schedules if one in known.depths)
    return tuple(
        Odds(
            depth=depth,
            schedules=number,
            threads=len(known.plan.tasks),
            points=len(known.plan.points),
            length=known.plan.length,
        )
        for depth, number in sorted(counts.items())
    )


class Drawn:
    """Schedules by number, from 1 on: made as they are asked for, each once, by any thread."""

    def __init__(self, source: Iterator[Schedule]) -> None:
        self._source = source
        self._found: list[Schedule] = []
        self._lock = threading.Lock()

    def get(self, number: int) -> Schedule | None:
        """Schedule *number*; None if there are not so many."""
        with self._lock:
            self._found += islice(self._source, max(number - len(self._found), 0))
            return self._found[number - 1] if number <= len(self._found) else None

    def count(self) -> int:
        """How many there are."""
        with self._lock:
            self._found += self._source
            return len(self._found)


class Clockwork:
    """How long a search has left of the host's time."""

    was_up = False
    """Whether somebody was told that it is."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def up(self) -> bool:
        """Whether the time is up."""
        self.was_up |= self._end is not None and time.monotonic() >= self._end
        return self.was_up


class Search:
    """A search for a schedule under which *request*'s job ends otherwise.

    :param request: the unperturbed run; its schedule is part of every run of the search.
    :param places: tells positions in words of the source.
    :param conflicts: finds conflicting accesses, if the strategy asks for them.
    :param jobs: how many machines run side by side.
    :param told: called with each schedule that was run.
    :param seconds: of the host's time, that looking for a schedule may take.
    """

    def __init__(
        self,
        request: RunRequest,
        bounds: Bounds,
        places: Places,
        conflicts: Conflicts,
        *,
        jobs: int,
        told: Told = lambda tried: None,
        seconds: float | None = None,
    ) -> None:
        if request.snapshot is None:
            raise SearchError("a search needs a boot snapshot")
        self._request = request
        self._bounds = bounds
        self._places = places
        self._conflicts = conflicts
        self._analysis: Analysis | None = None
        self._jobs = jobs
        self._told = told
        self._clock = Clockwork(seconds)
        self._stop = threading.Event()

    def run(self, *, before: Sequence[Tried] = (), reduce: bool = True) -> Found:
        """Search.

        :param before: what was tried elsewhere: none of these schedules is run, but for the first
            that changed the outcome.
        :param reduce: look for the position that decides.
        :raises SearchError: if it cannot be made as it was asked for.
        :raises MachineError: if a machine fails.
        """
        fixed = self._request.schedule
        with Keyframes(self._request, fixed) as keyframes:
            baseline, stretches = self._baseline(keyframes)
            if self._bounds.first >= baseline.steps:
                raise SearchError(
                    f"the run has {baseline.steps:,} steps: "
                    f"there is no step {self._bounds.first:,} to search from"
                )
            seconds = -(-baseline.guest_time // 1_000_000_000)
            limit = max(TIME_MIN, TIME_FACTOR * seconds)
            if baseline.outcome.kind == "timed-out":
                # With more time it would be another run, and not because of a schedule.
                limit = self._request.time_limit
            self._request = attrs.evolve(self._request, time_limit=limit)
            keyframes.use(self._request, baseline)
            unperturbed = tried(0, (), baseline, changed=False)
            self._told(unperturbed)

            known = Known(
                stretches,
                baseline.tape.digest(),
                lambda: self._candidates(baseline, keyframes),
                lambda leading: self._conflicts.names(self._request, fixed, leading, keyframes),
                lambda first: self._following(first, keyframes),
            )
            generator = STRATEGIES[self._bounds.strategy](known)
            schedules = Drawn(islice(generator, self._bounds.schedules))
            if before:
                entries = {one.number: one for one in before if one.number}
                first: tuple[Tried, Ended] | None = None
            else:
                entries, first = self._try(schedules, baseline, keyframes)
            number = min((one.number for one in entries.values() if one.changed), default=None)
            if number is not None and not self._bounds.every:
                entries = {n: one for n, one in entries.items() if n <= number}
            if number is not None and not self._bounds.every:
                drawn = number
            elif self._clock.was_up:
                drawn = self._bounds.schedules
            else:
                drawn = schedules.count()
            cut_short = len(entries) < sum(map(self._mine, range(1, drawn + 1)))

            reduced: Reduced | None = None
            deciding: Deciding | None = None
            explanation: Explanation | None = None
            waiting: tuple[Waiting, ...] = ()
            if number is not None and reduce:
                if first is None:
                    run = self._fork(entries[number].schedule, keyframes, lambda: False)
                    first = entries[number], run
                reduced = self._reduce(*first, baseline, keyframes)
                deciding, thread = self._places.deciding(
                    reduced.changed, fixed, reduced.changed_run, keyframes
                )
                if thread is not None:
                    explanation = self._explain(reduced, thread, keyframes)
                failed, schedule = reduced.changed_run, reduced.changed
                if failed.outcome.success and not baseline.outcome.success:
                    failed, schedule = reduced.unchanged_run, reduced.unchanged
                full = ordered((*fixed, *schedule))
                waiting = self._places.waiting(full, failed, keyframes)
        return Found(
            baseline,
            limit,
            len(stretches),
            (unperturbed, *(entries[n] for n in sorted(entries))),
            drawn,
            cut_short,
            reduced,
            deciding,
            self._analysis,
            explanation,
            odds(known, [one for n in entries if (one := schedules.get(n)) is not None]),
            waiting,
        )

    def changed(self, run: Ended, baseline: Ended) -> bool:
        """Whether *run* ended otherwise than *baseline*; well, if *baseline* did not."""
        if not baseline.outcome.success:
            return run.outcome.success
        ignore = self._bounds.ignore_outputs
        return run.says(ignore_outputs=ignore) != baseline.says(ignore_outputs=ignore)

    def _mine(self, number: int) -> bool:
        return (number - 1) % self._bounds.shards == self._bounds.shard

    def _candidates(self, baseline: Ended, keyframes: Keyframes) -> Candidates:
        """What conflicting accesses of the unperturbed run suggest."""
        fixed = self._request.schedule
        records = baseline.tape.records(baseline.end.start, select=Objects.wants)
        others = Candidates(objects=objects.positions(objects.find(records).pairs))
        taken = {p.step for p in baseline.by_steps}
        try:
            found = self._conflicts.find(self._request, fixed, baseline, keyframes)
        except (RacesError, InspectError) as error:
            # There are other generators; the report has the error.
            self._analysis = Analysis(
                inverted=0, unordered=0, atomics=0, incomplete=True, error=str(error)
            )
            return others.usable(self._bounds.first, taken)
        self._analysis = analysis(found)
        memory = candidates(found, baseline.tape)
        return attrs.evolve(memory, objects=others.objects).usable(self._bounds.first, taken)

    def _following(self, first: NamedPerturbation, keyframes: Keyframes) -> Sequence[Named]:
        """What conflicting accesses of the run that *first* perturbs suggest."""
        run = self._fork((first,), keyframes, lambda: False)
        schedule = ordered((*self._request.schedule, first))
        try:
            found = self._conflicts.find(self._request, schedule, run, keyframes)
        except (RacesError, InspectError):
            # As it was for the unperturbed run, which the report has.
            return ()
        taken = {p.step for p in run.by_steps}
        usable = candidates(found, run.tape).usable(self._bounds.first, taken)
        return self._conflicts.names(self._request, schedule, usable.leading(TOGETHER), keyframes)

    def _explain(
        self, reduced: Reduced, thread: Thread, keyframes: Keyframes
    ) -> Explanation | None:
        schedule = ordered((*self._request.schedule, *reduced.changed))
        try:
            return self._conflicts.explain(
                self._request,
                schedule,
                reduced.changed_run,
                reduced.position,
                thread,
                keyframes,
            )
        except (RacesError, InspectError):
            # What can't be looked at has been said where candidates were looked for.
            return None

    def _baseline(self, keyframes: Keyframes) -> tuple[Ended, Sequence[Stretch]]:
        """The unperturbed run, with keyframes; and where it can be perturbed."""
        positions = Positions(self._bounds.first)
        last, useful = 0.0, 0

        def on_frame(frame: Frame) -> None:
            positions.feed(decode(frame))

        def on_stop(stopped: Stopped) -> bool:
            nonlocal last, useful
            # Once the job is over, init sends what it made: a fork would send the rest alone.
            work = stopped.machine.cpu_time() / os.sysconf("SC_CLK_TCK")
            if work - last >= SPACING and 1 in positions.tasks.alive:
                if len(positions.found) > useful:
                    keyframes.add(stopped.keyframe())
                else:
                    keyframes.replace_last(stopped.keyframe())
                useful = len(positions.found)
                last = work
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
        fixed = {p.step for p in ended.by_steps}
        found = [s for s in positions.finish() if s.step not in fixed]
        return ended, found

    def _try(
        self, schedules: Drawn, baseline: Ended, keyframes: Keyframes
    ) -> tuple[dict[int, Tried], tuple[Tried, Ended] | None]:
        """Run the schedules, side by side; and the first that changes the outcome, if one does."""
        todo = filter(self._mine, count(1))
        starts: list[int] = []
        lock = threading.Lock()
        done: dict[int, Tried] = {}
        first: tuple[Tried, Ended] | None = None

        def enough(number: int) -> bool:
            """Whether nobody wants to know of schedule *number* any more."""
            if self._stop.is_set() or self._clock.up():
                return True
            return first is not None and number > first[0].number and not self._bounds.every

        def work() -> None:
            nonlocal first
            while True:
                with lock:
                    number = next(todo)
                if enough(number):
                    return
                try:
                    schedule = schedules.get(number)
                    if schedule is None:
                        return
                    with lock:
                        bisect.insort(starts, keyframes.first(schedule))
                        keyframes.starts = tuple(starts)
                    run = self._fork(schedule, keyframes, functools.partial(enough, number))
                except Cancelled:
                    return
                except BaseException:
                    self._stop.set()
                    raise
                entry = tried(number, schedule, run, changed=self.changed(run, baseline))
                with lock:
                    done[number] = entry
                    if entry.changed and (first is None or number < first[0].number):
                        first = entry, run
                self._told(entry)

        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                for future in [pool.submit(work) for _ in range(self._jobs)]:
                    future.result()
            except BaseException:
                # The others are waited for, and need not go on.
                self._stop.set()
                raise
        return done, first

    def _fork(
        self, schedule: Schedule, keyframes: Keyframes, cancelled: Callable[[], bool]
    ) -> Ended:
        full = ordered((*self._request.schedule, *schedule))
        with keyframes.before(keyframes.first(schedule)) as keyframe:
            ended = machines.run(
                self._request, full, keyframe=keyframe, cancelled=cancelled, known=keyframes.known
            )
        assert ended is not None
        return ended

    def _reduce(self, first: Tried, run: Ended, baseline: Ended, keyframes: Keyframes) -> Reduced:
        with ThreadPoolExecutor(self._jobs) as pool:

            def batch(things: Sequence[Callable[[], Verdict]]) -> list[Verdict]:
                return [future.result() for future in [pool.submit(thing) for thing in things]]

            reducer = Reducer(
                self._request,
                self._request.schedule,
                baseline,
                lambda run: self.changed(run, baseline),
                batch,
                keyframes,
            )
            return reducer.reduce(first.schedule, run)
