"""What a thread that is off the CPU waits for, from the kernel's structures."""

import itertools
import re
import stat
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from drgn import cast
from drgn.helpers.linux.fs import fget, for_each_file
from drgn.helpers.linux.list import list_for_each_entry
from drgn.helpers.linux.rbtree import rbtree_inorder_for_each_entry

from rewind.inspect.answers import Wait
from rewind.inspect.files import File, of_file
from rewind.inspect.kernel import Kernel
from rewind.inspect.memory import Fault

KERNEL_FRAMES_MAX = 64
FILES_MAX = 1 << 16
"""Open files of a process, of which more are not looked at."""
POLLED_MAX = 64
LOCKS_MAX = 1 << 10
"""Locks of a file of which more are not looked at."""

_CALL = re.compile(r"__x64_sys_(?:new)?(\w+)")
_IN_CALL = "do_syscall_x64"
"""The function that a system call is made by, until it returns."""
_PERTURBED = "lose_cpu"
"""The driver's function in which a task sleeps that a schedule made lose the CPU."""

_FUTEX_COMMAND = 0x7F
_FUTEX_PRIVATE = 0x80
_FUTEX_WAIT_BITSET = 9
_FUTEX_LOCKS = frozenset({6, 11, 13})
"""FUTEX_LOCK_PI, WAIT_REQUEUE_PI and LOCK_PI2: the value has the owner's number in it."""
_FUTEX_TID = 0x3FFF_FFFF
_FUTEX_WAITERS = 0x8000_0000
"""In the value of locks that have the owner's number: robust mutexes, and those of the kernel."""
_FUTEX_WAITS = frozenset({0, _FUTEX_WAIT_BITSET})
_MUTEX = struct.Struct("<IIIIi")
"""glibc's pthread_mutex_t on x86_64: lock, count, owner, users, kind."""
_MUTEX_CONTENDED = 2

_FCNTL_WAITS = frozenset({7, 38})
"""F_SETLKW and F_OFD_SETLKW."""
_FL_POSIX, _FL_OFDLCK = 1, 1 << 10

_MODE_READ, _MODE_WRITE = 1, 2

Read = Callable[[int, int], bytes]


def kernel_functions(kernel: Kernel, task: Any) -> list[str]:
    """The functions that *task*, which is off the CPU, is in; the innermost first."""
    trace = kernel.program.stack_trace(task)
    return [frame.name for frame in itertools.islice(trace, KERNEL_FRAMES_MAX)]


class Waits:
    """Tells what threads wait for. *tasks* are those of the job, by their numbers there."""

    def __init__(self, kernel: Kernel, tasks: Mapping[int, Any]) -> None:
        self._kernel = kernel
        self._tasks = tasks
        self._numbers = {int(task): tid for tid, task in tasks.items()}

    def of(self, task: Any, registers: Mapping[str, int], read: Read) -> Wait:
        """What *task* waits for, which has the *registers* (by the kernel's names for them).

        :param read: reads its memory, or raises `Fault`.
        """
        functions = kernel_functions(self._kernel, task)
        if _PERTURBED in functions:
            return Wait(what="for its turn, which the schedule took")
        if _IN_CALL not in functions:
            return Wait(what="for the kernel")
        call = self._call(registers["orig_ax"])
        arguments = tuple(registers[name] for name in ("di", "si", "dx", "r10", "r8", "r9"))
        wait = Wait(call=call, arguments=arguments)
        describe = _KINDS.get(call)
        return wait if describe is None else describe(self, task, wait, read)

    def _call(self, number: int) -> str:
        """The name of the system call *number*."""
        program = self._kernel.program
        table = self._kernel.variable("sys_call_table")
        if number < len(table):
            found = _CALL.fullmatch(program.symbol(int(table[number])).name)
            if found:
                return found[1]
        return f"call {number}"

    # --- kinds of calls

    def _futex(self, task: Any, wait: Wait, read: Read) -> Wait:
        address, operation, expected = wait.arguments[:3]
        expected &= 0xFFFF_FFFF
        try:
            (value,) = struct.unpack("<I", read(address, 4))
        except Fault:
            return wait.evolve(what=f"for a futex at {address:#x}", address=address)
        wait = wait.evolve(what=f"for a futex at {address:#x}, which is {value}", address=address)
        siblings = self._siblings(task)
        command = operation & _FUTEX_COMMAND
        if command in _FUTEX_LOCKS and value & _FUTEX_TID in siblings:
            return _held(wait, "lock", value & _FUTEX_TID)
        if command not in _FUTEX_WAITS:
            return wait
        if value & _FUTEX_WAITERS and value & _FUTEX_TID in siblings:
            return _held(wait, "mutex", value & _FUTEX_TID)
        # A thread's own number is where the kernel writes 0 when it ends, and wakes who waits for
        # that in any process.
        end = command == _FUTEX_WAIT_BITSET and not operation & _FUTEX_PRIVATE
        if value == expected and value in siblings and (end or value > _MUTEX_CONTENDED):
            return wait.evolve(what=f"for the end of thread {value}", who=(value,))
        if value == _MUTEX_CONTENDED:
            try:
                _, _, owner, users, kind = _MUTEX.unpack(read(address, _MUTEX.size))
            except Fault:
                return wait
            if owner in siblings and users and 0 <= kind < 1 << 10:
                return wait.evolve(
                    what=f"for a mutex at {address:#x}, which {owner} has", who=(owner,)
                )
        return wait

    def _child(self, task: Any, wait: Wait, read: Read) -> Wait:
        children = []
        for thread in self._threads(task):
            for child in list_for_each_entry(
                "struct task_struct", thread.children.address_of_(), "sibling"
            ):
                number = self._numbers.get(int(child))
                if number is not None:
                    children.append(number)
        wanted = wait.arguments[0] if wait.call == "wait4" else wait.arguments[1]
        if wanted in children:
            children = [wanted]
        what = "for the end of " + (", ".join(map(str, sorted(children))) or "a child")
        return wait.evolve(what=what, who=tuple(sorted(children)))

    def _file(self, task: Any, wait: Wait, read: Read) -> Wait:
        number = wait.arguments[0] & 0xFFFF_FFFF
        verb = _VERBS.get(wait.call, "to read from")
        return self._open(task, wait, number, verb)

    def _lock(self, task: Any, wait: Wait, read: Read) -> Wait:
        """flock(2), or fcntl(2) with one of its two commands that wait."""
        if wait.call == "fcntl" and wait.arguments[1] & 0xFFFF_FFFF not in _FCNTL_WAITS:
            return wait
        file = _file_at(task, wait.arguments[0] & 0xFFFF_FFFF)
        if file is None:
            return wait
        wait = wait.evolve(what=f"for a lock of {_name(of_file(file))}")
        context = file.f_inode.i_flctx
        if not context:
            return wait
        locks = context.flc_flock if wait.call == "flock" else context.flc_posix
        # One of fcntl's is a process's, and others are an open file's.
        mine = (int(task.tgid), int(file))
        owners: set[int] = set()
        for lock in _locks(locks, "flc_list"):
            if any(_owner(blocked) in mine for blocked in _blocked(lock)):
                owners |= self._owners(lock)
        who = tuple(sorted(owners))
        has = f", which {', '.join(map(str, who))} has" if who else ""
        return wait.evolve(what=wait.what + has, who=who)

    def _owners(self, lock: Any) -> set[int]:
        """The process that took *lock*; if that has ended those that have its file open."""
        pid = int(lock.flc_pid)
        found = {tid for tid, task in self._tasks.items() if int(task.pid) == pid}
        return found or set(self._holders(lambda file: int(file) == int(lock.flc_file)))

    def _open(self, task: Any, wait: Wait, number: int, verb: str) -> Wait:
        file = _file_at(task, number)
        if file is None:
            return wait.evolve(what=f"{verb} {number}")
        what, who = self._other_end(file, verb == "to read from")
        return wait.evolve(what=f"{verb} {what}", who=who)

    def _other_end(self, file: Any, reads: bool) -> tuple[str, tuple[int, ...]]:
        """What *file* is in words, and who has the other end open if it is a pipe."""
        found = of_file(file)
        if not stat.S_ISFIFO(found.mode):
            return _name(found), ()
        wanted = _MODE_WRITE if reads else _MODE_READ
        inode = int(found.inode)
        others = tuple(
            sorted(
                self._holders(
                    lambda file: int(file.f_inode) == inode and bool(int(file.f_mode) & wanted)
                )
            )
        )
        kind = "write to" if reads else "read"
        ends = f"which {', '.join(map(str, others))} can {kind}"
        return f"{_name(found)}, {ends if others else f'which nobody can {kind}'}", others

    def _holders(self, is_wanted: Callable[[Any], bool]) -> Iterator[int]:
        """The processes that have a file open that *is_wanted*."""
        seen = set()
        for task in self._tasks.values():
            files = int(task.files)
            if not files or files in seen:
                continue
            seen.add(files)
            for count, (_, file) in enumerate(for_each_file(task)):
                if count >= FILES_MAX:
                    break
                if is_wanted(file):
                    yield self._numbers.get(int(task.group_leader), self._numbers[int(task)])
                    break

    def _poll(self, task: Any, wait: Wait, read: Read) -> Wait:
        address, count = wait.arguments[0], min(wait.arguments[1], POLLED_MAX)
        try:
            data = read(address, 8 * count)
        except Fault:
            return wait
        names = []
        who: set[int] = set()
        for number, events in struct.iter_unpack("<iI", data):
            file = _file_at(task, number)
            if file is not None:
                what, others = self._other_end(file, bool(events & 1))
                names.append(what)
                who |= set(others)
        return wait.evolve(
            what="for " + ("; ".join(names) or "time to pass"), who=tuple(sorted(who))
        )

    def _epoll(self, task: Any, wait: Wait, read: Read) -> Wait:
        file = _file_at(task, wait.arguments[0])
        if file is None or of_file(file).file_system != "anon_inodefs":
            return wait
        poll = cast("struct eventpoll *", file.private_data)
        names = []
        who: set[int] = set()
        items = rbtree_inorder_for_each_entry(
            "struct epitem", poll.rbr.rb_root.address_of_(), "rbn"
        )
        for item in itertools.islice(items, POLLED_MAX):
            what, others = self._other_end(item.ffd.file, bool(int(item.event.events) & 1))
            names.append(what)
            who |= set(others)
        return wait.evolve(
            what="for " + ("; ".join(names) or "time to pass"), who=tuple(sorted(who))
        )

    def _select(self, task: Any, wait: Wait, read: Read) -> Wait:
        count = min(wait.arguments[0], 8 * POLLED_MAX)
        names = []
        who: set[int] = set()
        for address, reads in ((wait.arguments[1], True), (wait.arguments[2], False)):
            if not address:
                continue
            try:
                bits = int.from_bytes(read(address, -(-count // 8)), "little")
            except Fault:
                return wait
            for number in range(count):
                file = _file_at(task, number) if bits >> number & 1 else None
                if file is not None:
                    what, others = self._other_end(file, reads)
                    names.append(what)
                    who |= set(others)
        return wait.evolve(
            what="for " + ("; ".join(names) or "time to pass"), who=tuple(sorted(who))
        )

    def _signal(self, task: Any, wait: Wait, read: Read) -> Wait:
        return wait.evolve(what="for a signal")

    def _time(self, task: Any, wait: Wait, read: Read) -> Wait:
        return wait.evolve(what="for time to pass")

    # --- tasks

    def _threads(self, task: Any) -> list[Any]:
        leader = int(task.group_leader)
        return [other for other in self._tasks.values() if int(other.group_leader) == leader]

    def _siblings(self, task: Any) -> set[int]:
        return {self._numbers[int(other)] for other in self._threads(task)}


def _held(wait: Wait, kind: str, owner: int) -> Wait:
    return wait.evolve(what=f"for a {kind} at {wait.address:#x}, which {owner} has", who=(owner,))


def _file_at(task: Any, number: int) -> Any:
    """What *task* has open as *number*, or None."""
    if not task.files or not 0 <= number < int(task.files.fdt.max_fds):
        return None
    return fget(task, number) or None


def _locks(heads: Any, member: str) -> Iterator[Any]:
    """The locks (``struct file_lock_core``) of a list of the kernel's."""
    found = list_for_each_entry("struct file_lock_core", heads.address_of_(), member)
    return itertools.islice(found, LOCKS_MAX)


def _owner(lock: Any) -> int:
    """Whose *lock* is: a process's, by the kernel's own number, or a file's, by its address."""
    taken = int(lock.flc_flags)
    return int(lock.flc_pid) if taken & _FL_POSIX and not taken & _FL_OFDLCK else int(lock.flc_file)


def _blocked(lock: Any) -> Iterator[Any]:
    """Those that wait for *lock*, and for each other behind it."""
    waiting = [lock]
    for _ in range(LOCKS_MAX):
        if not waiting:
            return
        for one in _locks(waiting.pop().flc_blocked_requests, "flc_blocked_member"):
            yield one
            waiting.append(one)


def _name(file: File) -> str:
    if stat.S_ISFIFO(file.mode) and not file.path.startswith("/"):
        return f"pipe {file.number}"
    if stat.S_ISSOCK(file.mode):
        return f"socket {file.number}"
    return file.path


_VERBS = {
    **dict.fromkeys(("write", "writev", "pwrite64", "sendto", "sendmsg"), "to write to"),
    **dict.fromkeys(("accept", "accept4"), "for a connection to"),
    "connect": "for an answer at",
    "fsync": "for all to be written of",
}
"""What a call that waits for a file waits for; others wait to read from it."""

_KINDS: dict[str, Callable[[Waits, Any, Wait, Read], Wait]] = {
    "futex": Waits._futex,
    **dict.fromkeys(("wait4", "waitid"), Waits._child),
    **dict.fromkeys(
        (
            *("read", "readv", "pread64", "write", "writev", "pwrite64", "fsync"),
            *("recvfrom", "recvmsg", "sendto", "sendmsg", "accept", "accept4", "connect"),
        ),
        Waits._file,
    ),
    **dict.fromkeys(("flock", "fcntl"), Waits._lock),
    **dict.fromkeys(("poll", "ppoll"), Waits._poll),
    **dict.fromkeys(("epoll_wait", "epoll_pwait", "epoll_pwait2"), Waits._epoll),
    **dict.fromkeys(("select", "pselect6"), Waits._select),
    **dict.fromkeys(("pause", "rt_sigsuspend", "rt_sigtimedwait"), Waits._signal),
    **dict.fromkeys(("nanosleep", "clock_nanosleep"), Waits._time),
}
