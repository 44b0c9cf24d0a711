"""The recorder as a program, with a stand-in for QEMU (fake_qemu.py)."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from fake_qemu import STATE, Scenario, pvh_kernel
from rewind.formats.manifest import Manifest, Outcome
from rewind.formats.nixbase32 import sha256
from rewind.formats.schedule import Perturbation, Position
from rewind.formats.trace import Mark, TraceReader
from rewind.machine.settings import Settings
from rewind.machine.snapshot import Snapshot
from rewind.recorder.pipes import Fifo, StreamError
from rewind.recorder.streams import Display, Workers, copy_log

HERE = Path(__file__).parent
PATH = "/nix/store/00000000000000000000000000000000-x"
GOOD: Scenario = {
    "records": 3,
    "channels": {"0": "hello\n", "16": "the nar", "1": "exited 0\nmissing doc\n"},
    "end": 1,
}


@attrs.frozen
class Lab:
    """A directory with a machine whose QEMU is a stand-in, and a run that is to be made."""

    path: Path
    attributes: dict[str, Any]

    def machine(self, scenario: Scenario) -> None:
        """Let the machine do as *scenario* says."""
        (self.path / "scenario.json").write_text(json.dumps(scenario))

    def qemu_arguments(self) -> list[str]:
        """What QEMU was started with."""
        arguments: list[str] = json.loads((self.path / "scenario.arguments").read_text())
        return arguments

    def start(self, command: str = "record", **options: Any) -> subprocess.Popen[str]:
        """Start the recorder."""
        (self.path / "attrs.json").write_text(json.dumps(self.attributes))
        temporary = self.path / "tmp"
        temporary.mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "rewind.recorder", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                # Where this process found its modules: in a build that is not Python's own place.
                "PYTHONPATH": os.pathsep.join([str(HERE.parent), *sys.path]),
                "NIX_ATTRS_JSON_FILE": str(self.path / "attrs.json"),
                "TMPDIR": str(temporary),
            },
            **options,
        )

    def run(self, command: str = "record", **options: Any) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of the recorder."""
        process = self.start(command, **options)
        stdout, stderr = process.communicate(timeout=60)
        return process.returncode, stdout, stderr

    def left(self) -> list[str]:
        """What there is of outputs and temporary files."""
        return [
            name
            for name in ("out", "nars", *(f"tmp/{p.name}" for p in self.path.glob("tmp/*")))
            if (self.path / name).exists()
        ]

    def manifest(self) -> Manifest:
        return Manifest.load(self.path / "out/manifest.cbor")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    qemu = tmp_path / "qemu"
    qemu.write_text(
        f'#!/bin/sh\nexec {sys.executable} {HERE}/fake_qemu.py {tmp_path}/scenario.json "$@"\n'
    )
    qemu.chmod(0o755)
    for name in ("firmware", "initrd", "layer"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "kernel").write_bytes(pvh_kernel(0x1000000))
    settings = {
        **{name: str(tmp_path / name) for name in ("qemu", "firmware", "kernel", "initrd")},
        "machine": "microvm,rtc=off",
        "cpu": "Haswell",
        "kernelParams": ["quiet"],
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    job = {
        "name": "x",
        "builder": "/bin/sh",
        "args": ["-c", "true"],
        "env": {"out": PATH, "doc": f"{PATH}-doc"},
        "outputs": [{"name": "out", "path": PATH}, {"name": "doc", "path": f"{PATH}-doc"}],
        "structuredAttrs": None,
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    attributes = {
        "jobName": "x-1",
        "settings": str(tmp_path / "settings.json"),
        "snapshot": None,
        "layers": [str(tmp_path / "layer")],
        "job": str(tmp_path / "job.json"),
        "shell": "/nix/store/shell/bin/sh",
        "schedule": [{"at": "2+7", "stall": 1000}],
        "epoch": 1791331200,
        "seed": "0",
        "cores": 1,
        "memory": 256,
        "timeLimit": 60,
        "drv": f"{PATH}.drv",
        "system": "x86_64-linux",
        "outputs": {"out": str(tmp_path / "out"), "nars": str(tmp_path / "nars")},
    }
    lab = Lab(tmp_path, attributes)
    lab.machine(GOOD)
    return lab


def test_a_run(lab: Lab) -> None:
    status, stdout, stderr = lab.run()
    assert (status, stdout) == (0, "hello\n")
    assert stderr == "rewind: exited 0 after 3 steps, 0.000 s of guest time\n"
    assert sorted(p.name for p in (lab.path / "out").iterdir()) == ["log", "manifest.cbor", "trace"]
    assert (lab.path / "out/log").read_text() == "hello\n"
    assert [p.name for p in (lab.path / "nars").iterdir()] == ["out.nar"]
    assert (lab.path / "nars/out.nar").read_text() == "the nar"
    manifest = lab.manifest()
    assert manifest.outcome == Outcome("exited", 0)
    assert (manifest.steps, manifest.start, manifest.end) == (3, 500, 5000)
    assert list(manifest.outputs) == ["out"]
    output = manifest.outputs["out"]
    assert (output.path, output.nar_size) == (PATH, 7)
    assert output.nar_hash == sha256(hashlib.sha256(b"the nar").digest())
    assert manifest.schedule == (Perturbation(2, 7, "stall", 1000),)
    assert manifest.came == (Position(2, 7),)
    assert manifest.machine == lab.attributes["settings"]
    assert manifest.layers == tuple(lab.attributes["layers"])
    assert manifest.name == "x-1"
    with TraceReader(lab.path / "out/trace") as trace:
        assert [type(record) for record in trace.records()] == [Mark, Mark, Mark]
    assert lab.left() == ["out", "nars"]


def test_equal_runs_are_equal_files(lab: Lab) -> None:
    files = []
    for _ in range(2):
        assert lab.run()[0] == 0
        files.append(
            {p: p.read_bytes() for p in [*lab.path.glob("out/*"), *lab.path.glob("nars/*")]}
        )
        for path in files[-1]:
            path.unlink()
        for name in ("out", "nars"):
            (lab.path / name).rmdir()
    assert files[0] == files[1]


def test_what_qemu_is_told(lab: Lab) -> None:
    assert lab.run()[0] == 0
    arguments = lab.qemu_arguments()
    device = next(word for word in arguments if word.startswith("rewind,"))
    assert "time-limit=60000000000" in device.split(",")
    assert f"layer0={lab.attributes['layers'][0]}" in device.split(",")
    assert "shift=0,sleep=off" in arguments
    assert "microvm,rtc=off,memory-backend=ram" in arguments
    loaded = [word for word in arguments if word.startswith("loader,")]
    assert f"loader,file={lab.path / 'kernel'}" in loaded
    assert f"loader,file={lab.path / 'initrd'},addr={128 << 20},force-raw=on" in loaded


@pytest.mark.parametrize(
    ("scenario", "outcome"),
    [
        ({"channels": {"1": "exited 3\n"}, "end": 1}, "exited 3"),
        ({"channels": {"1": "signaled 9\n"}, "end": 1}, "signaled 9"),
        ({"channels": {"16": "half a nar"}, "end": 2}, "stalled"),
        ({"channels": {"16": "half a nar", "1": "exited 0\n"}, "end": 3}, "timed-out"),
        ({"end": 4}, "stopped"),
    ],
)
def test_outcomes(lab: Lab, scenario: Scenario, outcome: str) -> None:
    lab.machine(scenario)
    status, _, stderr = lab.run()
    assert status == 0
    assert f"rewind: {outcome} after 0 steps" in stderr
    never = "rewind: 1 of 1 perturbation never came: a stall of 1 us at 2+7\n"
    assert never in stderr
    assert lab.manifest().came == (None,)
    manifest = lab.manifest()
    assert str(manifest.outcome) == outcome
    assert not manifest.outputs
    assert list((lab.path / "nars").iterdir()) == []


@pytest.mark.parametrize(
    ("scenario", "sentence"),
    [
        ({"status": 0}, "the machine ended before the job did: the guest reset"),
        ({"status": 1, "stderr": "qemu: x\nqemu: no such thing\n"}, "qemu: no such thing"),
        ({"signal": 9}, "QEMU was killed: the host may have run out of memory"),
        ({"signal": 7}, "QEMU found no room for the machine's memory"),
        ({"status": 1, "stderr": "write: No space left on device"}, "no space left on device"),
        ({"status": 0, "console": "a\nKernel panic\n"}, "\n  console: Kernel panic\n"),
        (
            {"status": 0, "console": "Kernel panic: System is deadlocked on memory\n"},
            "give it more with --memory",
        ),
        ({"records": 3, "garbage": True, "hang": True}, "after step 3 is no frame"),
        ({"channels": {"1": "error cannot mount\n"}, "end": 1}, "init could not do its part: can"),
        ({"channels": {"1": "what\n"}, "end": 1}, "init said 'what'"),
        ({"channels": {"1": "exited 999\n"}, "end": 1}, "exited 999 is no outcome"),
        ({"end": 1}, "init did not say how the job ended"),
        ({"channels": {"1": "exited 0\n"}, "end": 1}, "init sent no NAR of the output doc"),
        ({"channels": {"1": "x" * (1 << 17)}, "end": 1}, "init said more than"),
        ({"records": 1, "end": 9}, "unknown reason 9"),
    ],
)
def test_no_outcome(lab: Lab, scenario: Scenario, sentence: str) -> None:
    lab.machine(scenario)
    status, _, stderr = lab.run()
    assert stderr.startswith("rewind: ")
    assert sentence in stderr
    assert status == 1
    assert lab.left() == []


def test_out_of_memory_is_said(lab: Lab) -> None:
    killed = "Out of memory: Killed process 42 (cc1plus)"
    lab.machine({**GOOD, "console": f"{killed}\n"})
    status, _, stderr = lab.run()
    assert status == 0
    assert killed in stderr
    assert "the machine had 256 MiB; --memory gives it more" in stderr
    assert lab.manifest().messages == (killed,)
    assert (lab.path / "out/console").read_text() == f"{killed}\n"


def test_messages_of_init(lab: Lab) -> None:
    lab.machine({**GOOD, "channels": {**GOOD["channels"], "2": "careful\n"}})
    _, _, stderr = lab.run()
    assert "rewind: the machine says: careful\n" in stderr
    assert lab.manifest().messages == ("careful",)


def drop(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda attributes: attributes.pop(name)


def put(name: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda attributes: attributes.update({name: value})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (drop("layers"), "the attribute layers is None"),
        (drop("outputs"), "the attribute outputs is None"),
        (put("cores", True), "the attribute cores is True"),
        (put("cores", 0), "cores is from 1 to 64, not 0"),
        (put("memory", 16), "a machine has 256 to 245,760 MiB of memory, not 16"),
        (put("memory", 1 << 20), "not 1,048,576"),
        (put("epoch", 0), "epoch is from 1 to 8,277,292,035, not 0"),
        (put("timeLimit", -1), "timeLimit is from 0"),
        (put("schedule", [{"at": "x", "stop": True}]), "'x' is no position"),
        (put("schedule", [{"at": "7", "stop": True}]), "can stall and reschedule, but not stop"),
        (put("cores", 65), "65"),
        (put("layers", []), "a run has 1 to 4 layers, not 0"),
        (put("layers", ["/nowhere"]), "a layer can't be read: .*/nowhere"),
        (put("job", "/nowhere"), "/nowhere"),
        (put("snapshot", "/nowhere"), "the boot snapshot can't be read: /nowhere"),
    ],
)
def test_a_request_that_makes_no_sense(
    lab: Lab, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    change(lab.attributes)
    status, stdout, stderr = lab.run()
    assert (status, stdout) == (2, "")
    assert stderr.startswith("rewind: ")
    assert stderr.count("\n") == 1
    assert re.search(sentence, stderr)
    assert lab.left() == []


def test_a_layer_that_does_not_fit(lab: Lab) -> None:
    layer = lab.path / "layer"
    os.truncate(layer, (64 << 30) + 1)
    status, _, stderr = lab.run()
    assert status == 2
    assert f"does not fit: the layer {layer} has 68,719,476,737 bytes" in stderr
    assert lab.left() == []


def test_too_many_outputs(lab: Lab) -> None:
    job = json.loads((lab.path / "job.json").read_text())
    job["outputs"] = [{"name": f"o{n}", "path": f"{PATH}-o{n}"} for n in range(49)]
    (lab.path / "job.json").write_text(json.dumps(job))
    status, _, stderr = lab.run()
    assert (status, stderr) == (2, "rewind: the job has 49 outputs; at most 48 work\n")


def test_graphs(lab: Lab) -> None:
    job = json.loads((lab.path / "job.json").read_text())
    job["env"]["exportReferencesGraph"] = f"graph {PATH}-input"
    (lab.path / "job.json").write_text(json.dumps(job))
    status, _, stderr = lab.run()
    assert status == 2
    assert "the closure for graph of exportReferencesGraph is missing" in stderr
    lab.attributes["graphs"] = {"graph": "graph0"}
    lab.attributes["graph0"] = [{"path": f"{PATH}-input", "references": []}]
    assert lab.run()[0] == 0


@pytest.mark.parametrize("arguments", [[], ["replay"], ["record", "x"]])
def test_usage(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rewind.recorder", *arguments],
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == "usage: python -m rewind.recorder record|snapshot\n"


def test_outside_of_nix() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rewind.recorder", "record"],
        cwd=HERE.parent,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "NIX_ATTRS_JSON_FILE" in done.stderr


def test_what_is_there_stays(lab: Lab) -> None:
    (lab.path / "out").mkdir()
    (lab.path / "out/precious").touch()
    status, _, stderr = lab.run()
    assert status == 2
    assert "is there already" in stderr
    assert (lab.path / "out/precious").exists()
    assert not (lab.path / "nars").exists()


def test_a_full_disk(tmp_path: Path) -> None:
    failed = threading.Event()
    workers = Workers(on_error=failed.set)
    fifo = Fifo(tmp_path / "0")
    display = Display(os.open(os.devnull, os.O_WRONLY), None)
    workers.start("the log", lambda: copy_log(fifo, Path("/dev/full"), display))
    fifo.path.write_text("hello")
    # At once: the machine, which would go on, has to be ended.
    assert failed.wait(60)
    with pytest.raises(StreamError, match="cannot write the log: No space left on device"):
        workers.join()
    fifo.end()


def wait_for_qemu(lab: Lab) -> int:
    """The process ID of the stand-in, which hangs."""
    pid = lab.path / "scenario.pid"
    for _ in range(1000):
        if pid.exists():
            return int(pid.read_text())
        time.sleep(0.01)
    raise AssertionError("the stand-in for QEMU did not start")


def runs(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted(lab: Lab, number: int) -> None:
    lab.machine({"hang": True})
    process = lab.start()
    qemu = wait_for_qemu(lab)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (128 + number, "rewind: interrupted\n")
    assert lab.left() == []
    assert not runs(qemu)


def test_killed(lab: Lab) -> None:
    lab.machine({"hang": True})
    process = lab.start()
    qemu = wait_for_qemu(lab)
    process.kill()
    process.communicate(timeout=60)
    for _ in range(1000):
        if not runs(qemu):
            return
        time.sleep(0.01)
    raise AssertionError("QEMU outlived the recorder")


def test_boot_snapshot(lab: Lab) -> None:
    def snapshot(name: str) -> dict[str, bytes]:
        out = lab.path / name
        attributes = {
            "settings": lab.attributes["settings"],
            "memory": 256,
            "outputs": {"out": str(out)},
        }
        status, stdout, stderr = Lab(lab.path, attributes).run("snapshot")
        assert (status, stdout, stderr) == (0, "", "")
        return {path.name: path.read_bytes() for path in out.iterdir()}

    lab.machine({"console": "booted\n"})
    first = snapshot("first")
    assert snapshot("second") == first
    assert first["state"] == STATE % bytes(24)

    lab.machine(GOOD)
    lab.attributes["snapshot"] = str(lab.path / "first")
    assert lab.run()[0] == 0
    # The stand-in repeats what it was restored from, after what was said when it booted.
    state = first["state"].decode()
    assert (lab.path / "out/console").read_text() == f"booted\n{state} memory"
    assert not any(word.startswith("loader,") for word in lab.qemu_arguments())


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("memory", 512, "with 256 MiB, not with 512"),
        ("initrd", "/other", "of another machine"),
        ("qemu", "/other", None),
    ],
)
def test_a_snapshot_of_another_machine(
    lab: Lab, key: str, value: Any, sentence: str | None
) -> None:
    """QEMU may be another: the guest does not see which one it is."""
    settings = Path(lab.attributes["settings"])
    Snapshot(path=lab.path, machine=Settings.load(settings).guest(), memory=256, console=b"").save()
    lab.attributes["snapshot"] = str(lab.path)
    (lab.path / "state").write_bytes(b"")
    if key == "memory":
        lab.attributes["memory"] = value
    else:
        settings.write_text(json.dumps(json.loads(settings.read_text()) | {key: value}))
    status, _, stderr = lab.run()
    assert status == (1 if sentence is None else 2)
    assert (sentence or "QEMU can't be started") in stderr


@pytest.mark.parametrize(
    ("scenario", "sentence"),
    [
        ({"status": 1, "stderr": "qemu: no\n"}, "the machine did not boot: qemu: no"),
        ({"signal": 9}, "the machine did not boot: QEMU was killed"),
        ({"refuse": "migrate-set-capabilities"}, "QEMU refused a command: this is refused"),
    ],
)
def test_no_boot_snapshot(lab: Lab, scenario: Scenario, sentence: str) -> None:
    lab.machine(scenario)
    status, _, stderr = lab.run("snapshot")
    assert status == 1
    assert sentence in stderr
    assert lab.left() == []


def test_a_machine_that_can_not_be_restored(lab: Lab) -> None:
    lab.machine({})
    attributes = lab.attributes | {"outputs": {"out": str(lab.path / "snapshot")}}
    assert Lab(lab.path, attributes).run("snapshot")[0] == 0
    lab.attributes["snapshot"] = str(lab.path / "snapshot")
    lab.machine({"refuse": "migrate-incoming"})
    status, _, stderr = lab.run()
    assert (status, stderr) == (1, "rewind: QEMU refused migrate-incoming: this is refused\n")
    assert lab.left() == []


def test_progress_goes_to_nix(tmp_path: Path) -> None:
    log, progress = tmp_path / "log", tmp_path / "progress"
    with log.open("wb") as log_file, progress.open("wb") as progress_file:
        display = Display(log_file.fileno(), progress_file.fileno(), interval=0)
        display.reached(10, 1_500_000_000)
        display.log(b'@nix {"action":"setPhase","phase":"buildPhase"}\nchecking for cc... ')
        # Not into the middle of a line, which it would be part of.
        display.reached(20, 2_000_000_000)
        display.log(b"yes\n")
        display.reached(1234, 2_500_000_000)
    phases = [
        json.loads(line.removeprefix("@nix "))["phase"]
        for line in progress.read_text().splitlines()
    ]
    assert phases == [
        "10 steps, 1.5 s of guest time",
        "buildPhase, 1,234 steps, 2.5 s of guest time",
    ]
    assert log.read_text().endswith("checking for cc... yes\n")


def test_a_log_that_ends_within_a_line(tmp_path: Path) -> None:
    """The run's log is as it is; what Nix is shown goes on in a new line."""
    shown, log = tmp_path / "shown", tmp_path / "log"
    fifo = Fifo(tmp_path / "0")
    fifo.path.write_bytes(b"no newline")
    fifo.end()
    with shown.open("wb") as file:
        display = Display(file.fileno(), None)
        copy_log(fifo, log, display)
        display.end()
    assert log.read_bytes() == b"no newline"
    assert shown.read_bytes() == b"no newline\n"


def test_a_fifo_says_whether_something_waits_in_it(tmp_path: Path) -> None:
    fifo = Fifo(tmp_path / "fifo")
    assert not fifo.waiting()
    fifo.path.write_bytes(b"unread")
    assert fifo.waiting()
    fifo.end()
    assert list(fifo) == [b"unread"]
