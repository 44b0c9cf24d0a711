"""Who wrote to memory: the last instruction before a time that did.

It is looked for by physical address, so that it is found whoever it was: another process that
shares the page, or the kernel, which has all of memory mapped a second time. A page that was copied
when it was first written to (after a fork, or of a file) is followed to where it came from.

A run is made again from its end towards its beginning, from one keyframe to the next, until there
is a write: nothing is made twice.
"""

from collections.abc import Callable, Sequence

import attrs

from rewind.inspect import InspectError
from rewind.inspect.answers import Page, Task
from rewind.inspect.worker import Inspector
from rewind.replay.timeline import Replayed, Timeline
from rewind.replay.watch import ACCESSES_MAX, Access, Hit, Watch, Watcher

SIZE_MAX = 64 << 10
"""Bytes that can be asked for."""
COPIES_MAX = 64
"""A page that was copied more often, by as many forks, is not followed further."""

_DIRECT_MAP = 0xFFFF_8880_0000_0000
_DIRECT_MAP_END = _DIRECT_MAP + (1 << 40)
_ZEROS = "clear_page"
"""How the names of the kernel's functions begin that make pages of zeros."""


@attrs.frozen(kw_only=True)
class Written:
    """Who wrote it; nobody, if there is no *hit*."""

    hit: Hit | None = None
    task: Task | None = None
    """The thread that the CPU was with, if it is one of the job's."""
    function: str | None = None
    """The kernel's function, if it was the kernel that wrote."""
    zeros: bool = False
    """It is the kernel's zeros: what is written to a page before a program gets it."""
    file: str | None = None
    """The file that it was loaded from, ..."""
    offset: int = 0
    """... and where in it it is."""
    copied: tuple[Hit, ...] = ()
    """Where the kernel has copied the page since then, the last time first."""


def who_wrote(
    timeline: Timeline,
    watcher: Watcher,
    inspector: Inspector,
    look_at: Callable[[Replayed], None],
    tell: Callable[[Task], None],
    pages: Sequence[Page],
    time: int,
    of: Task,
) -> Written:
    """Who wrote to *pages* of the thread *of* last before *time*.

    :param look_at: have *inspector* look at a machine.
    :param tell: called with the thread that wrote, when *inspector* looks at the machine before it.
    :param pages: as they are at *time*, not more than `SIZE_MAX` bytes.
    """
    copied: list[Hit] = []
    while True:
        if (file := _of_file(pages)) is not None:
            return Written(file=file.file, offset=file.offset, copied=tuple(copied))
        hit = last_write(timeline, watcher, _accesses(pages), time)
        if hit is None or hit.time < timeline.start:
            return Written(copied=tuple(copied))
        with timeline.machine(hit.time) as replayed:
            look_at(replayed)
            tasks = {one.number: one for one in inspector.tasks()}
            task = tasks.get(hit.tid)
            function = inspector.kernel_symbol(hit.pc) if hit.kernel else None
            zeros = function is not None and function.startswith(_ZEROS)
            before = None
            if hit.kernel and not zeros and len(copied) < COPIES_MAX:
                # Another process may write to it, and have it copied: by process_vm_writev, or a
                # debugger. Before its process was forked, it is of whoever writes.
                before = _before_copy(inspector, tasks.get(of.number, task), hit, pages)
            if before is None:
                if task is not None:
                    tell(task)
                return Written(
                    hit=hit, task=task, function=function, zeros=zeros, copied=tuple(copied)
                )
        copied.append(hit)
        pages, time = before, hit.time


def last_write(
    timeline: Timeline, watcher: Watcher, places: Sequence[Access], time: int
) -> Hit | None:
    """The last write to the physical *places* before *time*; None if there was none at all."""
    end = time
    while places:
        keyframe = timeline.before(end - 1) if end > timeline.start else None
        watcher.set(
            Watch(physical=tuple(places), before=end, until=end, stop=False),
        )
        with timeline.machine(
            max(end - 1, timeline.start),
            after=keyframe,
            arguments=watcher.arguments,
            pass_fds=watcher.pass_fds,
            stop=False,
        ) as replayed:
            replayed.stopped()
            hits = watcher.hits()
        if hits:
            return hits[-1]
        if keyframe is None:
            break
        end = keyframe.time
    return None


def _accesses(pages: Sequence[Page]) -> list[Access]:
    """What there is of *pages*, as little as possible."""
    found: list[Access] = []
    for page in pages:
        if page.physical is None:
            continue
        last = found[-1] if found else None
        if last is not None and last.address + last.size == page.physical:
            found[-1] = attrs.evolve(last, size=last.size + page.size)
        else:
            found.append(Access(page.physical, page.size))
    return found[:ACCESSES_MAX]


def _of_file(pages: Sequence[Page]) -> Page | None:
    """The first of *pages*, if all are as a file has them, and nothing that was written here."""
    if all(page.file is not None and not page.shared and not page.anonymous for page in pages):
        return pages[0]
    return None


def _before_copy(
    inspector: Inspector, task: Task | None, hit: Hit, pages: Sequence[Page]
) -> list[Page] | None:
    """If the kernel makes a copy of one of *task*'s *pages*, to put it in its place: as they were.

    The machine is stopped within it: the page is not in its place yet.
    """
    if task is None or not _DIRECT_MAP <= hit.address < _DIRECT_MAP_END:
        return None
    first, last = pages[0], pages[-1]
    try:
        before = inspector.pages(task.tid, first.address, last.address + last.size - first.address)
    except InspectError:
        # It has nothing there.
        return None
    target = (hit.address - _DIRECT_MAP) >> 12
    for old, new in zip(before, pages, strict=True):
        if new.physical is None or new.physical >> 12 != target or old.physical == new.physical:
            continue
        if old.physical is not None or old.file is not None:
            return before
    return None
