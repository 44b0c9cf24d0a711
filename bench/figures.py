"""What is measured, and the goals."""

import json
import os
import statistics
import tempfile
import uuid
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from bench import debug, look, search, store, travel, watch
from bench.commands import Checkout, copy_tracked
from bench.cost import CommandError, Cost, Costs, by_turns, run, say, several
from bench.recorder import Run
from bench.table import Figure, limited, megabytes, seconds

EVENTS = 500_000


@cache
def _run(name: str) -> Run:
    say(f"building the run of {name}, and what it needs")
    return Run.build(name)


def _spread(costs: Costs) -> str:
    return f" (best {seconds(costs.best)}, CPU {seconds(costs.cpu)})"


def commands(times: int) -> Iterable[Figure]:
    """``rewind nix`` and ``rewind replay`` of bank."""
    with Checkout.copy(keep=_run("bank").layers) as checkout:
        # What is evaluated and built for the first time is not to be measured.
        checkout.record_bank(fresh_layers=False)
        say("rewind nix .#bank")
        costs = by_turns(
            times,
            fresh=lambda: checkout.record_bank(fresh_layers=True),
            edited=lambda: checkout.record_bank(fresh_layers=False),
            replay=checkout.replay,
            start=checkout.start,
        )
    fresh, edited = costs["fresh"], costs["edited"]
    yield limited(
        "`rewind nix .#bank`, nothing of the job cached",
        fresh.wall, 7, seconds(fresh.wall), "7 s", _spread(fresh),
    )  # fmt: skip
    yield limited(
        "`rewind nix .#bank`, only bank.c changed",
        edited.wall, 5, seconds(edited.wall), "5 s", _spread(edited),
    )  # fmt: skip
    replay = costs["replay"]
    yield Figure("`rewind replay @` of bank", f"{seconds(replay.wall)}{_spread(replay)}")
    yield Figure("start of `rewind`", seconds(costs["start"].wall))
    yield _hook(times)


def _hook(times: int) -> Figure:
    """How long Nix waits for the post-build hook, which queues something."""
    program = store.build(".#rewind")[0] / "bin" / "rewind-post-build-hook"
    say("the post-build hook")
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as name:
        settings = Path(name) / "hook.json"
        drv = Path(name) / f"{'a' * 32}-x.drv"
        drv.write_text("Derive()")

        def queue() -> Cost:
            settings.write_text(json.dumps({"all": True, "queue": f"{name}/{uuid.uuid4()}"}))
            environment = {**os.environ, "DRV_PATH": str(drv), "REWIND_HOOK": str(settings)}
            return run([program], env=environment)

        costs = several(times * 3, queue)
    return limited(
        "`rewind-post-build-hook`, until it returns",
        costs.wall, 0.3, seconds(costs.wall), "0.3 s", _spread(costs),
    )  # fmt: skip


def start(times: int) -> Iterable[Figure]:
    """From the boot snapshot to the job's first instruction."""
    bank, nothing = _run("bank"), _run("nothing")
    say("from the boot snapshot to the first record")
    found = [bank.first_record() for _ in range(times * 3)]
    qemu, whole = (statistics.median(column) for column in zip(*found, strict=True))
    yield limited(
        "boot snapshot to the job's first instruction",
        qemu,
        0.1,
        f"{seconds(qemu)} (best {seconds(min(found)[0])})",
        "0.1 s",
    )
    yield Figure("the same with the recorder's own start", seconds(whole))
    costs = several(times, nothing.record)
    yield Figure("recorder: a job that ends at once", f"{seconds(costs.wall)}{_spread(costs)}")


def recording(times: int) -> Iterable[Figure]:
    """What it costs to record, over a machine whose device is silent."""
    for name, what, goal in (
        ("bank", "bank", True),
        ("compile", "a C compiler", True),
        ("files", "nothing but system calls", False),
    ):
        job = _run(name)
        say(f"recording {name}, and not")
        costs = by_turns(2 * times + 1, silent=job.silent, recorded=job.record)
        # Of two that follow one another, whose circumstances are most alike.
        pairs = zip(costs["recorded"].each, costs["silent"].each, strict=True)
        more = statistics.median(recorded.cpu / silent.cpu for recorded, silent in pairs) - 1
        text = f"{more * 100:+.0f} % of CPU time, of {seconds(costs['silent'].cpu)}"
        yield Figure(
            f"recording over a silent device: {what}",
            text,
            "at most 10 %" if goal else "",
            more <= 0.1 if goal else None,
        )


def events(times: int) -> Iterable[Figure]:
    """``rewind events`` of a long trace."""
    files = _run("files")
    with Checkout.copy() as checkout:
        steps = checkout.manifest(files.out)["steps"]
        if steps < EVENTS:
            raise CommandError(f"the run of files has only {steps:,} records")
        say(f"rewind events, {EVENTS:,} of {steps:,} records")
        costs = several(times, lambda: checkout.events(files.out, EVENTS - 1))
    yield limited(
        f"`rewind events` of {EVENTS:,} records",
        costs.wall, 1, seconds(costs.wall), "1 s", _spread(costs),
    )  # fmt: skip


def memory(times: int) -> Iterable[Figure]:
    """The host's memory, beside what the guest has in use."""
    job = _run("memory")
    say("memory")
    peak, log = max((job.memory() for _ in range(min(times, 3))), key=lambda found: found[0])
    fields = {
        line.split()[0]: int(line.split()[1]) << 10 for line in log.splitlines() if ":" in line
    }
    # MemTotal is without the kernel itself and its table of all pages.
    in_use = (job.attributes["memory"] << 20) - fields["MemFree:"]
    yield limited(
        f"host memory over the guest's {megabytes(in_use)} in use",
        peak.own - in_use,
        200e6,
        megabytes(peak.own - in_use),
        "200 MB",
        f", and {megabytes(peak.files)} of files mapped",
    )


def independence(times: int) -> Iterable[Figure]:
    """What a change in python/ makes anew."""
    say("what a change in python/ rebuilds")
    with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
        copy = Path(directory) / "checkout"
        copy_tracked(Path.cwd(), copy)
        attributes = ("kernel", "qemu", "recorder")
        before = [store.drv_path([f"path:{copy}#{name}"]) for name in attributes]
        for name in ("cli/nix.py", "recorder/record.py", "formats/trace.py"):
            with (copy / "python" / "rewind" / name).open("a") as file:
                file.write(f"# {uuid.uuid4()}\n")
        after = [store.drv_path([f"path:{copy}#{name}"]) for name in attributes]
    changed = [name for name, old, new in zip(attributes, before, after, strict=True) if old != new]
    # That the recorder is another shows that the change was seen.
    assert "recorder" in changed
    rebuilt = [name for name in changed if name != "recorder"]
    yield Figure(
        "a change in python/ rebuilds of kernel and QEMU",
        ", ".join(rebuilt) or "neither",
        "neither",
        not rebuilt,
    )


def slowdown(times: int) -> Iterable[Figure]:
    """Programs in the machine and on the host."""
    nothing = _run("nothing")
    workloads = {
        "integers": "a computation with integers",
        "floats": "a computation with doubles",
        "python": "Python",
        "compile": "a C compiler",
        "processes": "short processes",
    }
    for name, what in workloads.items():
        job = _run(name)
        (program,) = store.build(*store.jobs(f"workloads.{name}"))
        say(f"{name} here and there")
        costs = by_turns(times, here=_natively(program), there=job.record, nothing=nothing.record)
        here = costs["here"].best_cpu
        there = costs["there"].best_cpu - costs["nothing"].best_cpu
        yield Figure(
            f"slow-down: {what}", f"{there / here:.0f} times ({seconds(here)} on the host)"
        )


def _natively(program: Path) -> Callable[[], Cost]:
    def measure() -> Cost:
        with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
            return run([program], cwd=Path(directory), env={})

    return measure


def sizes(times: int) -> Iterable[Figure]:
    """What is on the disk, and how long its parts take to make."""
    bank, files = _run("bank"), _run("files")
    (snapshot,) = store.build(*store.jobs("snapshot"))
    yield Figure("boot snapshot", megabytes(_bytes(snapshot)))
    say("layers and boot snapshot, made again")
    for layer in bank.layers:
        name = layer.name.partition("-")[2].removeprefix("rewind-")
        costs = several(min(times, 3), _rebuild(layer))
        yield Figure(
            f"{name} of bank", f"{megabytes(layer.stat().st_size)}, packed in {seconds(costs.wall)}"
        )
    yield from _copied(bank)
    costs = several(min(times, 3), _rebuild(snapshot))
    yield Figure("boot snapshot made (a cold boot)", seconds(costs.wall))
    with Checkout.copy() as checkout:
        for job, what in ((bank, "bank"), (files, "nothing but system calls")):
            steps = checkout.manifest(job.out)["steps"]
            size = (job.out / "trace").stat().st_size
            yield Figure(
                f"trace: {what}",
                f"{steps:,} records, {megabytes(size)}, {size / steps:.1f} bytes each",
            )


def _copied(bank: Run) -> Iterable[Figure]:
    """What `nix copy` puts into a binary cache, compressed as it is by default."""
    (needs,) = store.build(*store.jobs("runs.bank.needs"))
    say("nix copy")
    for path, what in ((bank.out, "reads the run of bank"), (needs, "runs bank again")):
        with tempfile.TemporaryDirectory(prefix="rewind-bench-") as directory:
            store.nix("copy", "--to", f"file://{directory}", path)
            files = [file for file in Path(directory).rglob("*") if file.is_file()]
            size = sum(file.stat().st_size for file in files)
            paths = sum(file.suffix == ".narinfo" for file in files)
        yield Figure(f"what is copied for one who {what}", f"{megabytes(size)}, {paths} paths")


def _rebuild(path: Path) -> Callable[[], Cost]:
    drv = store.drv_path([str(path)])
    return lambda: run(["nix", "build", "--no-link", "--rebuild", f"{drv}^*"])


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir())


PARTS: dict[str, Callable[[int], Iterable[Figure]]] = {
    "commands": commands,
    "start": start,
    "recording": recording,
    "events": events,
    "memory": memory,
    "independence": independence,
    "slowdown": slowdown,
    "sizes": sizes,
    "check": search.measure,
    "look": look.measure,
    "gdb": debug.measure,
    "watch": watch.measure,
    "travel": travel.measure,
}
