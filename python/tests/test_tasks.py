"""Which task runs, which could, and what the others wait for."""

from typing import Any

import pytest

from rewind.analysis.tasks import Tasks, wakes_by_itself
from rewind.formats.trace import Enter, Exec, Exit, Fork, Switch, TaskEnd, Wake

FUTEX, READ, NANOSLEEP = 202, 0, 35
TIMEOUT = 0x7F0000


def enter(tid: int, call: int, *args: int, pid: int = 1) -> Enter:
    padded = (*args, 0, 0, 0, 0, 0, 0)[:6]
    return Enter(step=0, time=0, pid=pid, tid=tid, call=call, args=padded, ip=0, details=())


def leave(tid: int, call: int, pid: int = 1) -> Exit:
    return Exit(step=0, time=0, pid=pid, tid=tid, call=call, value=0, details=())


def switch(tid: int, to: int, state: int = 0, pid: int = 1, to_pid: int = 1) -> Switch:
    return Switch(
        step=0, time=0, pid=pid, tid=tid, state=state, next_pid=to_pid, next_tid=to, name=""
    )


def wake(tid: int, by: int = 0) -> Wake:
    return Wake(
        step=0, time=0, pid=1 if by else 0, tid=by, woken_pid=1, woken_tid=tid, interrupt=not by
    )


def fork(tid: int, child: int, child_pid: int = 1, pid: int = 1) -> Fork:
    return Fork(
        step=0, time=0, pid=pid, tid=tid, child_pid=child_pid, child_tid=child, flags=0
    )  # fmt: skip


def execute(pid: int, path: str, *arguments: str) -> Exec:
    return Exec(step=0, time=0, pid=pid, tid=pid, path=path, arguments=arguments)


def end(tid: int, pid: int = 1, last: bool = False) -> TaskEnd:
    return TaskEnd(step=0, time=0, pid=pid, tid=tid, code=0, name="", last=last)


def after(*records: Any) -> Tasks:
    tasks = Tasks()
    for record in records:
        tasks.feed(record)
    return tasks


def test_nothing_yet() -> None:
    tasks = after()
    assert (tasks.current, tasks.runnable, tasks.alive) == (0, set(), {})


def test_the_builder_runs_from_the_start() -> None:
    tasks = after(leave(1, 59))
    assert (tasks.current, tasks.runnable) == (1, set())
    assert [(task.pid, task.parent_tid, task.order) for task in tasks.alive.values()] == [(1, 0, 0)]


def test_a_child_can_run_at_once() -> None:
    tasks = after(leave(1, 59), fork(1, 2))
    assert (tasks.current, tasks.runnable) == (1, {2})
    assert (tasks.alive[2].parent_tid, tasks.alive[2].order) == (1, 1)


@pytest.mark.parametrize(("state", "runnable"), [(0, {1}), (1, set()), (2, set()), (0x402, set())])
def test_who_is_left_in_a_state_other_than_0_cannot_run(state: int, runnable: set[int]) -> None:
    tasks = after(leave(1, 59), fork(1, 2), switch(1, 2, state))
    assert (tasks.current, tasks.runnable) == (2, runnable)


def test_who_is_woken_can_run() -> None:
    begin = [leave(1, 59), fork(1, 2), switch(1, 2, 1)]
    assert after(*begin, wake(1, by=2)).runnable == {1}
    assert after(*begin, switch(2, 0, 1, to_pid=0), wake(2)).runnable == {2}
    tasks = after(*begin, wake(1, by=2), switch(2, 1, 1))
    assert (tasks.current, tasks.runnable) == (1, set())
    # Not who has the CPU, and nobody who is not there.
    assert after(*begin, wake(2), wake(9)).runnable == set()


def test_the_cpu_goes_to_others() -> None:
    tasks = after(leave(1, 59), switch(1, 0, 0, to_pid=0))
    assert (tasks.current, tasks.runnable) == (0, {1})
    tasks.feed(switch(0, 1, 0, pid=0))
    assert (tasks.current, tasks.runnable) == (1, set())


def test_who_has_ended_has_the_cpu_until_there_is_a_switch() -> None:
    tasks = after(leave(1, 59), fork(1, 2), switch(1, 2), end(2))
    assert (tasks.current, tasks.runnable, list(tasks.alive)) == (2, {1}, [1])
    tasks.feed(switch(2, 1, 0x80))
    assert (tasks.current, tasks.runnable) == (1, set())
    # As if it had been preempted on its way out.
    tasks = after(leave(1, 59), fork(1, 2), switch(1, 2), end(2), switch(2, 1, 0))
    assert tasks.runnable == set()


def test_programs() -> None:
    tasks = after(
        leave(1, 59),
        execute(1, "/bin/sh", "sh", "-c"),
        fork(1, 2, child_pid=2),
        fork(1, 3, child_pid=3),
        execute(2, "/bin/cc", "cc"),
        fork(2, 4, child_pid=2, pid=2),
        # By the kernel, for a process of the job.
        fork(0, 5, child_pid=2, pid=0),
    )
    found = [(task.program, task.arguments, task.exec_index) for task in tasks.alive.values()]
    shell, compiler = ("/bin/sh", ("sh", "-c"), 1), ("/bin/cc", ("cc",), 2)
    assert found == [shell, compiler, shell, compiler, compiler]
    assert (tasks.count, tasks.executions) == (5, 2)


def test_a_program_has_one_thread() -> None:
    begin = [leave(1, 59), fork(1, 2), fork(1, 3)]
    tasks = after(*begin, end(2), end(3), execute(1, "/bin/x", "x"))
    assert list(tasks.alive) == [1]
    # A thread that executes it has the first one's number then.
    tasks = after(*begin, switch(1, 2, 1), end(1), execute(1, "/bin/x", "x"))
    assert (list(tasks.alive), tasks.current, tasks.runnable) == ([1], 1, set())


def test_calls() -> None:
    call = enter(1, READ)
    tasks = after(call)
    assert tasks.alive[1].blocked_in == call
    assert not tasks.alive[1].timed
    tasks.feed(leave(1, READ))
    assert tasks.alive[1].blocked_in is None
    assert not tasks.alive[1].timed
    assert after(enter(1, NANOSLEEP)).alive[1].timed


@pytest.mark.parametrize(
    ("call", "args", "timed"),
    [
        (NANOSLEEP, (TIMEOUT,), True),
        (230, (1, 0, TIMEOUT), True),
        (7, (0, 0, 100), True),
        (7, (0, 0, -1 & 0xFFFFFFFF), False),
        # As a 32-bit argument: what is above it means nothing.
        (7, (0, 0, 0x1234_FFFF_FFFF), False),
        (271, (0, 0, TIMEOUT), True),
        (271, (0, 0, 0), False),
        (23, (0, 0, 0, 0, TIMEOUT), True),
        (23, (0, 0, 0, 0, 0), False),
        (232, (3, 0, 1, 500), True),
        (232, (3, 0, 1, 2**64 - 1), False),
        (FUTEX, (0, 0x80, 2, TIMEOUT), True),
        (FUTEX, (0, 0x189, 2, TIMEOUT), True),
        (FUTEX, (0, 0x80, 2, 0), False),
        # FUTEX_WAKE, and FUTEX_REQUEUE, whose argument is a number.
        (FUTEX, (0, 0x81, 1, TIMEOUT), False),
        (FUTEX, (0, 3, 1, 7), False),
        (READ, (0,), False),
        (61, (), False),
        (34, (), False),
    ],
)
def test_what_ends_by_itself(call: int, args: tuple[int, ...], timed: bool) -> None:
    assert wakes_by_itself(enter(1, call, *args)) is timed
