"""A run's machine, made again and stopped at a position, and what looks into it."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs

from rewind.cli import drv as drvs
from rewind.cli import imported, nix, places
from rewind.cli.drv import Derivation
from rewind.cli.errors import Failure
from rewind.cli.nix import NixFailure
from rewind.cli.output import warn
from rewind.cli.runs import Run
from rewind.formats.schedule import Position
from rewind.formats.trace import TraceReader
from rewind.inspect import InspectError
from rewind.inspect.worker import Inspector
from rewind.machine import MachineError
from rewind.machine.settings import Settings
from rewind.recorder.request import RequestError, RunRequest
from rewind.replay.cache import LIMIT, Cache
from rewind.replay.races import Analyser
from rewind.replay.timeline import Replayed, Timeline
from rewind.replay.watch import Watcher


class _Kernel:
    """The kernel with its debug information: *find* finds it, and *load* is told, meanwhile."""

    def __init__(self, find: Callable[[], Path], load: Callable[[Path], None]) -> None:
        self._find = find
        self._load = load
        self._path: Path | None = None
        self._error: BaseException | None = None
        # Nobody waits for it who has been interrupted.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._path = self._find()
            self._load(self._path)
        except BaseException as error:
            self._error = error

    def wait(self) -> Path:
        """Its path, when the worker has been told; it raises what finding it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._path is not None
        return self._path


@attrs.frozen
class Opened:
    """A run that can be looked into."""

    request: RunRequest
    timeline: Timeline
    _inspector: Inspector
    _kernel: _Kernel

    @property
    def vmlinux(self) -> Path:
        """The machine's kernel, with its debug information."""
        return self._kernel.wait()

    @property
    def inspector(self) -> Inspector:
        """What looks into machines; it knows the kernel."""
        self._kernel.wait()
        return self._inspector

    def watcher(self) -> Watcher:
        """A plugin for a machine of it.

        :raises Failure: if there is none.
        """
        return Watcher(_plugin("REWIND_PLUGIN"), self.inspector.places())

    def analyser(self) -> Analyser:
        """A plugin for a machine of it, that looks at what its threads access.

        :raises Failure: if there is none.
        """
        inspector = self.inspector
        return Analyser(_plugin("REWIND_RACES_PLUGIN"), inspector.places(), inspector.sync_places())

    @contextlib.contextmanager
    def machine(
        self, position: Position, *, debug_directories: Sequence[Path] = ()
    ) -> Iterator[Replayed]:
        """The machine stopped at *position*, which `check_position` has seen.

        The inspector looks at it.
        """
        with self.timeline.machine(self.timeline.time(position)) as machine:
            self.look_at(machine, debug_directories)
            yield machine

    def look_at(self, machine: Replayed, debug_directories: Sequence[Path] = ()) -> None:
        """Have the inspector look at *machine*, which is stopped."""
        self.inspector.look_at(
            machine.memory,
            machine.registers(),
            layers=self.request.layers,
            debug_directories=debug_directories,
        )


def _plugin(variable: str) -> Path:
    """The plugin that *variable* of the environment tells of."""
    plugin = os.environ.get(variable)
    if not plugin:
        raise Failure(f"{variable} does not say where the plugin is that watches a machine")
    return Path(plugin)


@contextlib.contextmanager
def opened(run: Run) -> Iterator[Opened]:
    """*run*, with all that it takes to make its machine again and to look into it.

    :raises Failure: if that can't be done, also for what is done in the ``with``.
    """
    # The inspector takes the longest to be ready.
    with _failures(), Inspector() as inspector:
        request = _request(drvs.read(derivation_of(run)))
        # Nix is asked for it while the machine starts.
        kernel = _Kernel(lambda: vmlinux_of(request.settings), inspector.load)
        with _timeline(run, request) as timeline:
            yield Opened(request, timeline, inspector, kernel)


@contextlib.contextmanager
def timeline_of(run: Run) -> Iterator[tuple[RunRequest, Timeline]]:
    """What the recorder was told of *run*, and its machines; nothing looks into them.

    :raises Failure: if that can't be done, also for what is done in the ``with``.
    """
    with _failures():
        request = _request(drvs.read(derivation_of(run)))
        with _timeline(run, request) as timeline:
            yield request, timeline


@contextlib.contextmanager
def _timeline(run: Run, request: RunRequest) -> Iterator[Timeline]:
    cache = Cache(places.keyframes(), places.keyframes_size(LIMIT), warn)
    request = attrs.evolve(request, schedule=run.manifest().steps_perturbed)
    with TraceReader(run.trace) as reader, Timeline.of(request, reader, cache) as timeline:
        yield timeline


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Have what goes wrong in the ``with`` become a `Failure`."""
    try:
        yield
    except (MachineError, RequestError, InspectError) as error:
        raise Failure(str(error)) from None
    except BrokenPipeError:
        # Who reads our answer has gone.
        raise
    except OSError as error:
        raise Failure(f"the machine can't be made again: {error.strerror}") from None


@contextlib.contextmanager
def stopped(
    run: Run, position: Position, *, debug_directories: Sequence[Path] = ()
) -> Iterator[Inspector]:
    """The machine of *run*, stopped at *position*, which `check_position` has seen.

    :raises Failure: if it can't be made or looked into.
    """
    with (
        opened(run) as around,
        around.machine(position, debug_directories=debug_directories),
    ):
        yield around.inspector


def derivation_of(run: Run) -> Path:
    """What makes *run*: mostly it is there.

    :raises Failure: if it can't be had.
    """
    if run.imported:
        return imported.derivation(run)
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
    missing = [path.name for path in paths if not path.exists()]
    if missing:
        try:
            nix.run("nix-store", "--realise", *_inputs(drv))
        except NixFailure as error:
            raise Failure(
                f"this store lacks what the run was made with, {', '.join(missing)}: {error}; where"
                " the run was made, nix copy its attribute needs to a cache"
            ) from None
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


def vmlinux_of(machine: Path) -> Path:
    """vmlinux with the DWARF of the kernel of the machine with the settings in the file *machine*.

    It is in the output `dev` of the kernel's derivation.

    :raises Failure: if it can't be had.
    """
    settings = Settings.load(machine)
    kernel = nix.STORE / settings.kernel.relative_to(nix.STORE).parts[0]
    drv = nix.deriver(kernel)
    if drv is None:
        raise Failure(f"the store does not know what made the kernel {kernel}")
    output = Path(drvs.read(drv).outputs["dev"])
    if not output.exists():
        nix.run("nix-store", "--realise", f"{drv}!dev")
    return output / "vmlinux"
