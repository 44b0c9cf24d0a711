"""What tests share: a store of runs without Nix, and the command line as a user calls it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import settings

import traces
from rewind import cli
from rewind.cli import nix
from rewind.cli.nix import PathInfo
from rewind.formats.manifest import Manifest
from test_manifest import MANIFEST

# How long an example takes says more of who else is busy than of what is tested.
settings.register_profile("rewind", deadline=None)
settings.load_profile("rewind")


@attrs.define
class Store:
    """A directory that stands for the store; all in it is valid unless *invalid* names it."""

    path: Path
    clock: int = 1_791_331_200
    invalid: set[Path] = attrs.field(factory=set)
    derivers: dict[Path, Path] = attrs.field(factory=dict)

    def add_run(
        self,
        digit: str,
        name: str,
        records: list[bytes] | None = None,
        log: bytes = b"",
        manifest: Manifest = MANIFEST,
    ) -> Path:
        """A run whose hash begins with *digit*, newer than those before it."""
        path = self.path / f"{digit:0<32}-rewind-run-{name}"
        path.mkdir()
        records = traces.sample() if records is None else records
        traces.write(path / "trace", records)
        (path / "log").write_bytes(log)
        (path / "manifest.cbor").write_bytes(
            attrs.evolve(manifest, name=name, steps=len(records)).to_cbor()
        )
        self.clock += 60
        (path / ".registered").write_text(str(self.clock))
        return path

    def valid(self, paths: list[Path]) -> list[Path]:
        return [path for path in paths if path.exists() and path not in self.invalid]

    def add_root(self, path: Path, link: Path) -> None:
        link.unlink(missing_ok=True)
        link.symlink_to(path)

    def path_info(self, paths: list[Path]) -> dict[Path, PathInfo]:
        return {
            path: PathInfo(
                path,
                "sha256:" + "0" * 52,
                1,
                int((path / ".registered").read_text()),
                self.derivers.get(path),
            )
            for path in self.valid(paths)
        }


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store, in place of the real one."""
    made = Store(tmp_path / "store")
    made.path.mkdir()
    monkeypatch.setattr(nix, "STORE", made.path)
    monkeypatch.setattr(nix, "valid", made.valid)
    monkeypatch.setattr(nix, "path_info", made.path_info)
    monkeypatch.setattr(nix, "add_root", made.add_root)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return made


@attrs.frozen
class Result:
    """What a call of ``rewind`` did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> object:
        return json.loads(self.out)


Rewind = Callable[..., Result]


@pytest.fixture
def rewind(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Rewind:
    """Calls ``rewind`` with some words."""

    def call(*words: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["rewind", *words])
        status = cli.run()
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Result(status, out.decode("utf-8", "surrogateescape"), err.decode())

    return call


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a Python program of some name on PATH, alone there."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))

    def put(name: str, code: str) -> None:
        path = directory / name
        path.write_text(f"#!{sys.executable}\nimport json, os, signal, sys, time\n{code}\n")
        path.chmod(0o755)

    return put
