"""``rewind where``, with a machine that gives the answers."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from conftest import Rewind, Store
from rewind.cli.commands import where
from rewind.cli.errors import Failure
from rewind.cli.runs import Run
from rewind.formats.schedule import Named, Position
from rewind.inspect import InspectError, NoSuchFile
from rewind.inspect.answers import Frame, Task, Wait
from rewind.replay.timeline import Standing
from test_drv import aterm

LIBC = "/nix/store/00000000000000000000000000000000-glibc-2.41/lib/libc.so.6"
SOURCE = "/build/source/bank.c"
TEXT = "".join(f"\tline {number};\n" for number in range(1, 10))

WRITE = Frame(
    pc=0x7F05, function="__write", offset=0x16, module=LIBC, address=0xF05, why="stripped"
)
DEPOSIT = Frame(
    pc=0x5005,
    function="deposit",
    module="/build/source/bank",
    address=0x1005,
    file=SOURCE,
    line=5,
    column=2,
    inlined=True,
    own=True,
)
WORK = attrs.evolve(DEPOSIT, function="work", line=9, inlined=False)
BEGIN = Frame(pc=0x7F99, module=LIBC, address=0xF99, why="stripped")
START = Frame(
    pc=0x5001,
    function="_start",
    offset=0x21,
    module="/build/source/bank",
    own=True,
    why="its debug information does not have the place",
)


@attrs.define
class Machine:
    """What is asked of a `rewind.inspect.worker.Inspector`."""

    threads: list[Task] = attrs.Factory(list)
    stacks: dict[int, list[Frame]] = attrs.Factory(dict)
    files: dict[str, str] = attrs.Factory(dict)
    asked: list[Position] = attrs.Factory(list)
    directories: list[Path] = attrs.Factory(list)
    user: bool = True
    known: bool = True

    @property
    def inspector(self) -> "Machine":
        return self

    @contextlib.contextmanager
    def machine(self, position: Position, **options: object) -> Iterator["Machine"]:
        self.asked.append(position)
        yield self

    def standing(self) -> Standing | None:
        return Standing(self.asked[-1], Named(65, 4, 437), self.user) if self.known else None

    def add_debug_directories(self, directories: list[Path]) -> None:
        self.directories += directories

    def tasks(self) -> list[Task]:
        return self.threads

    def frames(self, tid: int) -> list[Frame]:
        if tid not in self.stacks:
            raise InspectError(f"thread {tid} has ended: it has no memory any more")
        return self.stacks[tid]

    def read_file(self, path: str, limit: int) -> bytes:
        if path not in self.files:
            raise NoSuchFile(f"there is no {path}")
        return self.files[path].encode()


@pytest.fixture
def machine(store: Store, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The machine of the run "bank-0.1.0", in which thread 65 has the CPU."""
    store.add_run("1", "bank-0.1.0")
    wait = Wait(what="for the end of thread 65", call="futex", who=(65,))
    made = Machine(
        [
            Task(64, 64, 1, "bank", "waits", wait),
            Task(64, 65, 1, "bank", "runs"),
            Task(64, 66, 1, "bank", "ended"),
        ],
        {65: [WRITE, DEPOSIT, WORK, BEGIN], 64: [WRITE, START]},
        {SOURCE: TEXT},
    )

    @contextlib.contextmanager
    def opened(run: Run) -> Iterator[Machine]:
        try:
            yield made
        except InspectError as error:
            raise Failure(str(error)) from None

    monkeypatch.setattr(where, "opened", opened)
    return made


def test_where(rewind: Rewind, machine: Machine) -> None:
    """The program's own frame, its source, and its own callers."""
    result = rewind("where", "@", "2+7")
    assert (result.status, result.err) == (0, "")
    assert (
        result.out
        == """\
process 64 (bank), thread 65 at step 2+7
65:4+437
#1 deposit (bank.c:5)
       3          line 3;
       4          line 4;
>      5          line 5;
       6          line 6;
       7          line 7;
called from #2 work (bank.c:9)
"""
    )
    assert machine.asked == [Position(2, 7)]


def test_frames(rewind: Rewind, machine: Machine) -> None:
    """So many as are wanted, the library's as well, and any of them with its source."""
    out = rewind("where", "@", "2", "--frames", "4", "--frame", "2").out.splitlines()
    assert out[2:4] == ["#0 __write+0x16 in libc.so.6", "#1 deposit (bank.c:5)"]
    assert out[4:] == [
        "#2 work (bank.c:9)",
        "       7          line 7;",
        "       8          line 8;",
        ">      9          line 9;",
        "called from #3 libc.so.6+0xf99",
    ]


def test_many_callers(rewind: Rewind, machine: Machine) -> None:
    """A few of them, unless more are wanted."""
    machine.stacks[65] = [DEPOSIT, *[WORK] * 20]
    out = rewind("where", "@", "2").out.splitlines()
    assert out[-2:] == ["called from #8 work (bank.c:9)", "and 12 more, which --frames 21 shows"]
    out = rewind("where", "@", "2", "--frames", "21").out.splitlines()
    assert out[-1] == "called from #20 work (bank.c:9)"


def test_debug_outputs(
    rewind: Rewind, machine: Machine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debug information that is an output of its own, in the store, is used."""
    package = store.path / ("1" * 32 + "-bank")
    debug = store.path / ("2" * 32 + "-bank-debug") / "lib" / "debug"
    deriver = store.path / ("3" * 32 + "-bank.drv")
    for path in (package, debug):
        path.mkdir(parents=True)
    (package / ".registered").write_text("1")
    store.derivers[package] = deriver
    out, separate = (("out", str(package), "", ""), ("debug", str(debug.parents[1]), "", ""))
    deriver.write_text(aterm(outputs=(separate, out)))
    bare = Frame(pc=0x5005, module=f"{package}/bin/bank", own=True, why="stripped")
    machine.stacks[65] = [bare]
    assert "no source line: stripped" in rewind("where", "@", "2").out
    assert machine.directories == [debug]
    # Without one nothing more is asked for.
    deriver.write_text(aterm(outputs=(out,)))
    machine.directories.clear()
    rewind("where", "@", "2")
    assert machine.directories == []


def test_no_source(rewind: Rewind, machine: Machine) -> None:
    """Why there is none."""
    out = rewind("where", "@", "2", "--frame", "0").out
    assert "#0 __write+0x16 in libc.so.6\n     no source line: stripped\n" in out
    machine.files.clear()
    assert "#1 deposit (bank.c:5)\n     /build/source/bank.c is not to be found\n" in (
        rewind("where", "@", "2").out
    )


def test_off_the_cpu(rewind: Rewind, machine: Machine) -> None:
    """What it waits for."""
    out = rewind("where", "@", "2", "--tid", "64").out
    assert out.startswith(
        "process 64 (bank), thread 64, waits for the end of thread 65, at step 2\n"
        "#1 _start+0x21 in bank\n"
        "     no source line: its debug information does not have the place\n"
    )


def test_none_on_the_cpu(rewind: Rewind, machine: Machine) -> None:
    """Then it is all of them."""
    machine.threads[1] = attrs.evolve(machine.threads[1], state="ready")
    result = rewind("where", "@", "2")
    assert (result.status, result.out) == (
        0,
        """\
no thread of the job has the CPU at step 2
64     bank: waits for the end of thread 65, in _start+0x21 in bank
64/65  bank: could run, in deposit (bank.c:5)
64/66  bank: has ended
""",
    )
    answer = rewind("where", "@", "2", "--json").json
    assert isinstance(answer, dict)
    assert [thread["tid"] for thread in answer["threads"]] == [64, 65, 66]
    assert answer["threads"][2]["why"] == "thread 66 has ended: it has no memory any more"


def test_the_other_name_of_a_position(rewind: Rewind, machine: Machine) -> None:
    """It is the running thread's; a machine of an older rewind does not know it."""
    machine.user = False
    assert "\n65:4+437, in the kernel\n" in rewind("where", "@", "2").out
    machine.known = False
    assert "65:4" not in rewind("where", "@", "2").out
    machine.known = True
    assert "65:4" not in rewind("where", "@", "2", "--tid", "64").out
    answer = rewind("where", "@", "2", "--tid", "64", "--json").json
    assert isinstance(answer, dict)
    assert (answer["named"], answer["in_user_mode"]) == (None, None)


def test_json(rewind: Rewind, machine: Machine) -> None:
    answer = rewind("where", "@", "2", "--json").json
    assert isinstance(answer, dict)
    assert (answer["position"], answer["pid"], answer["tid"]) == ("2", 64, 65)
    assert (answer["named"], answer["in_user_mode"]) == ("65:4+437", True)
    assert (answer["name"], answer["state"], answer["wait"]) == ("bank", "runs", None)
    assert answer["frame"] == 1
    assert answer["frames"][1]["file"] == SOURCE
    assert answer["source"] == {"first": 3, "lines": [f"\tline {n};" for n in range(3, 8)]}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["@", "99"], "there is no step 99: the run has "),
        (["@", "99+1"], "there is no step 99: the run has "),
        (["@", "1+99999999999"], " instructions after step 1"),
        (["@", "x"], "'x' is no position"),
        (["@", "0:1"], "'0:1' is no position: T:C+K is one"),
        (["@", "7:1"], "there is no 7:1: the run has 3 tasks"),
        (["@", "1:9"], "there is no 1:9: task 1 makes 3 system calls"),
        (["@", "1", "--tid", "7"], "there is no thread 7 at this step; there are 64, 65, 66"),
        (["@", "1", "--frame", "9"], "there is no frame 9: the stack has 4"),
        (["@", "1", "--tid", "66"], "thread 66 has ended: it has no memory any more"),
    ],
)
def test_bad_input(rewind: Rewind, machine: Machine, words: list[str], why: str) -> None:
    """One line on stderr, nothing on stdout, status 2."""
    result = rewind("where", *words)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("rewind: ") and why in result.err
    assert result.err.count("\n") == 1


def test_odd_names(rewind: Rewind, machine: Machine) -> None:
    """What the guest has for names can't do anything to a terminal."""
    name = "x\x1b[2J\n"
    machine.threads[1] = attrs.evolve(machine.threads[1], name=name)
    machine.stacks[65] = [attrs.evolve(DEPOSIT, function=name, file=f"/{name}")]
    machine.files = {f"/{name}": f"{name}\n" * 9}
    out = rewind("where", "@", "2").out
    assert "\x1b" not in out
    assert "x\\x1b[2J" in out


def test_source_of_an_input(rewind: Rewind, machine: Machine, store: Store, tmp_path: Path) -> None:
    """What the machine does not have may be in the store, and is not looked for elsewhere."""
    inside, outside = store.path / "source.c", tmp_path / "source.c"
    for path in (inside, outside):
        path.write_text(TEXT)
        machine.stacks[65] = [attrs.evolve(DEPOSIT, file=str(path))]
        out = rewind("where", "@", "2").out
        assert ("line 5;" in out) == (path == inside)
        assert ("is not to be found" in out) == (path == outside)
