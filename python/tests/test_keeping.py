"""What is kept for a person, and what goes, with a Nix that is made up."""

import datetime
import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rewind.cli import keeping, nix
from rewind.cli.errors import Failure
from rewind.cli.runs import Run

DAY = 86400
HASHES = [letter * 32 for letter in "abcd"]

Programs = Callable[[str, str], None]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Four runs in a store of their own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    store = tmp_path / "store"
    store.mkdir()
    monkeypatch.setattr(nix, "STORE", store)
    found = []
    for digits in HASHES:
        path = store / f"{digits}-rewind-run-x"
        path.mkdir()
        found.append(Run(path, digits, "x"))
    return found


def link(run: Run, days: float) -> Path:
    """Keep *run*, which was looked at *days* ago."""
    made = Path(os.environ["XDG_STATE_HOME"]) / "rewind" / "runs" / run.path.name
    made.parent.mkdir(parents=True, exist_ok=True)
    made.symlink_to(run.path)
    then = time.time() - days * DAY
    os.utime(made, (then, then), follow_symlinks=False)
    return made


def a_nix(programs: Programs, runs: list[Run], kept: Run | None = None) -> None:
    """A Nix for which all *runs* are dead but *kept*, which it does not delete."""
    dead = [str(run.path) for run in runs]
    programs(
        "nix-store",
        f"""
dead, kept = {dead!r}, {str(kept.path) if kept else None!r}
arguments = sys.argv[1:]
if arguments[:2] == ["--gc", "--print-dead"]:
    drvs = [path + ".drv" for path in dead]
    print("\\n".join([*dead, "/nix/store/{"e" * 32}-other", *drvs]))
elif arguments[0] == "--check-validity":
    print("\\n".join(path for path in arguments[2:] if not os.path.exists(path)))
elif arguments[0] == "--delete":
    # With keep-outputs, what a derivation has made goes with it, or not at all.
    for path in arguments[1:]:
        together = path.removesuffix(".drv"), path.removesuffix(".drv") + ".drv"
        if kept in together or not set(together) <= set(arguments):
            sys.exit("error: cannot delete path " + path)
        if os.path.exists(path):
            os.rmdir(path)
""",
    )
    programs(
        "nix",
        """
paths = [a for a in sys.argv if "-rewind-run-" in a]
print(json.dumps([
    {"path": p, "narHash": "", "narSize": 10, "deriver": p + ".drv"} for p in paths
]))
""",
    )


def test_what_was_not_looked_at_for_long_goes(programs: Programs, runs: list[Run]) -> None:
    old, new = link(runs[0], 31), link(runs[1], 29)
    a_nix(programs, [runs[0], runs[2], runs[3]], kept=runs[3])
    found = keeping.garbage(keeping.KEPT)
    assert [root.link for root in found.roots] == [old]
    # Nix would have the last one go, until it is asked to.
    assert [info.path for info in found.paths] == [run.path for run in (runs[0], runs[2], runs[3])]
    assert found.size == 30
    assert keeping.remove(found) == 20
    assert not old.is_symlink() and new.is_symlink()
    assert [run.path.exists() for run in runs] == [False, True, False, True]


def test_to_look_at_a_run_keeps_it(programs: Programs, runs: list[Run]) -> None:
    old = link(runs[0], 31)
    a_nix(programs, [])
    found = keeping.garbage(keeping.KEPT)
    keeping.looked_at(runs[0])
    # Also while somebody else is about to remove what keeps it.
    keeping.remove(found)
    assert old.is_symlink()
    (root,) = keeping.roots()
    assert abs(root.ends() - time.time() - 30 * DAY) < 60
    assert not keeping.garbage(datetime.timedelta(days=1)).roots


def test_a_run_that_nothing_kept_is_kept_from_then_on(
    programs: Programs, runs: list[Run], tmp_path: Path
) -> None:
    programs("nix", "link = sys.argv[sys.argv.index('--out-link') + 1]\n"
             "os.symlink(sys.argv[-1], link)")  # fmt: skip
    keeping.looked_at(runs[2])
    (root,) = keeping.roots()
    assert root.target == runs[2].path


def test_that_it_cannot_be_kept_is_said(
    programs: Programs, runs: list[Run], capsys: pytest.CaptureFixture[str]
) -> None:
    programs("nix", "sys.exit('error: no room')")
    keeping.looked_at(runs[2])
    assert "is not kept for you: " in capsys.readouterr().err


@pytest.fixture
def imported(runs: list[Run], programs: Programs) -> list[Run]:
    """Two runs that were imported, 31 and 29 days ago."""
    a_nix(programs, [])
    found = []
    for digits, days in (("i" * 32, 31), ("k" * 32, 29)):
        path = Path(os.environ["XDG_STATE_HOME"]) / "rewind" / "imported" / f"{digits}-rewind-run-x"
        path.mkdir(parents=True)
        (path / "manifest.cbor").write_bytes(b"12345")
        # What keeps what makes it again.
        (path / "kept").symlink_to("/nix/store")
        then = time.time() - days * DAY
        os.utime(path, (then, then))
        found.append(Run(path, digits, "x"))
    return found


def test_an_imported_run_goes_like_others(imported: list[Run]) -> None:
    old, new = imported
    assert {root.link for root in keeping.roots()} == {old.path, new.path}
    found = keeping.garbage(keeping.KEPT)
    assert [one.link for one in found.imported] == [old.path]
    size = found.size
    assert not found.roots and size >= 5
    assert keeping.remove(found) == size
    assert not old.path.exists() and new.path.exists()
    assert {path.name for path in old.path.parent.iterdir()} == {"lock", new.path.name}
    assert Path("/nix/store").exists()
    # Somebody else may have been faster.
    assert keeping.remove(found) == 0
    with pytest.raises(Failure, match="has just been removed"), keeping.in_use(old):
        pass


def test_an_imported_run_that_is_in_use_stays(imported: list[Run]) -> None:
    """Whatever its age: by a process that has begun before, and to look at it keeps it."""
    old, _ = imported
    at = old.path.stat().st_mtime
    with keeping.in_use(old):
        os.utime(old.path, (at, at))
        found = keeping.garbage(keeping.KEPT)
        assert [one.link for one in found.imported] == [old.path]
        assert keeping.remove(found) == 0
    assert old.path.exists()
    with keeping.in_use(old):
        pass
    assert keeping.remove(found) == 0 and old.path.exists()
    assert not keeping.garbage(keeping.KEPT).imported


def test_a_run_that_comes_again_while_it_goes_is_the_new_one(imported: list[Run]) -> None:
    """Who waits for the lock on what is removed does not take that for the run."""
    old, _ = imported
    file = os.open(old.path, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    entered = threading.Event()

    def read() -> None:
        with keeping.in_use(old):
            entered.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert not entered.wait(0.2)
    old.path.rename(old.path.with_name(".new-x"))
    old.path.mkdir()
    os.close(file)
    reader.join(10)
    assert entered.is_set()
