"""Conflicting accesses to memory: where a stall changes which of two comes first.

A run is made once more with the plugin of `rewind.replay.races`, which lists the pairs of accesses
by two threads that nothing, or only atomic accesses, have ordered. Of each pair follow a few
positions at which a stall puts the two into the other order, or one in between two of the other
thread. And when a position was found that decides, the pairs of the run that it gave tell what
it decided.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rewind.formats.schedule import Named, Position, Schedule
from rewind.inspect import InspectError
from rewind.inspect.answers import Task
from rewind.machine import MachineError
from rewind.recorder.request import RunRequest
from rewind.replay.races import Analyser, Found, Pair, Side, Telling, changes, is_told
from rewind.replay.timeline import standing
from rewind.replay.times import position_at
from rewind.search import machines
from rewind.search.generate import Candidates
from rewind.search.keyframes import Keyframes
from rewind.search.machines import Ended, Stopped
from rewind.search.places import Places, Thread
from rewind.search.report import Access, Analysis, Explanation
from rewind.search.tape import Tape
from rewind.search.turns import round_robin

_WORD = 8
"""Bytes of memory that accesses are told apart by, at most."""


class Conflicts:
    """Looks for conflicting accesses in runs of a search.

    :param places: has an inspector.
    :param plugin: races.so.
    """

    def __init__(self, places: Places, plugin: Path) -> None:
        self._places = places
        self._plugin = plugin

    def find(
        self,
        request: RunRequest,
        schedule: Schedule,
        run: Ended,
        keyframes: Keyframes,
        since: int = 0,
    ) -> Found:
        """The pairs of *run*, which *schedule* gave, of which the later one was after *since*.

        :raises RacesError: if its processes have too much to be looked at.
        :raises MachineError: if a machine fails, or the run was another.
        """
        told = list(changes(run.tape.records(run.end.start, select=is_told)))
        if not told:
            return Found()
        inspector = self._places.inspector
        places, sync = inspector.places(), inspector.sync_places()
        with Analyser(self._plugin, places, sync, since) as analyser:
            telling = Telling(analyser, inspector, told)

            def tell(stopped: Stopped) -> bool:
                self._places.look_at(stopped)
                telling.tell()
                return True

            begin = min(telling.steps[0], keyframes.first(schedule))
            with keyframes.before(begin) as keyframe:
                again = machines.run(
                    request,
                    schedule,
                    stops=[Position(step) for step in telling.steps],
                    keyframe=keyframe,
                    own_memory=True,
                    on_stop=tell,
                    plugin=analyser,
                    known=keyframes.known,
                )
            assert again is not None
            if again.tape.digest() != run.tape.digest():
                raise MachineError("the run was another one when its accesses were looked at")
            return telling.found()

    def names(
        self,
        request: RunRequest,
        schedule: Schedule,
        positions: Sequence[Position],
        keyframes: Keyframes,
    ) -> tuple[Named, ...]:
        """What *positions* are by their tasks, as far as they have the CPU there.

        They are of the run that *keyframes* are of, which *schedule* gave.

        :raises MachineError: if a machine fails.
        """
        found: dict[Position, Named] = {}
        stops = sorted(positions)
        if not stops:
            return ()

        def note(stopped: Stopped) -> bool:
            place = standing(stopped.monitor)
            if place is not None and place.named is not None and place.user:
                found[place.position] = place.named
            return len(found) < len(stops)

        with keyframes.before(min(keyframes.first(schedule), stops[0].step)) as keyframe:
            machines.run(
                request,
                schedule,
                stops=stops,
                keyframe=keyframe,
                on_stop=note,
                known=keyframes.known,
            )
        return tuple(found[at] for at in positions if at in found)

    def explain(
        self,
        request: RunRequest,
        schedule: Schedule,
        run: Ended,
        last: Position,
        thread: Thread,
        keyframes: Keyframes,
    ) -> Explanation | None:
        """What the perturbation at *last* has put into another order.

        It is one of *schedule*, which gave *run*. It has done so if the instruction that *thread*
        was kept from accesses memory that another thread has accessed meanwhile.

        :raises MachineError: if a machine fails.
        """
        time = run.tape.times()[last.step] + last.offset
        found = self.find(request, schedule, run, keyframes, time)
        after = met(found.pairs, thread, time)
        if after is None:
            return None
        # It may have come there again since, for other memory, or after what others did later.
        again = self.names(
            request, schedule, [last, position_of(run.tape, after.b.time)], keyframes
        )
        if len(again) < 2 or again[0] != again[1]:
            return None
        before = read_before(found.pairs, after, thread, time)
        return self._tell(request, schedule, run, keyframes, before, after, found)

    def _tell(
        self,
        request: RunRequest,
        schedule: Schedule,
        run: Ended,
        keyframes: Keyframes,
        before: Side | None,
        after: Pair,
        found: Found,
    ) -> Explanation:
        """*before* of a thread, then one of another, and what the first did after it."""
        wanted = [*([] if before is None else [before]), after.a, after.b]
        told: list[Access] = []
        names: list[str | None] = []

        def look(stopped: Stopped) -> bool:
            side = wanted[len(told)]
            position = stops[len(told)]
            task: Task | None = None
            place = None
            try:
                self._places.look_at(stopped)
                tasks = self._places.inspector.tasks()
                task = next((task for task in tasks if task.number == side.tid), None)
                if task is not None:
                    place = self._places.place(task.tid)
                    names.append(self._places.inspector.reached(task.tid, after.address))
            except InspectError:
                # Its address has to do for a name.
                names.append(None)
            told.append(
                Access(
                    step=position.step,
                    offset=position.offset,
                    pid=found.processes.get(side.pid, 0),
                    tid=0 if task is None else task.tid,
                    write=side.write,
                    place=place,
                )
            )
            return len(told) < len(wanted)

        stops = [position_of(run.tape, side.time) for side in wanted]
        with keyframes.before(min(keyframes.first(schedule), stops[0].step)) as keyframe:
            machines.run(
                request,
                schedule,
                stops=stops,
                keyframe=keyframe,
                own_memory=True,
                on_stop=look,
                known=keyframes.known,
            )
        return Explanation(
            variable=next((name for name in names if name), None),
            address=after.address,
            before=told[0] if before is not None else None,
            between=told[-2],
            after=told[-1],
        )


def met(pairs: Sequence[Pair], thread: Thread, time: int) -> Pair | None:
    """What others did meanwhile to what *thread* accesses where it was kept from it at *time*.

    The later access is the first that its instruction there has made since, if it is in a pair.
    """
    others = [
        pair
        for pair in pairs
        if pair.b.tid == thread.number
        and pair.b.pc == thread.pc
        and pair.a.time > time
        and not pair.is_half
        and pair.kind != "inverted"
    ]
    first = min((pair.b.time for pair in others), default=0)
    there = sorted(
        (pair for pair in others if pair.b.time == first),
        key=lambda pair: (pair.a.write, pair.a.time),
    )
    return there[-1] if there else None


def read_before(pairs: Sequence[Pair], after: Pair, thread: Thread, time: int) -> Side | None:
    """How *thread* has read, up to *time*, what it then accesses as the later of *after*."""
    reads = sorted(
        (
            pair.a
            for pair in pairs
            if pair.a.tid == thread.number
            and pair.a.time <= time < pair.b.time
            and _overlap(pair.address, pair.a.size, after.address, after.b.size)
            and not pair.a.write
            and pair.b.write
        ),
        key=lambda side: side.time,
    )
    return reads[-1] if reads else None


def _overlap(one: int, size: int, other: int, other_size: int) -> bool:
    return one < other + other_size and other < one + size


def candidates(found: Found, tape: Tape) -> Candidates:
    """What follows from the pairs that were *found* in the run that *tape* is of."""
    seen: set[Position] = set()

    def positions(kind: str) -> Iterator[Position]:
        for time in _times([p for p in found.pairs if p.kind == kind and not p.is_half]):
            position = position_of(tape, time)
            if position not in seen:
                seen.add(position)
                yield position

    return Candidates(
        tuple(positions("inverted")),
        tuple(positions("unordered")),
        (*positions("atomics"), *positions("locked")),
    )


def analysis(found: Found) -> Analysis:
    """What a report says of *found*."""
    kinds = [pair.kind for pair in found.pairs if not pair.is_half]
    return Analysis(
        inverted=kinds.count("inverted"),
        unordered=kinds.count("unordered"),
        atomics=kinds.count("atomics"),
        incomplete=found.lost,
        error=None,
    )


def _times(pairs: Sequence[Pair]) -> Iterator[int]:
    """When to stall for *pairs*: of each word of memory one time after the other, by turns."""
    words: dict[int, list[Pair]] = {}
    for pair in pairs:
        words.setdefault(pair.address // _WORD, []).append(pair)
    return round_robin(map(_of_word, words.values()))


def _of_word(pairs: Sequence[Pair]) -> list[int]:
    """When to stall for the *pairs* of a word, the likeliest first.

    That is before it takes the lock that it has, unless the other thread did without; before a
    thread writes what depends on what it has read (others' writes in between are lost), or what it
    has written before (what others are to see is not there yet), or after it has read something
    that it will act on; then before the first of the two, whatever it is. Then the same for the
    later one, which matters only if more is to come.
    """
    readers = {side.tid for pair in pairs for side in (pair.a, pair.b) if not side.write}
    writes: dict[int, int] = {}
    for pair in pairs:
        for side in (pair.a, pair.b):
            if side.write:
                writes[side.tid] = min(side.time, writes.get(side.tid, side.time))
    ranked: list[tuple[int, int]] = []
    for pair in pairs:
        for late, side in ((0, pair.a), (10, pair.b)):
            if side.entered and pair.kind != "unordered":
                # With the lock held nobody would get far.
                ranked.append((late, side.entered))
            first = writes.get(side.tid, side.time)
            if side.write and (side.tid in readers or side.update or first < side.time):
                ranked.append((late + 1, side.time))
            elif side.write:
                ranked.append((late + 3, side.time))
            else:
                # After its instruction.
                ranked.append((late + 2, side.time + 1))
                ranked.append((late + 4, side.time))
    ranked.sort()
    return list(dict.fromkeys(time for _, time in ranked))


def position_of(tape: Tape, time: int) -> Position:
    """The position at *time*, in ns since the machine started, in the run that *tape* is of."""
    return position_at(tape.times(), time)
