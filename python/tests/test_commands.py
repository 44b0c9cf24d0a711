"""The commands, as a user calls them."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import traces
from conftest import Rewind, Store
from rewind.cli import caches, nix, places, recording
from rewind.cli.errors import Interrupted
from rewind.cli.nix import BuildFailure, Event, LogLine, Message, Phase, Silent, Started
from rewind.cli.recording import Options, Recording
from rewind.formats.manifest import Manifest, Outcome, Output
from rewind.formats.schedule import Schedule
from test_drv import aterm
from test_manifest import MANIFEST
from test_render import LINES, WOKEN

PACKAGE = Path(nix.__file__).parents[1]
DEFAULTS = Options(schedule=(), epoch=1_791_331_200, seed="", cores=1, memory=1024, time_limit=3600)


@pytest.fixture(autouse=True)
def _defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "defaults", lambda: DEFAULTS)


def test_help(rewind: Rewind) -> None:
    """Every command is listed with what its own help says first."""
    listed = rewind("--help").out
    for name in ("nix", "show", "ls", "log", "events", "ps", "replay", "fork", "doctor"):
        assert f"\n  {name} " in listed
        result = rewind(name, "--help")
        assert result.status == 0
        assert "--json" in result.out


def test_version(rewind: Rewind) -> None:
    assert rewind("--version").out == "rewind 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["what"], "no such command 'what' (rewind --help)"),
        # The option's name is quoted by some versions of click only.
        (["ls", "--wide"], "(rewind ls --help)"),
        (["show"], "missing argument 'RUN' (rewind show --help)"),
        (["show", "@"], "there are no runs yet: rewind nix makes one"),
        (["events", "--from", "x", "@"], "'x' is no position: write STEP or STEP+N, such as"),
        (["nix", "--memory", "0", "x"], "0 is not in the range from 256 to 245,760 ("),
        (["nix", "--cores", "65", "x"], "65 is not in the range from 1 to 64 ("),
        (["nix", "--epoch", "9" * 20, "x"], "is not in the range from 1 to 8,277,292,035 ("),
        (["nix", "--time-limit", "1e3", "x"], "'1e3' is not a valid whole number ("),
        (["nix", "--clock", "exits", "x"], "--clock exits is for recorders that count"),
        (["nix", "--schedule", "[1]", "x"], "1 is no perturbation"),
        (["nix", "--schedule", "/no/file", "x"], "the schedule /no/file: No such file"),
    ],
)
def test_bad_input(rewind: Rewind, store: Store, words: list[str], why: str) -> None:
    """One line on stderr, nothing on stdout, status 2."""
    result = rewind(*words)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("rewind: ")
    assert why in result.err
    assert result.err.count("\n") == 1


# --- show, ls


def test_show(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "bank-0.1.0")
    assert rewind("show", "@").out == (
        f"rewind nix {MANIFEST.drv} --epoch 1791331200 --clock instructions"
        """ --schedule '[{"at":"3237+41","stall":1000000}]' --name bank-0.1.0\n"""
        f"# {'1':0<32}\n"
        "# 1 of 1 perturbation never came: a stall of 1 ms at 3237+41\n"
    )


def test_show_options(rewind: Rewind, store: Store) -> None:
    """Options that are not as by default are there."""
    manifest = attrs.evolve(MANIFEST, schedule=(), seed="a b", cores=2, memory=4096, time_limit=0)
    store.add_run("1", "x", manifest=manifest)
    words = "--seed 'a b' --cores 2 --memory 4096 --time-limit 0 --name x\n"
    assert words in rewind("show", "@").out


def test_show_json(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "x")
    data = rewind("show", "@", "--json").json
    assert isinstance(data, dict)
    assert data["command"][:3] == ["rewind", "nix", MANIFEST.drv]
    assert data["schedule"] == [{"at": "3237+41", "stall": 1000000}]
    assert data["outcome"] == {"kind": "exited", "value": 0}


def test_ls(rewind: Rewind, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    store.add_run("1", "a")
    store.add_run("2", "bank", manifest=attrs.evolve(MANIFEST, outcome=Outcome("timed-out")))
    assert rewind("ls").out == (
        "hash      name  outcome    steps  guest time  perturbed  recorded\n"
        "20000000  bank  timed-out     21     0.002 s          1  2026-10-07 00:02\n"
        "10000000  a     exited 0      21     0.002 s          1  2026-10-07 00:01\n"
    )
    data = rewind("ls", "--json").json
    assert isinstance(data, list)
    assert [entry["name"] for entry in data] == ["bank", "a"]


def test_tables_on_a_terminal(
    rewind: Rewind, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are cut to its width; piped, they are whole."""
    store.add_run("1", "a" * 100)
    monkeypatch.setenv("COLUMNS", "40")
    assert len(rewind("ls").out.splitlines()[1]) > 120
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    head, row = rewind("ls").out.splitlines()
    assert "\x1b[1mhash" in head
    assert row == "10000000  " + "a" * 30


def test_ls_of_nothing(rewind: Rewind, store: Store) -> None:
    result = rewind("ls")
    assert (result.status, result.out) == (0, "")
    assert rewind("ls", "--json").out == "[]\n"


def test_ls_with_a_damaged_run(rewind: Rewind, store: Store) -> None:
    """It is named, and the others are listed."""
    (store.add_run("1", "a") / "manifest.cbor").write_bytes(b"x")
    store.add_run("2", "b")
    result = rewind("ls")
    assert "20000000  b" in result.out
    assert "rewind-run-a/manifest.cbor: " in result.err


# --- log, events, ps


def test_log(rewind: Rewind, store: Store) -> None:
    """As it was written; or with steps, and what cannot be shown escaped."""
    records = traces.sample()
    path = store.add_run("1", "x", records, b"strange\x1b[31m\n\xff\n")
    assert rewind("log", "@").out == "strange\x1b[31m\n\udcff\n"
    assert rewind("log", "@", "--steps").out == "    strange\x1b[31m\n    \\xff\n"
    (path / "log").write_bytes(b"strange\nline\n")
    records[8] = traces.enter(2, 1, 1, 0, 6, more=traces.detail(1, 2, b"line\n"))
    traces.write(path / "trace", records)
    assert rewind("log", "--steps", "@").out == "    strange\n 8  line\n"
    assert rewind("log", "--json", "@").json == [
        {"step": None, "text": "strange"},
        {"step": 8, "text": "line"},
    ]


def test_events(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "x")
    assert rewind("events", "@").out == LINES
    part = rewind("events", "@", "--from", "2+100", "--to", "6").out
    assert part == "\n".join([" 3  1          … openat = 3", *LINES.splitlines()[3:5], ""])
    assert rewind("events", "@", "--from", "7", "--to", "3").out == ""


def test_events_with_wakes(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "x", traces.woken())
    assert rewind("events", "@").out == WOKEN
    part = rewind("events", "@", "--wakes", "--from", "11", "--to", "12").out
    assert part == (
        "11  1          sleeps, next is other (swapper)\n12  other      wakes 1/2 (interrupt)\n"
    )
    # For a program there is no such choice.
    assert rewind("events", "@", "--json", "--from", "12", "--to", "12").out == (
        '{"step": 12, "time": 1000800, "pid": 0, "tid": 0, "type": "wake", "woken_pid": 1,'
        ' "woken_tid": 2, "interrupt": true}\n'
    )


def test_events_json(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "x")
    result = rewind("events", "@", "--json", "--from", "18", "--to", "19")
    assert result.out == (
        '{"step": 18, "time": 1500, "pid": 1, "tid": 1, "type": "enter", "call": "wait4", "args":'
        ' [18446744073709551615, 0, 0, 0, 0, 0], "ip": 4198400, "details": [], "number": 61}\n'
        '{"step": 19, "time": 1600, "pid": 1, "tid": 1, "type": "exit", "call": "wait4", "value":'
        ' -10, "details": [], "number": 61, "error": "ECHILD"}\n'
    )


@pytest.mark.parametrize(
    ("words", "first", "last"),
    [
        ([], 0, 20),
        (["--from", "2"], 2, 20),
        (["--from", "2+1"], 3, 20),
        (["--from", "2+100"], 3, 20),
        (["--from", "2+101"], 4, 20),
        (["--to", "2"], 0, 2),
        (["--to", "2+99"], 0, 2),
        (["--to", "2+100"], 0, 3),
        (["--to", "2+1000000"], 0, 20),
    ],
)
def test_event_ranges(
    rewind: Rewind, store: Store, words: list[str], first: int, last: int
) -> None:
    """Positions between records: a record is taken at its instruction, not before."""
    store.add_run("1", "x")
    lines = rewind("events", "@", "--json", *words).out.splitlines()
    assert len(lines) == last - first + 1
    assert f'"step": {first},' in lines[0]
    assert f'"step": {last},' in lines[-1]


def test_events_past_the_end(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "x")
    result = rewind("events", "@", "--from", "21")
    assert result.err == "rewind: there is no step 21: the run has 21\n"


def test_events_of_damaged_trace(rewind: Rewind, store: Store) -> None:
    path = store.add_run("1", "x") / "trace"
    path.write_bytes(path.read_bytes()[:-1])
    result = rewind("events", "@")
    assert result.status == 2
    assert result.err == f"rewind: {path}: the trace is cut short\n"


def test_ps(rewind: Rewind, store: Store) -> None:
    store.add_run("1", "x")
    assert rewind("ps", "@").out == (
        "pid  first  last  threads  end                command\n"
        "1        0    20        1  exited 3           sh -c make\n"
        "  2      6    16        2  killed by SIGTERM  sh -c make\n"
    )
    assert rewind("ps", "@", "18").out == (
        "task  state  since  call                      command\n"
        "1     runs      17  wait4(-1, NULL, 0, NULL)  sh -c make\n"
    )
    data = rewind("ps", "@", "--json", "8").json
    assert isinstance(data, list)
    assert [(entry["pid"], entry["threads"][0]["state"]) for entry in data] == [
        (1, "waits"),
        (2, "runs"),
    ]


# --- nix, replay

OUT = "/nix/store/9d1ncnkxfhqhzsqzg2ln8lbp6v8jkk2k-bank"
DRV = Path("/nix/store/rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr-rewind-run-bank.drv")
NAR = "sha256:" + "0" * 52
"""What `Store` says of everything in it."""


@attrs.define
class Machine:
    """Stands for Nix and all that it builds: makes a run of what is asked for."""

    store: Store
    job: Path
    outputs: dict[str, Output]
    events: list[Event] = attrs.field(factory=list)
    failure: BaseException | None = None
    messages: tuple[str, ...] = ()
    outcome: Outcome = MANIFEST.outcome
    schedule: Schedule = ()
    options: list[tuple[str, ...]] = attrs.field(factory=list)
    instantiated: list[Options] = attrs.field(factory=list)

    def instantiate(self, job: object, options: Options) -> Recording:
        self.instantiated.append(options)
        path = self.store.path / f"{'r':0<32}-rewind-run-bank"
        return Recording(DRV, path, Path(f"{path}-nars"))

    def build(self, installable: str, *options: str) -> Iterator[Event]:
        self.options.append((installable, *options))
        yield from self.events
        if self.failure is not None:
            raise self.failure
        if not (self.store.path / f"{'r':0<32}-rewind-run-bank").exists():
            self.store.add_run("r", "bank", manifest=self.manifest)

    @property
    def manifest(self) -> Manifest:
        return attrs.evolve(
            MANIFEST,
            drv=str(self.job),
            schedule=self.schedule,
            outcome=self.outcome,
            outputs=self.outputs,
            messages=self.messages,
        )


@pytest.fixture
def machine(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    job = store.path / f"{'j':0<32}-bank.drv"
    out = store.path / f"{'k':0<32}-bank"
    job.write_text(aterm({"out": str(out)}, (("out", str(out), "", ""),)))
    made = Machine(store, job, {"out": Output(str(out), NAR, 1)})
    monkeypatch.setattr(recording, "instantiate", made.instantiate)
    monkeypatch.setattr(nix, "build", made.build)
    monkeypatch.setattr(nix, "config", lambda: {"substituters": []})
    return made


def test_nix(rewind: Rewind, machine: Machine) -> None:
    machine.events = [
        Started(DRV),
        LogLine(Path("/nix/store/other.drv"), "not shown"),
        LogLine(DRV, "hello \x1b[31mred\x1b[0m"),
        Phase(DRV, "5 steps"),
        Message("warning: careful", error=False),
    ]
    result = rewind("nix", str(machine.job), "--cores", "2", "--seed", "s")
    assert result.status == 0
    lines = result.out.splitlines()
    assert lines[0] == f"{'r':0<32}  bank"
    assert lines[1].startswith("exited 0: 21 steps, 0.002 s of guest time, 0.")
    assert lines[2:] == [f"out: {NAR}", "  nothing to compare it with"]
    assert result.err == "hello red\nwarning: careful\n"
    assert machine.instantiated == [Options(cores=2, seed="s")]
    ((installable, *words),) = machine.options
    assert installable == f"{DRV}^*"
    assert words[0] == "--out-link"
    assert "already recorded" in rewind("nix", str(machine.job)).out


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        (300, "gives it 300 s, 5 times over (stalled-download-timeout, download-attempts)"),
        (0, "waits until it does (stalled-download-timeout is 0)"),
    ],
)
def test_nix_with_a_silent_cache(
    rewind: Rewind, machine: Machine, monkeypatch: pytest.MonkeyPatch, limit: int, says: str
) -> None:
    config = {"substituters": [], "stalled-download-timeout": limit, "download-attempts": 5}
    monkeypatch.setattr(nix, "config", lambda: config)
    machine.events = [Silent("http://cache")]
    result = rewind("nix", str(machine.job))
    assert result.status == 0
    assert result.err == f"rewind: http://cache has sent nothing for 5 s: Nix {says}\n"


def _add_output(machine: Machine) -> None:
    path = Path(machine.outputs["out"].path)
    path.mkdir()
    (path / ".registered").write_text("1")


def test_nix_same_as_local(rewind: Rewind, machine: Machine) -> None:
    _add_output(machine)
    result = rewind("nix", str(machine.job))
    assert result.status == 0
    assert result.out.endswith("\n  the same as in the local store\n")


def test_nix_differs(rewind: Rewind, machine: Machine) -> None:
    """The exit status is 1."""
    _add_output(machine)
    other = "sha256:0mdqa9w1p6cmli6976v4wi0sw9r4p5prkj7lzfd1877wk11c9c73"
    machine.outputs = {"out": Output(machine.outputs["out"].path, other, 5)}
    result = rewind("nix", str(machine.job))
    assert result.status == 1
    assert result.out.endswith(f"\n  differs from the local store: {NAR}\n")


def test_nix_output_not_made(rewind: Rewind, machine: Machine) -> None:
    _add_output(machine)
    machine.outputs = {}
    result = rewind("nix", str(machine.job))
    assert result.status == 1
    assert result.out.endswith("\nout: not made\n  the local store has it\n")


def test_nix_caches(rewind: Rewind, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that does not answer is a warning, and decides nothing."""
    monkeypatch.setattr(
        nix, "config", lambda: {"substituters": ["http://a", "http://b", "http://c"]}
    )
    answers = {
        "http://a": caches.Answer("http://a", NAR),
        "http://b": caches.Answer("http://b"),
        "http://c": caches.Answer("http://c", problem="no answer within 5 s"),
    }
    monkeypatch.setattr(caches.Caches, "_ask", lambda self, url, path: answers[url])
    result = rewind("nix", str(machine.job))
    assert result.status == 0
    assert result.out.endswith("\n  the same as in http://a\n")
    assert result.err == "rewind: http://c: no answer within 5 s\n"
    data = rewind("nix", str(machine.job), "--json").json
    assert isinstance(data, dict)
    verdicts = {url: entry["verdict"] for url, entry in data["outputs"]["out"]["caches"].items()}
    assert verdicts == {"http://a": "same", "http://b": "absent", "http://c": "unknown"}
    assert data["outputs"]["out"]["local"]["verdict"] == "absent"


def test_nix_recorder_gives_up(rewind: Rewind, machine: Machine) -> None:
    """Its own sentence is ours; the log is still shown, also what looks like the recorder's."""
    machine.events = [
        LogLine(DRV, text)
        for text in ("rewind: by the job", "hello", "rewind: no space left on device", "console: x")
    ]
    machine.failure = BuildFailure("x", f"error: builder for '{DRV}' failed", 1)
    result = rewind("nix", str(machine.job))
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "rewind: by the job\nhello\nrewind: no space left on device\nconsole: x\n"
    )


def test_nix_job_that_speaks_like_us(rewind: Rewind, machine: Machine) -> None:
    """What the recorder says at the end of a good run is not repeated; the job's lines are."""
    log = ["rewind: by the job", *map(str, range(150))]
    machine.events = [LogLine(DRV, text) for text in (*log, "rewind: exited 0 after 21 steps")]
    result = rewind("nix", str(machine.job))
    assert result.status == 0
    assert result.err.splitlines() == log


def test_nix_out_of_memory(rewind: Rewind, machine: Machine) -> None:
    """What the guest's kernel said, and what to do."""
    machine.messages = ("Out of memory: Killed process 7 (cc1)", "bye")
    result = rewind("nix", str(machine.job))
    assert (result.status, result.err) == (0, "")
    assert "\nthe machine says: Out of memory: Killed process 7 (cc1)\n" in result.out
    assert "\nthe machine had 1,024 MiB: --memory gives it more\n" in result.out


def test_nix_timed_out(rewind: Rewind, machine: Machine) -> None:
    machine.outcome, machine.outputs = Outcome("timed-out"), {}
    result = rewind("nix", str(machine.job))
    assert result.status == 0
    assert f"\nthe limit was {MANIFEST.time_limit:,} s: --time-limit sets another\n" in result.out


def test_nix_fails_out_of_memory(rewind: Rewind, machine: Machine) -> None:
    """The build may be fine: the run is there, but it is an error."""
    machine.messages = ("Out of memory: Killed process 7 (cc1)",)
    machine.outcome, machine.outputs = Outcome("exited", 1), {}
    result = rewind("nix", str(machine.job))
    assert result.status == 2
    assert "\nthe machine says: Out of memory: Killed process 7 (cc1)\n" in result.out
    assert result.err == (
        "rewind: the build failed as memory ran out, and the machine had 1,024 MiB:"
        " --memory gives it more\n"
    )


def test_nix_part_gives_up(rewind: Rewind, machine: Machine) -> None:
    """What makes the boot snapshot, and the layers, has reasons, too; the rest is not shown."""
    part = Path(f"/nix/store/{'p' * 32}-rewind-boot-snapshot.drv")
    machine.events = [LogLine(part, "booting"), LogLine(part, "rewind: 16 MiB is too little")]
    machine.failure = BuildFailure("x", f"error: builder for '{part}' failed", 1)
    result = rewind("nix", str(machine.job))
    assert (result.status, result.err) == (2, "rewind: 16 MiB is too little\n")


def test_nix_broken_run(rewind: Rewind, machine: Machine) -> None:
    """What the recorder says is the reason only if it is what failed."""
    machine.events = [LogLine(DRV, "rewind: x")]
    machine.failure = BuildFailure("x", "error: no space left on device", 1)
    result = rewind("nix", str(machine.job))
    assert result.err.startswith("error: no space left on device\nrewind: bank was not recorded")


@pytest.mark.parametrize(
    ("log", "status", "reason"),
    [
        (f"error: builder for '{DRV}' failed due to signal 9 (Killed)", 1, "the recorder failed"),
        ("", -9, "nix was killed by SIGKILL"),
    ],
)
def test_nix_is_killed(
    rewind: Rewind, machine: Machine, log: str, status: int, reason: str
) -> None:
    machine.failure = BuildFailure("x", log, status)
    result = rewind("nix", str(machine.job))
    assert result.err.splitlines()[-1] == f"rewind: bank was not recorded: {reason}"


def test_nix_without_a_place_for_links(
    rewind: Rewind, machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    result = rewind("nix", str(machine.job))
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("rewind: there can be no links to runs in /dev/null/rewind/runs: ")
    # A relative one is ignored.
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert places.roots() == tmp_path / "home/.local/state/rewind/runs"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (2, ["> 0", "> 1"]),
        (30, ["> … (nix log {dep} has all of it)", *(f"> {n}" for n in range(5, 30))]),
    ],
)
def test_nix_input_fails(rewind: Rewind, machine: Machine, count: int, shown: list[str]) -> None:
    """The end of its log, Nix's own words, then a sentence."""
    dep = Path(f"/nix/store/{'d' * 32}-dep.drv")
    other = Path(f"/nix/store/{'d' * 32}-other.drv")
    machine.events = [LogLine(other, "all is well")]
    machine.events += [LogLine(dep, str(number)) for number in range(count)]
    machine.failure = BuildFailure("x", f"error: builder for '{dep}' failed", 1)
    result = rewind("nix", str(machine.job))
    assert result.status == 2
    assert result.err.splitlines() == [
        f"{dep.name}:",
        *(line.format(dep=dep) for line in shown),
        f"error: builder for '{dep}' failed",
        "rewind: bank was not recorded: nix could not build what it needs",
    ]


def test_nix_interrupted(rewind: Rewind, machine: Machine) -> None:
    machine.failure = Interrupted(2)
    result = rewind("nix", str(machine.job))
    assert (result.status, result.out, result.err) == (130, "", "")


def test_nix_refuses(rewind: Rewind, machine: Machine) -> None:
    machine.job.write_text(aterm(system="aarch64-linux"))
    result = rewind("nix", str(machine.job))
    assert result.status == 2
    assert result.err == "rewind: bank is for aarch64-linux: the machine is x86_64-linux\n"
    assert machine.instantiated == []


def test_replay(rewind: Rewind, machine: Machine) -> None:
    machine.schedule = MANIFEST.schedule
    rewind("nix", str(machine.job))
    result = rewind("replay", "@")
    assert result.status == 0
    assert result.out.startswith("r0000000  bank: the same 21 steps, 0.")
    assert machine.options[1] == (f"{DRV}^out", "--rebuild", "--keep-failed", "--no-link")
    assert machine.instantiated[1] == Options(
        name="bank",
        schedule=MANIFEST.schedule,
        epoch=MANIFEST.epoch,
        seed="",
        cores=1,
        memory=1024,
        time_limit=3600,
    )


def _replay_differently(machine: Machine, records: list[bytes], log: bytes = b"") -> Path:
    run = machine.store.add_run("r", "bank", manifest=machine.manifest)
    again = Path(f"{run}.check")
    again.mkdir()
    (again / "manifest.cbor").write_bytes((run / "manifest.cbor").read_bytes())
    (again / "log").write_bytes(log)
    traces.write(again / "trace", records)
    machine.failure = BuildFailure("x", f"error: output '{run}' differs from '{again}'", 1)
    return again


def test_replay_differs(rewind: Rewind, machine: Machine) -> None:
    records = traces.sample()
    records[9] = traces.leave(2, 1, 5, time=710)
    again = _replay_differently(machine, records)
    result = rewind("replay", "@")
    assert result.status == 1
    assert result.out == (
        "r0000000  bank: the same until step 9\n"
        '  both    8             700  2          write(1, "line\\n\\xff")\n'
        "  run     9             710  2          … write = 6\n"
        "  again   9             710  2          … write = 5\n"
        f"the other run is {again}\n"
    )
    data = rewind("replay", "@", "--json").json
    assert isinstance(data, dict)
    assert (data["same"], data["step"], data["second"]["value"]) == (False, 9, 5)


def test_replay_with_another_log(rewind: Rewind, machine: Machine) -> None:
    _replay_differently(machine, traces.sample(), b"x")
    result = rewind("replay", "@")
    assert result.status == 1
    assert "the same records, but another log" in result.out


def test_replay_by_its_own_derivation(rewind: Rewind, machine: Machine) -> None:
    """What made the run is used, if it is still there."""
    rewind("nix", str(machine.job))
    machine.store.derivers[machine.store.path / f"{'r':0<32}-rewind-run-bank"] = machine.job
    assert rewind("replay", "@").status == 0
    assert machine.options[1][0] == f"{machine.job}^out"
    assert len(machine.instantiated) == 1


def test_replay_without_the_job(rewind: Rewind, machine: Machine) -> None:
    rewind("nix", str(machine.job))
    machine.job.unlink()
    result = rewind("replay", "@")
    assert result.status == 2
    assert f"the job of this run, {machine.job}, is not in the store" in result.err


def test_replay_of_another_version(rewind: Rewind, machine: Machine) -> None:
    machine.store.add_run("s", "bank", manifest=machine.manifest)
    result = rewind("replay", "@")
    assert result.status == 2
    assert "another version of rewind made this run" in result.err


# --- what all have in common


def _python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{PACKAGE.parent}:{os.environ.get('PYTHONPATH', '')}"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )


def test_completion(store: Store) -> None:
    """Commands and runs complete, without Nix."""
    store.add_run("abc", "bank")

    def complete(*words: str) -> list[str]:
        result = _python(
            "from rewind.cli import main; main()",
            PATH="",
            NIX_STORE_DIR=str(store.path),
            _REWIND_COMPLETE="bash_complete",
            COMP_WORDS=" ".join(["rewind", *words]),
            COMP_CWORD=str(len(words)),
        )
        return result.stdout.split()

    assert complete("ev") == ["plain,events"]
    assert complete("log", "ab") == ["plain,abc00000"]
    assert complete("log", "b") == ["plain,bank"]
    assert "plain,--steps" in complete("log", "--")


def test_starts_fast() -> None:
    """What only some commands need is not imported by others."""
    code = "import sys, rewind.cli; print(' '.join(sys.modules))"
    modules = set(_python(code).stdout.split())
    assert not modules & {"rich", "cbor2", "ssl", "urllib.request", "pynixutil"}


def test_reader_that_has_enough(store: Store) -> None:
    """As in ``rewind events @ | head``: no complaint."""
    run = store.add_run("1", "x", traces.sample() * 500)
    # There is no Nix to keep it with.
    link = Path(os.environ["XDG_STATE_HOME"]) / "rewind" / "runs" / run.name
    link.parent.mkdir(parents=True)
    link.symlink_to(run)
    path = f"{PACKAGE.parent}:{os.environ.get('PYTHONPATH', '')}"
    process = subprocess.Popen(
        [sys.executable, "-m", "rewind.cli", "events", "1"],
        env={**os.environ, "PYTHONPATH": path, "NIX_STORE_DIR": str(store.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


@pytest.mark.parametrize(
    ("closed", "status", "out", "err"),
    [
        (">&-", 2, "", "rewind: stdout is closed: there is nowhere to answer\n"),
        ("2>&-", 0, "rewind ", ""),
        ("<&- 2>&-", 0, "rewind ", ""),
    ],
)
def test_closed_streams(closed: str, status: int, out: str, err: str) -> None:
    path = f"{PACKAGE.parent}:{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m rewind.cli --version {closed}', sys.executable],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == status
    assert done.stdout.startswith(out)
    assert done.stderr == err


IMPORTS = {
    "cli": {"analysis", "recorder", "machine", "formats"},
    "analysis": {"formats"},
    "recorder": {"machine", "formats"},
    "machine": {"formats"},
    "formats": set[str](),
}
"""What each package may import of the others."""


@pytest.mark.parametrize("package", IMPORTS)
def test_imports_point_one_way(package: str) -> None:
    for path in (PACKAGE / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                parts = name.split(".")
                if parts[0] == "rewind" and parts[1] in IMPORTS:
                    assert parts[1] in IMPORTS[package] | {package}, f"{path} imports {name}"


def test_package_imports_nothing() -> None:
    assert "import" not in (PACKAGE / "__init__.py").read_text()
