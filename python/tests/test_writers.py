"""Who wrote to memory, on a run that is made up: when is what written, and what is mapped where."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import pytest

from rewind.inspect.answers import Page, Task
from rewind.replay.watch import Access, Hit, Watch
from rewind.replay.writers import Written, last_write, who_wrote

DIRECT = 0xFFFF_8880_0000_0000
KERNEL = 0xFFFF_FFFF_8100_0000
START = 100
"""When the run's job begins; the machine was booted at 0."""
VIRTUAL = 0x4000
"""Where the process has what is asked for; *P* and *Q* are pages of the machine."""
P, Q, R = 0x10000, 0x20000, 0x30000

TASK = Task(2, 2, 1, "writer", "runs", process=52, number=52)
OTHER = Task(3, 3, 2, "other", "waits", process=53, number=53)


@attrs.define
class Run:
    """Stands for the timeline, the watcher and the inspector."""

    writes: list[tuple[Hit, int]] = attrs.Factory(list)
    """Each with its physical address."""
    keyframes: list[int] = attrs.Factory(list)
    mapped: dict[int, list[Page]] = attrs.Factory(dict)
    """What the process has mapped at a time."""
    functions: dict[int, str] = attrs.Factory(dict)
    other: dict[int, list[Page]] = attrs.Factory(dict)
    """What `OTHER` has mapped at a time, when it is there."""
    start: int = START

    watch: Watch = attrs.Factory(Watch)
    replayed: list[tuple[int, int]] = attrs.Factory(list)
    """The stretches that were watched."""
    here: int = 0
    found: list[Hit] = attrs.Factory(list)
    arguments: tuple[str, ...] = ()
    pass_fds: tuple[int, ...] = ()

    def write(self, time: int, physical: int, *, function: str | None = None) -> Hit:
        """There is a write at *time*: the process's own, or of the kernel's *function*."""
        pc, address = 0x1000, VIRTUAL + physical % 4096
        if function is not None:
            pc, address = KERNEL + time, DIRECT + physical
            self.functions[pc] = function
        hit = Hit(time, "write", pc, 52, 52, address, 8)
        self.writes.append((hit, physical))
        return hit

    # --- the timeline

    def before(self, time: int) -> Any:
        found = [at for at in self.keyframes if at <= time]
        return Keyframe(max(found)) if found else None

    @contextlib.contextmanager
    def machine(
        self, time: int, *, after: Any = None, stop: bool = True, **_: object
    ) -> Iterator[Any]:
        assert time >= START
        if stop:
            self.here = time
        else:
            # It begins at the last keyframe that there is, if it is not said at which.
            begin = after or self.before(time)
            since = begin.time if begin else 0
            assert self.watch.until is not None and since < self.watch.until
            self.replayed.append((since, self.watch.until))
            self.found = self.look(since)
        yield self

    def stopped(self) -> None:
        """The machine is, at once."""

    # --- the watcher

    def set(self, watch: Watch) -> None:
        self.watch = watch

    def look(self, since: int) -> list[Hit]:
        assert not self.watch.stop and self.watch.before == self.watch.until
        return [
            hit
            for hit, physical in sorted(self.writes, key=lambda write: write[0].time)
            if since <= hit.time < (self.watch.before or 0)
            and any(
                access.address < physical + 8 and physical < access.address + access.size
                for access in self.watch.physical
            )
        ]

    def hits(self) -> list[Hit]:
        return self.found[-self.watch.keep :]

    # --- the inspector

    def tasks(self) -> list[Task]:
        return [TASK, OTHER] if self.here in self.other else [TASK]

    def kernel_symbol(self, address: int) -> str:
        return self.functions[address]

    def pages(self, tid: int, address: int, count: int) -> list[Page]:
        assert (address, count) == (VIRTUAL, 8)
        assert tid in (TASK.tid, OTHER.tid)
        return (self.mapped if tid == TASK.tid else self.other)[self.here]

    # --- the question

    def ask(self, pages: Sequence[Page], time: int, of: Task = TASK) -> tuple[Any, list[Task]]:
        told: list[Task] = []
        me: Any = self
        answer = who_wrote(me, me, me, lambda _: None, told.append, pages, time, of)
        return answer, told


@attrs.frozen
class Keyframe:
    """One at *time*."""

    time: int


def page(physical: int | None, **more: Any) -> Page:
    """What is asked for, in a page of the process's own."""
    return Page(VIRTUAL, 8, physical, **{"anonymous": physical is not None, **more})


@pytest.fixture
def run() -> Run:
    return Run()


def test_the_last_one_before(run: Run) -> None:
    run.write(150, P)
    wanted = run.write(200, P)
    run.write(210, Q)
    run.write(250, P)
    answer, told = run.ask([page(P)], 250)
    assert answer.hit == wanted
    assert (answer.task, answer.function, answer.copied) == (TASK, None, ())
    assert told == [TASK]


def test_from_keyframe_to_keyframe(run: Run) -> None:
    """Nothing is made twice, and nothing before the write."""
    run.keyframes = [150, 200, 250]
    wanted = run.write(170, P)
    me: Any = run
    assert last_write(me, me, [Access(P, 8)], 260) == wanted
    assert run.replayed == [(250, 260), (200, 250), (150, 200)]
    run.replayed.clear()
    assert last_write(me, me, [Access(Q, 8)], 250) is None
    assert run.replayed == [(200, 250), (150, 200), (0, 150)]


def test_a_copy_is_followed(run: Run) -> None:
    """To the page that it was made of, as often as it takes."""
    wanted = run.write(120, R)
    second = run.write(150, Q, function="memcpy_orig")
    first = run.write(200, P, function="memcpy_orig")
    run.write(160, R)
    run.mapped = {200: [page(Q)], 150: [page(R)], 120: [page(R)]}
    answer, told = run.ask([page(P)], 300)
    assert answer.hit == wanted
    assert answer.copied == (first, second)
    assert told == [TASK]


def test_a_copy_of_a_file(run: Run) -> None:
    copy = run.write(200, P, function="memcpy_orig")
    run.mapped = {200: [page(Q, file="/bin/program", offset=0x40, anonymous=False)]}
    answer, told = run.ask([page(P, file="/bin/program", offset=0x40)], 300)
    assert answer.hit is None
    assert (answer.file, answer.offset, answer.copied) == ("/bin/program", 0x40, (copy,))
    assert told == []


def test_the_kernel_for_a_call(run: Run) -> None:
    """It writes into a page that the process has."""
    wanted = run.write(200, P, function="rep_movs_alternative")
    run.mapped = {200: [page(P)]}
    answer, told = run.ask([page(P)], 300)
    assert answer.hit == wanted
    assert (answer.function, answer.zeros) == ("rep_movs_alternative", False)
    assert told == [TASK]


def test_into_another_process(run: Run) -> None:
    """It is no copy if the page is in its place in the process that is asked about.

    Whoever writes has another one there, and may make the copy for it, too.
    """
    wanted = run.write(200, P, function="rep_movs_alternative")
    copy = run.write(190, P, function="memcpy_orig")
    run.mapped = {200: [page(R)], 190: [page(R)]}
    run.other = {200: [page(P)], 190: [page(Q)]}
    answer, told = run.ask([page(P)], 300, OTHER)
    assert (answer.hit, answer.copied, told) == (wanted, (), [TASK])
    # And before it the copy, of what was there then; not of what the one who writes has there.
    before = run.write(150, Q)
    run.write(160, R)
    assert run.ask([page(P)], 200, OTHER)[0] == Written(hit=before, task=TASK, copied=(copy,))


def test_zeros(run: Run) -> None:
    run.write(150, P)
    zeros = run.write(200, P, function="clear_page_rep")
    answer, _ = run.ask([page(P)], 300)
    assert answer.zeros and answer.hit == zeros


def test_nobody(run: Run) -> None:
    run.write(150, Q)
    assert run.ask([page(P)], 300)[0].hit is None
    # Such a page has no address to look for.
    run.replayed.clear()
    assert run.ask([page(None)], 300)[0].hit is None
    assert run.replayed == []


def test_as_in_a_file(run: Run) -> None:
    """For which nothing is made again."""
    answer, _ = run.ask([page(P, file="/lib/libc.so", offset=8, anonymous=False)], 300)
    assert (answer.hit, answer.file, answer.offset) == (None, "/lib/libc.so", 8)
    assert run.replayed == []
    # What is shared can be written to by anybody.
    wanted = run.write(200, P)
    shared = page(P, file="/dev/zero", shared=True, anonymous=False)
    assert run.ask([shared], 300)[0].hit == wanted


def test_before_the_job(run: Run) -> None:
    """What was there when it began nobody of it has written."""
    run.write(START - 1, P)
    answer, told = run.ask([page(P)], 300)
    assert (answer.hit, told) == (None, [])


def test_pieces_are_one_place(run: Run) -> None:
    """Pages that follow one another in the machine, too, are looked for as one."""
    pages = [Page(0x4FF8, 8, P + 0xFF8), Page(0x5000, 8, P + 0x1000), Page(0x6000, 8, R)]
    wanted = run.write(180, P + 0x1000)
    assert run.ask(pages, 300)[0].hit == wanted
    assert run.watch.physical == (Access(P + 0xFF8, 16), Access(R, 8))
