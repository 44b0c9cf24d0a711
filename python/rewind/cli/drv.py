"""Derivations, as their .drv files say, and which of them cannot be run in the machine."""

import json
from pathlib import Path
from typing import Any

import attrs
from pynixutil import drvparse

from rewind.cli import nix
from rewind.cli.errors import Failure

SYSTEM = "x86_64-linux"
"""What the machine is."""

# Features that the machine does not have. Others (big-parallel, benchmark) say how much a build
# takes, not what it needs. lib/job.nix has the same list, for flakes.
_MISSING_FEATURES = frozenset({"kvm", "nixos-test", "recursive-nix", "uid-range"})


@attrs.frozen(kw_only=True)
class Derivation:
    """What a .drv file says; all strings as they stand there."""

    path: Path
    system: str
    builder: str
    args: list[str]
    env: dict[str, str]
    outputs: dict[str, str]
    """Output to path; "" for one that is not known before it is built."""
    fixed: bool
    """Whether the hash of its output is given."""
    input_drvs: dict[str, list[str]]
    input_srcs: list[str]

    @property
    def name(self) -> str:
        """The derivation's name, as in its store path."""
        return self.path.name.partition("-")[2].removesuffix(".drv")

    @property
    def structured_attrs(self) -> str | None:
        """Its structured attributes, as JSON text."""
        return self.env.get("__json")

    @property
    def made(self) -> dict[str, str]:
        """The outputs that its job makes, as `outputs`: a command in a root has none."""
        return {} if "rewindRoot" in self.attributes else self.outputs

    @property
    def attributes(self) -> dict[str, Any]:
        """Its attributes: the structured ones, or the environment."""
        text = self.structured_attrs
        if text is None:
            return dict(self.env)
        value = json.loads(text)
        return value if isinstance(value, dict) else {}


def _output_names(parsed: Any) -> list[str]:
    """The outputs in the order that the derivation gives them; the file has them sorted."""
    try:
        given = json.loads(parsed.env["__json"])["outputs"]
    except (KeyError, ValueError):
        given = parsed.env.get("outputs", "").split()
    return given if sorted(given) == sorted(parsed.outputs) else list(parsed.outputs)


def read(path: Path) -> Derivation:
    """Read the file *path*.

    :raises Failure: if it cannot be read, or is no derivation.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Failure(f"{path}: there is no such derivation in the store") from None
    except UnicodeDecodeError:
        raise Failure(f"{path} is no derivation, or has strings that are not UTF-8") from None
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    if text.startswith("DrvWithVersion("):
        raise Failure(f"{path} has dynamic inputs, which is not supported")
    if not text.startswith("Derive("):
        raise Failure(f"{path} is no derivation")
    try:
        parsed = drvparse(text)
        return Derivation(
            path=path,
            system=parsed.system,
            builder=parsed.builder,
            args=parsed.args,
            env=parsed.env,
            outputs={name: parsed.outputs[name].path for name in _output_names(parsed)},
            fixed=any(output.hash for output in parsed.outputs.values()),
            input_drvs=parsed.input_drvs,
            input_srcs=parsed.input_srcs,
        )
    # It reads the file as a Python expression, and whatever is wrong with that is raised.
    except Exception as error:
        raise Failure(f"{path} is a damaged derivation: {error}") from None


def resolve(installable: str) -> Derivation:
    """The derivation that a user means by the path of a .drv, or an installable.

    :raises Failure: if there is none.
    """
    base = installable.partition("^")[0]
    if base.endswith(".drv") and "#" not in base:
        path = Path(base).resolve()
        if path.parent != nix.STORE:
            raise Failure(f"{base} is not in the store {nix.STORE}")
        return read(path)
    path = Path(installable)
    if path.exists() and path.resolve().is_relative_to(nix.STORE) and path.resolve() != nix.STORE:
        try:
            return read(nix.derivation(str(path.resolve())))
        except Failure:
            raise Failure(
                f"{installable} is no derivation, and the store does not know what made it"
            ) from None
    return read(nix.derivation(installable))


def check(drv: Derivation) -> None:
    """Refuse what cannot be run in the machine.

    :raises Failure: with the reason.
    """
    attributes = drv.attributes
    features = attributes.get("requiredSystemFeatures", "")
    names = features.split() if isinstance(features, str) else features
    missing = sorted(_MISSING_FEATURES.intersection(names if isinstance(names, list) else ()))
    if attributes.get("__impure") in (True, "1"):
        why = "is impure: what it makes may be another thing every time"
    elif drv.fixed:
        why = "is a fixed-output derivation: it may use the network, and the machine has none"
    elif not all(drv.outputs.values()):
        why = "is content-addressed, or made from what is: its outputs have no paths yet"
    elif drv.builder.startswith("builtin:"):
        why = f"is built by Nix itself ({drv.builder}): there is no program to run"
    elif drv.system != SYSTEM:
        why = f"is for {drv.system}: the machine is {SYSTEM}"
    elif attributes.get("__noChroot") in (True, "1"):
        why = "has __noChroot: it is to be built outside the sandbox, and the machine is one"
    elif missing:
        why = f"needs the system feature {missing[0]}, which the machine does not have"
    else:
        return
    raise Failure(f"{drv.name} {why}")
