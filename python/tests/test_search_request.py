"""What a search is told; and what it says when that makes no sense."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import test_recorder
from rewind.formats.schedule import Perturbation
from rewind.recorder.request import RequestError
from rewind.search import SearchError
from rewind.search.engine import Bounds
from rewind.search.generate import STRATEGIES
from rewind.search.request import SearchRequest
from test_recorder import Lab

lab = test_recorder.lab
"""The fixture: a run that can be made."""

GIVEN = {
    "schedules": 64,
    "from": 0,
    "all": False,
    "ignoreOutputs": False,
    "strategy": "directed",
    "shards": 1,
    "shard": None,
    "parts": [],
    "seconds": None,
    "nonce": None,
    "kernel": "/nix/store/kernel/vmlinux",
    "races": "/nix/store/plugin/lib/races.so",
}


@pytest.fixture
def given(lab: Lab) -> dict[str, Any]:
    """The attributes of a search, all as by default."""
    return lab.attributes | GIVEN | {"outputs": {"out": str(lab.path / "out")}}


def test_as_by_default(given: dict[str, Any]) -> None:
    request = SearchRequest.parse(given)
    assert request.bounds == Bounds()
    assert (request.seconds, request.shard, request.parts) == (None, None, ())
    assert request.kernel == Path("/nix/store/kernel/vmlinux")
    assert request.races == Path("/nix/store/plugin/lib/races.so")
    assert request.out == Path(given["outputs"]["out"])
    assert request.run.schedule == (Perturbation(2, 7, "stall", 1000),)
    assert (request.run.name, request.run.time_limit) == ("x-1", 60)


def test_as_told(given: dict[str, Any]) -> None:
    told = {
        "schedules": 100_000,
        "from": 17,
        "all": True,
        "ignoreOutputs": True,
        "shards": 3,
        "shard": 2,
        "seconds": 0.5,
        "parts": ["/a", "/b"],
    }
    request = SearchRequest.parse(given | told)
    assert request.bounds == Bounds(
        schedules=100_000, first=17, every=True, ignore_outputs=True, shard=2, shards=3
    )
    assert (request.seconds, request.shard) == (0.5, 2)
    assert request.parts == (Path("/a"), Path("/b"))


def test_the_search_that_takes_the_shards_together_is_no_shard(given: dict[str, Any]) -> None:
    bounds = SearchRequest.parse(given | {"shards": 3, "parts": ["/a"]}).bounds
    assert (bounds.shard, bounds.shards) == (0, 1)


BAD: list[tuple[str, Any, str]] = [
    *(("schedules", value, "schedules") for value in (-1, 100_001, None, "64", 6.5, True)),
    *(("from", value, "from") for value in (-1, 1 << 63, None, "0")),
    *(("shards", value, "shards") for value in (0, None, False)),
    *(("shard", value, "shard") for value in (-1, 1, "0", False)),
    *(("seconds", value, "seconds") for value in (0, -1, "90s", True)),
    *(("strategy", value, "there is no strategy") for value in (None, "luck", 3)),
    *(("kernel", value, "kernel") for value in (None, 3)),
    *(("parts", value, "parts") for value in (None, "/a", [3])),
    *(("outputs", value, "out") for value in (None, {}, [], "out")),
    ("inputs", {"a": 1}, "inputs"),
    ("memory", 1, "memory"),
    ("schedule", [{"at": "1", "stop": True}], "not stop"),
    ("jobName", None, "jobName"),
]


@pytest.mark.parametrize(("name", "value", "says"), BAD)
def test_what_makes_no_sense(given: dict[str, Any], name: str, value: Any, says: str) -> None:
    with pytest.raises((SearchError, RequestError), match=says) as caught:
        SearchRequest.parse(given | {name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(set(GIVEN) - {"all", "ignoreOutputs", "nonce"}))
def test_what_is_left_out(given: dict[str, Any], name: str) -> None:
    del given[name]
    if GIVEN[name] in (None, []):
        SearchRequest.parse(given)
        return
    with pytest.raises(SearchError, match=name):
        SearchRequest.parse(given)


def start(lab: Lab, attributes: object) -> tuple[int, str]:
    """Exit status and stderr of the searcher."""
    path = lab.path / "attrs.json"
    path.write_text(json.dumps(attributes))
    done = subprocess.run(
        [sys.executable, "-m", "rewind.search"],
        env={
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path]),
            "NIX_ATTRS_JSON_FILE": str(path),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert not done.stdout
    return done.returncode, done.stderr


def test_the_program_says_it_in_a_sentence(lab: Lab, given: dict[str, Any]) -> None:
    names = ", ".join(sorted(STRATEGIES))
    assert start(lab, given | {"strategy": "luck"}) == (
        2,
        f"rewind: there is no strategy 'luck'; there is {names}\n",
    )
    assert start(lab, given) == (2, "rewind: a search needs a boot snapshot\n")
    assert start(lab, [1])[0] == 2
    assert not (lab.path / "out").exists()
