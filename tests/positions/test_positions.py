"""Named positions in a program with two threads.

REWIND_ATTRIBUTES is the file with the attributes of its unperturbed run. In both threads there are
REWIND_INSTRUCTIONS and more in user mode after the system call number REWIND_CALL.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import attrs
import pytest

from rewind.analysis.calls import Calls
from rewind.formats.schedule import (
    Named,
    NamedPerturbation,
    Perturbation,
    Position,
    Schedule,
    ordered,
)
from rewind.formats.trace import Fork, Perturbed
from rewind.recorder.request import RunRequest, attributes
from rewind.search import machines
from rewind.search.keyframes import Keyframes
from rewind.search.machines import Ended, Keyframe, Stopped

CALL = int(os.environ["REWIND_CALL"])
INSTRUCTIONS = int(os.environ["REWIND_INSTRUCTIONS"])
STALL = 3_000_000
FIRST_INSTRUCTIONS = 32
"""Of a new thread: it meets pages that are not there yet."""


@attrs.define
class Job:
    """The job's unperturbed run, with keyframes."""

    request: RunRequest
    run: Ended
    keyframes: Keyframes
    calls: Calls
    threads: tuple[int, int]
    """The numbers of both threads."""

    def at(self, thread: int, call: int = CALL, offset: int = INSTRUCTIONS) -> NamedPerturbation:
        """A stall of one of the threads."""
        return NamedPerturbation(Named(self.threads[thread], call, offset), "stall", STALL)

    def from_boot(self, *schedule: Perturbation | NamedPerturbation) -> Ended:
        run = machines.run(self.request, ordered(schedule))
        assert run is not None
        return run

    def fork(self, *schedule: Perturbation | NamedPerturbation) -> Ended:
        """From a keyframe before the first of *schedule*."""
        with self.keyframes.before(self.keyframes.first(schedule)) as keyframe:
            assert keyframe is not None
            return self.fork_of(keyframe, ordered(schedule))

    def fork_of(self, keyframe: Keyframe, schedule: Schedule) -> Ended:
        run = machines.run(self.request, schedule, keyframe=keyframe)
        assert run is not None
        return run

    def keyframe(self, position: Position) -> Keyframe:
        """One of the unperturbed run at *position*."""
        taken: list[Keyframe] = []

        def take(stopped: Stopped) -> bool:
            taken.append(stopped.keyframe(last=True))
            return False

        with self.keyframes.before(position.step) as keyframe:
            machines.run(
                self.request,
                (),
                stops=[position],
                keyframe=keyframe,
                own_memory=True,
                on_stop=take,
            )
        return taken[0]


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    told = attributes(Path(os.environ["REWIND_ATTRIBUTES"]))
    # Nothing is recorded.
    request = RunRequest.parse({**told, "outputs": {"out": "/nowhere", "nars": "/nowhere"}})
    run = machines.run(request, ())
    assert run is not None
    made = [record for record in run.tape.records(0) if isinstance(record, Fork)]
    # The builder is task 1.
    first, second = (at for at, fork in enumerate(made, 2) if fork.pid == fork.child_pid)
    calls = Calls.of(run.tape.frames())
    with Keyframes(request, ()) as keyframes:
        keyframes.use(request, run)
        begin = calls.span(Named(first, 0))
        assert begin is not None
        keyframes.at(begin.first)
        yield Job(request, run, keyframes, calls, (first, second))


def met(run: Ended) -> list[tuple[int, int]]:
    """Whom the perturbations met, 0 for nobody, and where in their program."""
    records = [record for record in run.tape.records(0) if isinstance(record, Perturbed)]
    return [(record.tid, record.user_ip) for record in records]


def same(one: Ended, *others: Ended) -> None:
    """They are the same, to the byte."""
    for other in others:
        assert other.tape.digest() == one.tape.digest()
        assert (other.end, other.outcome, other.outputs) == (one.end, one.outcome, one.outputs)


def test_the_same_by_steps(job: Job) -> None:
    """A perturbation at a named position, and at the step where it came."""
    named = job.at(0)
    run = job.from_boot(named)
    (at,) = run.came
    span = job.calls.span(named.position)
    assert at is not None and span is not None and span.last is not None
    assert span.first <= at.step < span.last
    assert run.tape.digest() != job.run.tape.digest()
    assert run.by_steps == (Perturbation(at.step, at.offset, "stall", STALL),)
    same(run, job.from_boot(*run.by_steps), job.fork(named), job.fork(*run.by_steps))
    assert job.fork(named).came == run.came


def test_from_any_keyframe(job: Job) -> None:
    """Also from one within the stretch: in the kernel, in user mode, and at the very position."""
    named = job.at(0)
    run = job.fork(named)
    (at,) = run.came
    span = job.calls.span(named.position)
    assert at is not None and span is not None
    before = [Position(span.first), Position(at.step, at.offset - 1), at]
    for position in (*before, Position(at.step, at.offset // 2)):
        keyframe = job.keyframe(position)
        same(run, job.fork_of(keyframe, (named,)))
        keyframe.close()
    keyframe = job.keyframe(Position(at.step, at.offset + 1))
    with pytest.raises(KeyError):
        # It was before, and nobody says where.
        job.fork_of(keyframe, (named,))
    over = machines.run(job.request, (named,), keyframe=keyframe, known={named: None})
    assert over is not None
    same(job.run, over)
    keyframe.close()


def test_what_comes_before_does_not_move_it(job: Job) -> None:
    """Of two perturbations the second meets the same instruction whether or not the first comes.

    By steps it would not: where it comes alone is another place when the first has come.
    """
    first, second = job.at(0), job.at(1)
    alone, both = job.fork(second), job.from_boot(first, second)
    named = dict(zip(both.schedule, both.came, strict=True))
    (at,) = alone.came
    assert at is not None and named[second] not in (None, at)
    assert met(alone)[0] in met(both)
    assert len(met(both)) == 2 and all(tid for tid, _ in met(both))
    same(both, job.from_boot(*both.by_steps), job.fork(first, second), job.fork(*both.by_steps))
    # And with one of them by a step.
    by_step = next(one for one in both.by_steps if one.position == named[first])
    same(both, job.fork(by_step, second))
    # Which is another run than that of the step at which the second came alone.
    other = job.fork(by_step, *alone.by_steps)
    assert met(other) != met(both)


def test_all_instructions_count_once(job: Job) -> None:
    """The first of a thread, some of which fault and begin again: each is met by its number."""
    runs = [job.fork(job.at(0, 0, offset)) for offset in range(FIRST_INSTRUCTIONS)]
    came = [run.came[0] for run in runs]
    times = job.run.tape.times()
    at = [times[one.step] + one.offset for one in came if one is not None]
    assert len(at) == len(runs)
    gaps = [after - before for before, after in pairwise(at)]
    assert min(gaps) == 1
    assert max(gaps) > 100, "nothing has interrupted the thread"
    places = [met(run)[0] for run in runs]
    assert {tid for tid, _ in places} == {places[0][0]}
    # None of these repeats itself.
    assert all(before != after for before, after in pairwise(places))
    interrupted = gaps.index(max(gaps))
    for number in (0, interrupted, interrupted + 1):
        same(runs[number], job.fork(*runs[number].by_steps))


def test_what_never_comes(job: Job) -> None:
    """It changes nothing, and is told."""
    last = job.calls.count(job.threads[1])
    schedule = (
        job.at(0, CALL, 10**15),
        job.at(1, last + 1, 0),
        NamedPerturbation(Named(job.calls.tasks + 1, 0), "reschedule"),
        Perturbation(10**9, 0, "reschedule"),
    )
    for run in (job.from_boot(*schedule), job.fork(*schedule)):
        assert run.came == (None, None, None, None)
        same(job.run, run)
