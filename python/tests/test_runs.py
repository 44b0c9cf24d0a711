"""Which run a user means."""

from pathlib import Path

import pytest

from conftest import Store
from rewind.cli import runs
from rewind.cli.errors import Failure


@pytest.fixture
def known(store: Store) -> list[Path]:
    """Three runs, the newest first."""
    return [
        store.add_run(digits, name) for digits, name in (("1a", "x"), ("1b", "x"), ("2", "y-1.0"))
    ][::-1]


@pytest.mark.parametrize(
    ("text", "place"), [("@", 0), ("@1", 0), ("@3", 2), ("2", 0), ("1b", 1), ("y-1.0", 0)]
)
def test_found(known: list[Path], text: str, place: int) -> None:
    assert runs.find(text).path == known[place]


def test_by_path(known: list[Path], tmp_path: Path) -> None:
    (tmp_path / "result").symlink_to(known[1])
    for path in (known[1], known[1] / "trace", tmp_path / "result"):
        run = runs.find(str(path))
        assert (run.path, run.hash, run.name) == (known[1], f"{'1b':0<32}", "x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("3", "no run of the hash or name 3"),
        ("zebra", "no run of the name zebra: rewind ls lists them"),
        ("@4", "no run @4: the store has 3"),
        ("@0", "@0 is no run: @ is the newest"),
        ("@x", "@x is no run"),
        ("./nothing", "is not the path of a run"),
        ("", "'' is no run: rewind ls lists them"),
    ],
)
def test_not_found(known: list[Path], text: str, why: str) -> None:
    with pytest.raises(Failure, match=why):
        runs.find(text)


@pytest.mark.parametrize("text", ["1", "x"])
def test_ambiguous(known: list[Path], text: str) -> None:
    """The candidates are listed, the newest first."""
    with pytest.raises(Failure) as raised:
        runs.find(text)
    assert str(raised.value).splitlines() == [
        f"{text} could be any of 2 runs:",
        f"  {'1b':0<32}  x",
        f"  {'1a':0<32}  x",
    ]


def test_what_is_no_run(store: Store) -> None:
    """Outputs, derivations, and what is half-made do not count."""
    run = store.add_run("1", "x")
    for name in ("rewind-run-x-nars", "rewind-run-x.drv", "bank"):
        (store.path / f"{'2':0<32}-{name}").mkdir()
    half = store.add_run("3", "y")
    store.invalid.add(half)
    (store.path / f"{'1':0<32}-rewind-run-x.check").mkdir()
    assert [found.path for found in runs.newest_first()] == [run]


def test_no_runs(store: Store) -> None:
    with pytest.raises(Failure, match="no runs yet"):
        runs.find("@")


def test_no_store(store: Store) -> None:
    store.path.rmdir()
    with pytest.raises(Failure, match="cannot be read: No such file"):
        runs.scan()
