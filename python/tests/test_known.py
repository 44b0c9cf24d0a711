"""Runs that are known, and not built."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from conftest import Rewind, Store
from rewind.cli import nix, places, recording, runs
from rewind.cli.errors import Failure
from rewind.cli.nix import Event
from rewind.cli.recording import Options, Recording, Request
from rewind.formats import schedule
from rewind.formats.manifest import Manifest
from test_drv import aterm
from test_manifest import MANIFEST

DEFAULTS = Options(schedule=(), epoch=1_791_331_200, seed="", cores=1, memory=1024, time_limit=3600)


@pytest.fixture(autouse=True)
def _defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "defaults", lambda: DEFAULTS)


def made(store: Store, digit: str, name: str = "bank", manifest: Manifest = MANIFEST) -> Recording:
    """A run's derivation in the store, as lib/run.nix makes it."""
    out = store.path / f"{digit:0<32}-rewind-run-{name}"
    nars = Path(f"{out}-nars")
    attributes = {
        "jobName": name,
        "drv": manifest.drv,
        "schedule": schedule.to_data(manifest.schedule),
        "epoch": manifest.epoch,
        "seed": manifest.seed,
        "cores": manifest.cores,
        "memory": manifest.memory,
        "timeLimit": manifest.time_limit,
        "outputs": ["out", "nars"],
    }
    drv = store.path / f"{'d' + digit:0<32}-rewind-run-{name}.drv"
    outputs = (("nars", str(nars), "", ""), ("out", str(out), "", ""))
    drv.write_text(aterm({"__json": json.dumps(attributes)}, outputs))
    return Recording(drv, out, nars)


Known = Callable[..., Recording]


@pytest.fixture
def known(store: Store) -> Known:
    """Makes a derivation and has it remembered."""

    def remember(digit: str, **arguments: str) -> Recording:
        found = made(store, digit, **arguments)
        runs.remember(found)
        return found

    return remember


def test_found_by_hash_name_and_path(known: Known) -> None:
    run = known("7")
    for text in ("7", "bank", str(run.out), f"{run.out}", str(run.drv)):
        found = runs.find(text)
        assert (found.path, found.name, found.drv) == (run.out, "bank", run.drv), text


def test_a_derivation_that_nobody_remembered(store: Store) -> None:
    run = made(store, "7")
    assert runs.find(str(run.drv)).path == run.out
    with pytest.raises(Failure, match="no run of the hash or name 7"):
        runs.find("7")


def test_not_the_newest(store: Store, known: Known) -> None:
    known("7")
    with pytest.raises(Failure, match="there are no runs yet"):
        runs.find("@")
    path = store.add_run("1", "x")
    known("8")
    assert runs.find("@").path == path


def test_one_that_is_built_counts_once(store: Store, known: Known) -> None:
    run = known("7")
    store.add_run("7", "bank")
    assert runs.unbuilt() == []
    for text in ("7", str(run.drv)):
        assert runs.find(text).drv is None


def test_ambiguous(store: Store, known: Known) -> None:
    known("71")
    store.add_run("72", "x")
    with pytest.raises(Failure) as raised:
        runs.find("7")
    assert str(raised.value).splitlines() == [
        "7 could be any of 2 runs:",
        f"  {'72':0<32}  x",
        f"  {'71':0<32}  bank",
    ]


def test_the_oldest_are_forgotten(
    store: Store, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_KNOWN", 3)
    for number in range(5):
        link = places.known() / known(str(number)).out.name
        os.utime(link, (number, number), follow_symlinks=False)
    assert [run.hash[0] for run in runs.unbuilt()] == ["4", "3", "2"]
    assert len(list(places.known().iterdir())) == 3


def test_collected_as_garbage(known: Known) -> None:
    """A link whose derivation is gone, as in another store, is no run."""
    known("7").drv.unlink()
    assert runs.unbuilt() == []


def test_no_place_for_links(store: Store, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(Failure, match=r"there can be no links to runs in .*/known: "):
        runs.remember(made(store, "7"))


def test_show(rewind: Rewind, store: Store, known: Known) -> None:
    """The same line as when it is built, and nothing is built for it."""
    known("7")
    shown = rewind("show", "7")
    assert shown.status == 0
    assert "--schedule '[{" in shown.out
    data = rewind("show", "7", "--json").json
    assert isinstance(data, dict)
    assert data["built"] is False
    assert data["schedule"] == schedule.to_data(MANIFEST.schedule)
    store.add_run("7", "bank")
    never = "# 1 of 1 perturbation never came: a stall of 1 ms at 3237+41\n"
    assert rewind("show", "7").out == shown.out + never
    again = rewind("show", "7", "--json").json
    assert isinstance(again, dict)
    assert again == {**again, **data, "built": True}


def test_ls(rewind: Rewind, store: Store, known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    link = places.known() / known("7").out.name
    os.utime(link, (store.clock + 90, store.clock + 90), follow_symlinks=False)
    store.add_run("1", "a")
    store.add_run("2", "b")
    rows = [line.split() for line in rewind("ls").out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["20000000", "70000000", "10000000"]
    assert rows[1] == ["70000000", "bank", "not", "built", "1"]
    data = rewind("ls", "--json").json
    assert isinstance(data, list)
    assert [entry["built"] for entry in data] == [True, False, True]
    assert (data[1]["outcome"], data[1]["steps"], data[1]["perturbations"]) == (None, None, 1)


def test_ls_with_a_damaged_derivation(rewind: Rewind, store: Store, known: Known) -> None:
    known("7").drv.write_text("Derive(")
    store.add_run("1", "a")
    result = rewind("ls")
    assert "is a damaged derivation" in result.err
    assert "10000000" in result.out


def test_request_of_something_else(store: Store) -> None:
    path = store.path / "x-rewind-run-x.drv"
    path.write_text(aterm({"out": "/nix/store/x"}))
    with pytest.raises(Failure, match="makes no run, or one for another version of rewind"):
        Request.read(path)
    with pytest.raises(Failure, match="makes no run"):
        runs.find(str(path.rename(store.path / f"{'x':0<32}-rewind-run-x.drv")))


@pytest.mark.parametrize("words", [["log"], ["events"], ["ps"]])
def test_reading_builds_it(
    rewind: Rewind, store: Store, known: Known, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    run = known("7")
    built = []

    def build(installable: str, *options: str) -> list[Event]:
        built.append((installable, *options))
        store.add_run("7", "bank", log=b"hello\n")
        return []

    monkeypatch.setattr(nix, "build", build)
    result = rewind(*words, "7")
    assert result.status == 0
    assert result.err == "rewind: 70000000  bank is not built yet: building it\n"
    assert built == [(f"{run.drv}^*", "--out-link", str(places.roots() / run.out.name))]
    assert result.out == rewind(*words, "7").out
    assert len(built) == 1


def test_bad_arguments_build_nothing(
    rewind: Rewind, known: Known, monkeypatch: pytest.MonkeyPatch
) -> None:
    known("7")

    def build(*words: str) -> list[Event]:
        raise AssertionError(words)

    monkeypatch.setattr(nix, "build", build)
    assert rewind("events", "7", "--from", "x").status == 2


def test_completion(store: Store, known: Known) -> None:
    from rewind.cli import params

    known("7", name="x")
    store.add_run("1", "y")
    complete = params.RunType().shell_complete
    values = {item.value for item in complete(None, None, "")}  # type: ignore[arg-type]
    assert values == {"70000000", "10000000", "x", "y"}


def test_options_are_those_of_the_manifest(store: Store) -> None:
    options = Request.read(made(store, "7").drv).options
    assert options == attrs.evolve(Options.of(MANIFEST), name="bank")
