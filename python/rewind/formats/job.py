"""job.json: a derivation as it is to be run, and what Nix's sandbox makes of it.

The file is written by lib/job.nix, one JSON object::

    { "name": "bank-0.1.0", "builder": "/nix/store/…/bash", "args": ["-e", "…"],
      "env": { "NAME": "VALUE", … }, "outputs": [ { "name": "out", "path": "/nix/store/…" } ],
      "structuredAttrs": null, "root": null }

``env`` is the derivation's, as in its .drv. With structured attributes, ``structuredAttrs`` is
the object that the .drv has in ``__json``, and ``env`` does not matter. ``root`` is the directory
that a job starts in whose root directory is the only layer (docs/roots.md): such a job has no
outputs, no structured attributes, and the environment is what comes to a container's. The file has
no version: a run holds a job.json of its own flake's, never an older one.

What a builder is given follows Nix 2.26, whose source (src/libstore, the local derivation goal)
and behaviour it was compared with; tests/data holds what that Nix gave the same derivations.
"""

import ctypes
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

from rewind.formats import FormatError, nixbase32

BUILD = "/build"
"""The directory that a build starts in."""

STORE = "/nix/store"

CONTAINER = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "HOSTNAME": "localhost",
}
"""The environment in a root of the job's own, unless it says otherwise: as containers have it."""

_GRAPH_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_INT_MIN = -(1 << 31)

Closure = Sequence[Mapping[str, Any]]
"""A closure as Nix describes one in .attrs.json: an object with ``path``, ``references`` and
more for each store path."""


@attrs.frozen
class Sandbox:
    """What a builder finds when it starts: its environment, and files in /build by name."""

    env: Mapping[str, str]
    files: Mapping[str, bytes]


@attrs.frozen
class Job:
    """A derivation that is to be run."""

    name: str
    builder: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    outputs: Mapping[str, str]
    """Store paths by name; their order is that of the derivation's ``outputs``."""
    structured: Mapping[str, Any] | None
    root: str | None = None
    """Where it starts, if the layer is its root directory."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what lib/job.nix wrote.

        :raises FormatError: if *text* is no job, or one that cannot be run.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise FormatError(f"the job is damaged: {error}") from None
        if not isinstance(data, dict):
            raise FormatError("the job is damaged: it is no object")
        structured = data.get("structuredAttrs")
        if structured is not None and not isinstance(structured, dict):
            raise FormatError("the job is damaged: structuredAttrs is no object")
        outputs = {}
        for output in _typed(data, "outputs", list):
            if not isinstance(output, dict):
                raise FormatError("the job is damaged: an output is no object")
            outputs[_typed(output, "name", str)] = _typed(output, "path", str)
        root = None if data.get("root") is None else _typed(data, "root", str)
        if root is not None and (outputs or structured is not None or not root.startswith("/")):
            raise FormatError("the job is damaged: it has a root, and what does not go with it")
        if root is None and not outputs:
            raise FormatError("the job is damaged: it has no output")
        env = _typed(data, "env", dict)
        args = _typed(data, "args", list)
        if not all(isinstance(value, str) for value in (*env.values(), *args)):
            raise FormatError("the job is damaged: an argument or a variable is no string")
        builder = _typed(data, "builder", str)
        if root is None and not builder.startswith("/"):
            # builtin:fetchurl and the like, which Nix itself carries out.
            raise FormatError(f"the job's builder, {builder}, is no program")
        name = _typed(data, "name", str)
        return cls(name, builder, tuple(args), env, outputs, structured, root)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the job in the file *path*.

        :raises FormatError: as `parse`, with the file's name.
        """
        try:
            return cls.parse(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"{path}: {error}") from None
        except FormatError as error:
            raise FormatError(f"{path}: {error}") from None

    def graphs(self) -> tuple[str, ...]:
        """The names in ``exportReferencesGraph``: of each a closure is needed.

        :raises FormatError: if the attribute is malformed.
        """
        if self.root is not None:
            return ()
        if self.structured is not None:
            graphs = self.structured.get("exportReferencesGraph", {})
            if not isinstance(graphs, dict):
                raise FormatError("the job's exportReferencesGraph is no attribute set")
            return tuple(graphs)
        words = self.env.get("exportReferencesGraph", "").split()
        names = tuple(words[::2])
        if len(words) % 2 or not all(_GRAPH_NAME.fullmatch(name) for name in names):
            raise FormatError("the job's exportReferencesGraph is no list of names and paths")
        return names

    def sandbox(self, cores: int, closures: Mapping[str, Closure]) -> Sandbox:
        """What Nix gives the builder, with *closures* by the names that `graphs` has.

        :raises FormatError: if the job's ``exportReferencesGraph`` is malformed.
        """
        if self.root is not None:
            return Sandbox(CONTAINER | {name: self.env[name] for name in sorted(self.env)}, {})
        env = {
            "PATH": "/path-not-set",
            "HOME": "/homeless-shelter",
            "NIX_STORE": STORE,
            "NIX_BUILD_CORES": str(cores),
        }
        files = {}
        if self.structured is None:
            # In the order of their names: a variable xPath comes after, and replaces, the one
            # that tells where the file of x is.
            as_file = set(self.env.get("passAsFile", "").split())
            for name, value in sorted(self.env.items()):
                if name in as_file:
                    file = ".attr-" + nixbase32.encode(hashlib.sha256(name.encode()).digest())
                    files[file] = self._placed(value).encode()
                    env[f"{name}Path"] = f"{BUILD}/{file}"
                else:
                    env[name] = value
            for name in self.graphs():
                files[name] = _registration(closures[name]).encode()
        env |= {
            name: BUILD for name in ("NIX_BUILD_TOP", "TMPDIR", "TEMPDIR", "TMP", "TEMP", "PWD")
        }
        env |= {"NIX_LOG_FD": "2", "TERM": "xterm-256color"}
        if self.structured is not None:
            data = {
                **self.structured,
                "outputs": self.outputs,
                **{name: closures[name] for name in self.graphs()},
            }
            files[".attrs.sh"] = self._placed(shell_declarations(data)).encode()
            files[".attrs.json"] = self._placed(nix_json(data)).encode()
            env["NIX_ATTRS_SH_FILE"] = f"{BUILD}/.attrs.sh"
            env["NIX_ATTRS_JSON_FILE"] = f"{BUILD}/.attrs.json"
        return Sandbox({name: self._placed(env[name]) for name in sorted(env)}, files)

    def parameters(
        self,
        *,
        layers: int,
        epoch: int,
        seed: str,
        cores: int,
        shell: str,
        closures: Mapping[str, Closure],
    ) -> bytes:
        """The parameters file that the device hands to init (docs/design.md).

        :raises FormatError: as `sandbox`.
        """
        sandbox = self.sandbox(cores, closures)
        values: list[tuple[str, str | bytes]] = [
            ("layers", str(layers)),
            ("epoch", str(epoch)),
            # As many bits as the kernel's generator holds, whatever the seed's length.
            ("seed", hashlib.sha256(seed.encode()).digest()),
            ("cores", str(cores)),
            ("shell", shell) if self.root is None else ("root", self.root),
            ("builder", self.builder),
            *(("arg", self._placed(arg)) for arg in self.args),
            *(("env", f"{name}={value}") for name, value in sandbox.env.items()),
            *(("file", name.encode() + b"\0" + data) for name, data in sandbox.files.items()),
            *(("output", f"{name}\0{path}") for name, path in self.outputs.items()),
        ]
        return b"".join(parameter(key, value) for key, value in values)

    def _placed(self, text: str) -> str:
        """*text* with the outputs' paths in place of what ``builtins.placeholder`` gave."""
        for name, path in self.outputs.items():
            text = text.replace(placeholder(name), path)
        return text


def placeholder(output: str) -> str:
    """What ``builtins.placeholder`` gives for *output*."""
    digest = hashlib.sha256(f"nix-output:{output}".encode()).digest()
    return "/" + nixbase32.encode(digest)


def nix_json(value: Any) -> str:
    """*value* as Nix prints JSON: keys sorted, no spaces, and its own way with numbers."""
    if isinstance(value, Mapping):
        items = (f"{nix_json(key)}:{nix_json(value[key])}" for key in sorted(value))
        return "{" + ",".join(items) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(nix_json, value)) + "]"
    if isinstance(value, float) and 1e15 <= abs(value) < 1e16:
        # Python turns to exponents at 1e16, Nix's printer at 1e15.
        digits = repr(value).removesuffix(".0")
        sign, digits = ("-", digits[1:]) if value < 0 else ("", digits)
        fraction = digits[1:].rstrip("0")
        return f"{sign}{digits[0]}{'.' if fraction else ''}{fraction}e+15"
    return json.dumps(value, ensure_ascii=False)


def shell_declarations(data: Mapping[str, Any]) -> str:
    """.attrs.sh: *data* as declarations for bash, as Nix writes them.

    What bash cannot hold (deeper nesting, fractions, names that are no variable's) is left out.
    """
    text = ""
    for name, value in sorted(data.items()):
        if not _SHELL_NAME.fullmatch(name):
            continue
        if isinstance(value, Mapping):
            keys = sorted(value)
            words = _shell_words(value[key] for key in keys)
            if words is not None:
                pairs = zip(keys, words, strict=True)
                body = "".join(f"[{_quoted(key)}]={word} " for key, word in pairs)
                text += f"declare -A {name}=({body})\n"
        elif isinstance(value, (list, tuple)):
            words = _shell_words(value)
            if words is not None:
                body = "".join(f"{word} " for word in words)
                text += f"declare -a {name}=({body})\n"
        else:
            word = _shell_word(value)
            if word is not None:
                text += f"declare {name}={word}\n"
    return text


def _shell_words(values: Iterable[Any]) -> list[str] | None:
    words = [_shell_word(value) for value in values]
    return None if None in words else [word for word in words if word is not None]


def _shell_word(value: Any) -> str | None:
    match value:
        case str():
            return _quoted(value)
        case None:
            return "''"
        case bool():
            return "1" if value else ""
        case int() | float():
            # Nix asks a C float whether the number is whole, and prints a C int.
            single = ctypes.c_float(value).value
            if not (single.is_integer() or math.isinf(single)):
                return None
            if isinstance(value, int):
                return str((value - _INT_MIN) % (1 << 32) + _INT_MIN)
            whole = int(value)
            return str(whole if _INT_MIN <= whole < -_INT_MIN else _INT_MIN)
        case _:
            return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _registration(closure: Closure) -> str:
    """*closure* as ``nix-store --load-db`` reads it, without hashes and derivers."""
    return "".join(
        f"{path['path']}\n\n{len(path['references'])}\n"
        + "".join(f"{reference}\n" for reference in path["references"])
        for path in closure
    )


def parameter(key: str, value: str | bytes) -> bytes:
    """A line of a parameters file."""
    data = value.encode() if isinstance(value, str) else value
    return f"{key} {len(data)}\n".encode() + data + b"\n"


def _typed(data: Mapping[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind):
        raise FormatError(f"the job is damaged: {name} is not what it should be")
    return value
