"""A stopped machine: its tasks, where they are, and its files."""

import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import attrs
from drgn import sizeof
from drgn.helpers.linux.pid import for_each_task
from drgn.helpers.linux.sched import task_state_to_char

from rewind.inspect import InspectError, NoSuchTask
from rewind.inspect.answers import (
    Entry,
    Frame,
    Mapped,
    Page,
    Place,
    ProcessLayout,
    Task,
    ThreadRegisters,
    Wait,
)
from rewind.inspect.files import LIMIT, Files, View
from rewind.inspect.kernel import Kernel
from rewind.inspect.memory import PAGE, USER_END, Fault, Memory
from rewind.inspect.process import PT_REGS, Process
from rewind.inspect.registers import Registers
from rewind.inspect.waits import Waits

P = ParamSpec("P")
R = TypeVar("R")

THREAD_SIZE = 16 << 10
"""Bytes of a kernel stack."""
TASKS_MAX = 1 << 16
"""More than there can be pids for."""

_PT_REGS = struct.Struct(f"<{len(PT_REGS)}Q")
_FRAME = struct.Struct("<5Q")
"""What the CPU pushes for an interrupt: the last five of `PT_REGS`."""
_CALL = struct.Struct("<Bi")
_CALL_OPCODE = 0xE8
_NO_CALL = (1 << 64) - 1
"""In the place of a system call's number when there is none."""

_STATES = {"R": "ready", "S": "waits", "D": "waits", "I": "waits", "T": "stopped", "t": "stopped"}
_AUXV = struct.Struct("<QQ")
_FXSAVE_SIZE = 512
_TIF_NEED_FPU_LOAD = 14
"""arch/x86/include/asm/thread_info.h of 6.12."""
_FLAG_KERNEL_THREAD = 0x0020_0000
_FLAG_USER_WORKER = 0x0000_4000


def _sensible(function: Callable[P, R]) -> Callable[P, R]:
    """Have *function* raise `InspectError` for whatever the guest's memory may do to it."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (InspectError, MemoryError):
            raise
        # drgn raises Exception itself, and what was read may be too large, too small, no text, …
        except Exception as error:
            raise InspectError(f"the guest's memory makes no sense: {error}") from error

    return wrapper


class Machine:
    """A stopped machine that runs *kernel*, which is its for as long as this is used.

    :param memory: its memory.
    :param registers: those of its CPU; None if it has none to run on any more: it ended stalled,
        and every task has its registers in memory.
    :param layers: those it was started with, the lowest first.
    :param debug_directories: where debug information is that was separated: directories as
        ``…/lib/debug``, with ``.build-id/xx/yyy.debug`` in them.
    """

    def __init__(
        self,
        kernel: Kernel,
        memory: Memory,
        registers: Registers | None,
        *,
        layers: Sequence[Path] = (),
        debug_directories: Sequence[Path] = (),
    ) -> None:
        kernel.memory = memory
        self._kernel = kernel
        self._memory = memory
        self._registers = registers
        self._debug_directories = list(debug_directories)
        self._files = Files(kernel, layers)
        self._processes: dict[int, Process] = {}
        self._found: dict[int, tuple[Task, Any]] | None = None

    def add_debug_directories(self, directories: Sequence[Path]) -> None:
        """Look for separated debug information in *directories* as well, from now on."""
        self._debug_directories += directories
        self._forget()

    def close(self) -> None:
        """Close what was opened for it; neither the memory nor the kernel."""
        self._files.close()
        self._forget()

    def _forget(self) -> None:
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- tasks

    @_sensible
    def tasks(self) -> list[Task]:
        """The job's threads, those of a process together, in order of their numbers.

        :raises InspectError: if the job has not begun, or the kernel's memory makes no sense.
        """
        return [task for task, _ in self._tasks().values()]

    @_sensible
    def current(self) -> Task | None:
        """The thread on the CPU, if it is one of the job's."""
        return next((task for task in self.tasks() if task.state == "runs"), None)

    def _tasks(self) -> dict[int, tuple[Task, Any]]:
        if self._found is None:
            found = sorted(self._read_tasks(), key=lambda entry: (entry[0].pid, entry[0].tid))
            waits = Waits(self._kernel, {task.tid: thing for task, thing in found})
            self._found = {
                task.tid: (attrs.evolve(task, wait=self._wait(waits, task, thing)), thing)
                for task, thing in found
            }
        return self._found

    def _wait(self, waits: Waits, task: Task, thing: Any) -> Wait | None:
        """What *task* waits for; that it can't be told is no reason to have no tasks."""
        if task.state != "waits":
            return None
        try:
            registers = dict(zip(PT_REGS, self._user_registers(thing), strict=True))
            return waits.of(thing, registers, self._process(task.tid, thing).read)
        except MemoryError:
            raise
        # drgn raises Exception itself.
        except Exception as error:
            return Wait(what=f"for something that can't be read: {error}")

    def _read_tasks(self) -> Iterator[tuple[Task, Any]]:
        job = self._kernel.variable("job", "drivers/rewind/trace.c")
        if not job:
            raise InspectError("the job has not begun")
        current = int(self._current()) if self._registers is not None else 0
        for count, task in enumerate(for_each_task(self._kernel.program)):
            if count >= TASKS_MAX:
                raise InspectError("the machine's tasks make no sense")
            tid = _number(task.thread_pid, job)
            if not tid:
                continue
            letter = task_state_to_char(task)
            state = "runs" if int(task) == current else _STATES.get(letter, "ended")
            yield (
                Task(
                    _number(task.group_leader.thread_pid, job) or tid,
                    tid,
                    _number(task.real_parent.group_leader.thread_pid, job),
                    task.comm.string_().decode(errors="backslashreplace"),
                    state,
                    process=int(task.tgid),
                    number=int(task.pid),
                ),
                task.read_(),
            )

    def _current(self) -> Any:
        """The task on the CPU."""
        return self._kernel.variable("pcpu_hot").current_task.read_()

    def _task(self, tid: int) -> tuple[Task, Any]:
        try:
            return self._tasks()[tid]
        except KeyError:
            raise NoSuchTask(f"there is no thread {tid}") from None

    # --- stacks

    @_sensible
    def frames(self, tid: int) -> list[Frame]:
        """The stack of the thread *tid*, innermost frame first, in its program.

        :raises NoSuchTask: if there is none.
        :raises InspectError: if it is in no program: it has ended, or never was.
        """
        _, task = self._task(tid)
        return self._process(tid, task).frames(self._user_registers(task))

    @_sensible
    def variable(self, tid: int, address: int) -> str | None:
        """The variable at *address* of the thread *tid*'s program; see `Process.variable`.

        :raises NoSuchTask: if there is no such thread.
        :raises InspectError: if it is in no program.
        """
        _, task = self._task(tid)
        return self._process(tid, task).variable(address)

    @_sensible
    def reached(self, tid: int, address: int) -> str | None:
        """What the thread *tid* would call what is at *address*; see `Process.reached`.

        :raises NoSuchTask: if there is no such thread.
        :raises InspectError: if it is in no program.
        """
        _, task = self._task(tid)
        return self._process(tid, task).reached(address, self._user_registers(task))

    @_sensible
    def evaluate(self, tid: int, text: str) -> Place:
        """Where what the expression *text* names is in the memory of the thread *tid*.

        :raises NoSuchTask: if there is no such thread.
        :raises InspectError: if there is no such thing.
        """
        _, task = self._task(tid)
        return self._process(tid, task).evaluate(text, self._user_registers(task))

    @_sensible
    def pages(self, tid: int, address: int, count: int) -> list[Page]:
        """Where *count* bytes at *address* in the memory of the thread *tid* are.

        :raises NoSuchTask: if there is no such thread.
        :raises InspectError: if something of it is not mapped.
        """
        _, task = self._task(tid)
        return list(self._process(tid, task).pages(address, count))

    @_sensible
    def kernel_symbol(self, address: int) -> str:
        """The kernel's symbol that *address* is in.

        :raises InspectError: if it is in none.
        """
        try:
            return str(self._kernel.program.symbol(address).name)
        except LookupError:
            raise InspectError(f"{address:#x} is in none of the kernel's functions") from None

    @_sensible
    def registers(self, tid: int) -> ThreadRegisters:
        """What the thread *tid* has in its registers, in its program.

        :raises NoSuchTask: if there is none.
        """
        _, task = self._task(tid)
        general = dict(zip(PT_REGS, self._user_registers(task), strict=True))
        current = self._registers is not None and int(task) == int(self._current())
        # The kernel uses neither FS nor the floating point registers for itself; what is not a
        # task's own any more it has put into memory, and says so.
        if current and not self._saved_floating(task):
            assert self._registers is not None
            floating = bytes.fromhex(self._registers.floating)
        else:
            state = task.thread.fpu.fpstate.regs.fxsave
            floating = self._kernel.read(int(state.address_of_()), _FXSAVE_SIZE)
        if current:
            assert self._registers is not None
            fs_base = self._registers.fs_base
        else:
            fs_base = int(task.thread.fsbase)
        return ThreadRegisters(
            general=general,
            fs_base=fs_base,
            gs_base=int(task.thread.gsbase),
            floating=floating,
        )

    def _saved_floating(self, task: Any) -> bool:
        return bool(int(task.thread_info.flags) >> _TIF_NEED_FPU_LOAD & 1)

    @_sensible
    def read_memory(self, tid: int, address: int, count: int) -> bytes:
        """What the thread *tid* would read at *address*: as many of *count* bytes as there are.

        Above all programs, that is the kernel's memory.

        :raises NoSuchTask: if there is no such thread.
        """
        _, task = self._task(tid)
        if address >= USER_END:
            read: Callable[[int, int], bytes] = self._kernel.read
        else:
            read = self._process(tid, task).read
        parts = []
        end = min(address + count, 1 << 64)
        while address < end:
            part = min(end, (address | (PAGE - 1)) + 1) - address
            try:
                parts.append(read(address, part))
            except (Fault, InspectError):
                break
            address += part
        return b"".join(parts)

    @_sensible
    def layout(self, tid: int) -> ProcessLayout:
        """The program of the thread *tid*, and what is mapped where.

        :raises NoSuchTask: if there is no such thread.
        :raises InspectError: if it has no program any more.
        """
        _, task = self._task(tid)
        process = self._process(tid, task)
        mm = task.mm.read_()
        vector = self._kernel.read(int(mm.saved_auxv.address_of_()), sizeof(mm.saved_auxv))
        pairs = list(_AUXV.iter_unpack(vector))
        end = next((n for n, (kind, _) in enumerate(pairs) if kind == 0), len(pairs) - 1) + 1
        return ProcessLayout(
            executable=process.executable.path if process.executable else None,
            auxv=vector[: end * _AUXV.size],
            mapped=tuple(
                Mapped(
                    start=mapping.start,
                    end=mapping.end,
                    offset=mapping.offset,
                    access=mapping.access,
                    path=mapping.file.path if mapping.file else None,
                    inode=int(mapping.file.inode) if mapping.file else 0,
                    is_input=mapping.file.is_input if mapping.file else False,
                )
                for mapping in process.mappings
            ),
        )

    @_sensible
    def read_mapped(self, tid: int, start: int) -> bytes:
        """The file of which the thread *tid* has something mapped at *start*, whole.

        :raises NoSuchTask: if there is no such thread.
        :raises InspectError: if no file is mapped there, or it can't be read.
        """
        _, task = self._task(tid)
        mapping = self._process(tid, task).mapping(start)
        if mapping is None or mapping.file is None:
            raise InspectError(f"no file is mapped at {start:#x}")
        return self._files.read(mapping.file)

    def _process(self, tid: int, task: Any) -> Process:
        mm = task.mm.read_()
        if not mm:
            raise InspectError(f"thread {tid} has ended: it has no memory any more")
        if int(task.flags) & (_FLAG_KERNEL_THREAD | _FLAG_USER_WORKER):
            raise InspectError(f"thread {tid} is one of the kernel's own")
        key = int(mm)
        if key not in self._processes:
            self._processes[key] = Process(self._kernel, self._files, mm, self._debug_directories)
        return self._processes[key]

    def _user_registers(self, task: Any) -> tuple[int, ...]:
        """The registers that *task* has in its program, in the order of `PT_REGS`."""
        if self._registers is not None and int(task) == int(self._current()):
            live = self._live_registers(task)
            if live is not None:
                return live
        top = int(task.stack) + THREAD_SIZE
        return _PT_REGS.unpack(self._kernel.read(top - _PT_REGS.size, _PT_REGS.size))

    def _live_registers(self, task: Any) -> tuple[int, ...] | None:
        """The program's registers, if the CPU still has them, or some of them.

        That is so in the program, and in the kernel until it has put them where they belong.
        """
        assert self._registers is not None
        cpu = self._registers.general
        now = {name: cpu.get(_CPU_NAMES.get(name, name), 0) for name in PT_REGS}
        now["orig_ax"] = _NO_CALL
        if self._registers.level:
            return tuple(now.values())
        segment = self._kernel.variable("cpu_tss_rw").x86_tss
        entry, called, end = self._system_call_entry()
        if entry <= now["ip"] < called:
            # The instruction SYSCALL leaves the stack as it is, and puts the rest into RCX and R11.
            if now["sp"] >= USER_END:
                if now["sp"] <= int(task.stack) + THREAD_SIZE - _PT_REGS.size:
                    return None
                now["sp"] = int(segment.sp2)
            now |= {"ip": now["cx"], "flags": now["r11"], "orig_ax": now["ax"]}
            return tuple(now.values())
        # An interrupt of a program comes in on a small stack of its own, from which the kernel then
        # moves to the task's; on its way out a system call uses it, too, when all is in memory.
        top = int(segment.sp0)
        if not top - THREAD_SIZE < now["sp"] <= top or entry <= now["ip"] < end:
            return None
        pushed = self._kernel.read(top - _PT_REGS.size, _PT_REGS.size)
        if now["sp"] <= top - _PT_REGS.size:
            return _PT_REGS.unpack(pushed)
        frame = _FRAME.unpack(pushed[-_FRAME.size :])
        return tuple(now.values())[: -len(frame)] + frame

    def _system_call_entry(self) -> tuple[int, int, int]:
        """Where system calls enter the kernel; where from there they are called, with all of a
        program's registers in memory; and where it ends.
        """
        start, size = self._kernel.symbol("entry_SYSCALL_64")
        target, _ = self._kernel.symbol("do_syscall_64")
        code = self._kernel.read(start, size)
        for at in range(size - _CALL.size):
            opcode, distance = _CALL.unpack_from(code, at)
            if opcode == _CALL_OPCODE and start + at + _CALL.size + distance == target:
                return start, start + at, start + size
        raise InspectError("the kernel's entry of system calls is not as it should be")

    # --- files

    @_sensible
    def read_file(self, path: str, limit: int = LIMIT, pid: int | None = None) -> bytes:
        """What is in the file at *path*, as the process *pid*, or the job's first one, sees it.

        :raises NoSuchFile: if there is none.
        :raises NoSuchTask: if there is no such process.
        :raises InspectError: if it has more than *limit* bytes, or is no file with content.
        """
        return self._files.read_path(self._view(pid), path, limit)

    @_sensible
    def list_files(self, path: str, pid: int | None = None, recursive: bool = False) -> list[Entry]:
        """What is in the directory at *path*, as the process *pid*, or the job's first, sees it.

        See `rewind.inspect.files.Files.list_path`; it raises what `read_file` does.
        """
        return self._files.list_path(self._view(pid), path, recursive=recursive)

    def _view(self, pid: int | None) -> View:
        tasks = {tid: thing for tid, (_, thing) in self._tasks().items()}
        found = [
            (task, thing)
            for task, thing in self._tasks().values()
            if pid is None or task.pid == pid
        ]
        for _, thing in found:
            if thing.fs:
                return View(thing, tasks)
        if pid is None:
            raise InspectError("no process is left that has a root directory")
        if found:
            raise InspectError(f"process {pid} has ended: it has no files any more")
        there = ", ".join(map(str, sorted({task.pid for task, _ in self._tasks().values()})))
        raise NoSuchTask(f"there is no process {pid} at this step; there are {there}")


_CPU_NAMES = {
    name: f"r{name}" for name in ("bp", "bx", "ax", "cx", "dx", "si", "di", "ip", "flags", "sp")
}


def _number(pid: Any, namespace: Any) -> int:
    """The number that the kernel's ``struct pid *`` has in *namespace*; 0 if it has none."""
    if not pid:
        return 0
    level = int(namespace.level)
    if int(pid.level) < level:
        return 0
    there = pid.numbers[level]
    return int(there.nr) if int(there.ns) == int(namespace) else 0
