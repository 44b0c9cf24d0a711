"""What `rewind doctor` finds."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import Rewind
from rewind.cli import nix, recording
from rewind.cli.caches import Caches
from rewind.cli.commands import doctor
from rewind.cli.errors import Failure
from rewind.cli.recording import Options

GOOD: dict[str, Any] = {
    "sandbox": True,
    "sandbox-fallback": False,
    "system": "x86_64-linux",
    "max-jobs": 2,
    "substituters": ["http://cache"],
}


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Settings with which all is well; a test may change them."""
    settings = dict(GOOD)
    monkeypatch.setattr(nix, "version", lambda: (2, 26, 3))
    monkeypatch.setattr(nix, "has_flakes", lambda: True)
    monkeypatch.setattr(nix, "config", lambda: settings)
    monkeypatch.setattr(nix, "STORE", tmp_path)
    monkeypatch.setattr(recording, "source", lambda: Path("/source"))
    monkeypatch.setattr(recording, "defaults", lambda: Options(memory=1))
    monkeypatch.setattr(Caches, "ping", lambda self: dict.fromkeys(self.urls))
    monkeypatch.setattr(doctor, "_OVERHEAD", 0)
    monkeypatch.setattr(doctor, "_STORE_SPACE", 0)
    return settings


def bad(rewind: Rewind) -> list[tuple[str, str, str]]:
    """What is not as it should be."""
    data = rewind("doctor", "--json").json
    assert isinstance(data, list)
    return [(f["state"], f["what"], f["mend"]) for f in data if f["state"] != "ok"]


def test_all_is_well(rewind: Rewind, config: dict[str, Any]) -> None:
    result = rewind("doctor")
    assert result.status == 0
    assert all(line.startswith("ok   ") for line in result.out.splitlines())
    assert "ok   nix 2.26.3 (" in result.out
    assert "ok   http://cache\n" in result.out


@pytest.mark.parametrize(
    ("settings", "state", "what", "mend"),
    [
        ({"sandbox": False}, "fail", "builds are not sandboxed", "sandbox = true"),
        ({"sandbox": "relaxed"}, "fail", "builds are not sandboxed", "sandbox = true"),
        ({"sandbox-fallback": True}, "warn", "go on without a sandbox", "sandbox-fallback = false"),
        ({"system": "aarch64-linux"}, "fail", "nothing builds for x86_64", "remote builder"),
        ({"max-jobs": 0}, "fail", "nothing builds for x86_64", "max-jobs"),
    ],
)
def test_settings(
    rewind: Rewind,
    config: dict[str, Any],
    settings: dict[str, Any],
    state: str,
    what: str,
    mend: str,
) -> None:
    """Each thing that is wrong is found, alone, and has its mend."""
    config.update(settings)
    ((got, text, advice),) = bad(rewind)
    assert got == state
    assert what in text
    assert mend in advice
    assert rewind("doctor").status == (1 if state == "fail" else 0)


def test_remote_builders(rewind: Rewind, config: dict[str, Any]) -> None:
    config.update({"system": "aarch64-linux", "builders": "ssh://x x86_64-linux"})
    assert bad(rewind) == []


def test_old_nix(rewind: Rewind, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nix, "version", lambda: (2, 17, 1))
    ((state, what, mend),) = bad(rewind)
    assert (state, what[:11]) == ("fail", "nix 2.17.1 ")
    assert "install nix 2.18" in mend


def test_no_nix(rewind: Rewind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    result = rewind("doctor")
    assert result.status == 1
    assert result.out == "fail there is no nix on PATH\n     mend: install nix, or use ./nixw\n"


def test_no_flakes(rewind: Rewind, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nix, "has_flakes", lambda: False)
    ((state, what, _),) = bad(rewind)
    assert (state, what[:14]) == ("warn", "flakes are off")


def test_not_the_package(
    rewind: Rewind, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> Path:
        raise Failure("REWIND_SOURCE is not set")

    monkeypatch.setattr(recording, "source", missing)
    ((state, what, mend),) = bad(rewind)
    assert (state, what) == ("fail", "REWIND_SOURCE is not set")
    assert "package" in mend


def test_little_of_everything(
    rewind: Rewind, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory and disk."""
    monkeypatch.setattr(recording, "defaults", lambda: Options(memory=1 << 30))
    monkeypatch.setattr(doctor, "_STORE_SPACE", shutil.disk_usage("/").total + 1)
    monkeypatch.setattr(nix, "STORE", Path("/"))
    states, whats, mends = zip(*bad(rewind), strict=True)
    assert states == ("warn", "warn")
    assert all(word in what for word, what in zip(("memory", "free in"), whats, strict=True))
    assert "--memory" in mends[0]
    assert "nix store gc" in mends[1]


def test_cache_that_does_not_answer(
    rewind: Rewind, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Caches, "ping", lambda self: {"http://cache": "no answer"})
    ((state, what, mend),) = bad(rewind)
    assert (state, what) == ("warn", "http://cache: no answer")
    assert "substituters" in mend
