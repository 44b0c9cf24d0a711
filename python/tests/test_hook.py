"""The post-build hook: what is queued, and what becomes of it, whatever happens to its worker."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from rewind.hook import enqueue
from rewind.hook.queue import Queue
from rewind.hook.settings import Settings, SettingsError, attribute
from rewind.hook.worker import Trouble, Worker

PACKAGE = Path(enqueue.__file__).parents[1]
HASH = "a" * 32
PLAIN = (
    'Derive([("out","/nix/store/x","","")],[],[],"x","b",[],[("name","x"),("rewindHook","check")])'
)
STRUCTURED = r'Derive([],[],[],"","",[],[("__json","{\"name\":\"x\",\"rewindHook\":\"record\"}")])'


def drv(directory: Path, name: str = "bank-1", text: str = "Derive()") -> Path:
    path = directory / f"{HASH}-{name}.drv"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("settings", "name", "text", "wanted"),
    [
        ({}, "bank-1", "Derive()", None),
        ({"names": ["bank-*"]}, "bank-1", "Derive()", "record"),
        ({"names": ["bank-*"], "action": "check"}, "bank-1", "Derive()", "check"),
        ({"names": ["bank"]}, "bank-1", "Derive()", None),
        ({"all": True}, "anything", "Derive()", "record"),
        ({"all": True}, "rewind-run-bank-1", "Derive()", None),
        ({}, "x", PLAIN, "check"),
        ({}, "x", STRUCTURED, "record"),
        ({"attribute": "other"}, "x", PLAIN, None),
    ],
)
def test_what_is_wanted(
    tmp_path: Path, settings: dict[str, Any], name: str, text: str, wanted: str | None
) -> None:
    assert Settings(settings).wanted(drv(tmp_path, name, text)) == wanted


def test_an_attribute_with_quotes_in_it() -> None:
    assert attribute(r'("a","say \"x\" \\"),("rewindHook","record")', "rewindHook") == "record"
    assert attribute(r'("a","(\"rewindHook\",\"check\")")', "rewindHook") is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"name": []}, "name is no setting"),
        ({"all": 1}, "all can't be 1"),
        ({"schedules": True}, "schedules can't be"),
        ({"schedules": 0}, "at least 1"),
        ({"action": "x"}, "record or check"),
        ({"queue": "here"}, "absolute"),
        ({"sign": "key"}, "absolute"),
        ({"names": [1]}, "list of patterns"),
    ],
)
def test_settings_that_are_none(data: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Settings(data)


def hook(settings: Path | None, **environment: str) -> subprocess.CompletedProcess[str]:
    """The hook, as Nix starts it."""
    path = f"{PACKAGE.parent}:{os.environ.get('PYTHONPATH', '')}"
    given = {"PYTHONPATH": path, **environment}
    if settings is not None:
        given["REWIND_HOOK"] = str(settings)
    return subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from rewind.hook.enqueue import main; sys.exit(main())",
        ],
        env=given,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_hook_queues_and_never_fails(tmp_path: Path) -> None:
    settings = tmp_path / "hook.json"
    settings.write_text(json.dumps({"all": True, "queue": str(tmp_path / "queue")}))
    path = str(drv(tmp_path))
    for _ in range(2):
        done = hook(settings, DRV_PATH=path, OUT_PATHS="/nix/store/a /nix/store/b")
        assert (done.returncode, done.stderr) == (0, "")
    queue = Queue(tmp_path / "queue")
    assert queue.names() == [f"{HASH}-bank-1"]
    with queue.take(f"{HASH}-bank-1") as entry:
        assert entry is not None
        assert entry["drv"] == path and entry["outputs"] == ["/nix/store/a", "/nix/store/b"]
    settings.write_text("{")
    done = hook(settings, DRV_PATH=path)
    assert done.returncode == 0 and "was not queued: " in done.stderr
    settings.write_text(json.dumps({"all": True, "queue": "/dev/null/x"}))
    done = hook(settings, DRV_PATH=path)
    assert done.returncode == 0 and "Not a directory" in done.stderr
    assert hook(tmp_path / "nowhere", DRV_PATH=path).returncode == 0
    # By hand.
    done = hook(None)
    assert done.returncode == 2 and "DRV_PATH is not set" in done.stderr


def test_the_hook_imports_nothing_that_takes_long() -> None:
    code = "import sys, rewind.hook.enqueue; print(*sys.modules)"
    path = f"{PACKAGE.parent}:{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert not {"attrs", "click", "rich", "cbor2", "subprocess"} & set(done.stdout.split())


@attrs.define
class FakeRewind:
    """Answers as rewind does; *trouble* is what it says instead."""

    trouble: str | None = None
    asked: list[list[str]] = attrs.Factory(list)
    differs: bool = False

    def __call__(self, arguments: Sequence[str]) -> tuple[int, str, str]:
        self.asked.append(list(arguments))
        if self.trouble is not None:
            return 2, "", f"some lines\nrewind: {self.trouble}\n"
        match arguments[0]:
            case "nix":
                verdict = "differs" if self.differs else "same"
                data: dict[str, Any] = {
                    "path": "/nix/store/run",
                    "name": "bank-1",
                    "outcome": {"kind": "exited", "value": 0},
                    "outputs": {"out": {"local": {"verdict": verdict}}},
                }
            case "check":
                data = {
                    "search": "/nix/store/search",
                    "verdict": "differs",
                    "hashes": {"failing": "f", "passing": "p"},
                }
            case "show":
                data = {"path": f"/nix/store/{arguments[1]}"}
            case _:
                return 0, "a log\n", ""
        return int(self.differs), json.dumps(data), ""


@attrs.define
class Place:
    """A queue, and a worker with what it did."""

    directory: Path
    rewind: FakeRewind = attrs.Factory(FakeRewind)
    said: list[str] = attrs.Factory(list)
    pushed: list[Path] = attrs.Factory(list)
    signed: list[tuple[Path, Path]] = attrs.Factory(list)
    no_cache: bool = False

    @property
    def queue(self) -> Queue:
        return Queue(self.directory / "queue")

    def worker(self, **settings: Any) -> Worker:
        def push(url: str, paths: Sequence[Path]) -> None:
            if self.no_cache:
                raise Trouble("nix copy: nobody answers")
            self.pushed += paths

        def sign(key: Path, paths: Sequence[Path]) -> None:
            assert not self.pushed
            self.signed += [(key, path) for path in paths]

        made = Settings({"queue": str(self.directory / "queue"), **settings})
        return Worker(made, self.queue, self.said.append, push, sign, self.rewind)

    def add(self, name: str = "bank-1", action: str = "record") -> str:
        path = drv(self.directory, name)
        self.queue.add(path, [], action)
        return path.stem

    def results(self) -> list[dict[str, Any]]:
        file = self.directory / "queue" / "results.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()]

    def due(self, name: str) -> None:
        """Have it be time to try *name* again."""
        file = self.directory / "queue" / "waiting" / f"{name}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "again": 0}))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_record_is_compared_and_pushed(place: Place) -> None:
    name = place.add()
    place.rewind.differs = True
    assert place.worker(push="file:///cache").once() == 1
    assert place.queue.names() == []
    (result,) = place.results()
    assert result["name"] == name and result["differs"] == ["out"]
    assert result["pushed"] == "file:///cache" and place.pushed == [Path("/nix/store/run")]
    assert place.said == [f"{name}: bank-1: exited 0, other than what was built: out"]


def test_a_check_pushes_report_and_runs(place: Place) -> None:
    place.add(action="check")
    place.worker(push="x", schedules=7).once()
    assert ["check", str(place.directory / f"{HASH}-bank-1.drv"), "--schedules", "7", "--json"] in (
        place.rewind.asked
    )
    assert place.pushed == [Path("/nix/store") / name for name in ("run", "search", "f", "p")]
    assert place.results()[0]["verdict"] == "differs"


def test_what_is_pushed_is_signed_before(place: Place) -> None:
    place.add(action="check")
    place.worker(push="x", sign="/key").once()
    assert place.signed == [(Path("/key"), path) for path in place.pushed] and place.pushed


def test_what_fails_is_tried_again_and_then_given_up(place: Place) -> None:
    name = place.add()
    place.rewind.trouble = "no space left on device"
    worker = place.worker(attempts=2)
    assert worker.once() == 1
    # Not at once.
    assert worker.once() == 0 and place.queue.names() == [name]
    place.due(name)
    assert worker.once() == 1
    assert place.queue.names() == []
    assert place.queue.failed() == {name: "no space left on device"}
    place.rewind.trouble = None
    assert place.queue.retry() == 1
    assert worker.once() == 1 and len(place.results()) == 1 and not place.queue.failed()


def test_a_cache_that_does_not_answer_is_no_reason_to_record_again_for_nothing(
    place: Place,
) -> None:
    name = place.add()
    place.no_cache = True
    worker = place.worker(push="x")
    worker.once()
    assert not (place.directory / "queue" / "results.jsonl").exists()
    place.no_cache = False
    place.due(name)
    worker.once()
    assert len(place.results()) == 1 and place.pushed


def test_a_derivation_that_is_gone_is_given_up_at_once(place: Place) -> None:
    name = place.add()
    (place.directory / f"{HASH}-bank-1.drv").unlink()
    place.worker().once()
    assert "its derivation is gone" in place.queue.failed()[name]
    assert not place.rewind.asked


def test_a_damaged_entry_stops_nobody(place: Place) -> None:
    first, second = place.add("one"), place.add("two")
    (place.directory / "queue" / "waiting" / f"{first}.json").write_text("{")
    place.worker().once()
    assert [result["name"] for result in place.results()] == [second]
    assert "damaged" in place.queue.failed()[first]


def test_two_workers_do_nothing_twice(place: Place) -> None:
    name = place.add()
    with place.queue.take(name) as entry:
        assert entry is not None
        assert place.worker().once() == 0
    assert place.worker().once() == 1
    with place.queue.take(name) as gone:
        assert gone is None


def test_a_worker_that_is_killed_loses_nothing(place: Place) -> None:
    name = place.add()
    code = (
        "import sys, time; from pathlib import Path; from rewind.hook.queue import Queue\n"
        "with Queue(Path(sys.argv[1])).take(sys.argv[2]) as entry:\n"
        "    assert entry; print('taken', flush=True); time.sleep(60)"
    )
    path = f"{PACKAGE.parent}:{os.environ.get('PYTHONPATH', '')}"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(place.directory / "queue"), name],
        env={"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        assert place.worker().once() == 0
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert place.worker().once() == 1 and len(place.results()) == 1


def test_a_full_disk_loses_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    name = place.add()
    results = place.directory / "queue" / "results.jsonl"
    results.write_text('{"old": 1}\n')
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[: len(data) // 2]))
    with pytest.raises(OSError, match="No space"):
        place.worker().once()
    monkeypatch.undo()
    assert place.queue.names() == [name]
    assert results.read_text() == '{"old": 1}\n'
    assert place.worker().once() == 1 and len(place.results()) == 2


def test_the_first_to_come_is_the_first(place: Place) -> None:
    names = []
    for number in range(3):
        names.append(place.add(f"job-{number}"))
        time.sleep(0.02)
    assert place.queue.names() == names
