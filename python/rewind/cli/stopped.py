"""A run's machine, made again and stopped at a position, and what looks into it."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from rewind.cli import drv as drvs
from rewind.cli import nix, places
from rewind.cli.drv import Derivation
from rewind.cli.errors import Failure
from rewind.cli.output import warn
from rewind.cli.runs import Run
from rewind.formats.schedule import Position
from rewind.formats.trace import TraceReader
from rewind.inspect import InspectError
from rewind.inspect.answers import Frame
from rewind.inspect.worker import Inspector
from rewind.machine import MachineError
from rewind.machine.settings import Settings
from rewind.recorder.request import RequestError, RunRequest
from rewind.replay.cache import LIMIT, Cache
from rewind.replay.timeline import Timeline


@contextlib.contextmanager
def stopped(
    run: Run, position: Position, *, debug_directories: Sequence[Path] = ()
) -> Iterator[Inspector]:
    """The machine of *run*, stopped at *position*, which `check_position` has seen.

    :raises Failure: if it can't be made or looked into.
    """
    cache = Cache(places.keyframes(), places.keyframes_size(LIMIT), warn)
    try:
        # It takes the longest to be ready.
        with Inspector() as inspector:
            request = _request(drvs.read(_derivation(run)))
            inspector.load(_vmlinux(Settings.load(request.settings)))
            with (
                TraceReader(run.trace) as reader,
                Timeline.of(request, reader, cache) as timeline,
                timeline.machine(timeline.time(position)) as machine,
            ):
                inspector.look_at(
                    machine.memory,
                    machine.registers(),
                    layers=request.layers,
                    debug_directories=debug_directories,
                )
                yield inspector
    except (MachineError, RequestError, InspectError) as error:
        raise Failure(str(error)) from None
    except OSError as error:
        raise Failure(f"the machine can't be made again: {error.strerror}") from None


def find_debug_outputs(machine: Inspector, frames: Sequence[Frame]) -> bool:
    """Have *machine* use the debug information of packages that *frames* are in and say nothing of.

    It is what nixpkgs' ``separateDebugInfo`` puts into an output of its own, of which those count
    that are in the store; nothing is fetched.

    :return: whether there is any, and the frames can be asked for again.
    """
    modules = {Path(frame.module) for frame in frames if frame.module and frame.line is None}
    packages = {
        nix.STORE / module.relative_to(nix.STORE).parts[0]
        for module in modules
        if module.is_relative_to(nix.STORE) and module != nix.STORE
    }
    if not packages:
        return False
    derivers = {info.deriver for info in nix.path_info(sorted(packages)).values()}
    outputs = {
        drvs.read(deriver).outputs.get("debug")
        for deriver in nix.valid([deriver for deriver in derivers if deriver is not None])
    }
    found = [Path(output) / "lib" / "debug" for output in sorted(filter(None, outputs))]
    found = [directory for directory in found if directory.is_dir()]
    if found:
        machine.add_debug_directories(found)
    return bool(found)


def _derivation(run: Run) -> Path:
    """What makes *run*: mostly it is there."""
    found = nix.deriver(run.path)
    if found is None:
        from rewind.cli.commands.replay import derivation

        found = derivation(run)
    return found


def _request(drv: Derivation) -> RunRequest:
    """What the recorder is told by *drv*, a run's derivation; all that it names is in the store."""
    attributes = dict(drv.attributes)
    needed = [attributes.get(name) for name in ("settings", "snapshot", "job")]
    paths = [Path(str(path)) for path in (*needed, *attributes.get("layers", ()))]
    if not all(path.exists() for path in paths):
        nix.run("nix-store", "--realise", *_inputs(drv))
    # What Nix adds to the attributes when it builds.
    closures = {
        graph: nix.closure([Path(root) for root in roots])
        for graph, roots in attributes.get("exportReferencesGraph", {}).items()
    }
    request = RunRequest.parse({**attributes, **closures, "outputs": drv.outputs})
    if closures and request.job.structured is not None:
        # There it has more of each path, in a form that each version of Nix has for itself.
        raise Failure(
            "this run's job has exportReferencesGraph among structured attributes: its machine"
            " can't be looked into"
        )
    return request


def _inputs(drv: Derivation) -> list[str]:
    return [f"{path}!{','.join(names)}" for path, names in drv.input_drvs.items()]


def _vmlinux(settings: Settings) -> Path:
    """vmlinux with the DWARF of the machine's kernel: the output `dev` of its derivation.

    :raises Failure: if it can't be had.
    """
    kernel = nix.STORE / settings.kernel.relative_to(nix.STORE).parts[0]
    drv = nix.deriver(kernel)
    if drv is None:
        raise Failure(f"the store does not know what made the kernel {kernel}")
    output = Path(drvs.read(drv).outputs["dev"])
    if not output.exists():
        nix.run("nix-store", "--realise", f"{drv}!dev")
    return output / "vmlinux"
