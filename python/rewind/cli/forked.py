"""A fork of a run in which a shell runs, and what that shell has besides."""

import contextlib
import io
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from rewind.cli import recording
from rewind.cli import relay as relays
from rewind.cli.errors import Failure
from rewind.cli.nix import BuildFailure
from rewind.cli.output import warn
from rewind.cli.progress import watch
from rewind.cli.relay import Relay
from rewind.cli.runs import Run
from rewind.cli.stopped import timeline_of
from rewind.formats.job import parameter
from rewind.formats.schedule import Position
from rewind.machine import qemu

_OUTPUT_CHANNEL, _ERROR_CHANNEL, _RESULT_CHANNEL = 3, 4, 5
_CHANNELS = 64

_EXTRAS = """
let
  layer = rewind.extras (map builtins.storePath given);
in
{
  drv = layer.drvPath;
  out = layer.outPath;
}
"""


@attrs.frozen
class Extras:
    """What a shell has besides what the job has."""

    layer: Path | None = None
    """An image with all of it, if there is any."""
    directories: tuple[Path, ...] = ()
    """Where its programs are."""

    @property
    def shell(self) -> Path | None:
        """A bash that is among it."""
        found = (directory / "bash" for directory in self.directories)
        return next((path for path in found if os.access(path, os.X_OK)), None)


def build_extras(installables: Sequence[str], scratch: Path) -> Extras:
    """Build *installables*, and the layer with their closure; links in *scratch* keep both.

    :raises Failure: if something does not build.
    """
    if not installables:
        return Extras()
    paths: list[Path] = []
    for number, installable in enumerate(installables):
        link = scratch / f"with-{number}"
        if not installable.strip() or installable.startswith("-"):
            raise Failure(f"--with {installable!r} is nothing that nix builds")
        try:
            watch(Path(installable), installable, "--out-link", str(link))
        except BuildFailure as error:
            # Of what was not even evaluated there is no more to say than the sentence.
            log = error.log if "builder for" in error.log else ""
            raise Failure(f"--with {installable}: {error}", log) from None
        # One more for each further output, named after it.
        links = sorted(scratch.glob(f"{link.name}*"))
        if not links:
            raise Failure(f"--with {installable} is nothing that nix builds")
        paths += [one.resolve() for one in links]
    made = recording.evaluate(_EXTRAS, [str(path) for path in paths])
    try:
        watch(Path(made["drv"]), f"{made['drv']}^out", "--out-link", str(scratch / "layer"))
    except BuildFailure as error:
        reason = recording.why(error, Path(made["drv"]), "its image could not be made")
        raise Failure(f"--with {' --with '.join(installables)}: {reason}", error.log) from None
    directories = (path / "bin" for path in paths)
    return Extras(Path(made["out"]), tuple(path for path in directories if path.is_dir()))


@attrs.frozen(kw_only=True)
class Shell:
    """What is to run in the fork."""

    pid: int
    """Whose view it has."""
    command: tuple[str, ...] = ()
    """What runs; nothing: a shell."""
    script: str | None = None
    """What the shell is told, for its -c."""
    going: bool = False
    """Whether the job goes on, and is not stopped."""
    extras: Extras

    def parameters(self, *, layer: int, window: tuple[int, int] | None, term: str) -> bytes:
        """What init is told (docs/design.md).

        :param layer: the number of the window that the extras are in.
        :param window: rows and columns of the user's terminal, if there is one.
        """
        values: list[tuple[str, str | bytes]] = [("pid", str(self.pid))]
        if self.extras.layer is not None:
            values.append(("layer", str(layer)))
        if window is not None:
            values += [("rows", str(window[0])), ("columns", str(window[1]))]
            values.append(("env", f"TERM={term}"))
        if self.going:
            values.append(("going", "1"))
        values += [("path", bytes(path)) for path in self.extras.directories]
        if self.extras.shell is not None:
            values.append(("shell", bytes(self.extras.shell)))
        if self.script is not None:
            values.append(("script", os.fsencode(self.script)))
        values += [("arg", os.fsencode(word)) for word in self.command]
        return b"".join(parameter(key, value) for key, value in values)


def run_shell(run: Run, position: Position, shell: Shell) -> int:
    """Run *shell* in a fork of *run* at *position*; its exit status, 128 and more for a signal.

    It has the user's terminal if stdin and stdout are one, or else three pipes.

    :raises Failure: if there can be none.
    """
    terminal = os.isatty(0) and os.isatty(1)
    with contextlib.ExitStack() as stack:
        try:
            machine, relay = stack.enter_context(_machine(run, position, shell, terminal))
        except Failure as error:
            # The device has no such property.
            if "rewind.input' not found" in str(error):
                raise Failure(
                    f"{run.short} was made by a rewind whose machines have no shell: record it anew"
                ) from None
            raise
        try:
            if terminal:
                stack.enter_context(relays.raw(0))
            said = relay.run().decode(errors="replace").strip()
        except relays.Left:
            said = "left"
        if not said:
            machine.process.wait()
            raise machine.failure("the machine ended, and the shell with it")
    kind, _, rest = said.partition(" ")
    match kind:
        case "exited":
            return int(rest)
        case "signaled":
            if shell.going and int(rest) == signal.SIGKILL:
                warn("the shell was killed, as all is that is there when the job's builder ends")
            return 128 + int(rest)
        case "left":
            return 0
        case _:
            raise Failure(rest)


@contextlib.contextmanager
def _machine(
    run: Run, position: Position, shell: Shell, terminal: bool
) -> Iterator[tuple[qemu.Qemu, Relay]]:
    """Start the fork, and what goes between it and the user."""
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rewind-")))
        request, timeline = stack.enter_context(timeline_of(run))
        layers = list(request.layers)
        if shell.extras.layer is not None:
            if len(layers) == qemu.LAYERS_MAX:
                raise Failure("the job has as many layers as there can be: no room for --with")
            layers.append(shell.extras.layer)
        (scratch / "parameters").write_bytes(
            shell.parameters(
                layer=len(layers) - 1,
                window=relays.window(0) if terminal else None,
                term=os.environ.get("TERM") or "dumb",
            )
        )
        input_reader, input_writer = _pipe(stack)
        pipes = {
            channel: _pipe(stack) for channel in (_OUTPUT_CHANNEL, _ERROR_CHANNEL, _RESULT_CHANNEL)
        }
        theirs = [input_reader, *(writer for _, writer in pipes.values())]
        channels = scratch / "channels"
        channels.mkdir()
        for channel, (_, writer) in pipes.items():
            (channels / str(channel)).symlink_to(f"/proc/self/fd/{writer.fileno()}")
        for channel in {*range(_CHANNELS)} - {*pipes}:
            # What the job itself says is lost: it is in the run.
            (channels / str(channel)).symlink_to(os.devnull)
        machine = stack.enter_context(
            timeline.fork(
                timeline.time(position),
                device={
                    "channels": channels,
                    "parameters": scratch / "parameters",
                    "input": f"/proc/self/fd/{input_reader.fileno()}",
                    **{f"layer{number}": layer for number, layer in enumerate(layers)},
                },
                pass_fds=[end.fileno() for end in theirs],
            )
        )
        # From here on they are QEMU's alone: what comes ends with it.
        for end in theirs:
            end.close()
        output, errors, result = (reader.fileno() for reader, _ in pipes.values())
        yield machine, Relay(input_writer.fileno(), 0, {output: 1, errors: 2}, result, terminal)


def _pipe(stack: contextlib.ExitStack) -> tuple[io.FileIO, io.FileIO]:
    """A pipe's reading and writing end, which are closed with *stack* at the latest."""
    reader, writer = os.pipe()
    return stack.enter_context(io.FileIO(reader)), stack.enter_context(io.FileIO(writer, "w"))
