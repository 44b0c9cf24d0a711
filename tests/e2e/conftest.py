"""What the end-to-end tests share: the real rewind and nix, and a user's flake full of jobs.

Started by tests/run.py, which says in REWIND which rewind is tested and in REWIND_NIXPKGS what
the flake's nixpkgs is. The checkout is the working directory. Every session's jobs are new ones
(`Session.mark`), so that nothing was recorded before, and their runs are told from others.
"""

import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

SYSTEM = "x86_64-linux"
LIMIT = 240
"""Seconds after which a command is taken to hang."""


@attrs.frozen
class Answer:
    """What a command said."""

    command: list[str]
    status: int
    out: str
    err: str

    def __str__(self) -> str:
        """For the message of a test that fails."""
        return (
            f"{' '.join(map(str, self.command))}\nexit status {self.status}\n"
            f"--- stdout\n{self.out[-4000:]}\n--- stderr\n{self.err[-4000:]}"
        )

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def sentence(self) -> str:
        """The last line on stderr, with which a failure is explained."""
        return self.err.rstrip("\n").rpartition("\n")[2]


@attrs.frozen
class Session:
    """The commands, and where they work."""

    checkout: Path
    directory: Path
    """For files; removed at the end."""
    mark: str
    """In the name of every job of this session."""
    rewind_program: Path
    nixpkgs: Path

    @property
    def jobs(self) -> Path:
        """A flake with the jobs, which takes rewind as an input."""
        return self.directory / "jobs"

    @property
    def roots(self) -> Path:
        """Where rewind keeps its links to runs."""
        return self.directory / "state" / "rewind" / "runs"

    @property
    def temporary(self) -> Path:
        """Where temporary files of commands are."""
        return self.directory / "tmp"

    def environment(self, **more: str) -> dict[str, str]:
        """A user's, but for where files are kept; nothing of the tests' own settings."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("REWIND", "REWIND_NIXPKGS", "REWIND_SOURCE", "PYTHONPATH")
        }
        return kept | {
            "XDG_STATE_HOME": str(self.directory / "state"),
            "XDG_CACHE_HOME": str(self.directory / "cache"),
            "TMPDIR": str(self.temporary),
            **more,
        }

    def start(self, command: list[str], **more: str) -> subprocess.Popen[str]:
        """A command in a process group of its own."""
        return subprocess.Popen(
            command,
            env=self.environment(**more),
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str, cwd: Path | None = None, **more: str) -> Answer:
        """A command from its start to its end."""
        done = subprocess.run(
            command,
            env=self.environment(**more),
            cwd=cwd or self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        return Answer(list(command), done.returncode, done.stdout, done.stderr)

    def rewind(self, *arguments: str, **more: str) -> Answer:
        """``rewind ARGUMENTS``."""
        return self.run(str(self.rewind_program), *arguments, cwd=None, **more)

    def alone(self, script: str, *arguments: str, room: str = "1g") -> Answer:
        """Run a bash script that has the store to itself, with *room* for what it adds.

        In a mount namespace of its own, with layers over the store and Nix's database: whatever
        is written there is gone with it. $1 and so on are *arguments*.
        """
        with tempfile.TemporaryDirectory(dir=self.directory) as place:
            return self.run(
                "unshare", "--mount", "--propagation", "private",
                "bash", "-euc", _ALONE + script, place, room, *arguments,
            )  # fmt: skip

    def nix(self, *arguments: str, cwd: Path | None = None) -> str:
        """What ``nix ARGUMENTS`` prints; it must work."""
        answer = self.run("nix", *arguments, cwd=cwd)
        assert answer.status == 0, str(answer)
        return answer.out.strip()

    def job(self, name: str) -> str:
        """The installable of a job of jobs.nix."""
        return f"{self.jobs}#{name}"

    def program(self, package: str, name: str) -> str:
        """The path of a program that a test uses, of one of jobs.nix's packages."""
        paths = self.nix("build", "--no-link", "--print-out-paths", self.job(package)).split()
        (found,) = (path for path in paths if Path(path, "bin", name).exists())
        return f"{found}/bin/{name}"

    def drv(self, name: str) -> str:
        """The .drv of a job."""
        return self.nix("eval", "--raw", f"{self.jobs}#{name}.drvPath")

    def name(self, name: str) -> str:
        """What a job's derivation is called, and so its run."""
        return f"{name}-{self.mark}"

    def recorded(self, installable: str, *options: str) -> "Recorded":
        """Record a build; it must work."""
        answer = self.rewind("nix", installable, *options)
        assert answer.status == 0, str(answer)
        return Recorded(answer)

    def traces(self) -> "Traces":
        """What is there now that a failed command must not add to."""
        return Traces(
            runs=sorted(
                path.name
                for path in Path("/nix/store").glob(f"*-rewind-run-*{self.mark}*")
                # A derivation is no run, and its lock is Nix's.
                if path.suffix not in (".drv", ".lock")
            ),
            roots=_names(self.roots),
            files=_names(self.temporary),
        )


_ALONE = r"""
    layer() { # PART ROOM
        mkdir "$0/$1"
        mount -t tmpfs -o "size=$2" tmpfs "$0/$1"
        mkdir "$0/$1/upper" "$0/$1/work"
        mount -t overlay overlay "/nix/$1" \
            -o "lowerdir=/nix/$1,upperdir=$0/$1/upper,workdir=$0/$1/work"
    }
    layer var 1g
    layer store "$1"
    shift
"""

needs_own_store = pytest.mark.skipif(
    not os.access("/nix/store", os.W_OK), reason="it needs root, and a store without a daemon"
)
"""For tests that use `Session.alone`."""


@attrs.frozen
class Traces:
    """What commands have left behind."""

    runs: list[str]
    roots: list[str]
    files: list[str]


@attrs.frozen
class Recorded:
    """A run, by what ``rewind nix`` said of it."""

    answer: Answer

    @property
    def hash(self) -> str:
        """The whole of it."""
        return self.answer.out.split()[0]

    @property
    def name(self) -> str:
        """Its name."""
        return self.answer.out.split()[1]

    @property
    def path(self) -> Path:
        """Its store path."""
        return Path(f"/nix/store/{self.hash}-rewind-run-{self.name}")


@attrs.frozen
class Process:
    """A process of this machine, at any time."""

    pid: int
    started: str
    """In clock ticks since boot: with the pid it is never used again."""
    command: str

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return _started(self.pid) == self.started


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


def _fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _started(pid: int) -> str | None:
    fields = _fields(pid)
    return None if fields is None or fields[0] == "Z" else fields[19]


def descendants(pid: int) -> list[Process]:
    """The processes that *pid* has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        for child in children.get(todo.pop(), ()):
            todo.append(child)
            started = _started(child)
            try:
                command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if started is not None:
                found.append(Process(child, started, command))
    return found


_FLAKE = """{
  inputs.nixpkgs.url = "path:%(nixpkgs)s";
  inputs.rewind = {
    url = "path:%(rewind)s";
    inputs.nixpkgs.follows = "nixpkgs";
  };

  outputs =
    { nixpkgs, rewind, ... }:
    let
      jobs = import ./jobs.nix {
        pkgs = nixpkgs.legacyPackages.x86_64-linux;
        mark = "%(mark)s";
      };
    in
    {
      packages.x86_64-linux = jobs;
      checks.x86_64-linux = {
        bare = rewind.lib.x86_64-linux.check { drv = jobs.bare; };
        lines = rewind.lib.x86_64-linux.check { drv = jobs.lines; };
        failsAlways = rewind.lib.x86_64-linux.check {
          drv = jobs.failsAlways;
          schedules = 4;
        };
      };
      runs = builtins.mapAttrs (_: drv: rewind.lib.x86_64-linux.run { inherit drv; }) jobs // {
        bank = rewind.lib.x86_64-linux.run { drv = rewind.packages.x86_64-linux.bank; };
      };
      # For each way to reach builders one that nobody has made, with a shard for each of two.
      searches = builtins.mapAttrs (
        _: schedules:
        builtins.mapAttrs (
          _: shards:
          rewind.lib.x86_64-linux.search {
            inherit schedules shards;
            drv = jobs.lines;
            all = true;
          }
        ) { one = 1; two = 2; }
      ) { local = 9; ssh = 8; ssh-ng = 7; };
      text = "no derivation";
    };
}
"""


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    """The commands, a flake of jobs, and a directory for all of it."""
    # Not under /tmp as the environment has it: a test may give TMPDIR another meaning.
    with tempfile.TemporaryDirectory(prefix="rewind-e2e-") as directory:
        made = Session(
            checkout=Path.cwd(),
            directory=Path(directory).resolve(),
            mark=secrets.token_hex(4),
            rewind_program=Path(os.environ["REWIND"]),
            nixpkgs=Path(os.environ["REWIND_NIXPKGS"]),
        )
        made.temporary.mkdir()
        made.jobs.mkdir()
        metadata = json.loads(made.nix("flake", "metadata", "--json", str(made.checkout)))
        (made.jobs / "flake.nix").write_text(
            _FLAKE % {"nixpkgs": made.nixpkgs, "rewind": metadata["path"], "mark": made.mark}
        )
        shutil.copy(Path(__file__).parent / "jobs.nix", made.jobs)
        shutil.copytree(Path(__file__).parent / "programs", made.jobs / "programs")
        yield made


@pytest.fixture(scope="session")
def bank(session: Session) -> Recorded:
    """A recording of bank that was not there before: of this session's seed."""
    session.nix("build", "--no-link", f"{session.checkout}#bank^*")
    return session.recorded(f"{session.checkout}#bank", "--seed", session.mark)


@pytest.fixture(scope="session")
def hello(session: Session) -> Recorded:
    """A recording of the job hello."""
    return session.recorded(session.job("hello"))
