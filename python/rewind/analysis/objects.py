"""Two tasks on one kernel object, in an order that nothing forces: from a trace's records alone.

`Objects` is fed a run's records from the first on. It follows what descriptors and paths mean
(`rewind.analysis.descriptors`) and what the kernel has put in order (`rewind.analysis.clocks`), and
notes pairs of accesses by two tasks to one object, of which one changes it. Objects are

- names and files: who opens, looks up, reads or writes, against who makes, writes or removes;
- directories that are listed, against who changes what is in them;
- pipes: two writers, two readers, or a writer and the last reader's going;
- the descriptors of a process with threads: who opens and closes, against who forks;
- a child's status: its end, against a wait for it by a process that has other means to know;
- signals, against the setting of what they do; addresses of sockets, bound or connected to; and
  futex words: a wake-up that woke nobody, against who waits then.

What is read from a pipe comes after its first byte was written, and not after what came along with
it. Locks of files order nothing here: who is first is what may matter. Nor does a file that
somebody waits for by looking again and again.

Bounds: `OBJECTS` objects, of each the last `KEPT` accesses of each of the last `TASKS` tasks,
`ACCESSES` in all, and `PAIRS` pairs, of those that look the same one. What is left out is counted.
"""

import posixpath
from collections import deque
from collections.abc import Callable, Hashable, Iterable

import attrs

from rewind.analysis import render
from rewind.analysis.clocks import Actor, Who
from rewind.analysis.descriptors import (
    AT_FDCWD,
    CLONE_FILES,
    CLONE_FS,
    CLONE_THREAD,
    O_APPEND,
    O_CLOEXEC,
    O_CREAT,
    O_TRUNC,
    O_WRITE,
    File,
    Names,
    Open,
    Pipe,
    Table,
    Where,
)
from rewind.formats import trace
from rewind.formats.trace import (
    DATA,
    PATH,
    Detail,
    Enter,
    Exec,
    Exit,
    Fork,
    Record,
    SignalDelivered,
    SignalSent,
    TaskEnd,
    Wake,
    text,
)

OBJECTS = 1 << 16
TASKS = 8
KEPT = 8
ACCESSES = 1 << 18
PAIRS = 1 << 12
PLACES = 4
"""Pairs that look the same of which it is kept where they were."""
CHUNKS = 1 << 10
"""Writes to a pipe that nobody has read."""

STORE = "/nix/store/"
_OTHERS = ("/proc/", "/sys/", "/dev/")

ENOENT, EEXIST = -2, -17
SIGCHLD = 17
_WNOHANG = 1
_RT_SIGRETURN = 15
_AT_REMOVEDIR = 0x200
_MAP_SHARED, _PROT_WRITE = 3, 2
_FUTEX_WAITS = frozenset({0, 6, 9, 11, 13})
_FUTEX_WAKES = frozenset({1, 3, 4, 5, 7, 10})


@attrs.frozen(eq=False)
class Access:
    """What a task did to an object."""

    actor: Actor = attrs.field(repr=False)
    who: Who
    does: str
    """The call's name, or "end" where a process ends."""
    change: bool
    """Whether the object was another then."""
    step: int
    """Where the call begins."""
    end: int
    """Where it has returned."""
    time: int
    """When it began."""
    start: int = 0
    stop: int | None = None
    """The bytes of a file, up to *stop*; None: to its end."""


@attrs.define(eq=False)
class Pair:
    """Two accesses that could have come the other way round, as they were the first time."""

    kind: str
    """Of the object."""
    label: str
    """Which one."""
    a: Access
    b: Access
    before: Access | None
    """What *a*'s task had done to the object right before, if *b* can come in between."""
    count: int = 1
    others: "list[Pair]" = attrs.field(factory=list, repr=False)
    """Some more that look the same."""
    last: tuple[int, int] = (-1, -1)
    """The steps of the last one that was counted: a name and its file are one."""


@attrs.define(eq=False)
class _Object:
    kind: str
    label: str
    pasts: dict[Actor, deque[Access]] = attrs.field(factory=dict)
    changed: bool = False


def _either(a: Access, b: Access) -> bool:
    """Whether one of them changes what the other one has accessed."""
    if not (a.change or b.change):
        return False
    return (a.stop is None or b.start < a.stop) and (b.stop is None or a.start < b.stop)


def _one(a: Access, b: Access) -> bool:
    """Of objects of which two changes are no conflict."""
    return a.change != b.change


def _pipe(a: Access, b: Access) -> bool:
    if "close" in (a.does, b.does):
        return a.does != b.does and (a.change and b.change)
    return a.change == b.change


_CONFLICTS: dict[str, Callable[[Access, Access], bool]] = {
    "name": _either,
    "file": _either,
    "directory": _one,
    "pipe": _pipe,
    "descriptors": _one,
    "child": _one,
    "signal": _one,
    "address": _one,
    "futex": _one,
}
_SHOWN = {"name": "file"}
"""Kinds that are one to who reads of them."""


@attrs.define(eq=False)
class _Task:
    """A task that lives."""

    actor: Actor
    leader: Actor
    """The first of its process."""
    table: Table
    where: Where
    pending: Enter | None = None
    executed: bool = False
    """Whether it has executed a program itself."""
    in_handler: bool = False
    """Of SIGCHLD."""


@attrs.define(eq=False)
class _Call:
    """A call that has returned."""

    task: _Task
    enter: Enter
    exit: Exit

    @property
    def args(self) -> tuple[int, ...]:
        return self.enter.args

    @property
    def value(self) -> int:
        return self.exit.value

    @property
    def ok(self) -> bool:
        return self.exit.value >= 0

    def fd(self, argument: int = 0) -> Open | None:
        """What the descriptor is that it was given."""
        return self.task.table.get(self.enter.args[argument])

    def path(self, argument: int, dirfd: int | None = None) -> str | None:
        """The path that it was given, from the root on."""
        given = _detail(self.enter.details, argument, PATH)
        if not given:
            return None
        base = None
        if dirfd is not None and given[0] != "/":
            number = self.enter.args[dirfd]
            if number & 0xFFFFFFFF != AT_FDCWD & 0xFFFFFFFF:
                found = self.task.table.get(number)
                if found is None or not found.path:
                    return None
                base = found.path
        return self.task.where.resolve(given, base)


def _detail(details: Iterable[Detail], argument: int, kind: int) -> str | None:
    for detail in details:
        if detail.argument == argument and detail.kind == kind and not detail.cut:
            return text(detail.data)
    return None


class Objects:
    """Finds pairs while a run's records come."""

    def __init__(self) -> None:
        self.pairs: list[Pair] = []
        """In the order in which they came up."""
        self.lost_pairs = 0
        """Pairs for which there was no room."""
        self.lost_objects = 0
        """Accesses to objects for which there was none."""
        self.forgotten = 0
        """Tasks that gave way to others, of an object of many."""
        self.accesses = 0
        """How many there were."""
        self._kept = 0
        self._tasks: dict[int, _Task] = {}
        self._count = 0
        self._executions = 0
        self._ended: dict[int, tuple[list[Actor], Access]] = {}
        """By pid: the tasks of processes that nobody has waited for yet, and the end."""
        self._members: dict[Actor, list[Actor]] = {}
        """All tasks that a process has had."""
        self._own: dict[Actor, list[Hashable]] = {}
        """Objects that go with their process."""
        self._told: dict[tuple[int, int], dict[Actor, int]] = {}
        """Signals that were sent, by receiver and number: what the sender knew."""
        self._noted: dict[Actor, list[Actor]] = {}
        """By process: tasks of children that only its handler has taken note of."""
        self._background: set[Actor] = set()
        """Processes that are, as it seems, background jobs of a shell."""
        self._reapers: set[Actor] = set()
        """Processes that were told of a child's end by a signal."""
        self._objects: dict[Hashable, _Object] = {}
        self._index: dict[tuple[object, ...], Pair] = {}
        self._names = Names()
        self._made: set[str] = set()
        """Paths in the store that the run has made."""
        self._pipes = 0
        self._handlers: dict[str, Callable[..., None]] = {
            "enter": self._enter,
            "exit": self._exit,
            "fork": self._fork,
            "exec": self._exec,
            "end": self._end,
            "wake": self._wake,
            "sent": self._sent,
            "delivered": self._delivered,
        }

    @staticmethod
    def wants(kind: int, aux: int) -> bool:
        """Whether a record is looked at, by its type and aux: for `TraceReader.records`."""
        if kind in (trace.ENTER, trace.EXIT):
            return aux in _CALLS
        return kind not in (trace.MARK, trace.SWITCH, trace.PERTURBED)

    @property
    def incomplete(self) -> bool:
        """Whether there was more than there is room for."""
        return bool(self.lost_pairs or self.lost_objects or self.forgotten or self._names.lost)

    def feed(self, record: Record) -> None:
        """Take the next record into account; those that it does not want do no harm."""
        handler = self._handlers.get(record.type)
        if handler is not None:
            handler(record)

    # Tasks.

    def _task(self, record: Record) -> _Task | None:
        task = self._tasks.get(record.tid)
        if task is None and record.pid and not self._count:
            self._count = 1
            actor = Actor(Who(record.pid, record.tid, "", (), 0))
            # What the job was given: it is of no concern what they are.
            table = Table()
            for fd in range(3):
                table.put(fd, Open(None))
            task = self._tasks[record.tid] = _Task(actor, actor, table, Where())
            self._members[actor] = [actor]
        return task

    def _enter(self, record: Enter) -> None:
        task = self._task(record)
        if task is not None:
            task.pending = record
            if record.call == _RT_SIGRETURN:
                task.in_handler = False

    def _exit(self, record: Exit) -> None:
        task = self._task(record)
        if task is None or task.pending is None:
            return
        enter, task.pending = task.pending, None
        if enter.call == record.call and record.call in _CALLS:
            _CALLS[record.call](self, _Call(task, enter, record))

    def _fork(self, record: Fork) -> None:
        maker = self._task(record)
        if maker is None:
            return
        self._count += 1
        thread = bool(record.flags & CLONE_THREAD)
        was = maker.actor.who
        who = Who(record.child_pid, record.child_tid, was.program, was.arguments, was.exec_index)
        actor = Actor(who)
        actor.learn(maker.actor.tell(record.step))
        table = maker.table
        if record.flags & CLONE_FILES:
            table.users += 1
            table.threads = True
        else:
            if table.threads:
                self._descriptors(maker, self._made_by(maker, record, "fork", change=False))
            table = table.copy()
        where = maker.where if record.flags & CLONE_FS else Where(maker.where.path)
        leader = maker.leader if thread else actor
        self._tasks[record.child_tid] = _Task(actor, leader, table, where)
        self._members.setdefault(leader, []).append(actor)

    def _exec(self, record: Exec) -> None:
        task = self._task(record)
        others = [
            tid
            for tid, other in self._tasks.items()
            if other.actor.who.pid == record.pid and tid != record.tid
        ]
        for tid in others:
            gone = self._tasks.pop(tid)
            if task is None:
                task = self._tasks[record.tid] = gone
            else:
                gone.table.users -= 1
        if task is None:
            return
        self._executions += 1
        if record.path:
            path = task.where.resolve(record.path)
            access = self._made_by(task, record, "execve", change=False)
            self._path(path, access)
            self._content(path, access)
        task.executed = True
        task.actor.who = Who(
            record.pid, record.tid, record.path, record.arguments, self._executions
        )
        if task.table.users > 1:
            # Others keep what they have.
            task.table.users -= 1
            task.table = task.table.copy()
        for what in task.table.executed():
            self._closed(task, what, record)

    def _end(self, record: TaskEnd) -> None:
        task = self._tasks.pop(record.tid, None)
        if task is None:
            return
        task.table.users -= 1
        if not task.table.users:
            for what in task.table.ended():
                self._closed(task, what, record)
        if record.last:
            leader = task.leader
            members = self._members.pop(leader, [leader])
            for child in self._noted.pop(leader, ()):
                task.actor.join(child, record.step)
            end = self._made_by(task, record, "end", change=True)
            self._ended[record.pid] = (members, end)
            self._access("child", leader, str(record.pid), end)
            for key in self._own.pop(leader, ()):
                self._drop(key)
            self._reapers.discard(leader)

    def _wake(self, record: Wake) -> None:
        maker, woken = self._tasks.get(record.tid), self._tasks.get(record.woken_tid)
        if maker is None or woken is None or record.interrupt or maker is woken:
            return
        # Who was kept waiting by a lock of the kernel's, or a file's, was not second by need.
        if woken.pending is None or woken.pending.call not in _UNFORCED:
            woken.actor.learn(maker.actor.tell(record.step))

    def _sent(self, record: SignalSent) -> None:
        task = self._tasks.get(record.tid)
        if task is None:
            return
        self._told[record.receiver_pid, record.signal] = task.actor.tell(record.step)
        receiver = self._tasks.get(record.receiver_tid) or self._tasks.get(record.receiver_pid)
        if record.code <= 0 and receiver is not None and receiver.leader is not task.leader:
            access = self._made_by(task, record, "kill", change=True)
            self._signal(receiver, record.signal, access)

    def _delivered(self, record: SignalDelivered) -> None:
        task = self._tasks.get(record.tid)
        if task is None:
            return
        told = self._told.pop((record.pid, record.signal), None)
        if told is not None:
            task.actor.learn(told)
        if record.signal == SIGCHLD:
            self._reapers.add(task.leader)
            task.in_handler = True

    # Accesses.

    def _made_by(self, task: _Task, record: Record, does: str, *, change: bool) -> Access:
        """An access by what *task* does at *record*, in the middle of a call or in none."""
        call = task.pending
        step, time = (call.step, call.time) if call is not None else (record.step, record.time)
        return Access(task.actor, task.actor.who, does, change, step, record.step, time)

    def of(self, call: _Call, *, change: bool, start: int = 0, stop: int | None = None) -> Access:
        """The access that *call* is."""
        return Access(
            call.task.actor,
            call.task.actor.who,
            render.CALLS[call.enter.call].name,
            change,
            call.enter.step,
            call.exit.step,
            call.enter.time,
            start,
            stop,
        )

    def _access(self, kind: str, key: Hashable, label: str, access: Access) -> None:
        """*access* has come to pass."""
        self.accesses += 1
        found = self._objects.get((kind, key))
        if found is None:
            if len(self._objects) >= OBJECTS:
                self.lost_objects += 1
                return
            found = self._objects[kind, key] = _Object(kind, label)
        found.changed |= access.change
        if found.changed or kind == "pipe":
            for actor, past in found.pasts.items():
                if actor is not access.actor:
                    self._compare(found, actor, past, access)
        self._keep(found, access)

    def _compare(self, found: _Object, actor: Actor, past: deque[Access], access: Access) -> None:
        conflict = _CONFLICTS[found.kind]
        for place in range(len(past) - 1, -1, -1):
            earlier = past[place]
            if access.actor.knows(actor, earlier.end):
                # And so all that was before it.
                return
            if conflict(earlier, access):
                before = past[place - 1] if place else None
                if before is not None and access.actor.knows(actor, before.end + 1):
                    # It needs what came in between: it cannot be there itself.
                    before = None
                self._pair(found, earlier, access, before)

    def _keep(self, found: _Object, access: Access) -> None:
        past = found.pasts.get(access.actor)
        if past is None:
            if self._kept >= ACCESSES:
                self.lost_objects += 1
                return
            if len(found.pasts) >= TASKS:
                # Of whom all is known first.
                gone = next(
                    (actor for actor in found.pasts if access.actor.knows(actor, access.step)),
                    None,
                )
                if gone is None:
                    gone = next(iter(found.pasts))
                    self.forgotten += 1
                self._kept -= len(found.pasts.pop(gone))
            past = found.pasts[access.actor] = deque(maxlen=KEPT)
        self._kept += len(past) < KEPT
        past.append(access)

    def _drop(self, key: Hashable) -> None:
        gone = self._objects.pop(key, None)
        if gone is not None:
            self._kept -= sum(map(len, gone.pasts.values()))

    def _pair(self, found: _Object, a: Access, b: Access, before: Access | None) -> None:
        kind = _SHOWN.get(found.kind, found.kind)
        sides = ((s.who.program, s.who.arguments, s.does, s.change) for s in (a, b))
        key = (kind, found.label, *sides)
        first = self._index.get(key)
        if first is None:
            if len(self.pairs) >= PAIRS:
                self.lost_pairs += 1
                return
            first = self._index[key] = Pair(kind, found.label, a, b, before)
            first.last = (a.step, b.step)
            self.pairs.append(first)
            return
        if first.last != (a.step, b.step):
            first.last = (a.step, b.step)
            first.count += 1
            if len(first.others) < PLACES:
                first.others.append(Pair(kind, found.label, a, b, before))
        elif first.before is None:
            first.before = before

    # Names and files.

    def _is_of_concern(self, path: str) -> bool:
        if path.startswith(STORE):
            return path.split("/", 4)[3] in self._made
        return not path.startswith(_OTHERS) or path.startswith("/dev/shm/")

    def _makes(self, path: str) -> None:
        """Something is made at *path*: what is in the store is the job's own then."""
        if path.startswith(STORE):
            self._made.add(path.split("/", 4)[3])

    def _path(self, path: str, access: Access) -> None:
        """*access* to the name *path*."""
        if self._is_of_concern(path):
            self._access("name", path, path, access)

    def _content(self, path: str, access: Access) -> None:
        """*access* to the file *path*, which there is."""
        if self._is_of_concern(path):
            file = self._names.file(path)
            self._access("file", file, file.path, access)

    def _file(self, file: File, access: Access) -> None:
        self._access("file", file, file.path, access)

    def _entry(self, path: str, access: Access) -> None:
        """*access* has made or removed the name *path*: its directory was changed."""
        self._path(path, access)
        directory = posixpath.dirname(path)
        if self._is_of_concern(directory):
            self._access("directory", directory, directory, access)
            # Without it there would be no name either.
            self._access("name", directory, directory, attrs.evolve(access, change=False))

    def _missing(self, path: str, access: Access) -> None:
        """There was no *path*; or no directory that it could have been in."""
        self._path(path, access)
        directory = posixpath.dirname(path)
        if self._is_of_concern(path) and self._names.is_there(directory) is not True:
            self._access("name", directory, directory, access)

    def look(self, call: _Call, path: str | None) -> None:
        """A call that looks at *path*."""
        if path is None or not self._is_of_concern(path):
            return
        access = self.of(call, change=False)
        if call.ok:
            self._path(path, access)
            self._content(path, access)
        elif call.value == ENOENT:
            self._names.gone(path)
            self._missing(path, access)

    def open(self, call: _Call, path: str | None, flags: int) -> None:
        """A call that opens *path*."""
        if path == "/dev/null" and not flags & O_WRITE and not call.task.executed:
            self._background.add(call.task.leader)
        cloexec = bool(flags & O_CLOEXEC)
        made = bool(flags & O_CREAT)
        if call.ok and path is not None and made:
            self._makes(path)
        if path is None or not self._is_of_concern(path):
            if call.ok:
                # A directory may lead to what is of concern.
                self.opened(call, Open(None, flags, path or ""), cloexec=cloexec)
            return
        if not call.ok:
            if call.value == ENOENT:
                if not made:
                    self._names.gone(path)
                self._missing(path, self.of(call, change=False))
            else:
                self._path(path, self.of(call, change=False))
            return
        made = made and self._names.is_there(path) is not True
        if made:
            self._entry(path, self.of(call, change=True))
        else:
            self._path(path, self.of(call, change=False))
        what = Open(self._names.file(path), flags, path)
        if made or flags & O_TRUNC:
            self._content(path, self.of(call, change=True))
        self.opened(call, what, cloexec=cloexec)

    def opened(self, call: _Call, what: Open, *, cloexec: bool, fd: int | None = None) -> None:
        """*call* has made a descriptor of *what*."""
        task = call.task
        old = task.table.put(call.value if fd is None else fd, what, cloexec=cloexec)
        if old is not None:
            self._closed(task, old, call.exit)
        if what.writable and task.table.threads:
            self._descriptors(task, self.of(call, change=True))

    def close(self, call: _Call, fd: int) -> None:
        """*call* has closed *fd*."""
        task = call.task
        what = task.table.get(fd)
        if what is None:
            return
        if what.writable and task.table.threads:
            self._descriptors(task, self.of(call, change=True))
        gone = task.table.drop(fd)
        if gone is not None:
            task.pending = call.enter
            self._closed(task, gone, call.exit)
            task.pending = None

    def _descriptors(self, task: _Task, access: Access) -> None:
        key: Hashable = ("descriptors", task.table)
        if key not in self._objects:
            self._own.setdefault(task.leader, []).append(key)
        self._access("descriptors", task.table, str(task.leader.who.pid), access)

    def _closed(self, task: _Task, what: Open, record: Record) -> None:
        """*task* has closed a descriptor of *what*."""
        pipe = what.target
        if not isinstance(pipe, Pipe):
            return
        if what.end in ("write", "both"):
            # Who reads to the end is after all who could have written.
            pipe.left |= task.actor.tell(record.step)
        if what.uses:
            return
        if what.end in ("read", "both"):
            self._access(
                "pipe", pipe, str(pipe.number), self._made_by(task, record, "close", change=True)
            )
        if what.end in ("write", "both"):
            _write_chunk(pipe, 0, pipe.left)

    def pipe(self, call: _Call, kind: str, flags: int) -> None:
        """A call that has made a pipe, or a pair of sockets."""
        if not call.ok:
            return
        self._pipes += 1
        pipe = Pipe(self._pipes, kind)
        ends = ("read", "write") if kind == "pipe" else ("both", "both")
        for fd, end in zip(call.task.table.free(2), ends, strict=True):
            self.opened(call, Open(pipe, end=end), cloexec=bool(flags & O_CLOEXEC), fd=fd)

    def read(self, call: _Call, what: Open | None, offset: int | None = None) -> None:
        """A call that has read from *what*, at *offset* or where it was."""
        if what is None or not call.ok:
            return
        target = what.target
        if isinstance(target, File):
            start = what.offset if offset is None else offset
            stop = start + call.value if call.value else None
            self._file(target, self.of(call, change=False, start=start, stop=stop))
            if offset is None:
                what.offset += call.value
        elif target is not None:
            known = _read_chunk(target, call.value)
            if known is not None:
                call.task.actor.learn(known)
            if target.kind == "pipe":
                self._access("pipe", target, str(target.number), self.of(call, change=False))

    def write(self, call: _Call, what: Open | None, offset: int | None = None) -> None:
        """A call that has written to *what*, at *offset* or where it was."""
        if what is None:
            return
        target = what.target
        if isinstance(target, File) and call.ok:
            start = what.offset if offset is None else offset
            stop: int | None = start + call.value
            if what.flags & O_APPEND or what.shared:
                # Where it comes depends on who was there before.
                start, stop = 0, None
            self._file(target, self.of(call, change=True, start=start, stop=stop))
            if offset is None:
                what.offset += call.value
        elif isinstance(target, Pipe):
            _write_chunk(target, max(call.value, 0), call.task.actor.tell(call.exit.step))
            if target.kind == "pipe":
                self._access("pipe", target, str(target.number), self.of(call, change=True))

    def change(self, call: _Call, what: Open | None) -> None:
        """A call that has changed the file *what*."""
        if call.ok and what is not None and isinstance(what.target, File):
            self._file(what.target, self.of(call, change=True))

    def change_path(self, call: _Call, path: str | None) -> None:
        """A call that has changed the file *path*."""
        if path is None or not call.ok:
            self.look(call, path)
        elif self._is_of_concern(path):
            self._path(path, self.of(call, change=False))
            self._content(path, self.of(call, change=True))

    def make(self, call: _Call, path: str | None) -> None:
        """A call that makes *path*."""
        if path is None:
            return
        if call.ok:
            self._makes(path)
            if self._is_of_concern(path):
                self._entry(path, self.of(call, change=True))
                self._names.link(path, File(path))
        elif self._is_of_concern(path):
            access = self.of(call, change=False)
            (self._missing if call.value == ENOENT else self._path)(path, access)

    def remove(self, call: _Call, path: str | None) -> None:
        """A call that removes *path*."""
        if path is None or not self._is_of_concern(path):
            return
        if not call.ok:
            self.look(call, path)
            return
        self._entry(path, self.of(call, change=True))
        self._names.gone(path)

    def rename(self, call: _Call, old: str | None, new: str | None, *, keep: bool = False) -> None:
        """A call that gives *old* the name *new*; *keep*: besides the other one."""
        if old is None or new is None or not call.ok:
            self.look(call, old)
            if not call.ok and call.value == EEXIST and new is not None:
                self._path(new, self.of(call, change=False))
            return
        self._makes(new)
        change = self.of(call, change=True)
        file = self._names.file(old)
        if self._is_of_concern(old):
            if keep:
                self._path(old, self.of(call, change=False))
            else:
                self._entry(old, change)
                self._names.gone(old)
        if self._is_of_concern(new):
            self._entry(new, change)
            self._names.link(new, file)

    def listed(self, call: _Call) -> None:
        """A call that has listed a directory."""
        what = call.fd()
        if what is not None and what.path and call.ok and self._is_of_concern(what.path):
            self._access("directory", what.path, what.path, self.of(call, change=False))

    # The rest.

    def wait(self, call: _Call, pid: int, *, poll: bool) -> None:
        """A call that waits for a child; *pid* is whom it has found, or looked for."""
        found = self._ended.get(pid)
        actor = call.task.actor
        wanted = call.args[0] & 0x7FFFFFFF == pid
        # A shell's handler takes note of whatever has ended: of what it was about to wait for, and
        # of background jobs, which have no input.
        background = found is not None and found[0][0] in self._background
        forced = wanted or not poll or not call.task.in_handler or not background
        if wanted and (poll or call.task.leader in self._reapers):
            access = self.of(call, change=False)
            if found is None:
                leader = next(
                    (t.leader for t in self._tasks.values() if t.actor.who.pid == pid), None
                )
                if leader is not None:
                    self._access("child", leader, str(pid), access)
            else:
                leader, end = found[0][0], found[1]
                if end.step > access.step:
                    self._pair(_Object("child", str(pid)), access, end, None)
                else:
                    self._access("child", leader, str(pid), access)
        if found is not None and call.value >= 0:
            del self._ended[pid]
            if forced:
                for member in found[0]:
                    actor.join(member, call.exit.step)
            else:
                self._noted.setdefault(call.task.leader, []).extend(found[0])
            self._background.discard(found[0][0])
            self._drop(("child", found[0][0]))

    def _signal(self, receiver: _Task, signal: int, access: Access) -> None:
        key = (receiver.leader, signal)
        if ("signal", key) not in self._objects:
            self._own.setdefault(receiver.leader, []).append(("signal", key))
        label = f"{render.signal_name(signal)} of {receiver.leader.who.pid}"
        self._access("signal", key, label, access)

    def handles(self, call: _Call) -> None:
        """A call that says what a signal does."""
        if call.args[1] and call.ok:
            self._signal(call.task, call.args[0], self.of(call, change=False))

    def address(self, call: _Call, *, change: bool) -> None:
        """A call that has to do with a socket's address."""
        data = next((d.data for d in call.enter.details if d.kind == DATA), None)
        if data and not (change and not call.ok):
            self._access("address", data, render.address(data), self.of(call, change=change))

    def futex(self, call: _Call) -> None:
        """A call that waits at a word of memory, or wakes who does."""
        command = call.args[1] & 0x7F
        wakes = command in _FUTEX_WAKES
        if not call.ok or not (wakes or command in _FUTEX_WAITS) or (wakes and call.value):
            return
        leader = call.task.leader
        key = (leader, call.args[0])
        if ("futex", key) not in self._objects:
            self._own.setdefault(leader, []).append(("futex", key))
        label = f"{call.args[0]:#x} of {leader.who.pid}"
        self._access("futex", key, label, self.of(call, change=wakes))


def _write_chunk(pipe: Pipe, size: int, known: dict[Actor, int]) -> None:
    if len(pipe.chunks) >= CHUNKS and size:
        # As if they were one: who reads of it is after both.
        pipe.chunks[-1] = (pipe.chunks[-1][0] + size, known)
    else:
        pipe.chunks.append((size, known))


def _read_chunk(pipe: Pipe, size: int) -> dict[Actor, int] | None:
    """*size* bytes are read: what was known by who has written the first of them."""
    found: dict[Actor, int] | None = None
    while pipe.chunks:
        there, known = pipe.chunks[0]
        found = known if found is None else found
        if not size or there > size:
            pipe.chunks[0] = (there - size, known)
            break
        size -= there
        pipe.chunks.popleft()
        if not size:
            break
    return found


def _dup(objects: Objects, call: _Call, fd: int, cloexec: bool) -> None:
    what = call.fd()
    if what is not None and call.ok and call.args[0] & 0xFFFFFFFF != fd:
        objects.opened(call, what, cloexec=cloexec, fd=fd)


def _fcntl(objects: Objects, call: _Call) -> None:
    command = call.args[1]
    if command in (0, 1030):  # F_DUPFD, F_DUPFD_CLOEXEC
        _dup(objects, call, call.value, command == 1030)
    elif command == 2 and call.ok:  # F_SETFD
        what = call.fd()
        if what is not None:
            call.task.table.fds[call.args[0] & 0xFFFFFFFF] = (what, bool(call.args[2] & 1))


def _lseek(objects: Objects, call: _Call) -> None:
    what = call.fd()
    if what is not None and call.ok:
        what.offset = call.value


def _chdir(objects: Objects, call: _Call) -> None:
    path = call.path(0)
    if path is not None and call.ok:
        call.task.where.path = path


def _fchdir(objects: Objects, call: _Call) -> None:
    what = call.fd()
    if what is not None and what.path and call.ok:
        call.task.where.path = what.path


def _getcwd(objects: Objects, call: _Call) -> None:
    for detail in call.exit.details:
        if call.ok and detail.argument == 0 and not detail.cut:
            path = text(detail.data.rstrip(b"\0"))
            if path.startswith("/"):
                call.task.where.path = path


def _stat_at(objects: Objects, call: _Call) -> None:
    if _detail(call.enter.details, 1, PATH) == "":
        _fstat(objects, call)
    else:
        objects.look(call, call.path(1, 0))


def _fstat(objects: Objects, call: _Call) -> None:
    what = call.fd()
    if what is not None and isinstance(what.target, File) and call.ok:
        objects._file(what.target, objects.of(call, change=False))


def _mmap(objects: Objects, call: _Call) -> None:
    what = call.fd(4) if call.args[4] & 0xFFFFFFFF != 0xFFFFFFFF else None
    if what is not None and isinstance(what.target, File):
        changes = bool(call.args[2] & _PROT_WRITE) and call.args[3] & _MAP_SHARED in (1, 3)
        objects._file(what.target, objects.of(call, change=changes))


def _copied(objects: Objects, call: _Call, source: int, target: int) -> None:
    objects.read(call, call.fd(source))
    objects.write(call, call.fd(target))


def _wait4(objects: Objects, call: _Call) -> None:
    poll = bool(call.args[2] & _WNOHANG)
    objects.wait(call, call.value if call.value > 0 else call.args[0] & 0x7FFFFFFF, poll=poll)


def _waitid(objects: Objects, call: _Call) -> None:
    if call.args[0] == 1 and not call.args[3] & 0x1000000:  # P_PID, not WNOWAIT
        poll = bool(call.args[3] & _WNOHANG)
        objects.wait(call, call.args[1] & 0x7FFFFFFF, poll=poll)


def _execve(objects: Objects, call: _Call) -> None:
    if not call.ok:
        objects.look(call, call.path(0))


_Handler = Callable[[Objects, _Call], None]

_CALLS: dict[int, _Handler] = {
    0: lambda o, c: o.read(c, c.fd()),
    1: lambda o, c: o.write(c, c.fd()),
    2: lambda o, c: o.open(c, c.path(0), c.args[1]),
    3: lambda o, c: o.close(c, c.args[0]),
    4: lambda o, c: o.look(c, c.path(0)),
    5: _fstat,
    6: lambda o, c: o.look(c, c.path(0)),
    8: _lseek,
    9: _mmap,
    13: lambda o, c: o.handles(c),
    _RT_SIGRETURN: lambda o, c: None,
    17: lambda o, c: o.read(c, c.fd(), c.args[3]),
    18: lambda o, c: o.write(c, c.fd(), c.args[3]),
    19: lambda o, c: o.read(c, c.fd()),
    20: lambda o, c: o.write(c, c.fd()),
    21: lambda o, c: o.look(c, c.path(0)),
    22: lambda o, c: o.pipe(c, "pipe", 0),
    32: lambda o, c: _dup(o, c, c.value, False),
    33: lambda o, c: _dup(o, c, c.value, False),
    40: lambda o, c: _copied(o, c, 1, 0),
    41: lambda o, c: o.opened(c, Open(None), cloexec=bool(c.args[1] & O_CLOEXEC)) if c.ok else None,
    42: lambda o, c: o.address(c, change=False),
    43: lambda o, c: o.opened(c, Open(None), cloexec=False) if c.ok else None,
    49: lambda o, c: o.address(c, change=True),
    53: lambda o, c: o.pipe(c, "sockets", c.args[1]),
    59: _execve,
    61: _wait4,
    72: _fcntl,
    73: lambda o, c: None,  # flock: who waits for it
    76: lambda o, c: o.change_path(c, c.path(0)),
    77: lambda o, c: o.change(c, c.fd()),
    78: lambda o, c: o.listed(c),
    79: _getcwd,
    80: _chdir,
    81: _fchdir,
    82: lambda o, c: o.rename(c, c.path(0), c.path(1)),
    83: lambda o, c: o.make(c, c.path(0)),
    84: lambda o, c: o.remove(c, c.path(0)),
    85: lambda o, c: o.open(c, c.path(0), 1 | O_CREAT | O_TRUNC),
    86: lambda o, c: o.rename(c, c.path(0), c.path(1), keep=True),
    87: lambda o, c: o.remove(c, c.path(0)),
    88: lambda o, c: o.make(c, c.path(1)),
    89: lambda o, c: o.look(c, c.path(0)),
    90: lambda o, c: o.change_path(c, c.path(0)),
    91: lambda o, c: o.change(c, c.fd()),
    133: lambda o, c: o.make(c, c.path(0)),
    202: lambda o, c: o.futex(c),
    217: lambda o, c: o.listed(c),
    232: lambda o, c: None,
    247: _waitid,
    257: lambda o, c: o.open(c, c.path(1, 0), c.args[2]),
    258: lambda o, c: o.make(c, c.path(1, 0)),
    259: lambda o, c: o.make(c, c.path(1, 0)),
    262: _stat_at,
    263: lambda o, c: o.remove(c, c.path(1, 0)),
    264: lambda o, c: o.rename(c, c.path(1, 0), c.path(3, 2)),
    265: lambda o, c: o.rename(c, c.path(1, 0), c.path(3, 2), keep=True),
    266: lambda o, c: o.make(c, c.path(2, 1)),
    267: lambda o, c: o.look(c, c.path(1, 0)),
    268: lambda o, c: o.change_path(c, c.path(1, 0)),
    269: lambda o, c: o.look(c, c.path(1, 0)),
    285: lambda o, c: o.change(c, c.fd()),
    288: lambda o, c: (
        o.opened(c, Open(None), cloexec=bool(c.args[3] & O_CLOEXEC)) if c.ok else None
    ),
    292: lambda o, c: _dup(o, c, c.value, bool(c.args[2] & O_CLOEXEC)),
    293: lambda o, c: o.pipe(c, "pipe", c.args[1]),
    316: lambda o, c: o.rename(c, c.path(1, 0), c.path(3, 2)),
    326: lambda o, c: _copied(o, c, 0, 2),
    332: _stat_at,
    439: lambda o, c: o.look(c, c.path(1, 0)),
}
"""What is done at the return of calls, by number."""

_UNFORCED = frozenset(_CALLS) - {0, 1, 19, 20, 40, 42, 43, 61, 202, 232, 247, 288}
"""Calls that wait for locks of the kernel's, or of files, if they wait."""
