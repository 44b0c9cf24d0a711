"""``rewind ls-files``, ``cat``, ``ps --all`` and ``threads STEP``, with a machine that answers."""

import contextlib
import stat
from collections.abc import Iterator

import attrs
import pytest

from conftest import Rewind, Store
from rewind.cli import stopped as module
from rewind.cli.commands import cat, ls_files
from rewind.cli.errors import Failure
from rewind.cli.runs import Run
from rewind.formats.schedule import Position
from rewind.inspect import InspectError, NoSuchFile
from rewind.inspect.answers import Entry, Frame, Task, Wait

LOCK = Wait(what="for a mutex at 0x4040, which 65 has", call="futex", who=(65,), address=0x4040)
JOIN = Wait(what="for the end of thread 65", call="futex", who=(65,), address=0x7F00)
FRAME = Frame(
    pc=1, function="deposit", module="/build/bank", file="/build/bank.c", line=5, own=True
)


@attrs.define
class Machine:
    """What is asked of a `rewind.inspect.worker.Inspector`."""

    threads: list[Task]
    entries: list[Entry]
    asked: list[object] = attrs.Factory(list)

    def tasks(self) -> list[Task]:
        return self.threads

    def frames(self, tid: int) -> list[Frame]:
        if tid == 67:
            raise InspectError("thread 67 has ended: it has no memory any more")
        return [FRAME]

    def variable(self, tid: int, address: int) -> str | None:
        self.asked.append((tid, address))
        return "lock"

    def list_files(self, path: str, pid: int | None, recursive: bool) -> list[Entry]:
        self.asked.append((path, pid, recursive))
        if path == "/none":
            raise NoSuchFile("there is no /none")
        return self.entries

    def read_file(self, path: str, limit: int, pid: int | None) -> bytes:
        self.asked.append((path, pid))
        if path == "/none":
            raise NoSuchFile("there is no /none")
        return b"\xffcontent"


@pytest.fixture
def machine(store: Store, monkeypatch: pytest.MonkeyPatch) -> Machine:
    store.add_run("1", "bank-0.1.0")
    made = Machine(
        [
            Task(1, 1, 0, "bash", "waits", Wait(what="for the end of 64", call="wait4", who=(64,))),
            Task(64, 64, 1, "bank", "waits", JOIN),
            Task(64, 65, 1, "bank", "runs"),
            Task(64, 66, 1, "bank", "waits", LOCK),
            Task(67, 67, 64, "child", "ended"),
        ],
        [
            Entry("/build/a", stat.S_IFREG | 0o644, 1234),
            Entry("/build/b\udcff", stat.S_IFLNK | 0o777, 1, "a\x1b"),
            Entry("/build/c", stat.S_IFDIR | 0o1777, 40),
        ],
    )

    @contextlib.contextmanager
    def stopped(run: Run, position: Position, **options: object) -> Iterator[Machine]:
        try:
            yield made
        except InspectError as error:
            raise Failure(str(error)) from None

    for one in (module, cat, ls_files):
        monkeypatch.setattr(one, "stopped", stopped)
    return made


def test_ls_files(rewind: Rewind, machine: Machine) -> None:
    result = rewind("ls-files", "@", "2+7")
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        "-rw-r--r--  1,234  /build/a\n"
        "lrwxrwxrwx      1  /build/b\\xff -> a\\x1b\n"
        "drwxrwxrwt     40  /build/c\n"
    )
    rewind("ls-files", "@", "2", "/etc", "-r")
    rewind("ls-files", "@", "2", "--pid", "64")
    rewind("ls-files", "@", "2", "x", "--pid", "64", "--recursive")
    assert machine.asked == [
        ("/build", None, False),
        ("/etc", None, True),
        (".", 64, False),
        ("x", 64, True),
    ]


def test_ls_files_for_programs(rewind: Rewind, machine: Machine) -> None:
    assert rewind("ls-files", "@", "2", "--json").json == [
        {"path": "/build/a", "type": "file", "mode": "0644", "size": 1234, "target": None},
        {"path": "/build/b\\xff", "type": "link", "mode": "0777", "size": 1, "target": "a\x1b"},
        {"path": "/build/c", "type": "directory", "mode": "1777", "size": 40, "target": None},
    ]


def test_cat(rewind: Rewind, machine: Machine) -> None:
    assert rewind("cat", "@", "2", "/x").status == 0
    assert rewind("cat", "@", "2", "x", "--pid", "64").status == 0
    assert machine.asked == [("/x", None), ("x", 64)]


@pytest.mark.parametrize("command", ["cat", "ls-files"])
def test_absent(rewind: Rewind, machine: Machine, command: str) -> None:
    """That has an exit status of its own."""
    result = rewind(command, "@", "2", "/none")
    assert (result.status, result.out) == (3, "")
    assert result.err == "rewind: there was no /none at 2\n"


def test_ps_all(rewind: Rewind, machine: Machine) -> None:
    """Parents before their children, and what each waits for."""
    result = rewind("ps", "@", "2", "--all")
    assert (result.status, result.err) == (0, "")
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[0] == "task name state command"
    assert [line.split(" x ")[0] for line in lines[1:]] == [
        lines[1],
        "64 bank waits for the end of thread 65",
        "64/65 bank runs",
        "64/66 bank waits for a mutex at 0x4040 (lock), which 65 has",
        "67 child has ended",
    ]
    assert lines[1].startswith("1 bash waits for the end of 64")
    # What is waited at that nobody would know is not asked for.
    assert machine.asked == [(66, 0x4040)]


def test_ps_all_for_programs(rewind: Rewind, machine: Machine) -> None:
    answer = rewind("ps", "@", "2", "--all", "--json").json
    assert isinstance(answer, list)
    assert [one["tid"] for one in answer] == [1, 64, 65, 66, 67]
    assert answer[3]["wait"]["variable"] == "lock"
    assert answer[3]["wait"]["who"] == [65]
    assert answer[2]["wait"] is None


def test_threads_at_a_step(rewind: Rewind, machine: Machine) -> None:
    result = rewind("threads", "@", "2+1")
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        "1      bash: waits for the end of 64, in deposit (bank.c:5)\n"
        "64     bank: waits for the end of thread 65, in deposit (bank.c:5)\n"
        "64/65  bank: runs, in deposit (bank.c:5)\n"
        "64/66  bank: waits for a mutex at 0x4040 (lock), which 65 has, in deposit (bank.c:5)\n"
        "67     child: has ended\n"
    )
    assert rewind("threads", "@", "2", "--program", "child").out == "67  child: has ended\n"
    out = rewind("threads", "@", "2", "--program", "bank").out
    assert [line.split()[0] for line in out.splitlines()] == ["64", "64/65", "64/66"]


def test_threads_at_a_step_for_programs(rewind: Rewind, machine: Machine) -> None:
    answer = rewind("threads", "@", "2", "--json", "--program", "67", "--program", "1").json
    assert isinstance(answer, dict)
    assert answer["position"] == "2"
    assert [one["tid"] for one in answer["threads"]] == [1, 67]
    assert answer["threads"][0]["frames"][0]["function"] == "deposit"
    assert answer["threads"][1]["why"] == "thread 67 has ended: it has no memory any more"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["ps", "@", "--all"], "--all needs a POSITION"),
        (["ps", "@", "99", "--all"], "there is no step 99: the run has "),
        (["threads", "@", "99"], "there is no step 99: the run has "),
        (["threads", "@", "1", "--from", "0"], "a POSITION is one point of the run"),
        (["threads", "@", "1", "--program", "x"], "there are no threads of x at 1"),
        (["ls-files", "@", "99"], "there is no step 99: the run has "),
        (["ls-files", "@", "1", "x"], "'x' is no absolute path"),
        (["ls-files", "@", "1", "--pid", "0"], "--pid"),
        (["cat", "@", "1", "x"], "'x' is no absolute path"),
    ],
)
def test_bad_input(rewind: Rewind, machine: Machine, words: list[str], why: str) -> None:
    """One line on stderr, nothing on stdout, status 2."""
    result = rewind(*words)
    assert (result.status, result.out) == (2, "")
    assert why in result.err
    assert machine.asked == []
