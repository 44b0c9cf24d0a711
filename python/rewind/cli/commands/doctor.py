"""``rewind doctor``: what works here, and the mend for what does not."""

import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import attrs
import click

from rewind.cli import drv, nix, params, recording
from rewind.cli.caches import Caches
from rewind.cli.errors import Failure
from rewind.cli.output import console, say_json

OLDEST_NIX = (2, 18)
_GIB = 1 << 30
_STORE_SPACE = 5 * _GIB
_OVERHEAD = 200 << 20
"""What a run needs of the host's memory besides the guest's."""

State = Literal["ok", "warn", "fail"]


@attrs.frozen
class Finding:
    """What was found of one thing; *mend* says what to do unless *state* is "ok"."""

    state: State
    what: str
    mend: str = ""


def check_nix() -> Finding:
    """Whether there is a Nix that will do."""
    found = nix.version()
    path = shutil.which("nix")
    what = f"nix {'.'.join(map(str, found))} ({path})"
    if found < OLDEST_NIX:
        oldest = ".".join(map(str, OLDEST_NIX))
        return Finding("fail", what, f"install nix {oldest} or later, or use ./nixw")
    return Finding("ok", what)


def check_flakes() -> Finding:
    """Whether flakes work without flags."""
    if not nix.has_flakes():
        return Finding(
            "warn",
            "flakes are off in nix.conf; rewind itself turns them on",
            "experimental-features = nix-command flakes",
        )
    return Finding("ok", "flakes")


def check_sandbox(config: dict[str, Any]) -> Finding:
    """Whether builds are isolated: a run must not depend on what this machine has."""
    if config.get("sandbox") is not True:
        return Finding("fail", "builds are not sandboxed", "sandbox = true in nix.conf")
    if config.get("sandbox-fallback"):
        return Finding(
            "warn",
            "builds go on without a sandbox if there can be none",
            "sandbox-fallback = false in nix.conf",
        )
    return Finding("ok", "sandbox")


def check_system(config: dict[str, Any]) -> Finding:
    """Whether the machine's emulator can be run here, or by a remote builder."""
    here = [config.get("system"), *(config.get("extra-platforms") or ())]
    builders = config.get("builders")
    if drv.SYSTEM in here and config.get("max-jobs") != 0:
        return Finding("ok", f"{drv.SYSTEM} on {platform.machine()}")
    if builders:
        return Finding("ok", "builds are remote; one of the builders must be x86_64-linux")
    return Finding(
        "fail",
        f"nothing builds for {drv.SYSTEM} here",
        f"max-jobs = auto, or a remote builder for {drv.SYSTEM}",
    )


def check_memory() -> Finding:
    """Whether the guest's memory fits into what is free."""
    guest = (recording.defaults().memory or 0) << 20
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    found = re.search(r"MemAvailable:\s+(\d+) kB", text)
    free = int(found[1]) << 10 if found else 0
    what = f"{free / _GIB:.1f} GiB of memory free, a run can take {(guest + _OVERHEAD) / _GIB:.1f}"
    if free < guest + _OVERHEAD:
        return Finding("warn", what, "--memory gives the guest less; or end other programs")
    return Finding("ok", what)


def check_space() -> Finding:
    """Whether there is room in the store."""
    free = shutil.disk_usage(nix.STORE).free
    what = f"{free / _GIB:.1f} GiB free in {nix.STORE}"
    if free < _STORE_SPACE:
        return Finding("warn", what, "nix store gc removes what nothing needs any more")
    return Finding("ok", what)


def check_package() -> Finding:
    """Whether this program knows the machine's source."""
    mend = "start rewind as the package that the flake makes"
    try:
        source = recording.source()
        recording.defaults()
    except Failure as error:
        return Finding("fail", str(error), mend)
    return Finding("ok", f"rewind's source, {source}")


def check_caches(config: dict[str, Any]) -> Iterator[Finding]:
    """Whether the binary caches answer."""
    caches = Caches.from_config(config)
    if not caches.urls:
        yield Finding("ok", "no binary caches: everything is built here")
    for url, problem in caches.ping().items():
        if problem is None:
            yield Finding("ok", url)
        else:
            mend = f"take it out of substituters in nix.conf, or see why {url} does not answer"
            yield Finding("warn", f"{url}: {problem}", mend)


def findings() -> Iterator[Finding]:
    """All that there is to say, in order."""
    try:
        yield check_nix()
    except nix.Missing as error:
        yield Finding("fail", str(error), "install nix, or use ./nixw")
        return
    except Failure as error:
        yield _broken(error)
    try:
        config = nix.config()
    except Failure as error:
        yield Finding("fail", str(error), "nix must be able to tell its settings")
        return
    yield from _guarded(check_flakes)
    yield check_sandbox(config)
    yield check_system(config)
    package = check_package()
    yield package
    if package.state == "ok":
        yield from _guarded(check_memory)
    yield from _guarded(check_space)
    yield from check_caches(config)


def _guarded(check: Callable[[], Finding]) -> Iterator[Finding]:
    try:
        yield check()
    except Failure as error:
        yield _broken(error)


def _broken(error: Failure) -> Finding:
    return Finding("fail", str(error), "nix itself does not work: see its manual")


@click.command("doctor")
@params.json_option
def command(as_json: bool) -> int:
    """What works here, and the mend for what does not.

    The exit status is 1 if something is needed that does not work.
    """
    found = []
    out = console(sys.stdout)
    styles = {"ok": "green", "warn": "yellow", "fail": "red"}
    for finding in findings():
        found.append(finding)
        if not as_json:
            out.print(f"{finding.state:<5}", style=styles[finding.state], end="")
            out.print(finding.what)
            if finding.mend:
                out.print(f"     mend: {finding.mend}")
    if as_json:
        say_json([attrs.asdict(finding) for finding in found])
    return int(any(finding.state == "fail" for finding in found))
