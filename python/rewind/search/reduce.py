"""From a schedule that changes the outcome to the position that decides it.

First perturbations are left out, as long as the outcome stays changed. Then the last one is moved
to the last position at which it still changes the outcome: one instruction later it does not.
Between its own position and the end of the run without it there is such a pair, because it
changes the outcome at the first and not at the last; halving finds one. (Not the only one: a
program can have several windows.)

It is moved through the time in which the thread has the CPU that it met. In between it would meet
others, or nobody: in the midst of a thread's window there can be time in which it changes nothing.
(So it is in a turn's last instructions, in which the kernel takes no interrupt until the next
thread has the CPU: what counts there is the thread's next turn.) Only if that does not lead to such
a pair is it moved through all of the time.

Most runs of the halving need not come to their end: what differs in the outcome showed early, in
how some process ended. There a run is stopped and asked. That is a guess, which decides only where
to look next: the two runs that come of it are made to their ends, and if they are not what was
guessed, all is done again without guessing.
"""

import bisect
import copy
import functools
from collections.abc import Callable, Sequence

import attrs

from rewind.analysis.tasks import Tasks
from rewind.formats.schedule import (
    Perturbation,
    Position,
    Schedule,
    Steps,
    ordered,
    resolved,
)
from rewind.formats.trace import (
    EXEC,
    FORK,
    PERTURBED,
    SWITCH,
    TASK_END,
    Perturbed,
    Record,
    Switch,
    TaskEnd,
)
from rewind.machine import MachineError
from rewind.recorder.request import RunRequest
from rewind.search import machines
from rewind.search.keyframes import Keyframes
from rewind.search.machines import Ended, Keyframe, Stopped
from rewind.search.tape import Tape

WIDTH = 2
"""So many positions are tried side by side, whatever the machine: what is found depends on it."""

ASKED = (1.05, 1.3, 2.0, 4.0, 8.0)
"""When a run is asked: after so many times the time that the others took until it showed. What
comes after that is code which a fork would have to translate first, the most of its work."""
ASKED_LATER = 20_000
"""ns of guest time more: a perturbation costs some itself."""

Changed = Callable[[Ended], bool]
"""Whether an outcome is another than that of the run which the search began with."""

Verdict = bool | None
"""Whether the outcome changed; None if the perturbation did not meet the thread it was to meet."""

Batch = Callable[[Sequence[Callable[[], Verdict]]], list[Verdict]]
"""Does some things side by side."""


@attrs.frozen
class Reduced:
    """The end of a reduction."""

    changed: Steps
    """Changes the outcome by its last perturbation."""
    unchanged: Steps
    """The same, with the last perturbation one instruction later."""
    changed_run: Ended
    unchanged_run: Ended
    position: Position
    """Where the last perturbation of *changed* is."""
    runs: int
    """How many runs it took."""


@attrs.frozen
class _Witness:
    """A process whose end tells how a run will end."""

    program: str
    number: int
    """How many processes of that program had ended before."""
    changed: int | None
    unchanged: int | None
    """How it ended, as wait(2) has it; None: it did not."""
    wait: int
    """ns from the perturbation to its end, at most."""


@attrs.frozen
class _Span:
    """Some of a run's time, counted from 0 on as if it were in one piece."""

    parts: tuple[tuple[int, int], ...]
    """Begin and end of each piece, in ns since the machine started."""
    tid: int | None = None
    """The thread that has the CPU in it, and nobody else matters; None if anybody does."""

    @property
    def length(self) -> int:
        return sum(end - begin for begin, end in self.parts)

    def time(self, point: int) -> int:
        """When that is, in the run's time."""
        for begin, end in self.parts:
            if point < end - begin:
                return begin + point
            point -= end - begin
        return self.parts[-1][1]

    def point(self, time: int) -> int:
        """How much of it there is before *time*."""
        return sum(min(max(time - begin, 0), end - begin) for begin, end in self.parts)

    def piece_after(self, point: int) -> int | None:
        """Where the first piece begins that does so after *point*."""
        starts = (self.point(begin) for begin, _ in self.parts)
        return next((start for start in starts if start > point), None)


def by_steps(schedule: Schedule, run: Ended) -> Steps:
    """What of *schedule* came in *run*, which it perturbed, all by steps."""
    came = dict(zip(run.schedule, run.came, strict=True))
    return resolved(
        schedule,
        tuple(one.position if isinstance(one, Perturbation) else came[one] for one in schedule),
    )


def _turns(run: Ended, begin: int) -> _Span | None:
    """From *begin* on, when the thread has the CPU that has it then; None if none of the job's."""
    holder: int | None = None
    turn: int | None = begin
    parts = []
    for record in run.tape.records(0, select=lambda kind, aux: kind == SWITCH):
        assert isinstance(record, Switch)
        if record.time <= begin:
            holder = record.next_tid
            continue
        if holder is None:
            holder = record.tid
        if turn is not None:
            parts.append((turn, record.time))
            turn = None
        if record.next_tid == holder:
            turn = record.time
    if turn is not None:
        parts.append((turn, run.end.time))
    return _Span(tuple(parts), holder) if holder else None


def _met(tape: Tape, position: Position, time: int) -> int:
    """Whom a perturbation at *position*, at *time*, has met: the thread, or 0 for nobody."""
    wanted = tape.records(0, position.step, select=lambda kind, aux: kind == PERTURBED)
    for record in wanted:
        assert isinstance(record, Perturbed)
        if record.time >= time:
            return 0 if record.nothing else record.tid
    return 0


class _Ends:
    """How the processes of a run end, in order, by program."""

    def __init__(self) -> None:
        self._tasks = Tasks()
        self.found: dict[tuple[str, int], tuple[int, int]] = {}
        """Status, and time, of the n-th process of a program."""
        self._counts: dict[str, int] = {}

    def feed(self, record: Record) -> None:
        if isinstance(record, TaskEnd) and record.last:
            task = self._tasks.alive.get(record.tid)
            name = "\0".join(task.arguments) or task.program if task else ""
            number = self._counts.get(name, 0)
            self._counts[name] = number + 1
            self.found[name, number] = (record.code, record.time)
        self._tasks.feed(record)

    @staticmethod
    def wanted(kind: int, aux: int) -> bool:
        return kind in (FORK, EXEC, TASK_END)

    def copy(self) -> "_Ends":
        return copy.deepcopy(self)


def _ends(tape: Tape, start: int) -> _Ends:
    ends = _Ends()
    for record in tape.records(start, select=_Ends.wanted):
        ends.feed(record)
    return ends


class Reducer:
    """Reduces one schedule.

    :param baseline: the run without any perturbation of the search.
    :param fixed: perturbations that every run has.
    """

    def __init__(
        self,
        request: RunRequest,
        fixed: Schedule,
        baseline: Ended,
        changed: Changed,
        batch: Batch,
        keyframes: Keyframes,
    ) -> None:
        self._request = request
        self._fixed = fixed
        self._baseline = baseline
        self._changed = changed
        self._batch = batch
        self._keyframes = keyframes
        self.runs = 0
        self._last_known: tuple[tuple[int, int], _Ends] | None = None

    def reduce(self, schedule: Schedule, run: Ended) -> Reduced:
        """Reduce *schedule*, which gave *run*.

        :raises MachineError: if a machine fails.
        """
        schedule, run = self._fewest(schedule, run)
        # What was left out moves no named position, but others' steps: from here on none is.
        *others, last = by_steps(schedule, run)
        with Keyframes(self._request, self._all(tuple(others))) as own:
            if others:
                # The run without the last one, which is not known yet.
                keyframes, without = own, self._whole(tuple(others))
                own.use(self._request, without)
            else:
                keyframes, without = self._keyframes, self._baseline
            keyframes.at(last.step)
            begin = without.tape.times()[last.step] + last.offset
            everything = _Span(((begin, without.end.time),))
            guess = self._witness(without, run, begin)
            for span in dict.fromkeys((_turns(without, begin) or everything, everything)):
                for witness in dict.fromkeys((guess, None)):
                    found = self._halve(tuple(others), last, without, keyframes, span, witness)
                    if found is not None:
                        return found
        raise MachineError(
            "a run that was made twice was not the same: that is a fault of rewind's"
        )

    def _all(self, schedule: Schedule) -> Schedule:
        return ordered((*self._fixed, *schedule))

    def _whole(self, schedule: Schedule) -> Ended:
        """A run to its end, from the baseline's keyframes."""
        self.runs += 1
        with self._keyframes.before(self._keyframes.first(schedule)) as keyframe:
            ended = machines.run(
                self._request,
                self._all(schedule),
                keyframe=keyframe,
                known=self._keyframes.known,
            )
        assert ended is not None
        return ended

    def _fewest(self, schedule: Schedule, run: Ended) -> tuple[Schedule, Ended]:
        """Leave out perturbations while the outcome stays changed, the last ones kept longest."""
        kept = list(schedule)
        for perturbation in schedule:
            rest = tuple(p for p in kept if p != perturbation)
            if rest and self._changed(ended := self._whole(rest)):
                kept, run = list(rest), ended
        return tuple(kept), run

    def _witness(self, without: Ended, run: Ended, begin: int) -> _Witness | None:
        start = without.end.start
        first, second = _ends(run.tape, start).found, _ends(without.tape, start).found
        for key in dict.fromkeys([*second, *first]):
            changed, unchanged = first.get(key), second.get(key)
            if (changed and changed[0]) != (unchanged and unchanged[0]):
                ended = [start + end[1] - begin for end in (changed, unchanged) if end is not None]
                return _Witness(
                    *key,
                    changed[0] if changed else None,
                    unchanged[0] if unchanged else None,
                    max(ended),
                )
        return None

    def _halve(
        self,
        others: Steps,
        last: Perturbation,
        without: Ended,
        keyframes: Keyframes,
        span: _Span,
        witness: _Witness | None,
    ) -> Reduced | None:
        at = without.tape.times()
        probe = functools.partial(self._probe, others, last, at, keyframes, span, witness, without)
        turns: dict[int, Verdict] = {}

        def changes(point: int, verdict: Verdict) -> bool:
            """Whether it does at *point*, or where the thread is met next."""
            here: int | None = point
            while verdict is None:
                here = span.piece_after(here) if here is not None else None
                if here is None:
                    return False
                if here not in turns:
                    self.runs += 1
                    turns[here] = probe(span.time(here))
                verdict = turns[here]
            return verdict

        # It changes the outcome where it is, and not after the span: whoever is met there.
        low, high = 0, span.length
        if witness is not None:
            near = max(span.point(span.time(low) + 2 * witness.wait), low + 1)
            if near < high:
                self.runs += 1
                if not changes(near, probe(span.time(near))):
                    high = near
        while high - low > 1:
            points = _inner(low, high, WIDTH)
            times = map(span.time, points)
            # Counted here, and not by threads side by side.
            self.runs += len(points)
            found = self._batch([functools.partial(probe, time) for time in times])
            # The first that does not change the outcome; those before it do.
            for point, verdict in zip(points, found, strict=True):
                if not changes(point, verdict):
                    high = point
                    break
                low = point
        first, second = (
            (*others, attrs.evolve(last, step=p.step, offset=p.offset))
            for p in (_position(at, span.time(low)), _position(at, span.time(low) + 1))
        )
        runs: dict[Steps, Ended] = {}

        def whole(schedule: Steps) -> bool:
            with keyframes.before(schedule[-1].step) as keyframe:
                ended = machines.run(
                    self._request,
                    self._all(schedule),
                    keyframe=keyframe,
                    known=keyframes.known,
                )
            assert ended is not None
            runs[schedule] = ended
            return self._changed(ended)

        self.runs += 2
        verdicts = self._batch([lambda: whole(first), lambda: whole(second)])
        if verdicts != [True, False]:
            return None
        position = Position(first[-1].step, first[-1].offset)
        return Reduced(first, second, runs[first], runs[second], position, self.runs)

    def _known(self, without: Ended, keyframe: Keyframe | None) -> _Ends:
        """How the processes ended that did before *keyframe*, in the run *without*."""
        steps = keyframe.steps if keyframe else 0
        if self._last_known is None or self._last_known[0] != (id(without), steps):
            tape = keyframe.tape if keyframe else Tape()
            self._last_known = (id(without), steps), _ends(tape, without.end.start)
        return self._last_known[1]

    def _probe(
        self,
        others: Steps,
        last: Perturbation,
        at: Sequence[int],
        keyframes: Keyframes,
        span: _Span,
        witness: _Witness | None,
        without: Ended,
        time: int,
    ) -> Verdict:
        """Whether *last* changes the outcome at *time*."""
        position = _position(at, time)
        schedule = (*others, attrs.evolve(last, step=position.step, offset=position.offset))
        verdict: list[bool] = []
        so_far: list[Tape] = []
        start = without.end.start

        def ask(stopped: Stopped) -> bool:
            assert witness is not None
            ends = known.copy()
            begin = keyframe.steps if keyframe else 0
            for record in stopped.tape.records(start, first=begin, select=_Ends.wanted):
                ends.feed(record)
            end = ends.found.get((witness.program, witness.number))
            if end is None or end[0] not in (witness.changed, witness.unchanged):
                return True
            verdict.append(end[0] == witness.changed)
            so_far.append(stopped.tape)
            return False

        stops = []
        if witness is not None:
            waits = (int(factor * witness.wait) + last.ns + ASKED_LATER for factor in ASKED)
            stops = [Position(position.step, position.offset + wait) for wait in waits]
        with keyframes.before(position.step) as keyframe:
            known = self._known(without, keyframe)
            ended = machines.run(
                self._request,
                self._all(schedule),
                stops=stops,
                keyframe=keyframe,
                on_stop=ask,
                known=keyframes.known,
            )
        tape = so_far[0] if ended is None else ended.tape
        if span.tid is not None and _met(tape, position, time) != span.tid:
            return None
        return self._changed(ended) if ended is not None else verdict[0]


def _inner(low: int, high: int, count: int) -> list[int]:
    """Up to *count* points that divide the space between *low* and *high*."""
    points = {low + (high - low) * number // (count + 1) for number in range(1, count + 1)}
    return sorted(points - {low, high})


def _position(at: Sequence[int], time: int) -> Position:
    """The position of *time* in a run whose steps are taken at the times *at*."""
    step = max(bisect.bisect(at, time) - 1, 0)
    return Position(step, max(time - at[step], 0))
