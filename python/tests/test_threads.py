"""Who had the CPU: what is made of the trace, and how it is drawn."""

import struct
from pathlib import Path
from typing import Any

import attrs
import pytest

import traces
from conftest import Rewind, Store
from rewind.analysis.lanes import (
    ENDED,
    READY,
    RUNS,
    WAITS,
    History,
    Lane,
    history,
    step_at,
)
from rewind.cli.lanes import Axis, coloured, draw, idle, ruler
from rewind.formats.trace import TraceReader
from test_manifest import MANIFEST
from traces import end, execute, fork, leave, record, switch

THREAD = 0x3D0F00


def stall(tid: int, ns: int, time: int, pid: int = 1, nothing: bool = False) -> bytes:
    payload = struct.pack("<QQ", ns, 0x401000)
    return record(10, pid, tid, 1, payload, time=time, flags=int(nothing))


def wake(tid: int, time: int, pid: int = 1) -> bytes:
    """By an interrupt."""
    return traces.wake(0, tid, woken_pid=pid, time=time, flags=1)


def pool() -> list[bytes]:
    """Two threads of x by turns: 100 ns each; then nobody for 900 ns; then the second one."""
    return [
        leave(1, 16, 0, time=0),
        execute(1, b"/bin/x", b"x", time=10),
        fork(1, 2, THREAD, child_pid=1, time=100),
        switch(1, 2, b"worker", next_pid=1, time=200),
        stall(2, 900, 250),
        switch(2, 1, b"x", state=0x402, pid=1, time=300),
        switch(1, 0, b"swapper", state=1, time=400),
        wake(2, 1300),
        switch(0, 2, b"worker", next_pid=1, time=1300),
        end(2, 0, b"worker", last=False, pid=1, time=1400),
        wake(1, 1400),
        switch(2, 1, b"x", state=0x80, pid=1, time=1500),
        end(1, 0, b"x", time=1600),
    ]


def of(tmp_path: Path, records: list[bytes], last: int | None = None) -> History:
    with TraceReader(traces.write(tmp_path / "trace", records)) as reader:
        return history(reader, last)


def states(lane: Lane) -> list[tuple[int, int]]:
    return list(zip(lane.times, lane.states, strict=True))


def test_history(tmp_path: Path) -> None:
    found = of(tmp_path, pool())
    first, second = found.lanes
    assert states(first) == [
        (0, RUNS),
        (200, READY),
        (300, RUNS),
        (400, WAITS),
        (1400, READY),
        (1500, RUNS),
        (1600, ENDED),
    ]
    assert states(second) == [
        (100, READY),
        (200, RUNS),
        (300, WAITS),
        (1300, READY),
        (1300, RUNS),
        (1400, ENDED),
    ]
    assert list(second.steps) == [2, 3, 5, 7, 8, 9]
    assert [(lane.pid, lane.tid, lane.program, lane.label) for lane in found.lanes] == [
        (1, 1, "/bin/x", "x"),
        (1, 2, "/bin/x", "worker"),
    ]
    assert [record.step for record in found.perturbations] == [4]


def test_a_number_that_is_used_again(tmp_path: Path) -> None:
    again = [fork(1, 2, 0x11, time=1610), switch(1, 2, b"y", time=1700)]
    found = of(tmp_path, [*pool()[:-1], *again])
    assert [lane.tid for lane in found.lanes] == [1, 2, 2]
    assert states(found.lanes[2]) == [(1610, READY), (1700, RUNS)]


def test_a_thread_that_executes_a_program(tmp_path: Path) -> None:
    """It goes on under the first one's number."""
    records = [*pool()[:5], end(1, 0, b"x", last=False, time=260), execute(1, b"/bin/y", time=270)]
    found = of(tmp_path, records)
    assert [(lane.tid, lane.label) for lane in found.lanes] == [
        (1, "x"),
        (2, "worker"),
        (1, "y"),
    ]
    assert states(found.lanes[1])[-1] == (270, ENDED)
    assert states(found.lanes[2]) == [(270, RUNS)]


def test_names(tmp_path: Path) -> None:
    """The kernel's are cut to 15 characters."""
    path = b"/nix/store/x-gcc/bin/x86_64-linux-gnu-gcc"
    found = of(tmp_path, [leave(1, 16, 0), execute(1, path, time=1)])
    assert found.lanes[0].label == "x86_64-linux-gnu-gcc"


def test_up_to_a_step(tmp_path: Path) -> None:
    found = of(tmp_path, pool(), last=3)
    assert [states(lane)[-1] for lane in found.lanes] == [(200, READY), (200, RUNS)]
    assert of(tmp_path, []).lanes == []


def test_segments(tmp_path: Path) -> None:
    first, second = of(tmp_path, pool()).lanes
    assert list(first.segments(250, 450)) == [
        (READY, 250, 300),
        (RUNS, 300, 400),
        (WAITS, 400, 450),
    ]
    assert list(second.segments(0, 50)) == []
    assert list(second.segments(1350, 2000)) == [(RUNS, 1350, 1400)]
    assert list(second.segments(1400, 2000)) == []


@pytest.mark.parametrize("size", [1, 3, 100])
def test_step_at(tmp_path: Path, size: int) -> None:
    with TraceReader(traces.write(tmp_path / "trace", pool(), size)) as reader:
        found = [step_at(reader, time) for time in (0, 1, 10, 250, 1300, 1301, 1600, 1601)]
    assert found == [0, 1, 1, 4, 7, 9, 12, 13]


def test_idle(tmp_path: Path) -> None:
    lanes = of(tmp_path, pool()).lanes
    assert list(idle(lanes, 0, 2000)) == [(400, 1300), (1600, 2000)]
    assert list(idle(lanes, 500, 600)) == [(500, 600)]
    assert list(idle([], 5, 9)) == [(5, 9)]


def test_axis() -> None:
    axis = Axis(0, 1000, 10)
    assert [axis.column(time) for time in (0, 100, 250, 1000)] == [0, 1, 2.5, 10]
    assert [axis.time(column) for column in (0, 1, 10)] == [0, 100, 1000]


def test_axis_with_a_gap() -> None:
    """800 of 1000 ns have two columns, the other 200 the other eight."""
    axis = Axis(0, 1000, 10, [(100, 900)])
    assert axis.cut == [(100, 900)]
    assert axis.column(1000) == pytest.approx(10)
    gap = axis.column(900) - axis.column(100)
    assert gap == pytest.approx(2, rel=0.2)
    assert axis.column(100) == pytest.approx((10 - gap) / 2)
    for time in (0, 50, 100, 500, 900, 950):
        assert axis.column(axis.time(3)) == pytest.approx(3)
        assert axis.column(time) <= axis.column(time + 1)
    # What is short anyway is drawn as it is, and a time in which nobody runs, too.
    assert Axis(0, 1000, 10, [(100, 110)]).cut == []
    assert Axis(0, 1000, 10, [(0, 1000)]).column(500) == 5


def test_axis_with_many_gaps() -> None:
    """They leave half of the room for the rest."""
    gaps = [(n * 1000 + 10, n * 1000 + 1000) for n in range(1000)]
    axis = Axis(0, 1_000_000, 100, gaps)
    busy = sum(axis.column(n * 1000 + 10) - axis.column(n * 1000) for n in range(1000))
    assert 50 <= busy < 100


def test_draw(tmp_path: Path) -> None:
    first, second = of(tmp_path, pool()).lanes
    axis = Axis(0, 1600, 16)
    assert draw(first, axis) == "██░█··········░█"
    assert draw(second, axis) == " ░█··········█  "
    assert draw(second, axis, [250]) == " ░▼··········█  "
    assert draw(first, Axis(0, 1600, 4)) == "█··▄"
    assert draw(first, Axis(1500, 1600, 4)) == "████"


def test_colours() -> None:
    text = coloured("█▄░· ▼█")
    assert text.startswith("\x1b[0;32;1m█\x1b[0;32m▄\x1b[0;33m░\x1b[0;2m·\x1b[0m ")
    assert text.endswith("█\x1b[0m")
    assert coloured("  ") == "  "


def test_ruler() -> None:
    assert ruler([(0, "1"), (2, "22"), (6, "333"), (14, "44"), (18, "555")], 20) == (
        "1     333     44",
        "│     │       │",
    )


# --- the command

PLAIN = attrs.evolve(MANIFEST, schedule=())


@pytest.fixture
def run(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    store.add_run("1", "pool", pool(), manifest=PLAIN)
    monkeypatch.setenv("COLUMNS", "48")
    return store


def test_threads(rewind: Rewind, run: Store) -> None:
    result = rewind("threads", "1")
    assert (result.status, result.err) == (0, "")
    assert result.out.splitlines() == [
        "steps 0 to 12, from 0.000000 s to 0.000002 s: a column is 21 ns",
        "            0         4         7         11",
        "            │         │         │         │",
        "1 x         ██████████░░░░█████▄······░░░░▄█████",
        "1/2 worker      ░░░░░▄██▼█▄······█████",
        "█ runs  ▄ for less than half of the time  ░ could run  · waits",
        "▼ 4  1/2  stall of 900 ns",
        "drawn short: 900 ns in which nobody could run",
    ]


def test_a_window(rewind: Rewind, run: Store) -> None:
    lines = rewind("threads", "1", "--from", "5", "--to", "7").out.splitlines()
    assert lines[0] == "steps 5 to 7, from 0.000000 s to 0.000001 s: a column is 2 ns"
    assert [line.split()[0] for line in lines[3:]] == ["1", "█", "drawn", "1"]
    assert lines[-1] == "1 more thread only waited: --all shows them"
    every = rewind("threads", "1", "--from", "5", "--to", "7", "--all").out
    assert "\n1/2 worker  ···" in every
    assert "only waited" not in every


def test_nobody_runs(rewind: Rewind, run: Store) -> None:
    """Then those are shown that wait."""
    lines = rewind("threads", "1", "--from", "6", "--to", "6").out.splitlines()
    assert [line.split(maxsplit=1)[0] for line in lines[3:5]] == ["1", "1/2"]


def test_on_a_terminal(rewind: Rewind, run: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[0;31;1m▼" in rewind("threads", "1").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in rewind("threads", "1").out


def test_a_narrow_terminal(rewind: Rewind, run: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert len(rewind("threads", "1").out.splitlines()[3]) == 32


def crowd(count: int) -> list[bytes]:
    """A shell's children, of which each runs longer than the one before it."""
    records = [leave(1, 16, 0), execute(1, b"/bin/sh", b"sh", time=1)]
    time = 10
    for child in range(2, count + 2):
        name = b"job%d" % child
        records += [
            fork(1, child, 0x11, time=time),
            switch(1, child, b"sh", state=1, time=time + 1),
            execute(child, b"/bin/" + name, name, time=time + 2),
            end(child, 0, name, time=time + 3 + child),
            wake(1, time + 4 + child),
            switch(child, 1, b"sh", state=0x80, time=time + 4 + child),
        ]
        time += 100 + child
    return records


def test_many_threads(rewind: Rewind, run: Store) -> None:
    """Those that ran longest are shown, in the order in which they appeared."""
    run.add_run("2", "crowd", crowd(60), manifest=PLAIN)
    lines = rewind("threads", "2").out.splitlines()
    names = [line.split()[1] for line in lines[3:-2]]
    assert names == ["sh", *(f"job{number}" for number in range(23, 62))]
    assert lines[-1] == (
        "21 more threads ran, for less time: --all, --program, --from and --to show them"
    )
    assert len(rewind("threads", "2", "--all").out.splitlines()) == len(lines) - 1 + 21


def test_a_program(rewind: Rewind, run: Store) -> None:
    """From its start to its end."""
    run.add_run("2", "crowd", crowd(60), manifest=PLAIN)
    for word in ("job7", "/bin/job7", "7"):
        lines = rewind("threads", "2", "--program", word).out.splitlines()
        assert lines[0].startswith("steps 32 to 35, ")
        assert len(lines) == 5
        assert lines[3].split()[:2] == ["7", "job7"]
    two = rewind("threads", "2", "--program", "job7", "--program", "job8").out.splitlines()
    assert two[0].startswith("steps 32 to 41, ")


def test_perturbations(rewind: Rewind, run: Store) -> None:
    records = pool()
    records[5:5] = [stall(2, 10_000, 250 + n // 10) for n in range(24)]
    records.insert(5, stall(0, 1_000_000, 250, pid=0, nothing=True))
    run.add_run("2", "x", records, manifest=PLAIN)
    out = rewind("threads", "2").out
    assert "\n▼ 5  other  stall of 1 ms (no task of the job was running)\n" in out
    assert "\n▼ 6  1/2  stall of 10 us\n" in out
    assert "\n▼ and 6 more\n" in out


def test_json(rewind: Rewind, run: Store) -> None:
    data: Any = rewind("threads", "1", "--from", "3", "--to", "6", "--json").json
    assert data["from"] == {"step": 3, "time": 200}
    assert data["to"] == {"step": 6, "time": 400}
    assert [(thread["tid"], thread["name"]) for thread in data["threads"]] == [
        (1, "x"),
        (2, "worker"),
    ]
    assert data["threads"][1]["segments"] == [
        {"step": 3, "time": 200, "state": "runs"},
        {"step": 5, "time": 300, "state": "waits"},
    ]
    assert data["perturbations"] == [
        {
            "step": 4,
            "time": 250,
            "pid": 1,
            "tid": 2,
            "kind": "stall",
            "ns": 900,
            "nothing": False,
        }
    ]
    assert data["hash"] == f"{'1':0<32}"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--from", "13"], "there is no step 13: the run has 13"),
        (["--from", "5", "--to", "4"], "there is nothing from step 5 to step 4"),
        (["--program", "cc"], "10000000 has no threads of cc"),
        (["--to", "x"], "'x' is no position"),
    ],
)
def test_bad_input(rewind: Rewind, run: Store, words: list[str], why: str) -> None:
    result = rewind("threads", "1", *words)
    assert (result.status, result.out) == (2, "")
    assert why in result.err


def test_an_empty_run(rewind: Rewind, run: Store) -> None:
    run.add_run("2", "x", [], manifest=PLAIN)
    result = rewind("threads", "2")
    assert (result.status, result.out) == (2, "")
    assert "20000000 has no steps" in result.err
