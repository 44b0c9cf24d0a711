"""Where two runs part, as a user sees it."""

import struct
from pathlib import Path
from typing import Any

import attrs
import pytest

import traces
from conftest import Rewind, Store
from rewind.formats.manifest import Outcome, Output
from rewind.formats.schedule import Perturbation
from test_manifest import MANIFEST

PLAIN = attrs.evolve(MANIFEST, schedule=(), outcome=Outcome("exited", 0), outputs={}, messages=())
NAR = "sha256:" + "0" * 52
A, B = "10000000", "20000000"


def sample(**changed: bytes) -> list[bytes]:
    """`traces.sample`, with records ``sN`` changed."""
    records = traces.sample()
    for name, record in changed.items():
        records[int(name[1:])] = record
    return records


def compare(rewind: Rewind, *words: str, status: int = 1) -> list[str]:
    result = rewind("compare", "1", "2", *words)
    assert (result.status, result.err) == (status, "")
    return result.out.splitlines()


def data(rewind: Rewind, *words: str) -> dict[str, Any]:
    found = rewind("compare", "1", "2", *words, "--json").json
    assert isinstance(found, dict)
    return found


def test_same(rewind: Rewind, store: Store) -> None:
    """A run that was made with something else, and is the same."""
    store.add_run("1", "a", log=b"x\n", manifest=PLAIN)
    store.add_run("2", "b", log=b"x\n", manifest=attrs.evolve(PLAIN, seed="other"))
    assert compare(rewind, status=0) == [
        f"seed: {PLAIN.seed} in {A}, other in {B}",
        "the same 21 steps, exited 0, log and outputs",
    ]
    found = data(rewind)
    assert (found["same"], found["step"], found["differences"]) == (True, None, [])
    assert found["made_with"] == [{"what": "seed", "first": PLAIN.seed, "second": "other"}]


def test_first_record_that_differs(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "a", manifest=PLAIN)
    records = sample(s5=traces.leave(1, 0, 5, traces.detail(1, 2, b"hullo"), time=450))
    store.add_run("2", "b", records, manifest=PLAIN)
    assert compare(rewind, "--context", "2") == [
        "the same until step 5",
        '  both       2  1          openat(AT_FDCWD, "/nix/store/hello", O_RDONLY|O_CLOEXEC) = 3',
        "  both       4  1          read(3, 0x7f1000, 4096)",
        f'  {A}   5  1          … read = 5 "hello"',
        f"  {A}   6  1          forks 2",
        f'  {B}   5  1          … read = 5 "hullo"',
        f"  {B}   6  1          forks 2",
    ]
    assert len(compare(rewind, "--context", "0")) == 3
    found = data(rewind, "--context", "2")
    assert (found["same"], found["step"], found["position"]) == (False, 5, "5")
    assert found["second_record"]["details"][0]["text"] == "hullo"
    assert [record["step"] for record in found["before"]] == [3, 4]
    assert [record["step"] for record in found["second_after"]] == [5, 6]


def test_only_the_time_differs(rewind: Rewind, store: Store) -> None:
    """Then it is shown."""
    store.add_run("1", "a", manifest=PLAIN)
    records = sample(s3=traces.leave(1, 257, 3, time=301))
    store.add_run("2", "b", records, manifest=PLAIN)
    lines = compare(rewind, "--context", "1")
    assert lines[0] == "the same until step 3"
    assert lines[2] == f"  {A}   3             300  1          … openat = 3"
    assert lines[3] == f"  {B}   3             301  1          … openat = 3"


def test_one_ends_earlier(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "a", manifest=PLAIN)
    killed = attrs.evolve(PLAIN, outcome=Outcome("timed-out"))
    store.add_run("2", "b", traces.sample()[:20], manifest=killed)
    lines = compare(rewind, "--context", "1")
    assert lines[0] == "the same until step 20"
    assert lines[3:] == [
        f"  {B}  ends here: timed-out",
        f"outcome: exited 0 in {A}, timed-out in {B}",
    ]


def stall(time: int, ns: int, nothing: bool = False) -> bytes:
    flags = int(nothing)
    return traces.record(10, 2, 2, 1, struct.pack("<QQ", ns, 0x401234), time=time, flags=flags)


def perturbed(offset: int, ns: int) -> tuple[list[bytes], Any]:
    """The sample that is perturbed 5 ns and more after step 8."""
    records = traces.sample()
    records.insert(9, stall(700 + offset, ns))
    schedule = (Perturbation(8, offset, "stall", ns),)
    return records, attrs.evolve(PLAIN, schedule=schedule)


def test_a_perturbation_parts_them(rewind: Rewind, store: Store) -> None:
    """It is said in words: which is what a person asks."""
    store.add_run("1", "a", manifest=PLAIN)
    records, manifest = perturbed(5, 1_500_000)
    store.add_run("2", "b", records, manifest=manifest)
    lines = compare(rewind, "--context", "1")
    assert lines[0] == f"the same until step 8+5, where {B} stalls thread 2 for 1.5 ms"
    assert data(rewind)["position"] == "8+5"
    # There is nothing more to say of the schedules.
    assert not any(line.startswith("schedule") for line in lines)


def test_both_are_perturbed(rewind: Rewind, store: Store) -> None:
    for digit, (records, manifest) in zip(
        "12", (perturbed(6, 10_000), perturbed(5, 20_000)), strict=True
    ):
        store.add_run(digit, "x", records, manifest=manifest)
    lines = compare(rewind)
    assert lines[0] == (
        f"the same until step 8+5, where {A} stalls thread 2 for 10 us at 8+6 and"
        f" {B} stalls thread 2 for 20 us"
    )
    assert lines[-1] == f"schedule: stall of 10 us at 8+6 in {A}, stall of 20 us at 8+5 in {B}"


def test_a_perturbation_of_nobody(rewind: Rewind, store: Store) -> None:
    records, manifest = perturbed(5, 10_000)
    records[9] = stall(705, 10_000, nothing=True)
    store.add_run("1", "a", manifest=PLAIN)
    store.add_run("2", "b", records, manifest=manifest)
    assert compare(rewind)[0].endswith(
        f"where {B} stalls nobody (no task of the job was running) for 10 us"
    )


def test_another_schedule_and_the_same_records(rewind: Rewind, store: Store) -> None:
    late = (Perturbation(100, 0, "stall", 10_000), Perturbation(200, 7, "reschedule"))
    store.add_run("1", "a", manifest=PLAIN)
    store.add_run("2", "b", manifest=attrs.evolve(PLAIN, schedule=late))
    assert compare(rewind, status=0)[0] == (
        f"schedule: none in {A}, stall of 10 us at 100 and reschedule at 200+7 in {B}"
    )


def test_log_and_outputs(rewind: Rewind, store: Store) -> None:
    """That the records are the same, and what the machine made is not."""
    store.add_run("1", "a", log=b"one\ntwo\n", manifest=PLAIN)
    made = attrs.evolve(PLAIN, outputs={"out": Output("/nix/store/x", NAR, 1)})
    store.add_run("2", "b", log=b"one\n2 \xff\n", manifest=made)
    assert compare(rewind) == [
        "the same 21 steps",
        f"out: not made in {A}, made in {B}",
        f'log, line 2: "two" in {A}, "2 \\\\xff" in {B}',
    ]
    other = attrs.evolve(made, outputs={"out": Output("/nix/store/x", NAR[:-1] + "1", 1)})
    store.add_run("4", "d", log=b"one\n2 \xff\n", manifest=other)
    result = rewind("compare", "2", "4")
    assert result.out.splitlines()[1] == f"out: {NAR} in {B}, {NAR[:-1]}1 in 40000000"
    store.add_run("3", "c", log=b"one\n", manifest=PLAIN)
    result = rewind("compare", "1", "3")
    assert result.status == 1
    assert result.out.splitlines()[1] == f'log, line 2: "two" in {A}, it ends in 30000000'


# --- what programs do


def program(text: bytes, *between: bytes, pid: int = 2) -> list[bytes]:
    """sh starts a program x, whose two threads write; and exits."""
    thread = pid + 1
    said = traces.detail(1, 2, text)
    return [
        traces.leave(1, 16, 0),
        traces.execute(1, b"/bin/sh", b"sh"),
        traces.fork(1, pid, 0x11),
        traces.execute(pid, b"/bin/x", b"x"),
        traces.fork(pid, thread, 0x3D0F00, child_pid=pid),
        *between,
        traces.enter(thread, 1, 1, 0x7F2000, len(text), more=said, pid=pid),
        traces.switch(thread, 1, b"sh", pid=pid),
        traces.leave(thread, 1, len(text), pid=pid),
        traces.end(thread, 0, b"x", last=False, pid=pid),
        traces.end(pid, 0, b"x"),
        traces.end(1, 0, b"sh"),
    ]


def test_programs(rewind: Rewind, store: Store) -> None:
    wait = [traces.enter(3, 202, 0x7F0000, 128, 0, 0, pid=2), traces.leave(3, 202, 0, pid=2)]
    call = [traces.enter(3, 39, pid=2), traces.leave(3, 39, 2, pid=2)]
    store.add_run("1", "a", program(b"one", *call), manifest=PLAIN)
    store.add_run("2", "b", program(b"two", *call, *wait), manifest=PLAIN)
    assert compare(rewind, "--program", "sh", status=0) == ["sh: the same events"]
    for name in ("x", "/bin/x", "2"):
        assert compare(rewind, "--program", name, "--context", "2") == [
            f"x: thread 3 does the same until step 7 of {A}, 9 of {B}",
            "  both       5  2/3        getpid() = 2",
            f'  {A}   7  2/3        write(1, "one") = 3',
            f"  {A}  10  2/3        thread ends",
            f'  {B}   9  2/3        write(1, "two") = 3',
            f"  {B}  12  2/3        thread ends",
        ]
    found = data(rewind, "--program", "x")
    assert (found["same"], found["program"], found["lineage"]) == (False, "/bin/x", [0, 0])
    assert found["first_event"]["thread"] == {"pid": 2, "tid": 3, "first": 4}
    assert [record["step"] for record in found["second_event"]["records"]] == [9, 11]
    assert data(rewind, "--program", "sh")["same"] is True


def test_programs_with_other_numbers(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "a", program(b"one"), manifest=PLAIN)
    store.add_run("2", "b", program(b"two", pid=7), manifest=PLAIN)
    lines = compare(rewind, "--program", "2", "--context", "1")
    assert lines[0] == f"x: thread 3, 8 in {B}, does the same until step 5 of {A}, 5 of {B}"
    assert lines[-1] == f'  {B}   5  7/8        write(1, "two") = 3'


def test_a_thread_that_does_no_more(rewind: Rewind, store: Store) -> None:
    whole = program(b"one")
    store.add_run("1", "a", whole, manifest=PLAIN)
    store.add_run("2", "b", whole[:5], manifest=PLAIN)
    lines = compare(rewind, "--program", "x", "--context", "1")
    assert lines[0] == f"x: thread 3 does the same until step 5 of {A}"
    assert lines[-1] == f"  {B}  does nothing"
    wait = [traces.enter(3, 202, 0x7F0000, 128, 0, 0, pid=2)]
    (store.path / f"{'2':0<32}-rewind-run-b" / "trace").unlink()
    traces.write(store.path / f"{'2':0<32}-rewind-run-b" / "trace", [*whole[:5], *wait])
    lines = compare(rewind, "--program", "x", "--context", "1")
    assert lines[-2:] == [
        f"  {B}  does no more; the last is",
        f"  {B}   5  2/3        futex(0x7f0000, FUTEX_WAIT|PRIVATE, 0, 0, NULL, 0) …",
    ]
    found = data(rewind, "--program", "x")
    assert (found["second_event"]["step"], found["second_event"]["records"]) == (None, [])


def test_no_such_thread(rewind: Rewind, store: Store) -> None:
    whole = program(b"one")
    store.add_run("1", "a", [*whole[:4], *whole[-2:]], manifest=PLAIN)
    store.add_run("2", "b", [*whole[:7], whole[8], *whole[-2:]], manifest=PLAIN)
    lines = compare(rewind, "--program", "x", "--context", "1")
    assert lines[0] == f"x: thread 3 does the same until step 5 of {B}"
    assert lines[1] == f"  {A}  has no such thread"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--program", "cc"], "no process of these runs executes cc: rewind ps lists them"),
        (["--program", "9"], "10000000 has no process 9: rewind ps lists them"),
        (["--context", "-1"], "-1 is not in the range from 0 to 10,000"),
        (["3"], "got unexpected extra argument"),
    ],
)
def test_bad_input(rewind: Rewind, store: Store, words: list[str], why: str) -> None:
    for digit in "12":
        store.add_run(digit, "x", program(b"x"), manifest=PLAIN)
    result = rewind("compare", "1", "2", *words)
    assert (result.status, result.out) == (2, "")
    assert why in result.err


def test_a_damaged_trace(rewind: Rewind, store: Store, tmp_path: Path) -> None:
    store.add_run("1", "x", manifest=PLAIN)
    path = store.add_run("2", "x", manifest=PLAIN) / "trace"
    path.write_bytes(path.read_bytes()[:-1])
    result = rewind("compare", "1", "2")
    assert (result.status, result.out) == (2, "")
    assert "the trace is cut short" in result.err
