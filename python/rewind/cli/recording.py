"""From a job to its run: the derivation that ``rewind.lib.run`` gives in a flake, and its build."""

import json
import os
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from rewind.cli import drv as drvs
from rewind.cli import nix
from rewind.cli.drv import Derivation
from rewind.cli.errors import Failure
from rewind.cli.nix import BuildFailure
from rewind.cli.places import directory, roots
from rewind.cli.progress import watch
from rewind.formats import FormatError, schedule
from rewind.formats.manifest import Manifest
from rewind.formats.schedule import Schedule

# The configuration and overlays of whoever calls must not have a part in a run's name.
_EXPRESSION = """
{ source, nixpkgs, arguments }:
let
  pkgs = import nixpkgs {
    system = "%s";
    config = { };
    overlays = [ ];
  };
  rewind = import (source + "/lib") { inherit pkgs; };
  given = builtins.fromJSON (builtins.readFile arguments);
  summary = run: {
    drv = run.drvPath;
    out = run.out.outPath;
    nars = run.nars.outPath;
  };
in
{
  result = %s;
}
"""


@attrs.frozen(kw_only=True)
class Options:
    """What a run is made with; None is lib/'s default."""

    name: str | None = None
    schedule: Schedule | None = None
    epoch: int | None = None
    seed: str | None = None
    cores: int | None = None
    memory: int | None = None
    """MiB."""
    time_limit: int | None = None
    """Seconds of guest time, 0 for none."""

    @classmethod
    def of(cls, manifest: Manifest) -> "Options":
        """Those that a run was made with."""
        return cls(**{field.name: getattr(manifest, field.name) for field in attrs.fields(cls)})

    def to_nix(self) -> dict[str, Any]:
        """The arguments that ``runFromDrv`` takes, without those that are None."""
        data = attrs.asdict(self, recurse=False)
        if self.schedule is not None:
            data["schedule"] = schedule.to_data(self.schedule)
        data["timeLimit"] = data.pop("time_limit")
        return {name: value for name, value in data.items() if value is not None}


def job_of(manifest: Manifest) -> Derivation:
    """The job of a run.

    :raises Failure: if it is not in the store any more.
    """
    try:
        return drvs.read(Path(manifest.drv))
    except Failure:
        raise Failure(
            f"the job of this run, {manifest.drv}, is not in the store: evaluate it again, or"
            " copy it from where it is"
        ) from None


@attrs.frozen
class Recording:
    """A run's derivation and its two outputs, whether they exist or not."""

    drv: Path
    out: Path
    nars: Path

    @classmethod
    def of(cls, drv: Derivation) -> "Recording":
        """That of a run's derivation.

        :raises Failure: if it is not one's.
        """
        outputs = drv.outputs
        if not (outputs.get("out") and outputs.get("nars")):
            raise Failure(f"{drv.path} makes no run")
        return cls(drv.path, Path(outputs["out"]), Path(outputs["nars"]))


@attrs.frozen
class Request:
    """What a run's derivation says of it: the job's .drv, and what the run is made with."""

    drv: str
    options: Options

    @classmethod
    def read(cls, path: Path) -> "Request":
        """What the derivation *path* says.

        :raises Failure: if it is no run's.
        """
        data = drvs.read(path).attributes
        try:
            options = Options(
                name=data["jobName"],
                schedule=schedule.from_data(data["schedule"]),
                epoch=data["epoch"],
                seed=data["seed"],
                cores=data["cores"],
                memory=data["memory"],
                time_limit=data["timeLimit"],
            )
            return cls(data["drv"], options)
        except (KeyError, FormatError):
            raise Failure(f"{path} makes no run, or one for another version of rewind") from None


def _environment(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise Failure(f"{name} is not set; the package that the flake makes sets it")
    return value


def source() -> Path:
    """Where this rewind's ``lib`` is.

    :raises Failure: if rewind is not started by its package's wrapper.
    """
    return Path(_environment("REWIND_SOURCE"))


def defaults() -> Options:
    """What a run is made with unless it is told otherwise, from lib/defaults.nix."""
    path = source() / "lib" / "defaults.nix"
    data = json.loads(nix.nix("eval", "--json", "--file", str(path)))
    return Options(
        schedule=schedule.from_data(data["schedule"]),
        epoch=data["epoch"],
        seed=data["seed"],
        cores=data["cores"],
        memory=data["memory"],
        time_limit=data["timeLimit"],
    )


def _inputs(job: Derivation) -> dict[str, dict[str, str]]:
    """The outputs that are inputs of *job*, with their paths, by derivation."""
    found: dict[str, dict[str, str]] = {}
    for path, names in job.input_drvs.items():
        outputs = drvs.read(Path(path)).outputs
        found[path] = {name: outputs.get(name, "") for name in names}
        if not all(found[path].values()):
            raise Failure(f"{job.name} is made from {path}, whose outputs have no paths yet")
    return found


def arguments(job: Derivation) -> dict[str, Any]:
    """What lib's functions are told of *job*, for `runFromDrv` and its like."""
    return {
        "drv": str(job.path),
        "builder": job.builder,
        "args": job.args,
        "env": job.env,
        "outputs": job.outputs,
        "inputDrvs": _inputs(job),
        "inputSrcs": job.input_srcs,
    }


def evaluate(expression: str, data: Any) -> Any:
    """What *expression*, which may use ``rewind`` (lib) and ``given`` (*data*), comes to."""
    with tempfile.NamedTemporaryFile("w", prefix="rewind-", suffix=".json") as file:
        json.dump(data, file)
        file.flush()
        return nix.evaluate(
            _EXPRESSION % (drvs.SYSTEM, expression),
            source=str(source()),
            nixpkgs=_environment("REWIND_NIXPKGS"),
            arguments=file.name,
        )


def instantiate(job: Derivation, options: Options) -> Recording:
    """The derivation of the run of *job*; it is put into the store, and not built."""
    return instantiate_all(job, [options])[0]


def instantiate_all(job: Derivation, options: Sequence[Options]) -> list[Recording]:
    """The derivations of some runs of *job*, as `instantiate` gives each."""
    data = {"job": arguments(job), "runs": [one.to_nix() for one in options]}
    found = evaluate("map (run: summary (rewind.runFromDrv (given.job // run))) given.runs", data)
    return [Recording(Path(run["drv"]), Path(run["out"]), Path(run["nars"])) for run in found]


def record(job: str, made: Recording) -> None:
    """Build the run *made* of *job*, with a link to keep it.

    :raises Failure: if that fails.
    """
    link = directory(roots()) / made.out.name
    try:
        watch(made.drv, f"{made.drv}^*", "--out-link", str(link))
    except BuildFailure as error:
        reason = why(error, made.drv, "the recorder failed")
        raise Failure(f"{job} was not recorded: {reason}", error.log) from None


def why(error: BuildFailure, drv: Path, failed: str) -> str:
    """Why there is no output of *drv*: *failed*, if its own builder is what did."""
    if error.status < 0:
        return f"nix was killed by {signal.Signals(-error.status).name}"
    if f"builder for '{drv}' failed" in error.log:
        return failed
    return "nix could not build what it needs"
