"""What the commands of ``rewind`` cost a user, in a copy of the checkout."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from bench import store
from bench.cost import CommandError, Cost, run

_BANK = Path("examples/bank/bank.c")
_LAYER = '      name = "rewind-layer-${name}";\n'


@attrs.frozen
class Checkout:
    """A copy of the checkout, a built `rewind`, and a list of runs of its own."""

    path: Path
    rewind: Path
    source: Path
    """The Nix functions that `rewind` has with it."""

    @classmethod
    @contextmanager
    def copy(cls, keep: Iterable[Path] = ()) -> Iterator["Checkout"]:
        """A copy of what git knows of the current directory.

        It is gone at the end, and with it the runs made in it, and their layers but *keep*.
        """
        rewind = next(path for path in store.build(".#rewind"))
        source = Path(store.nix("eval", "--raw", ".#rewind.source"))
        with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
            path = Path(directory) / "checkout"
            copy_tracked(Path.cwd(), path)
            commit(path)
            checkout = cls(path, rewind, source)
            try:
                yield checkout
            finally:
                checkout._forget(set(keep))

    @property
    def _state(self) -> Path:
        return self.path.parent / "state"

    def _forget(self, keep: set[Path]) -> None:
        runs = []
        layers: set[Path] = set()
        for link in (self._state / "rewind" / "runs").glob("*"):
            run_path = link.readlink()
            link.unlink()
            runs.append(run_path)
            with contextlib.suppress(CommandError):
                layers.update(map(Path, self.manifest(run_path)["layers"]))
        store.delete([*runs, *(layers - keep)])

    def _fresh_layers(self) -> Path:
        """rewind's Nix functions, so changed that each layer is one that was never packed."""
        changed = Path(tempfile.mkdtemp(dir=self.path.parent)) / "source"
        shutil.copytree(self.source, changed, copy_function=shutil.copyfile)
        image = changed / "lib" / "image.nix"
        text = image.read_text()
        if _LAYER not in text:
            raise CommandError(f"{image} has no line {_LAYER.strip()}")
        image.chmod(0o644)
        image.write_text(text.replace(_LAYER, f'{_LAYER}      bench = "{uuid.uuid4()}";\n'))
        return changed

    def _rewind(self, *arguments: str, **changes: str) -> Cost:
        return run(
            [self.rewind / "bin" / "rewind", *arguments],
            cwd=self.path,
            env={**os.environ, "XDG_STATE_HOME": str(self._state), **changes},
        )

    def record_bank(self, *, fresh_layers: bool) -> Cost:
        """``rewind nix .#bank`` with a bank.c that was never built, and perhaps no layers yet."""
        with (self.path / _BANK).open("a") as file:
            file.write(f"/* {uuid.uuid4()} */\n")
        changes = {"REWIND_SOURCE": str(self._fresh_layers())} if fresh_layers else {}
        return self._rewind("nix", ".#bank", **changes)

    def replay(self) -> Cost:
        """``rewind replay`` of the latest run."""
        return self._rewind("replay", "@")

    def events(self, out: Path, last: int) -> Cost:
        """``rewind events`` of the run *out* up to step *last*."""
        return self._rewind("events", str(out), "--to", str(last))

    def start(self) -> Cost:
        """``rewind --version``."""
        return self._rewind("--version")

    def manifest(self, out: Path) -> dict[str, Any]:
        """What ``rewind show`` says of the run *out*."""
        command: list[str | Path] = [self.rewind / "bin" / "rewind", "show", out, "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise CommandError(done.stderr)
        return dict(json.loads(done.stdout))


def copy_tracked(source: Path, target: Path) -> None:
    """Copy the files of *source* that git knows, as they are now, to the new directory *target*."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=source, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        # A file that was removed and not committed.
        with contextlib.suppress(FileNotFoundError):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, target / name)


def commit(directory: Path) -> None:
    """Make *directory* a git repository with one commit, whoever the user is."""
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        **{
            f"GIT_{who}_{what}": "bench"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "bench"]):
        subprocess.run(["git", *arguments], cwd=directory, check=True, env=environment)
