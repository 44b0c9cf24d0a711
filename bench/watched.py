"""A replay that is watched, to see what it costs; for a Python that has what rewind.inspect needs.

``watched.py PLUGIN VMLINUX ATTRIBUTES MODE [JSON]``: the run that the structured attributes in the
file ATTRIBUTES describe goes from its boot to its end. ``find`` prints what the other modes are
told: a process, and addresses of its instructions and of what it has accessed.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, "python")

from rewind.inspect.answers import KernelPlaces
from rewind.inspect.kernel import Kernel
from rewind.machine.settings import Settings
from rewind.machine.snapshot import resume
from rewind.recorder.request import RunRequest, attributes
from rewind.recorder.start import properties
from rewind.replay.watch import HITS_MAX, Access, Watch, Watcher

EVERYTHING = Access(0, 1 << 40, reads=True)


def wanted(mode: str, told: dict[str, Any]) -> Watch:
    """What is watched for."""
    match mode:
        case "find":
            return Watch(physical=(EVERYTHING,), stop=False, keep=HITS_MAX)
        case "idle":
            return Watch(stop=False)
        case "breakpoints":
            addresses = frozenset(told["breakpoints"])
            return Watch(process=told["process"], breakpoints=addresses, stop=False)
        case "steps":
            return Watch(process=told["process"], leaving=(0, 0), stop=False)
        case "accesses":
            accesses = tuple(Access(address, 8) for address in told["accesses"])
            return Watch(process=told["process"], accesses=accesses, stop=False)
        case "physical":
            return Watch(physical=(Access(0x1234560, 8),), stop=False)
        case _:
            raise ValueError(mode)


def find(watcher: Watcher) -> dict[str, Any]:
    """The process that did most of the last that programs did."""
    hits = [hit for hit in watcher.hits() if not hit.kernel]
    processes = [hit.pid for hit in hits]
    process = max(set(processes), key=processes.count)
    own = [hit for hit in hits if hit.pid == process]
    return {
        "process": process,
        "breakpoints": sorted({hit.pc for hit in own})[::50],
        "accesses": sorted({hit.address for hit in own})[::50][:4],
    }


def main() -> None:
    """Do what the command line says."""
    plugin, vmlinux, path, mode, *rest = sys.argv[1:]
    told = json.loads(rest[0]) if rest else {}
    request = RunRequest.parse(attributes(Path(path)))
    assert request.snapshot is not None
    places: KernelPlaces = Kernel(Path(vmlinux)).places()
    with (
        tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory,
        Watcher(Path(plugin), places) as watcher,
    ):
        scratch = Path(directory)
        arguments: tuple[str, ...] = ()
        if mode != "plain":
            watcher.set(wanted(mode, told))
            arguments = watcher.arguments
        with resume(
            Settings.load(request.settings),
            memory=request.memory,
            state=request.snapshot.state(),
            fill=request.snapshot.fill,
            scratch=scratch,
            device=properties(request, scratch, ""),
            arguments=arguments,
            pass_fds=watcher.pass_fds,
        ) as (machine, _):
            machine.process.wait()
        if mode == "find":
            print(json.dumps(find(watcher)))


if __name__ == "__main__":
    main()
