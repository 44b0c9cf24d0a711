"""Runs made by the recorder alone, without Nix around it."""

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from bench import store
from bench.cost import CommandError, Cost, output, run

_SAMPLE = 0.01
"""Seconds between two looks at how much memory is in use."""


@attrs.frozen(order=True)
class Memory:
    """Bytes of the host's memory: *own*, and of *files* mapped, which the host can drop."""

    own: int = 0
    files: int = 0

    @classmethod
    def of(cls, pid: int) -> "Memory":
        """What the process *pid* and its children have in use.

        Of the guest's memory all that is there counts, whether a process has it mapped or not.
        """
        own = files = 0
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for process in (str(pid), *children):
                fields = dict(
                    line.split(":")
                    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
                )
                own += int(fields["Pss_Anon"].split()[0]) << 10
                files += int(fields["Pss_File"].split()[0]) << 10
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                if "memfd:rewind-memory" in str(entry.readlink()):
                    own += entry.stat().st_blocks * 512
                    break
        except (FileNotFoundError, ProcessLookupError, KeyError):
            # One has just ended.
            return cls()
        return cls(own, files)


@attrs.frozen
class Run:
    """A run of jobs.nix, which has been built, and with it all that it needs."""

    drv: Path
    out: Path
    nars: Path
    attributes: dict[str, Any]

    @classmethod
    def build(cls, name: str) -> "Run":
        """Build the run of the job *name*."""
        (nars, out) = sorted(
            store.build(*store.jobs(f"runs.{name}^*")), key=lambda p: not p.name.endswith("-nars")
        )
        drv = store.drv_path(store.jobs(f"runs.{name}"))
        return cls(drv, out, nars, store.attributes(drv))

    @property
    def recorder(self) -> Path:
        """The recorder's store path."""
        return Path(store.derivation(self.drv)["builder"]).parents[1]

    @property
    def layers(self) -> list[Path]:
        """Its layers."""
        return [Path(layer) for layer in self.attributes["layers"]]

    @contextmanager
    def request(self) -> Iterator[tuple[Path, dict[str, str]]]:
        """A directory for a run like this one, and the environment that asks for it."""
        with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
            scratch = Path(directory)
            outputs = {name: str(scratch / name) for name in ("out", "nars")}
            file = scratch / "attributes.json"
            file.write_text(json.dumps({**self.attributes, "outputs": outputs}))
            yield scratch, {"NIX_ATTRS_JSON_FILE": str(file), "TMPDIR": directory}

    def record(self) -> Cost:
        """What it costs to make the run again."""
        with self.request() as (_, env):
            return run([self.recorder / "bin" / "rewind-recorder", "record"], env=env)

    def _harness(self, mode: str) -> tuple[Cost, bytes]:
        recorder = self.recorder
        script = recorder / "bin" / "rewind-recorder"
        python = script.read_text().splitlines()[0].removeprefix("#!").split()
        with self.request() as (_, env):
            file = env.pop("NIX_ATTRS_JSON_FILE")
            return output(
                [*python, store.HERE / "harness.py", recorder / "lib", mode, file], env=env
            )

    def silent(self) -> Cost:
        """What the same machine costs if its device writes no trace."""
        return self._harness("silent")[0]

    def first_record(self) -> tuple[float, float]:
        """How long it takes to the job's first record: from the start of QEMU, and of Python."""
        cost, said = self._harness("first")
        return float(said), cost.wall

    def memory(self) -> tuple[Memory, str]:
        """What recorder and QEMU had in use when it was most, and the job's log."""
        with self.request() as (scratch, env), (scratch / "errors").open("wb") as errors:
            process = subprocess.Popen(
                [self.recorder / "bin" / "rewind-recorder", "record"],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
            over = threading.Event()
            peak = Memory()

            def sample() -> None:
                nonlocal peak
                while not over.wait(_SAMPLE):
                    peak = max(peak, Memory.of(process.pid))

            sampler = threading.Thread(target=sample)
            sampler.start()
            status = process.wait()
            over.set()
            sampler.join()
            if status:
                said = (scratch / "errors").read_text(errors="replace")
                raise CommandError(f"the recorder ended with status {status}\n{said}")
            return peak, (scratch / "out" / "log").read_text()
