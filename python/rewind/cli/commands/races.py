"""``rewind races``: pairs of accesses to the same memory, and what has ordered them."""

import contextlib
from collections.abc import Container, Iterator, Sequence
from typing import Any, Self

import attrs
import click

from rewind.analysis import render
from rewind.analysis.objects import Access as ObjectAccess
from rewind.analysis.objects import Objects
from rewind.analysis.objects import Pair as ObjectPair
from rewind.analysis.render import plain
from rewind.cli import debuginfo, params
from rewind.cli.errors import Failure
from rewind.cli.output import count, say, say_json, warn
from rewind.cli.params import Whole
from rewind.cli.runs import Run
from rewind.cli.stacks import Stack, say_stack, stack_of
from rewind.cli.standing import title
from rewind.cli.stopped import Opened, opened
from rewind.formats.schedule import Position
from rewind.formats.trace import TraceReader
from rewind.inspect import InspectError
from rewind.inspect.answers import Frame, Task, place
from rewind.replay.races import CLASSES, Found, Pair, Side, changes, find_races, is_told
from rewind.replay.timeline import Replayed
from rewind.search.objects import by_object
from rewind.search.objects import find as find_objects

SOME = 1
"""The exit status if nothing orders the accesses of a pair."""
SHOWN = 20
"""Pairs that are shown if not all are wanted."""

_SAID = {
    "inverted": "can wait for one another",
    "unordered": "nothing orders",
    "atomics": "only atomic accesses have ordered",
    "locked": "a lock keeps apart",
    "ordered": "always come in this order",
}


@click.command("races")
@params.run_argument
@click.option("--all", "everything", is_flag=True, help="Also those that a lock or more orders.")
@click.option("--pid", type=Whole(1), metavar="P", help="Only of a process.")
@click.option("--stacks", is_flag=True, help="With the callers of both.")
@params.json_option
def command(run: Run, everything: bool, pid: int | None, stacks: bool, as_json: bool) -> int:
    """Accesses of two threads to the same memory, one of them a write, that nothing orders.

    The run is made again, and looked at. After those that nothing orders come those that only
    atomic accesses have ordered. The exit status is 1 if there is one that nothing orders.
    """
    with TraceReader(run.trace) as reader:
        told = list(changes(reader.records(select=is_told)))
        objects = find_objects(reader.records(select=Objects.wants))
    sides = {side.who.pid for pair in objects.pairs for side in (pair.a, pair.b)}
    if pid is not None and pid not in {change.pid for change in told} | sides:
        raise Failure(f"process {pid} has no memory that two threads could access")
    with debuginfo.known() as outside, opened(run) as around:

        def look_at(machine: Replayed) -> None:
            around.look_at(machine, outside.directories)

        with around.analyser() as analyser:
            found = find_races(around.timeline, analyser, around.inspector, look_at, told)
        pairs = [
            pair
            for pair in found.pairs
            if (pid is None or pid in _pids(found, pair)) and not pair.is_half
        ]
        answer = _Answer(run, found, pairs)
        looker = _Looker(around, outside, found, whole=stacks or as_json)
        answer.take(looker, everything)
    if as_json:
        say_json({**answer.data(), "objects": [_object(p) for p in objects.pairs]})
    else:
        answer.say(stacks)
        _say_objects(objects, pid, everything)
    return SOME if answer.unordered else 0


def _say_objects(objects: Objects, pid: int | None, everything: bool) -> None:
    """Of each object the likeliest pair: who did what, and what another one could come before."""
    groups = [
        group
        for group in by_object(objects.pairs)
        if pid is None or any(pid in (p.a.who.pid, p.b.who.pid) for p in group)
    ]
    shown = groups if everything else groups[:SHOWN]
    for group in shown:
        pair = group[0]
        label = f"of {pair.label}" if pair.kind == "descriptors" else plain(pair.label)
        say()
        say(f"{pair.kind} {label}: nothing forces this order")
        for side in ([] if pair.before is None else [pair.before]) + [pair.a, pair.b]:
            program = plain(side.who.program.rpartition("/")[2])
            who = render.task(side.who.pid, side.who.tid)
            say(f"  {side.step}  {who} ({program}) {side.does}")
    if len(shown) < len(groups):
        say()
        say(f"with --all: {len(groups) - len(shown):,} more kernel objects")
    if objects.incomplete:
        warn("not all accesses to files, pipes and the like were compared: there are too many")


def _object(pair: ObjectPair) -> dict[str, Any]:
    """A pair of accesses to a kernel object, for a program."""

    def side(access: ObjectAccess | None) -> dict[str, Any] | None:
        if access is None:
            return None
        return {
            "position": str(access.step),
            "returns": str(access.end),
            "pid": access.who.pid,
            "tid": access.who.tid,
            "program": access.who.program,
            "does": access.does,
            "change": access.change,
        }

    return {
        "kind": pair.kind,
        "object": pair.label,
        "count": pair.count,
        "before": side(pair.before),
        "a": side(pair.a),
        "b": side(pair.b),
    }


def _pids(found: Found, pair: Pair) -> set[int | None]:
    return {found.processes.get(side.pid) for side in (pair.a, pair.b)}


@attrs.frozen
class _Where:
    """Where an instruction is that accesses memory."""

    here: Frame | None
    stack: Stack | None

    @classmethod
    def of(cls, stack: Stack, *, caller: bool, whole: bool) -> Self:
        """Where the innermost frame of *stack* is, or the *caller* of libraries."""
        here = place(stack.frames) if caller else next(iter(stack.frames), None)
        return cls(here, stack if whole else None)

    def is_program(self, lined: Container[str | None]) -> bool:
        """Whether it is the program's own, as far as can be told.

        Of one that was linked statically, the C library is a part, of which there are no lines.

        :param lined: the files of whose code there are lines.
        """
        here = self.here
        return here is None or (here.own and (here.line is not None or here.module not in lined))

    @property
    def title(self) -> str:
        return title(self.here) if self.here else "?"


@attrs.frozen
class _Access:
    """One of the two, as it is shown."""

    side: Side
    at: Position
    pid: int
    tid: int
    where: _Where

    def does(self) -> str:
        """``reads``, ``writes``, …"""
        side = self.side
        if side.unmap:
            return "unmaps it"
        word = "writes" if side.write else "reads"
        if side.update:
            word = "reads and writes at once"
        return f"{word} atomically" if side.locked else word

    def to_data(self) -> dict[str, Any]:
        """It for a program."""
        return {
            "position": str(self.at),
            "time": self.side.time,
            "pid": self.pid,
            "tid": self.tid,
            "pc": self.side.pc,
            "write": self.side.write,
            "size": self.side.size,
            "unmap": self.side.unmap,
            "atomic": self.side.locked,
            "update": self.side.update,
            "stack": None if self.where.stack is None else self.where.stack.to_data(),
        }


@attrs.define
class _Shown:
    """A pair, or several that are the same to who reads them."""

    kind: str
    address: int
    variable: str | None
    other: int
    """The other lock of an inverted pair."""
    other_variable: str | None
    times: int
    a: _Access
    b: _Access

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others."""
        sides = ((side.where.title, side.side.write, side.side.locked) for side in (self.a, self.b))
        # The elements of an array are one.
        names = (self.variable, self.other_variable)
        return (self.kind, self.a.pid, self.b.pid, *names, *sides)

    def to_data(self) -> dict[str, Any]:
        """It for a program."""
        return {
            "kind": self.kind,
            "variable": self.variable,
            "address": self.address,
            "other": None if not self.other else self.other,
            "other_variable": self.other_variable,
            "count": self.times,
            "a": self.a.to_data(),
            "b": self.b.to_data(),
        }


class _Looker:
    """Says where accesses are: the machine is stopped at them."""

    def __init__(
        self, around: Opened, outside: debuginfo.DebugInfo, found: Found, *, whole: bool
    ) -> None:
        self._around = around
        self._outside = outside
        self._found = found
        self._whole = whole
        """Whether stacks are wanted."""
        self._places: dict[tuple[int, int], _Where] = {}
        self._names: dict[tuple[int, int], str | None] = {}
        self._tids: dict[int, int] = {}
        self.lined: set[str | None] = set()
        """The files of whose code there are lines."""

    def pair(self, pair: Pair) -> _Shown:
        """*pair*, with its places."""
        a = self._access(pair.a, pair)
        b = self._access(pair.b, pair)
        name, other = (self._names.get((pair.b.pid, at)) for at in (pair.address, pair.other))
        return _Shown(pair.kind, pair.address, name, pair.other, other, pair.count, a, b)

    def _access(self, side: Side, pair: Pair) -> _Access:
        timeline = self._around.timeline
        # Where it is is the same each time, but not from where it was called.
        # (What takes a lock, or frees, is a function of a library: its caller is what matters.)
        caller = bool(pair.other or side.unmap)
        key = (side.pid, side.time if self._whole or caller else side.pc)
        name = (side.pid, pair.address)
        if (
            key not in self._places
            or side.tid not in self._tids
            or (side is pair.b and name not in self._names)
        ):
            inspector = self._around.inspector
            with timeline.machine(side.time) as machine:
                self._around.look_at(machine, self._outside.directories)
                task = self._task(side)
                where = _Where(None, None)
                if task is not None:
                    # What ends or is about to become another program has neither.
                    with contextlib.suppress(InspectError):
                        stack = stack_of(inspector, task, self._outside, 0, whole=True)
                        where = _Where.of(stack, caller=caller, whole=self._whole)
                        self.lined |= {frame.module for frame in stack.frames if frame.line}
                    for at in (pair.address, pair.other) if pair.other else (pair.address,):
                        if self._names.get((side.pid, at)) is None:
                            self._names[side.pid, at] = None
                            with contextlib.suppress(InspectError):
                                self._names[side.pid, at] = inspector.reached(task.tid, at)
            self._places[key] = where
        return _Access(
            side,
            timeline.position(side.time),
            self._found.processes.get(side.pid, 0),
            self._tids.get(side.tid, 0),
            self._places[key],
        )

    def _task(self, side: Side) -> Task | None:
        """The thread that accesses; all that there are then are noted."""
        found = None
        for task in self._around.inspector.tasks():
            self._tids.setdefault(task.number, task.tid)
            if task.number == side.tid:
                found = task
        return found


class _Answer:
    """What is said."""

    def __init__(self, run: Run, found: Found, pairs: Sequence[Pair]) -> None:
        self._run = run
        self._found = found
        self._pairs = pairs
        self._shown: list[_Shown] = []
        self._left = 0
        """Pairs of the classes that are shown for which there was no room."""
        self._others = dict.fromkeys(CLASSES.values(), 0)
        """Pairs that are not shown, by what orders them."""
        self._libraries = 0
        """Pairs in libraries' code."""

    @property
    def unordered(self) -> bool:
        """Whether there is a pair that nothing orders."""
        return any(one.kind == "unordered" for one in self._shown)

    def take(self, looker: _Looker, everything: bool) -> None:
        """Find out about the pairs that are to be shown."""
        groups: dict[tuple[object, ...], _Shown] = {}

        def is_shown(one: _Shown) -> bool:
            return everything or all(side.where.is_program(looker.lined) for side in (one.a, one.b))

        for pair in self._pairs:
            if not everything and pair.kind in ("locked", "ordered"):
                self._others[pair.kind] += 1
                continue
            if not everything and sum(map(is_shown, groups.values())) >= SHOWN:
                self._left += 1
                continue
            one = looker.pair(pair)
            group = groups.setdefault(one.key, one)
            if group is not one:
                group.times += one.times
        # Which files have lines is known now.
        self._shown = [one for one in groups.values() if is_shown(one)]
        self._libraries = len(groups) - len(self._shown)

    def say(self, stacks: bool) -> None:
        """Say it to a person."""
        for number, one in enumerate(self._shown):
            if number:
                say()
            self._say_pair(one, stacks)
        if self._shown:
            say()
        for line in self._summary():
            say(line)
        self._warn()

    def _say_pair(self, one: _Shown, stacks: bool) -> None:
        times = "" if one.times == 1 else f", {one.times:,} times"
        if one.other:
            locks = [
                f"{plain(name) if name else 'a lock'} at {address:#x}"
                for name, address in (
                    (one.other_variable, one.other),
                    (one.variable, one.address),
                )
            ]
            say(f"{one.kind}: {' and '.join(locks)}{times}")
            does = ["has the second and takes the first", "has the first and takes the second"]
        else:
            name = plain(one.variable) if one.variable else "memory"
            say(f"{one.kind}: {name} at {one.address:#x}{times}")
            does = [one.a.does(), one.b.does()]
        for access, what in zip((one.a, one.b), does, strict=True):
            who = render.task(access.pid, access.tid) if access.tid else "a thread"
            say(f"  {access.at}  {who} {what}, in {access.where.title}")
            if stacks and access.where.stack is not None:
                say_stack(access.where.stack)

    def _summary(self) -> Iterator[str]:
        counts = {kind: 0 for kind in CLASSES.values()}
        for one in self._shown:
            counts[one.kind] += 1
        if not self._found.processes:
            yield "no process has memory that two threads could access"
            return
        for kind, said in _SAID.items():
            if counts[kind] or kind == "unordered":
                yield f"{count(counts[kind], 'pair')} that {said}"
        hidden = [f"{number:,} {kind}" for kind, number in self._others.items() if number]
        if self._libraries:
            hidden.append(f"{self._libraries:,} in libraries")
        if self._left:
            hidden.append(f"{self._left:,} more like these")
        if hidden:
            yield f"with --all: {', '.join(hidden)}"
        if self.unordered:
            yield f"rewind where {self._run.short} {self._shown[0].a.at}"

    def _warn(self) -> None:
        found = self._found
        for number, what in (
            (found.lost_words, "accesses were not compared: the program uses too much memory"),
            (found.lost_pairs, "meetings were not noted: there are too many pairs"),
            (found.lost_threads, "turns were not looked at: there are too many threads"),
            (
                found.lost_atoms,
                "atomic accesses or messages were not noted: some pairs may be ordered by them",
            ),
            (found.unseen, "changes of what processes have mapped came after too many others"),
        ):
            if number:
                warn(f"{number:,} {what}")

    def data(self) -> dict[str, Any]:
        """It for a program."""
        found = self._found
        return {
            "pairs": [one.to_data() for one in self._shown],
            "not_shown": {
                **self._others,
                "libraries": self._libraries,
                "more": self._left,
            },
            "accesses": found.accesses,
            "lost": {
                "words": found.lost_words,
                "pairs": found.lost_pairs,
                "threads": found.lost_threads,
                "atoms": found.lost_atoms,
                "changes": found.unseen,
                "earlier": found.forgotten,
            },
        }
