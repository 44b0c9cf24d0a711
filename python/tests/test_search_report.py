"""report.cbor, and what is no such file."""

import json
import typing
from pathlib import Path
from typing import Any

import attrs
import cbor2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewind.formats import FormatError
from rewind.formats.manifest import Outcome, Output
from rewind.formats.schedule import Perturbation
from rewind.search import report as module
from rewind.search import text
from rewind.search.report import (
    Access,
    Analysis,
    Deciding,
    Explanation,
    Odds,
    Place,
    Report,
    Side,
    Tried,
    Waiting,
    dump,
    plain,
    undump,
)
from test_schedule import SCHEDULES

NAR = "sha256:" + "0" * 52
PLACE = Place(
    text="deposit (bank.c:37)", function="deposit", file="/build/bank.c", line=37, why=None
)
NO_PLACE = Place(text="0x401000", function=None, file=None, line=None, why="no debug information")


def tried(number: int, *schedule: Perturbation, outcome: Outcome | None = None) -> Tried:
    """A schedule that was run; the outcome is that of a success, or another one."""
    return Tried(
        number=number,
        schedule=schedule,
        outcome=outcome or Outcome("exited", 0),
        outputs={} if outcome else {"out": Output("/nix/store/x", NAR, 7)},
        steps=3250,
        guest_time=1_500_000_000,
        trace="ab" * 32,
        changed=outcome is not None,
    )


def side(*schedule: Perturbation, outcome: Outcome | None = None, **more: Any) -> Side:
    return Side(
        schedule=schedule,
        time_limit=more.pop("time_limit", 3600),
        outcome=outcome or Outcome("exited", 0),
        outputs={},
        steps=3250,
        trace="cd" * 32,
        waiting=more.pop("waiting", ()),
    )


STALL = Perturbation(3237, 41, "stall", 1_000_000)
LATER = attrs.evolve(STALL, offset=42)
SAME = Report(
    name="bank-0.1.0",
    drv="/nix/store/bank.drv",
    system="x86_64-linux",
    schedule=(),
    epoch=1_791_331_200,
    seed="0",
    cores=1,
    memory=2048,
    time_limit=3600,
    limit=60,
    schedules=64,
    first=0,
    every=False,
    ignore_outputs=False,
    strategy="chance",
    verdict="same",
    cut_short=False,
    tried=(tried(0), *(tried(n, Perturbation(n, 0, "reschedule")) for n in range(1, 65))),
    drawn=64,
    runs=0,
    deciding=None,
    analysis=None,
    explanation=None,
    odds=(),
    failing=None,
    passing=None,
)
DIFFERS = attrs.evolve(
    SAME,
    verdict="differs",
    tried=(
        tried(0),
        tried(1, Perturbation(3230, 0, "stall", 1_000_000), outcome=Outcome("exited", 1)),
    ),
    runs=33,
    deciding=Deciding(
        step=3237, offset=41, kind="stall", ns=1_000_000, pid=139, tid=141, place=PLACE
    ),
    failing=side(
        STALL,
        outcome=Outcome("stalled"),
        waiting=(
            Waiting(pid=1, tid=2, program="/bin/a", call=202, args=(1, 2), place=PLACE),
            Waiting(pid=1, tid=1, program="/bin/a", call=None, args=(), place=None),
        ),
    ),
    passing=side(LATER),
)

TEXT = st.text(max_size=5)
NATURAL = st.integers(0, 2**64 - 1)
OUTCOMES = st.one_of(
    st.builds(Outcome, st.just("exited"), st.integers(0, 255)),
    st.builds(Outcome, st.sampled_from(["stalled", "timed-out"])),
)
OUTPUTS = st.dictionaries(TEXT, st.builds(Output, TEXT, st.just(NAR), NATURAL), max_size=2)
LEAVES = {int: st.integers(), str: TEXT, bool: st.booleans()}


def any_of(kind: Any, **given: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of the attrs class *kind*, whose fields are numbers, texts and what is given."""
    hints = typing.get_type_hints(kind)
    fields = {
        field.name: given.get(field.name, LEAVES.get(hints[field.name], st.none()))
        for field in attrs.fields(kind)
    }
    return st.builds(kind, **fields)


PLACES = st.none() | any_of(Place)
WAITING = any_of(Waiting, args=st.lists(NATURAL, max_size=6).map(tuple), place=PLACES)
ACCESSES = any_of(Access, place=PLACES)
RUNS = {"schedule": SCHEDULES, "outcome": OUTCOMES, "outputs": OUTPUTS}
SIDES = st.none() | any_of(Side, **RUNS, waiting=st.lists(WAITING, max_size=2).map(tuple))
REPORTS = any_of(
    Report,
    schedule=SCHEDULES,
    verdict=st.just("same"),
    tried=st.lists(any_of(Tried, **RUNS), min_size=1, max_size=3).map(tuple),
    deciding=st.none() | any_of(Deciding, place=PLACES),
    analysis=st.none() | any_of(Analysis, error=st.none() | TEXT),
    odds=st.lists(any_of(Odds), max_size=2).map(tuple),
    explanation=st.none()
    | any_of(
        Explanation,
        variable=st.none() | TEXT,
        before=st.none() | ACCESSES,
        between=ACCESSES,
        after=ACCESSES,
    ),
    failing=SIDES,
    passing=SIDES,
).map(
    lambda report: attrs.evolve(
        report, verdict="differs" if report.failing and report.passing else "same"
    )
)


@settings(max_examples=50)
@given(REPORTS)
def test_round_trip(report: Report) -> None:
    data = report.to_cbor()
    assert Report.from_cbor(data) == report
    assert Report.from_cbor(data).to_cbor() == data


@pytest.mark.parametrize("report", [SAME, DIFFERS], ids=["same", "differs"])
def test_a_file(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.cbor"
    path.write_bytes(report.to_cbor())
    assert Report.load(path) == report


def test_it_says_what_it_is() -> None:
    data = cbor2.loads(SAME.to_cbor())
    assert (data["format"], data["version"]) == ("rewind-search", 2)
    assert data["tried"][3]["schedule"] == [{"at": "3", "reschedule": True}]
    assert data["tried"][3]["outcome"] == {"kind": "exited", "value": 0}
    assert set(data) == {"format", "version"} | {field.name for field in attrs.fields(Report)}


def test_as_json() -> None:
    data = plain(DIFFERS)
    assert json.loads(json.dumps(data)) == data
    assert data["deciding"]["place"]["line"] == 37
    assert data["failing"]["schedule"] == [{"at": "3237+41", "stall": 1_000_000}]


@settings(max_examples=50)
@given(st.integers(0, len(DIFFERS.to_cbor()) - 1), st.integers(1, 255))
def test_another_byte(at: int, change: int) -> None:
    data = bytearray(DIFFERS.to_cbor())
    data[at] ^= change
    read(bytes(data))


@settings(max_examples=50)
@given(st.integers(0, len(DIFFERS.to_cbor()) - 1))
def test_cut_short(size: int) -> None:
    with pytest.raises(FormatError):
        Report.from_cbor(DIFFERS.to_cbor()[:size])


@given(st.binary(max_size=100))
def test_garbage(data: bytes) -> None:
    with pytest.raises(FormatError):
        Report.from_cbor(data)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=150)
@given(st.data(), JUNK)
def test_another_value(draw: st.DataObject, value: object) -> None:
    """Anywhere in it."""
    data = cbor2.loads(DIFFERS.to_cbor())
    here = data
    while True:
        key = draw.draw(
            st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here)))
        )
        inner = here[key]
        if not inner or not isinstance(inner, dict | list) or draw.draw(st.booleans()):
            here[key] = value
            break
        here = inner
    read(cbor2.dumps(data))


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"name": ...},
        {3: 4},
        {"tried": []},
        {"verdict": "differs"},
        {"every": 1},
        {"cores": True},
        {"epoch": 1.0},
    ],
)
def test_other_fields(change: dict[object, object]) -> None:
    data = cbor2.loads(SAME.to_cbor()) | change
    data = {name: value for name, value in data.items() if value is not ...}
    with pytest.raises(FormatError, match="damaged"):
        Report.from_cbor(cbor2.dumps(data))


def read(data: bytes) -> None:
    """Read a damaged report: what can't be noticed is a report, that can be written again."""
    try:
        report = Report.from_cbor(data)
    except FormatError as error:
        assert "\n" not in str(error)
        return
    assert Report.from_cbor(report.to_cbor()) == report
    if report.verdict != "differs":
        assert list(text.lines(report, Path("/nowhere"), {}))


def test_other_versions(tmp_path: Path) -> None:
    data = cbor2.loads(SAME.to_cbor())
    path = tmp_path / "report.cbor"
    path.write_bytes(cbor2.dumps(data | {"version": 3}))
    with pytest.raises(
        FormatError, match=r"report\.cbor: .* version 3; this rewind reads versions up to 2"
    ):
        Report.load(path)
    # The first one knew nothing of accesses to memory.
    older = {name: data[name] for name in data if name not in ("analysis", "explanation", "odds")}
    path.write_bytes(cbor2.dumps(older | {"version": 1}))
    assert Report.load(path) == SAME
    path.write_bytes(cbor2.dumps(data | {"format": "rewind-manifest"}))
    with pytest.raises(FormatError, match="no report of a search"):
        Report.load(path)
    path.write_bytes(cbor2.dumps(["rewind-search"]))
    with pytest.raises(FormatError, match="no report of a search"):
        Report.load(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nothing: No such file"):
        Report.load(tmp_path / "nothing")
    with pytest.raises(FormatError, match="Is a directory"):
        Report.load(tmp_path)


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    path = tmp_path / "report.cbor"
    path.write_bytes(SAME.to_cbor())
    with pytest.raises(FormatError, match="too large"):
        Report.load(path)


@pytest.mark.parametrize(
    ("outcome", "guest_time", "unperturbed", "limit"),
    [
        (Outcome("exited", 0), 999_999_999, 1, 1),
        # With its own limit it would have been cut off.
        (Outcome("exited", 0), 1_000_000_000, 1, 60),
        (Outcome("stalled"), 5_000_000_000, 3600, 3600),
        (Outcome("timed-out"), 60_000_000_000, 3600, 60),
        (Outcome("exited", 0), 10**15, 0, 0),
        (Outcome("timed-out"), 60_000_000_000, 0, 60),
        (Outcome("timed-out"), 1_000_000_000, 1, 60),
    ],
)
def test_limits(outcome: Outcome, guest_time: int, unperturbed: int, limit: int) -> None:
    assert module.limit_of(outcome, guest_time, unperturbed, 60) == limit


def test_what_a_shard_leaves(tmp_path: Path) -> None:
    path = tmp_path / "shard.cbor"
    path.write_bytes(dump(DIFFERS.tried))
    assert undump(path) == DIFFERS.tried


@pytest.mark.parametrize(
    "data", [b"", b"\xff", cbor2.dumps(7), cbor2.dumps([7]), cbor2.dumps([{}])]
)
def test_what_no_shard_leaves(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "shard.cbor"
    path.write_bytes(data)
    with pytest.raises(FormatError):
        undump(path)
