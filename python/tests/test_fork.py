"""Another run, perturbed where one is not; and what schedules did, in words."""

import json
import struct
from pathlib import Path

import attrs
import pytest

import traces
from conftest import Rewind, Store
from rewind.cli import nix, params, recording
from rewind.cli.errors import Failure
from rewind.cli.nix import Event
from rewind.cli.perturbed import without_effect
from rewind.cli.recording import Options, Recording
from rewind.formats.manifest import Outcome, Output
from rewind.formats.schedule import Named, NamedPerturbation, Perturbation
from rewind.formats.spans import span
from rewind.formats.trace import TraceReader
from test_drv import aterm
from test_manifest import MANIFEST

NAR = "sha256:" + "0" * 52


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("10us", 10_000),
        ("10 µs", 10_000),
        ("1ms", 1_000_000),
        ("1s", 1_000_000_000),
        ("1.5s", 1_500_000_000),
        ("0.0001us", None),
        ("7ns", 7),
        ("0.1s", 100_000_000),
        ("0s", None),
        ("1", None),
        ("-1s", None),
        ("1e3s", None),
        ("ms", None),
        ("٣s", None),
        ("315360000s", 315_360_000 * 10**9),
        ("315360001s", None),
    ],
)
def test_time_spans(text: str, ns: int | None) -> None:
    if ns is None:
        with pytest.raises(Failure, match=f"{text}"):
            params.SpanType().convert(text, None, None)
    else:
        assert params.SpanType().convert(text, None, None) == ns


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (1, "1 ns"),
        (1_234, "1.234 us"),
        (10_000, "10 us"),
        (1_000_000, "1 ms"),
        (1_500_000, "1.5 ms"),
        (1_234_567, "1,234.567 us"),
        (3_600_000_000_000, "3,600 s"),
        (100_000_000, "100 ms"),
    ],
)
def test_time_spans_in_words(ns: int, text: str) -> None:
    assert span(ns) == text


def perturbed(kind: int, ns: int, time: int, tid: int = 1, nothing: bool = False) -> bytes:
    payload = struct.pack("<QQ", ns, 0x401000)
    return traces.record(10, tid, tid, kind, payload, time=time, flags=int(nothing))


def told(tmp_path: Path, records: list[bytes], *schedule: Perturbation) -> list[str]:
    manifest = attrs.evolve(MANIFEST, schedule=schedule, steps=len(records))
    with TraceReader(traces.write(tmp_path / "trace", records)) as reader:
        return list(without_effect(manifest, reader))


def test_what_had_no_effect(tmp_path: Path) -> None:
    """Perturbations take place in the order of time, not of their positions."""
    records = [
        traces.enter(1, 39, time=0),
        traces.leave(1, 39, 1, time=10),
        perturbed(2, 0, 20),
        perturbed(1, 500, 1000, nothing=True),
    ]
    late, early = Perturbation(0, 1000, "stall", 500), Perturbation(1, 10, "reschedule")
    never = Perturbation(7, 0, "reschedule")
    assert told(tmp_path, records, late, early, never) == [
        "the stall at 0+1000 did nothing: no task of the job was running",
        "1 of 3 perturbations never came: a reschedule at 7; the run has 4 steps",
    ]
    assert told(tmp_path, records[:3], late, early) == [
        "1 of 2 perturbations never came: a stall of 500 ns at 0+1000; the run has 3 steps"
    ]
    assert told(tmp_path, records[:3], early) == []


@attrs.define
class World:
    """Stands for Nix: makes each run that is asked for."""

    store: Store
    path: Path
    """The run that is forked."""
    outcome: Outcome = MANIFEST.outcome
    outputs: dict[str, Output] = attrs.field(factory=dict)
    records: list[bytes] = attrs.field(factory=traces.sample)
    asked: list[Options] = attrs.field(factory=list)
    built: list[str] = attrs.field(factory=list)
    other_version: bool = False

    def instantiate(self, job: object, options: Options) -> Recording:
        self.asked.append(options)
        forked = options != self.asked[0]
        out = self.store.path / f"{'f' if forked else '1':0<32}-rewind-run-bank"
        if self.other_version:
            out = self.store.path / f"{'9':0<32}-rewind-run-bank"
        return Recording(Path(f"{out}.drv"), out, Path(f"{out}-nars"))

    def build(self, installable: str, *options: str) -> list[Event]:
        self.built.append(installable)
        if not (self.store.path / f"{'f':0<32}-rewind-run-bank").exists():
            manifest = attrs.evolve(
                MANIFEST,
                schedule=self.asked[-1].schedule or (),
                outcome=self.outcome,
                outputs=self.outputs,
                messages=(),
            )
            self.store.add_run("f", "bank", self.records, manifest=manifest)
        return []


@pytest.fixture
def world(store: Store, monkeypatch: pytest.MonkeyPatch) -> World:
    job = store.path / f"{'j':0<32}-bank.drv"
    job.write_text(aterm())
    outputs = {"out": Output("/nix/store/x", NAR, 1)}
    manifest = attrs.evolve(
        MANIFEST, schedule=(), drv=str(job), outputs=outputs, outcome=Outcome("exited", 0)
    )
    path = store.add_run("1", "bank", manifest=manifest)
    found = World(store, path, outputs=outputs, outcome=Outcome("exited", 0))
    monkeypatch.setattr(recording, "instantiate", found.instantiate)
    monkeypatch.setattr(nix, "build", found.build)
    return found


def test_fork(rewind: Rewind, world: World) -> None:
    result = rewind("fork", "1", "8+5", "--stall", "1ms")
    assert result.status == 0
    assert world.asked[1] == attrs.evolve(
        world.asked[0], schedule=(Perturbation(8, 5, "stall", 1_000_000),)
    )
    lines = result.out.splitlines()
    assert lines[0] == f"{'f':0<32}  bank"
    assert lines[1].startswith("exited 0: 21 steps, ")
    assert lines[2:] == ["the same outcome as 10000000", "rewind compare 10000000 f0000000"]
    # The sample has a stall of that length.
    assert result.err == ""
    again = rewind("fork", "1", "8+5", "--stall", "1ms", "--json").json
    assert isinstance(again, dict)
    assert (again["was_known"], again["of"], again["same_outcome"]) == (True, f"{'1':0<32}", True)
    assert again["compare"] == ["rewind", "compare", "10000000", "f0000000"]


def test_fork_that_ends_in_another_way(rewind: Rewind, world: World) -> None:
    world.outcome, world.outputs = Outcome("exited", 2), {}
    result = rewind("fork", "1", "8", "--reschedule")
    assert result.status == 1
    assert result.out.splitlines()[2:] == [
        "outcome: exited 2, and exited 0 in 10000000",
        "out: not made, and made in 10000000",
        "rewind compare 10000000 f0000000",
    ]


def test_fork_without_effect(rewind: Rewind, world: World) -> None:
    world.records = traces.sample()[:5]
    result = rewind("fork", "1", "8", "--reschedule")
    assert result.err == (
        "rewind: 1 of 1 perturbation never came: a reschedule at 8; the run has 5 steps\n"
    )
    assert result.status == 0
    data = rewind("fork", "1", "8", "--reschedule", "--json").json
    assert isinstance(data, dict)
    assert len(data["without_effect"]) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["21", "--reschedule"], "there is no step 21: the run has 21"),
        (["9:1", "--reschedule"], "there is no 9:1: the run has "),
        (["1:99", "--reschedule"], "there is no 1:99: task 1 makes "),
        (["1:x", "--reschedule"], "'1:x' is no position: T:C+K is one"),
        (["1:2+18446744073709551616", "--reschedule"], "is no position: T:C+K is one"),
        (
            ["20+11", "--reschedule"],
            "there is no 20+11: the run ends 10 instructions after step 20",
        ),
        (["5"], "a fork has one perturbation: --stall T or --reschedule"),
        (["5", "--stall", "1ms", "--reschedule"], "a fork has one perturbation"),
        (["5", "--stall", "1000"], "'1000' is no time: write 10us, 1ms or 1.5s"),
        (["x", "--reschedule"], "'x' is no position"),
        ([], "missing argument 'POSITION'"),
    ],
)
def test_bad_input(rewind: Rewind, world: World, words: list[str], why: str) -> None:
    """Nothing is made."""
    result = rewind("fork", "1", *words)
    assert (result.status, result.out) == (2, "")
    assert why in result.err
    assert world.built == []


def test_the_last_instruction_is_there(rewind: Rewind, world: World) -> None:
    assert rewind("fork", "1", "20+10", "--reschedule").status == 0


def test_two_at_a_position(rewind: Rewind, world: World) -> None:
    manifest = attrs.evolve(MANIFEST, drv=str(world.store.path / f"{'j':0<32}-bank.drv"))
    path = world.store.add_run("2", "x", manifest=manifest)
    data = attrs.evolve(manifest, steps=21, schedule=(Perturbation(8, 0, "reschedule"),), name="x")
    (path / "manifest.cbor").write_bytes(data.to_cbor())
    result = rewind("fork", "2", "8", "--stall", "1ms")
    assert (result.status, world.built) == (2, [])
    assert "the schedule has two perturbations at 8" in result.err


def test_at_a_named_position(rewind: Rewind, world: World) -> None:
    """It is in the new run's schedule as it was named."""
    assert rewind("fork", "1", "1:1+5", "--stall", "1ms").status in (0, 1)
    assert world.asked[-1].schedule == (NamedPerturbation(Named(1, 1, 5), "stall", 1_000_000),)


def test_made_by_another_version(rewind: Rewind, world: World) -> None:
    world.other_version = True
    result = rewind("fork", "1", "8", "--reschedule")
    assert (result.status, world.built) == (2, [])
    assert "another version of rewind made this run" in result.err


def test_no_job(rewind: Rewind, world: World) -> None:
    (world.store.path / f"{'j':0<32}-bank.drv").unlink()
    result = rewind("fork", "1", "8", "--reschedule")
    assert result.status == 2
    assert "is not in the store: evaluate it again" in result.err


def test_nix_tells_of_no_effect(
    rewind: Rewind, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nix, "config", lambda: {"substituters": []})
    world.asked.append(Options())
    schedule = [{"at": str(step), "reschedule": True} for step in range(100, 110)]
    job = world.store.path / f"{'j':0<32}-bank.drv"
    result = rewind("nix", str(job), "--schedule", json.dumps(schedule))
    lines = result.err.splitlines()
    named = ", ".join(f"a reschedule at {step}" for step in range(100, 105))
    assert lines == [
        f"rewind: 10 of 10 perturbations never came: {named}, 5 more; the run has 21 steps"
    ]
